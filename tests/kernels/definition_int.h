/* tests/kernels/definition_int.h: docs/numerics.md on quantized weights and their activations,
 * executed literally; nothing is taken from src/kernels but the argument structs. */
#ifndef TESTS_DEFINITION_INT_H
#define TESTS_DEFINITION_INT_H

#include <math.h>

#include "base/number.h"
#include "kernels/kernels.h"

/* n floats with one scale. Returns d. */
static float def_quantize(int16_t *q, const float *x, int n, int bits)
{
    uint32_t amax = 0;
    for (int i = 0; i < n; i++) {
        uint32_t a = f32_bits(x[i]) & 0x7fffffffu;
        amax       = a > amax ? a : amax;
        q[i]       = 0;
    }
    if (amax >= 0x7f800000u)
        return NAN;
    if (f32_from(amax) < 0x1p-100f)
        return 0.0f;
    float d = f32_from(amax) / (bits == 8 ? 127.0f : 32512.0f), r = 1.0f / d;
    for (int i = 0; i < n; i++)
        q[i] = (int16_t)rintf(x[i] * r);
    return d;
}

/* w [rows][k] integers and dw [rows][ceil(k / 256)] scales of the weights. */
static void def_matmul_int(float *y, size_t y_stride, const int8_t *w, const float *dw, int rows,
                           const int16_t *q, size_t q_stride, const float *d, size_t d_stride,
                           int k, int n_tok, const float *bias)
{
    size_t blocks = ((size_t)k + 255) / 256;
    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < rows; r++) {
            float acc = bias ? bias[r] : 0.0f;
            for (size_t s = 0; s < blocks; s++) {
                int64_t isum = 0;
                for (size_t i = s * 256; i < (size_t)k && i < s * 256 + 256; i++)
                    isum += (int64_t)w[(size_t)r * (size_t)k + i] * q[(size_t)t * q_stride + i];
                acc = fmaf(dw[(size_t)r * blocks + s] * d[(size_t)t * d_stride + s], (float)isum,
                           acc);
            }
            y[(size_t)t * y_stride + (size_t)r] = acc;
        }
}

/* The same with a scale for each 32 activations. */
static void def_matmul_by_32(float *y, size_t y_stride, const int8_t *w, const float *dw, int rows,
                             const int16_t *q, size_t q_stride, const float *d, size_t d_stride,
                             int k, int n_tok, const float *bias)
{
    size_t blocks = ((size_t)k + 255) / 256;
    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < rows; r++) {
            float acc = bias ? bias[r] : 0.0f;
            for (size_t s = 0; s < blocks; s++) {
                float c = 0.0f;
                for (size_t g = s * 8; g * 32 < (size_t)k && g < s * 8 + 8; g++) {
                    int32_t isum = 0;
                    for (size_t i = g * 32; i < (size_t)k && i < g * 32 + 32; i++)
                        isum += w[(size_t)r * (size_t)k + i] * q[(size_t)t * q_stride + i];
                    c = fmaf(d[(size_t)t * d_stride + g], (float)isum, c);
                }
                acc = fmaf(dw[(size_t)r * blocks + s], c, acc);
            }
            y[(size_t)t * y_stride + (size_t)r] = acc;
        }
}

/* The same weights as floats, the exact value rounded once: docs/numerics.md, "Float weights,
 * --math f32". */
static void def_matmul_wide(float *y, size_t y_stride, const int8_t *w, const float *dw, int rows,
                            const float *x, size_t x_stride, int k, int n_tok, const float *bias)
{
    size_t blocks = ((size_t)k + 255) / 256;
    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < rows; r++) {
            float acc = bias ? bias[r] : 0.0f;
            for (size_t s = 0; s < blocks; s++) {
                float c = 0.0f;
                for (size_t i = s * 256; i < (size_t)k && i < s * 256 + 256; i++)
                    c = fmaf(dw[(size_t)r * blocks + s] * (float)w[(size_t)r * (size_t)k + i],
                             x[(size_t)t * x_stride + i], c);
                acc = acc + c;
            }
            y[(size_t)t * y_stride + (size_t)r] = acc;
        }
}

#endif
