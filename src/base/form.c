#include "base/form.h"

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
