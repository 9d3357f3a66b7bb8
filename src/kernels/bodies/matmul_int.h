/* kernels/bodies/matmul_int.h: y = W x + bias for q8 and q4 with integer activations, over the lanes of an int_*.h header:
 * exact sums in int32, then one fma for each superblock (docs/numerics.md, "Weights q8 and q4"). */
#ifndef KERNELS_BODIES_MATMUL_INT_H
#define KERNELS_BODIES_MATMUL_INT_H

#include "quant/codes.h"

#include "kernels/bodies/int_digits.h"
#include "kernels/bodies/int_unpack.h"

#include "kernels/bodies/int_block.h"
#include "kernels/bodies/int_stream.h"

#define INT_CALL(name, call) \
    static __attribute__((noinline)) void name(const IntMatmulArgs *a) { call; }

INT_CALL(stream_q8_8, int_stream(a, WT_Q8, I_STREAM_8))
INT_CALL(stream_q8_16, int_stream(a, WT_Q8, I_STREAM_16))
INT_CALL(stream_q4_8, int_stream(a, WT_Q4, FORM_BYTES))
INT_CALL(stream_q4_16, int_stream(a, WT_Q4, FORM_PLANES))
INT_CALL(block_q8_8, int_block(a, WT_Q8, I_FORM_8))
INT_CALL(block_q8_16, int_block(a, WT_Q8, I_FORM_16))
INT_CALL(block_q4_8, int_block(a, WT_Q4, I_FORM_8))
INT_CALL(block_q4_16, int_block(a, WT_Q4, I_FORM_16))

static void matmul_int_q8(const IntMatmulArgs *a)
{
    if (a->n_tok <= I_STREAM_TOKENS)
        (a->bits == 8 ? stream_q8_8 : stream_q8_16)(a);
    else
        (a->bits == 8 ? block_q8_8 : block_q8_16)(a);
}

static void matmul_int_q4(const IntMatmulArgs *a)
{
    if (a->n_tok <= (a->bits == 8 ? I_STREAM_TOKENS : I_PLANES_TOKENS))
        (a->bits == 8 ? stream_q4_8 : stream_q4_16)(a);
    else
        (a->bits == 8 ? block_q4_8 : block_q4_16)(a);
}

#endif
