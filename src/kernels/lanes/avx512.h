/* kernels/lanes/avx512.h: the operations of lanes/scalar.h in AVX-512 F, BW, VL and DQ. */
#ifndef KERNELS_LANES_AVX512_H
#define KERNELS_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define LANES_ACC    24
#define LANES_CHAINS 4
#define LANES_PANELS 2
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32") /* gcc keeps an array of vectors in registers only under constant indices */
#endif

#define V_INLINE static inline __attribute__((always_inline, unused))

typedef __m512    f32x16;
typedef __mmask16 m16;

V_INLINE f32x16 v_set(float a) { return _mm512_set1_ps(a); }
V_INLINE f32x16 v_zero(void) { return _mm512_setzero_ps(); }
V_INLINE f32x16 v_load(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE void   v_store(float *p, f32x16 a) { _mm512_storeu_ps(p, a); }
V_INLINE m16    v_low(int n) { return (__mmask16)((1u << n) - 1); }
V_INLINE f32x16 v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(v_low(n), p); }
V_INLINE void   v_store_n(float *p, f32x16 a, int n) { _mm512_mask_storeu_ps(p, v_low(n), a); }

V_INLINE f32x16 v_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
V_INLINE void   v_store_f16(uint16_t *p, f32x16 a)
{
    /* the form with a mask: gcc's macro for the plain one warns at -O0 */
    _mm256_storeu_si256((void *)p, _mm512_maskz_cvtps_ph((__mmask16)0xffff, a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE f32x16 v_load_bf16(const uint16_t *p)
{
    __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(u, 16));
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
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000)));
}

V_INLINE f32x16 v_add(f32x16 a, f32x16 b) { return _mm512_add_ps(a, b); }
V_INLINE f32x16 v_sub(f32x16 a, f32x16 b) { return _mm512_sub_ps(a, b); }
V_INLINE f32x16 v_mul(f32x16 a, f32x16 b) { return _mm512_mul_ps(a, b); }
V_INLINE f32x16 v_div(f32x16 a, f32x16 b) { return _mm512_div_ps(a, b); }
V_INLINE f32x16 v_sqrt(f32x16 a) { return _mm512_sqrt_ps(a); }
V_INLINE f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE f32x16 v_max(f32x16 a, f32x16 b) { return _mm512_max_ps(a, b); } /* the second where unordered or equal */

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

V_INLINE float v_first(f32x16 a) { return _mm512_cvtss_f32(a); }
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

#endif
