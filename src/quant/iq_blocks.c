/* Decodes the block types of GGUF files that have a codebook. A block is 256 elements; a scale has
 * 32 of them, or 16. Signs are one bit each, 1 is minus. */
#include "quant/iq_blocks.h"

#include <string.h>

#include "base/number.h"

/* A row is 8 values of 2 bits, or 4 of 4 bits, the first in the lowest bits. */
#include "quant/iq_codebooks.inc"

static uint32_t read_u16(const uint8_t *b) { return (uint32_t)b[0] | (uint32_t)b[1] << 8; }
static uint32_t read_u32(const uint8_t *b) { return read_u16(b) | read_u16(b + 2) << 16; }
static float    read_f16(const uint8_t *b) { return f16_to_f32((uint16_t)read_u16(b)); }

/* The nibble of a scale: the low one of each byte first. */
static int nibble(const uint8_t *b, int i) { return b[i / 2] >> 4 * (i % 2) & 15; }

/* 7 signs; the eighth makes their number even. */
static unsigned eight_signs(unsigned seven)
{
    unsigned odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    return seven | ((odd ^ odd >> 1) & 1) << 7;
}

/* 8 elements of a row of 2-bit values. */
static void eight(float *y, float scale, unsigned row, unsigned signs)
{
    static const int8_t value[4] = { 8, 25, 43, 0 };
    for (int i = 0; i < 8; i++, row >>= 2, signs >>= 1)
        y[i] = scale * (float)(signs & 1 ? -value[row & 3] : value[row & 3]);
}

/* ---- 2 bits ---------------------------------------------------------------------------------- */

/* d f16; for each 32 four indices, and 32 bits: four times seven signs, then the scale. */
void iq2_xxs(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    for (int s = 0; s < 8; s++) {
        const uint8_t *index = b + 2 + 8 * s;
        uint32_t       rest  = read_u32(index + 4);
        float          scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
        for (int i = 0; i < 4; i++, y += 8)
            eight(y, scale, iq2_xxs_codebook[index[i]], eight_signs(rest >> 7 * i & 127));
    }
}

/* d f16; for each 8 an index of 9 bits and seven signs; 16 scales. */
void iq2_xs(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    for (int i = 0; i < 32; i++, y += 8) {
        uint32_t code  = read_u16(b + 2 + 2 * i);
        float    scale = d * (0.5f + (float)nibble(b + 66, i / 2)) * 0.25f;
        eight(y, scale, iq2_xs_codebook[code & 511], eight_signs(code >> 9));
    }
}

/* d f16; for each 8 an index, its eight signs, the two upper bits of the index; 16 scales. */
void iq2_s(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    for (int i = 0; i < 32; i++, y += 8) {
        unsigned index = b[2 + i] | ((unsigned)b[66 + i / 4] >> 2 * (i % 4) & 3u) << 8;
        float    scale = d * (0.5f + (float)nibble(b + 74, i / 2)) * 0.25f;
        eight(y, scale, iq2_s_codebook[index], b[34 + i]);
    }
}

/* ---- 3 bits ---------------------------------------------------------------------------------- */

/* d f16; for each 4 an index; for each 32, 32 bits as in iq2_xxs. */
void iq3_xxs(float *y, const uint8_t *b)
{
    static const int8_t value[16] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    float               d = read_f16(b);
    for (int s = 0; s < 8; s++) {
        uint32_t rest  = read_u32(b + 66 + 4 * s);
        float    scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
        for (int i = 0; i < 32; i++) {
            unsigned signs = eight_signs(rest >> 7 * (i / 8) & 127);
            int v = value[iq3_xxs_codebook[b[2 + 8 * s + i / 4]] >> 4 * (i % 4) & 15];
            *y++  = scale * (float)(signs >> i % 8 & 1 ? -v : v);
        }
    }
}

/* d f16; for each 4 an index; their ninth bits; signs; for each 32 a scale. */
void iq3_s_codes(int8_t code[256], int8_t scale[8], const uint8_t *b)
{
    for (int i = 0; i < 256; i++) {
        int at  = i / 4;
        int row = iq3_s_codebook[b[2 + at] | (b[66 + at / 8] >> at % 8 & 1) << 8],
            v   = 2 * (row >> 4 * (i % 4) & 15) + 1;
        code[i] = (int8_t)(b[74 + i / 8] >> i % 8 & 1 ? -v : v);
    }
    for (int s = 0; s < 8; s++)
        scale[s] = (int8_t)(1 + 2 * nibble(b + 106, s));
}

void iq3_s(float *y, const uint8_t *b)
{
    int8_t code[256], scale[8];
    float  d = read_f16(b);
    iq3_s_codes(code, scale, b);
    for (int i = 0; i < 256; i++)
        y[i] = d * (float)scale[i / 32] * (float)code[i];
}

/* ---- 1 bit ----------------------------------------------------------------------------------- */

/* 8 elements of -1, 0, 1, all moved by an eighth. */
static void ternary(float *y, float scale, unsigned row, float delta)
{
    for (int i = 0; i < 8; i++, row >>= 2)
        y[i] = scale * ((float)((int)(row & 3) - 1) + delta);
}

/* d f16; for each 8 an index; for each 32, 16 bits: the three upper bits of four indices, the
 * scale, and the sign of delta. */
void iq1_s(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    for (int i = 0; i < 32; i++, y += 8) {
        unsigned rest  = read_u16(b + 34 + 2 * (i / 4)),
                 index = b[2 + i] | (rest >> 3 * (i % 4) & 7) << 8;
        ternary(y, d * (float)(2 * (rest >> 12 & 7) + 1), iq1_codebook[index],
                rest >> 15 ? -0.125f : 0.125f);
    }
}

/* For each 8 an index; its three upper bits and the sign of delta; for each 64, 16 bits: four
 * scales, and four bits of d, the lowest first. */
void iq1_m(float *y, const uint8_t *b)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (read_u16(b + 48 + 2 * i) >> 12) << 4 * i;
    float d = f16_to_f32((uint16_t)bits);
    for (int i = 0; i < 32; i++, y += 8) {
        unsigned rest  = (unsigned)nibble(b + 32, i), index = b[i] | (rest & 7) << 8,
                 scale = read_u16(b + 48 + 2 * (i / 8)) >> 3 * (i / 2 % 4) & 7;
        ternary(y, d * (float)(2 * scale + 1), iq1_codebook[index],
                rest >> 3 ? -0.125f : 0.125f);
    }
}
