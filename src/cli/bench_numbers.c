/* tblock bench: lists of numbers in options, such as --threads 1,2,4. */
#include "bench.h"

#include "command.h"

#include <math.h>
#include <stdlib.h>

#include "base/text.h"

bool counts_read(CountList *c, const char *option, const char *text, int min, int max,
                 tblock_error *err)
{
    const char *s = text;
    c->n = 0;
    do {
        int x;
        if (c->n == COUNTS_MOST)
            return fail(err, TBLOCK_USAGE, "--%s: expected at most %d numbers, found '%s'", option,
                        COUNTS_MOST, text);
        if (!form_read_count(&s, max, &x) || x < min || (*s && *s != ','))
            return fail(err, TBLOCK_USAGE, "--%s: expected integers from %d to %d separated by "
                                               "commas, found '%s'", option, min, max,
                            text);
        c->value[c->n++] = x;
    } while (*s++ == ',');
    return true;
}

int counts_largest(const CountList *c)
{
    int largest = 0;
    for (int i = 0; i < c->n; i++)
        largest = c->value[i] > largest ? c->value[i] : largest;
    return largest;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

Spread spread_of(double *seconds, int n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_value);
    return (Spread){ (seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds[0], seconds[n - 1] };
}

int repetitions(double seconds)
{
    double n = ceil(TIMING_SECONDS / (seconds > 0 ? seconds : 1e-9));
    return n < 1 ? 1 : n > 1e6 ? 1000000 : (int)n;
}
