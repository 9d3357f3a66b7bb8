/* quant/ggml_blocks.h: the quantized types of GGUF files, as they lie there: runs of blocks of 32 or 256 elements, each with
 * scales of its own. A row is whole blocks. Sizes, and the floats that a block stands for.
 * Source of the layouts: ggml, src/ggml-common.h (block_q4_0 ...); of the arithmetic: the Python package gguf, quants.py. */
#ifndef QUANT_GGML_BLOCKS_H
#define QUANT_GGML_BLOCKS_H

#include <stddef.h>

typedef enum BlockType {
    BLOCK_Q4_0, BLOCK_Q4_1, BLOCK_Q5_0, BLOCK_Q5_1, BLOCK_Q8_0,
    BLOCK_Q2_K, BLOCK_Q3_K, BLOCK_Q4_K, BLOCK_Q5_K, BLOCK_Q6_K,
    BLOCK_IQ4_NL, BLOCK_IQ4_XS, BLOCK_MXFP4, BLOCK_TYPES
} BlockType;

const char *block_type_name(BlockType t);  /* "Q4_0": ggml's spelling */
size_t      block_elements(BlockType t);   /* of one block: 32 or 256 */
size_t      block_bytes(BlockType t);      /* of one block            */

/* n_elements (whole blocks) to floats: each product and each difference rounded once, to the bit what gguf 0.19.0 gives
 * (where a scale in the file is infinite or NaN the result is too, with any payload). in may lie at any byte. */
void blocks_to_f32(BlockType t, float *out, const void *in, size_t n_elements);

/* A type whose blocks hold just as many elements and can say everything that those of t say, to the bit of blocks_to_f32:
 * Q8_0 for Q5_0 and IQ4_NL, Q6_K for Q3_K; t itself where there is none. For types that no kernel multiplies. */
BlockType block_twin(BlockType t);

/* n_elements (whole blocks) as blocks of block_twin(t), another type than t. Neither may lie in the other. */
void blocks_to_twin(BlockType t, void *out, const void *in, size_t n_elements);

#endif
