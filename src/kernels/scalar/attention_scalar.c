#include "kernels/lanes/scalar.h"

#include "kernels/bodies/attention.h"

void kernels_fill_attention_scalar(Kernels *k) { fill_attention(k); }
