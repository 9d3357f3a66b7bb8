/* Reads the block types of GGUF files that have a codebook as codes and sub-scales. A block is 256
 * elements; a scale has 32 of them, or 16. Signs are one bit each, 1 is minus. */
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

/* ---- Blocks of Q8_16 ------------------------------------------------------------------------- */

enum { SUBS = 256, SCALE = SUBS + 16 };

static void put_scale(uint8_t *y, float d) { memcpy(y + SCALE, &d, sizeof d); }

/* The sub-scale 2 * n + 1 of the 32 elements from 32 * s on. */
static void put_sub(uint8_t *y, int s, unsigned n)
{
    memset(y + SUBS + 2 * s, (int)(2 * n + 1), 2);
}

/* 8 elements of a row of 2-bit values. */
static void eight(uint8_t *y, unsigned row, unsigned signs)
{
    static const int8_t value[4] = { 8, 25, 43, 0 };
    for (int i = 0; i < 8; i++, row >>= 2, signs >>= 1)
        y[i] = (uint8_t)(signs & 1 ? -value[row & 3] : value[row & 3]);
}

/* ---- 2 bits ---------------------------------------------------------------------------------- */

/* y = d * (0.5 + scale) * 0.25 * code. */

/* d f16; for each 32 four indices, and 32 bits: four times seven signs, then the scale. */
void iq2_xxs(uint8_t *y, const uint8_t *b)
{
    put_scale(y, read_f16(b) / 8);
    for (int s = 0; s < 8; s++) {
        const uint8_t *index = b + 2 + 8 * s;
        uint32_t       rest  = read_u32(index + 4);
        put_sub(y, s, rest >> 28);
        for (int i = 0; i < 4; i++)
            eight(y + 32 * s + 8 * i, iq2_xxs_codebook[index[i]], eight_signs(rest >> 7 * i & 127));
    }
}

/* The 16 scales of iq2_xs and iq2_s. */
static void put_subs(uint8_t *y, const uint8_t *b)
{
    for (int i = 0; i < 16; i++)
        y[SUBS + i] = (uint8_t)(2 * nibble(b, i) + 1);
}

/* d f16; for each 8 an index of 9 bits and seven signs; 16 scales. */
void iq2_xs(uint8_t *y, const uint8_t *b)
{
    put_scale(y, read_f16(b) / 8);
    put_subs(y, b + 66);
    for (int i = 0; i < 32; i++) {
        uint32_t code = read_u16(b + 2 + 2 * i);
        eight(y + 8 * i, iq2_xs_codebook[code & 511], eight_signs(code >> 9));
    }
}

/* d f16; for each 8 an index, its eight signs, the two upper bits of the index; 16 scales. */
void iq2_s(uint8_t *y, const uint8_t *b)
{
    put_scale(y, read_f16(b) / 8);
    put_subs(y, b + 74);
    for (int i = 0; i < 32; i++) {
        unsigned index = b[2 + i] | ((unsigned)b[66 + i / 4] >> 2 * (i % 4) & 3u) << 8;
        eight(y + 8 * i, iq2_s_codebook[index], b[34 + i]);
    }
}

/* ---- 3 bits ---------------------------------------------------------------------------------- */

/* y = d * (0.5 + scale) * 0.5 * code. d f16; for each 4 an index; for each 32, 32 bits as in
 * iq2_xxs. */
void iq3_xxs(uint8_t *y, const uint8_t *b)
{
    static const int8_t value[16] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    put_scale(y, read_f16(b) / 4);
    for (int s = 0; s < 8; s++) {
        uint32_t rest = read_u32(b + 66 + 4 * s);
        put_sub(y, s, rest >> 28);
        for (int i = 0; i < 32; i++) {
            unsigned signs = eight_signs(rest >> 7 * (i / 8) & 127);
            int      v = value[iq3_xxs_codebook[b[2 + 8 * s + i / 4]] >> 4 * (i % 4) & 15];
            y[32 * s + i] = (uint8_t)(signs >> i % 8 & 1 ? -v : v);
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

/* ---- 1 bit ----------------------------------------------------------------------------------- */

/* y = d * (2 * scale + 1) * (code + delta): 8 codes of -1, 0, 1, and delta, an eighth, minus if the
 * sign is set. */
static void ternary(uint8_t *y, unsigned row, unsigned sign)
{
    for (int i = 0; i < 8; i++, row >>= 2)
        y[i] = (uint8_t)(8 * ((int)(row & 3) - 1) + (sign ? -1 : 1));
}

/* d f16; for each 8 an index; for each 32, 16 bits: the three upper bits of four indices, the
 * scale, and the sign of delta. */
void iq1_s(uint8_t *y, const uint8_t *b)
{
    put_scale(y, read_f16(b) / 8);
    for (int i = 0; i < 32; i++) {
        unsigned rest  = read_u16(b + 34 + 2 * (i / 4)),
                 index = b[2 + i] | (rest >> 3 * (i % 4) & 7) << 8;
        put_sub(y, i / 4, rest >> 12 & 7);
        ternary(y + 8 * i, iq1_codebook[index], rest >> 15);
    }
}

/* For each 8 an index; its three upper bits and the sign of delta; for each 64, 16 bits: four
 * scales, and four bits of d, the lowest first. */
void iq1_m(uint8_t *y, const uint8_t *b)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (read_u16(b + 48 + 2 * i) >> 12) << 4 * i;
    put_scale(y, f16_to_f32((uint16_t)bits) / 8);
    for (int i = 0; i < 32; i++) {
        unsigned rest  = (unsigned)nibble(b + 32, i), index = b[i] | (rest & 7) << 8,
                 scale = read_u16(b + 48 + 2 * (i / 8)) >> 3 * (i / 2 % 4) & 7;
        y[SUBS + i / 2] = (uint8_t)(2 * scale + 1);
        ternary(y + 8 * i, iq1_codebook[index], rest >> 3);
    }
}
