/* base/half.h: f16 and bf16, bit-exact in plain C. This is the definition; kernels use hardware
 * that agrees. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>
#include "base/platform.h"

static inline uint32_t f32_bits(float f)    { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float    f32_from(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

static inline float bf16_to_f32(uint16_t h) { return f32_from((uint32_t)h << 16); }

/* Nearest even; NaN stays NaN (quiet). */
uint16_t f32_to_bf16(float f);

/* Exact, also for subnormals. */
float f16_to_f32(uint16_t h);

/* Nearest even. Keeps subnormals, overflows to infinity, makes NaN quiet with its upper payload:
 * like vcvtps2ph. */
uint16_t f32_to_f16(float f);

#endif
