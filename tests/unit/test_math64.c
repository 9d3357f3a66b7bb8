#include "base/number.h"

#include <math.h>
#include "base/hash.h"
#include "test.h"

/* A fixed sequence of test inputs in [0, 1) (splitmix64). */
static double uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* The references are long double functions: 64 bits of mantissa on x86, 113 on ARM. */
static double relative(double x, long double reference)
{
    return (double)fabsl(((long double)x - reference) / reference);
}

static void report(const char *what, double error)
{
    fprintf(stderr, "# %s: at most 2^%.2f\n", what, log2(error));
}

static void log_is_right_to_2_to_the_minus_52(void)
{
    uint64_t state = 1;
    double   worst = 0;
    for (int i = 0; i < 300000; i++) {
        double x = i % 2 ? ldexp(1 + uniform(&state), (int)(uniform(&state) * 2090) - 1070)
                         : 1 + (uniform(&state) - 0.5) * 0.1;
        double e = x == 1 ? fabs(math64_log(x)) : relative(math64_log(x), logl((long double)x));
        worst = e > worst ? e : worst;
    }
    report("log, relative error", worst);
    CHECK(worst <= 0x1p-52, "%g", worst);
    CHECK(math64_log(1) == 0 && math64_log(0) == -INFINITY && math64_log(INFINITY) == INFINITY,
          "special values");
    CHECK(isnan(math64_log(-1)) && isnan(math64_log(NAN)), "outside the domain");
}

static void exp_is_right_to_2_to_the_minus_51(void)
{
    uint64_t state = 2;
    double   worst = 0;
    for (int i = 0; i < 300000; i++) {
        double x = (uniform(&state) - 0.5) * (i % 3 == 0 ? 1416 : i % 3 == 1 ? 20 : 0.1);
        double e = relative(math64_exp(x), expl((long double)x));
        worst = e > worst ? e : worst;
    }
    report("exp, relative error", worst);
    CHECK(worst <= 0x1p-51, "%g", worst);
    CHECK(math64_exp(0) == 1 && math64_exp(-INFINITY) == 0 && math64_exp(-746) == 0,
          "special values");
    CHECK(math64_exp(710) == INFINITY && math64_exp(INFINITY) == INFINITY && isnan(math64_exp(NAN)),
          "special values");
    CHECK(math64_exp(-745) == 0x1p-1074 && math64_exp(709.7) < INFINITY, "the ends");
}

static void pow_of_rotary_bases_is_right(void)
{
    double worst = 0;
    static const double thetas[] = { 10000, 500000, 1e6, 5e6, 1e7,
                                     8000000, 10001.5, 2,   0.5, 1.0000001 };
    for (size_t t = 0; t < sizeof thetas / sizeof *thetas; t++)
        for (int rot = 4; rot <= 512; rot += 4)
            for (int i = 0; i <= rot / 2; i++) {
                double y = (2.0 * i) / rot;
                double e = relative(math64_pow(thetas[t], y),
                                    powl((long double)thetas[t], (long double)y));
                worst = e > worst ? e : worst;
            }
    report("pow(theta, 2i/rot), relative error", worst);
    CHECK(worst <= 0x1p-51, "%g", worst);
}

static void pow_in_general_is_right(void)
{
    uint64_t state = 3;
    double   worst = 0;
    for (int i = 0; i < 300000; i++) {
        double x = i % 2 ? ldexp(1 + uniform(&state), (int)(uniform(&state) * 2000) - 1000)
                         : 1 + (uniform(&state) - 0.5) * 1e-3;
        double y = (uniform(&state) - 0.5) * 1400 / log(x);
        double e = x == 1 ? 0 : relative(math64_pow(x, y), powl((long double)x, (long double)y));
        worst = e > worst ? e : worst;
    }
    report("pow, results from e^-700 to e^700, relative error", worst);
    CHECK(worst <= 0x1p-48, "%g", worst);
}

static void pow_has_exact_and_special_values(void)
{
    for (int i = -1022; i <= 1023; i++)
        CHECK(math64_pow(2, i) == ldexp(1, i), "2^%d", i);
    CHECK(math64_pow(10000, 0.5) == 100 && math64_pow(3, 5) == 243 && math64_pow(7, 1) == 7,
          "small powers");
    CHECK(math64_pow(0, 2) == 0 && math64_pow(0, -1) == INFINITY && math64_pow(5,
        0) == 1 && math64_pow(1, 1e300) == 1, "specials");
    CHECK(math64_pow(2, 1e300) == INFINITY && math64_pow(2, -1e300) == 0 && math64_pow(2,
        -1e-320) == 1, "extremes");
    CHECK(math64_pow(0.5, INFINITY) == 0 && math64_pow(2,
                                                       INFINITY) == INFINITY && math64_pow(INFINITY,
        -1) == 0, "infinities");
    CHECK(isnan(math64_pow(-1, 2)) && isnan(math64_pow(NAN, 1)) && isnan(math64_pow(2, NAN)),
          "NaN");
}

static void sine_and_cosine_are_right_to_2_to_the_minus_52(void)
{
    uint64_t state = 4;
    double   worst = 0;
    for (int i = 0; i < 400000; i++) {
        double angle = (uniform(&state) - 0.5)
            * (i % 4 == 0       ? 0x1p26
                   : i % 4 == 1 ? 0x1p20
                   : i % 4 == 2 ? 100
                                : 1e-3);
        if (i % 5 == 0) /* next to a multiple of pi/2, where the reduction cancels most */
            angle = nearbyint(angle * M_2_PI) * M_PI_2;
        if (i % 7 == 0)
            angle = trunc(angle); /* the first rotary pair: whole radians */
        double s, c;
        math64_sincos(angle, &s, &c);
        double e = fmax((double)fabsl((long double)s - sinl((long double)angle)),
                        (double)fabsl((long double)c - cosl((long double)angle)));
        worst = e > worst ? e : worst;
    }
    report("sine and cosine, |angle| to 2^25, absolute error", worst);
    CHECK(worst <= 0x1p-52, "%g", worst);
}

static void sine_and_cosine_at_the_ends(void)
{
    double s, c;
    math64_sincos(0, &s, &c);
    CHECK(s == 0 && c == 1, "0: %a %a", s, c);
    math64_sincos(0x1p25, &s, &c);
    CHECK(fabs(s * s + c * c - 1) < 1e-15, "2^25: %a %a", s, c);
    math64_sincos(0x1.0000001p25, &s, &c);
    CHECK(isnan(s) && isnan(c), "past 2^25: %a %a", s, c);
    math64_sincos(NAN, &s, &c);
    CHECK(isnan(s) && isnan(c), "NaN: %a %a", s, c);
}

/* Pins every bit: another compiler, flag or machine must give this digest. */
static void bits_are_pinned(void)
{
    uint64_t state = 5, h = FNV_SEED;
    for (int i = 0; i < 50000; i++) {
        double u = uniform(&state), v = uniform(&state), out[6];
        out[0] = math64_log(ldexp(1 + u, i % 2000 - 1000));
        out[1] = math64_exp((u - 0.5) * 1400);
        out[2] = math64_pow(10 + 1e7 * u, v);
        out[3] = math64_pow(1000 * u, (v - 0.5) * 100);
        math64_sincos((u - 0.5) * 0x1p25, &out[4], &out[5]);
        h = fnv1a(h, out, sizeof out);
    }
    CHECK(h == 0x82283ecae6ebbe6d, "digest %016llx", (unsigned long long)h);
}

static void a_nan_stays_the_worst_error(void)
{
    const double errors[] = { 1, NAN, 2, 0 };
    double       worst = -1;
    for (int i = 0; i < 4; i++)
        worst = error_is_worse(errors[i], worst) ? errors[i] : worst;
    CHECK(isnan(worst), "%g", worst);
    CHECK(error_is_worse(2, 1) && !error_is_worse(1, 1) && !error_is_worse(0, 1), "numbers");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(log_is_right_to_2_to_the_minus_52);
    TEST(exp_is_right_to_2_to_the_minus_51);
    TEST(pow_of_rotary_bases_is_right);
    TEST(pow_in_general_is_right);
    TEST(pow_has_exact_and_special_values);
    TEST(sine_and_cosine_are_right_to_2_to_the_minus_52);
    TEST(sine_and_cosine_at_the_ends);
    TEST(bits_are_pinned);
    TEST(a_nan_stays_the_worst_error);
    return TEST_END();
}
