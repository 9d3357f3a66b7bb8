#include "quant/quant.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"

/* One row for each weight type. group: consecutive k of one row that lie together in a panel. */
static const struct {
    const char *name;
    int         bytes, group;
} types[WT_COUNT] = {
    [WT_F32]  = { "f32", 4, 1 },
    [WT_F16]  = { "f16", 2, 1 },
    [WT_BF16] = { "bf16", 2, 2 },
};

const char *weight_type_name(WeightType t)
{
    assert(t < WT_COUNT);
    return types[t].name;
}

bool weight_type_parse(const char *name, WeightType *out)
{
    for (int t = 0; t < WT_COUNT; t++)
        if (strcmp(name, types[t].name) == 0) {
            *out = (WeightType)t;
            return true;
        }
    return false;
}

size_t weight_type_bytes(WeightType t)
{
    assert(t < WT_COUNT);
    return (size_t)types[t].bytes;
}

static size_t groups(WeightType t, int k)
{
    return ((size_t)k + (size_t)types[t].group - 1) / (size_t)types[t].group;
}

size_t panel_bytes(WeightType t, int k)
{
    size_t n;
    if (k < 1 || !mul_size(groups(t, k), (size_t)(types[t].group * types[t].bytes * PANEL_ROWS), &n))
        return 0;
    return n;
}

bool matrix_bytes(WeightType t, int rows, int k, size_t *n)
{
    size_t one = panel_bytes(t, k);
    return rows >= 1 && one != 0 && mul_size((size_t)panel_count(rows), one, n);
}

int panel_shape(WeightType t, int rows, int k, int64_t shape[4])
{
    int rank      = 0;
    shape[rank++] = panel_count(rows);
    shape[rank++] = (int64_t)groups(t, k);
    shape[rank++] = PANEL_ROWS;
    if (types[t].group > 1)
        shape[rank++] = types[t].group;
    return rank;
}

/* Where element (r, c) stands in a panel, in elements. */
static size_t place(WeightType t, int r, int c)
{
    int g = types[t].group;
    return ((size_t)(c / g) * PANEL_ROWS + (size_t)r) * (size_t)g + (size_t)(c % g);
}

void panel_pack(WeightType t, void *panel, const void *rows, int n_rows, int k)
{
    assert(n_rows >= 1 && n_rows <= PANEL_ROWS && k >= 1);
    size_t               size = weight_type_bytes(t);
    const unsigned char *in   = rows;
    unsigned char       *out  = panel;
    if (n_rows < PANEL_ROWS || k % types[t].group != 0)
        memset(panel, 0, panel_bytes(t, k));
    for (int r = 0; r < n_rows; r++)
        for (int c = 0; c < k; c++, in += size) {
            unsigned char *to = out + place(t, r, c) * size;
            if (size == 4)
                memcpy(to, in, 4);
            else
                memcpy(to, in, 2);
        }
}

void panel_row_to_f32(WeightType t, float *out, const void *panel, int r, int k)
{
    assert(r >= 0 && r < PANEL_ROWS);
    const unsigned char *in   = panel;
    size_t               size = weight_type_bytes(t);
    for (int c = 0; c < k; c++)
        elements_to_f32(t, out + c, in + place(t, r, c) * size, 1);
}

void elements_to_f32(WeightType t, float *out, const void *in, size_t n)
{
    const uint16_t *half = in;
    switch (t) {
    case WT_F32:
        memcpy(out, in, n * sizeof *out);
        return;
    case WT_F16:
        for (size_t i = 0; i < n; i++)
            out[i] = f16_to_f32(half[i]);
        return;
    case WT_BF16:
        for (size_t i = 0; i < n; i++)
            out[i] = bf16_to_f32(half[i]);
        return;
    case WT_COUNT:
        break;
    }
    assert(t < WT_COUNT); /* a new type without its conversion */
}

void elements_from_f32(WeightType t, void *out, const float *in, size_t n)
{
    uint16_t *half = out;
    switch (t) {
    case WT_F32:
        memcpy(out, in, n * sizeof *in);
        return;
    case WT_F16:
        for (size_t i = 0; i < n; i++)
            half[i] = f32_to_f16(in[i]);
        return;
    case WT_BF16:
        for (size_t i = 0; i < n; i++)
            half[i] = f32_to_bf16(in[i]);
        return;
    case WT_COUNT:
        break;
    }
    assert(t < WT_COUNT); /* a new type without its conversion */
}
