/* kernels/bodies/all.h: every kernel over the lanes header included before but attention's, which is
 * an object of its own (two that compile side by side), and the function that puts them into a table. */
#ifndef KERNELS_BODIES_ALL_H
#define KERNELS_BODIES_ALL_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/kernels.h"

#include "kernels/bodies/elementwise.h"
#include "kernels/bodies/gradients.h"
#include "kernels/bodies/matmul.h"
#include "kernels/bodies/matmul_bf16.h"
#include "kernels/bodies/norm.h"

static void fill(Kernels *k)
{
    k->matmul[WT_F32]     = matmul_f32;
    k->matmul[WT_F16]     = matmul_f16;
    k->matmul[WT_BF16]    = matmul_bf16;
    k->matmul_bf16        = matmul_bf16_rounded;
    k->rms_norm           = rms_norm;
    k->layer_norm         = layer_norm;
    k->add                = add;
    k->add_scaled         = add_scaled;
    k->add_weighted       = add_weighted;
    k->scale              = scale;
    k->soft_cap           = soft_cap;
    k->swiglu             = swiglu;
    k->geglu              = geglu;
    k->geglu_erf          = geglu_erf;
    k->rope               = rope;
    k->exp                = map_exp;
    k->silu               = map_silu;
    k->sigmoid            = map_sigmoid;
    k->tanh               = map_tanh;
    k->gelu               = map_gelu;
    k->gelu_tanh          = map_gelu_tanh;
    k->relu               = map_relu;
    k->softmax            = softmax;
    k->f32_to_f16         = f32_to_f16_all;
    k->f32_to_q8          = f32_to_q8;
    k->swiglu_backward    = swiglu_backward;
    k->geglu_backward     = geglu_backward;
    k->geglu_erf_backward = geglu_erf_backward;
    k->gelu_backward      = gelu_backward;
    k->gelu_tanh_backward = gelu_tanh_backward;
    k->relu_backward      = relu_backward;
    k->rms_norm_backward  = rms_norm_backward;
    k->layer_norm_backward = layer_norm_backward;
    k->dot                = dot;
    k->softmax_scaled     = softmax_scaled;
    k->softmax_again      = softmax_again;
    k->softmax_backward   = softmax_backward;
    k->adamw              = adamw;
    k->to_f32[WT_F32]     = f32_to_f32_all;
    k->to_f32[WT_F16]     = f16_to_f32_all;
    k->to_f32[WT_BF16]    = bf16_to_f32_all;
}

#endif
