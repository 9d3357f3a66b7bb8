/* kernels/lanes/neon.h: the operations of lanes/scalar.h in AArch64 NEON: four registers of 4. */
#ifndef KERNELS_LANES_NEON_H
#define KERNELS_LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define LANES_ACC    6
#define LANES_CHAINS 4
#define LANES_PANELS 1
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32") /* gcc keeps an array of vectors in registers only under constant indices */
#endif

#define V_INLINE static inline __attribute__((always_inline, unused))
#define V_EACH(i) for (int i = 0; i < 4; i++)

typedef struct f32x16 { float32x4_t v[4]; } f32x16;
typedef struct m16 { uint32x4_t v[4]; } m16;

V_INLINE f32x16 v_set(float a) { f32x16 r; V_EACH(i) r.v[i] = vdupq_n_f32(a); return r; }
V_INLINE f32x16 v_zero(void) { return v_set(0.0f); }
V_INLINE f32x16 v_load(const float *p) { f32x16 r; V_EACH(i) r.v[i] = vld1q_f32(p + 4 * i); return r; }
V_INLINE void   v_store(float *p, f32x16 a) { V_EACH(i) vst1q_f32(p + 4 * i, a.v[i]); }
V_INLINE f32x16 v_load_n(const float *p, int n)
{
    float t[16] = { 0 };
    memcpy(t, p, (size_t)n * sizeof *p);
    return v_load(t);
}
V_INLINE void v_store_n(float *p, f32x16 a, int n)
{
    float t[16];
    v_store(t, a);
    memcpy(p, t, (size_t)n * sizeof *p);
}

V_INLINE f32x16 v_load_f16(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    return r;
}
V_INLINE void v_store_f16(uint16_t *p, f32x16 a)
{
    V_EACH(i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
V_INLINE f32x16 v_load_bf16(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
    return r;
}
V_INLINE f32x16 v_load_i8(const int8_t *p)
{
    int8x16_t b = vld1q_s8(p);
    int16x8_t lo = vmovl_s8(vget_low_s8(b)), hi = vmovl_s8(vget_high_s8(b));
    return (f32x16){ { vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
                       vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi))) } };
}
V_INLINE void v_store_i8_n(int8_t *p, f32x16 a, int n)
{
    int32_t t[16];
    V_EACH(i) vst1q_s32(t + 4 * i, vcvtq_s32_f32(a.v[i]));
    for (int i = 0; i < n; i++)
        p[i] = (int8_t)t[i];
}
V_INLINE uint32x4_t v_load_bf16_two(const uint16_t *p) { return vreinterpretq_u32_u16(vld1q_u16(p)); }
V_INLINE f32x16 v_load_bf16_even(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vreinterpretq_f32_u32(vshlq_n_u32(v_load_bf16_two(p + 8 * i), 16));
    return r;
}
V_INLINE f32x16 v_load_bf16_odd(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vreinterpretq_f32_u32(vandq_u32(v_load_bf16_two(p + 8 * i), vdupq_n_u32(0xffff0000u)));
    return r;
}

V_INLINE f32x16 v_add(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] = vaddq_f32(a.v[i], b.v[i]); return a; }
V_INLINE f32x16 v_sub(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] = vsubq_f32(a.v[i], b.v[i]); return a; }
V_INLINE f32x16 v_mul(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] = vmulq_f32(a.v[i], b.v[i]); return a; }
V_INLINE f32x16 v_div(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] = vdivq_f32(a.v[i], b.v[i]); return a; }
V_INLINE f32x16 v_sqrt(f32x16 a) { V_EACH(i) a.v[i] = vsqrtq_f32(a.v[i]); return a; }
V_INLINE f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c) { V_EACH(i) c.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]); return c; }
V_INLINE float32x4_t v_max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); } /* not FMAX */
V_INLINE f32x16 v_max(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] = v_max4(a.v[i], b.v[i]); return a; }

V_INLINE f32x16 v_neg(f32x16 a) { V_EACH(i) a.v[i] = vnegq_f32(a.v[i]); return a; }
V_INLINE f32x16 v_abs(f32x16 a) { V_EACH(i) a.v[i] = vabsq_f32(a.v[i]); return a; }
V_INLINE f32x16 v_copysign(f32x16 a, f32x16 s)
{
    V_EACH(i) a.v[i] = vbslq_f32(vdupq_n_u32(0x80000000u), s.v[i], a.v[i]);
    return a;
}
V_INLINE f32x16 v_scale_bits(f32x16 p, f32x16 z)
{
    V_EACH(i)
        p.v[i] = vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p.v[i]), vshlq_n_u32(vreinterpretq_u32_f32(z.v[i]), 23)));
    return p;
}

V_INLINE m16 v_lt(f32x16 a, f32x16 b) { m16 r; V_EACH(i) r.v[i] = vcltq_f32(a.v[i], b.v[i]); return r; }
V_INLINE m16 v_is_nan(f32x16 a) { m16 r; V_EACH(i) r.v[i] = vmvnq_u32(vceqq_f32(a.v[i], a.v[i])); return r; }
V_INLINE m16 v_range(int first, int end)
{
    static const int32_t lane[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    m16 r;
    V_EACH(i) {
        int32x4_t n = vld1q_s32(lane + 4 * i);
        r.v[i] = vandq_u32(vcgeq_s32(n, vdupq_n_s32(first)), vcltq_s32(n, vdupq_n_s32(end)));
    }
    return r;
}
V_INLINE f32x16 v_select(m16 m, f32x16 a, f32x16 b) { V_EACH(i) a.v[i] = vbslq_f32(m.v[i], a.v[i], b.v[i]); return a; }

V_INLINE float v_first(f32x16 a) { return vgetq_lane_f32(a.v[0], 0); }
V_INLINE float v_fold_sum(f32x16 a)
{
    float32x4_t c = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    float32x2_t d = vadd_f32(vget_low_f32(c), vget_high_f32(c));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
V_INLINE float v_fold_max(f32x16 a)
{
    float32x4_t c = v_max4(v_max4(a.v[0], a.v[2]), v_max4(a.v[1], a.v[3]));
    float       t[4];
    vst1q_f32(t, c);
    t[0] = t[0] > t[2] ? t[0] : t[2];
    t[1] = t[1] > t[3] ? t[1] : t[3];
    return t[0] > t[1] ? t[0] : t[1];
}

#endif
