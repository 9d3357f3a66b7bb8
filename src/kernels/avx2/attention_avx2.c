#include "kernels/lanes/avx2.h"

#include "kernels/bodies/attention.h"

void kernels_fill_attention_avx2(Kernels *k) { fill_attention(k); }
