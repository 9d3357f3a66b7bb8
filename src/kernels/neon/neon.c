#include "kernels/lanes/neon.h"

#include "kernels/bodies/all.h"

void kernels_fill_neon(Kernels *k) { fill(k); }
