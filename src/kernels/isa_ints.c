/* kernels/isa_ints.c: q8 and q4 times integers, of one instruction set (isa.c). */
#include ISA_LANES

#include "kernels/bodies/isa.h"

#include "kernels/bodies/int_block.h"
#include "kernels/bodies/int_stream.h"
#include "kernels/bodies/matmul_int.h"

INT_WAYS(q8, WT_Q8, INT8, INT_STREAM, stream_superblock, block_superblock)
INT_WAYS(q8, WT_Q8, INT16, INT_STREAM, stream_superblock, block_superblock)
INT_WAYS(q4, WT_Q4, INT8, INT_STREAM, stream_superblock, block_superblock)
INT_WAYS(q4, WT_Q4, INT16, INT_STREAM_TWO, stream_superblock, block_superblock)

static void matmul_int_q8(const IntMatmulArgs *a)
{
    (a->ints == INT16        ? matmul_q8_INT16
     : a->ints == INT8_BY_32 ? ISA_NAME(q8_by_32)
                             : matmul_q8_INT8)(a);
}

static void matmul_int_q4(const IntMatmulArgs *a)
{
    (a->ints == INT16 ? matmul_q4_INT16 : matmul_q4_INT8)(a);
}

void ISA_NAME(fill_ints)(Kernels *k)
{
    k->matmul_int[WT_Q8] = matmul_int_q8;
    k->matmul_int[WT_Q4] = matmul_int_q4;
}
