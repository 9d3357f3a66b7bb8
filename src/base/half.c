/* base/half.c: conversions between f32 and the 16-bit floats by integer arithmetic, so that the
 * processor's rounding mode and its handling of subnormals do not matter. */
#include "base/number.h"

uint16_t f32_to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(u >> 16 | 0x40); /* do not make a NaN with a low payload infinite */
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    if (exponent == 31)
        return f32_from(sign | 0x7F800000 | mantissa << 13 | (mantissa ? 0x400000u : 0u));
    if (exponent == 0) /* mantissa * 2^-24 is exact in f32 */
        return f32_from(sign | f32_bits((float)mantissa * 0x1p-24f));
    return f32_from(sign | (exponent + 112) << 23 | mantissa << 13);
}

float e4m3_to_f32(uint8_t h)
{
    uint32_t sign = (uint32_t)(h & 0x80) << 24, rest = h & 0x7F;
    float    tiny = (float)rest * 0x1p-9f;
    if (rest == 0x7F)
        return f32_from(sign | 0x7FC00000);
    return f32_from(sign | (rest < 8 ? f32_bits(tiny) : (rest << 20) + (120u << 23)));
}

float e8m0_to_f32(uint8_t h)
{
    if (h == 0xFF)
        return f32_from(0x7FC00000);
    return f32_from(h ? (uint32_t)h << 23 : 0x00400000);
}

uint16_t f32_to_f16(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000;
    u &= 0x7FFFFFFF;
    if (u > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (u >> 13 & 0x3FF));
    if (u >= 0x477FF000) /* 65520 and more: half way past the largest f16 */
        return (uint16_t)(sign | 0x7C00);
    if (u >= 0x38800000) /* normal: a carry into the exponent is right */
        return (uint16_t)(sign | (((u - 0x38000000) + 0xFFF + (u >> 13 & 1)) >> 13));
    if (u < 0x33000000) /* under 2^-25: zero (2^-25 itself ties to zero below) */
        return (uint16_t)sign;
    /* Subnormal: round to units of 2^-24, nearest even. In integers, so that the rounding mode
     * does not matter. */
    uint32_t mantissa = (u & 0x7FFFFF) | 0x800000, shift = 126 - (u >> 23);
    uint32_t half = 1u << (shift - 1), units = mantissa >> shift,
             rest = mantissa & ((1u << shift) - 1);
    units += rest > half || (rest == half && (units & 1));
    return (uint16_t)(sign | units);
}
