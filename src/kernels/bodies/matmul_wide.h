/* kernels/bodies/matmul_wide.h: y = W x + bias for quantized weights as the floats that they stand for (--math f32): blocks
 * of bodies/matmul.h over weights that are widened once for each block of tokens, whatever the number of tokens. */
#ifndef KERNELS_BODIES_MATMUL_WIDE_H
#define KERNELS_BODIES_MATMUL_WIDE_H

#include "quant/codes.h"

#include "kernels/bodies/int_digits.h"
#include "kernels/bodies/int_unpack.h"

_Static_assert((int)K_CHUNK == (int)SUPERBLOCK, "a chunk has one scale");

/* Steps 256 * s .. + n of panels p .. p + n_p to [n][n_p][16]: scale * (float)integer, rounded once. */
V_INLINE void unpack_wide(float *out, WeightType type, const Walk *w, int p, int n_p, int s, int n)
{
    char bytes[SUPERBLOCK * LANES];
    for (int j = 0; j < n_p; j++) {
        f32x16 scale = v_load_f16(walk_scales(type, w, p + j, s));
        float *to    = out + j * LANES;
        unpack_int(bytes, type, FORM_BYTES, false, w, p + j, s, (n + 63) / 64, 64);
        for (int k = 0; k < n; k += 4) {
            i512 four = i_load(bytes + 16 * k);
            UNROLL for (int i = 0; i < 4; i++) {
                if (k + i < n)
                    v_store(to, v_mul(scale, i_byte_to_f32(four, i)));
                to += n_p * LANES;
            }
        }
    }
}

V_INLINE void wide_chunk(const MatmulArgs *a, WeightType type, const Walk *w, const float *xs, float *ws, int t0,
                         int n_tok, int s)
{
    int n     = a->k - s * K_CHUNK < K_CHUNK ? a->k - s * K_CHUNK : K_CHUNK;
    int tiles = (n_tok + BLOCK_T - 1) / BLOCK_T;
    for (int p = 0, n_p; p < a->n_panels; p += n_p) {
        n_p = a->n_panels - p < LANES_PANELS ? 1 : LANES_PANELS;
        unpack_wide(ws, type, w, p, n_p, s, n);
        for (int i = 0; i < tiles; i++) {
            int  t = n_tok * i / tiles, end = n_tok * (i + 1) / tiles;
            Tile b = { .w = ws, .x = xs + (size_t)t * K_CHUNK, .n = n, .y_stride = a->y_stride, .first = s == 0 };
            b.y    = a->y + (size_t)(t0 + t) * a->y_stride + (size_t)p * LANES;
            b.bias = a->bias ? a->bias + (size_t)p * LANES : NULL;
            tile_any(&b, n_p, end - t);
        }
    }
}

V_INLINE void matmul_wide(const MatmulArgs *a, WeightType type)
{
    float *xs = a->scratch, *ws = xs + BLOCK_TOKENS * K_CHUNK;
    Walk   w  = walk_of(type, a->w, a->k);
    for (int t0 = 0; t0 < a->n_tok; t0 += BLOCK_TOKENS) {
        int n_tok = a->n_tok - t0 < BLOCK_TOKENS ? a->n_tok - t0 : BLOCK_TOKENS;
        for (int k0 = 0; k0 < a->k; k0 += K_CHUNK) {
            gather_x(xs, a->x + (size_t)t0 * a->x_stride, a->x_stride, n_tok, k0, a->k - k0 < K_CHUNK ? a->k - k0 : K_CHUNK);
            wide_chunk(a, type, &w, xs, ws, t0, n_tok, k0 / K_CHUNK);
        }
    }
}

static void matmul_q8(const MatmulArgs *a) { matmul_wide(a, WT_Q8); }
static void matmul_q4(const MatmulArgs *a) { matmul_wide(a, WT_Q4); }

static void fill_matmul_wide(Kernels *k)
{
    k->matmul[WT_Q8] = matmul_q8;
    k->matmul[WT_Q4] = matmul_q4;
}

#endif
