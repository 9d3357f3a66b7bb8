/* kernels/lanes/int_neon.h: the operations of lanes/int_avx2.h in AArch64 NEON: four registers of 4 rows. With dotprod where
 * the compiler may use it. Both sides of a dot product are signed here: no offsets. 16-bit activations are two planes. */
#ifndef KERNELS_LANES_INT_NEON_H
#define KERNELS_LANES_INT_NEON_H

#include "kernels/lanes/neon.h"

#define I_PANELS   1
#define I_BLOCK_V  6
#define I_STREAM_V 4
#define I_SUB_V    2
#define I_STREAM_TOKENS 12
#define I_PLANES_TOKENS 4
#define I_FORM_8      FORM_BYTES
#define I_STREAM_8    FORM_BYTES
#define I_FORM_16     FORM_PLANES
#define I_STREAM_16   FORM_PLANES
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

V_INLINE i512 i_load(const void *p) { i512 r; V_EACH(i) r.v[i] = vld1q_s8((const int8_t *)p + 16 * i); return r; }
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
    V_EACH(i) a.v[i] = vreinterpretq_s8_u32(vshlq_u32(vreinterpretq_u32_s8(a.v[i]), vdupq_n_s32(n)));
    return a;
}
I_MAP2(i_sub16, I_OF16(vsubq_s16(I_AS16(x), I_AS16(y))))
I_MAP2(i_mul16, I_OF16(vmulq_s16(I_AS16(x), I_AS16(y))))

V_INLINE int16x8_t i_round_mul8(int16x8_t x, int16x8_t y)
{
    int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y)), high = vmull_s16(vget_high_s16(x), vget_high_s16(y));
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
V_INLINE int8x16_t i_narrow(int8x16_t a, int8x16_t b) { return vcombine_s8(vmovn_s16(I_AS16(a)), vmovn_s16(I_AS16(b))); }
V_INLINE i512 i_pack(i512 a, i512 b)
{
    return (i512){ { i_narrow(a.v[0], a.v[1]), i_narrow(a.v[2], a.v[3]),
                     i_narrow(b.v[0], b.v[1]), i_narrow(b.v[2], b.v[3]) } };
}

V_INLINE int32x4_t i_dot2_rows(int32x4_t acc, int16x8_t w, int16x8_t x)
{
    int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(x)), high = vmull_s16(vget_high_s16(w), vget_high_s16(x));
    return vaddq_s32(acc, vpaddq_s32(low, high));
}
I_MAP3(i_dot2, I_OF32(i_dot2_rows(I_AS32(x), I_AS16(y), I_AS16(z))))
#if defined(__ARM_FEATURE_DOTPROD)
I_MAP3(i_dot4, I_OF32(vdotq_s32(I_AS32(x), y, z)))
#else
/* A product is at most 128 * 127, two of them fit 16 bits. */
V_INLINE int32x4_t i_dot4_rows(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_s8(vget_high_s8(w), vget_high_s8(x));
    return vpadalq_s16(acc, vpaddq_s16(low, high));
}
I_MAP3(i_dot4, I_OF32(i_dot4_rows(I_AS32(x), y, z)))
#endif
V_INLINE i512 i_sub_dot(i512 part, i512 w, i512 x) { return i_dot4(part, w, x); }
V_INLINE i512 i_dot4_at(i512 acc, i512 w, const void *x) { return i_dot4(acc, w, i_bcast(x)); }
V_INLINE i512 i_dot2_at(i512 acc, i512 w, const void *x) { return i_dot2(acc, w, i_bcast(x)); }
V_INLINE i512 i_sub_dot_at(i512 part, i512 w, const void *x) { return i_sub_dot(part, w, i_bcast(x)); }
I_MAP3(i_sub_end, I_OF32(vmlaq_s32(I_AS32(x), I_AS32(y), vshrq_n_s32(I_AS32(z), 16))))
I_MAP3(i_scale, I_OF32(vmlaq_s32(I_AS32(x), I_AS32(y), I_AS32(z))))
V_INLINE i512 i_scale_of(i512 v, int j)
{
    V_EACH(i) v.v[i] = I_OF32(vshrq_n_s32(vshlq_s32(I_AS32(v.v[i]), vdupq_n_s32(24 - 8 * j)), 24));
    return v;
}
V_INLINE i512 i_sub_start(i512 x) { return (void)x, i_set32(0); }

/* Rows 4 * i .. of the magnitudes (words), signed by the bits from `signs` on, in both words of each row. */
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
        out[b].v[0] = i_subscale4(vget_low_s16(low), signs), out[b].v[1] = i_subscale4(vget_high_s16(low), signs >> 4);
        out[b].v[2] = i_subscale4(vget_low_s16(high), signs >> 8);
        out[b].v[3] = i_subscale4(vget_high_s16(high), signs >> 12);
    }
}

V_INLINE f32x16 i_to_f32(i512 a) { f32x16 r; V_EACH(i) r.v[i] = vcvtq_f32_s32(I_AS32(a.v[i])); return r; }
V_INLINE f32x16 i_byte_to_f32(i512 a, int j)
{
    f32x16    r;
    int32x4_t left = vdupq_n_s32(24 - 8 * j);
    V_EACH(i) r.v[i] = vcvtq_f32_s32(vshrq_n_s32(vshlq_s32(I_AS32(a.v[i]), left), 24));
    return r;
}
V_INLINE i512 i_bits(f32x16 a) { i512 r; V_EACH(i) r.v[i] = vreinterpretq_s8_f32(a.v[i]); return r; }
V_INLINE void i_store_low16(int16_t *p, i512 a) { V_EACH(i) vst1_s16(p + 4 * i, vmovn_s32(I_AS32(a.v[i]))); }

#endif
