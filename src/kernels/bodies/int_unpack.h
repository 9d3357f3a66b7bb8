/* kernels/bodies/int_unpack.h: unpacks a superblock of a panel of q8 or q4 to vectors of 16 rows,
 * for a block of tokens. */
#ifndef KERNELS_BODIES_INT_UNPACK_H
#define KERNELS_BODIES_INT_UNPACK_H

#include "quant/codes.h"
#include "kernels/bodies/int_digits.h"

/* 4 k of 16 rows, signed bytes: 64 bytes of them (with i_offset if `offset`), or 128 bytes of
 * words. Returns the next position; vectors are `stride` bytes apart. */
V_INLINE char *put_bytes(char *out, i512 w, Form f, bool offset, size_t stride)
{
    if (f == FORM_WORDS) {
        i_store(out, i_even(w)), i_store(out + stride, i_odd(w));
        return out + 2 * stride;
    }
    i_store(out, offset ? i_offset(w) : w);
    return out + stride;
}

/* The same of codebook values times a sub-scale (in both words of each row). */
V_INLINE char *put_scaled(char *out, i512 w, i512 sub, Form f, bool offset, size_t stride)
{
    i512 even = i_mul16(i_even(w), sub), odd = i_mul16(i_odd(w), sub);
    if (f == FORM_WORDS) {
        i_store(out, even), i_store(out + stride, odd);
        return out + 2 * stride;
    }
    return put_bytes(out, i_join(even, odd), FORM_BYTES, offset, stride);
}

/* 64 * groups k of panel p, superblock s. */
V_INLINE void unpack_int(char *out, WeightType type, Form f, bool offset, const Walk *w, int p,
                         int s, int groups, size_t stride)
{
    const unsigned char *codes = walk_to(w, 0, p, s);
    if (type == WT_Q8) {
        for (int i = 0; i < 16 * groups; i++, codes += 64)
            out = put_bytes(out, i_load(codes), f, offset, stride);
        return;
    }
    i512 table = i_table(q4_codebook), sub[4];
    for (int i = 0; i < 8 * groups; i++, codes += 64) {
        if (i % 8 == 0)
            i_subscales(sub, walk_to(w, 1, p, s) + 40 * (i / 8), q4_magnitude);
        i512 two = i_load(codes);
        out =
            put_scaled(out, i_lookup(table, i_low_nibbles(two)), sub[i % 8 / 2], f, offset, stride);
        out = put_scaled(out, i_lookup(table, i_high_nibbles(two)), sub[i % 8 / 2], f, offset,
                         stride);
    }
}

#endif
