/* kernels/lanes/avx512.h: the operations of lanes/scalar.h in AVX-512 F, BW, VL and DQ. */
#ifndef KERNELS_LANES_AVX512_H
#define KERNELS_LANES_AVX512_H

#include <immintrin.h>

#include "kernels/lanes/lanes.h"

#define LANES_ACC    24
#define LANES_CHAINS 4
#define LANES_INTEGERS 1
#define LANES_PANELS 2

typedef __m512    f32x16;
typedef __mmask16 m16;

V_INLINE f32x16 v_set(float a) { return _mm512_set1_ps(a); }
V_INLINE f32x16 v_zero(void) { return _mm512_setzero_ps(); }
V_INLINE f32x16 v_load(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE void   v_store(float *p, f32x16 a) { _mm512_storeu_ps(p, a); }
/* Masks are integers here: a tail costs no more than a whole vector. */
V_INLINE m16    v_low(int n) { return (__mmask16)((1u << n) - 1); }
V_INLINE f32x16 v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(v_low(n), p); }
V_INLINE void   v_store_n(float *p, f32x16 a, int n) { _mm512_mask_storeu_ps(p, v_low(n), a); }

V_INLINE f32x16 v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
/* 2^(e - 128): if e < 2 a subnormal, the larger of the two as integers */
V_INLINE f32x16 v_load_e8m0(const uint8_t *p)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)), one = _mm512_set1_epi32(1);
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23),
                                                _mm512_slli_epi32(_mm512_add_epi32(e, one), 21)));
}
V_INLINE void   v_store_f16(uint16_t *p, f32x16 a)
{
    /* the form with a mask: gcc's macro for the plain one warns at -O0 */
    _mm256_storeu_si256(
        (void *)p,
        _mm512_maskz_cvtps_ph((__mmask16)0xffff, a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE f32x16 v_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
V_INLINE void v_store_i8_n(int8_t *p, f32x16 a, int n)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, (__mmask16)((1u << n) - 1), _mm512_cvtps_epi32(a));
}
V_INLINE f32x16 v_load_bf16_even(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
V_INLINE f32x16 v_load_bf16_odd(const uint16_t *p)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000)));
}

V_INLINE f32x16 v_add(f32x16 a, f32x16 b) { return _mm512_add_ps(a, b); }
V_INLINE f32x16 v_sub(f32x16 a, f32x16 b) { return _mm512_sub_ps(a, b); }
V_INLINE f32x16 v_mul(f32x16 a, f32x16 b) { return _mm512_mul_ps(a, b); }
V_INLINE f32x16 v_div(f32x16 a, f32x16 b) { return _mm512_div_ps(a, b); }
V_INLINE f32x16 v_sqrt(f32x16 a) { return _mm512_sqrt_ps(a); }
V_INLINE f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
/* the second if unordered or equal */
V_INLINE f32x16 v_max(f32x16 a, f32x16 b) { return _mm512_max_ps(a, b); }

V_INLINE f32x16 v_neg(f32x16 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
V_INLINE f32x16 v_abs(f32x16 a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
V_INLINE f32x16 v_copysign(f32x16 a, f32x16 s)
{
    f32x16 sign = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, s));
}
V_INLINE f32x16 v_scale_bits(f32x16 p, f32x16 z)
{
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(z), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
}

V_INLINE m16 v_lt(f32x16 a, f32x16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_INLINE m16 v_is_nan(f32x16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
V_INLINE m16 v_range(int first, int end)
{
    unsigned below_first = first <= 0 ? 0 : first >= 16 ? 0xffffu : (1u << first) - 1;
    unsigned below_end   = end <= 0 ? 0 : end >= 16 ? 0xffffu : (1u << end) - 1;
    return (m16)(below_end & ~below_first);
}
V_INLINE f32x16 v_select(m16 m, f32x16 a, f32x16 b) { return _mm512_mask_blend_ps(m, b, a); }

V_INLINE void v_zip(f32x16 a, f32x16 b, f32x16 *low, f32x16 *high)
{
    __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *low  = _mm512_permutex2var_ps(a, first, b);
    *high = _mm512_permutex2var_ps(a, _mm512_add_epi32(first, _mm512_set1_epi32(8)), b);
}

V_INLINE float v_first(f32x16 a) { return _mm512_cvtss_f32(a); }
/* The definition's order, 8 + 8, 4 + 4, 2 + 2, 1 + 1, is the natural one of halving a register. */
V_INLINE float v_fold_sum(f32x16 a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c        = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
V_INLINE float v_fold_max(f32x16 a)
{
    __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c        = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* ---- Integers -------------------------------------------------------------------------------- */

#if defined(__AVX512VNNI__)
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

typedef __m512i i512;

V_INLINE i512 i_load(const void *p) { return _mm512_loadu_si512(p); }
/* Loaded once for all uses: gcc would load it again instead of keeping it, and loads limit the
 * stream of q4. */
V_INLINE i512 i_load_once(const void *p)
{
    i512 a = i_load(p);
    __asm__("" : "+v"(a));
    return a;
}
V_INLINE void i_store(void *p, i512 a) { _mm512_storeu_si512(p, a); }
V_INLINE i512 i_set32(int32_t a) { return _mm512_set1_epi32(a); }
V_INLINE i512 i_bcast(const void *p)
{
    int32_t a;
    memcpy(&a, p, sizeof a);
    return i_set32(a);
}
V_INLINE i512 i_table(const int8_t t[16])
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)t));
}

V_INLINE i512 i_add32(i512 a, i512 b) { return _mm512_add_epi32(a, b); }
V_INLINE i512 i_sub32(i512 a, i512 b) { return _mm512_sub_epi32(a, b); }
V_INLINE i512 i_times256(i512 a) { return _mm512_slli_epi32(a, 8); }
V_INLINE i512 i_max32(i512 a, i512 b) { return _mm512_max_epi32(a, b); }
V_INLINE i512 i_and(i512 a, i512 b) { return _mm512_and_si512(a, b); }
V_INLINE i512 i_or(i512 a, i512 b) { return _mm512_or_si512(a, b); }
V_INLINE i512 i_shift32(i512 a, int n)
{
    return n >= 0 ? _mm512_slli_epi32(a, (unsigned)n) : _mm512_srli_epi32(a, (unsigned)-n);
}
V_INLINE i512 i_sub16(i512 a, i512 b) { return _mm512_sub_epi16(a, b); }
V_INLINE i512 i_mul16(i512 a, i512 b) { return _mm512_mullo_epi16(a, b); }
V_INLINE i512 i_round_mul16(i512 a, i512 b)
{
    return _mm512_add_epi16(_mm512_mulhi_epi16(a, b),
                            _mm512_srli_epi16(_mm512_mullo_epi16(a, b), 15));
}

V_INLINE i512 i_low_nibbles(i512 a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
V_INLINE i512 i_high_nibbles(i512 a) { return i_low_nibbles(_mm512_srli_epi16(a, 4)); }
V_INLINE i512 i_lookup(i512 table, i512 index) { return _mm512_shuffle_epi8(table, index); }
V_INLINE i512 i_offset(i512 w)
{
    return I_OFFSET ? _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80)) : w;
}

V_INLINE i512 i_even(i512 a) { return _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8); }
V_INLINE i512 i_odd(i512 a) { return _mm512_srai_epi16(a, 8); }
V_INLINE i512 i_join(i512 even, i512 odd)
{
    return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, even, _mm512_slli_epi16(odd, 8));
}
V_INLINE i512 i_pack(i512 a, i512 b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(a)),
                              _mm512_cvtepi16_epi8(b), 1);
}
V_INLINE i512 i_pair(i512 a)
{
    return _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(a, 0xd8), 0xd8);
}

#if defined(__AVX512VNNI__)
/* Not the intrinsics: gcc 12 copies each sum twice around them, which halves the speed. */
typedef int32_t __attribute__((may_alias, aligned(1))) i_word; /* x of one row, wherever it lies */
#define I_DOT(name, instruction)                                                                   \
    V_INLINE i512 name(i512 acc, i512 w, i512 x)                                                   \
    {                                                                                              \
        __asm__(instruction " %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));                           \
        return acc;                                                                                \
    }                                                                                              \
    V_INLINE i512 name##_at(i512 acc, i512 w, const void *x)                                       \
    {                                                                                              \
        __asm__(instruction " %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const i_word *)x)); \
        return acc;                                                                                \
    }
I_DOT(i_dot4, "vpdpbusd")
I_DOT(i_dot2, "vpdpwssd")
V_INLINE i512 i_sub_dot_at(i512 part, i512 w, const void *x) { return i_dot4_at(part, w, x); }
V_INLINE i512 i_sub_dot(i512 part, i512 w, i512 x) { return i_dot4(part, w, x); }
V_INLINE i512 i_sub_end(i512 acc, i512 part, i512 sub)
{
    return i_dot2(acc, part, sub);
}
V_INLINE i512 i_scale_of(i512 v, int j)
{
    return _mm512_srai_epi32(_mm512_slli_epi32(v, (unsigned)(24 - 8 * j)), 24);
}
V_INLINE i512 i_scale(i512 acc, i512 part, i512 s)
{
    return _mm512_add_epi32(acc, _mm512_mullo_epi32(part, s));
}
V_INLINE i512 i_sub_start(i512 x)
{
    i512 s = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(I_BOOK_OFFSET), x);
    s      = _mm512_add_epi32(s, _mm512_shuffle_epi32(s, (_MM_PERM_ENUM)0x4e));
    return _mm512_sub_epi32(_mm512_setzero_si512(),
                            _mm512_add_epi32(s, _mm512_shuffle_epi32(s, (_MM_PERM_ENUM)0xb1)));
}
#else
/* not used by these forms */
V_INLINE i512 i_dot4(i512 acc, i512 w, i512 x) { return (void)w, (void)x, acc; }
/* Together, or gcc 12 takes all products before the first sum and has no register left. */
#define I_DOT(name, multiply, add)                                                                 \
    V_INLINE i512 name(i512 acc, i512 w, i512 x)                                                   \
    {                                                                                              \
        i512 product;                                                                              \
        __asm__(multiply " %3, %2, %1\n\t" add " %1, %0, %0" : "+v"(acc), "=&v"(product) : "v"(w), \
                "v"(x));                                                                           \
        return acc;                                                                                \
    }
I_DOT(i_dot2, "vpmaddwd", "vpaddd")
I_DOT(i_sub_dot, "vpmaddubsw", "vpaddw")
V_INLINE i512 i_sub_end(i512 acc, i512 part, i512 sub)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(part, sub));
}
V_INLINE i512 i_scale_of(i512 v, int j)
{
    /* to the upper byte of each word */
    __m512i odd = _mm512_set4_epi32(0x0c800c80, 0x08800880, 0x04800480, 0x00800080);
    return _mm512_srai_epi16(
        _mm512_shuffle_epi8(v, _mm512_add_epi32(odd, _mm512_set1_epi32(j * 0x01000100))), 8);
}
V_INLINE i512 i_scale(i512 acc, i512 part, i512 s) { return i_sub_end(acc, part, s); }
V_INLINE i512 i_dot4_at(i512 acc, i512 w, const void *x) { return i_dot4(acc, w, i_bcast(x)); }
V_INLINE i512 i_dot2_at(i512 acc, i512 w, const void *x) { return i_dot2(acc, w, i_bcast(x)); }
V_INLINE i512 i_sub_dot_at(i512 part, i512 w, const void *x)
{
    return i_sub_dot(part, w, i_bcast(x));
}
V_INLINE i512 i_sub_start(i512 x)
{
    i512 s = _mm512_maddubs_epi16(_mm512_set1_epi8(I_BOOK_OFFSET), x);
    s      = _mm512_add_epi16(s, _mm512_shuffle_epi32(s, (_MM_PERM_ENUM)0x4e));
    return _mm512_sub_epi16(_mm512_setzero_si512(),
                            _mm512_add_epi16(s, _mm512_shuffle_epi32(s, (_MM_PERM_ENUM)0xb1)));
}
#endif

#if defined(__AVX512BF16__)
#define LANES_BF16 1
/* Not the intrinsic, for the same reason as I_DOT. */
V_INLINE f32x16 v_dot_bf16(f32x16 acc, i512 w, i512 x)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
    return acc;
}
V_INLINE i512 b_join_low(i512 a, i512 b)
{
    return _mm512_mask_blend_epi16(0x55555555u, _mm512_slli_epi32(a, 16), b);
}
V_INLINE i512 b_join_high(i512 a, i512 b)
{
    return _mm512_mask_blend_epi16(0x55555555u, a, _mm512_srli_epi32(b, 16));
}
V_INLINE i512 b_round_quads(f32x16 a, f32x16 b)
{
    static const uint16_t order[32] = { 2,  0,  3,  1,  6,  4,  7,  5,  10, 8,  11,
                                        9,  14, 12, 15, 13, 18, 16, 19, 17, 22, 20,
                                        23, 21, 26, 24, 27, 25, 30, 28, 31, 29 };
    i512 h = _mm512_permutexvar_epi16(_mm512_loadu_si512(order), (i512)_mm512_cvtne2ps_pbh(b, a));
    i512 magnitude = _mm512_and_si512(h, _mm512_set1_epi16(0x7fff));
    /* (127 - 50) << 7 is 2^-50 */
    return _mm512_maskz_mov_epi16(
        _mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16((127 - 50) << 7)), h);
}
#endif

/* The magnitudes of sub-block b of 4, as bytes of 16 rows, and the rows where it is negative. */
V_INLINE __m128i i_magnitudes(const uint8_t *s, const int8_t magnitude[16], int b, __mmask16 *sign)
{
    __m128i n = _mm_loadu_si128((const void *)(s + b / 2 * 16));
    n         = _mm_and_si128(b % 2 ? _mm_srli_epi16(n, 4) : n, _mm_set1_epi8(15));
    *sign     = (__mmask16)(s[32 + 2 * b] | s[33 + 2 * b] << 8);
    return _mm_shuffle_epi8(_mm_loadu_si128((const void *)magnitude), n);
}
V_INLINE void i_subscales(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
    UNROLL for (int b = 0; b < 4; b++) {
        __mmask16 sign;
        i512      v = _mm512_cvtepi8_epi32(i_magnitudes(s, magnitude, b, &sign));
        v           = _mm512_mask_sub_epi32(v, sign, _mm512_setzero_si512(), v);
        out[b]      = _mm512_mask_blend_epi16(0xaaaaaaaau, v, _mm512_slli_epi32(v, 16));
    }
}
V_INLINE void i_sub_factors(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
#if defined(__AVX512VNNI__)
    /* the sign while there are only words: upper words of 0 take the upper half of a part away */
    UNROLL for (int b = 0; b < 4; b++) {
        __mmask16 sign;
        __m256i   v = _mm256_cvtepi8_epi16(i_magnitudes(s, magnitude, b, &sign));
        v           = _mm256_mask_sub_epi16(v, sign, _mm256_setzero_si256(), v);
        out[b]      = _mm512_cvtepu16_epi32(v);
    }
#else
    i_subscales(out, s, magnitude);
#endif
}

V_INLINE f32x16 i_to_f32(i512 a) { return _mm512_cvtepi32_ps(a); }
V_INLINE f32x16 i_byte_to_f32(i512 a, int j)
{
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(a, (unsigned)(24 - 8 * j)), 24));
}
V_INLINE i512   i_bits(f32x16 a) { return _mm512_castps_si512(a); }
V_INLINE void   i_store_low16(int16_t *p, i512 a)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(a));
}

#endif
