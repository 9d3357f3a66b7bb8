/* report/forms.c: how the reports spell numbers. */
#include "report/info.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* Digits after the point that leave `digits` in all, for 0 <= x < 1000; 9.996 in three digits is 10.0. */
static int decimals(double x, int digits)
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
    snprintf(buf, n, "%.*f %s", u == 0 ? 0 : decimals(v, 3), v, units[u]);
    return buf;
}

const char *form_si(double v, char *buf, size_t n)
{
    static const char *const units[] = { "", " k", " M", " G", " T", " P", " E", " Z", " Y" };
    int u = 0;
    for (; v >= 999.95 && u < 8; u++)
        v /= 1000;
    snprintf(buf, n, "%.*f%s", u == 0 ? 0 : decimals(v, 4), v, units[u]);
    return buf;
}

const char *form_percent(double part, double whole, char *buf, size_t n)
{
    snprintf(buf, n, "%.1f%%", whole > 0 ? 100 * part / whole : 0.0);
    return buf;
}

const char *form_ratio(double v, char *buf, size_t n)
{
    if (v <= 0)
        snprintf(buf, n, "-");
    else
        snprintf(buf, n, "%.*f", v < 1 ? 2 : decimals(v < 999 ? v : 999, 3), v);
    return buf;
}

const WeightType info_types[WT_COUNT] = { WT_Q4, WT_Q4_0, WT_Q4_K, WT_Q5_K, WT_Q6_K, WT_Q8, WT_Q8_0, WT_F16, WT_BF16, WT_F32 };

const char *info_type_name(WeightType t)
{
    static const char *const names[WT_COUNT] = { [WT_Q4] = "Q4", [WT_Q8] = "Q8", [WT_F16] = "F16", [WT_BF16] = "BF16", [WT_F32] = "F32",
                                                  [WT_Q8_0] = "Q8_0", [WT_Q4_0] = "Q4_0", [WT_Q4_K] = "Q4_K", [WT_Q5_K] = "Q5_K",
                                                  [WT_Q6_K] = "Q6_K" };
    return names[t];
}

double info_bits(const Count *n) { return n->params ? 8.0 * (double)n->bytes / (double)n->params : 0; }

const char *form_types(unsigned types, char *buf, size_t n)
{
    buf[0] = '\0';
    for (int i = 0; i < WT_COUNT; i++)
        if (types >> info_types[i] & 1) {
            size_t at = strlen(buf);
            snprintf(buf + at, n - at, "%s%s", at ? "," : "", info_type_name(info_types[i]));
        }
    return buf;
}

const char *form_shape(const CountPart *p, char *buf, size_t n)
{
    if (p->k)
        snprintf(buf, n, "[%d, %d]", p->rows, p->k);
    else
        snprintf(buf, n, "[%d]", p->rows);
    return buf;
}

const char *info_layout(const Count *n)
{
    int panels = 0;
    for (int i = 0; i < n->n_parts; i++)
        panels += n->part[i].n_panels;
    return n->n_row_major == 0 ? "rows16" : panels == 0 ? "rows" : "mixed";
}

const char *info_seen(const Info *info)
{
    return info->cfg->window && info->cfg->window < info->load.seq ? "window" : "causal";
}

const char *info_answer(const CheckPart *p)
{
    static const char *const words[] = { [CHECK_OK] = "ok", [CHECK_BAD] = "wrong", [CHECK_NONE] = "none" };
    return words[p->answer];
}
