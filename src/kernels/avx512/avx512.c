#include "kernels/lanes/int_avx512.h"

#include "kernels/bodies/all.h"
#include "kernels/bodies/all_int.h"

void kernels_fill_avx512(Kernels *k)
{
    fill(k);
    kernels_fill_attention_avx512(k);
    fill_int(k);
    kernels_fill_gguf_avx512(k);
}
