/* source/family_tensors.c: the tensors of families in Hugging Face folders: where a name is not the
 * usual one, or one of ours is a part of theirs. */
#include "source/hf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LAYER   TENSOR_LAYER
#define NO_MORE { ROLE_COUNT, NULL, 0 }

/* q and k whose heads rotate as neighbours. */
#define PAIRED_QK                                                                                  \
    { ROLE_WQ, LAYER "self_attn.q_proj.weight", PAIRS },                                           \
    { ROLE_WK, LAYER "self_attn.k_proj.weight", PAIRS }
#define FUSED_GATE                                                                                 \
    { ROLE_W_GATE, LAYER "mlp.gate_up_proj.weight", IN_GATE },                                     \
    { ROLE_W_UP, LAYER "mlp.gate_up_proj.weight", IN_UP }
/* Experts one by one, as checkpoints have them, or as transformers 5 holds them: all in one tensor,
 * gate and up in one matrix. */
#define EXPERTS(gate, up, down)                                                                    \
    { ROLE_EXPERT_GATE, LAYER gate ".weight", 0 },                                                 \
    { ROLE_EXPERT_GATE, LAYER "mlp.experts.gate_up_proj", IN_GATE },                               \
    { ROLE_EXPERT_UP, LAYER up ".weight", 0 },                                                     \
    { ROLE_EXPERT_UP, LAYER "mlp.experts.gate_up_proj", IN_UP },                                   \
    { ROLE_EXPERT_DOWN, LAYER down ".weight", 0 },                                                 \
    { ROLE_EXPERT_DOWN, LAYER "mlp.experts.down_proj", 0 }

#define USUAL(role, field, kind, rows, k, has, biased, gguf, hf, ...) { ROLE_##role, hf, 0 },
const FamilyTensor family_usual_tensors[] = {
    TENSORS(USUAL)
    { ROLE_LM_HEAD, "language_model.lm_head.weight", 0 },
    { ROLE_DENSE1, "score.weight", 0 },
    EXPERTS("mlp.experts.{e}.gate_proj", "mlp.experts.{e}.up_proj", "mlp.experts.{e}.down_proj"),
    NO_MORE,
};

const FamilyTensor no_tensors[] = { NO_MORE };
#define QWEN_SHARED                                                                                \
    { ROLE_SHARED_GATE, LAYER "mlp.shared_expert.gate_proj.weight", 0 },                           \
    { ROLE_SHARED_UP, LAYER "mlp.shared_expert.up_proj.weight", 0 },                               \
    { ROLE_SHARED_DOWN, LAYER "mlp.shared_expert.down_proj.weight", 0 }
const FamilyTensor qwen2_moe_tensors[] = { QWEN_SHARED, NO_MORE };
/* The first of two rows are Qwen3-Next's, the others Qwen3.5's. */
const FamilyTensor qwen3_next_tensors[] = {
    QWEN_SHARED,
    { ROLE_WQ, LAYER "self_attn.q_proj.weight", IN_HEAD_Q },
    { ROLE_ATTN_GATE, LAYER "self_attn.q_proj.weight", IN_HEAD_GATE },
    { ROLE_DELTA_QKV, LAYER "linear_attn.in_proj_qkvz.weight", IN_GROUP_QKV },
    { ROLE_DELTA_QKV, LAYER "linear_attn.in_proj_qkv.weight", 0 },
    { ROLE_DELTA_Z, LAYER "linear_attn.in_proj_qkvz.weight", IN_GROUP_Z },
    { ROLE_DELTA_Z, LAYER "linear_attn.in_proj_z.weight", 0 },
    { ROLE_DELTA_B, LAYER "linear_attn.in_proj_ba.weight", IN_GROUP_B },
    { ROLE_DELTA_B, LAYER "linear_attn.in_proj_b.weight", 0 },
    { ROLE_DELTA_A, LAYER "linear_attn.in_proj_ba.weight", IN_GROUP_A },
    { ROLE_DELTA_A, LAYER "linear_attn.in_proj_a.weight", 0 },
    NO_MORE,
};
const FamilyTensor mixtral_tensors[] = {
    { ROLE_ROUTER, LAYER "block_sparse_moe.gate.weight", 0 },
    { ROLE_ROUTER, LAYER "mlp.gate.weight", 0 },
    EXPERTS("block_sparse_moe.experts.{e}.w1", "block_sparse_moe.experts.{e}.w3",
            "block_sparse_moe.experts.{e}.w2"),
    NO_MORE,
};
const FamilyTensor minimax_m2_tensors[] = {
    { ROLE_ROUTER, LAYER "block_sparse_moe.gate.weight", 0 },
    { ROLE_ROUTER, LAYER "mlp.gate.weight", 0 },
    { ROLE_CHOICE_BIAS, LAYER "block_sparse_moe.e_score_correction_bias", 0 },
    { ROLE_CHOICE_BIAS, LAYER "mlp.e_score_correction_bias", 0 },
    EXPERTS("block_sparse_moe.experts.{e}.w1", "block_sparse_moe.experts.{e}.w3",
            "block_sparse_moe.experts.{e}.w2"),
    NO_MORE,
};
#define IN_COLUMNS (TRANSPOSED | IN_TURN)
const FamilyTensor gpt_oss_tensors[] = {
    { ROLE_ROUTER,      LAYER "mlp.router.weight", 0 },
    { ROLE_EXPERT_GATE, LAYER "mlp.experts.gate_up_proj", IN_GATE | IN_COLUMNS },
    { ROLE_EXPERT_GATE, LAYER "mlp.experts.gate_up_proj_blocks", IN_GATE | IN_TURN | IN_MXFP4 },
    { ROLE_EXPERT_UP,   LAYER "mlp.experts.gate_up_proj", IN_UP | IN_COLUMNS },
    { ROLE_EXPERT_UP,   LAYER "mlp.experts.gate_up_proj_blocks", IN_UP | IN_TURN | IN_MXFP4 },
    { ROLE_EXPERT_DOWN, LAYER "mlp.experts.down_proj", TRANSPOSED },
    { ROLE_EXPERT_DOWN, LAYER "mlp.experts.down_proj_blocks", IN_MXFP4 },
    NO_MORE,
};
#define LATENT_ROTATED (PAIRS | ROTATED_LAST)
const FamilyTensor deepseek_v3_tensors[] = {
    { ROLE_WQ, LAYER "self_attn.q_proj.weight", LATENT_ROTATED },
    { ROLE_WQ_B, LAYER "self_attn.q_b_proj.weight", LATENT_ROTATED },
    { ROLE_WK, LAYER "self_attn.kv_a_proj_with_mqa.weight", LATENT_ROTATED },
    { ROLE_W_UK, LAYER "self_attn.kv_b_proj.weight", IN_UK | TRANSPOSED },
    { ROLE_W_UV, LAYER "self_attn.kv_b_proj.weight", IN_UV },
    NO_MORE,
};
const FamilyTensor ernie4_5_moe_tensors[] = {
    PAIRED_QK,
    { ROLE_CHOICE_BIAS, LAYER "mlp.moe_statics.e_score_correction_bias", 0 },
    { ROLE_CHOICE_BIAS, LAYER "mlp.gate.moe_statics.e_score_correction_bias", 0 }, NO_MORE,
};
const FamilyTensor llama4_tensors[] = {
    PAIRED_QK,
    { ROLE_W_GATE, LAYER "feed_forward.gate_proj.weight", 0 },
    { ROLE_W_UP, LAYER "feed_forward.up_proj.weight", 0 },
    { ROLE_W_DOWN, LAYER "feed_forward.down_proj.weight", 0 },
    { ROLE_ROUTER, LAYER "feed_forward.router.weight", 0 },
    { ROLE_EXPERT_GATE, LAYER "feed_forward.experts.gate_up_proj", IN_GATE | TRANSPOSED },
    { ROLE_EXPERT_UP, LAYER "feed_forward.experts.gate_up_proj", IN_UP | TRANSPOSED },
    { ROLE_EXPERT_DOWN, LAYER "feed_forward.experts.down_proj", TRANSPOSED },
    { ROLE_SHARED_GATE, LAYER "feed_forward.shared_expert.gate_proj.weight", 0 },
    { ROLE_SHARED_UP, LAYER "feed_forward.shared_expert.up_proj.weight", 0 },
    { ROLE_SHARED_DOWN, LAYER "feed_forward.shared_expert.down_proj.weight", 0 },
    NO_MORE,
};
/* As published, and as transformers 5 calls them. */
#define GRANITE_EXPERTS                                                                            \
    { ROLE_ROUTER, LAYER "block_sparse_moe.router.layer.weight", 0 },                              \
    { ROLE_ROUTER, LAYER "block_sparse_moe.router.weight", 0 },                                    \
    { ROLE_EXPERT_GATE, LAYER "block_sparse_moe.input_linear.weight", IN_GATE },                   \
    { ROLE_EXPERT_GATE, LAYER "block_sparse_moe.experts.gate_up_proj", IN_GATE },                  \
    { ROLE_EXPERT_UP, LAYER "block_sparse_moe.input_linear.weight", IN_UP },                       \
    { ROLE_EXPERT_UP, LAYER "block_sparse_moe.experts.gate_up_proj", IN_UP },                      \
    { ROLE_EXPERT_DOWN, LAYER "block_sparse_moe.output_linear.weight", 0 },                        \
    { ROLE_EXPERT_DOWN, LAYER "block_sparse_moe.experts.down_proj", 0 }
const FamilyTensor granite_moe_tensors[]    = { GRANITE_EXPERTS, NO_MORE };
const FamilyTensor granite_shared_tensors[] = {
    GRANITE_EXPERTS,
    { ROLE_SHARED_GATE, LAYER "shared_mlp.input_linear.weight", IN_GATE },
    { ROLE_SHARED_UP, LAYER "shared_mlp.input_linear.weight", IN_UP },
    { ROLE_SHARED_DOWN, LAYER "shared_mlp.output_linear.weight", 0 },
    NO_MORE,
};
const FamilyTensor phi3_tensors[] = {
    { ROLE_WQ, LAYER "self_attn.qkv_proj.weight", IN_Q },
    { ROLE_WK, LAYER "self_attn.qkv_proj.weight", IN_K },
    { ROLE_WV, LAYER "self_attn.qkv_proj.weight", IN_V },
    FUSED_GATE,
    NO_MORE,
};
const FamilyTensor gemma2_tensors[] = {
    { ROLE_FFN_NORM, LAYER "pre_feedforward_layernorm.weight", 0 }, NO_MORE,
};
const FamilyTensor hunyuan_tensors[] = {
    { ROLE_Q_NORM, LAYER "self_attn.query_layernorm.weight", 0 },
    { ROLE_K_NORM, LAYER "self_attn.key_layernorm.weight", 0 },
    NO_MORE,
};
const FamilyTensor apertus_tensors[] = {
    { ROLE_ATTN_NORM, LAYER "attention_layernorm.weight", 0 },
    { ROLE_FFN_NORM, LAYER "feedforward_layernorm.weight", 0 },
    NO_MORE,
};
const FamilyTensor cohere_tensors[] = {
    PAIRED_QK,
    { ROLE_Q_NORM, LAYER "self_attn.q_norm.weight", PAIRS },
    { ROLE_K_NORM, LAYER "self_attn.k_norm.weight", PAIRS }, NO_MORE,
};
const FamilyTensor paired_tensors[] = { PAIRED_QK, NO_MORE };
const FamilyTensor glm4_tensors[]   = {
    PAIRED_QK, FUSED_GATE,
    { ROLE_ATTN_POST_NORM, LAYER "post_self_attn_layernorm.weight", 0 },
    { ROLE_FFN_POST_NORM, LAYER "post_mlp_layernorm.weight", 0 },
    NO_MORE,
};
#define LFM2_TENSORS                                                                               \
    { ROLE_ATTN_NORM, LAYER "operator_norm.weight", 0 },                                           \
    { ROLE_Q_NORM, LAYER "self_attn.q_layernorm.weight", 0 },                                      \
    { ROLE_K_NORM, LAYER "self_attn.k_layernorm.weight", 0 },                                      \
    { ROLE_WO, LAYER "self_attn.out_proj.weight", 0 },                                             \
    { ROLE_CONV_B, LAYER "conv.in_proj.weight", IN_B },                                            \
    { ROLE_CONV_C, LAYER "conv.in_proj.weight", IN_C },                                            \
    { ROLE_CONV_X, LAYER "conv.in_proj.weight", IN_X },                                            \
    { ROLE_CONV, LAYER "conv.conv.weight", 0 },                                                    \
    { ROLE_CONV_SHIFT, LAYER "conv.conv.bias", 0 },                                                \
    { ROLE_FFN_NORM, LAYER "ffn_norm.weight", 0 },                                                 \
    { ROLE_W_GATE, LAYER "feed_forward.w1.weight", 0 },                                            \
    { ROLE_W_UP, LAYER "feed_forward.w3.weight", 0 },                                              \
    { ROLE_W_DOWN, LAYER "feed_forward.w2.weight", 0 },                                            \
    { ROLE_FINAL_NORM, "@embedding_norm.weight", 0 }
const FamilyTensor lfm2_tensors[]     = { LFM2_TENSORS, NO_MORE };
const FamilyTensor lfm2_moe_tensors[] = {
    LFM2_TENSORS,
    { ROLE_ROUTER, LAYER "feed_forward.gate.weight", 0 },
    { ROLE_CHOICE_BIAS, LAYER "feed_forward.expert_bias", 0 },
    { ROLE_EXPERT_GATE, LAYER "feed_forward.experts.{e}.w1.weight", 0 },
    { ROLE_EXPERT_GATE, LAYER "feed_forward.experts.gate_up_proj", IN_GATE },
    { ROLE_EXPERT_UP, LAYER "feed_forward.experts.{e}.w3.weight", 0 },
    { ROLE_EXPERT_UP, LAYER "feed_forward.experts.gate_up_proj", IN_UP },
    { ROLE_EXPERT_DOWN, LAYER "feed_forward.experts.{e}.w2.weight", 0 },
    { ROLE_EXPERT_DOWN, LAYER "feed_forward.experts.down_proj", 0 },
    NO_MORE,
};
const FamilyTensor stablelm_tensors[] = {
    { ROLE_Q_NORM, LAYER "self_attn.q_layernorm.norms.{h}.weight", 0 },
    { ROLE_K_NORM, LAYER "self_attn.k_layernorm.norms.{h}.weight", 0 },
    NO_MORE,
};
const FamilyTensor gpt2_tensors[] = {
    { ROLE_EMBED,      "@wte.weight", 0 },
    { ROLE_POS_EMBED,  "@wpe.weight", 0 },
    { ROLE_ATTN_NORM,  "@h.#.ln_1.weight", 0 },
    { ROLE_WQ,         "@h.#.attn.c_attn.weight", IN_Q | TRANSPOSED },
    { ROLE_WK,         "@h.#.attn.c_attn.weight", IN_K | TRANSPOSED },
    { ROLE_WV,         "@h.#.attn.c_attn.weight", IN_V | TRANSPOSED },
    { ROLE_WO,         "@h.#.attn.c_proj.weight", TRANSPOSED },
    { ROLE_FFN_NORM,   "@h.#.ln_2.weight", 0 },
    { ROLE_W_UP,       "@h.#.mlp.c_fc.weight", TRANSPOSED },
    { ROLE_W_DOWN,     "@h.#.mlp.c_proj.weight", TRANSPOSED },
    { ROLE_FINAL_NORM, "@ln_f.weight", 0 },
    NO_MORE,
};
const FamilyTensor phi_tensors[] = {
    { ROLE_WO,         LAYER "self_attn.dense.weight", 0 },
    { ROLE_W_UP,       LAYER "mlp.fc1.weight", 0 },
    { ROLE_W_DOWN,     LAYER "mlp.fc2.weight", 0 },
    { ROLE_FINAL_NORM, "@final_layernorm.weight", 0 },
    NO_MORE,
};
const FamilyTensor neox_tensors[] = {
    { ROLE_EMBED,      "@embed_in.weight", 0 },
    { ROLE_WQ,         LAYER "attention.query_key_value.weight", IN_Q | BY_HEAD },
    { ROLE_WK,         LAYER "attention.query_key_value.weight", IN_K | BY_HEAD },
    { ROLE_WV,         LAYER "attention.query_key_value.weight", IN_V | BY_HEAD },
    { ROLE_WO,         LAYER "attention.dense.weight", 0 },
    { ROLE_W_UP,       LAYER "mlp.dense_h_to_4h.weight", 0 },
    { ROLE_W_DOWN,     LAYER "mlp.dense_4h_to_h.weight", 0 },
    { ROLE_FINAL_NORM, "@final_layer_norm.weight", 0 },
    { ROLE_LM_HEAD,    "embed_out.weight", 0 },
    { ROLE_LM_HEAD,    "lm_head.weight", 0 },
    NO_MORE,
};

/* ---- Rows and names -------------------------------------------------------------------------- */

const FamilyTensor *hf_family_rows(const Family *f, TensorRole role)
{
    const FamilyTensor *own = hf_family_more(f->tensors, role);
    return own ? own : hf_family_more(family_usual_tensors, role);
}

const FamilyTensor *hf_family_more(const FamilyTensor *t, TensorRole role)
{
    while (t->role != ROLE_COUNT && !(t->role == role && t->name))
        t++;
    return t->role == ROLE_COUNT ? NULL : t;
}

void hf_tensor_name(const char *prefix, const char *pattern, int layer, int number, bool bias,
                    char out[HF_NAME])
{
    size_t n = 0;
    for (const char *p = pattern; *p && n < HF_NAME; p++) {
        if (*p == '@')
            n += (size_t)snprintf(out + n, HF_NAME - n, "%s", prefix);
        else if (*p == '#' || *p == '{')
            n += (size_t)snprintf(out + n, HF_NAME - n, "%d", *p == '#' ? layer : number);
        else
            out[n++] = *p;
        if (*p == '{')
            p += 2; /* {e} */
    }
    assert(n + 8 < HF_NAME);
    out[n] = '\0';
    char *end = strrchr(out, '.');
    if (bias && strcmp(end, ".weight") == 0)
        snprintf(end, 8, ".bias");
    else if (bias)
        snprintf(out + n, 8, "_bias");
}
