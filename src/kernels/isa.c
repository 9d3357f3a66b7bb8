/* kernels/isa.c: the kernels of one instruction set. The Makefile compiles isa.c, isa_wide.c,
 * isa_ints.c and isa_gguf.c once for each set, with the set's flags and
 *
 *   ISA            its name: avx2 ...
 *   ISA_LANES      its lanes header: 16 rows at a time in the set's own instructions
 *   ISA_ADDS       what it adds to the set before it: everything, with or without lanes of
 *     integers (plain), only dot products of integers (VNNI, dotprod), or only those of bf16
 *
 * The bodies are written once over the lanes, so every set computes the same bits. They are in four
 * files because the compiler takes most of a minute for all: here are floats and training. */
#include ISA_LANES

#include "kernels/bodies/isa.h"

#include "kernels/bodies/attention.h"
#include "kernels/bodies/elementwise.h"
#include "kernels/bodies/delta.h"
#include "kernels/bodies/gradients.h"
#include "kernels/bodies/matmul.h"
#include "kernels/bodies/matmul_bf16.h"
#include "kernels/bodies/norm.h"
#if defined(LANES_BF16)
#include "kernels/bodies/matmul_bf16_pairs.h"
#endif

MATMUL(matmul_f32, WT_F32)
MATMUL(matmul_f16, WT_F16)
MATMUL(matmul_bf16, WT_BF16)

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

void ISA_NAME(fill)(Kernels *k)
{
    if (ISA_ADDS >= plain) {
        fill_floats(k);
        fill_training(k);
    }
#if ISA_ADDS >= plain
    ISA_NAME(fill_wide)(k);
#endif
#if ISA_ADDS == integers || ISA_ADDS == everything
    ISA_NAME(fill_ints)(k);
    ISA_NAME(fill_gguf)(k);
#endif
#if defined(LANES_BF16)
    if (pairs_exact())
        k->matmul_bf16 = matmul_bf16_pairs;
#endif
}
