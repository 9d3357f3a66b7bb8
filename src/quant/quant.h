/* quant/quant.h: blocks of 4 and 8 bits: ours and ggml's. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"

/* ---- quant.c --------------------------------------------------------------------------------- */

/* The layout of every weight type: how a matrix [rows, k] is stored in panels of 16 rows. Knows
 * nothing of files and kernels. docs/format.md, section "Panels", is this contract byte by byte. A
 * new type is a new row in the table of quant.c. */

enum {
    PANEL_ROWS = 16,
    SUPERBLOCK = 256,            /* elements of a quantized row with one float scale */
    SUB_BLOCK  = 16,             /* elements with one integer sub-scale in q4 */
    MAX_PARTS  = 3,
    BF16_LEAST = (127 - 50) << 7 /* bits of 2^-50; with --math bf16, no weight but 0 is smaller */
};

/* The float types come first, and WT_FLOATS counts them: their elements are independent, and
 * row-major tensors have these types too. WT_MADE counts the types that tblock can make. The
 * others, the GGUF types, come from llama.cpp's tools; tblock only changes their layout. */
typedef enum WeightType {
    WT_F32, WT_F16, WT_BF16, WT_Q8, WT_Q4, WT_Q8_0, WT_Q4_0, WT_Q4_K, WT_Q5_K, WT_Q6_K,
    WT_MXFP4, WT_COUNT,
    WT_FLOATS = WT_Q8, WT_MADE = WT_Q8_0
} WeightType;
#define QUANTIZED_TYPES "q8, q4, q8_0, q4_0, q4_k, q5_k, q6_k or mxfp4" /* for messages */
typedef enum ElementType { EL_F32, EL_F16, EL_BF16, EL_I8, EL_U8 } ElementType;

const char *weight_type_name(WeightType t);                    /* "f32" ... */
bool        weight_type_parse(const char *name, WeightType *out);
/* Only a type that tblock can make from floats. */
bool        weight_type_parse_made(const char *name, WeightType *out);
/* For a message that rejects a GGUF type: which program makes it; for other types "". */
const char *weight_type_hint(const char *name);
/* Of one element, row-major; float types only. */
size_t      weight_type_bytes(WeightType t);
/* k must be a multiple of it: 32 or 256 for GGUF types, else 1. */
int         weight_type_k_unit(WeightType t);
static inline bool weight_type_quantized(WeightType t) { return t >= WT_FLOATS; }
static inline bool weight_type_gguf(WeightType t) { return t >= WT_MADE; }
/* GGUF types with a float scale for each 32 k. Inlined first: kernels are compiled for one type
 * each, and gcc spilled sums of q6_k when it knew the result late. */
__attribute__((always_inline)) static inline bool weight_type_has_runs(WeightType t)
{
    return t == WT_Q8_0 || t == WT_Q4_0 || t == WT_MXFP4;
}

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
 * 0. to: the panel's parts. */
void panel_quantize(WeightType t, void *const to[MAX_PARTS], const float *rows, int n_rows, int k);

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
 *   q8_0 -128 .. 127, q4_0 -8 .. 7, q4_k 0 .. 15, q5_k 0 .. 31, q6_k -32 .. 31, mxfp4 -12 .. 12
 * Sub-scales and minima of q4_k and q5_k (0 .. 63) are for 32 k each, sub-scales of q6_k
 * (-128 .. 127) for 16. d: the scale, one for each 32 k in q8_0, q4_0 and mxfp4, only d[0] in the
 * others. dmin: the scale of the minima. What a type does not have is 0. */
typedef struct BlockRow {
    int8_t code[SUPERBLOCK], sub[SUPERBLOCK / 16], min[SUPERBLOCK / 32];
    float  d[SUPERBLOCK / 32], dmin;
} BlockRow;

/* The values of e2m1, the code of mxfp4, times two, plus o. Bit 3 is the sign; -0 is +0. */
#define E2M1_TWICE(o)                                                                  \
    {                                                                                  \
        (o), (o) + 1, (o) + 2, (o) + 3, (o) + 4, (o) + 6, (o) + 8, (o) + 12,           \
        (o), (o) - 1, (o) - 2, (o) - 3, (o) - 4, (o) - 6, (o) - 8, (o) - 12            \
    }

/* The factor of such a code if the scale byte is e: 2^(e - 128). */
static inline float mxfp4_scale(uint8_t e)
{
    return f32_from(e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23);
}

/* Read row r of a superblock (panel_superblock) of n k. n is a multiple of 32 up to 256; for
 * K-quants it is 256. */
void panel_block_row(WeightType t, BlockRow *out, Panels p, int r, int n);

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

typedef enum BlockType {
    BLOCK_Q4_0, BLOCK_Q4_1, BLOCK_Q5_0, BLOCK_Q5_1, BLOCK_Q8_0,
    BLOCK_Q2_K, BLOCK_Q3_K, BLOCK_Q4_K, BLOCK_Q5_K, BLOCK_Q6_K,
    BLOCK_IQ4_NL, BLOCK_IQ4_XS, BLOCK_MXFP4,
    BLOCK_IQ2_XXS, BLOCK_IQ2_XS, BLOCK_IQ2_S, BLOCK_IQ3_XXS, BLOCK_IQ3_S, BLOCK_IQ1_S, BLOCK_IQ1_M,
    BLOCK_TYPES
} BlockType;

const char *block_type_name(BlockType t);  /* "Q4_0": ggml's spelling */
size_t      block_elements(BlockType t);   /* in one block: 32 or 256 */
size_t      block_bytes(BlockType t);      /* of one block            */

/* Decode n_elements (whole blocks) to floats. Each product and each difference is rounded once,
 * which gives the same bits as gguf 0.19.0. (If a scale in the file is infinite or NaN, so is the
 * result, with any payload.) in may be unaligned. */
void blocks_to_f32(BlockType t, float *out, const void *in, size_t n_elements);

/* A type whose blocks have as many elements and can hold everything that those of t hold, with the
 * same bits from blocks_to_f32: Q8_0 for Q5_0 and IQ4_NL, Q6_K for Q3_K and IQ3_S; t itself if
 * there is none. For types that no kernel multiplies. */
BlockType block_twin(BlockType t);

/* Convert n_elements (whole blocks) to blocks of block_twin(t), which must not be t. in and out
 * must not overlap. */
void blocks_to_twin(BlockType t, void *out, const void *in, size_t n_elements);

#endif
