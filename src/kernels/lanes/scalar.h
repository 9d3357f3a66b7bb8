/* kernels/lanes/scalar.h: 16 lanes in plain C. This header defines every operation; the other lanes
 * headers are the same list in the instructions of one machine.
 *
 * Loads and stores need no alignment. Everything is static: code compiled with wide instructions
 * must never become the shared copy of a symbol. */
#ifndef KERNELS_LANES_SCALAR_H
#define KERNELS_LANES_SCALAR_H

/* The block sizes of the bodies. Here a block is one sum: more would not stay in registers. */
#define LANES_ACC    1 /* f32x16 sums that the registers hold besides their operands */
#define LANES_CHAINS 1 /* sums in flight for one token or query: they hide the latency of an fma */
#define LANES_PANELS 1 /* panels of a prefill block */
#define UNROLL         /* nothing: no sum of a block stays in registers */
#define LANES_INTEGERS 0 /* bodies/quantized_plain.h instead */
/* The compiler decides: a body of 16-lane loops inlined whole is huge. */
#define V_INLINE static inline __attribute__((unused))

#include "kernels/lanes/lanes.h"

#define V_EACH(i) for (int i = 0; i < 16; i++)

typedef struct f32x16 { float v[16]; } f32x16;
typedef struct m16 { bool v[16]; } m16; /* one truth value a lane */

V_INLINE f32x16 v_set(float a) { f32x16 r; V_EACH(i) r.v[i] = a; return r; }
V_INLINE f32x16 v_zero(void) { return v_set(0.0f); }

V_INLINE f32x16 v_load(const float *p) { f32x16 r; memcpy(r.v, p, sizeof r.v); return r; }
V_INLINE void   v_store(float *p, f32x16 a) { memcpy(p, a.v, sizeof a.v); }

/* The first n lanes, 0 < n < 16; lanes not loaded are +0, memory past n is neither read nor
 * written. */
V_INLINE f32x16 v_load_n(const float *p, int n)
{
    f32x16 r;
    V_EACH(i) r.v[i] = i < n ? p[i] : 0.0f;
    return r;
}
V_INLINE void   v_store_n(float *p, f32x16 a, int n) { memcpy(p, a.v, (size_t)n * sizeof *p); }

/* Exact widening; v_store_f16 rounds to nearest even and keeps subnormals. */
V_INLINE f32x16 v_load_f16(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = f16_to_f32(p[i]);
    return r;
}
V_INLINE void   v_store_f16(uint16_t *p, f32x16 a) { V_EACH(i) p[i] = f32_to_f16(a.v[i]); }
/* 16 signed bytes; v_store_i8_n stores the first n lanes, 0 < n <= 16, which are integers from -128
 * to 127. */
V_INLINE f32x16 v_load_i8(const int8_t *p) { f32x16 r; V_EACH(i) r.v[i] = (float)p[i]; return r; }
V_INLINE void   v_store_i8_n(int8_t *p, f32x16 a, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (int8_t)a.v[i];
}

/* 16 pairs of bf16: the first and the second of each. */
V_INLINE f32x16 v_load_bf16_even(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = bf16_to_f32(p[2 * i]);
    return r;
}
V_INLINE f32x16 v_load_bf16_odd(const uint16_t *p)
{
    f32x16 r;
    V_EACH(i) r.v[i] = bf16_to_f32(p[2 * i + 1]);
    return r;
}

V_INLINE f32x16 v_add(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] += b.v[i]; return a; }
V_INLINE f32x16 v_sub(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] -= b.v[i]; return a; }
V_INLINE f32x16 v_mul(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] *= b.v[i]; return a; }
V_INLINE f32x16 v_div(f32x16 a, f32x16 b) { V_EACH(i) a.v[i] /= b.v[i]; return a; }
V_INLINE f32x16 v_sqrt(f32x16 a) { V_EACH(i) a.v[i] = sqrtf(a.v[i]); return a; }
V_INLINE f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c)
{
    V_EACH(i) c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}
V_INLINE f32x16 v_max(f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}

/* Sign bits alone, NaN included. */
V_INLINE f32x16 v_neg(f32x16 a)
{
    V_EACH(i) a.v[i] = f32_from(f32_bits(a.v[i]) ^ 0x80000000u);
    return a;
}
V_INLINE f32x16 v_abs(f32x16 a)
{
    V_EACH(i) a.v[i] = f32_from(f32_bits(a.v[i]) & 0x7fffffffu);
    return a;
}
V_INLINE f32x16 v_copysign(f32x16 a, f32x16 s)
{
    V_EACH(i)
    a.v[i] = f32_from((f32_bits(a.v[i]) & 0x7fffffffu) | (f32_bits(s.v[i]) & 0x80000000u));
    return a;
}

/* bits(p) + (bits(z) << 23), modulo 2^32: p * 2^n if the low bits of z are n. */
V_INLINE f32x16 v_scale_bits(f32x16 p, f32x16 z)
{
    V_EACH(i) p.v[i] = f32_from(f32_bits(p.v[i]) + (f32_bits(z.v[i]) << 23));
    return p;
}

V_INLINE m16 v_lt(f32x16 a, f32x16 b) { m16 r; V_EACH(i) r.v[i] = a.v[i] < b.v[i]; return r; }
V_INLINE m16 v_is_nan(f32x16 a) { m16 r; V_EACH(i) r.v[i] = a.v[i] != a.v[i]; return r; }
/* Lanes first <= i < end; both may lie outside 0 .. 16. */
V_INLINE m16 v_range(int first, int end)
{
    m16 r;
    V_EACH(i) r.v[i] = i >= first && i < end;
    return r;
}
V_INLINE f32x16 v_select(m16 m, f32x16 a, f32x16 b)
{
    V_EACH(i) a.v[i] = m.v[i] ? a.v[i] : b.v[i];
    return a;
}

/* *low = a0 b0 a1 b1 .. a7 b7, *high = a8 b8 .. a15 b15; either may be a or b. */
V_INLINE void v_zip(f32x16 a, f32x16 b, f32x16 *low, f32x16 *high)
{
    for (int i = 0; i < 8; i++) {
        low->v[2 * i]      = a.v[i];
        low->v[2 * i + 1]  = b.v[i];
        high->v[2 * i]     = a.v[i + 8];
        high->v[2 * i + 1] = b.v[i + 8];
    }
}

V_INLINE float v_first(f32x16 a) { return a.v[0]; }
/* Fold 8+8, 4+4, 2+2, 1+1: lane i with lane i + 8, and so on. */
V_INLINE float v_fold_sum(f32x16 a)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] += a.v[i + half];
    return a.v[0];
}
V_INLINE float v_fold_max(f32x16 a)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}

#endif
