/* base/form.c: rounds numbers to a fixed number of digits and chooses their unit. */
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

int form_decimals(double x, int digits)
{
    int before = 1;
    while (before < 3 && x >= pow(10, before) - 0.5 * pow(10, before - digits))
        before++;
    return digits - before;
}

const char *form_bytes(double v, char *buf, size_t n)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    int u = 0;
    for (; v >= 999.5 && u < 6; u++)
        v /= 1000;
    snprintf(buf, n, "%.*f %s", u == 0 ? 0 : form_decimals(v, 3), v, units[u]);
    return buf;
}

const char *form_count(uint64_t v, char *buf, size_t n)
{
    char   digits[24];
    int    len = snprintf(digits, sizeof digits, "%" PRIu64, v);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < n; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *form_si(double v, char *buf, size_t n)
{
    static const char *const units[] = { "", " k", " M", " G", " T", " P", " E", " Z", " Y" };
    int u = 0;
    for (; v >= 999.95 && u < 8; u++)
        v /= 1000;
    snprintf(buf, n, "%.*f%s", u == 0 ? 0 : form_decimals(v, 4), v, units[u]);
    return buf;
}

const char *form_percent(double part, double whole, char *buf, size_t n)
{
    snprintf(buf, n, "%.1f%%", whole > 0 ? 100 * part / whole : 0.0);
    return buf;
}

const char *form_ratio(double v, char *buf, size_t n)
{
    if (!(v > 0))
        snprintf(buf, n, "-");
    else
        snprintf(buf, n, "%.*f", v < 1 ? 2 : form_decimals(v < 999 ? v : 999, 3), v);
    return buf;
}

bool form_read_count(const char **s, int max, int *out)
{
    const char *start = *s;
    long long   x = 0;
    for (; **s >= '0' && **s <= '9'; ++*s)
        if (x <= max)
            x = 10 * x + (**s - '0');
    *out = (int)(x <= max ? x : 0);
    return *s > start && x <= max;
}
