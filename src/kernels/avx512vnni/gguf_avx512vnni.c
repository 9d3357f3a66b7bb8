/* The GGUF types: an object of its own, so that two compile side by side. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/lanes/int_avx512.h"

#include "kernels/bodies/matmul_gguf.h"

void kernels_fill_gguf_avx512vnni(Kernels *k) { fill_matmul_gguf(k); }
