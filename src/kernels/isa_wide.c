/* kernels/isa_wide.c: quantized weights dequantized, activations as integers, of one instruction
 * set (isa.c). Without lanes of integers also the products of integers. */
#include ISA_LANES

#include "kernels/bodies/isa.h"

#if LANES_INTEGERS
#include "kernels/bodies/matmul_wide.h"
#include "kernels/bodies/quantize.h"
#else
#include "kernels/bodies/quantized_plain.h"
#endif

void ISA_NAME(fill_wide)(Kernels *k)
{
    k->quantize = quantize;
#define WIDE(ID, name, ...) k->matmul[WT_##ID] = matmul_##name;
    QUANTIZED_TYPES(WIDE)
#if !LANES_INTEGERS
#define DOTS(ID, name, ...) k->matmul_int[WT_##ID] = matmul_int_##name;
    QUANTIZED_TYPES(DOTS)
#endif
}
