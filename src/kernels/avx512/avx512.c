#include "kernels/lanes/int_avx512.h"

#include "kernels/bodies/all.h"
#include "kernels/bodies/all_int.h"

void kernels_fill_avx512(Kernels *k)
{
    fill(k);
    fill_int(k);
}
