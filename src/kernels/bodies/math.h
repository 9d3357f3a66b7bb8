/* kernels/bodies/math.h: exp and functions of it, over 16 lanes. The coefficients and the order
 * of every operation are part of the numerics contract (docs/numerics.md): check_kernels pins a
 * digest over all floats. Coefficients: minimax fits (Remez), rounded to float one after the other,
 * the rest refitted each time. Largest errors: exp 0.892 ulp (over every float), SiLU 2.05, sigmoid
 * 2.18, tanh 1.27 (one float in 1009); GELU 0.43 of its bound. */
#ifndef KERNELS_BODIES_MATH_H
#define KERNELS_BODIES_MATH_H

#define EXP_LOW   (-87.33654f) /* below: +0, since the next is subnormal     */
#define EXP_HIGH  88.72283f    /* above: +inf                                */
#define EXP_ROUND 0x1.8p23f    /* adding it rounds to an integer             */
#define LOG2E     0x1.715476p+0f
#define LN2_HIGH  0x1.62e430p-1f  /* n * LN2_HIGH and x - n * LN2_HIGH are exact for |n| <= 128 */
#define LN2_LOW   (-0x1.05c610p-29f)

/* exp(r) = 1 + r + r^2 (E2 + E3 r + E4 r^2 + E5 r^3 + E6 r^4) for |r| <= ln(2)/2: relative error
 * 2^-28.2 */
#define EXP_2 0x1.fffffcp-2f
#define EXP_3 0x1.55548cp-3f
#define EXP_4 0x1.555858p-5f
#define EXP_5 0x1.123ddep-7f
#define EXP_6 0x1.6ac71cp-10f

/* (tanh(x) - x) / x = z (T1 + T2 z + ...), z = x^2, |x| < 0.625: relative error 2^-27.8 */
#define TANH_SMALL 0.625f
#define TANH_1 (-0x1.555534p-2f)
#define TANH_2 0x1.11075ep-3f
#define TANH_3 (-0x1.b842c4p-5f)
#define TANH_4 0x1.524c40p-6f
#define TANH_5 (-0x1.767a14p-8f)

/* log(1 + t) = d + d z (S1 + S2 z + ...), s = t / (2 + t), d = 2 s, z = s^2, 0 <= t <= 1: relative
 * error 2^-27.7 */
#define SOFTPLUS_1 0x1.555502p-2f
#define SOFTPLUS_2 0x1.99d208p-3f
#define SOFTPLUS_3 0x1.1ebd0ep-3f
#define SOFTPLUS_4 0x1.1ed7bep-3f

/* erf(x) = x + x (A0 + A1 z + ...), z = x^2, |x| < 0.9375: relative error 2^-25.6;
 * above, 1 - exp(t (B1 + B2 t + ...)), t = min(|x|, 4): absolute error 2^-30 before rounding */
#define ERF_SMALL 0.9375f
#define ERF_LARGE 4.0f
#define ERF_A0 0x1.06eba6p-3f
#define ERF_A1 (-0x1.8126e2p-2f)
#define ERF_A2 0x1.ce195ap-4f
#define ERF_A3 (-0x1.b6777ep-6f)
#define ERF_A4 0x1.46b666p-8f
#define ERF_A5 (-0x1.37c790p-11f)
#define ERF_B1 (-0x1.20effep+0f)
#define ERF_B2 (-0x1.452b5ap-1f)
#define ERF_B3 (-0x1.b384f0p-4f)
#define ERF_B4 0x1.869b12p-6f
#define ERF_B5 (-0x1.e24e9ep-9f)
#define ERF_B6 0x1.5c1c76p-12f
#define ERF_B7 (-0x1.97b2f0p-17f)

/* x = n ln 2 + *r; the low bits of *z are n. Returns the polynomial of exp(*r) down to its square,
 * (exp(r) - 1 - r) / r^2. */
V_INLINE f32x16 v_exp_parts(f32x16 x, f32x16 *z, f32x16 *r)
{
    *z       = v_fma(x, v_set(LOG2E), v_set(EXP_ROUND));
    f32x16 n = v_sub(*z, v_set(EXP_ROUND));
    *r       = v_fma(n, v_set(-LN2_HIGH), x);
    *r       = v_fma(n, v_set(-LN2_LOW), *r);
    f32x16 p = v_fma(v_set(EXP_6), *r, v_set(EXP_5));
    p        = v_fma(p, *r, v_set(EXP_4));
    p        = v_fma(p, *r, v_set(EXP_3));
    return v_fma(p, *r, v_set(EXP_2));
}

/* p is 1 or a little more if n = -126, so the sum of bits is never subnormal; n = 128 does not need
 * 2^128, which is no float. */
V_INLINE f32x16 v_exp_low(f32x16 x) /* exp, for x <= EXP_HIGH or NaN */
{
    f32x16 z, r;
    f32x16 p = v_exp_parts(x, &z, &r);
    p        = v_fma(p, r, v_set(1.0f));
    p        = v_fma(p, r, v_set(1.0f));
    p        = v_scale_bits(p, z);
    p        = v_select(v_lt(x, v_set(EXP_LOW)), v_zero(), p);
    return v_select(v_is_nan(x), x, p);
}

/* exp(x) - 1 for x <= 0 or NaN, by the same polynomial: exp(r) - 1 first, then times 2^n. */
V_INLINE f32x16 v_expm1_low(f32x16 x)
{
    f32x16 z, r;
    f32x16 p = v_exp_parts(x, &z, &r);
    p        = v_fma(v_mul(p, r), r, r);
    f32x16 s = v_scale_bits(v_set(1.0f), z);
    p        = v_fma(s, p, v_sub(s, v_set(1.0f)));
    p        = v_select(v_lt(x, v_set(EXP_LOW)), v_set(-1.0f), p);
    return v_select(v_is_nan(x), x, p);
}

V_INLINE f32x16 v_exp(f32x16 x)
{
    return v_select(v_lt(v_set(EXP_HIGH), x), v_set(INFINITY), v_exp_low(x));
}

V_INLINE f32x16 v_sigmoid(f32x16 x)
{
    return v_div(v_set(1.0f), v_add(v_set(1.0f), v_exp(v_neg(x))));
}

/* Below -EXP_HIGH the quotient is -0 already, except -inf / inf. */
V_INLINE f32x16 v_silu(f32x16 x)
{
    f32x16 y = v_div(x, v_add(v_set(1.0f), v_exp(v_neg(x))));
    return v_select(v_lt(x, v_set(-EXP_HIGH)), v_set(-0.0f), y);
}

V_INLINE f32x16 v_softplus(f32x16 x) /* log(1 + exp(x)) */
{
    f32x16 t = v_exp_low(v_neg(v_abs(x)));
    f32x16 s = v_div(t, v_add(v_set(2.0f), t)), z = v_mul(s, s), d = v_add(s, s);
    f32x16 p = v_fma(v_set(SOFTPLUS_4), z, v_set(SOFTPLUS_3));
    p        = v_fma(p, z, v_set(SOFTPLUS_2));
    p        = v_fma(p, z, v_set(SOFTPLUS_1));
    p        = v_fma(v_mul(d, z), p, d);
    return v_add(v_select(v_lt(v_zero(), x), x, v_zero()), p);
}

V_INLINE f32x16 v_tanh(f32x16 x)
{
    f32x16 t = v_abs(x), z = v_mul(x, x);
    f32x16 p = v_fma(v_set(TANH_5), z, v_set(TANH_4));
    p        = v_fma(p, z, v_set(TANH_3));
    p        = v_fma(p, z, v_set(TANH_2));
    p        = v_fma(p, z, v_set(TANH_1));
    p        = v_fma(v_mul(p, z), t, t);
    f32x16 e = v_exp(v_mul(v_set(2.0f), t));
    e        = v_sub(v_set(1.0f), v_div(v_set(2.0f), v_add(e, v_set(1.0f))));
    return v_copysign(v_select(v_lt(t, v_set(TANH_SMALL)), p, e), x);
}

V_INLINE f32x16 v_erf(f32x16 x)
{
    f32x16 t = v_abs(x), z = v_mul(x, x);
    f32x16 p = v_fma(v_set(ERF_A5), z, v_set(ERF_A4));
    p        = v_fma(p, z, v_set(ERF_A3));
    p        = v_fma(p, z, v_set(ERF_A2));
    p        = v_fma(p, z, v_set(ERF_A1));
    p        = v_fma(p, z, v_set(ERF_A0));
    p        = v_fma(p, t, t);
    f32x16 u = v_select(v_lt(v_set(ERF_LARGE), t), v_set(ERF_LARGE), t); /* NaN stays */
    f32x16 e = v_fma(v_set(ERF_B7), u, v_set(ERF_B6));
    e        = v_fma(e, u, v_set(ERF_B5));
    e        = v_fma(e, u, v_set(ERF_B4));
    e        = v_fma(e, u, v_set(ERF_B3));
    e        = v_fma(e, u, v_set(ERF_B2));
    e        = v_fma(e, u, v_set(ERF_B1));
    e        = v_sub(v_set(1.0f), v_exp(v_mul(e, u)));
    return v_copysign(v_select(v_lt(t, v_set(ERF_SMALL)), p, e), x);
}

V_INLINE f32x16 v_gelu(f32x16 x)
{
    f32x16 e = v_erf(v_mul(x, v_set(0x1.6a09e6p-1f)));
    return v_mul(v_mul(v_set(0.5f), x), v_add(v_set(1.0f), e));
}

V_INLINE f32x16 v_gelu_tanh(f32x16 x)
{
    f32x16 u = v_mul(x, v_fma(v_set(0.044715f), v_mul(x, x), v_set(1.0f)));
    f32x16 t = v_tanh(v_mul(v_set(0.7978846f), u));
    return v_mul(v_mul(v_set(0.5f), x), v_add(v_set(1.0f), t));
}

/* NaN stays. */
V_INLINE f32x16 v_relu(f32x16 x) { return v_select(v_lt(x, v_zero()), v_zero(), x); }
V_INLINE f32x16 v_relu2(f32x16 x) { return v_mul(v_relu(x), v_relu(x)); }

#endif
