#include "kernels/lanes/avx2.h"

#include "kernels/bodies/all.h"

void kernels_fill_avx2(Kernels *k) { fill(k); }
