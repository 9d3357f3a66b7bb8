/* kernels/lanes/neon.h: the operations of lanes/scalar.h in AArch64 NEON: four registers of 4. */
#ifndef KERNELS_LANES_NEON_H
#define KERNELS_LANES_NEON_H

#include <arm_neon.h>

#include "kernels/lanes/lanes.h"

#define LANES_ACC    6
#define LANES_CHAINS 4
#define LANES_INTEGERS 1
#define LANES_PANELS 1
#define V_EACH(i) for (int i = 0; i < 4; i++)

typedef struct f32x16 { float32x4_t v[4]; } f32x16;
typedef struct m16 { uint32x4_t v[4]; } m16;

V_INLINE f32x16 v_set(float a) { f32x16 r; V_EACH(i) r.v[i] = vdupq_n_f32(a); return r; }
V_INLINE f32x16 v_zero(void) { return v_set(0.0f); }
V_INLINE f32x16 v_load(const float *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vld1q_f32(p + 4 * i);
    return r;
}
V_INLINE void   v_store(float *p, f32x16 a) { V_EACH(i) vst1q_f32(p + 4 * i, a.v[i]); }
/* NEON has no masks: tails go through an array. */
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
/* 2^(e - 128): if e < 2 a subnormal, the larger of the two as integers */
V_INLINE f32x16 v_load_e8m0(const uint8_t *p)
{
    f32x16     r;
    uint8x16_t b  = vld1q_u8(p);
    uint16x8_t lo = vmovl_u8(vget_low_u8(b)), hi = vmovl_u8(vget_high_u8(b));
    uint32x4_t e[4] = { vmovl_u16(vget_low_u16(lo)), vmovl_u16(vget_high_u16(lo)),
                        vmovl_u16(vget_low_u16(hi)), vmovl_u16(vget_high_u16(hi)) };
    int32x4_t  one = vdupq_n_s32(1);
    V_EACH(i) r.v[i] = vreinterpretq_f32_s32(
        vmaxq_s32(vshlq_n_s32(vsubq_s32(vreinterpretq_s32_u32(e[i]), one), 23),
                  vshlq_n_s32(vaddq_s32(vreinterpretq_s32_u32(e[i]), one), 21)));
    return r;
}
V_INLINE void v_store_f16(uint16_t *p, f32x16 a)
{
    V_EACH(i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
V_INLINE f32x16 v_load_i8(const int8_t *p)
{
    int8x16_t b = vld1q_s8(p);
    int16x8_t lo = vmovl_s8(vget_low_s8(b)), hi = vmovl_s8(vget_high_s8(b));
    return (f32x16){
        { vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
          vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi))) }
    };
}
V_INLINE void v_store_i8_n(int8_t *p, f32x16 a, int n)
{
    int32_t t[16];
    V_EACH(i) vst1q_s32(t + 4 * i, vcvtq_s32_f32(a.v[i]));
    for (int i = 0; i < n; i++)
        p[i] = (int8_t)t[i];
}
V_INLINE uint32x4_t v_load_bf16_two(const uint16_t *p)
{
    return vreinterpretq_u32_u16(vld1q_u16(p));
}
V_INLINE f32x16 v_load_bf16_even(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vreinterpretq_f32_u32(vshlq_n_u32(v_load_bf16_two(p + 8 * i), 16));
    return r;
}
V_INLINE f32x16 v_load_bf16_odd(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vreinterpretq_f32_u32(vandq_u32(v_load_bf16_two(p + 8 * i),
                                                       vdupq_n_u32(0xffff0000u)));
    return r;
}

V_INLINE f32x16 v_add(f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = vaddq_f32(a.v[i], b.v[i]);
    return a;
}
V_INLINE f32x16 v_sub(f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = vsubq_f32(a.v[i], b.v[i]);
    return a;
}
V_INLINE f32x16 v_mul(f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = vmulq_f32(a.v[i], b.v[i]);
    return a;
}
V_INLINE f32x16 v_div(f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = vdivq_f32(a.v[i], b.v[i]);
    return a;
}
V_INLINE f32x16 v_sqrt(f32x16 a) { V_EACH(i) a.v[i] = vsqrtq_f32(a.v[i]); return a; }
V_INLINE f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c)
{
    V_EACH(i) c.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]);
    return c;
}
/* not FMAX */
V_INLINE float32x4_t v_max4(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
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
        p.v[i] = vreinterpretq_f32_u32(
        vaddq_u32(vreinterpretq_u32_f32(p.v[i]), vshlq_n_u32(vreinterpretq_u32_f32(z.v[i]), 23)));
    return p;
}

V_INLINE m16 v_lt(f32x16 a, f32x16 b)
{
    m16 r;
    V_EACH(i) r.v[i] = vcltq_f32(a.v[i], b.v[i]);
    return r;
}
V_INLINE m16 v_is_nan(f32x16 a)
{
    m16 r;
    V_EACH(i) r.v[i] = vmvnq_u32(vceqq_f32(a.v[i], a.v[i]));
    return r;
}
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
V_INLINE f32x16 v_select(m16 m, f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = vbslq_f32(m.v[i], a.v[i], b.v[i]);
    return a;
}

V_INLINE void v_zip(f32x16 a, f32x16 b, f32x16 *low, f32x16 *high)
{
    for (int i = 0; i < 2; i++) {
        low->v[2 * i]      = vzip1q_f32(a.v[i], b.v[i]);
        low->v[2 * i + 1]  = vzip2q_f32(a.v[i], b.v[i]);
        high->v[2 * i]     = vzip1q_f32(a.v[i + 2], b.v[i + 2]);
        high->v[2 * i + 1] = vzip2q_f32(a.v[i + 2], b.v[i + 2]);
    }
}

V_INLINE float v_first(f32x16 a) { return vgetq_lane_f32(a.v[0], 0); }
/* Registers 0 and 2, 1 and 3 first: that is lane i with lane i + 8. */
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

/* ---- Integers -------------------------------------------------------------------------------- */

#define I_FORM_8      FORM_BYTES
#define I_FORM_16     FORM_PLANES
#define I_OFFSET      0
#define I_BOOK_OFFSET 0
#define I_PART_WORDS  0

typedef struct i512 { int8x16_t v[4]; } i512;

#define I_AS16(x) vreinterpretq_s16_s8(x)
#define I_AS32(x) vreinterpretq_s32_s8(x)
#define I_OF16(x) vreinterpretq_s8_s16(x)
#define I_OF32(x) vreinterpretq_s8_s32(x)
#define I_MAP1(name, result)                    \
    V_INLINE i512 name(i512 a)                  \
    {                                           \
        i512 r;                                 \
        V_EACH(i) {                             \
            int8x16_t x = a.v[i];               \
            r.v[i] = (result);                  \
        }                                       \
        return r;                               \
    }
#define I_MAP2(name, result)                    \
    V_INLINE i512 name(i512 a, i512 b)          \
    {                                           \
        i512 r;                                 \
        V_EACH(i) {                             \
            int8x16_t x = a.v[i], y = b.v[i];   \
            r.v[i] = (result);                  \
        }                                       \
        return r;                               \
    }
#define I_MAP3(name, result)                                \
    V_INLINE i512 name(i512 a, i512 b, i512 c)              \
    {                                                       \
        i512 r;                                             \
        V_EACH(i) {                                         \
            int8x16_t x = a.v[i], y = b.v[i], z = c.v[i];   \
            r.v[i] = (result);                              \
        }                                                   \
        return r;                                           \
    }

V_INLINE i512 i_load(const void *p)
{
    i512 r;
    V_EACH(i) r.v[i] = vld1q_s8((const int8_t *)p + 16 * i);
    return r;
}
V_INLINE i512 i_load_once(const void *p) { return i_load(p); }
V_INLINE void i_store(void *p, i512 a) { V_EACH(i) vst1q_s8((int8_t *)p + 16 * i, a.v[i]); }
V_INLINE i512 i_set32(int32_t a) { i512 r; V_EACH(i) r.v[i] = I_OF32(vdupq_n_s32(a)); return r; }
V_INLINE i512 i_bcast(const void *p)
{
    int32_t a;
    memcpy(&a, p, sizeof a);
    return i_set32(a);
}
V_INLINE i512 i_table(const int8_t t[16]) { i512 r; V_EACH(i) r.v[i] = vld1q_s8(t); return r; }

I_MAP2(i_add32, I_OF32(vaddq_s32(I_AS32(x), I_AS32(y))))
I_MAP2(i_sub32, I_OF32(vsubq_s32(I_AS32(x), I_AS32(y))))
I_MAP2(i_max32, I_OF32(vmaxq_s32(I_AS32(x), I_AS32(y))))
I_MAP1(i_times256, I_OF32(vshlq_n_s32(I_AS32(x), 8)))
I_MAP2(i_and, vandq_s8(x, y))
I_MAP2(i_or, vorrq_s8(x, y))
V_INLINE i512 i_shift32(i512 a, int n)
{
    V_EACH(i) a.v[i] = vreinterpretq_s8_u32(vshlq_u32(vreinterpretq_u32_s8(a.v[i]),
                                                      vdupq_n_s32(n)));
    return a;
}
I_MAP2(i_sub16, I_OF16(vsubq_s16(I_AS16(x), I_AS16(y))))
I_MAP2(i_mul16, I_OF16(vmulq_s16(I_AS16(x), I_AS16(y))))

V_INLINE int16x8_t i_round_mul8(int16x8_t x, int16x8_t y)
{
    int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y)),
              high = vmull_s16(vget_high_s16(x), vget_high_s16(y));
    return vcombine_s16(vrshrn_n_s32(low, 16), vrshrn_n_s32(high, 16));
}
I_MAP2(i_round_mul16, I_OF16(i_round_mul8(I_AS16(x), I_AS16(y))))

I_MAP1(i_low_nibbles, vandq_s8(x, vdupq_n_s8(15)))
I_MAP1(i_high_nibbles, vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(x), 4)))
I_MAP2(i_lookup, vqtbl1q_s8(x, vreinterpretq_u8_s8(y)))
V_INLINE i512 i_offset(i512 w) { return w; }

I_MAP1(i_even, I_OF16(vshrq_n_s16(vshlq_n_s16(I_AS16(x), 8), 8)))
I_MAP1(i_odd, I_OF16(vshrq_n_s16(I_AS16(x), 8)))
I_MAP2(i_join, vtrn1q_s8(x, y))
V_INLINE i512 i_pair(i512 a) { return a; } /* words are not multiplied here */
V_INLINE int8x16_t i_narrow(int8x16_t a, int8x16_t b)
{
    return vcombine_s8(vmovn_s16(I_AS16(a)), vmovn_s16(I_AS16(b)));
}
V_INLINE i512 i_pack(i512 a, i512 b)
{
    return (i512){ { i_narrow(a.v[0], a.v[1]), i_narrow(a.v[2], a.v[3]),
                     i_narrow(b.v[0], b.v[1]), i_narrow(b.v[2], b.v[3]) } };
}

V_INLINE int32x4_t i_dot2_rows(int32x4_t acc, int16x8_t w, int16x8_t x)
{
    int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(x)),
              high = vmull_s16(vget_high_s16(w), vget_high_s16(x));
    return vaddq_s32(acc, vpaddq_s32(low, high));
}
I_MAP3(i_dot2, I_OF32(i_dot2_rows(I_AS32(x), I_AS16(y), I_AS16(z))))
#if defined(__ARM_FEATURE_DOTPROD)
I_MAP3(i_dot4, I_OF32(vdotq_s32(I_AS32(x), y, z)))
#else
/* A product is at most 128 * 127, two of them fit 16 bits. */
V_INLINE int32x4_t i_dot4_rows(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)),
              high = vmull_s8(vget_high_s8(w), vget_high_s8(x));
    return vpadalq_s16(acc, vpaddq_s16(low, high));
}
I_MAP3(i_dot4, I_OF32(i_dot4_rows(I_AS32(x), y, z)))
#endif
V_INLINE i512 i_sub_dot(i512 part, i512 w, i512 x) { return i_dot4(part, w, x); }
V_INLINE i512 i_dot4_at(i512 acc, i512 w, const void *x) { return i_dot4(acc, w, i_bcast(x)); }
V_INLINE i512 i_dot2_at(i512 acc, i512 w, const void *x) { return i_dot2(acc, w, i_bcast(x)); }
V_INLINE i512 i_sub_dot_at(i512 part, i512 w, const void *x)
{
    return i_sub_dot(part, w, i_bcast(x));
}
I_MAP3(i_sub_end, I_OF32(vmlaq_s32(I_AS32(x), I_AS32(y), vshrq_n_s32(I_AS32(z), 16))))
I_MAP3(i_scale, I_OF32(vmlaq_s32(I_AS32(x), I_AS32(y), I_AS32(z))))
V_INLINE i512 i_scale_of(i512 v, int j)
{
    V_EACH(i) v.v[i] = I_OF32(vshrq_n_s32(vshlq_s32(I_AS32(v.v[i]), vdupq_n_s32(24 - 8 * j)), 24));
    return v;
}
V_INLINE i512 i_sub_start(i512 x) { return (void)x, i_set32(0); }

/* Rows 4 * i .. of the magnitudes (words), signed by the bits from `signs` on, in both words of
 * each row. */
V_INLINE int8x16_t i_subscale4(int16x4_t magnitude, unsigned signs)
{
    static const int32_t bit[4] = { 1, 2, 4, 8 };
    uint32x4_t m = vtstq_s32(vdupq_n_s32((int32_t)signs), vld1q_s32(bit));
    int32x4_t  v = vmovl_s16(magnitude);
    v            = vbslq_s32(m, vnegq_s32(v), v);
    return I_OF16(vtrn1q_s16(vreinterpretq_s16_s32(v), vreinterpretq_s16_s32(v)));
}
V_INLINE void i_subscales(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
    int8x16_t table = vld1q_s8(magnitude);
    UNROLL for (int b = 0; b < 4; b++) {
        uint8x16_t n = vld1q_u8(s + b / 2 * 16);
        int8x16_t  m = vqtbl1q_s8(table, b % 2 ? vshrq_n_u8(n, 4) : vandq_u8(n, vdupq_n_u8(15)));
        int16x8_t  low = vmovl_s8(vget_low_s8(m)), high = vmovl_s8(vget_high_s8(m));
        unsigned   signs = s[32 + 2 * b] | (unsigned)s[33 + 2 * b] << 8;
        out[b].v[0] = i_subscale4(vget_low_s16(low), signs),
        out[b].v[1] = i_subscale4(vget_high_s16(low), signs >> 4);
        out[b].v[2] = i_subscale4(vget_low_s16(high), signs >> 8);
        out[b].v[3] = i_subscale4(vget_high_s16(high), signs >> 12);
    }
}
V_INLINE void i_sub_factors(i512 out[4], const uint8_t *s, const int8_t magnitude[16])
{
    i_subscales(out, s, magnitude);
}

V_INLINE f32x16 i_to_f32(i512 a)
{
    f32x16 r;
    V_EACH(i) r.v[i] = vcvtq_f32_s32(I_AS32(a.v[i]));
    return r;
}
V_INLINE f32x16 i_byte_to_f32(i512 a, int j)
{
    f32x16    r;
    int32x4_t left = vdupq_n_s32(24 - 8 * j);
    V_EACH(i) r.v[i] = vcvtq_f32_s32(vshrq_n_s32(vshlq_s32(I_AS32(a.v[i]), left), 24));
    return r;
}
V_INLINE i512 i_bits(f32x16 a)
{
    i512 r;
    V_EACH(i) r.v[i] = vreinterpretq_s8_f32(a.v[i]);
    return r;
}
V_INLINE void i_store_low16(int16_t *p, i512 a)
{
    V_EACH(i) vst1_s16(p + 4 * i, vmovn_s32(I_AS32(a.v[i])));
}

#endif
