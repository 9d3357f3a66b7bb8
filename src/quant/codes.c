#include "quant/codes.h"

#include <string.h>

#include "base/half.h"

const int8_t q4_codebook[16]  = { -10, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 9 };
const int8_t q4_magnitude[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12, 12 };

static float largest(const float *x, int n)
{
    float m = 0;
    for (int i = 0; i < n; i++) {
        float a = x[i] < 0 ? -x[i] : x[i];
        m = a > m ? a : m;
    }
    return m;
}

/* Nearest integer to x (ties to even) within low .. high. */
static int nearest(float x, int low, int high)
{
    return x <= (float)low ? low : x >= (float)high ? high : (int)((x + 0x1.8p23f) - 0x1.8p23f);
}

void q8_encode(const float *x, int n, int8_t *code, uint16_t *d)
{
    *d = f32_to_f16(largest(x, n) / 127);
    float scale = f16_to_f32(*d), r = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < n; i++)
        code[i] = (int8_t)nearest(x[i] * r, -127, 127);
}

/* The code whose value is nearest to v. */
static int nearest_code(float v)
{
    int best = Q4_ZERO;
    for (int c = 0; c < 16; c++) {
        float a = v - q4_codebook[c], b = v - q4_codebook[best];
        if (a * a < b * b)
            best = c;
    }
    return best;
}

void q4_encode(const float *x, int n, uint8_t code[256], uint8_t sub[16], uint16_t *d)
{
    *d = f32_to_f16(largest(x, n) / (9 * 12));
    float scale = f16_to_f32(*d);
    memset(code, Q4_ZERO, 256);
    memset(sub, 0, 16);
    for (int g = 0; g < n; g += 16) {
        int   len  = n - g < 16 ? n - g : 16, s;
        float peak = largest(x + g, len);
        for (s = 1; s < 12 && (float)(9 * s) * scale < peak; s++)
            ;
        sub[g / 16] = (uint8_t)s;
        float r = scale > 0 ? 1 / (scale * (float)s) : 0;
        for (int i = g; i < g + len; i++)
            code[i] = (uint8_t)nearest_code(x[i] * r);
    }
}
