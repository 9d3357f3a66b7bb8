/* quant/panel_blocks.c: the GGUF types. Lays the blocks of a GGUF file, which come row after row,
 * out as panels, and reads panels back as integers. docs/format.md, "Panels", says where each bit
 * goes. Sources of the blocks: ggml's ggml-common.h (block_q8_0 ...) and the gguf Python package
 * (quants.py). */
#include "quant/quant.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

enum {
    /* Bytes of one row in a vector of 64: four codes, or the bits of four columns' codes. */
    ROW_STEP = 4,
    VECTOR   = 64,
    /* k of a run: the sub-block of q4_k, the block of q8_0. */
    RUN      = 32,
    MASK6    = 63
};

/* ---- Blocks ---------------------------------------------------------------------------------- */

static const struct { int k, bytes; } block_of[WT_COUNT] = {
    [WT_Q8_0] = { 32, 34 }, [WT_Q4_0] = { 32, 18 }, [WT_Q4_K] = { 256, 144 },
    [WT_Q5_K] = { 256, 176 }, [WT_Q6_K] = { 256, 210 },
};

size_t gguf_row_bytes(WeightType t, int k)
{
    assert(weight_type_gguf(t));
    size_t n;
    return k >= 1 && k % block_of[t].k == 0
            && mul_size((size_t)(k / block_of[t].k), (size_t)block_of[t].bytes, &n)
        ? n
        : 0;
}

/* ---- One block to a panel: four codes of a row at a time ------------------------------------- */

static uint32_t load4(const uint8_t *p) { uint32_t v; memcpy(&v, p, sizeof v); return v; }
static void     store4(uint8_t *p, uint32_t v) { memcpy(p, &v, sizeof v); }

/* Pack 8 codes into 4 bytes. The codes are in nibbles (shift 0: low, 4: high) of 8 bytes; k 0..3 go
 * to the low nibbles, k 4..7 to the high ones. */
static uint32_t join_nibbles(const uint8_t *from, int shift)
{
    return (load4(from) >> shift & 0x0f0f0f0fu) | (load4(from + 4) >> shift & 0x0f0f0f0fu) << 4;
}

/* Pack the bits of 4 * n codes into 4 bytes. Each of 4 * n bytes has `bits` of them at bit `shift`;
 * those of quad i go to bits i * bits and up. */
static uint32_t join_bits(const uint8_t *from, int n, int bits, int shift)
{
    uint32_t mask = bits == 1 ? 0x01010101u : 0x03030303u, v = 0;
    for (int i = 0; i < n; i++)
        v |= (load4(from + 4 * i) >> shift & mask) << i * bits;
    return v;
}

static void put_half(void *part, size_t at, const uint8_t *from)
{
    memcpy((uint8_t *)part + 2 * at, from, 2);
}

static void put_q8_0(void *const to[MAX_PARTS], int r, int block, const uint8_t *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 8 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 8; i++)
        store4(out + i * VECTOR, load4(b + 2 + 4 * i));
    put_half(to[1], (size_t)block * PANEL_ROWS + (size_t)r, b);
}

/* 16 bytes: k 0..15 in the low nibbles, 16..31 in the high ones. */
static void put_q4_0(void *const to[MAX_PARTS], int r, int block, const uint8_t *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 4 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 4; i++)
        store4(out + i * VECTOR, join_nibbles(b + 2 + i % 2 * 8, i / 2 * 4));
    put_half(to[1], (size_t)block * PANEL_ROWS + (size_t)r, b);
}

/* d, dmin, then 12 bytes of 6-bit scales and minima. Scale j of 0..3 is in byte j, its minimum in
 * byte 4 + j. Scale and minimum j of 4..7 have their low four bits in byte 4 + j (scale low,
 * minimum high), and their upper two bits above the six of bytes j - 4 and j. */
static void put_scales(void *const to[MAX_PARTS], int r, int block, const uint8_t *b)
{
    uint8_t       *out = (uint8_t *)to[1] + (size_t)block * 3 * VECTOR + r * ROW_STEP;
    const uint8_t *s   = b + 4;
    uint32_t       six = 0x3f3f3f3fu, low = load4(s), mid = load4(s + 4), nibbles = load4(s + 8);
    uint32_t       min = (nibbles >> 4 & 0x0f0f0f0fu) | (mid >> 2 & 0x30303030u); /* minima 4..7 */
    store4(out, (low & six) | (min & 0x03030303u) << 6);
    store4(out + VECTOR,
           (nibbles & 0x0f0f0f0fu) | (low >> 2 & 0x30303030u) | (min & 0x0c0c0c0cu) << 4);
    store4(out + 2 * VECTOR, (mid & six) | (min & 0x30303030u) << 2);
    size_t at = (size_t)block * 2 * PANEL_ROWS + (size_t)r;
    put_half(to[2], at, b), put_half(to[2], at + PANEL_ROWS, b + 2);
}

/* Two runs of 32 share 32 bytes; the first is in the low nibbles. */
static void put_q4_k(void *const to[MAX_PARTS], int r, int block, const uint8_t *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 32 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 32; i++)
        store4(out + i * VECTOR, join_nibbles(b + 16 + i / 8 * RUN + i % 4 * 8, i / 4 % 2 * 4));
    put_scales(to, r, block, b);
}

/* The fifth bits of run s are bit s of 32 bytes. */
static void put_q5_k(void *const to[MAX_PARTS], int r, int block, const uint8_t *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 40 * VECTOR + r * ROW_STEP;
    for (int s = 0; s < 8; s++, out += 5 * VECTOR) {
        for (int i = 0; i < 4; i++)
            store4(out + i * VECTOR, join_nibbles(b + 48 + s / 2 * RUN + i * 8, s % 2 * 4));
        store4(out + 4 * VECTOR, join_bits(b + 16, 8, 1, s));
    }
    put_scales(to, r, block, b);
}

/* ql [2][64], qh [2][32], 16 scales, d. In each half of 128 k, runs 0 and 1 are the low nibbles of
 * the 64 bytes of ql, and runs 2 and 3 the high ones. The upper bits of run s are at bit 2 * s of
 * the 32 bytes of qh. */
static void put_q6_k(void *const to[MAX_PARTS], int r, int block, const uint8_t *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 48 * VECTOR + r * ROW_STEP;
    uint8_t *sub = (uint8_t *)to[1] + (size_t)block * 4 * VECTOR + r * ROW_STEP;
    for (int s = 0; s < 16; s++, out += 3 * VECTOR) { /* 16 k each */
        const uint8_t *ql = b + s / 8 * 64 + s / 2 % 2 * RUN + s % 2 * 16,
                      *qh = b + 128 + s / 8 * 32 + s % 2 * 16;
        int            run = s / 2 % 4;
        store4(out, join_nibbles(ql, run / 2 * 4));
        store4(out + VECTOR, join_nibbles(ql + 8, run / 2 * 4));
        store4(out + 2 * VECTOR, join_bits(qh, 4, 2, 2 * run));
    }
    for (int i = 0; i < 4; i++)
        store4(sub + i * VECTOR, load4(b + 192 + 4 * i));
    put_half(to[2], (size_t)block * PANEL_ROWS + (size_t)r, b + 208);
}

typedef void Put(void *const to[MAX_PARTS], int r, int block, const uint8_t *b);

/* A block that decodes to +0. If the code that means 0 is not 0, all codes must be that one. */
static void zero_block(WeightType t, uint8_t *b)
{
    memset(b, 0, (size_t)block_of[t].bytes);
    if (t == WT_Q4_0)
        memset(b + 2, 0x88, 16);
    if (t == WT_Q6_K)
        memset(b + 128, 0xaa, 64);
}

void panel_from_blocks(WeightType t, void *const to[MAX_PARTS], const void *rows, size_t row_stride,
                       int n_rows, int k)
{
    static Put *const put[WT_COUNT] = { [WT_Q8_0] = put_q8_0,
                                        [WT_Q4_0] = put_q4_0,
                                        [WT_Q4_K] = put_q4_k,
                                        [WT_Q5_K] = put_q5_k,
                                        [WT_Q6_K] = put_q6_k };
    assert(weight_type_gguf(t) && n_rows >= 1 && n_rows <= PANEL_ROWS && k >= 1
           && k % block_of[t].k == 0);
    uint8_t zero[256];
    zero_block(t, zero);
    for (int i = 0; i < k / block_of[t].k; i++) {
        const uint8_t *b = (const uint8_t *)rows + (size_t)i * (size_t)block_of[t].bytes;
        for (int r = 0; r < PANEL_ROWS; r++, b += row_stride)
            put[t](to, r, i, r < n_rows ? b : zero);
    }
}

/* ---- A panel to integers --------------------------------------------------------------------- */

/* The code in column c of row r, where 8 columns are in the nibbles of one vector. */
static int nibble(const uint8_t *vectors, int r, int c)
{
    return vectors[c / 8 * VECTOR + r * ROW_STEP + c % 4] >> c / 4 % 2 * 4 & 15;
}

static int code_at(WeightType t, const uint8_t *codes, int r, int c)
{
    const uint8_t *run;
    int            byte = r * ROW_STEP + c % 4;
    switch (t) {
    case WT_Q8_0:
        return (int8_t)codes[c / 4 * VECTOR + byte];
    case WT_Q4_0:
        return nibble(codes, r, c) - 8;
    case WT_Q5_K:
        run = codes + c / RUN * 5 * VECTOR;
        return nibble(run, r, c % RUN) | (run[4 * VECTOR + byte] >> c % RUN / 4 & 1) << 4;
    case WT_Q6_K:
        run = codes + c / 16 * 3 * VECTOR;
        return (nibble(run, r, c % 16) | (run[2 * VECTOR + byte] >> c % 16 / 4 * 2 & 3) << 4) - 32;
    default:
        return nibble(codes, r, c);
    }
}

static void scales_of(BlockRow *out, const uint8_t *s, int r)
{
    for (int j = 0; j < 4; j++, s++) {
        int a = s[r * ROW_STEP], b = s[VECTOR + r * ROW_STEP], c = s[2 * VECTOR + r * ROW_STEP];
        out->sub[j]     = (int8_t)(a & MASK6);
        out->sub[4 + j] = (int8_t)(b & MASK6);
        out->min[j]     = (int8_t)(c & MASK6);
        out->min[4 + j] = (int8_t)(a >> 6 | b >> 6 << 2 | c >> 6 << 4);
    }
}

void panel_block_row(WeightType t, BlockRow *out, Panels p, int r, int n)
{
    const uint8_t  *codes = p.part[0], *sub = p.part[1];
    const uint16_t *d = p.part[part_count(t) - 1];
    assert(weight_type_gguf(t) && r >= 0 && r < PANEL_ROWS && n >= 1 && n <= SUPERBLOCK
           && n % block_of[t].k == 0);
    *out = (BlockRow){ .dmin = 0 };
    for (int c = 0; c < n; c++)
        out->code[c] = (int8_t)code_at(t, codes, r, c);
    for (int i = 0; i < n / block_of[t].k; i++)
        out->d[i] = d[i * PANEL_ROWS + r];
    for (int i = 0; t == WT_Q6_K && i < 16; i++)
        out->sub[i] = (int8_t)sub[i / 4 * VECTOR + r * ROW_STEP + i % 4];
    if (t == WT_Q4_K || t == WT_Q5_K) {
        scales_of(out, sub, r);
        out->dmin = d[PANEL_ROWS + r];
    }
}
