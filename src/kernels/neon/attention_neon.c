#include "kernels/lanes/neon.h"

#include "kernels/bodies/attention.h"

void kernels_fill_attention_neon(Kernels *k) { fill_attention(k); }
