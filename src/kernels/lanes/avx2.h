/* kernels/lanes/avx2.h: the operations of lanes/scalar.h in AVX2, FMA and F16C: two registers of 8. */
#ifndef KERNELS_LANES_AVX2_H
#define KERNELS_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define LANES_ACC    6
#define LANES_CHAINS 4
#define LANES_PANELS 1
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32") /* gcc keeps an array of vectors in registers only under constant indices */
#endif

#define V_INLINE static inline __attribute__((always_inline, unused))

typedef struct f32x16 { __m256 a, b; } f32x16; /* lanes 0 .. 7 and 8 .. 15 */
typedef f32x16 m16;                            /* all ones or all zeros    */

V_INLINE f32x16 v_of(__m256 a, __m256 b) { return (f32x16){ a, b }; }
V_INLINE f32x16 v_of_int(__m256i a, __m256i b) { return v_of(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)); }

V_INLINE f32x16 v_set(float a) { return v_of(_mm256_set1_ps(a), _mm256_set1_ps(a)); }
V_INLINE f32x16 v_zero(void) { return v_of(_mm256_setzero_ps(), _mm256_setzero_ps()); }
V_INLINE f32x16 v_load(const float *p) { return v_of(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
V_INLINE void   v_store(float *p, f32x16 v) { _mm256_storeu_ps(p, v.a), _mm256_storeu_ps(p + 8, v.b); }

V_INLINE m16 v_range(int first, int end)
{
    __m256i lo = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), hi = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
    __m256i f = _mm256_set1_epi32(first), e = _mm256_set1_epi32(end);
    return v_of_int(_mm256_andnot_si256(_mm256_cmpgt_epi32(f, lo), _mm256_cmpgt_epi32(e, lo)),
                    _mm256_andnot_si256(_mm256_cmpgt_epi32(f, hi), _mm256_cmpgt_epi32(e, hi)));
}
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
    return v_of(_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)), _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8))));
}
V_INLINE void v_store_f16(uint16_t *p, f32x16 v)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((void *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE f32x16 v_load_bf16(const uint16_t *p)
{
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p + 8)));
    return v_of_int(_mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
}
V_INLINE __m256 v_load_i8_half(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
V_INLINE f32x16 v_load_i8(const int8_t *p) { return v_of(v_load_i8_half(p), v_load_i8_half(p + 8)); }
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

V_INLINE f32x16 v_add(f32x16 x, f32x16 y) { return v_of(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)); }
V_INLINE f32x16 v_sub(f32x16 x, f32x16 y) { return v_of(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)); }
V_INLINE f32x16 v_mul(f32x16 x, f32x16 y) { return v_of(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)); }
V_INLINE f32x16 v_div(f32x16 x, f32x16 y) { return v_of(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)); }
V_INLINE f32x16 v_sqrt(f32x16 x) { return v_of(_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)); }
V_INLINE f32x16 v_fma(f32x16 x, f32x16 y, f32x16 z)
{
    return v_of(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
/* The second where unordered or equal. */
V_INLINE f32x16 v_max(f32x16 x, f32x16 y) { return v_of(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)); }

V_INLINE f32x16 v_and(f32x16 x, f32x16 y) { return v_of(_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)); }
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
    __m256i a = _mm256_slli_epi32(_mm256_castps_si256(z.a), 23), b = _mm256_slli_epi32(_mm256_castps_si256(z.b), 23);
    return v_of_int(_mm256_add_epi32(_mm256_castps_si256(p.a), a), _mm256_add_epi32(_mm256_castps_si256(p.b), b));
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

V_INLINE float v_first(f32x16 x) { return _mm256_cvtss_f32(x.a); }
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

#endif
