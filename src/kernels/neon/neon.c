#include "kernels/lanes/int_neon.h"

#include "kernels/bodies/all.h"
#include "kernels/bodies/all_int.h"

void kernels_fill_neon(Kernels *k)
{
    fill(k);
    kernels_fill_attention_neon(k);
    fill_int(k);
    kernels_fill_gguf_neon(k);
}
