#include "kernels/lanes/avx512.h"

#include "kernels/bodies/all.h"

void kernels_fill_avx512(Kernels *k) { fill(k); }
