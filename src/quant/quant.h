/* quant/quant.h: the layout of every weight type: how a matrix [rows, k] lies in panels of 16 rows.
 * Knows nothing of files and kernels. docs/format.md, section "Panels", is this contract byte by byte. A new type is a
 * new row in the table of quant.c. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PANEL_ROWS = 16,
    SUPERBLOCK = 256,            /* k of one float scale of a quantized row */
    SUB_BLOCK  = 16,             /* k of one integer sub-scale of q4        */
    MAX_PARTS  = 3,
    BF16_LEAST = (127 - 50) << 7 /* bits of 2^-50: no bf16 weight of --math bf16 but 0 is smaller */
};

/* WT_FLOATS counts the float types, which come first: their elements stand alone and have row-major tensors too. WT_MADE
 * counts those that tblock makes of floats; the rest, the GGUF types, are what llama.cpp's tools made, laid out anew. */
typedef enum WeightType {
    WT_F32, WT_F16, WT_BF16, WT_Q8, WT_Q4, WT_Q8_0, WT_Q4_0, WT_Q4_K, WT_Q5_K, WT_Q6_K, WT_COUNT,
    WT_FLOATS = WT_Q8, WT_MADE = WT_Q8_0
} WeightType;
#define QUANTIZED_TYPES "q8, q4, q8_0, q4_0, q4_k, q5_k or q6_k" /* for messages */
typedef enum ElementType { EL_F32, EL_F16, EL_BF16, EL_I8, EL_U8 } ElementType;

const char *weight_type_name(WeightType t);                    /* "f32" ... */
bool        weight_type_parse(const char *name, WeightType *out);
bool        weight_type_parse_made(const char *name, WeightType *out); /* only a type that tblock makes of floats */
const char *weight_type_hint(const char *name);                /* for a message that refuses a GGUF type: who makes it; else "" */
size_t      weight_type_bytes(WeightType t);                   /* of one element in a row-major tensor; float types only */
int         weight_type_k_unit(WeightType t);                  /* k must be a multiple of it: 32 or 256 for GGUF types, else 1 */
static inline bool weight_type_quantized(WeightType t) { return t >= WT_FLOATS; }
static inline bool weight_type_gguf(WeightType t) { return t >= WT_MADE; }

static inline int panel_count(int rows) { return rows / PANEL_ROWS + (rows % PANEL_ROWS != 0); }

/* ---- Parts: a quantized matrix is several tensors, one beside the other, each cut into panels of the same rows ---- */

int         part_count(WeightType t);                          /* f32: 1; q8: codes, scales; q4, q4_k: codes, sub-scales, scales */
const char *part_suffix(WeightType t, int part);               /* behind the tensor's name: "", ".s", ".d" */
ElementType part_element(WeightType t, int part);
size_t      part_bytes(WeightType t, int part, int k);         /* of one panel; 0 on overflow, k < 1, or k no multiple of its unit */

/* The stored shape of a part: f32, f16 [panels, k, 16]; bf16 [panels, ceil(k/2), 16, 2]; q8 [panels, k64/4, 16, 4] with k64
 * = k rounded up to 64 and .d [panels, ceil(k/256), 16]; q4 [panels, k64/4, 16, 2], .s [panels, k64/64, 40] and .d; GGUF
 * types: docs/format.md. Returns the rank. */
int part_shape(WeightType t, int part, int rows, int k, int64_t shape[4]);

size_t panel_bytes(WeightType t, int k);                       /* of one panel, all parts; 0 as part_bytes */
bool   matrix_bytes(WeightType t, int rows, int k, size_t *n); /* of all panels, all parts; false on overflow */

/* Where the parts of some panels of one matrix begin. */
typedef struct Panels { const void *part[MAX_PARTS]; } Panels;

Panels panels_from(WeightType t, Panels p, int first, int k);  /* the same without the first `first` panels */

/* Pack n_rows (1..16) consecutive rows, row-major with k elements of float type t each, into one panel; missing rows are 0. */
void panel_pack(WeightType t, void *panel, const void *rows, int n_rows, int k);

/* The panel of n_rows (1..16) consecutive rows as another program's file has them: of a float type as panel_pack does, of a
 * GGUF type as panel_from_blocks. to: its parts. */
void panel_make(WeightType t, void *const to[MAX_PARTS], const void *rows, int n_rows, int k);

/* q8 and q4: quantize n_rows (1..16) rows of k finite floats into one panel; missing rows decode to 0. to: its parts. */
void panel_quantize(WeightType t, void *const to[MAX_PARTS], const float *rows, int n_rows, int k);

/* What stands for one superblock of one row of q8 or q4: 256 codes (int8 of q8; 0 to 15 of q4), the sub-scales of q4 (bit 4: negative) and
 * the f16 bits of the scale. */
typedef struct SuperblockCodes {
    uint8_t  code[SUPERBLOCK], sub[SUPERBLOCK / SUB_BLOCK];
    uint16_t d;
} SuperblockCodes;

/* Put n (1..256) codes of row r, columns c .. c + n - 1 (c a multiple of 256), into a panel that was all zero bytes there. */
void superblock_put(WeightType t, void *const to[MAX_PARTS], int r, int c, int n, const SuperblockCodes *s);

/* Row r (0..15) of the first panel as k floats: exact for float types, the exact value rounded once for q8 and q4, for GGUF
 * types the formula of docs/numerics.md, "GGUF types". */
void panel_row_to_f32(WeightType t, float *out, Panels p, int r, int k);

/* Quantized types. Superblock number s of the first panel: what follows in the panel are the superblocks after it. */
Panels panel_superblock(WeightType t, Panels p, int s);

/* q8 and q4: the first n (1..256) integers of row r of a superblock, and the scale to multiply them with: the codes of q8,
 * codebook value times sub-scale of q4. */
void  superblock_row_to_i8(WeightType t, int8_t *out, Panels p, int r, int n);
float superblock_scale(WeightType t, Panels p, int r);

/* ---- GGUF types ---- */

/* What stands for one superblock of one row. A code is what a scale is multiplied with: q8_0 -128 .. 127, q4_0 -8 .. 7, q4_k
 * 0 .. 15, q5_k 0 .. 31, q6_k -32 .. 31. Sub-scales and minima of q4_k and q5_k (0 .. 63) go with 32 k each, sub-scales of
 * q6_k (-128 .. 127) with 16. d: f16 bits of the scale, of q8_0 and q4_0 one for 32 k, of the others d[0]; dmin that of the
 * minima. What a type has not is 0. */
typedef struct BlockRow {
    int8_t   code[SUPERBLOCK], sub[SUPERBLOCK / 16], min[SUPERBLOCK / 32];
    uint16_t d[SUPERBLOCK / 32], dmin;
} BlockRow;

/* Row r of a superblock (panel_superblock) of n (a multiple of 32 up to 256; K-quants: 256) k. */
void panel_block_row(WeightType t, BlockRow *out, Panels p, int r, int n);

/* Bytes of a row of k weights in a GGUF file; 0 where k is no multiple of the type's unit. */
size_t gguf_row_bytes(WeightType t, int k);

/* Lay n_rows (1..16) rows of blocks as a GGUF file has them, row_stride bytes apart, out as one panel; missing rows decode to
 * 0. Every bit is kept. to: its parts; rows may start at any byte. */
void panel_from_blocks(WeightType t, void *const to[MAX_PARTS], const void *rows, size_t row_stride, int n_rows, int k);

/* A row-major run of n elements of a float type to f32 (exact) and from f32 (nearest even). */
void elements_to_f32(WeightType t, float *out, const void *in, size_t n);
void elements_from_f32(WeightType t, void *out, const float *in, size_t n);

/* The first of n such elements that is infinite or NaN; n: none. Data may start at any byte. */
size_t elements_first_nonfinite(WeightType t, const void *data, size_t n);

#endif
