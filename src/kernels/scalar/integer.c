/* Quantized weights in plain C, as docs/numerics.md spells it: what every other table must equal. */
#include <math.h>

#include "base/half.h"
#include "kernels/isa.h"

/* ---- Activations ---- */

static uint32_t largest_bits(const float *x, int n)
{
    uint32_t m = 0;
    for (int i = 0; i < n; i++) {
        uint32_t a = f32_bits(x[i]) & 0x7fffffffu;
        m = a > m ? a : m;
    }
    return m;
}

/* One superblock of n floats. */
static float quantize_block(int16_t *q, const float *x, int n, int bits)
{
    float amax = f32_from(largest_bits(x, n));
    for (int i = 0; i < n; i++)
        q[i] = 0;
    if (!(amax <= 0x1.fffffep127f))
        return NAN;
    if (amax < 0x1p-100f)
        return 0;
    float d = amax / (bits == 8 ? 127.0f : 32512.0f), r = 1.0f / d;
    for (int i = 0; i < n; i++)
        q[i] = (int16_t)((x[i] * r + 0x1.8p23f) - 0x1.8p23f); /* nearest even */
    return d;
}

static void quantize(int16_t *q, float *d, const float *x, int n, int bits)
{
    for (int c = 0; c < n; c += SUPERBLOCK)
        d[c / SUPERBLOCK] = quantize_block(q + c, x + c, n - c < SUPERBLOCK ? n - c : SUPERBLOCK, bits);
    for (int c = n; c % 64 != 0; c++)
        q[c] = 0;
}

/* ---- Matmul ----
 * One superblock of one row after the other; between superblocks the sum lies in y. */

typedef struct Block { int row, k0, n; Panels w; } Block;

static Block block_at(WeightType type, Panels w, int row, int k0, int k)
{
    Panels p = panels_from(type, w, row / PANEL_ROWS, k);
    return (Block){ row, k0, k - k0 < SUPERBLOCK ? k - k0 : SUPERBLOCK, panel_superblock(type, p, k0 / SUPERBLOCK) };
}

static void multiply_int(const IntMatmulArgs *a, WeightType type, const Block *b)
{
    int8_t w[SUPERBLOCK];
    int    s     = b->k0 / SUPERBLOCK;
    float  scale = superblock_scale(type, b->w, b->row % PANEL_ROWS);
    superblock_row_to_i8(type, w, b->w, b->row % PANEL_ROWS, b->n);
    for (int t = 0; t < a->n_tok; t++) {
        const int16_t *q   = a->q + (size_t)t * a->q_stride + b->k0;
        float         *y   = a->y + (size_t)t * a->y_stride + b->row, acc = s ? *y : a->bias ? a->bias[b->row] : 0;
        int32_t        sum = 0;
        for (int i = 0; i < b->n; i++)
            sum += w[i] * q[i];
        *y = fmaf(scale * a->d[(size_t)t * a->d_stride + (size_t)s], (float)sum, acc);
    }
}

static void matmul_int(const IntMatmulArgs *a, WeightType type)
{
    for (int row = 0; row < a->n_panels * PANEL_ROWS; row++)
        for (int k0 = 0; k0 < a->k; k0 += SUPERBLOCK) {
            Block b = block_at(type, a->w, row, k0, a->k);
            multiply_int(a, type, &b);
        }
}

static void matmul_int_q8(const IntMatmulArgs *a) { matmul_int(a, WT_Q8); }
static void matmul_int_q4(const IntMatmulArgs *a) { matmul_int(a, WT_Q4); }

/* ---- Float matmul with what the weights stand for ---- */

static void multiply_wide(const MatmulArgs *a, WeightType type, const Block *b)
{
    int8_t w[SUPERBLOCK];
    float  scale = superblock_scale(type, b->w, b->row % PANEL_ROWS);
    superblock_row_to_i8(type, w, b->w, b->row % PANEL_ROWS, b->n);
    for (int t = 0; t < a->n_tok; t++) {
        const float *x = a->x + (size_t)t * a->x_stride + b->k0;
        float       *y = a->y + (size_t)t * a->y_stride + b->row, acc = b->k0 ? *y : a->bias ? a->bias[b->row] : 0, c = 0;
        for (int i = 0; i < b->n; i++)
            c = fmaf(scale * (float)w[i], x[i], c);
        *y = acc + c;
    }
}

static void matmul_wide(const MatmulArgs *a, WeightType type)
{
    _Static_assert((int)K_CHUNK == (int)SUPERBLOCK, "a chunk has one scale");
    for (int row = 0; row < a->n_panels * PANEL_ROWS; row++)
        for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
            Block b = block_at(type, a->w, row, k0, a->k);
            multiply_wide(a, type, &b);
        }
}

static void matmul_q8(const MatmulArgs *a) { matmul_wide(a, WT_Q8); }
static void matmul_q4(const MatmulArgs *a) { matmul_wide(a, WT_Q4); }

void kernels_fill_integer(Kernels *k)
{
    k->quantize          = quantize;
    k->matmul_int[WT_Q8] = matmul_int_q8;
    k->matmul_int[WT_Q4] = matmul_int_q4;
    k->matmul[WT_Q8]     = matmul_q8;
    k->matmul[WT_Q4]     = matmul_q4;
}
