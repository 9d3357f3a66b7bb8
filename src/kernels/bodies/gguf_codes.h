/* kernels/bodies/gguf_codes.h: a superblock of a panel of a GGUF type as vectors of 16 rows: codes,
 * sub-scales, minima and scales. Runs are 32 k: what a float scale or a sub-scale of most types
 * covers. docs/format.md, "Panels". */
#ifndef KERNELS_BODIES_GGUF_CODES_H
#define KERNELS_BODIES_GGUF_CODES_H

#include "kernels/bodies/int_digits.h"

/* The bits of `from` in mask, shifted to stand above a nibble. */
V_INLINE i512 gguf_upper(i512 nibbles, i512 from, int shift, int mask)
{
    return i_or(nibbles, i_and(i_shift32(from, shift), i_set32(mask * 0x01010101)));
}

/* Scale number i of 16 rows, from those of a superblock on. Each run of q4_1 and q5_1 has two. */
V_INLINE f32x16 gguf_scale(WeightType t, const unsigned char *scales, int i)
{
    return t == WT_MXFP4
        ? v_load_e8m0(scales + i * LANES)
        : t == WT_Q8_16 ? v_load((const float *)(const void *)scales)
        : v_load_f16((const uint16_t *)(const void *)scales + i * LANES);
}

/* Codes 8 * i .. + 7 of a run: four k of 16 rows in each vector, as bytes. Those of gguf_is_bytes
 * are signed, the others start at 0. */
V_INLINE void gguf_pair(WeightType t, const unsigned char *run, int i, i512 *low, i512 *high)
{
    if (weight_type_bits(t) < 4) { /* two bits for codes 4 * j .. + 3 of 16 */
        i512 two = i_load(run + 64 * (i / 2)), three = i_set32(0x03030303);
        *low  = i_and(i_shift32(two, -4 * (i % 2)), three);
        *high = i_and(i_shift32(two, -4 * (i % 2) - 2), three);
        if (t == WT_Q3_K) {
            i512 bits = i_load(run + 128); /* bit j of a byte: of codes 4 * j .. + 3 */
            *low  = gguf_upper(*low, bits, 2 - 2 * i, 4);
            *high = gguf_upper(*high, bits, 1 - 2 * i, 4);
        }
        return;
    }
    const unsigned char *at = weight_type_bits(t) == 8 ? run + 128 * i
        : t == WT_Q6_K                                 ? run + 192 * (i / 2) + 64 * (i % 2)
                                                       : run + 64 * i;
    i512 two = i_load(at);
    if (weight_type_bits(t) == 8) {
        *low = two, *high = i_load(at + 64);
        return;
    }
    *low = i_low_nibbles(two), *high = i_high_nibbles(two);
    if (t == WT_MXFP4 || gguf_is_bytes(t)) {
        static const int8_t e2m1[16] = E2M1_TWICE(MXFP4_OFFSET), iq4[16] = IQ4_VALUES;
        i512                table    = i_table(t == WT_MXFP4 ? e2m1 : iq4);
        *low = i_lookup(table, *low), *high = i_lookup(table, *high);
    }
    if (weight_type_bits(t) == 5) {
        i512 bits = i_load(run + 256); /* bit j of a byte: of codes 4 * j .. + 3 */
        *low  = gguf_upper(*low, bits, 4 - 2 * i, 16);
        *high = gguf_upper(*high, bits, 3 - 2 * i, 16);
    }
    if (t == WT_Q6_K) {
        i512 bits = i_load(run + 192 * (i / 2) + 128); /* two bits for codes 4 * j .. + 3 of 16 */
        *low  = gguf_upper(*low, bits, 4 - 4 * (i % 2), 48);
        *high = gguf_upper(*high, bits, 2 - 4 * (i % 2), 48);
    }
}

/* The 16 numbers of 6 bits of a superblock, four of them in each vector. */
V_INLINE void gguf_sixes(i512 v[4], const unsigned char *s)
{
    i512 six = i_set32(0x3f3f3f3f), a = i_load(s), b = i_load(s + 64), c = i_load(s + 128);
    v[0] = i_and(a, six), v[1] = i_and(b, six), v[2] = i_and(c, six);
    v[3] = i_or(i_and(i_shift32(a, -6), i_set32(0x03030303)),
                i_or(i_and(i_shift32(b, -4), i_set32(0x0c0c0c0c)),
                     i_and(i_shift32(c, -2), i_set32(0x30303030))));
}

/* x - 32 of bytes of 6 bits. */
V_INLINE i512 gguf_signed_six(i512 x)
{
    i512 bit = i_set32(0x20202020), sign = i_sub32(bit, i_and(x, bit));
    return i_or(i_or(i_and(x, i_set32(0x1f1f1f1f)), sign),
                i_or(i_shift32(sign, 1), i_shift32(sign, 2)));
}

/* The 8 sub-scales of iq4_xs, plus 32: their lower nibbles, then a pair of upper bits of each. */
V_INLINE void gguf_iq4_subs(i512 v[2], const unsigned char *s)
{
    int32_t high[LANES];
    UNROLL for (int r = 0; r < LANES; r++)
        high[r] = s[64 + 2 * r] | s[65 + 2 * r] << 8;
    i512 low = i_load(s), x = i_load(high); /* nibble j to byte j */
    x    = i_and(i_or(x, i_shift32(x, 8)), i_set32(0x00ff00ff));
    x    = i_and(i_or(x, i_shift32(x, 4)), i_set32(0x0f0f0f0f));
    v[0] = gguf_upper(i_low_nibbles(low), x, 4, 48);
    v[1] = gguf_upper(i_high_nibbles(low), x, 2, 48);
}

/* The integers of a superblock, four of a row in each vector: 8 * gguf_run_subs sub-scales, then as
 * many minima if the type has them. */
V_INLINE void gguf_subs(i512 v[8], WeightType t, const unsigned char *s)
{
    if (t == WT_IQ4_XS) {
        gguf_iq4_subs(v, s);
        v[0] = gguf_signed_six(v[0]), v[1] = gguf_signed_six(v[1]);
        return;
    }
    if (!weight_type_sub_bytes(t))
        gguf_sixes(v, s);
    UNROLL for (int i = 0; i < 4; i++) {
        if (weight_type_sub_bytes(t))
            v[i] = i_load(s + 64 * i);
        if (t == WT_Q2_K)
            v[4 + i] = i_high_nibbles(v[i]), v[i] = i_low_nibbles(v[i]);
        if (t == WT_Q3_K)
            v[i] = gguf_signed_six(v[i]);
    }
}

/* ---- A superblock's scales, as a step takes them --------------------------------------------- */

typedef struct GgufScales {
    i512  sub[16 * LANES_PANELS];              /* [sub-block][n_p]: for i_scale */
    i512  pair[8 * LANES_PANELS]; /* words of minima 0 2, 1 3 ...; of q3_k, q6_k: sub-scales; zero
                                   * points: [runs][n_p] */
    float d[MAX_RUNS * LANES_PANELS * LANES];  /* [runs or 1][n_p][16] */
    float dmin[MAX_RUNS * LANES_PANELS * LANES]; /* [1][n_p][16]; what q4_1, q5_1 add: [runs] */
} GgufScales;

/* The k of a scale of a type with runs. */
V_INLINE int gguf_scale_k(WeightType t)
{
    return weight_type_has_zeros(t) ? weight_type_sub(t) : RUN;
}

/* The zero points of 16 rows. */
V_INLINE i512 gguf_zeros(const unsigned char *z)
{
    int32_t zero[LANES];
    UNROLL for (int r = 0; r < LANES; r++)
        zero[r] = z[r] & 15;
    return i_load(zero);
}

V_INLINE void gguf_put_four(i512 *to, i512 v, int n_p)
{
    UNROLL for (int j = 0; j < 4; j++)
        to[j * n_p] = i_scale_of(v, j);
}
V_INLINE void gguf_put_pairs(i512 *to, i512 v, int n_p) { to[0] = i_even(v), to[n_p] = i_odd(v); }

/* Panel p of n_p of a step: s, d point into its parts. */
V_INLINE void gguf_scales(GgufScales *to, WeightType t, const unsigned char *s,
                          const unsigned char *d, int runs, int p, int n_p)
{
    const bool adds = weight_type_adds(t);
    for (int i = 0; i < (gguf_has_runs(t) && t != WT_Q8 ? runs : 1); i++) {
        v_store(to->d + (i * n_p + p) * LANES,
                gguf_scale(t, d, adds ? 2 * i : i * RUN / gguf_scale_k(t)));
        if (weight_type_has_zeros(t))
            i_store(to->pair + i * n_p + p, gguf_zeros(s + i * RUN / gguf_scale_k(t) * LANES));
        if (adds)
            v_store(to->dmin + (i * n_p + p) * LANES, gguf_scale(t, d, 2 * i + 1));
    }
    if (gguf_has_runs(t))
        return;
    const bool minima = weight_type_has_minima(t);
    const int  fours  = 2 * gguf_run_subs(t);
    i512       v[8];
    gguf_subs(v, t, s);
    if (minima)
        v_store(to->dmin + p * LANES, gguf_scale(t, d, 1));
    UNROLL for (int i = 0; i < fours; i++) {
        gguf_put_four(to->sub + 4 * i * n_p + p, v[i], n_p);
        if (minima || I_PART_WORDS)
            gguf_put_pairs(to->pair + 2 * i * n_p + p, v[minima ? fours + i : i], n_p);
    }
}

/* ---- Unpacked: what a block of tokens multiplies --------------------------------------------- */

/* Unpacks runs of one panel to vectors `stride` bytes apart: bytes as gguf_pair has them (signed
 * ones with i_offset), or words, the even k of four, then the odd ones, which are the factors of a
 * float scale. sub: its sub-scales. */
V_INLINE void gguf_unpack(char *out, WeightType t, Form f, const unsigned char *codes,
                          const i512 *sub, int n_p, int runs, size_t stride)
{
    int  offset = weight_type_offset(t);
    i512 minus  = i_set32(offset << 16 | offset);
    for (int run = 0; run < runs; run++, codes += gguf_run_bytes(t))
        UNROLL for (int i = 0; i < 4; i++) {
            i512 w[2];
            gguf_pair(t, codes, i, &w[0], &w[1]);
            UNROLL for (int j = 0; j < 2; j++) {
                if (f == FORM_BYTES) {
                    i_store(out, gguf_is_bytes(t) ? i_offset(w[j]) : w[j]);
                    out += stride;
                    continue;
                }
                i512 even = i_even(w[j]), odd = i_odd(w[j]);
                if (offset)
                    even = i_sub16(even, minus), odd = i_sub16(odd, minus);
                if (!gguf_has_runs(t)) {
                    i512 s = sub[gguf_sub(t, run, i) * n_p];
                    even = i_mul16(even, s), odd = i_mul16(odd, s);
                }
                i_store(out, even), i_store(out + stride, odd);
                out += 2 * stride;
            }
        }
}

#endif
