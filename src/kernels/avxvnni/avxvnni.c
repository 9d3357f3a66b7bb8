/* AVX2 with AVX-VNNI: integer dot products of its own, the rest as AVX2. */
#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/lanes/int_avx2.h"

#include "kernels/bodies/matmul_int.h"

void kernels_fill_avxvnni(Kernels *k)
{
    fill_matmul_int(k);
    kernels_fill_gguf_avxvnni(k);
}
