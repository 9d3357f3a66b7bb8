#include "quant/codes.h"

#include <float.h>
#include <math.h>

#include "base/number.h"
#include "test.h"

enum { N = 256 };

typedef struct Q4 {
    uint8_t  code[N], sub[16];
    uint16_t d;
} Q4;
typedef struct Q8 {
    int8_t   code[N];
    uint16_t d;
} Q8;

static int   q4_integer(const Q4 *q, int i)
{
    return q4_codebook[q->code[i]] * q4_subscale(q->sub[i / 16]);
}
static float q4_value(const Q4 *q, int i) { return f16_to_f32(q->d) * (float)q4_integer(q, i); }
static float q8_value(const Q8 *q, int i) { return f16_to_f32(q->d) * (float)q->code[i]; }

/* Uniform in 0 .. 2^32 - 1; about normal with variance 1 as a sum of 12: the same floats
 * everywhere. */
static uint32_t seed;
static uint32_t draw(void) { return seed = seed * 1664525u + 1013904223u; }
static float normal(void)
{
    int s = 0;
    for (int i = 0; i < 12; i++)
        s += (int)(draw() >> 16) - 32768;
    return (float)s / 65536.0f;
}
static void normals(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = normal();
}

static void every_sub_scale_times_every_code_fits_int8(void)
{
    CHECK(q4_codebook[Q4_ZERO] == 0, "code %d is %d", Q4_ZERO, q4_codebook[Q4_ZERO]);
    for (int c = 0; c < 16; c++) {
        CHECK(c == 0 || q4_codebook[c] > q4_codebook[c - 1], "the codebook does not ascend at %d",
              c);
        for (unsigned s = 0; s < 32; s++)
            CHECK(abs(q4_codebook[c] * q4_subscale(s)) <= 127, "code %d, sub-scale %u", c, s);
    }
    for (unsigned s = 0; s < 16; s++)
        CHECK(q4_magnitude[s] == (s < 12 ? (int)s : 12) && q4_subscale(s + 16) == -q4_subscale(s),
              "sub-scale %u", s);
}

/* The relative error over many superblocks of about normal floats, and of ones with a heavy
 * tail. */
static void errors_stay_below_what_was_measured(void)
{
    for (int heavy = 0; heavy < 2; heavy++) {
        double e4 = 0, e8 = 0, xx = 0;
        seed = 7;
        for (int i = 0; i < 400; i++) {
            float x[N];
            Q4    q4;
            Q8    q8;
            for (int j = 0; j < N; j++)
                x[j] = heavy ? normal() / sqrtf(0.2f + 0.8f * fabsf(normal())) : normal();
            CHECK(q4_encode(x, NULL, N, q4.code, q4.sub, &q4.d)
                  && q8_encode(x, NULL, N, q8.code, &q8.d),
                  "superblock %d", i);
            for (int j = 0; j < N; j++) {
                double a = (double)q4_value(&q4, j) - (double)x[j],
                       b = (double)q8_value(&q8, j) - (double)x[j];
                e4 += a * a, e8 += b * b, xx += (double)x[j] * (double)x[j];
            }
        }
        CHECK(sqrt(e4 / xx) < (heavy ? 0.0740 : 0.0690), "q4 %g, tail %d", sqrt(e4 / xx), heavy);
        CHECK(sqrt(e8 / xx) < (heavy ? 0.0085 : 0.0068), "q8 %g, tail %d", sqrt(e8 / xx), heavy);
    }
}

/* No other code of the codebook, no other integer is nearer to a weight under the scales that were
 * chosen. */
static void codes_are_the_nearest(void)
{
    seed = 3;
    for (int n = 1; n <= N; n += 5) {
        float x[N];
        Q4    q4;
        Q8    q8;
        normals(x, n);
        q4_encode(x, NULL, n, q4.code, q4.sub, &q4.d);
        q8_encode(x, NULL, n, q8.code, &q8.d);
        for (int i = 0; i < n; i++) {
            float s = f16_to_f32(q4.d) * (float)q4_subscale(q4.sub[i / 16]),
                  error = fabsf(q4_value(&q4, i) - x[i]);
            for (int c = 0; c < 16; c++)
                CHECK(error <= fabsf(s * q4_codebook[c] - x[i]) + 1e-6f,
                      "q4 %d of %d: code %d is nearer", i, n, c);
            float half = f16_to_f32(q8.d) * 0.5001f;
            bool  rounded = fabsf(q8_value(&q8, i) - x[i]) <= half;
            CHECK(abs(q8.code[i]) == 127 || (q8.code[i] > -127 && rounded), "q8 %d of %d", i, n);
        }
        for (int i = n; i < N; i++)
            CHECK(q4.code[i] == Q4_ZERO, "padding %d of %d", i, n);
        for (int b = (n + 15) / 16; b < 16; b++)
            CHECK(q4.sub[b] == 0, "padding sub-block %d of %d", b, n);
    }
}

/* Weights that are codes already, the largest of them -120 and 127, come back exactly. */
static void quantized_weights_come_back(void)
{
    seed = 11;
    for (int t = 0; t < 100; t++) {
        int   n = 1 + (int)(draw() >> 16) % N;
        float d = f16_to_f32((uint16_t)(0x1400 + t * 37)), x[N], y[N];
        Q4    q4;
        Q8    q8;
        for (int i = 0; i < n; i++) {
            x[i] = d * (float)((int)(draw() >> 16) % 255 - 127);
            y[i] = d
                * (float)(q4_codebook[draw() >> 28]
                          * (i < 16 ? 12 : q4_subscale((unsigned)(i / 16 * 7 + t) % 32)));
        }
        x[n - 1] = 127 * d;
        y[0]     = -120 * d;
        for (int b = 1; b < (n + 15) / 16; b++)
            y[16 * b] = d * (float)(q4_codebook[0] * q4_subscale((unsigned)(b * 7 + t) % 32));
        q4_encode(y, NULL, n, q4.code, q4.sub, &q4.d);
        q8_encode(x, NULL, n, q8.code, &q8.d);
        for (int i = 0; i < n; i++) {
            CHECK(q8_value(&q8, i) == x[i], "q8 %d: %g became %g", i, (double)x[i],
                  (double)q8_value(&q8, i));
            CHECK(q4_value(&q4, i) == y[i], "q4 %d of %d: %g became %g", i, n, (double)y[i],
                  (double)q4_value(&q4, i));
        }
    }
}

static void zeros_have_no_scale(void)
{
    static const float tiny[] = { 0.0f, -0.0f, 1e-9f, -FLT_MIN, 0x1p-149f };
    for (size_t t = 0; t < sizeof tiny / sizeof *tiny; t++) {
        float x[N];
        Q4    q4;
        Q8    q8;
        for (int i = 0; i < N; i++)
            x[i] = tiny[t];
        CHECK(q4_encode(x, NULL, N, q4.code, q4.sub, &q4.d)
                  && q8_encode(x, NULL, N, q8.code, &q8.d),
              "refused");
        CHECK(q4.d == 0 && q8.d == 0, "%g: d %04x %04x", (double)tiny[t], q4.d, q8.d);
        for (int i = 0; i < N; i++)
            CHECK(q4.code[i] == Q4_ZERO && q8.code[i] == 0 && q4.sub[i / 16] == 0, "%g: code %d",
                  (double)tiny[t], i);
    }
}

/* Where f16 scales are subnormal, the integers carry what the scale cannot. */
static void small_weights_keep_what_f16_can_hold(void)
{
    float x[N];
    Q4    q4;
    Q8    q8;
    seed = 5;
    for (int i = 0; i < N; i++)
        x[i] = normal() * 0x1p-20f;
    CHECK(q4_encode(x, NULL, N, q4.code, q4.sub, &q4.d)
                  && q8_encode(x, NULL, N, q8.code, &q8.d), "refused");
    for (int i = 0; i < N; i++) {
        CHECK(fabsf(q8_value(&q8, i) - x[i]) <= 0x1p-25f, "q8 %g became %g", (double)x[i],
              (double)q8_value(&q8, i));
        CHECK(fabsf(q4_value(&q4, i) - x[i]) <= 0x1p-20f, "q4 %g became %g", (double)x[i],
              (double)q4_value(&q4, i));
    }
}

static void weights_that_no_f16_scale_reaches_are_reported(void)
{
    static const struct { float x; bool q8, q4; } want[] = {
        { 65504.0f * 119, true, true },
        { 65504.0f * 121, true, false },
        { 65504.0f * 128, false, false },
        { FLT_MAX, false, false },
    };
    for (size_t t = 0; t < sizeof want / sizeof *want; t++) {
        float x[N] = { 1, 0, -want[t].x };
        Q4    q4;
        Q8    q8;
        CHECK(q4_encode(x, NULL, 20, q4.code, q4.sub, &q4.d) == want[t].q4, "q4 of %g",
              (double)want[t].x);
        CHECK(q8_encode(x, NULL, 20, q8.code, &q8.d) == want[t].q8, "q8 of %g", (double)want[t].x);
        CHECK(q4.d > 0x7800 && q4.d < 0x7C00 && q4_integer(&q4, 2) < -100, "q4: %d * %04x",
              q4_integer(&q4, 2), q4.d);
        CHECK(q8.d > 0x7800 && q8.d < 0x7C00 && q8.code[2] <= -120, "q8: %d * %04x", q8.code[2],
              q8.d);
    }
}

/* Superblocks of every length, scale and spread; FNV-1a over everything the encoders say. */
static uint64_t digest_of(Isa isa, bool weighted)
{
    uint64_t h = 0xcbf29ce484222325u;
    seed = 1;
    for (int t = 0; t < 300; t++) {
        Q4    q4;
        Q8    q8;
        float x[N], w[N],
              size = f32_from((64 + (uint32_t)t * 127 / 300) << 23 | (draw() & 0x7FFFFF));
        int   n = t % 3 ? 1 + (int)(draw() >> 16) % N : N;
        memset(&q4, 0, sizeof q4);
        memset(&q8, 0, sizeof q8);
        for (int i = 0; i < n; i++)
            x[i] = draw() >> 29 ? normal() * size : normal() * size * 8;
        for (int i = 0; i < n; i++) /* factors of 1 change nothing */
            w[i] = 1;
        for (int i = 0; weighted && i < n; i++)
            w[i] = x[n - 1 - i] / size * (x[n - 1 - i] / size);
        const float *factor = weighted || t % 2 ? w : NULL;
        bool ok4 = q4_encode_isa(isa, x, factor, n, q4.code, q4.sub, &q4.d),
             ok8 = q8_encode_isa(isa, x, factor, n, q8.code, &q8.d);
        const uint8_t *bytes[] = { (const uint8_t *)&q4, (const uint8_t *)&q8 };
        const size_t   size_of[] = { sizeof q4, sizeof q8 };
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < size_of[k]; i++)
                h = (h ^ bytes[k][i]) * 0x100000001b3u;
        h = (h ^ (unsigned)(ok4 * 2 + ok8)) * 0x100000001b3u;
    }
    return h;
}

/* The digest stands for the encoders on every machine, compiler and optimisation level. */
static void every_instruction_set_gives_the_same_codes(void)
{
    const uint64_t want = 0x2c5a39c5f903122cu;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        CHECK(digest_of(isa, false) == want, "%s: digest %016llx", isa_name(isa),
              (unsigned long long)digest_of(isa, false));
}

static void every_instruction_set_weighs_the_same(void)
{
    const uint64_t want = 0x4209110c30539ff1u;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        CHECK(digest_of(isa, true) == want, "%s: digest %016llx", isa_name(isa),
              (unsigned long long)digest_of(isa, true));
}

/* Squared errors times the factors are smaller if the search knows them. */
static void weighted_errors_are_smaller(void)
{
    double plain = 0, known = 0;
    seed = 3;
    for (int t = 0; t < 100; t++) {
        float x[N], w[N];
        for (int i = 0; i < N; i++) {
            x[i] = normal();
            w[i] = i % 7 ? 0.125f : 8;
        }
        for (int k = 0; k < 2; k++) {
            Q4 q4;
            q4_encode(x, k ? w : NULL, N, q4.code, q4.sub, &q4.d);
            for (int i = 0; i < N; i++) {
                double e = (double)x[i] - q4_value(&q4, i);
                *(k ? &known : &plain) += (double)w[i] * e * e;
            }
        }
    }
    CHECK(known < 0.8 * plain, "%g, and %g without the factors", known, plain);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(every_sub_scale_times_every_code_fits_int8);
    TEST(errors_stay_below_what_was_measured);
    TEST(codes_are_the_nearest);
    TEST(quantized_weights_come_back);
    TEST(zeros_have_no_scale);
    TEST(small_weights_keep_what_f16_can_hold);
    TEST(weights_that_no_f16_scale_reaches_are_reported);
    TEST(every_instruction_set_gives_the_same_codes);
    TEST(every_instruction_set_weighs_the_same);
    TEST(weighted_errors_are_smaller);
    return TEST_END();
}
