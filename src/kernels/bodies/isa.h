/* kernels/bodies/isa.h: the files of one instruction set (isa.c): each puts its kernels into the
 * table. */
#ifndef KERNELS_BODIES_ISA_H
#define KERNELS_BODIES_ISA_H

#include "kernels/kernels.h"

/* ISA_NAME(fill) is kernels_fill_avx2 ... */
#define ISA_PASTE(what, isa) kernels_##what##_##isa
#define ISA_PASTED(what, isa) ISA_PASTE(what, isa)
#define ISA_NAME(what)       ISA_PASTED(what, ISA)

/* Values of ISA_ADDS. */
#define bf16       0
#define integers   1
#define plain      2
#define everything 3

void ISA_NAME(fill)(Kernels *k);
void ISA_NAME(fill_wide)(Kernels *k);
void ISA_NAME(fill_ints)(Kernels *k);
void ISA_NAME(fill_gguf)(Kernels *k);
void ISA_NAME(q8_by_32)(const IntMatmulArgs *a); /* matmul_int of q8, INT8_BY_32 */

#endif
