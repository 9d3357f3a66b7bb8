/* bench/timing.h: what the programs of this folder share: medians, and whole numbers on the
 * command line. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/progress.h"

static inline int timing_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void timing_sort(double *s, int n)
{
    qsort(s, (size_t)n, sizeof *s, timing_by_value);
}

/* The median of n numbers. Sorts them. */
static inline double median(double *s, int n)
{
    timing_sort(s, n);
    return s[n / 2];
}

/* The value of an option, 1 .. max. Ends the program with status 2 if it is not such a number. */
static inline int number_option(const char *option, const char *text, int max)
{
    char *end;
    long  n = strtol(text, &end, 10);
    if (*end || end == text || n < 1 || n > max) {
        fprintf(stderr, "%s: %s: expected 1 to %d, found '%s'\n", program_invocation_short_name,
                option, max, text);
        exit(2);
    }
    return (int)n;
}

#endif
