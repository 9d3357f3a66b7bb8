/* quant/codes.c: the search for the codes of q8 and q4. */
#include "quant/codes.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

/* Each encoder is one body of loops over 16 lanes in plain C, compiled for several instruction
 * sets: the same IEEE operations in the same order, so the same codes; only the width differs. The
 * Makefile compiles this file with -fno-trapping-math, which changes no bit: without it gcc keeps
 * the selections below as branches. */
#define BODY static inline __attribute__((always_inline))
#define EACH(b) for (int b = 0; b < 16; b++)
#define LANES _Pragma("omp simd") EACH(b)

enum { N = 256 };

/* Chosen by experiment: docs/numerics.md, "Our quantized types". */
const int8_t q4_codebook[16]  = { -10, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 9 };
const int8_t q4_magnitude[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12, 12 };

#define MAGNITUDES 12       /* the largest magnitude          */
#define D_MIN      0x1p-24f /* the smallest positive f16      */
#define D_MAX      65504.0f /* the largest finite f16         */
#define X_MAX      0x1p23f  /* D_MAX times every product fits */

/* Nearest integer, ties to even, for |y| < 2^22. */
BODY float round_even(float y) { return (y + 0x1.8p23f) - 0x1.8p23f; }

BODY float clamp(float y, float low, float high)
{
    y = y < low ? low : y;
    return y > high ? high : y;
}

/* The element furthest from 0 in each lane; lane b is x[.][b]. */
BODY void lane_peaks(float peak[16], const float x[16][16])
{
    LANES peak[b] = 0;
    for (int i = 0; i < 16; i++)
        LANES peak[b] = fabsf(x[i][b]) > peak[b] ? fabsf(x[i][b]) : peak[b];
}

BODY float largest(const float v[16])
{
    float m = 0;
    EACH(b) m = v[b] > m ? v[b] : m;
    return m;
}

/* Lanes ascending: the same order everywhere. */
BODY float sum(const float v[16])
{
    float s = 0;
    EACH(b) s += v[b];
    return s;
}

/* ---- q8 -------------------------------------------------------------------------------------- */

/* w: factors of the squared errors, in the order of x. Factors of 1 change no bit. */
typedef const float Grid[16][16];

/* Sum of squared errors with scale d. */
BODY float q8_error(Grid x, Grid w, float d)
{
    float a[16] = { 0 }, r = 1 / d;
    for (int i = 0; i < 16; i++)
        LANES {
            float e = x[i][b] - round_even(clamp(x[i][b] * r, -127, 127)) * d;
            a[b] += e * e * w[i][b];
        }
    return sum(a);
}

/* x is clamped to +-X_MAX and padded with zeros. Returns the f16 bits of the scale with the least
 * error around amax / 127: a smaller one clips the largest weight and rounds the others finer. */
BODY uint16_t q8_search(Grid x, Grid w)
{
    static const int8_t step[] = { 0, -2, -4, -7, 2 };
    float               peak[16], best = INFINITY;
    lane_peaks(peak, x);
    int at = f32_to_f16(clamp(largest(peak) / 127, D_MIN, D_MAX)), found = at;
    for (size_t i = 0; i < sizeof step; i++) {
        int h = at + step[i];
        if (h < 1 || h > 0x7BFF)
            continue;
        float e = q8_error(x, w, f16_to_f32((uint16_t)h));
        found   = e < best ? h : found;
        best    = e < best ? e : best;
    }
    return (uint16_t)found;
}

/* ---- q4: lane b is sub-block b, so that every sub-block has a scale of its own in each step
 * ---- */

/* The codebook's value nearest to y. */
BODY float nearest_value(float y)
{
    float v = round_even(clamp(y, -7, 5));
    v += y > 6 ? 2.0f : 0.0f;
    v += y > 8 ? 2.0f : 0.0f;
    v -= y < -8.5f ? 3.0f : 0.0f;
    return v;
}

/* Squared error of each sub-block with scale s. */
BODY void q4_errors(float error[16], Grid x, Grid w, const float s[16])
{
    float r[16], a[16] = { 0 };
    LANES r[b] = 1 / s[b];
    for (int i = 0; i < 16; i++)
        LANES {
            float y = x[i][b] * r[b], e = y - nearest_value(y);
            a[b] += e * e * w[i][b];
        }
    LANES error[b] = a[b] * (s[b] * s[b]);
}

/* For the scale d: the sub-scale of each sub-block with the least error. It tries those, of either
 * sign, that bring the peak near an end of the codebook. Returns the error of the superblock. */
BODY float q4_subscales(float sub[16], Grid x, Grid w, const float peak[16], float d)
{
    enum { TRIED = 4 };
    float best[16], s[16], c[16], e[16], r = 1 / (d * 10.4f);
    LANES best[b] = INFINITY;
    LANES sub[b] = 1;
    for (int k = 0; k < 2 * TRIED; k++) {
        LANES {
            float m = clamp((float)(int)(peak[b] * r + 0.5f) + (float)(k / 2), 1, MAGNITUDES);
            c[b]    = k & 1 ? -m : m;
            s[b]    = d * c[b];
        }
        q4_errors(e, x, w, s);
        LANES {
            sub[b]  = e[b] < best[b] ? c[b] : sub[b];
            best[b] = e[b] < best[b] ? e[b] : best[b];
        }
    }
    return sum(best);
}

/* The scale with the least error for the codes that d and sub give: least squares. */
BODY float q4_fit(Grid x, Grid w, const float sub[16], float d)
{
    float r[16], xv[16] = { 0 }, vv[16] = { 0 };
    LANES r[b] = 1 / (d * sub[b]);
    for (int i = 0; i < 16; i++)
        LANES {
            float v = nearest_value(x[i][b] * r[b]) * sub[b];
            xv[b] += x[i][b] * v * w[i][b];
            vv[b] += v * v * w[i][b];
        }
    float n = sum(vv);
    return n > 0 ? sum(xv) / n : d;
}

BODY float f16_scale(float d) { return f16_to_f32(f32_to_f16(clamp(d, D_MIN, D_MAX))); }

/* Tries scales by the product of code and sub-scale that the largest weight becomes (over 120 it is
 * clipped); then the one that least squares gives for the best of them. Returns the scale, exactly
 * an f16. */
BODY float q4_search(float sub[16], Grid x, Grid w)
{
    static const float product[] = { 120, 110, 108, 100, 99, 114, 126, 133 };
    float              peak[16], trial[16], best = INFINITY, found = D_MIN;
    lane_peaks(peak, x);
    float amax = largest(peak);
    EACH(b) sub[b] = 1;
    for (size_t i = 0; i <= sizeof product / sizeof *product; i++) {
        bool  last = i == sizeof product / sizeof *product;
        float d    = f16_scale(last ? q4_fit(x, w, sub, found) : amax / product[i]);
        float e    = last && d == found ? best : q4_subscales(trial, x, w, peak, d);
        if (e < best) {
            best  = e;
            found = d;
            memcpy(sub, trial, sizeof trial);
        }
    }
    return found;
}

/* ---- The bodies for each instruction set ----------------------------------------------------- */

typedef struct CodeSearch {
    Isa isa;
    uint16_t (*q8)(Grid x, Grid w);
    float (*q4)(float sub[16], Grid x, Grid w);
} CodeSearch;

#define SEARCH(name, attribute)                                                                    \
    attribute static uint16_t q8_search_##name(Grid x, Grid w) { return q8_search(x, w); }         \
    attribute static float    q4_search_##name(float sub[16], Grid x, Grid w)                      \
    {                                                                                              \
        return q4_search(sub, x, w);                                                               \
    }

SEARCH(scalar, )
#if defined(__x86_64__)
SEARCH(avx2, __attribute__((target("avx2"))))
SEARCH(avx512, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq"))))
#endif
static const CodeSearch searches[] = {
    { ISA_SCALAR, q8_search_scalar, q4_search_scalar },
#if defined(__x86_64__)
    { ISA_AVX2, q8_search_avx2, q4_search_avx2 },
    { ISA_AVX512, q8_search_avx512, q4_search_avx512 },
#endif
};

/* ---- What callers see ------------------------------------------------------------------------ */

/* x as 16 x 16, zeros past n, clamped to +-X_MAX. Returns the largest magnitude. */
static float gather(float to[16][16], const float *x, int n)
{
    float peak[16] = { 0 };
    memset(to, 0, N * sizeof *x);
    memcpy(to, x, (size_t)n * sizeof *x);
    for (int i = 0; i < 16; i++)
        LANES {
            to[i][b] = clamp(to[i][b], -X_MAX, X_MAX);
            peak[b]  = fabsf(to[i][b]) > peak[b] ? fabsf(to[i][b]) : peak[b];
        }
    return largest(peak);
}

/* The factors as 16 x 16, 1 where there are none. */
static void factors(float to[16][16], const float *weight, int n)
{
    for (int i = 0; i < 16; i++)
        LANES to[i][b] = 1;
    if (weight)
        memcpy(to, weight, (size_t)n * sizeof *weight);
}

bool q8_encode_isa(Isa most, const float *x, const float *weight, int n, int8_t *code, uint16_t *d)
{
    const CodeSearch *search = CPU_CHOOSE(searches, most);
    float             v[16][16], w[16][16], peak = gather(v, x, n);
    int8_t            q[16][16];
    factors(w, weight, n);
    *d = peak > 0 ? search->q8((const float(*)[16])v, (const float(*)[16])w) : 0;
    float r = *d ? 1 / f16_to_f32(*d) : 0;
    int   used[16] = { 0 };
    for (int i = 0; i < 16; i++)
        LANES {
            int c   = (int)round_even(clamp(v[i][b] * r, -127, 127));
            q[i][b] = (int8_t)c;
            used[b] |= c;
        }
    int any = 0;
    EACH(b) any |= used[b];
    memcpy(code, q, (size_t)n);
    *d = any ? *d : 0;
    return peak <= D_MAX * Q8_MOST;
}

bool q4_encode_isa(Isa most, const float *x, const float *weight, int n, uint8_t code[256],
                   uint8_t sub[16], uint16_t *d)
{
    static const uint8_t code_of[20] = { 0, 0, 0, 1, 2, 3, 4, 5, 6, 7,
                                         8, 9, 10, 11, 12, 13, 13, 14, 14, 15 };
    float                v[16][16], w[16][16], across[16][16], w_across[16][16], m[16],
                         peak = gather(v, x, n), scale = 0;
    int                  used = 0;
    EACH(b) m[b] = 1;
    if (peak > 0) {
        factors(w, weight, n);
        for (int i = 0; i < 16; i++)
            EACH(b) {
                across[i][b]   = v[b][i];
                w_across[i][b] = w[b][i];
            }
        scale = ((const CodeSearch *)CPU_CHOOSE(searches, most))->q4(
            m, (const float(*)[16])across, (const float(*)[16])w_across);
    }
    EACH(b) {
        float r = scale > 0 ? 1 / (scale * m[b]) : 0;
        int   any = 0;
        EACH(i) {
            int value        = (int)nearest_value(v[b][i] * r);
            code[16 * b + i] = code_of[value + 10];
            any |= value;
        }
        sub[b] = any ? (uint8_t)(m[b] < 0 ? 16 - (int)m[b] : (int)m[b]) : 0;
        used |= any;
    }
    *d = used ? f32_to_f16(scale) : 0;
    return peak <= D_MAX * Q4_MOST;
}

bool q8_encode(const float *x, const float *weight, int n, int8_t *code, uint16_t *d)
{
    return q8_encode_isa(ISA_COUNT, x, weight, n, code, d);
}

bool q4_encode(const float *x, const float *weight, int n, uint8_t code[256], uint8_t sub[16],
               uint16_t *d)
{
    return q4_encode_isa(ISA_COUNT, x, weight, n, code, sub, d);
}
