/* model/retype.c: widens rows of weights, checks them, narrows or quantizes them, and compares the
 * result with the original. */
#include "model/model_writer.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "quant/codes.h"

enum { ALIGN = 64 };

/* Bytes for one panel of any type; one row of floats follows it. */
static size_t panel_room(int k)
{
    size_t most = 0;
    for (int t = 0; t < WT_COUNT; t++)
        most = panel_bytes((WeightType)t, k) > most ? panel_bytes((WeightType)t, k) : most;
    return round_up(most, ALIGN);
}

size_t retype_scratch_bytes(int k)
{
    return panel_room(k) + round_up((size_t)k * sizeof(float), ALIGN);
}

size_t retype_rows_bytes(int k) { return round_up(PANEL_ROWS * (size_t)k * sizeof(float), ALIGN); }

/* ---- Reading --------------------------------------------------------------------------------- */

static bool aligned(const void *p) { return (uintptr_t)p % sizeof(float) == 0; }

void retype_read(const TensorSpec *s, const CheckedTensor *t, int item, int first, int n,
                 float *rows, void *scratch)
{
    size_t k = (size_t)s->k;
    assert(n >= 1 && first % PANEL_ROWS + n <= PANEL_ROWS && first + n <= s->rows);
    if (t->rows) {
        row_source_read_f32(t->rows, item, first, n, rows, scratch);
        return;
    }
    if (!t->panels) {
        elements_to_f32(t->type, rows, checked_rows(s, t, item, first, n, scratch), (size_t)n * k);
        return;
    }
    Panels         p    = panels_from(t->type, checked_panels(t),
                                      item * panel_count(s->rows) + first / PANEL_ROWS, s->k);
    unsigned char *copy = scratch;
    for (int i = 0; i < part_count(t->type); i++) {
        size_t bytes = part_bytes(t->type, i, s->k);
        if (!aligned(p.part[i]))
            p.part[i] = memcpy(copy, p.part[i], bytes);
        copy += bytes;
    }
    for (int r = 0; r < n; r++)
        panel_row_to_f32(t->type, rows + (size_t)r * k, p, first % PANEL_ROWS + r, s->k);
}

/* ---- Storing --------------------------------------------------------------------------------- */

static void blame(RetypeReport *report, RetypeFault fault, size_t i, int k, float value)
{
    report->fault  = fault;
    report->row    = (int)(i / (size_t)k);
    report->column = (int)(i % (size_t)k);
    report->value  = value;
}

static bool check_finite(const float *x, size_t n, int k, RetypeReport *report)
{
    size_t i = elements_first_nonfinite(WT_F32, x, n);
    if (i < n)
        blame(report, RETYPE_NOT_FINITE, i, k, x[i]);
    return i == n;
}

/* The largest magnitude that a type can hold. For a quantized type: the largest scale, an f16,
 * times the largest integer. */
static float limit_of(WeightType type)
{
    static const float most[WT_COUNT] = { [WT_F32] = FLT_MAX,
                                          [WT_F16] = 65504,
                                          [WT_BF16] = 0x1.fep127f,
                                          [WT_Q8] = 65504.0f * Q8_MOST,
                                          [WT_Q4] = 65504.0f * Q4_MOST };
    return most[type];
}

/* Narrow to 16 bits. A finite weight that becomes infinite is too large; one that becomes 0 is
 * counted. */
static bool narrow(WeightType type, uint16_t *out, const float *x, size_t n, int k,
                   RetypeReport *report)
{
    uint16_t infinite = type == WT_F16 ? 0x7c00 : 0x7f80;
    elements_from_f32(type, out, x, n);
    for (size_t i = 0; i < n; i++) {
        uint16_t size = out[i] & 0x7fff;
        if (size == infinite) {
            blame(report, RETYPE_TOO_LARGE, i, k, x[i]);
            return false;
        }
        if (size < (type == WT_F16 ? 1 : BF16_LEAST) && x[i] != 0) {
            out[i] = 0;
            report->flushed++;
        }
    }
    return true;
}

static bool store_floats(WeightType type, bool panels, void *to, const float *rows, int n, int k,
                         void *scratch, RetypeReport *report)
{
    size_t      count = (size_t)n * (size_t)k;
    const void *typed = rows;
    if (type != WT_F32) {
        typed = panels ? scratch : to;
        if (!narrow(type, panels ? scratch : to, rows, count, k, report))
            return false;
    }
    if (panels)
        panel_pack(type, to, typed, n, k);
    else if (type == WT_F32)
        memcpy(to, rows, count * sizeof *rows);
    return true;
}

/* The index of the largest magnitude of n floats. */
static size_t largest(const float *x, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        at = fabsf(x[i]) > fabsf(x[at]) ? i : at;
    return at;
}

static bool store_quantized(WeightType type, void *const to[MAX_PARTS], const float *rows,
                            const float *weight, int n, int k, RetypeReport *report)
{
    const float most = limit_of(type);
    for (int r = 0; r < n; r++)
        for (int c = 0; c < k; c += SUPERBLOCK) {
            size_t at = (size_t)r * (size_t)k + (size_t)c,
                   len = (size_t)(k - c < SUPERBLOCK ? k - c : SUPERBLOCK);
            size_t peak = at + largest(rows + at, len);
            if (fabsf(rows[peak]) > most) {
                blame(report, RETYPE_TOO_LARGE, peak, k, rows[peak]);
                return false;
            }
        }
    panel_quantize(type, to, rows, weight, n, k);
    Panels p = { { to[0], to[1], to[2] } };
    for (int c = 0; c < k; c += SUPERBLOCK)
        for (int r = 0; r < n; r++) {
            const float *x = rows + (size_t)r * (size_t)k + c;
            if (superblock_scale(type, panel_superblock(type, p, c / SUPERBLOCK), r) != 0)
                continue;
            for (int i = 0; i < SUPERBLOCK && c + i < k; i++)
                report->flushed += x[i] != 0;
        }
    return true;
}

/* Compare the stored rows with the original ones. */
static void compare(WeightType type, bool panels, void *const to[MAX_PARTS], const float *rows,
                    int n, int k, float *row, RetypeReport *report)
{
    Panels p = { { to[0], to[1], to[2] } };
    for (int r = 0; r < n; r++) {
        const float *x = rows + (size_t)r * (size_t)k, *y = row;
        double       error2 = 0, sum2 = 0;
        if (type == WT_F32)
            y = x;
        else if (panels)
            panel_row_to_f32(type, row, p, r, k);
        else
            elements_to_f32(type, row,
                            (const char *)to[0] + (size_t)r * (size_t)k * weight_type_bytes(type),
                            (size_t)k);
        for (int i = 0; i < k; i++) {
            double d = (double)y[i] - (double)x[i];
            error2 += d * d;
            sum2   += (double)x[i] * (double)x[i];
        }
        report->error2 += error2;
        report->sum2   += sum2;
    }
}

void retype_store(WeightType type, bool panels, void *const to[MAX_PARTS], const float *rows,
                  const float *weight, int n, int k, bool measure, void *scratch,
                  RetypeReport *report)
{
    size_t count = (size_t)n * (size_t)k;
    *report = (RetypeReport){ .n = count };
    if (!check_finite(rows, count, k, report))
        return;
    bool good = weight_type_quantized(type)
        ? store_quantized(type, to, rows, weight, n, k, report)
        : store_floats(type, panels, to[0], rows, n, k, scratch, report);
    if (good && measure)
        compare(type, panels, to, rows, n, k, (float *)(void *)((char *)scratch + panel_room(k)),
                report);
}

/* Set to 0 those of n bf16 elements that are too small. */
static void flush_bf16(uint16_t *x, size_t n, RetypeReport *report)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t size = x[i] & 0x7fff;
        if (size != 0 && size < BF16_LEAST) {
            x[i] = 0;
            report->flushed++;
        }
    }
}

void retype_copy(const TensorSpec *s, const CheckedTensor *t, bool panels,
                 void *const to[MAX_PARTS], int block, int item, int first, int n, void *rows,
                 RetypeReport *report)
{
    size_t count = (size_t)n * (size_t)s->k;
    *report = (RetypeReport){ .n = count };
    /* Padding is copied as it is. Opening a file does not check it; info --check does. */
    if (t->panels) {
        Panels p = panels_from(t->type, checked_panels(t), block, s->k);
        for (int i = 0; i < part_count(t->type); i++)
            memcpy(to[i], p.part[i], part_bytes(t->type, i, s->k));
        if (t->type == WT_BF16)
            flush_bf16(to[0], part_bytes(t->type, 0, s->k) / sizeof(uint16_t), report);
        return;
    }
    const void *from = checked_rows(s, t, item, first, n, rows);
    if (t->type == WT_BF16) {
        if (from != rows)
            from = memcpy(rows, from, count * sizeof(uint16_t));
        flush_bf16(rows, count, report);
    }
    if (panels)
        panel_make(t->type, to, from, n, s->k);
    else
        memcpy(to[0], from, count * weight_type_bytes(t->type));
}

void retype_vector(const TensorSpec *s, const CheckedTensor *t, float *out, RetypeReport *report)
{
    size_t n = (size_t)s->rows;
    *report  = (RetypeReport){ .n = n };
    checked_vector(s, t, out);
    check_finite(out, n, 1, report);
}

/* ---- Reports --------------------------------------------------------------------------------- */

void retype_sum(RetypeReport *sum, const RetypeReport *later, int first_row)
{
    sum->error2  += later->error2;
    sum->sum2    += later->sum2;
    sum->n       += later->n;
    sum->flushed += later->flushed;
    if (sum->fault == RETYPE_GOOD && later->fault != RETYPE_GOOD) {
        sum->fault  = later->fault;
        sum->row    = first_row + later->row;
        sum->column = later->column;
        sum->value  = later->value;
    }
}

bool retype_fail(const RetypeReport *report, const char *path, const TensorSpec *s, WeightType type,
                 Error *err)
{
    char  place[32];
    float x = report->value;
    if (s->k)
        snprintf(place, sizeof place, "[%d, %d]", report->row, report->column);
    else
        snprintf(place, sizeof place, "[%d]", report->row);
    if (report->fault == RETYPE_NOT_FINITE)
        return fail(err, INPUT, "%s: tensor %s: element %s: expected a finite weight, found %s",
                    path, s->name, place,
                    x != x      ? "NaN"
                        : x > 0 ? "infinity"
                                : "-infinity");
    return fail(err, INPUT, "%s: tensor %s: element %s: expected at most %g for %s, found %g", path,
                s->name, place, (double)limit_of(type), weight_type_name(type), (double)x);
}
