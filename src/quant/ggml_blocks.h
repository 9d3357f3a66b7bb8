/* quant/ggml_blocks.h: the quantized types of GGUF files as they are stored there: rows of whole
 * blocks of 32 or 256 elements, each block with its own scales. Sizes, and the floats that a block
 * means. Sources: for the layouts ggml, src/ggml-common.h (block_q4_0 ...); for the arithmetic the
 * Python package gguf, quants.py. */
#ifndef QUANT_GGML_BLOCKS_H
#define QUANT_GGML_BLOCKS_H

#include <stddef.h>

typedef enum BlockType {
    BLOCK_Q4_0, BLOCK_Q4_1, BLOCK_Q5_0, BLOCK_Q5_1, BLOCK_Q8_0,
    BLOCK_Q2_K, BLOCK_Q3_K, BLOCK_Q4_K, BLOCK_Q5_K, BLOCK_Q6_K,
    BLOCK_IQ4_NL, BLOCK_IQ4_XS, BLOCK_MXFP4, BLOCK_TYPES
} BlockType;

const char *block_type_name(BlockType t);  /* "Q4_0": ggml's spelling */
size_t      block_elements(BlockType t);   /* in one block: 32 or 256 */
size_t      block_bytes(BlockType t);      /* of one block            */

/* Decode n_elements (whole blocks) to floats. Each product and each difference is rounded once,
 * which gives the same bits as gguf 0.19.0. (If a scale in the file is infinite or NaN, so is the
 * result, with any payload.) in may be unaligned. */
void blocks_to_f32(BlockType t, float *out, const void *in, size_t n_elements);

/* A type whose blocks have as many elements and can hold everything that those of t hold, with the
 * same bits from blocks_to_f32: Q8_0 for Q5_0 and IQ4_NL, Q6_K for Q3_K; t itself if there is none.
 * For types that no kernel multiplies. */
BlockType block_twin(BlockType t);

/* Turn n_elements (whole blocks) into blocks of block_twin(t), which must not be t. in and out must
 * not overlap. */
void blocks_to_twin(BlockType t, void *out, const void *in, size_t n_elements);

#endif
