/* quant/quant.h: blocks of 4 and 8 bits: ours and ggml's. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"

/* ---- quant.c --------------------------------------------------------------------------------- */

/* The weight types, and the layout of each: how a matrix [rows, k] is stored in panels of 16 rows.
 * Knows nothing of files and kernels. docs/format.md, section "Panels", is this contract byte by
 * byte. */

enum {
    PANEL_ROWS = 16,
    SUPERBLOCK = 256,            /* elements of a quantized row with one float scale */
    SUB_BLOCK  = 16,             /* elements with one integer sub-scale in q4 */
    MAX_PARTS  = 3,
    MXFP4_OFFSET = 12,           /* makes twice the values of e2m1 unsigned */
    BF16_LEAST = (127 - 50) << 7 /* bits of 2^-50; with --math bf16, no weight but 0 is smaller */
};

/* The table of weight types. Enums, names, layouts and kernels are made from these rows, so a new
 * type is a row here, what reads and writes its codes in panel_blocks.c, and its step in
 * kernels/bodies. Columns:
 *   ID      the type is WT_ID, its blocks BLOCK_ID, a tensor of them in a file DT_ID
 *   name    in metadata and options; its kernels are matmul_name and matmul_int_name
 *   has     HAS_RUNS: a float scale for each 32 k; HAS_MINIMA: minima to subtract, or with
 *           runs a float to add for each; HAS_ZEROS: an integer for each scale, which is
 *           subtracted from its codes
 *   sub     k of one scale or sub-scale; 0: as many as one float scale has. Kernels see the scale
 *           of a group of 64 or 128 as that of each 32 in it
 *   bits    of an element or a code
 *   offset  what a code as multiplied is too large by
 *   most    the largest code as multiplied; 255: they are signed bytes
 *   ...     its parts: { suffix of the name, element, k of a step, what k is rounded up to, rank
 *           and dimensions of a step }
 *
 * The float types come first: their elements are independent, and row-major tensors have these
 * types too. Then the types that tblock makes. The GGUF types come from llama.cpp's tools, the
 * group types from those that quantize folders; tblock only changes their layout. */
#define FLOAT_TYPES(X)                                                                             \
    X(F32,   f32,   0,          0,         32, 0,  0,   { "", EL_F32, 1, 1, 1, { PANEL_ROWS } })   \
    X(F16,   f16,   0,          0,         16, 0,  0,   { "", EL_F16, 1, 1, 1, { PANEL_ROWS } })   \
    X(BF16,  bf16,  0,          0,         16, 0,  0,   { "", EL_BF16, 2, 1, 2, { PANEL_ROWS, 2 } })
#define OWN_TYPES(X)                                                                               \
    X(Q8,    q8,    0,          0,         8,  0,  255, PART_BYTES(64), PART_SCALES(SUPERBLOCK))   \
    X(Q4,    q4,    0,          SUB_BLOCK, 4,  0,  15,  PART_NIBBLES(64),                          \
      { ".s", EL_U8, 64, 64, 1, { 40 } }, PART_SCALES(SUPERBLOCK))
#define GGUF_TYPES(X)                                                                              \
    X(Q8_0,  q8_0,  HAS_RUNS,   32,        8,  0,  255, PART_BYTES(1), PART_SCALES(32))            \
    X(Q4_0,  q4_0,  HAS_RUNS,   32,        4,  8,  15,  PART_NIBBLES(1), PART_SCALES(32))          \
    X(Q4_1,  q4_1,  HAS_RUNS | HAS_MINIMA, 32, 4, 0,  15,  PART_NIBBLES(1), PART_PAIRS(32))        \
    X(Q5_0,  q5_0,  HAS_RUNS,   32,        5,  16, 31,  PART_FIVES, PART_SCALES(32))               \
    X(Q5_1,  q5_1,  HAS_RUNS | HAS_MINIMA, 32, 5, 0,  31,  PART_FIVES, PART_PAIRS(32))             \
    X(Q2_K,  q2_k,  HAS_MINIMA, 16,        2,  0,  3,   { "", EL_U8, 16, 1, 1, { 64 } },           \
      PART_FOURS(EL_U8), PART_PAIRS(SUPERBLOCK))                                                   \
    X(Q3_K,  q3_k,  0,          16,        3,  4,  7,   { "", EL_U8, 32, 1, 2, { 3, 64 } },        \
      PART_SIXES, PART_SCALES(SUPERBLOCK))                                                         \
    X(Q4_K,  q4_k,  HAS_MINIMA, 32,        4,  0,  15,  PART_NIBBLES(1), PART_SIXES,               \
      PART_PAIRS(SUPERBLOCK))                                                                      \
    X(Q5_K,  q5_k,  HAS_MINIMA, 32,        5,  0,  31,  PART_FIVES, PART_SIXES,                    \
      PART_PAIRS(SUPERBLOCK))                                                                      \
    X(Q6_K,  q6_k,  0,          16,        6,  32, 63,  { "", EL_U8, 16, 1, 2, { 3, 64 } },        \
      PART_FOURS(EL_I8), PART_SCALES(SUPERBLOCK))                                                  \
    X(IQ4_NL, iq4_nl, HAS_RUNS, 32,        4,  0,  255, PART_NIBBLES(1), PART_SCALES(32))          \
    X(IQ4_XS, iq4_xs, 0,        32,        4,  0,  255, PART_NIBBLES(1),                           \
      { ".s", EL_U8, SUPERBLOCK, 1, 1, { 96 } }, PART_SCALES(SUPERBLOCK))                          \
    X(MXFP4, mxfp4, HAS_RUNS,   32,        4,  MXFP4_OFFSET, 2 * MXFP4_OFFSET,                     \
      PART_NIBBLES(1), { ".d", EL_U8, 32, 1, 1, { PANEL_ROWS } })
#define GROUP_TYPES(X)                                                                             \
    X(Q4_Z32,  q4_z32,  HAS_RUNS | HAS_ZEROS, 32,  4, 0, 15, PART_NIBBLES(1), PART_ZEROS(32),      \
      PART_SCALES(32))                                                                             \
    X(Q4_Z64,  q4_z64,  HAS_RUNS | HAS_ZEROS, 64,  4, 0, 15, PART_NIBBLES(1), PART_ZEROS(64),      \
      PART_SCALES(64))                                                                             \
    X(Q4_Z128, q4_z128, HAS_RUNS | HAS_ZEROS, 128, 4, 0, 15, PART_NIBBLES(1), PART_ZEROS(128),     \
      PART_SCALES(128))
/* What the blocks of GGUF files without kernels of their own become, exactly. */
#define PLAIN_TYPES(X)                                                                             \
    X(Q8_16,   q8_16,  0,       16,        8,  0,  255, PART_BYTES(1), PART_FOURS(EL_I8),          \
      { ".d", EL_F32, SUPERBLOCK, 1, 1, { PANEL_ROWS } })
#define BLOCKED_TYPES(X)   GGUF_TYPES(X) GROUP_TYPES(X) PLAIN_TYPES(X)
#define QUANTIZED_TYPES(X) OWN_TYPES(X) BLOCKED_TYPES(X)
#define WEIGHT_TYPES(X)    FLOAT_TYPES(X) QUANTIZED_TYPES(X)

/* Parts of several types: codes; scales, or pairs of a scale and one of minima, for each n k;
 * sub-scales and minima of six bits, or in bytes. */
#define PART_BYTES(round)   { "", EL_I8, 4, round, 2, { PANEL_ROWS, 4 } }
#define PART_NIBBLES(round) { "", EL_U8, 4, round, 2, { PANEL_ROWS, 2 } }
#define PART_FIVES          { "", EL_U8, 32, 1, 2, { 5, 64 } }
#define PART_SCALES(n)      { ".d", EL_F16, n, 1, 1, { PANEL_ROWS } }
#define PART_PAIRS(n)       { ".d", EL_F16, n, 1, 2, { 2, PANEL_ROWS } }
#define PART_SIXES          { ".s", EL_U8, SUPERBLOCK, 1, 2, { 3, 64 } }
#define PART_FOURS(element) { ".s", element, 64, 1, 2, { PANEL_ROWS, 4 } }
#define PART_ZEROS(n)       { ".z", EL_U8, n, 1, 1, { PANEL_ROWS } }

enum { HAS_RUNS = 1, HAS_MINIMA = 2, HAS_ZEROS = 4 };
#define WT_ID(ID, ...) WT_##ID,
typedef enum WeightType {
    WEIGHT_TYPES(WT_ID) WT_COUNT, WT_FLOATS = WT_Q8, WT_MADE = WT_Q8_0
} WeightType;
typedef enum ElementType { EL_F32, EL_F16, EL_BF16, EL_I8, EL_U8 } ElementType;

/* The columns of t. Inlined first, and comparisons, not an array: kernels are compiled for one type
 * each, and gcc spilled sums of q6_k when it knew the result late. */
#define INLINED_FIRST __attribute__((always_inline)) static inline
#define HAS_OF(ID, name, has, ...)                             t == WT_##ID ? (has) :
#define SUB_OF(ID, name, has, sub, ...)                        t == WT_##ID ? (int)(sub) :
#define BITS_OF(ID, name, has, sub, bits, ...)                 t == WT_##ID ? (bits) :
#define OFFSET_OF(ID, name, has, sub, bits, offset, ...)       t == WT_##ID ? (offset) :
#define MOST_OF(ID, name, has, sub, bits, offset, most, ...)   t == WT_##ID ? (most) :
INLINED_FIRST int weight_type_has(WeightType t) { return WEIGHT_TYPES(HAS_OF) 0; }
INLINED_FIRST int weight_type_sub(WeightType t) { return WEIGHT_TYPES(SUB_OF) 0; }
INLINED_FIRST int weight_type_bits(WeightType t) { return WEIGHT_TYPES(BITS_OF) 0; }
INLINED_FIRST int weight_type_offset(WeightType t) { return WEIGHT_TYPES(OFFSET_OF) 0; }
INLINED_FIRST int weight_type_most(WeightType t) { return WEIGHT_TYPES(MOST_OF) 0; }

INLINED_FIRST bool weight_type_quantized(WeightType t) { return t >= WT_FLOATS; }
INLINED_FIRST bool weight_type_gguf(WeightType t) { return t >= WT_MADE; }
INLINED_FIRST bool weight_type_has_runs(WeightType t) { return weight_type_has(t) & HAS_RUNS; }
INLINED_FIRST bool weight_type_has_minima(WeightType t) { return weight_type_has(t) & HAS_MINIMA; }
/* May its 8-bit activations have a scale for each 32? */
INLINED_FIRST bool weight_type_by_32(WeightType t)
{
    return t == WT_Q8 || weight_type_has_runs(t);
}
INLINED_FIRST bool weight_type_has_zeros(WeightType t) { return weight_type_has(t) & HAS_ZEROS; }
/* The part with the float scales of a type that kernels multiply in runs. */
INLINED_FIRST int weight_type_runs_part(WeightType t) { return weight_type_has_zeros(t) ? 2 : 1; }
/* Has a sub-scale of 16 columns, with its minimum, a byte of its own? */
INLINED_FIRST bool weight_type_sub_bytes(WeightType t)
{
    return t == WT_Q2_K || t == WT_Q6_K || t == WT_Q8_16;
}
/* Is it code * scale + float? */
INLINED_FIRST bool weight_type_adds(WeightType t)
{
    return weight_type_has_runs(t) && weight_type_has_minima(t);
}

/* The block types of GGUF files (ggml_blocks.c): ID and ggml's spelling, the number in enum
 * ggml_type (ggml.h), the function that decodes a block (NULL: its twin's), its elements and its
 * bytes. */
#define BLOCK_LIST(X)                                                                              \
    X(Q4_0, 2, q4_0, 32, 2 + 16)                X(Q4_1, 3, q4_1, 32, 2 + 2 + 16)                   \
    X(Q5_0, 6, q5_0, 32, 2 + 4 + 16)            X(Q5_1, 7, q5_1, 32, 2 + 2 + 4 + 16)               \
    X(Q8_0, 8, q8_0, 32, 2 + 32)                X(Q2_K, 10, q2_k, 256, 16 + 64 + 2 + 2)            \
    X(Q3_K, 11, q3_k, 256, 32 + 64 + 12 + 2)    X(Q4_K, 12, q4_k, 256, 2 + 2 + 12 + 128)           \
    X(Q5_K, 13, q5_k, 256, 2 + 2 + 12 + 32 + 128)                                                  \
    X(Q6_K, 14, q6_k, 256, 128 + 64 + 16 + 2)   X(IQ4_NL, 20, iq4_nl, 32, 2 + 16)                  \
    X(IQ4_XS, 23, iq4_xs, 256, 2 + 2 + 4 + 128) X(MXFP4, 39, mxfp4, 32, 1 + 16)                    \
    X(IQ2_XXS, 16, NULL, 256, 2 + 64)           X(IQ2_XS, 17, NULL, 256, 2 + 64 + 8)               \
    X(IQ2_S, 22, NULL, 256, 2 + 32 + 32 + 8 + 8)                                                   \
    X(IQ3_XXS, 18, NULL, 256, 2 + 64 + 32)      X(IQ3_S, 21, NULL, 256, 2 + 64 + 8 + 32 + 4)       \
    X(IQ1_S, 19, NULL, 256, 2 + 32 + 16)        X(IQ1_M, 29, NULL, 256, 32 + 16 + 8)               \
    X(TQ1_0, 34, NULL, 256, 48 + 4 + 2)         X(TQ2_0, 35, NULL, 256, 64 + 2)
#define BLOCK_ID(ID, ...) BLOCK_##ID,
/* In no GGUF file: BLOCK_Q4_Z, 32 codes of a folder's row: d f16, zero point u8, 16 bytes of
 * nibbles as in Q4_0; blocks of a group repeat its two numbers. BLOCK_Q8_16, 256 codes and 16
 * sub-scales, int8, then d f32. */
typedef enum BlockType {
    BLOCK_LIST(BLOCK_ID) BLOCK_TYPES, BLOCK_Q4_Z = BLOCK_TYPES, BLOCK_Q8_16, BLOCK_ALL
} BlockType;

const char *weight_type_name(WeightType t);                    /* "f32" ... */
/* The quantized types for a message, "q8, q4 ... or mxfp4", in buf of n bytes, which it returns. */
const char *weight_types_text(char *buf, size_t n);
bool        weight_type_parse(const char *name, WeightType *out);
/* Only a type that tblock can make from floats. */
bool        weight_type_parse_made(const char *name, WeightType *out);
/* For a message that rejects a GGUF type: which program makes it; for other types "". */
const char *weight_type_hint(const char *name);
/* Of one element, row-major; float types only. */
size_t      weight_type_bytes(WeightType t);
/* k must be a multiple of it: 32 or 256 for GGUF types, else 1. */
int         weight_type_k_unit(WeightType t);
/* Columns in one step of its codes. */
int         weight_type_step(WeightType t);

/* Activations as integers, for products with quantized weights: 8 bits with a scale for each 32 of
 * them, 8 or 16 bits with one for each superblock. If the matrices that read one vector need
 * different ones, the last of these serves all of them. */
typedef enum Integers { INT_NONE, INT8_BY_32, INT8, INT16 } Integers;
static inline int int_bits(Integers i) { return i == INT_NONE ? 0 : i == INT16 ? 16 : 8; }
static inline int int_each(Integers i) { return i == INT8_BY_32 ? 32 : SUPERBLOCK; }

static inline int panel_count(int rows) { return rows / PANEL_ROWS + (rows % PANEL_ROWS != 0); }

/* ---- Parts: a quantized matrix is several tensors, each cut into panels of the same rows ----- */

/* f32: 1; q8: codes, scales; q4 and q4_k: codes, sub-scales, scales. */
int         part_count(WeightType t);
/* Ends the tensor's name: "", ".s", ".d". */
const char *part_suffix(WeightType t, int part);
ElementType part_element(WeightType t, int part);
/* Of one panel. 0: overflow, k < 1, or k is not a multiple of the unit. */
size_t      part_bytes(WeightType t, int part, int k);

/* The stored shape of a part; returns the rank.
 *   f32, f16  [panels, k, 16]
 *   bf16      [panels, ceil(k/2), 16, 2]
 *   q8        [panels, k64/4, 16, 4], k64 = k rounded up to 64; .d [panels, ceil(k/256), 16]
 *   q4        [panels, k64/4, 16, 2]; .s [panels, k64/64, 40]; .d as q8
 *   GGUF types: docs/format.md */
int part_shape(WeightType t, int part, int rows, int k, int64_t shape[4]);

/* Of one panel, all parts; 0 as part_bytes. */
size_t panel_bytes(WeightType t, int k);
/* Of all panels and parts; false: overflow. */
bool   matrix_bytes(WeightType t, int rows, int k, size_t *n);

/* Where the parts of some panels of one matrix start. */
typedef struct Panels { const void *part[MAX_PARTS]; } Panels;

/* The same, from panel number `first` on. */
Panels panels_from(WeightType t, Panels p, int first, int k);

/* Pack n_rows (1..16) consecutive rows into one panel. rows is row-major with k elements of float
 * type t per row; missing rows become 0. */
void panel_pack(WeightType t, void *panel, const void *rows, int n_rows, int k);

/* Make the panel of n_rows (1..16) consecutive rows as another program's file stores them: float
 * types as panel_pack does, GGUF types as panel_from_blocks. to: the panel's parts. */
void panel_make(WeightType t, void *const to[MAX_PARTS], const void *rows, int n_rows, int k);

/* q8 and q4: quantize n_rows (1..16) rows of k finite floats into one panel. Missing rows decode to
 * 0. to: the panel's parts. weight: [k] factors of the squared errors of the columns (codes.h);
 * NULL: all 1. */
void panel_quantize(WeightType t, void *const to[MAX_PARTS], const float *rows,
                    const float *weight, int n_rows, int k);

/* One superblock of one row of q8 or q4: 256 codes (int8 in q8, 0 to 15 in q4), the sub-scales of
 * q4 (bit 4: negative), and the f16 bits of the scale. */
typedef struct SuperblockCodes {
    uint8_t  code[SUPERBLOCK], sub[SUPERBLOCK / SUB_BLOCK];
    uint16_t d;
} SuperblockCodes;

/* Put n (1..256) codes of row r, columns c .. c + n - 1 (c is a multiple of 256), into a panel
 * whose bytes there are all zero. */
void superblock_put(WeightType t, void *const to[MAX_PARTS], int r, int c, int n,
                    const SuperblockCodes *s);

/* Decode row r (0..15) of the first panel to k floats. Float types are exact, q8 and q4 are the
 * exact value rounded once, GGUF types follow the formula of docs/numerics.md, "GGUF types". */
void panel_row_to_f32(WeightType t, float *out, Panels p, int r, int k);

/* Quantized types: the first panel from its superblock number s on. */
Panels panel_superblock(WeightType t, Panels p, int s);

/* q8 and q4: the first n (1..256) integers of row r of a superblock, and the scale to multiply them
 * with. The integers are the codes of q8; in q4, the value from the codebook times the
 * sub-scale. */
void  superblock_row_to_i8(WeightType t, int8_t *out, Panels p, int r, int n);
float superblock_scale(WeightType t, Panels p, int r);

/* ---- GGUF types ------------------------------------------------------------------------------ */

/* One superblock of one row. A code is what a scale is multiplied with:
 *   q8_0 -128 .. 127, q4_0 -8 .. 7, q4_1 and q4_k 0 .. 15, q5_0 -16 .. 15, q5_1 and q5_k 0 .. 31,
 *   q2_k 0 .. 3, q3_k -4 .. 3, q6_k -32 .. 31, iq4_* -127 .. 113, mxfp4 -12 .. 12,
 *   q4_z* -15 .. 15: what is stored less the zero point, q8_16 -128 .. 127
 * Sub-scales and minima of q4_k and q5_k (0 .. 63) and sub-scales of iq4_xs (-32 .. 31) are for
 * 32 k each, those of q2_k (0 .. 15) and sub-scales of q3_k (-32 .. 31), q6_k and q8_16
 * (-128 .. 127) for 16. d: the scale, one for each 32 k if the type has runs, else only d[0]. m:
 * what q4_1 and q5_1 add to each 32 k. dmin: the scale of the minima. What a type does not have
 * is 0. */
typedef struct BlockRow {
    int8_t code[SUPERBLOCK], sub[SUPERBLOCK / 16], min[SUPERBLOCK / 16];
    float  d[SUPERBLOCK / 32], m[SUPERBLOCK / 32], dmin;
} BlockRow;

/* The values of e2m1, the code of mxfp4, times two, plus o. Bit 3 is the sign; -0 is +0. */
#define E2M1_TWICE(o)                                                                  \
    {                                                                                  \
        (o), (o) + 1, (o) + 2, (o) + 3, (o) + 4, (o) + 6, (o) + 8, (o) + 12,           \
        (o), (o) - 1, (o) - 2, (o) - 3, (o) - 4, (o) - 6, (o) - 8, (o) - 12            \
    }

/* The values of the codes of IQ4_NL and IQ4_XS (ggml-common.h, kvalues_iq4nl). */
#define IQ4_VALUES { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 }

/* The factor of such a code of mxfp4 if the scale byte is e: 2^(e - 128). */
static inline float mxfp4_scale(uint8_t e)
{
    return f32_from(e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23);
}

/* Read row r of a superblock (panel_superblock) of n k. n is a multiple of 32 up to 256; for
 * K-quants it is 256. */
void panel_block_row(WeightType t, BlockRow *out, Panels p, int r, int n);
/* panel_row_to_f32 of a GGUF type. */
void gguf_row_to_f32(WeightType t, float *out, Panels p, int r, int k);

/* The blocks that a GGUF type is made of; the type whose panels hold blocks or their twins. False:
 * there is none. */
BlockType gguf_block(WeightType t);
bool      gguf_type_of(BlockType b, WeightType *t);
/* Bytes of a row of k weights in a GGUF file; 0: k is not a multiple of the type's unit. */
size_t gguf_row_bytes(WeightType t, int k);

/* Lay n_rows (1..16) rows of blocks out as one panel. The rows are stored as in a GGUF file,
 * row_stride bytes apart, maybe unaligned. Missing rows decode to 0. Every bit is kept. to: the
 * panel's parts. */
void panel_from_blocks(WeightType t, void *const to[MAX_PARTS], const void *rows, size_t row_stride,
                       int n_rows, int k);

/* Convert a row-major run of n elements of a float type to f32 (exact), and from f32 (round to
 * nearest even). */
void elements_to_f32(WeightType t, float *out, const void *in, size_t n);
void elements_from_f32(WeightType t, void *out, const float *in, size_t n);

/* The index of the first of n such elements that is infinite or NaN; n: there is none. Data may be
 * unaligned. */
size_t elements_first_nonfinite(WeightType t, const void *data, size_t n);

/* ---- ggml_blocks.c --------------------------------------------------------------------------- */

/* The quantized types of GGUF files as they are stored there: rows of whole
 * blocks of 32 or 256 elements, each block with its own scales. Sizes, and the floats that a block
 * means. Sources: for the layouts ggml, src/ggml-common.h (block_q4_0 ...); for the arithmetic the
 * Python package gguf, quants.py. */

const char *block_type_name(BlockType t);  /* "Q4_0": ggml's spelling */
size_t      block_elements(BlockType t);   /* in one block: 32 or 256 */
size_t      block_bytes(BlockType t);      /* of one block            */

/* Decode n_elements (whole blocks) to floats. Each product and each difference is rounded once,
 * which gives the same bits as gguf 0.19.0. (If a scale in the file is infinite or NaN, so is the
 * result, with any payload.) in may be unaligned. */
void blocks_to_f32(BlockType t, float *out, const void *in, size_t n_elements);

/* A type whose blocks have as many elements and can hold everything that those of t hold, with the
 * same bits from blocks_to_f32: Q6_K for IQ3_S, Q3_K for TQ1_0 and TQ2_0, Q8_16 for the types of 1
 * to 3 bits with a codebook; t itself if there is none. For types that no kernel multiplies. */
BlockType block_twin(BlockType t);

/* Convert n_elements (whole blocks) to blocks of block_twin(t), which must not be t. in and out
 * must not overlap. */
void blocks_to_twin(BlockType t, void *out, const void *in, size_t n_elements);

#endif
