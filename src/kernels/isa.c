/* kernels/isa.c: the kernels of one instruction set. The Makefile compiles this file once for each
 * set, with the set's flags and
 *
 *   ISA_LANES      its lanes header: 16 rows at a time in the set's own instructions
 *   ISA_FILL       the name of the function below: kernels_fill_avx2 ...
 *   ISA_ADDS       what it adds to the set before it: everything, only dot products of integers
 *     (VNNI, dotprod), or only those of bf16
 *
 * The bodies are written once over the lanes, so every set computes the same bits. */
#include ISA_LANES

#include "quant/codes.h"

#include "kernels/bodies/attention.h"
#include "kernels/bodies/elementwise.h"
#include "kernels/bodies/delta.h"
#include "kernels/bodies/gradients.h"
#include "kernels/bodies/matmul.h"
#include "kernels/bodies/matmul_bf16.h"
#include "kernels/bodies/norm.h"
#if LANES_INTEGERS
#include "kernels/bodies/matmul_int.h"
#include "kernels/bodies/matmul_wide.h"
#include "kernels/bodies/quantize.h"
#else
#include "kernels/bodies/quantized_plain.h"
#endif
#if defined(LANES_BF16)
#include "kernels/bodies/matmul_bf16_pairs.h"
#endif

enum { everything, integers, bf16 };

static void fill_floats(Kernels *k)
{
    k->matmul[WT_F32]      = matmul_f32;
    k->matmul[WT_F16]      = matmul_f16;
    k->matmul[WT_BF16]     = matmul_bf16;
    k->matmul_bf16         = matmul_bf16_rounded;
    k->attn_tile[KV_F32]   = attn_tile_f32;
    k->attn_tile[KV_F16]   = attn_tile_f16;
    k->attn_tile[KV_Q8]    = attn_tile_q8;
    k->attn_merge          = attn_merge;
    k->attn_end            = attn_end;
    k->rms_norm            = rms_norm;
    k->layer_norm          = layer_norm;
    k->add                 = add;
    k->add_scaled          = add_scaled;
    k->add_weighted        = add_weighted;
    k->scale               = scale;
    k->soft_cap            = soft_cap;
    k->swiglu              = swiglu;
    k->geglu               = geglu;
    k->geglu_erf           = geglu_erf;
    k->rope                = rope;
    k->exp                 = map_exp;
    k->sigmoid             = map_sigmoid;
    k->gelu                = map_gelu;
    k->gelu_tanh           = map_gelu_tanh;
    k->relu                = map_relu;
    k->relu2               = map_relu2;
    k->xielu               = xielu;
    k->short_conv          = short_conv;
    k->delta_decay         = delta_decay;
    k->delta_rule          = delta_rule;
    k->softmax             = softmax;
    k->f32_to_f16          = f32_to_f16_all;
    k->f32_to_q8           = f32_to_q8;
    k->f16_to_f32          = f16_to_f32_all;
}

static void fill_training(Kernels *k)
{
    k->swiglu_backward     = swiglu_backward;
    k->geglu_backward      = geglu_backward;
    k->geglu_erf_backward  = geglu_erf_backward;
    k->gelu_backward       = gelu_backward;
    k->gelu_tanh_backward  = gelu_tanh_backward;
    k->relu_backward       = relu_backward;
    k->relu2_backward      = relu2_backward;
    k->rms_norm_backward   = rms_norm_backward;
    k->layer_norm_backward = layer_norm_backward;
    k->dot                 = dot;
    k->softmax_scaled      = softmax_scaled;
    k->softmax_again       = softmax_again;
    k->softmax_backward    = softmax_backward;
    k->adamw               = adamw;
}

/* Quantized weights dequantized, and activations as integers. */
static void fill_wide(Kernels *k)
{
    k->quantize = quantize;
#define WIDE(ID, name, ...) k->matmul[WT_##ID] = matmul_##name;
    QUANTIZED_TYPES(WIDE)
}

static void fill_dots(Kernels *k)
{
#define DOTS(ID, name, ...) k->matmul_int[WT_##ID] = matmul_int_##name;
    QUANTIZED_TYPES(DOTS)
}

void ISA_FILL(Kernels *k)
{
    if (ISA_ADDS == everything) {
        fill_floats(k);
        fill_training(k);
        fill_wide(k);
    }
    if (ISA_ADDS != bf16)
        fill_dots(k);
#if defined(LANES_BF16)
    if (pairs_exact())
        k->matmul_bf16 = matmul_bf16_pairs;
#endif
}
