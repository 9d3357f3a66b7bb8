/* quant/panel_blocks.c: the GGUF types. Repacks the blocks of a GGUF file, which are stored row by
 * row, to panels, and reads panels back as integers. docs/format.md, "Panels", says where each bit
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
    /* Bytes of the sub-scales of a superblock. */
    IQ4_XS_SUBS = 96,
    MASK6    = 63
};

/* ---- Blocks ---------------------------------------------------------------------------------- */

BlockType gguf_block(WeightType t)
{
#define BLOCK_OF(ID, ...) [WT_##ID] = BLOCK_##ID,
#define BLOCK_OF_GROUP(ID, ...) [WT_##ID] = BLOCK_Q4_Z,
    static const BlockType of[WT_COUNT] = { GGUF_TYPES(BLOCK_OF) GROUP_TYPES(BLOCK_OF_GROUP)
                                            PLAIN_TYPES(BLOCK_OF) };
    assert(weight_type_gguf(t));
    return of[t];
}

bool gguf_type_of(BlockType b, WeightType *t)
{
    int i = WT_MADE;
    while (i < WT_COUNT && gguf_block((WeightType)i) != block_twin(b))
        i++;
    if (i < WT_COUNT)
        *t = (WeightType)i;
    return i < WT_COUNT;
}

size_t gguf_row_bytes(WeightType t, int k)
{
    BlockType b = gguf_block(t);
    size_t    n, each = block_elements(b);
    return k >= 1 && (size_t)k % each == 0 && mul_size((size_t)k / each, block_bytes(b), &n) ? n
                                                                                            : 0;
}

/* ---- One block of four rows to a panel ------------------------------------------------------- */

/* Four bytes of each of four rows: a quarter of a vector of a panel. Every processor has registers
 * of this size; storing one row after the other took four times as many instructions. */
typedef uint32_t RowWords __attribute__((vector_size(16), aligned(1), may_alias));

enum { WORDS_ROWS = 4, BLOCK_WORDS = 272 / 4 };

/* One block of four rows: its bytes as stored, and words of them (layout_of). */
typedef struct FourBlocks {
    const uint8_t *row[WORDS_ROWS];
    RowWords       w[BLOCK_WORDS];
} FourBlocks;

static inline void gather(FourBlocks *b, size_t from, int n_words)
{
    for (int i = 0; i < n_words; i += 4, from += sizeof(RowWords)) {
        RowWords r0 = *(const RowWords *)(const void *)(b->row[0] + from),
                 r1 = *(const RowWords *)(const void *)(b->row[1] + from),
                 r2 = *(const RowWords *)(const void *)(b->row[2] + from),
                 r3 = *(const RowWords *)(const void *)(b->row[3] + from);
        RowWords low01  = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),
                 low23  = __builtin_shufflevector(r2, r3, 0, 4, 1, 5),
                 high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7),
                 high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        b->w[i]     = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
        b->w[i + 1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
        b->w[i + 2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
        b->w[i + 3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
}

static inline void store(uint8_t *p, RowWords v) { *(RowWords *)(void *)p = v; }

/* Pack 8 codes of a row into 4 bytes. The codes are in nibbles (shift 0: low, 4: high) of two
 * words; k 0..3 go to the low nibbles, k 4..7 to the high ones. */
static inline RowWords join_nibbles(const RowWords *from, uint32_t shift)
{
    return (from[0] >> shift & 0x0f0f0f0fu) | (from[1] >> shift & 0x0f0f0f0fu) << 4;
}

/* Pack the bits of 4 * n codes of a row into 4 bytes. Each byte of n words has `bits` of them at
 * bit `shift`; those of word i go to bits i * bits and up. */
static inline RowWords join_bits(const RowWords *from, uint32_t n, uint32_t bits, uint32_t shift)
{
    uint32_t mask = bits == 1 ? 0x01010101u : 0x03030303u;
    RowWords v    = from[0] >> shift & mask;
    for (uint32_t i = 1; i < n; i++)
        v |= (from[i] >> shift & mask) << i * bits;
    return v;
}

/* An f16 of each row, from byte `from` of its block. */
static inline void put_halves(void *part, size_t at, const FourBlocks *b, size_t from)
{
    for (int i = 0; i < WORDS_ROWS; i++)
        memcpy((uint8_t *)part + 2 * (at + (size_t)i), b->row[i] + from, 2);
}

/* Four bytes of each row, from byte `from` of its block. */
static inline RowWords word_at(const FourBlocks *b, size_t from)
{
    RowWords v;
    for (int i = 0; i < WORDS_ROWS; i++)
        memcpy((uint8_t *)&v + 4 * i, b->row[i] + from, 4);
    return v;
}

static void put_q8_0(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 8 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 8; i++)
        store(out + i * VECTOR, b->w[i]);
    put_halves(to[1], (size_t)block * PANEL_ROWS + (size_t)r, b, 0);
}

/* 16 bytes: k 0..15 in the low nibbles, 16..31 in the high ones. A run has n vectors of codes. */
static void put_nibbles(void *const to[MAX_PARTS], int r, int run, const RowWords *w, size_t n)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)run * n * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 2; i++) {
        store(out + i * VECTOR, join_nibbles(w + 2 * i, 0));
        store(out + (2 + i) * VECTOR, join_nibbles(w + 2 * i, 4));
    }
}

static void put_q4_0(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    put_nibbles(to, r, block, b->w, 4);
    put_halves(to[1], (size_t)block * PANEL_ROWS + (size_t)r, b, 0);
}

/* IQ4_NL has the blocks of Q4_0; only the meaning of a code differs. */
#define put_iq4_nl put_q4_0

/* A pair of f16 of each row, from byte `from` of its block. */
static void put_pairs(void *part, int r, int block, const FourBlocks *b, size_t from)
{
    size_t at = (size_t)block * 2 * PANEL_ROWS + (size_t)r;
    put_halves(part, at, b, from), put_halves(part, at + PANEL_ROWS, b, from + 2);
}

static void put_q4_1(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    put_nibbles(to, r, block, b->w, 4);
    put_pairs(to[1], r, block, b, 0);
}

/* Bit i of the 32 from byte `from` on is the fifth one of code i; it goes to bit i / 4 of byte
 * i % 4. */
static void put_fives(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b, size_t from)
{
    RowWords bits = word_at(b, from), v = { 0 };
    for (uint32_t i = 0; i < 8; i++) {
        RowWords four = bits >> 4 * i & 15;
        v |= ((four & 1) | (four & 2) << 7 | (four & 4) << 14 | (four & 8) << 21) << i;
    }
    put_nibbles(to, r, block, b->w, 5);
    store((uint8_t *)to[0] + ((size_t)block * 5 + 4) * VECTOR + r * ROW_STEP, v);
}

static void put_q5_0(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    put_fives(to, r, block, b, 2);
    put_halves(to[1], (size_t)block * PANEL_ROWS + (size_t)r, b, 0);
}

static void put_q5_1(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    put_fives(to, r, block, b, 4);
    put_pairs(to[1], r, block, b, 0);
}

static void put_mxfp4(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    put_nibbles(to, r, block, b->w, 4);
    for (int i = 0; i < WORDS_ROWS; i++)
        ((uint8_t *)to[1])[(size_t)block * PANEL_ROWS + (size_t)(r + i)] = b->row[i][0];
}

/* What a group's blocks repeat is stored once. */
static void put_group(void *const to[MAX_PARTS], int r, int group, const FourBlocks *b)
{
    size_t at = (size_t)group * PANEL_ROWS + (size_t)r;
    put_halves(to[2], at, b, 0);
    for (int i = 0; i < WORDS_ROWS; i++)
        ((uint8_t *)to[1])[at + (size_t)i] = b->row[i][2];
}

#define PUT_GROUP(ID, name, has, sub, ...)                                                         \
    static void put_##name(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)       \
    {                                                                                              \
        put_nibbles(to, r, block, b->w, 4);                                                        \
        put_group(to, r, block / ((sub) / RUN), b);                                                \
    }
GROUP_TYPES(PUT_GROUP)

/* 16 numbers of 6 bits, four in each of v; the upper two bits of three bytes hold the last four. */
static inline void put_sixes(uint8_t *out, const RowWords v[4])
{
    for (uint32_t i = 0; i < 3; i++)
        store(out + i * VECTOR, v[i] | (v[3] >> 2 * i & 0x03030303u) << 6);
}

/* d, dmin, then 12 bytes of 6-bit scales and minima. Scale j of 0..3 is in byte j, its minimum in
 * byte 4 + j. Scale and minimum j of 4..7 have their low four bits in byte 4 + j (scale low,
 * minimum high), and their upper two bits above the six of bytes j - 4 and j. */
static void put_scales(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    RowWords low = b->w[1], mid = b->w[2], nibbles = b->w[3];
    RowWords v[4] = { low & 0x3f3f3f3fu, (nibbles & 0x0f0f0f0fu) | (low >> 2 & 0x30303030u),
                      mid & 0x3f3f3f3fu, (nibbles >> 4 & 0x0f0f0f0fu) | (mid >> 2 & 0x30303030u) };
    put_sixes((uint8_t *)to[1] + (size_t)block * 3 * VECTOR + r * ROW_STEP, v);
    put_pairs(to[2], r, block, b, 0);
}

/* d, then 16 bits, the upper two of each sub-scale, and 4 bytes, their lower nibbles; 128 of codes.
 * In a panel, byte j of the nibbles and nibble j of the 16 bits are of sub-scales j and 4 + j. */
static void put_iq4_xs(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *sub = (uint8_t *)to[1] + (size_t)block * IQ4_XS_SUBS;
    RowWords pairs = word_at(b, 4), v = { 0 }; /* byte i: of sub-scales 2 * i and 2 * i + 1 */
    for (uint32_t j = 0; j < 8; j++)
        v |= (pairs >> 4 * j & 15) << (j % 4 * 8 + j / 4 * 4);
    store(sub + r * ROW_STEP, v);
    for (int i = 0; i < WORDS_ROWS; i++) {
        unsigned from = b->row[i][2] | (unsigned)b->row[i][3] << 8, high = 0;
        for (int j = 0; j < 8; j++)
            high |= (from >> 2 * j & 3) << (j % 4 * 4 + j / 4 * 2);
        sub[VECTOR + 2 * (r + i)]     = (uint8_t)high;
        sub[VECTOR + 2 * (r + i) + 1] = (uint8_t)(high >> 8);
    }
    for (int i = 0; i < SUPERBLOCK / RUN; i++)
        put_nibbles(to, r, block * (SUPERBLOCK / RUN) + i, b->w + 4 * i, 4);
    put_halves(to[2], (size_t)block * PANEL_ROWS + (size_t)r, b, 0);
}

/* The nibbles of two runs that share 32 bytes; the first is in the low ones. `apart`: bytes from a
 * run to the next. */
static inline void put_two_runs(uint8_t *out, size_t apart, const RowWords *from)
{
    for (int i = 0; i < 4; i++) {
        store(out + i * VECTOR, join_nibbles(from + 2 * i, 0));
        store(out + apart + i * VECTOR, join_nibbles(from + 2 * i, 4));
    }
}

static void put_q4_k(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 32 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 4; i++)
        put_two_runs(out + i * 8 * VECTOR, 4 * VECTOR, b->w + 4 + 8 * i);
    put_scales(to, r, block, b);
}

/* The fifth bits of run s are bit s of 32 bytes. */
static void put_q5_k(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 40 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 4; i++)
        put_two_runs(out + i * 10 * VECTOR, 5 * VECTOR, b->w + 12 + 8 * i);
    for (uint32_t s = 0; s < 8; s++)
        store(out + (5 * s + 4) * VECTOR, join_bits(b->w + 4, 8, 1, s));
    put_scales(to, r, block, b);
}

/* The low two bits of the codes of run s, of 16 k in each vector. They are at bit 2 * s of 32
 * bytes, those of runs 4..7 in the 32 after these. */
static inline void put_two_bits(uint8_t *out, const RowWords *from, uint32_t s)
{
    for (uint32_t i = 0; i < 2; i++)
        store(out + i * VECTOR, join_bits(from + s / 4 * 8 + 4 * i, 4, 2, s % 4 * 2));
}

/* 16 bytes, the nibbles of which are a scale and a minimum; 64 of codes; d, dmin. */
/* 16 bytes of sub-scales of each row. */
static inline void put_fours(void *part, int r, int block, const RowWords from[4])
{
    for (int i = 0; i < 4; i++)
        store((uint8_t *)part + ((size_t)block * 4 + (size_t)i) * VECTOR + r * ROW_STEP, from[i]);
}

static void put_q2_k(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 16 * VECTOR + r * ROW_STEP;
    for (uint32_t s = 0; s < 8; s++)
        put_two_bits(out + s * 2 * VECTOR, b->w + 4, s);
    put_fours(to[1], r, block, b->w);
    put_pairs(to[2], r, block, b, 80);
}

/* 32 bytes, whose bit s is the third one of the codes of run s; 64 of their low bits; 12 of scales
 * of 6 bits, d. Scales 0..7 have their low four bits in the low nibbles of 8 bytes, scales 8..15 in
 * the high ones. The upper bits of scales 4 * i .. + 3 are at bit 2 * i of the last four bytes. */
static void put_q3_k(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 24 * VECTOR + r * ROW_STEP;
    RowWords v[4], high = word_at(b, 104);
    for (uint32_t s = 0; s < 8; s++, out += 3 * VECTOR) {
        put_two_bits(out, b->w + 8, s);
        store(out + 2 * VECTOR, join_bits(b->w, 8, 1, s));
    }
    for (uint32_t i = 0; i < 4; i++)
        v[i] = (word_at(b, 96 + 4 * (i % 2)) >> i / 2 * 4 & 0x0f0f0f0fu)
            | (high >> 2 * i & 0x03030303u) << 4;
    put_sixes((uint8_t *)to[1] + (size_t)block * 3 * VECTOR + r * ROW_STEP, v);
    put_halves(to[2], (size_t)block * PANEL_ROWS + (size_t)r, b, 108);
}

/* ql [2][64], qh [2][32], 16 scales, d. In each half of 128 k, runs 0 and 1 are the low nibbles of
 * the 64 bytes of ql, and runs 2 and 3 the high ones. The upper bits of run s are at bit 2 * s of
 * the 32 bytes of qh. */
static void put_q6_k(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 48 * VECTOR + r * ROW_STEP;
    for (uint32_t s = 0; s < 16; s++, out += 3 * VECTOR) { /* 16 k each */
        const RowWords *ql = b->w + s / 8 * 16 + s % 4 * 4, *qh = b->w + 32 + s / 8 * 8 + s % 2 * 4;
        uint32_t        run = s / 2 % 4;
        store(out, join_nibbles(ql, run / 2 * 4));
        store(out + VECTOR, join_nibbles(ql + 2, run / 2 * 4));
        store(out + 2 * VECTOR, join_bits(qh, 4, 2, 2 * run));
    }
    put_fours(to[1], r, block, b->w + 48);
    put_halves(to[2], (size_t)block * PANEL_ROWS + (size_t)r, b, 208);
}

static void put_q8_16(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b)
{
    uint8_t *out = (uint8_t *)to[0] + (size_t)block * 64 * VECTOR + r * ROW_STEP;
    for (int i = 0; i < 64; i++)
        store(out + i * VECTOR, b->w[i]);
    put_fours(to[1], r, block, b->w + 64);
    store((uint8_t *)to[2] + (size_t)block * VECTOR + r * ROW_STEP, word_at(b, 272));
}

/* A block that decodes to +0. If the code that means 0 is not 0, all codes must be that one. */
static void zero_block(WeightType t, uint8_t *b)
{
    memset(b, 0, block_bytes(gguf_block(t)));
    if (t == WT_Q4_0 || t == WT_IQ4_NL) /* none of IQ4_NL means 0; this one is 1 */
        memset(b + 2, 0x88, 16);
    if (t == WT_IQ4_XS) /* of sub-scales 32 means 0 */
        memset(b + 2, 0xaa, 2), memset(b + 8, 0x88, 128);
    if (t == WT_Q5_0)
        memset(b + 2, 0xff, 4);
    if (t == WT_Q6_K)
        memset(b + 128, 0xaa, 64);
    if (t == WT_Q3_K) /* and its scales: -32 would make it -0 */
        memset(b, 0xff, 32), memset(b + 104, 0xaa, 4);
}

typedef void Put(void *const to[MAX_PARTS], int r, int block, const FourBlocks *b);

#define PUT(ID, name, ...) [WT_##ID] = put_##name,
static Put *const put_of[WT_COUNT] = { BLOCKED_TYPES(PUT) };

void panel_from_blocks(WeightType t, void *const to[MAX_PARTS], const void *rows, size_t row_stride,
                       int n_rows, int k)
{
    size_t each = block_elements(gguf_block(t)), bytes = block_bytes(gguf_block(t));
    assert(n_rows >= 1 && n_rows <= PANEL_ROWS && k >= 1 && (size_t)k % each == 0);
    /* What is gathered: a run's codes, which its scales precede, as those of IQ4_XS do; or as much
     * of the block as has whole vectors. */
    int        words = weight_type_has_runs(t) ? weight_type_bits(t) / 4 * 4 : (int)bytes / 16 * 4;
    size_t     from  = weight_type_has_runs(t) || t == WT_IQ4_XS ? bytes - 4 * (size_t)words : 0;
    uint8_t    zero[288];
    FourBlocks four;
    zero_block(t, zero);
    for (int i = 0; i < k / (int)each; i++) {
        const uint8_t *b = (const uint8_t *)rows + (size_t)i * bytes;
        for (int r = 0; r < PANEL_ROWS; r += WORDS_ROWS) {
            for (int j = 0; j < WORDS_ROWS; j++)
                four.row[j] = r + j < n_rows ? b + (size_t)(r + j) * row_stride : zero;
            gather(&four, from, words);
            put_of[t](to, r, i, &four);
        }
    }
}

/* ---- A panel to integers --------------------------------------------------------------------- */

/* The code in column c of row r, for 8 columns in the nibbles of one vector. */
static int nibble(const uint8_t *vectors, int r, int c)
{
    return vectors[c / 8 * VECTOR + r * ROW_STEP + c % 4] >> c / 4 % 2 * 4 & 15;
}

static inline __attribute__((always_inline)) int
code_at(WeightType t, const uint8_t *codes, int r, int c)
{
    static const int8_t e2m1[16] = E2M1_TWICE(0), iq4[16] = IQ4_VALUES;
    const uint8_t      *run;
    int            byte = r * ROW_STEP + c % 4;
    switch (t) {
    case WT_Q8_0:
    case WT_Q8_16:
        return (int8_t)codes[c / 4 * VECTOR + byte];
    case WT_Q4_0:
        return nibble(codes, r, c) - 8;
    case WT_IQ4_NL:
    case WT_IQ4_XS:
        return iq4[nibble(codes, r, c)];
    case WT_MXFP4:
        return e2m1[nibble(codes, r, c)];
    case WT_Q2_K:
        return codes[c / 16 * VECTOR + byte] >> c % 16 / 4 * 2 & 3;
    case WT_Q3_K:
        run = codes + c / RUN * 3 * VECTOR;
        return (run[c % RUN / 16 * VECTOR + byte] >> c % 16 / 4 * 2 & 3)
            + (run[2 * VECTOR + byte] >> c % RUN / 4 & 1) * 4 - 4;
    case WT_Q5_0:
    case WT_Q5_1:
    case WT_Q5_K:
        run = codes + c / RUN * 5 * VECTOR;
        return (nibble(run, r, c % RUN) | (run[4 * VECTOR + byte] >> c % RUN / 4 & 1) << 4)
            - weight_type_offset(t);
    case WT_Q6_K:
        run = codes + c / 16 * 3 * VECTOR;
        return (nibble(run, r, c % 16) | (run[2 * VECTOR + byte] >> c % 16 / 4 * 2 & 3) << 4) - 32;
    default:
        return nibble(codes, r, c);
    }
}

/* Row r of 16 numbers of 6 bits (put_sixes). */
static void sixes_of(int8_t six[16], const uint8_t *s, int r)
{
    for (int j = 0; j < 4; j++, s++) {
        int a = s[r * ROW_STEP], b = s[VECTOR + r * ROW_STEP], c = s[2 * VECTOR + r * ROW_STEP];
        six[j]      = (int8_t)(a & MASK6);
        six[4 + j]  = (int8_t)(b & MASK6);
        six[8 + j]  = (int8_t)(c & MASK6);
        six[12 + j] = (int8_t)(a >> 6 | b >> 6 << 2 | c >> 6 << 4);
    }
}

/* Row r of the sub-scales of IQ4_XS (put_iq4_xs). */
static void iq4_xs_subs(int8_t v[8], const uint8_t *s, int r)
{
    const uint8_t *low = s + r * ROW_STEP, *high = s + VECTOR + 2 * r;
    for (int j = 0; j < 8; j++)
        v[j] = (int8_t)((low[j % 4] >> j / 4 * 4 & 15)
                        | (high[j % 4 / 2] >> (j % 2 * 4 + j / 4 * 2) & 3) << 4);
}

/* Sub-scales and minima of a K-quant. */
static void subs_of(WeightType t, BlockRow *out, const uint8_t *s, int r)
{
    int8_t v[16];
    if (weight_type_sub_bytes(t))
        for (int i = 0; i < 16; i++)
            v[i] = (int8_t)s[i / 4 * VECTOR + r * ROW_STEP + i % 4];
    else if (t == WT_IQ4_XS)
        iq4_xs_subs(v, s, r);
    else
        sixes_of(v, s, r);
    for (int i = 0; i < SUPERBLOCK / weight_type_sub(t); i++)
        if (t == WT_Q2_K)
            out->sub[i] = v[i] & 15, out->min[i] = v[i] >> 4 & 15;
        else if (weight_type_has_minima(t))
            out->sub[i] = v[i], out->min[i] = v[8 + i];
        else
            out->sub[i] = (int8_t)(v[i] - (t == WT_Q3_K || t == WT_IQ4_XS ? 32 : 0));
}

static inline __attribute__((always_inline)) void
block_row(WeightType t, BlockRow *out, Panels p, int r, int n)
{
    const uint8_t  *codes = p.part[0], *sub = p.part[1];
    const uint16_t *d = p.part[part_count(t) - 1];
    const uint8_t  *e = p.part[part_count(t) - 1]; /* the same of mxfp4 */
    int             each = (int)block_elements(gguf_block(t));
    assert(r >= 0 && r < PANEL_ROWS && n >= 1 && n <= SUPERBLOCK && n % each == 0);
    *out = (BlockRow){ .dmin = 0 };
    for (int c = 0; c < n; c++)
        out->code[c] = (int8_t)(code_at(t, codes, r, c)
            - (weight_type_has_zeros(t) ? sub[c / weight_type_sub(t) * PANEL_ROWS + r] & 15 : 0));
    for (int i = 0; i < n / each; i++) {
        int scale = i * RUN / weight_type_sub(t),
            at    = scale * (weight_type_has_minima(t) ? 2 : 1) * PANEL_ROWS + r;
        out->d[i] = t == WT_MXFP4 ? mxfp4_scale(e[at])
            : t == WT_Q8_16       ? ((const float *)p.part[2])[at]
                                  : f16_to_f32(d[at]);
        out->m[i] = weight_type_adds(t) ? f16_to_f32(d[at + PANEL_ROWS]) : 0;
    }
    if (weight_type_has_runs(t))
        return;
    subs_of(t, out, sub, r);
    if (weight_type_has_minima(t))
        out->dmin = f16_to_f32(d[PANEL_ROWS + r]);
}

void panel_block_row(WeightType t, BlockRow *out, Panels p, int r, int n)
{
    block_row(t, out, p, r, n);
}

/* The formula is code * (scale * sub-scale) - (scale of minima * minimum), or of q4_1 code * scale
 * + m. Each step is rounded. */
static inline __attribute__((always_inline)) void
row_to_f32(WeightType t, float *out, Panels p, int r, int k)
{
    for (int c = 0; c < k; c += SUPERBLOCK) {
        BlockRow b;
        int      n = k - c < SUPERBLOCK ? k - c : SUPERBLOCK;
        block_row(t, &b, panel_superblock(t, p, c / SUPERBLOCK), r, n);
        for (int i = 0; i < n; i++) {
            float d = b.d[weight_type_has_runs(t) ? i / 32 : 0];
            if (!weight_type_has_runs(t))
                d = d * (float)b.sub[i / weight_type_sub(t)];
            out[c + i] = d * (float)b.code[i];
            if (weight_type_adds(t))
                out[c + i] = out[c + i] + b.m[i / 32];
            else if (weight_type_has_minima(t))
                out[c + i] = out[c + i] - b.dmin * (float)b.min[i / weight_type_sub(t)];
        }
    }
}

/* Compiled for each type: whole models are decoded. */
void gguf_row_to_f32(WeightType t, float *out, Panels p, int r, int k)
{
    switch (t) {
#define ROW_OF(ID, ...)                                                                            \
    case WT_##ID: row_to_f32(WT_##ID, out, p, r, k); return;
        GGUF_TYPES(ROW_OF)
#undef ROW_OF
    default: row_to_f32(t, out, p, r, k); return;
    }
}
