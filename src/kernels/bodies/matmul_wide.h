/* kernels/bodies/matmul_wide.h: y = W x + bias for dequantized weights (--math f32): blocks of
 * bodies/matmul.h over weights that are widened once for each block of tokens, for any number of
 * tokens. */
#ifndef KERNELS_BODIES_MATMUL_WIDE_H
#define KERNELS_BODIES_MATMUL_WIDE_H

#include "kernels/bodies/gguf_codes.h"
#include "kernels/bodies/int_unpack.h"
#include "kernels/bodies/matmul.h"

_Static_assert((int)K_CHUNK == (int)SUPERBLOCK, "a chunk has one scale");

/* Steps 256 * s .. + n of panels p .. p + n_p to [n][n_p][16]: scale * (float)integer, rounded
 * once. */
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

/* Four k of codes as floats: (codes - offset) * d - min, each step rounded. */
V_INLINE float *put_wide(float *to, int n_p, i512 codes, f32x16 offset, f32x16 d, const f32x16 *min)
{
    UNROLL for (int i = 0; i < 4; i++, to += n_p * LANES) {
        /* the difference is exact */
        f32x16 v = v_mul(d, v_sub(i_byte_to_f32(codes, i), offset));
        v_store(to, min ? v_sub(v, *min) : v);
    }
    return to;
}

/* One panel of a GGUF type: n (whole runs) steps, n_p * 16 floats apart. */
V_INLINE void unpack_wide_gguf(float *to, WeightType type, const Walk *w, int p, int n_p, int s,
                               int n)
{
    const unsigned char *codes = walk_to(w, 0, p, s), *sub = walk_to(w, 1, p, s);
    const unsigned char *scales = walk_to(w, gguf_scales_part(type), p, s);
    const bool           minima = weight_type_has_minima(type), runs = gguf_has_runs(type);
    const int            fours = 2 * gguf_run_subs(type);
    const bool           adds = weight_type_adds(type);
    i512                 v[8];
    if (!runs)
        gguf_subs(v, type, sub);
    for (int run = 0; run < n / RUN; run++, codes += gguf_run_bytes(type))
        for (int i = 0; i < 4; i++) {
            int    j = gguf_sub(type, run, i);
            int    at = runs ? run * RUN / gguf_scale_k(type) : 0;
            f32x16 d = gguf_scale(type, scales, adds ? 2 * run : at), min = v_zero(),
                   offset = v_set((float)weight_type_offset(type));
            i512   pair[2];
            if (!runs)
                d = v_mul(d, i_byte_to_f32(v[j / 4], j % 4));
            if (adds) /* less -m */
                min = v_mul(gguf_scale(type, scales, 2 * run + 1), v_set(-1));
            else if (minima)
                min = v_mul(gguf_scale(type, scales, 1), i_byte_to_f32(v[fours + j / 4], j % 4));
            if (weight_type_has_zeros(type))
                offset = i_to_f32(gguf_zeros(sub + at * LANES));
            gguf_pair(type, codes, i, &pair[0], &pair[1]);
            for (int half = 0; half < 2; half++)
                to = put_wide(to, n_p, pair[half], offset, d,
                              minima ? &min : NULL);
        }
}

/* All panels over chunk number s for tokens t0 .. t0 + n_tok, whose x is in xs. ws: buffer for the
 * widened weights. */
V_INLINE void wide_chunk(const MatmulArgs *a, WeightType type, const Walk *w, const float *xs,
                         float *ws, int t0, int n_tok, int s)
{
    int n     = a->k - s * K_CHUNK < K_CHUNK ? a->k - s * K_CHUNK : K_CHUNK;
    int tiles = (n_tok + BLOCK_T - 1) / BLOCK_T;
    for (int p = 0, n_p; p < a->n_panels; p += n_p) {
        n_p = a->n_panels - p < LANES_PANELS ? 1 : LANES_PANELS;
        for (int j = 0; weight_type_gguf(type) && j < n_p; j++)
            unpack_wide_gguf(ws + j * LANES, type, w, p + j, n_p, s, n);
        if (!weight_type_gguf(type))
            unpack_wide(ws, type, w, p, n_p, s, n);
        for (int i = 0; i < tiles; i++) {
            int  t = n_tok * i / tiles, end = n_tok * (i + 1) / tiles;
            Tile b = { .w = ws,
                       .x = xs + (size_t)t * K_CHUNK,
                       .n = n,
                       .y_stride = a->y_stride,
                       .first = s == 0 };
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
            gather_x(xs, a->x + (size_t)t0 * a->x_stride, a->x_stride, n_tok, k0,
                     a->k - k0 < K_CHUNK ? a->k - k0 : K_CHUNK);
            wide_chunk(a, type, &w, xs, ws, t0, n_tok, k0 / K_CHUNK);
        }
    }
}

/* No stream here: weights are widened once for all tokens, even if they are few. */
#define MATMUL_WIDE(ID, name, ...) \
    static void matmul_##name(const MatmulArgs *a) { matmul_wide(a, WT_##ID); }
QUANTIZED_TYPES(MATMUL_WIDE)

#endif
