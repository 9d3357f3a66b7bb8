/* kernels/isa_gguf.c: GGUF types times integers, and q8 if these have a scale for each 32, of one
 * instruction set (isa.c). */
#include ISA_LANES

#include "kernels/bodies/isa.h"

#include "kernels/bodies/matmul_gguf.h"
#include "kernels/bodies/matmul_int.h"

#define MATMUL_GGUF(ID, name, ...)                                                                 \
    INT_WAYS(name, WT_##ID, INT8, INT_STREAM, gguf_stream_superblock, gguf_block_superblock)
BLOCKED_TYPES(MATMUL_GGUF)
INT_WAYS(q8, WT_Q8, INT8_BY_32, INT_STREAM, gguf_stream_superblock, gguf_block_superblock)

void ISA_NAME(q8_by_32)(const IntMatmulArgs *a) { matmul_q8_INT8_BY_32(a); }

void ISA_NAME(fill_gguf)(Kernels *k)
{
#define DOTS(ID, name, ...) k->matmul_int[WT_##ID] = matmul_##name##_INT8;
    BLOCKED_TYPES(DOTS)
}
