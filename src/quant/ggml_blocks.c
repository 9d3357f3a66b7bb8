/* Decodes the block types of GGUF files to floats, and converts those without kernels of their own
 * to a type that has them (those with a codebook: iq_blocks.c). */
#include "quant/quant.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"
#include "quant/iq_blocks.h"

/* One function for each type: the block at b becomes floats at y, in the order of the row. The
 * nibbles, pairs of bits or high bits that share a byte belong to elements that are 16, 32 or 64
 * apart. */

enum { SMALL = 32, LARGE = 256 };

static uint16_t read_u16(const uint8_t *b)
{
    uint16_t u;
    memcpy(&u, b, sizeof u);
    return u;
}

static float read_f16(const uint8_t *b) { return f16_to_f32(read_u16(b)); }

/* ---- Blocks of 32 ---------------------------------------------------------------------------- */

/* d f16, 16 bytes of nibbles. */
static void q4_0(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    b += 2;
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)((b[i] & 15) - 8);
        y[i + 16] = d * (float)((b[i] >> 4) - 8);
    }
}

/* d, m f16, 16 bytes of nibbles. */
static void q4_1(float *y, const uint8_t *b)
{
    float d = read_f16(b), m = read_f16(b + 2);
    b += 4;
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)(b[i] & 15) + m;
        y[i + 16] = d * (float)(b[i] >> 4) + m;
    }
}

/* Of a folder: d f16, zero point u8, 16 bytes of nibbles. */
static void q4_z(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    int   zero = b[2] & 15;
    b += 3;
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)((b[i] & 15) - zero);
        y[i + 16] = d * (float)((b[i] >> 4) - zero);
    }
}

/* The codes of q5_0 and q5_1: 32 high bits, then 16 bytes of nibbles. */
static void five_bits(uint8_t q[SMALL], const uint8_t *b)
{
    uint32_t high;
    memcpy(&high, b, sizeof high);
    b += 4;
    for (int i = 0; i < 16; i++) {
        q[i] = (uint8_t)((b[i] & 15) | (high >> i & 1) << 4);
        q[i + 16] = (uint8_t)(b[i] >> 4 | (high >> (i + 16) & 1) << 4);
    }
}

static void q5_0(float *y, const uint8_t *b)
{
    uint8_t q[SMALL];
    float   d = read_f16(b);
    five_bits(q, b + 2);
    for (int i = 0; i < SMALL; i++)
        y[i] = d * (float)(q[i] - 16);
}

static void q5_1(float *y, const uint8_t *b)
{
    uint8_t q[SMALL];
    float   d = read_f16(b), m = read_f16(b + 2);
    five_bits(q, b + 4);
    for (int i = 0; i < SMALL; i++)
        y[i] = d * (float)q[i] + m;
}

/* d f16, 32 int8. */
static void q8_0(float *y, const uint8_t *b)
{
    float d = read_f16(b);
    b += 2;
    for (int i = 0; i < SMALL; i++)
        y[i] = (float)(int8_t)b[i] * d;
}

/* Each nibble is an index into a table of 16 values. The low nibbles are the first 16 elements. */
static void lookup(float *y, float d, const int8_t table[16], const uint8_t *b)
{
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)table[b[i] & 15];
        y[i + 16] = d * (float)table[b[i] >> 4];
    }
}

static const int8_t nonlinear[16] = IQ4_VALUES;

static void iq4_nl(float *y, const uint8_t *b) { lookup(y, read_f16(b), nonlinear, b + 2); }

/* A byte e, the scale 2^(e - 127), then nibbles, which index the values of e2m1 (OCP Microscaling
 * Formats 1.0). The table holds twice these values, so that they are integers; so the scale used is
 * 2^(e - 128). An e of 0 or 1 gives a subnormal float. As in ggml, the -0 of e2m1 is +0 here. */
static void mxfp4(float *y, const uint8_t *b)
{
    static const int8_t e2m1[16] = E2M1_TWICE(0);
    lookup(y, mxfp4_scale(*b), e2m1, b + 1);
}

/* ---- Blocks of 256 --------------------------------------------------------------------------- */

/* The 256 two-bit codes of q2_K and q3_K. Each half of 128 elements has 32 bytes, whose bits 0 and
 * 1 are its first 32 elements, and so on. */
static void two_bits(uint8_t q[LARGE], const uint8_t *b)
{
    for (int half = 0; half < 2; half++)
        for (int shift = 0; shift < 8; shift += 2)
            for (int i = 0; i < 32; i++)
                *q++ = b[half * 32 + i] >> shift & 3;
}

/* Set bit n_low of the 256 codes of q3_K or q5_K: bit 0 of the 32 bytes belongs to the first 32
 * elements, and so on. */
static void add_high_bits(uint8_t q[LARGE], int n_low, const uint8_t *b)
{
    for (int bit = 0; bit < 8; bit++)
        for (int i = 0; i < 32; i++)
            q[bit * 32 + i] = (uint8_t)(q[bit * 32 + i] | (b[i] >> bit & 1) << n_low);
}

/* 16 bytes of scales and minima, 64 of codes, d, dmin f16. */
static void q2_k(float *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    float   d = read_f16(b + 80), dmin = read_f16(b + 82);
    two_bits(q, b + 16);
    for (int s = 0; s < 16; s++) {
        float scale = d * (float)(b[s] & 15), min = dmin * (float)(b[s] >> 4);
        for (int i = s * 16; i < s * 16 + 16; i++)
            y[i] = scale * (float)q[i] - min;
    }
}

/* Scale s (of 16) of q3_K. Its low four bits are in the nibbles of bytes 0 to 7, its high two bits
 * in bytes 8 to 11. */
static int q3_k_scale(const uint8_t *scales, int s)
{
    int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4,
        high = scales[8 + s % 4] >> (2 * (s / 4)) & 3;
    return (low | high << 4) - 32;
}

/* 32 bytes of high bits (one bit in each byte for every 32 elements; a clear bit subtracts 4), 64
 * of codes, 12 of scales, d f16. */
static void q3_k(float *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    float   d = read_f16(b + 108);
    two_bits(q, b + 32);
    add_high_bits(q, 2, b);
    for (int s = 0; s < 16; s++) {
        float scale = d * (float)q3_k_scale(b + 96, s);
        for (int i = s * 16; i < s * 16 + 16; i++)
            y[i] = scale * (float)(q[i] - 4);
    }
}

/* The six-bit scale and minimum of sub-block s (of 8), from the 12 bytes of q4_K and q5_K.
 * Sub-blocks 0 to 3 have bytes of their own (scales in 0 to 3, minima in 4 to 7). The others have
 * nibbles in bytes 8 to 11; their upper two bits are in the first eight bytes, above the six bits
 * there. */
static void scale_and_min(const uint8_t *b, int s, int *scale, int *min)
{
    if (s < 4) {
        *scale = b[s] & 63;
        *min = b[s + 4] & 63;
    } else {
        *scale = (b[s + 4] & 15) | (b[s - 4] >> 2 & 0x30);
        *min = b[s + 4] >> 4 | (b[s] >> 2 & 0x30);
    }
}

/* The nibbles of 256 codes. Each run of `run` bytes holds two runs of elements, the first in its
 * low nibbles and the second in its high ones. */
static void nibbles(uint8_t q[LARGE], const uint8_t *b, int run)
{
    for (int begin = 0; begin < LARGE / 2; begin += run)
        for (int i = 0; i < run; i++) {
            q[2 * begin + i] = b[begin + i] & 15;
            q[2 * begin + run + i] = b[begin + i] >> 4;
        }
}

/* Apply the scales. head: d, dmin f16 and 12 bytes of scales and minima. */
static void scale_q45(float *y, const uint8_t *head, const uint8_t q[LARGE])
{
    float d = read_f16(head), dmin = read_f16(head + 2);
    for (int s = 0; s < 8; s++) {
        int scale_code, min_code;
        scale_and_min(head + 4, s, &scale_code, &min_code);
        float scale = d * (float)scale_code, min = dmin * (float)min_code;
        for (int i = s * 32; i < s * 32 + 32; i++)
            y[i] = scale * (float)q[i] - min;
    }
}

/* The head, 128 bytes of nibbles. */
static void q4_k(float *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    nibbles(q, b + 16, 32);
    scale_q45(y, b, q);
}

/* The head, 32 bytes of high bits, 128 of nibbles. */
static void q5_k(float *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    nibbles(q, b + 48, 32);
    add_high_bits(q, 4, b + 16);
    scale_q45(y, b, q);
}

/* 128 bytes of low nibbles, 64 of high pairs of bits, 16 int8 scales, d f16. Each half of 128
 * elements has 64 bytes of nibbles (two runs of 64 elements) and 32 of pairs (four runs of 32). */
static void q6_k(float *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    float   d = read_f16(b + 208);
    nibbles(q, b, 64);
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++)
            q[run * 32 + i] =
                (uint8_t)(q[run * 32 + i] | (b[128 + run / 4 * 32 + i] >> (run % 4 * 2) & 3) << 4);
    for (int s = 0; s < 16; s++) {
        float scale = d * (float)(int8_t)b[192 + s];
        for (int i = s * 16; i < s * 16 + 16; i++)
            y[i] = scale * (float)(q[i] - 32);
    }
}

/* In no file: 256 codes, 16 sub-scales, d f32. */
static void q8_16(float *y, const uint8_t *b)
{
    float d;
    memcpy(&d, b + 272, sizeof d);
    for (int i = 0; i < LARGE; i++)
        y[i] = d * (float)(int8_t)b[256 + i / 16] * (float)(int8_t)b[i];
}

/* d f16, high pairs of bits of 8 scales, their 8 low nibbles, 128 bytes of nibbles. */
static void iq4_xs(float *y, const uint8_t *b)
{
    float    d = read_f16(b);
    unsigned pairs = read_u16(b + 2);
    for (int s = 0; s < 8; s++) {
        int low = b[4 + s / 2] >> (s % 2 * 4) & 15, high = (int)(pairs >> (2 * s) & 3);
        lookup(y + s * 32, d * (float)((low | high << 4) - 32), nonlinear, b + 8 + s * 16);
    }
}

/* ---- Twins ----------------------------------------------------------------------------------- */

/* The codes of a block of q6_K, -32 .. 31, which subtracts 32 from what it stores. */
static void put_q6_k_codes(uint8_t *y, const int8_t code[LARGE])
{
    memset(y, 0, 128 + 64);
    for (int i = 0; i < LARGE; i++) {
        int stored = 32 + code[i], half = i / 128;
        y[half * 64 + i % 64] |= (uint8_t)((stored & 15) << (i / 64 % 2 * 4));
        y[128 + half * 32 + i % 32] |= (uint8_t)(stored >> 4 << (i / 32 % 4 * 2));
    }
}

static void iq3_s_as_q6_k(uint8_t *y, const uint8_t *b)
{
    int8_t code[LARGE], scale[8];
    iq3_s_codes(code, scale, b);
    put_q6_k_codes(y, code);
    for (int s = 0; s < 16; s++)
        y[192 + s] = (uint8_t)scale[s / 2];
    memcpy(y + 208, b, 2);
}

/* Codes -1 .. 2 as a block of q3_k, which subtracts 4; its scales, which subtract 32, are 1. */
static void put_q3_k(uint8_t *y, const uint8_t plus_one[LARGE], const uint8_t *d)
{
    memset(y, 0, 32 + 64);
    for (int i = 0; i < LARGE; i++) {
        int stored = plus_one[i] + 3;
        y[i % 32] |= (uint8_t)(stored >> 2 << i / 32);
        y[32 + i / 128 * 32 + i % 32] |= (uint8_t)((stored & 3) << i % 128 / 32 * 2);
    }
    memset(y + 96, 1 << 4 | 1, 8), memset(y + 104, 2 << 6 | 2 << 4 | 2 << 2 | 2, 4);
    memcpy(y + 108, d, 2);
}

/* n_digits runs of n_bytes digits of three values. The first digit of a byte b is b * 3 / 256; the
 * others are those of the byte 3 * b. */
static uint8_t *base_3(uint8_t *q, const uint8_t *b, int n_bytes, int n_digits)
{
    for (int digit = 0, power = 1; digit < n_digits; digit++, power *= 3)
        for (int i = 0; i < n_bytes; i++)
            *q++ = (uint8_t)((uint8_t)(b[i] * power) * 3 >> 8);
    return q;
}

/* 48 bytes of five digits, in runs of 32 and 16; 4 of four digits; d f16. */
static void tq1_0_as_q3_k(uint8_t *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    base_3(base_3(base_3(q, b, 32, 5), b + 32, 16, 5), b + 48, 4, 4);
    put_q3_k(y, q, b + 52);
}

/* 64 bytes of codes, d f16. */
static void tq2_0_as_q3_k(uint8_t *y, const uint8_t *b)
{
    uint8_t q[LARGE];
    two_bits(q, b);
    put_q3_k(y, q, b + 64);
}

/* ---- The table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int         elements, bytes;
    void (*to_f32)(float *y, const uint8_t *block); /* NULL: as its twin */
} types[BLOCK_ALL] = {
#define ROW(ID, number, decode, elements, bytes) [BLOCK_##ID] = { #ID, elements, bytes, decode },
    BLOCK_LIST(ROW)
    ROW(Q4_Z, 0, q4_z, 32, 2 + 1 + 16)
    ROW(Q8_16, 0, q8_16, LARGE, LARGE + 16 + 4)
};

static const struct {
    BlockType as; void (*turn)(uint8_t *y, const uint8_t *b);
} twins[BLOCK_ALL] = {
    [BLOCK_IQ3_S] = { BLOCK_Q6_K, iq3_s_as_q6_k },
    [BLOCK_TQ1_0] = { BLOCK_Q3_K, tq1_0_as_q3_k },
    [BLOCK_TQ2_0] = { BLOCK_Q3_K, tq2_0_as_q3_k },
    [BLOCK_IQ3_XXS] = { BLOCK_Q8_16, iq3_xxs },
    [BLOCK_IQ2_XXS] = { BLOCK_Q8_16, iq2_xxs },
    [BLOCK_IQ2_XS] = { BLOCK_Q8_16, iq2_xs },
    [BLOCK_IQ2_S] = { BLOCK_Q8_16, iq2_s },
    [BLOCK_IQ1_S] = { BLOCK_Q8_16, iq1_s },
    [BLOCK_IQ1_M] = { BLOCK_Q8_16, iq1_m },
};

const char *block_type_name(BlockType t) { return types[t].name; }

size_t block_elements(BlockType t) { return (size_t)types[t].elements; }

size_t block_bytes(BlockType t) { return (size_t)types[t].bytes; }

void blocks_to_f32(BlockType t, float *out, const void *in, size_t n_elements)
{
    assert(n_elements % block_elements(t) == 0);
    const uint8_t *block = in;
    uint8_t        twin[LARGE + 16 + 4];
    for (size_t i = 0; i < n_elements; i += block_elements(t), block += block_bytes(t))
        if (types[t].to_f32) {
            types[t].to_f32(out + i, block);
        } else {
            twins[t].turn(twin, block);
            types[twins[t].as].to_f32(out + i, twin);
        }
}

BlockType block_twin(BlockType t)
{
    return twins[t].turn ? twins[t].as : t;
}

void blocks_to_twin(BlockType t, void *out, const void *in, size_t n_elements)
{
    const uint8_t *from = in;
    uint8_t       *to   = out;
    assert(n_elements % block_elements(t) == 0 && block_twin(t) != t);
    for (size_t i = 0; i < n_elements;
         i += block_elements(t), from += block_bytes(t), to += block_bytes(block_twin(t)))
        twins[t].turn(to, from);
}
