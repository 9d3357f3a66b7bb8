/* The bodies in plain C: slow, and what every other table must equal. */
#include "kernels/lanes/scalar.h"

#include "kernels/bodies/all.h"

void kernels_fill_scalar(Kernels *k)
{
    fill(k);
    kernels_fill_attention_scalar(k);
    kernels_fill_integer(k);
    kernels_fill_gguf(k);
}

/* v_exp for one number, step by step the same. */
float kernels_expf(float x)
{
    if (x != x)
        return x;
    if (x < EXP_LOW)
        return 0.0f;
    if (x > EXP_HIGH)
        return INFINITY;
    float z = fmaf(x, LOG2E, EXP_ROUND), n = z - EXP_ROUND;
    float r = fmaf(n, -LN2_LOW, fmaf(n, -LN2_HIGH, x));
    float p = fmaf(fmaf(fmaf(fmaf(EXP_6, r, EXP_5), r, EXP_4), r, EXP_3), r, EXP_2);
    p       = fmaf(fmaf(p, r, 1.0f), r, 1.0f);
    return f32_from(f32_bits(p) + (f32_bits(z) << 23));
}
