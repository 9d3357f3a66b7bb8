/* kernels/lanes/avx2.h: the operations of lanes/scalar.h in AVX2, FMA and F16C: two registers of
 * 8. */
#ifndef KERNELS_LANES_AVX2_H
#define KERNELS_LANES_AVX2_H

#include <immintrin.h>

#include "kernels/lanes/lanes.h"

#define LANES_ACC    6
#define LANES_CHAINS 4
#define LANES_INTEGERS 1
#define LANES_PANELS 1

typedef struct f32x16 { __m256 a, b; } f32x16; /* lanes 0 .. 7 and 8 .. 15 */
typedef f32x16 m16;                            /* all ones or all zeros    */

V_INLINE f32x16 v_of(__m256 a, __m256 b) { return (f32x16){ a, b }; }
V_INLINE f32x16 v_of_int(__m256i a, __m256i b)
{
    return v_of(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
}

V_INLINE f32x16 v_set(float a) { return v_of(_mm256_set1_ps(a), _mm256_set1_ps(a)); }
V_INLINE f32x16 v_zero(void) { return v_of(_mm256_setzero_ps(), _mm256_setzero_ps()); }
V_INLINE f32x16 v_load(const float *p) { return v_of(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
V_INLINE void   v_store(float *p, f32x16 v)
{
    _mm256_storeu_ps(p, v.a), _mm256_storeu_ps(p + 8, v.b);
}

V_INLINE m16 v_range(int first, int end)
{
    __m256i lo = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            hi = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
    __m256i f = _mm256_set1_epi32(first), e = _mm256_set1_epi32(end);
    return v_of_int(_mm256_andnot_si256(_mm256_cmpgt_epi32(f, lo), _mm256_cmpgt_epi32(e, lo)),
                    _mm256_andnot_si256(_mm256_cmpgt_epi32(f, hi), _mm256_cmpgt_epi32(e, hi)));
}
/* maskload reads nothing where the mask is 0, so memory may end after n. The second half is skipped
 * if it is empty. */
V_INLINE f32x16 v_load_n(const float *p, int n)
{
    m16 m = v_range(0, n);
    return v_of(_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
                n > 8 ? _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b)) : _mm256_setzero_ps());
}
V_INLINE void v_store_n(float *p, f32x16 v, int n)
{
    m16 m = v_range(0, n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), v.a);
    if (n > 8)
        _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), v.b);
}

V_INLINE f32x16 v_load_f16(const uint16_t *p)
{
    return v_of(_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8))));
}
/* 2^(e - 128): if e < 2 a subnormal, the larger of the two as integers */
V_INLINE __m256 v_load_e8m0_half(const uint8_t *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)), one = _mm256_set1_epi32(1);
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23),
                                                _mm256_slli_epi32(_mm256_add_epi32(e, one), 21)));
}
V_INLINE f32x16 v_load_e8m0(const uint8_t *p)
{
    return v_of(v_load_e8m0_half(p), v_load_e8m0_half(p + 8));
}
V_INLINE void v_store_f16(uint16_t *p, f32x16 v)
{
    _mm_storeu_si128((void *)p,
                     _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((void *)(p + 8),
                     _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE __m256 v_load_i8_half(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
V_INLINE f32x16 v_load_i8(const int8_t *p)
{
    return v_of(v_load_i8_half(p), v_load_i8_half(p + 8));
}
V_INLINE void v_store_i8_n(int8_t *p, f32x16 v, int n)
{
    int32_t t[16];
    _mm256_storeu_si256((void *)t, _mm256_cvtps_epi32(v.a));
    _mm256_storeu_si256((void *)(t + 8), _mm256_cvtps_epi32(v.b));
    for (int i = 0; i < n; i++)
        p[i] = (int8_t)t[i];
}
V_INLINE f32x16 v_load_bf16_even(const uint16_t *p)
{
    __m256i a = _mm256_loadu_si256((const void *)p), b = _mm256_loadu_si256((const void *)(p + 16));
    return v_of_int(_mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
}
V_INLINE f32x16 v_load_bf16_odd(const uint16_t *p)
{
    __m256i a = _mm256_loadu_si256((const void *)p), b = _mm256_loadu_si256((const void *)(p + 16));
    __m256i high = _mm256_set1_epi32((int)0xffff0000);
    return v_of_int(_mm256_and_si256(a, high), _mm256_and_si256(b, high));
}

V_INLINE f32x16 v_add(f32x16 x, f32x16 y)
{
    return v_of(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}
V_INLINE f32x16 v_sub(f32x16 x, f32x16 y)
{
    return v_of(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}
V_INLINE f32x16 v_mul(f32x16 x, f32x16 y)
{
    return v_of(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}
V_INLINE f32x16 v_div(f32x16 x, f32x16 y)
{
    return v_of(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}
V_INLINE f32x16 v_sqrt(f32x16 x) { return v_of(_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)); }
V_INLINE f32x16 v_fma(f32x16 x, f32x16 y, f32x16 z)
{
    return v_of(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
/* The second if unordered or equal. */
V_INLINE f32x16 v_max(f32x16 x, f32x16 y)
{
    return v_of(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}

V_INLINE f32x16 v_and(f32x16 x, f32x16 y)
{
    return v_of(_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b));
}
V_INLINE f32x16 v_neg(f32x16 x)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return v_of(_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign));
}
V_INLINE f32x16 v_abs(f32x16 x)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return v_of(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
V_INLINE f32x16 v_copysign(f32x16 x, f32x16 s)
{
    f32x16 m = v_abs(x), n = v_and(s, v_set(-0.0f));
    return v_of(_mm256_or_ps(m.a, n.a), _mm256_or_ps(m.b, n.b));
}
V_INLINE f32x16 v_scale_bits(f32x16 p, f32x16 z)
{
    __m256i a = _mm256_slli_epi32(_mm256_castps_si256(z.a), 23),
            b = _mm256_slli_epi32(_mm256_castps_si256(z.b), 23);
    return v_of_int(_mm256_add_epi32(_mm256_castps_si256(p.a), a),
                    _mm256_add_epi32(_mm256_castps_si256(p.b), b));
}

V_INLINE m16 v_lt(f32x16 x, f32x16 y)
{
    return v_of(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ));
}
V_INLINE m16 v_is_nan(f32x16 x)
{
    return v_of(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q));
}
V_INLINE f32x16 v_select(m16 m, f32x16 x, f32x16 y)
{
    return v_of(_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b));
}

V_INLINE f32x16 v_zip_half(__m256 a, __m256 b)
{
    __m256 even = _mm256_unpacklo_ps(a, b), odd = _mm256_unpackhi_ps(a, b);
    return v_of(_mm256_permute2f128_ps(even, odd, 0x20), _mm256_permute2f128_ps(even, odd, 0x31));
}
V_INLINE void v_zip(f32x16 x, f32x16 y, f32x16 *low, f32x16 *high)
{
    *low  = v_zip_half(x.a, y.a);
    *high = v_zip_half(x.b, y.b);
}

V_INLINE float v_first(f32x16 x) { return _mm256_cvtss_f32(x.a); }
/* The definition's order, 8 + 8, 4 + 4, 2 + 2, 1 + 1, is the natural one of halving a register. */
V_INLINE float v_fold_sum(f32x16 x)
{
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c        = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
V_INLINE float v_fold_max(f32x16 x)
{
    __m256 b = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c        = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* ---- Integers -------------------------------------------------------------------------------- */

#if defined(__AVXVNNI__)
#define I_FORM_8    FORM_BYTES
#define I_FORM_16   FORM_WORDS
#define I_OFFSET    128
#define I_PART_WORDS 0
#else
#define I_FORM_8    FORM_WORDS
#define I_FORM_16   FORM_WORDS
#define I_OFFSET    0
#define I_PART_WORDS 1
#endif
#define I_BOOK_OFFSET 16

typedef struct i512 { __m256i a, b; } i512; /* rows 0 .. 7 and 8 .. 15 */

V_INLINE i512 i_of(__m256i a, __m256i b) { return (i512){ a, b }; }
#define I_MAP1(name, op) V_INLINE i512 name(i512 x) { return i_of(op(x.a), op(x.b)); }
#define I_MAP2(name, op) \
    V_INLINE i512 name(i512 x, i512 y) { return i_of(op(x.a, y.a), op(x.b, y.b)); }
#define I_MAP3(name, op) \
    V_INLINE i512 name(i512 x, i512 y, i512 z)                                                     \
    {                                                                                              \
        return i_of(op(x.a, y.a, z.a), op(x.b, y.b, z.b));                                         \
    }

V_INLINE i512 i_load(const void *p)
{
    return i_of(_mm256_loadu_si256(p), _mm256_loadu_si256((const void *)((const char *)p + 32)));
}
V_INLINE i512 i_load_once(const void *p) { return i_load(p); }
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
#define I_ROUND_MUL(x, y) \
    _mm256_add_epi16(_mm256_mulhi_epi16(x, y), _mm256_srli_epi16(_mm256_mullo_epi16(x, y), 15))
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
#define I_JOIN(even, odd) \
    _mm256_or_si256(_mm256_and_si256(even, _mm256_set1_epi16(255)), _mm256_slli_epi16(odd, 8))
I_MAP2(i_join, I_JOIN)
/* packs works in each half of a register: the permutation puts the quarters in order. */
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
        __asm__("%{vex%} " instruction " %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));                \
        return acc;                                                                               \
    }
I_DOT(i_dot4_8, "vpdpbusd")
I_DOT(i_dot2_8, "vpdpwssd")
#define I_SUB_END(acc, part, sub) \
    i_dot2_8(acc, part, _mm256_and_si256(sub, _mm256_set1_epi32(0xffff)))
I_MAP3(i_dot4, i_dot4_8)
I_MAP3(i_dot2, i_dot2_8)
I_MAP3(i_sub_dot, i_dot4_8)
I_MAP3(i_sub_end, I_SUB_END)
#define I_SCALE(acc, part, s) _mm256_add_epi32(acc, _mm256_mullo_epi32(part, s))
I_MAP3(i_scale, I_SCALE)
V_INLINE __m256i i_scale_of8(__m256i v, int j)
{
    return _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * j), 24);
}
/* The codebook is multiplied with 16 added, since vpdpbusd wants one side unsigned: minus 16 times
 * the sum of x. */
V_INLINE __m256i i_sub_start8(__m256i x)
{
    __m256i zero = _mm256_setzero_si256(), s = i_dot4_8(zero, _mm256_set1_epi8(I_BOOK_OFFSET), x);
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    return _mm256_sub_epi32(zero, _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1)));
}
#else
/* Together, or gcc 12 takes all products before the first sum and has no register left. */
#define I_DOT(name, multiply, add)                                                                 \
    V_INLINE __m256i name(__m256i acc, __m256i w, __m256i x)                                       \
    {                                                                                              \
        __m256i product;                                                                           \
        __asm__(multiply " %3, %2, %1\n\t" add " %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(w), \
                "x"(x));                                                                           \
        return acc;                                                                                \
    }
I_DOT(i_dot2_8, "vpmaddwd", "vpaddd")
I_DOT(i_sub_dot8, "vpmaddubsw", "vpaddw")
#define I_SUB_END(acc, part, sub) _mm256_add_epi32(acc, _mm256_madd_epi16(part, sub))
/* not used by these forms */
V_INLINE i512 i_dot4(i512 acc, i512 w, i512 x) { return (void)w, (void)x, acc; }
I_MAP3(i_dot2, i_dot2_8)
I_MAP3(i_sub_dot, i_sub_dot8)
I_MAP3(i_sub_end, I_SUB_END)
V_INLINE i512 i_scale(i512 acc, i512 part, i512 s) { return i_sub_end(acc, part, s); }
V_INLINE __m256i i_scale_of8(__m256i v, int j)
{
    __m256i at =
        _mm256_broadcastsi128_si256(_mm_set_epi32(0x0c800c80, 0x08800880, 0x04800480, 0x00800080));
    return _mm256_srai_epi16(
        _mm256_shuffle_epi8(v, _mm256_add_epi32(at, _mm256_set1_epi32(j * 0x01000100))), 8);
}
V_INLINE __m256i i_sub_start8(__m256i x)
{
    __m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(I_BOOK_OFFSET), x);
    s         = _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0x4e));
    return _mm256_sub_epi16(_mm256_setzero_si256(),
                            _mm256_add_epi16(s, _mm256_shuffle_epi32(s, 0xb1)));
}
#endif
I_MAP1(i_sub_start, i_sub_start8)
V_INLINE i512 i_scale_of(i512 v, int j) { return i_of(i_scale_of8(v.a, j), i_scale_of8(v.b, j)); }
V_INLINE i512 i_dot4_at(i512 acc, i512 w, const void *x) { return i_dot4(acc, w, i_bcast(x)); }
V_INLINE i512 i_dot2_at(i512 acc, i512 w, const void *x) { return i_dot2(acc, w, i_bcast(x)); }
V_INLINE i512 i_sub_dot_at(i512 part, i512 w, const void *x)
{
    return i_sub_dot(part, w, i_bcast(x));
}

V_INLINE __m256i i_subscale8(__m128i magnitude, __m256i signs, __m256i bit)
{
    __m256i m = _mm256_cmpeq_epi32(_mm256_and_si256(signs, bit), bit),
            v = _mm256_cvtepi8_epi32(magnitude);
    v = _mm256_sub_epi32(_mm256_xor_si256(v, m), m);
    return _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
}
V_INLINE void i_subscales(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
    __m128i table = _mm_loadu_si128((const void *)magnitude);
    __m256i bit   = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    UNROLL for (int b = 0; b < 4; b++) {
        __m128i n = _mm_loadu_si128((const void *)(s + b / 2 * 16));
        n = _mm_shuffle_epi8(table,
                             _mm_and_si128(b % 2 ? _mm_srli_epi16(n, 4) : n, _mm_set1_epi8(15)));
        out[b].a  = i_subscale8(n, _mm256_set1_epi32(s[32 + 2 * b]), bit);
        out[b].b  = i_subscale8(_mm_srli_si128(n, 8), _mm256_set1_epi32(s[33 + 2 * b]), bit);
    }
}
V_INLINE void i_sub_factors(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
    i_subscales(out, s, magnitude);
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
