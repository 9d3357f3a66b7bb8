/* kernels/bodies/all_int.h: what every table with its own float kernels (bodies/all.h) has for quantized weights. */
#ifndef KERNELS_BODIES_ALL_INT_H
#define KERNELS_BODIES_ALL_INT_H

#include "base/half.h"

#include "kernels/bodies/matmul_int.h"
#include "kernels/bodies/matmul_wide.h"
#include "kernels/bodies/quantize.h"

static void fill_int(Kernels *k)
{
    k->quantize = quantize;
    fill_matmul_int(k);
    fill_matmul_wide(k);
}

#endif
