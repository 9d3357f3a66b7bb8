/* The GGUF types in plain C, as docs/numerics.md spells them: what every other table must equal. */
#include <assert.h>
#include <math.h>

#include "base/half.h"
#include "kernels/isa.h"

/* One superblock of one row. */
typedef struct Block {
    WeightType type;
    int        row, k0, n;
    BlockRow   w;
} Block;

static Block block_at(WeightType type, Panels w, int row, int k0, int k)
{
    Block  b = { type, row, k0, k - k0 < SUPERBLOCK ? k - k0 : SUPERBLOCK, { .dmin = 0 } };
    Panels p = panel_superblock(type, panels_from(type, w, row / PANEL_ROWS, k), k0 / SUPERBLOCK);
    panel_block_row(type, &b.w, p, row % PANEL_ROWS, b.n);
    return b;
}

/* ---- Integers ---- */

/* q8_0, q4_0: one step for each 32. */
static float add_runs(const Block *b, const int16_t *q, float dx, float acc)
{
    for (int i = 0; i < b->n; i += 32) {
        int32_t sum = 0;
        for (int j = i; j < i + 32; j++)
            sum += b->w.code[j] * q[j];
        acc = fmaf(f16_to_f32(b->w.d[i / 32]) * dx, (float)sum, acc);
    }
    return acc;
}

/* K-quants: all sub-blocks in one integer, all minima in another. */
static float add_superblock(const Block *b, const int16_t *q, float dx, float acc)
{
    int     sub_k = b->type == WT_Q6_K ? 16 : 32;
    int32_t isum = 0, msum = 0;
    for (int i = 0; i < SUPERBLOCK; i++) {
        isum += b->w.sub[i / sub_k] * b->w.code[i] * q[i];
        msum += b->w.min[i / 32] * q[i];
    }
    acc = fmaf(f16_to_f32(b->w.d[0]) * dx, (float)isum, acc);
    return b->type == WT_Q6_K ? acc : fmaf(-(f16_to_f32(b->w.dmin) * dx), (float)msum, acc);
}

static void multiply_int(const IntMatmulArgs *a, const Block *b)
{
    bool runs = b->type == WT_Q8_0 || b->type == WT_Q4_0;
    for (int t = 0; t < a->n_tok; t++) {
        const int16_t *q  = a->q + (size_t)t * a->q_stride + b->k0;
        float          dx = a->d[(size_t)t * a->d_stride + (size_t)(b->k0 / SUPERBLOCK)];
        float         *y  = a->y + (size_t)t * a->y_stride + b->row, acc = b->k0 ? *y : a->bias ? a->bias[b->row] : 0;
        *y = runs ? add_runs(b, q, dx, acc) : add_superblock(b, q, dx, acc);
    }
}

static void matmul_int(const IntMatmulArgs *a, WeightType type)
{
    assert(a->bits == 8); /* with 16 the integers pass int32 */
    for (int row = 0; row < a->n_panels * PANEL_ROWS; row++)
        for (int k0 = 0; k0 < a->k; k0 += SUPERBLOCK) {
            Block b = block_at(type, a->w, row, k0, a->k);
            multiply_int(a, &b);
        }
}

/* ---- Float matmul with what the weights stand for ---- */

static void matmul_wide(const MatmulArgs *a, WeightType type)
{
    float w[SUPERBLOCK];
    for (int row = 0; row < a->n_panels * PANEL_ROWS; row++) {
        Panels p = panels_from(type, a->w, row / PANEL_ROWS, a->k);
        for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
            int n = a->k - k0 < K_CHUNK ? a->k - k0 : K_CHUNK;
            panel_row_to_f32(type, w, panel_superblock(type, p, k0 / SUPERBLOCK), row % PANEL_ROWS, n);
            for (int t = 0; t < a->n_tok; t++) {
                const float *x = a->x + (size_t)t * a->x_stride + k0;
                float       *y = a->y + (size_t)t * a->y_stride + row, acc = k0 ? *y : a->bias ? a->bias[row] : 0, c = 0;
                for (int i = 0; i < n; i++)
                    c = fmaf(w[i], x[i], c);
                *y = acc + c;
            }
        }
    }
}

#define GGUF_TYPE(name, type)                                                     \
    static void matmul_int_##name(const IntMatmulArgs *a) { matmul_int(a, type); } \
    static void matmul_##name(const MatmulArgs *a) { matmul_wide(a, type); }

GGUF_TYPE(q8_0, WT_Q8_0)
GGUF_TYPE(q4_0, WT_Q4_0)
GGUF_TYPE(q4_k, WT_Q4_K)
GGUF_TYPE(q5_k, WT_Q5_K)
GGUF_TYPE(q6_k, WT_Q6_K)

void kernels_fill_gguf(Kernels *k)
{
    k->matmul_int[WT_Q8_0] = matmul_int_q8_0, k->matmul[WT_Q8_0] = matmul_q8_0;
    k->matmul_int[WT_Q4_0] = matmul_int_q4_0, k->matmul[WT_Q4_0] = matmul_q4_0;
    k->matmul_int[WT_Q4_K] = matmul_int_q4_k, k->matmul[WT_Q4_K] = matmul_q4_k;
    k->matmul_int[WT_Q5_K] = matmul_int_q5_k, k->matmul[WT_Q5_K] = matmul_q5_k;
    k->matmul_int[WT_Q6_K] = matmul_int_q6_k, k->matmul[WT_Q6_K] = matmul_q6_k;
}
