/* kernels/isa.h: inside the room: one function for each instruction set, which overwrites the entries of a table that it
 * does better. kernels.c alone calls them. */
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include "kernels/kernels.h"

void kernels_fill_scalar(Kernels *k);
void kernels_fill_integer(Kernels *k); /* plain C too: parts of the scalar table */
void kernels_fill_gguf(Kernels *k);
void kernels_fill_gguf_avx2(Kernels *k); /* integer products of the GGUF types: objects of their own too */
void kernels_fill_gguf_avxvnni(Kernels *k);
void kernels_fill_gguf_avx512(Kernels *k);
void kernels_fill_gguf_avx512vnni(Kernels *k);
void kernels_fill_gguf_neon(Kernels *k);
void kernels_fill_gguf_neondot(Kernels *k);
void kernels_fill_attention_scalar(Kernels *k); /* attention: in an object of its own; the function without it calls it */
void kernels_fill_attention_avx2(Kernels *k);
void kernels_fill_attention_avx512(Kernels *k);
void kernels_fill_attention_neon(Kernels *k);
void kernels_fill_avx2(Kernels *k);
void kernels_fill_avxvnni(Kernels *k);
void kernels_fill_avx512(Kernels *k);
void kernels_fill_avx512vnni(Kernels *k);
void kernels_fill_neon(Kernels *k);
void kernels_fill_neondot(Kernels *k);

#endif
