/* quant/codes.h: quantizes floats to the codes of q8 and q4, one superblock of one row at a time.
 * docs/numerics.md, section "Our quantized types", says what the codes mean; this file chooses
 * them, the same on every machine. */
#ifndef QUANT_CODES_H
#define QUANT_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

/* A code of q4 is an index into the codebook, a sub-scale bit 4 its sign and bits 0 to 3 an
 * index into the magnitudes. All products of the two fit int8, so every bit pattern is valid.
 * q4_codebook[Q4_ZERO] is 0. Q8_MOST, Q4_MOST: the largest integer that a scale is multiplied
 * with. */
extern const int8_t q4_codebook[16], q4_magnitude[16];
enum { Q4_ZERO = 8, Q8_MOST = 127, Q4_MOST = 120 };

static inline int q4_subscale(unsigned sub)
{
    return sub & 16 ? -q4_magnitude[sub & 15] : q4_magnitude[sub & 15];
}

/* n (1..256) finite floats to n codes in -127 .. 127 and the f16 bits of their scale: x is about
 * code * d. The scale is the one with the least squared error of a few around amax / 127. Values
 * too small for a scale become 0, and a superblock of such zeros has d = 0. Returns false if a
 * value is beyond every f16 scale (over 65504 * Q8_MOST); it becomes the largest code. weight: [n]
 * factors of the squared errors, finite and not negative; NULL: all 1. */
bool q8_encode(const float *x, const float *weight, int n, int8_t *code, uint16_t *d);

/* n (1..256) finite floats to 256 codes (Q4_ZERO past n), 16 sub-scales and the f16 bits of their
 * scale: x is about codebook[code] * subscale * d. A sub-block of zeros has sub-scale 0. Small and
 * large magnitudes as above (65504 * Q4_MOST). */
bool q4_encode(const float *x, const float *weight, int n, uint8_t code[256], uint8_t sub[16],
               uint16_t *d);

/* The same with no instruction set stronger than `most`, for the test that all give the same
 * codes. */
bool q8_encode_isa(Isa most, const float *x, const float *weight, int n, int8_t *code,
                   uint16_t *d);
bool q4_encode_isa(Isa most, const float *x, const float *weight, int n, uint8_t code[256],
                   uint8_t sub[16], uint16_t *d);

#endif
