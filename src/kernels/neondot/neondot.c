/* NEON with dotprod: integer dot products of its own, the rest as NEON. */
#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/lanes/int_neon.h"

#include "kernels/bodies/matmul_int.h"

void kernels_fill_neondot(Kernels *k)
{
    fill_matmul_int(k);
    kernels_fill_gguf_neondot(k);
}
