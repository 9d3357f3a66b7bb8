/* base/number.h: narrow floats, math functions independent of the C library, random numbers. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/cpu.h"

/* ---- half.c ---------------------------------------------------------------------------------- */

/* F16 and bf16, bit-exact in plain C. This is the definition; kernels use hardware
 * that agrees. */

static inline uint32_t f32_bits(float f)    { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float    f32_from(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

static inline float bf16_to_f32(uint16_t h) { return f32_from((uint32_t)h << 16); }

/* Nearest even; NaN stays NaN (quiet). */
uint16_t f32_to_bf16(float f);

/* Exact, also for subnormals. */
float f16_to_f32(uint16_t h);

/* F8_E4M3 and F8_E8M0 of the OCP formats, exact. The first has a sign, NaN and no infinity; the
 * second only powers of two (2^-127 to 2^127) and NaN. */
float e4m3_to_f32(uint8_t h);
float e8m0_to_f32(uint8_t h);

/* Nearest even. Keeps subnormals, overflows to infinity, makes NaN quiet with its upper payload:
 * like vcvtps2ph. */
uint16_t f32_to_f16(float f);

/* ---- math64.c -------------------------------------------------------------------------------- */

/* Double functions whose bits do not depend on the C library (RoPE tables,
 * sampling). Plain IEEE operations in a fixed order, no fma. The caller must round to nearest.
 * Outside the ranges below they return the infinity, zero or NaN of the C function. test_math64
 * prints the measured errors. */

double math64_log(double x);            /* x > 0; relative error at most 2^-52 */
double math64_exp(double x);            /* relative error at most 2^-51 for normal results */
double math64_pow(double x, double y);  /* x > 0; 2^-51 for results from 1e-8 to 1e8, else 2^-48 */

/* Sine and cosine: |angle| <= 2^25, absolute error at most 2^-52. NaN for a larger angle. */
void math64_sincos(double angle, double *s, double *c);

/* Is this error worse than the worst so far? NaN is worse than every number, and stays. */
static inline bool error_is_worse(double error, double worst)
{
    return !isnan(worst) && !(error <= worst);
}

/* ---- philox.c -------------------------------------------------------------------------------- */

/* Random numbers as a function of a counter and a key, without state (Salmon et
 * al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). So any part of a random tensor can
 * be computed alone, in any order. */

/* Philox4x32-10, with Random123's order of words: key 0, counter 0 gives 6627e8d5 e169c58d
 * bc57ac4c 9b00dbd8. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
