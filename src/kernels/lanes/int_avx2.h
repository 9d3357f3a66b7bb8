/* kernels/lanes/int_avx2.h: 64 bytes of integers, that is 16 rows of 32 bits, each of them 4 int8 or 2 int16 along k. In
 * AVX2, and AVX-VNNI where the compiler may use it. What a lanes header for integers has:
 *
 *   I_FORM_8, I_FORM_16      the digits (bodies/int_digits.h) of 8-bit and 16-bit activations in which blocks multiply
 *   I_STREAM_8, I_STREAM_16  the same in streams of q8
 *   I_PANELS, I_BLOCK_V      a block's registers: panels x digit rows
 *   I_STREAM_V, I_SUB_V      a stream's registers: digit rows with q8, with q4
 *   I_STREAM_TOKENS, I_PLANES_TOKENS  the most tokens that stream takes; with q4 and 16-bit activations
 *   I_OFFSET                 what i_offset adds to the bytes of weights that i_dot4 takes: 128 where it wants them unsigned
 *   I_BOOK_OFFSET            what is added to the codebook of q4 for i_sub_dot, for the same reason
 *   i_dot4, i_dot2           acc + the products of 4 bytes or 2 words in each row; _at: with the same 32 bits in all rows
 *   I_PART_WORDS             1 where the parts of i_sub_dot are words, each the sum of every second pair of products
 *   i_shift32                32 bits n places to the left, -n to the right
 *   i_scale, i_scale_of      acc + part * sub-scale, of any sub-scale that fits a byte; byte j of each row as it takes them
 *   i_sub_dot, i_sub_end     a sub-block of q4: part + products of 4 bytes; acc + part * sub-scale. A part fits its words.
 *   i_sub_start              what the parts of 4 sub-blocks (16 bytes each of x) start from, in each 32 bits of the 16 bytes
 *   i_round_mul16            (a * b + 2^15) >> 16;   i_even, i_odd: the bytes of each word as words;   i_join: back to bytes
 *   i_pair                   k 0 1 2 3 of words as 0 2 1 3, as i_even and i_odd have them
 *   i_pack                   words to bytes, in order
 *   i_subscales              40 bytes of sub-scales of q4 to 4 vectors that hold them in both words of each row */
#ifndef KERNELS_LANES_INT_AVX2_H
#define KERNELS_LANES_INT_AVX2_H

#include <string.h>

#include "kernels/lanes/avx2.h"

#define I_PANELS   1
#define I_BLOCK_V  6
#define I_STREAM_V 4
#define I_SUB_V    2
#define I_STREAM_TOKENS 12
#define I_PLANES_TOKENS 4
#if defined(__AVXVNNI__)
#define I_FORM_8    FORM_BYTES
#define I_STREAM_8  FORM_BYTES
#define I_FORM_16   FORM_WORDS
#define I_STREAM_16 FORM_WORDS
#define I_OFFSET    128
#define I_PART_WORDS 0
#else
#define I_FORM_8    FORM_WORDS
#define I_STREAM_8  FORM_WORDS
#define I_FORM_16   FORM_WORDS
#define I_STREAM_16 FORM_WORDS
#define I_OFFSET    0
#define I_PART_WORDS 1
#endif
#define I_BOOK_OFFSET 16

typedef struct i512 { __m256i a, b; } i512; /* rows 0 .. 7 and 8 .. 15 */

V_INLINE i512 i_of(__m256i a, __m256i b) { return (i512){ a, b }; }
#define I_MAP1(name, op) V_INLINE i512 name(i512 x) { return i_of(op(x.a), op(x.b)); }
#define I_MAP2(name, op) V_INLINE i512 name(i512 x, i512 y) { return i_of(op(x.a, y.a), op(x.b, y.b)); }
#define I_MAP3(name, op) V_INLINE i512 name(i512 x, i512 y, i512 z) { return i_of(op(x.a, y.a, z.a), op(x.b, y.b, z.b)); }

V_INLINE i512 i_load(const void *p)
{
    return i_of(_mm256_loadu_si256(p), _mm256_loadu_si256((const void *)((const char *)p + 32)));
}
V_INLINE void i_store(void *p, i512 x)
{
    _mm256_storeu_si256(p, x.a), _mm256_storeu_si256((void *)((char *)p + 32), x.b);
}
V_INLINE i512 i_set32(int32_t x) { return i_of(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
V_INLINE i512 i_bcast(const void *p)
{
    int32_t a;
    memcpy(&a, p, sizeof a);
    return i_set32(a);
}
V_INLINE i512 i_table(const int8_t t[16])
{
    __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)t));
    return i_of(v, v);
}

I_MAP2(i_add32, _mm256_add_epi32)
I_MAP2(i_sub32, _mm256_sub_epi32)
I_MAP2(i_max32, _mm256_max_epi32)
I_MAP2(i_and, _mm256_and_si256)
I_MAP2(i_or, _mm256_or_si256)
#define I_SHIFT32(x, n) (n >= 0 ? _mm256_slli_epi32(x, n) : _mm256_srli_epi32(x, -n))
V_INLINE i512 i_shift32(i512 x, int n) { return i_of(I_SHIFT32(x.a, n), I_SHIFT32(x.b, n)); }
I_MAP2(i_sub16, _mm256_sub_epi16)
I_MAP2(i_mul16, _mm256_mullo_epi16)
I_MAP2(i_lookup, _mm256_shuffle_epi8)
#define I_TIMES256(x) _mm256_slli_epi32(x, 8)
I_MAP1(i_times256, I_TIMES256)
#define I_ROUND_MUL(x, y) _mm256_add_epi16(_mm256_mulhi_epi16(x, y), _mm256_srli_epi16(_mm256_mullo_epi16(x, y), 15))
I_MAP2(i_round_mul16, I_ROUND_MUL)

#define I_LOW_NIBBLES(x)  _mm256_and_si256(x, _mm256_set1_epi8(15))
#define I_HIGH_NIBBLES(x) I_LOW_NIBBLES(_mm256_srli_epi16(x, 4))
I_MAP1(i_low_nibbles, I_LOW_NIBBLES)
I_MAP1(i_high_nibbles, I_HIGH_NIBBLES)
#define I_XOR(x) _mm256_xor_si256(x, _mm256_set1_epi8((char)I_OFFSET))
I_MAP1(i_offset, I_XOR)

#define I_EVEN(x) _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8)
#define I_ODD(x)  _mm256_srai_epi16(x, 8)
I_MAP1(i_even, I_EVEN)
I_MAP1(i_odd, I_ODD)
#define I_JOIN(even, odd) _mm256_or_si256(_mm256_and_si256(even, _mm256_set1_epi16(255)), _mm256_slli_epi16(odd, 8))
I_MAP2(i_join, I_JOIN)
V_INLINE i512 i_pack(i512 x, i512 y)
{
    return i_of(_mm256_permute4x64_epi64(_mm256_packs_epi16(x.a, x.b), 0xd8),
                _mm256_permute4x64_epi64(_mm256_packs_epi16(y.a, y.b), 0xd8));
}
#define I_PAIR(x) _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(x, 0xd8), 0xd8)
I_MAP1(i_pair, I_PAIR)

#if defined(__AVXVNNI__)
/* Not the intrinsics: gcc 12 copies each sum twice around them, which halves the speed. */
#define I_DOT(name, instruction)                                                                  \
    V_INLINE __m256i name(__m256i acc, __m256i w, __m256i x)                                      \
    {                                                                                             \
        __asm__("%{vex%} " instruction " %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));                 \
        return acc;                                                                               \
    }
I_DOT(i_dot4_8, "vpdpbusd")
I_DOT(i_dot2_8, "vpdpwssd")
#define I_SUB_END(acc, part, sub) i_dot2_8(acc, part, _mm256_and_si256(sub, _mm256_set1_epi32(0xffff)))
I_MAP3(i_dot4, i_dot4_8)
I_MAP3(i_dot2, i_dot2_8)
I_MAP3(i_sub_dot, i_dot4_8)
I_MAP3(i_sub_end, I_SUB_END)
#define I_SCALE(acc, part, s) _mm256_add_epi32(acc, _mm256_mullo_epi32(part, s))
I_MAP3(i_scale, I_SCALE)
V_INLINE __m256i i_scale_of8(__m256i v, int j) { return _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * j), 24); }
V_INLINE __m256i i_sub_start8(__m256i x)
{
    __m256i zero = _mm256_setzero_si256(), s = i_dot4_8(zero, _mm256_set1_epi8(I_BOOK_OFFSET), x);
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    return _mm256_sub_epi32(zero, _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1)));
}
#else
/* Together, or gcc 12 takes all products before the first sum and has no register left. */
#define I_DOT(name, multiply, add)                                                                                   \
    V_INLINE __m256i name(__m256i acc, __m256i w, __m256i x)                                                         \
    {                                                                                                                \
        __m256i product;                                                                                             \
        __asm__(multiply " %3, %2, %1\n\t" add " %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(w), "x"(x));          \
        return acc;                                                                                                  \
    }
I_DOT(i_dot2_8, "vpmaddwd", "vpaddd")
I_DOT(i_sub_dot8, "vpmaddubsw", "vpaddw")
#define I_SUB_END(acc, part, sub) _mm256_add_epi32(acc, _mm256_madd_epi16(part, sub))
V_INLINE i512 i_dot4(i512 acc, i512 w, i512 x) { return (void)w, (void)x, acc; } /* no form here asks for it */
I_MAP3(i_dot2, i_dot2_8)
I_MAP3(i_sub_dot, i_sub_dot8)
I_MAP3(i_sub_end, I_SUB_END)
V_INLINE i512 i_scale(i512 acc, i512 part, i512 s) { return i_sub_end(acc, part, s); }
V_INLINE __m256i i_scale_of8(__m256i v, int j)
{
    __m256i at = _mm256_broadcastsi128_si256(_mm_set_epi32(0x0c800c80, 0x08800880, 0x04800480, 0x00800080));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, _mm256_add_epi32(at, _mm256_set1_epi32(j * 0x01000100))), 8);
}
V_INLINE __m256i i_sub_start8(__m256i x)
{
    __m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(I_BOOK_OFFSET), x);
    s         = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0x4e));
    return _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xb1)));
}
#endif
I_MAP1(i_sub_start, i_sub_start8)
V_INLINE i512 i_scale_of(i512 v, int j) { return i_of(i_scale_of8(v.a, j), i_scale_of8(v.b, j)); }
V_INLINE i512 i_dot4_at(i512 acc, i512 w, const void *x) { return i_dot4(acc, w, i_bcast(x)); }
V_INLINE i512 i_dot2_at(i512 acc, i512 w, const void *x) { return i_dot2(acc, w, i_bcast(x)); }
V_INLINE i512 i_sub_dot_at(i512 part, i512 w, const void *x) { return i_sub_dot(part, w, i_bcast(x)); }

V_INLINE __m256i i_subscale8(__m128i magnitude, __m256i signs, __m256i bit)
{
    __m256i m = _mm256_cmpeq_epi32(_mm256_and_si256(signs, bit), bit), v = _mm256_cvtepi8_epi32(magnitude);
    v = _mm256_sub_epi32(_mm256_xor_si256(v, m), m);
    return _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
}
V_INLINE void i_subscales(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
    __m128i table = _mm_loadu_si128((const void *)magnitude);
    __m256i bit   = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    UNROLL for (int b = 0; b < 4; b++) {
        __m128i n = _mm_loadu_si128((const void *)(s + b / 2 * 16));
        n         = _mm_shuffle_epi8(table, _mm_and_si128(b % 2 ? _mm_srli_epi16(n, 4) : n, _mm_set1_epi8(15)));
        out[b].a  = i_subscale8(n, _mm256_set1_epi32(s[32 + 2 * b]), bit);
        out[b].b  = i_subscale8(_mm_srli_si128(n, 8), _mm256_set1_epi32(s[33 + 2 * b]), bit);
    }
}

V_INLINE f32x16 i_to_f32(i512 x) { return v_of(_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)); }
V_INLINE f32x16 i_byte_to_f32(i512 x, int j)
{
    return i_to_f32(i_of(_mm256_srai_epi32(_mm256_slli_epi32(x.a, 24 - 8 * j), 24),
                         _mm256_srai_epi32(_mm256_slli_epi32(x.b, 24 - 8 * j), 24)));
}
V_INLINE i512 i_bits(f32x16 x) { return i_of(_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)); }
V_INLINE void i_store_low16(int16_t *p, i512 x)
{
    __m256i low = _mm256_set1_epi32(0xffff);
    __m256i v   = _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low));
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(v, 0xd8));
}

#endif
