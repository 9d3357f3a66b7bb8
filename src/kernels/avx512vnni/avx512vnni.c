/* AVX-512 with VNNI: integer dot products of its own, the rest as AVX-512. */
#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/lanes/int_avx512.h"

#include "kernels/bodies/matmul_int.h"

void kernels_fill_avx512vnni(Kernels *k)
{
    fill_matmul_int(k);
    kernels_fill_gguf_avx512vnni(k);
}
