/* base/math64.c: logarithm, power, exponential, sine and cosine from plain double operations in
 * a fixed order, so that the bits depend on no C library. A "pair" is an unevaluated sum hi + lo
 * with about 100 bits. y * log(x) needs it, because an absolute error there becomes a relative
 * error of the power. Rounding must be to nearest, without contraction. */
#include "base/number.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/cpu.h"

_Static_assert(FLT_EVAL_METHOD == 0, "double operations must round to double");

typedef struct DoublePair {
    double hi, lo;
} DoublePair;

/* a + b exactly, for |a| >= |b| or a == 0 (Dekker 1971). */
static DoublePair fast_two_sum(double a, double b)
{
    double s = a + b;
    return (DoublePair){ s, b - (s - a) };
}

/* a + b exactly (Knuth, TAOCP 2, 4.2.2). */
static DoublePair two_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return (DoublePair){ s, (a - (s - t)) + (b - t) };
}

/* The upper 26 bits of a, and the rest (Veltkamp). |a| < 2^996. */
static DoublePair split(double a)
{
    double t = 134217729.0 * a; /* 2^27 + 1 */
    double hi = t - (t - a);
    return (DoublePair){ hi, a - hi };
}

/* a * b exactly (Dekker). An fma would do it too, but costs 40 times as much without the
 * instruction. */
static DoublePair two_product(double a, double b)
{
    DoublePair   x = split(a), y = split(b);
    double p = a * b;
    return (DoublePair){ p, ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo };
}

static uint64_t bits_of(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static double   from_bits(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

/* 2^n for -1022 <= n <= 1023 */
static double power_of_two(int n) { return from_bits((uint64_t)(n + 1023) << 52); }

/* The nearest integer, ties to even, |x| < 2^51. */
static double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* ln 2. The first part has 32 bits, so that its product with an exponent is exact. */
static const double LN2_HI = 0x1.62e42feep-1, LN2_LO = 0x1.a39ef35793c76p-33;

static const double inverse_factorial[19] = {
    1.0,
    1.0,
    1.0 / 2,
    1.0 / 6,
    1.0 / 24,
    1.0 / 120,
    1.0 / 720,
    1.0 / 5040,
    1.0 / 40320,
    1.0 / 362880,
    1.0 / 3628800,
    1.0 / 39916800,
    1.0 / 479001600,
    1.0 / 6227020800,
    1.0 / 87178291200,
    1.0 / 1307674368000,
    1.0 / 20922789888000,
    1.0 / 355687428096000,
    1.0 / 6402373705728000,
};

/* ---- Logarithm ------------------------------------------------------------------------------- */

/* log(x) for finite x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)) and
 * log(m) = 2 artanh(s) with s = (m - 1) / (m + 1), |s| < 0.1716. The leading term 2 s is a pair.
 * The rest of the series is a double, at most s^2/3 of it. The relative error is about 2^-59. */
static DoublePair log_pair(double x)
{
    int e = 0;
    if (x < DBL_MIN) {
        x *= 0x1p54;
        e = -54;
    }
    uint64_t u = bits_of(x);
    e += (int)(u >> 52) - 1023;
    double m = from_bits((u & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }

    double f = m - 1.0; /* exact */
    DoublePair   d = two_sum(m, 1.0);
    double s = f / d.hi;
    DoublePair   p = two_product(s, d.hi);
    double s_lo = (((f - p.hi) - p.lo) - s * d.lo) / d.hi;

    double z = s * s;
    static const double inverse[] = { 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                      1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3 };
    double series = 0; /* the next term is under 2^-70 */
    for (size_t k = 0; k < sizeof inverse / sizeof *inverse; k++)
        series = series * z + inverse[k];
    double rest = 2.0 * s * z * series;

    DoublePair   main = two_sum(e * LN2_HI, 2.0 * s);
    double low = main.lo + (2.0 * s_lo + (rest + e * LN2_LO));
    return fast_two_sum(main.hi, low);
}

double math64_log(double x)
{
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    return isinf(x) ? x : log_pair(x).hi;
}

/* ---- Exponential ----------------------------------------------------------------------------- */

/* exp(x + low), |low| small beside x. x = n ln 2 + r with |r| < 0.35; Taylor series to r^15 (the
 * next term is under 2^-68). */
static double exp_pair(double x, double low)
{
    if (x > 709.79)
        return INFINITY;
    if (x < -745.2)
        return 0;
    double n = nearest(x * 0x1.71547652b82fep+0); /* 1 / ln 2 */
    double r = x - n * LN2_HI;                    /* exact */
    r = r + (low - n * LN2_LO);

    double series = 0;
    for (int k = 15; k >= 2; k--)
        series = series * r + inverse_factorial[k];
    double y = 1.0 + (r + (r * r) * series);

    int e = (int)n; /* two steps, for subnormal and very large results */
    return y * power_of_two(e / 2) * power_of_two(e - e / 2);
}

double math64_exp(double x) { return isnan(x) ? x : exp_pair(x, 0); }

double math64_pow(double x, double y)
{
    if (y == 0 || x == 1)
        return 1;
    if (isnan(y) || !(x >= 0))
        return NAN;
    if (x == 0 || isinf(x))
        return (x == 0) == (y > 0) ? 0 : INFINITY;
    if (isinf(y))
        return (x < 1) == (y > 0) ? 0 : INFINITY;
    DoublePair   l = log_pair(x);
    double rough = y * l.hi;
    if (!(fabs(rough) < 800)) /* now |y| < 800 * 2^53, because |log(x)| >= 2^-53 */
        return rough > 0 ? INFINITY : 0;
    DoublePair p = two_product(y, l.hi);
    return exp_pair(p.hi, p.lo + y * l.lo);
}

/* ---- Sine and cosine ------------------------------------------------------------------------- */

/* angle = n pi/2 + r, |r| <= pi/4 and a little more. The parts of pi/2 have 27 bits, so that
 * their products with n < 2^25 are exact and r is right to about 2^-53. */
void math64_sincos(double angle, double *s, double *c)
{
    static const double part1 = 0x1.921fb54p+0, part2 = 0x1.10b4610p-30,
                        part3 = 0x1.a62633145c06ep-58;
    if (!(fabs(angle) <= 0x1p25)) {
        *s = *c = NAN;
        return;
    }
    double n = nearest(angle * 0x1.45f306dc9c883p-1); /* 2 / pi */
    double r = ((angle - n * part1) - n * part2) - n * part3, z = r * r;

    double p = 0, q = 0; /* sin r = r - r z p, cos r = 1 - z q */
    for (int k = 17; k >= 3; k -= 2)
        p = inverse_factorial[k] - z * p;
    for (int k = 18; k >= 2; k -= 2)
        q = inverse_factorial[k] - z * q;
    double sine = r - r * z * p, cosine = 1.0 - z * q;

    switch ((int64_t)n & 3) {
    case 0: *s = sine, *c = cosine; break;
    case 1: *s = cosine, *c = -sine; break;
    case 2: *s = -sine, *c = -cosine; break;
    default: *s = -cosine, *c = sine; break;
    }
}
