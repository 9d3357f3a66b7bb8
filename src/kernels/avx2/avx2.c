#include "kernels/lanes/int_avx2.h"

#include "kernels/bodies/all.h"
#include "kernels/bodies/all_int.h"

void kernels_fill_avx2(Kernels *k)
{
    fill(k);
    kernels_fill_attention_avx2(k);
    fill_int(k);
    kernels_fill_gguf_avx2(k);
}
