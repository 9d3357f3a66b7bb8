#include "kernels/lanes/avx512.h"

#include "kernels/bodies/attention.h"

void kernels_fill_attention_avx512(Kernels *k) { fill_attention(k); }
