/* source/family.c: the table of families. */
#include "source/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* ---- Config keys ----------------------------------------------------------------------------- */

#define AT(field) offsetof(Config, field)
#define SIZE(field, absent)             { FORM_SIZE, NULL, AT(field), absent }
#define SIZE_AS(names, field, absent)   { FORM_SIZE, names, AT(field), absent }
#define COUNT_AS(names, field, absent)  { FORM_COUNT, names, AT(field), absent }
#define OR_NULL(field, absent)          { FORM_SIZE_OR_NULL, NULL, AT(field), absent }
#define NONE(field)                     { FORM_NONE, NULL, AT(field), 0 }
#define NUMBER(field, absent)           { FORM_NUMBER, NULL, AT(field), absent }
#define NUMBER_AS(names, field, absent) { FORM_NUMBER, names, AT(field), absent }
#define FLAG(field, absent)             { FORM_FLAG, NULL, AT(field), absent }
#define END                             { FORM_END, NULL, 0, 0 }

/* The names of keys are in model/config_keys.c unless given here. */
const FamilyKey family_llama_keys[] = {
    SIZE(d_model, 4096),     SIZE(n_layers, 32), SIZE(heads, 32),        SIZE(d_ff, 11008),
    SIZE(vocab_size, 32000), SIZE(n_ctx, 2048),  NUMBER(norm_eps, 1e-6),
    FLAG(tied_embeddings, false),
    OR_NULL(kv_heads, 0), OR_NULL(head_dim, 0), /* 0: as many as heads; d_model / heads */
    END,
};

#define LAYER_NORM_EPS NUMBER_AS("layer_norm_eps", norm_eps, 1e-5)
#define TIED           FLAG(tied_embeddings, true)
#define SIZES(d, layers, n_heads, ff, vocab, context)                                     \
    SIZE(d_model, d), SIZE(n_layers, layers), SIZE(heads, n_heads), SIZE(d_ff, ff),       \
    SIZE(vocab_size, vocab), SIZE(n_ctx, context)
#define QWEN_MOE(experts, used, ff)                                                       \
    SIZE(n_experts, experts), SIZE(experts_used, used), SIZE(expert_d_ff, ff),                     \
    FLAG(renormalize, false)
#define GEMMA2(attn_cap, logit_cap)                                                       \
    { FORM_INVERSE_ROOT, "query_pre_attn_scalar", AT(attn_scale), 256 },                  \
    { FORM_OR_NULL, NULL, AT(attn_softcap), attn_cap },                                            \
    { FORM_OR_NULL, NULL, AT(logit_softcap), logit_cap }

static const FamilyKey no_keys[]      = { END };
static const FamilyKey mistral_keys[] = {
    SIZE(d_ff, 14336), SIZE(n_ctx, 4096 * 32), OR_NULL(kv_heads, 8), END,
};
static const FamilyKey qwen2_keys[] = {
    SIZE(vocab_size, 151936), SIZE(d_ff, 22016), SIZE(n_ctx, 32768), OR_NULL(kv_heads, 32), END,
};
static const FamilyKey qwen2_vl_keys[] = {
    SIZES(8192, 80, 64, 29568, 152064, 32768), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8), END,
};
static const FamilyKey qwen3_keys[] = {
    SIZE(vocab_size, 151936), SIZE(d_ff, 22016), SIZE(n_ctx, 32768), OR_NULL(kv_heads, 32),
    OR_NULL(head_dim, 128), END,
};
static const FamilyKey qwen3_vl_keys[] = {
    SIZES(4096, 32, 32, 22016, 151936, 128000), OR_NULL(kv_heads, 32), OR_NULL(head_dim, 128), END,
};
static const FamilyKey qwen2_moe_keys[] = {
    SIZES(2048, 24, 16, 5632, 151936, 32768), QWEN_MOE(60, 4, 1408), SIZE(shared_d_ff, 5632),
    OR_NULL(kv_heads, 16), END,
};
static const FamilyKey qwen3_moe_keys[] = {
    SIZES(2048, 24, 32, 6144, 151936, 32768), QWEN_MOE(128, 8, 768), OR_NULL(kv_heads, 4), END,
};
static const FamilyKey mixtral_keys[] = {
    SIZE(d_ff, 14336), SIZE(n_ctx, 4096 * 32), NUMBER(norm_eps, 1e-5),
    SIZE_AS("num_local_experts|num_experts", n_experts, 8), SIZE(experts_used, 2),
    OR_NULL(kv_heads, 8), END,
};
static const FamilyKey phi3_keys[] = {
    SIZES(3072, 32, 32, 8192, 32064, 4096), NUMBER(norm_eps, 1e-5), END,
};
static const FamilyKey gemma_keys[] = {
    SIZES(3072, 28, 16, 24576, 256000, 8192), TIED, OR_NULL(kv_heads, 16), OR_NULL(head_dim, 256),
    END,
};
static const FamilyKey gemma2_keys[] = {
    SIZES(2304, 26, 8, 9216, 256000, 8192), TIED, GEMMA2(50, 30),
    OR_NULL(kv_heads, 4), OR_NULL(head_dim, 256), END,
};
static const FamilyKey gemma3_keys[] = {
    SIZES(2304, 26, 8, 9216, 262208, 131072), TIED, GEMMA2(NAN, NAN),
    OR_NULL(kv_heads, 4), OR_NULL(head_dim, 256), END,
};
static const FamilyKey olmo2_keys[]   = { SIZE(vocab_size, 50304), NUMBER(norm_eps, 1e-5), END };
static const FamilyKey olmoe_keys[] = {
    SIZES(2048, 16, 16, 2048, 50304, 4096), NUMBER(norm_eps, 1e-5), NONE(head_dim),
    SIZE_AS("num_experts|num_local_experts", n_experts, 64), SIZE(experts_used, 8),
    FLAG(renormalize, false), { FORM_OR_NULL, NULL, AT(qkv_clip), NAN }, END,
};
#define GRANITE_NUMBERS                                                                            \
    NUMBER(embed_scale, 1), NUMBER(residual_scale, 1), { FORM_POSITIVE, NULL, AT(attn_scale), 1 }, \
    { FORM_INVERSE, "logits_scaling", AT(logit_scale), 1 }
#define GRANITE_MOE                                                                                \
    GRANITE_NUMBERS, SIZE_AS("num_local_experts|num_experts", n_experts, 8), SIZE(experts_used, 2)
static const FamilyKey granite_keys[]        = { GRANITE_NUMBERS, END };
static const FamilyKey granite_swa_keys[]    = {
    SIZES(2560, 24, 20, 8192, 100352, 8192), NUMBER(norm_eps, 1e-5), TIED, OR_NULL(kv_heads, 4),
    GRANITE_NUMBERS, END,
};
static const FamilyKey granite_moe_keys[]    = { GRANITE_MOE, END };
static const FamilyKey granite_shared_keys[] = {
    GRANITE_MOE, COUNT_AS("shared_intermediate_size", shared_d_ff, 0), END,
};
static const FamilyKey minimax_m2_keys[] = {
    SIZES(3072, 62, 48, 1536, 200064, 196608), OR_NULL(kv_heads, 8), OR_NULL(head_dim, 128),
    SIZE_AS("num_local_experts|num_experts", n_experts, 256), SIZE(experts_used, 8), END,
};
static const FamilyKey gpt_oss_keys[] = {
    SIZES(2880, 36, 64, 2880, 201088, 131072), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    OR_NULL(head_dim, 64), SIZE_AS("num_local_experts|num_experts", n_experts, 128),
    SIZE_AS("num_experts_per_tok|experts_per_token", experts_used, 4),
    { FORM_POSITIVE, NULL, AT(gate_limit), 7 }, { FORM_POSITIVE, NULL, AT(gate_alpha), 1.702 },
    END,
};
#define LATENT_SIZES(q, nope, v)                                                                   \
    NONE(head_dim), OR_NULL(q_lora, q), SIZE(kv_lora, 512), SIZE(nope_dim, nope), SIZE(v_dim, v),  \
    SIZE_AS("qk_rope_head_dim", rotary_dim, 64)
#define GROUPS(groups, used, scale)                                                                \
    SIZE(expert_groups, groups), SIZE(groups_used, used), NUMBER(expert_scale, scale),             \
    FLAG(renormalize, true), COUNT_AS("n_shared_experts", shared_d_ff, 1)
static const FamilyKey glm4_moe_keys[] = {
    SIZES(4096, 46, 96, 10944, 151552, 131072), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    SIZE_AS("n_routed_experts|num_local_experts|num_experts", n_experts, 128),
    SIZE(experts_used, 8), SIZE(expert_d_ff, 1408), GROUPS(1, 1, 1), END,
};
static const FamilyKey deepseek_v3_keys[] = {
    SIZES(7168, 61, 128, 18432, 129280, 4096), OR_NULL(kv_heads, 128), LATENT_SIZES(1536, 128, 128),
    SIZE_AS("n_routed_experts|num_local_experts", n_experts, 256),
    SIZE(experts_used, 8), SIZE(expert_d_ff, 2048), GROUPS(8, 4, 2.5), END,
};
static const FamilyKey deepseek_v2_keys[] = {
    SIZES(4096, 32, 32, 11008, 102400, 2048), LATENT_SIZES(1536, 128, 128),
    SIZE_AS("n_routed_experts|num_experts", n_experts, 64), SIZE(experts_used, 0),
    SIZE(expert_d_ff, 1407), OR_NULL(expert_groups, 0), OR_NULL(groups_used, 0),
    NUMBER(expert_scale, 1), COUNT_AS("n_shared_experts", shared_d_ff, 2), END,
};
static const FamilyKey glm4_moe_lite_keys[] = {
    SIZES(2048, 47, 20, 10240, 154880, 202752), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 20),
    LATENT_SIZES(768, 192, 256), SIZE_AS("n_routed_experts|num_local_experts", n_experts, 64),
    SIZE(experts_used, 4), SIZE(expert_d_ff, 1536), GROUPS(1, 1, 1.8), END,
};
static const FamilyKey ernie4_5_moe_keys[] = {
    SIZES(2560, 28, 20, 12288, 103424, 131072), NUMBER(norm_eps, 1e-5), TIED, OR_NULL(kv_heads, 4),
    SIZE_AS("moe_num_experts|num_experts|num_local_experts", n_experts, 64),
    SIZE_AS("moe_k|num_experts_per_tok", experts_used, 6), SIZE(expert_d_ff, 1536),
    COUNT_AS("moe_num_shared_experts", shared_d_ff, 2),
    NUMBER_AS("moe_norm_min", renormalize_min, 1e-12), END,
};
static const FamilyKey llama4_keys[] = {
    SIZES(5120, 48, 40, 16384, 202048, 131072), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    OR_NULL(head_dim, 128), SIZE_AS("intermediate_size_mlp", d_ff, 16384),
    SIZE_AS("intermediate_size", expert_d_ff, 8192),
    SIZE_AS("num_local_experts|num_experts", n_experts, 16), SIZE(experts_used, 1),
    NUMBER_AS("attn_scale", query_scale, 0.1), SIZE_AS("floor_scale", query_scale_length, 8192),
    END,
};
static const FamilyKey cohere_keys[] = {
    SIZES(8192, 40, 64, 22528, 256000, 8192), TIED, LAYER_NORM_EPS, NUMBER(logit_scale, 0.0625),
    END,
};
static const FamilyKey stablelm_keys[] = {
    SIZES(2560, 32, 32, 6912, 50304, 4096), LAYER_NORM_EPS, OR_NULL(kv_heads, 32), NONE(head_dim),
    END,
};
static const FamilyKey gpt2_keys[] = {
    SIZE_AS("n_embd|hidden_size", d_model, 768), SIZE_AS("n_layer|num_hidden_layers", n_layers, 12),
    SIZE_AS("n_head|num_attention_heads", heads, 12),
    { FORM_SIZE_OR_NULL, "n_inner", AT(d_ff), 0 }, SIZE(vocab_size, 50257),
    SIZE_AS("n_positions|max_position_embeddings", n_ctx, 1024),
    NUMBER_AS("layer_norm_epsilon", norm_eps, 1e-5), TIED, NONE(kv_heads), NONE(head_dim), END,
};
static const FamilyKey seed_oss_keys[] = {
    SIZES(4096, 64, 80, 27648, 155136, 524288), OR_NULL(kv_heads, 8), OR_NULL(head_dim, 128), END,
};
static const FamilyKey glm4_keys[] = {
    SIZES(4096, 40, 32, 13696, 151552, 131072), NUMBER(norm_eps, 1.5625e-7), OR_NULL(kv_heads, 2),
    OR_NULL(head_dim, 128), END,
};
static const FamilyKey ernie4_5_keys[] = {
    SIZES(1024, 18, 16, 3072, 103424, 131072), NUMBER(norm_eps, 1e-5), TIED, OR_NULL(kv_heads, 2),
    OR_NULL(head_dim, 128), END,
};
static const FamilyKey helium_keys[] = {
    SIZES(2560, 24, 20, 7040, 48000, 4096), NUMBER(norm_eps, 1e-8), OR_NULL(kv_heads, 20),
    OR_NULL(head_dim, 128), END,
};
static const FamilyKey smollm3_keys[] = {
    SIZES(2048, 36, 16, 11008, 128256, 32768), TIED, OR_NULL(kv_heads, 4), END,
};
static const FamilyKey exaone4_keys[] = {
    SIZES(4096, 32, 32, 16384, 102400, 2048), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 32), END,
};
static const FamilyKey hunyuan_keys[] = {
    SIZE(vocab_size, 290943), NUMBER(norm_eps, 1e-5), END,
};
static const FamilyKey arcee_keys[] = {
    SIZES(2560, 32, 32, 18432, 32000, 4096), NUMBER(norm_eps, 1e-5), END,
};
static const FamilyKey nemotron_keys[] = {
    SIZES(6144, 32, 48, 24576, 256000, 4096), NUMBER_AS("norm_eps", norm_eps, 1e-5), END,
};
static const FamilyKey ministral3_keys[] = {
    SIZES(4096, 34, 32, 14336, 131072, 262144), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    OR_NULL(head_dim, 128), END,
};
#define LFM2_KEYS                                                                                  \
    SIZE(vocab_size, 65536), SIZE(n_ctx, 128000), NUMBER_AS("norm_eps", norm_eps, 1e-5),           \
    OR_NULL(kv_heads, 8), SIZE(conv_taps, 3), FLAG(conv_bias, false),                              \
    { FORM_FLAG, "tie_word_embeddings|tie_embedding", AT(tied_embeddings), true }
static const FamilyKey lfm2_keys[] = {
    LFM2_KEYS, SIZE(d_model, 2560), SIZE_AS("intermediate_size|block_ff_dim", d_ff, 12288), END,
};
static const FamilyKey lfm2_moe_keys[] = {
    LFM2_KEYS, SIZE(d_model, 2048), SIZE(d_ff, 7168), SIZE(n_experts, 32),
    SIZE(experts_used, 4), SIZE(expert_d_ff, 1792), FLAG(renormalize, true),
    NUMBER(expert_scale, 1), END,
};
#define DELTA_KEYS                                                                                 \
    OR_NULL(head_dim, 256), SIZE_AS("linear_conv_kernel_dim", conv_taps, 4),                       \
    SIZE(delta_heads, 32), SIZE(delta_key_heads, 16), SIZE(delta_key_dim, 128),                    \
    SIZE(delta_value_dim, 128)
#define DELTA_EXPERTS(experts, used)                                                               \
    SIZE(n_experts, experts), SIZE(experts_used, used), SIZE(expert_d_ff, 512),                    \
    SIZE(shared_d_ff, 512), OR_NULL(kv_heads, 2)
static const FamilyKey qwen3_next_keys[] = {
    SIZES(2048, 48, 16, 5632, 151936, 32768), DELTA_KEYS, DELTA_EXPERTS(512, 10),
    FLAG(renormalize, true), END,
};
static const FamilyKey qwen3_5_keys[] = {
    SIZES(4096, 32, 16, 12288, 248320, 32768), DELTA_KEYS, OR_NULL(kv_heads, 4), END,
};
static const FamilyKey qwen3_5_moe_keys[] = {
    SIZES(2048, 40, 16, 512, 248320, 32768), DELTA_KEYS, DELTA_EXPERTS(256, 8), END,
};
static const FamilyKey apertus_keys[] = {
    SIZE(d_ff, 14336), SIZE(vocab_size, 131072), SIZE(n_ctx, 65536), NUMBER(norm_eps, 1e-5), END,
};
static const FamilyKey neox_keys[] = {
    SIZES(6144, 44, 64, 24576, 50432, 2048), LAYER_NORM_EPS, NONE(kv_heads), NONE(head_dim), END,
};

/* ---- Families -------------------------------------------------------------------------------- */

#define ON(key, default_, parts)                 { .name = key, .absent = default_, .has = parts }
#define WORD(key, default_, field, if_on, if_off)                                                  \
    { .name = key, .absent = default_, .form = FORM_SIZE, .at = AT(field), .if_true = if_on,       \
      .if_false = if_off }
#define LATENT_FIXED                                                                               \
    { "moe_layer_freq", "1" }, { "ep_size" }, { "seq_aux" }, { "aux_loss_alpha" }, { "head_dim" }, \
    { "qk_head_dim" }
#define DEEPSEEK_V3                                                                                \
    .keys = deepseek_v3_keys, .tensors = deepseek_v3_tensors, LLAMA_LINE,                          \
    .has = HAS_CHOICE_BIAS | SIGMOID_ROUTER | SHARED_COUNTED | LATENT_KV,                          \
    .renormalize_min = 1e-20, .flags = { ATTENTION_BIAS },                                         \
    .moe = { .first = "first_k_dense_replace", .first_absent = 3 }, .next_layers = 1,              \
    .bos = 0, .eos = 1,                                                                            \
    .fixed = { { "scoring_func", "\"sigmoid\"" }, { "topk_method", "\"noaux_tc\"" }, LATENT_FIXED }
#define ATTENTION_BIAS ON("attention_bias", false, HAS_QKV_BIAS | HAS_OUT_BIAS)
#define MLP_BIAS       ON("mlp_bias", false, HAS_FFN_BIAS)
#define ALL_ROPES \
    (1u << ROPE_DEFAULT | 1u << ROPE_LINEAR | 1u << ROPE_LLAMA3 | 1u << ROPE_YARN                  \
     | 1u << ROPE_LONGROPE | 1u << ROPE_DYNAMIC)
#define INV_FREQ .unused = { TENSOR_ATTN "rotary_emb.inv_freq", "@rotary_emb.inv_freq" }
#define LLAMA_NAMES(act_, theta_, types)                                                           \
    .act_keys = { "hidden_act" }, .act = act_, .theta = theta_, .theta_keys = "rope_theta",        \
    .rope_types = types,                                                                           \
    .prefix = { "model.", "language_model.model.", "model.language_model." }, INV_FREQ
#define LLAMA_ROPE(theta_, types) LLAMA_NAMES("silu", theta_, types)
#define LLAMA_LINE LLAMA_ROPE(10000, ALL_ROPES)
#define QWEN2_VL                                                                                   \
    LLAMA_ROPE(1e6, ALL_ROPES), .has = HAS_QKV_BIAS | TAKES_MROPE, .window = WINDOW_LAST,          \
    .window_absent = 4096, .bos = 151643, .eos = 151645
#define LFM2_ROPE                                                                                  \
    .act = "silu", .theta = 1e6, .theta_keys = "rope_theta", .rope_types = ALL_ROPES,              \
    .prefix = { "model." }, INV_FREQ, .qk_norm = QK_HEAD
#define DELTA_LINE                                                                                 \
    .tensors = qwen3_next_tensors, .act_keys = { "hidden_act" }, .act = "silu", .theta = 10000,    \
    .theta_keys = "rope_theta", .rope_types = ALL_ROPES, .rotary = 0.25,                           \
    .rotary_keys = "partial_rotary_factor", .qk_norm = QK_HEAD, .flags = { ATTENTION_BIAS },       \
    .prefix = { "model.", "language_model.model.", "model.language_model." },                      \
    .unused = { TENSOR_ATTN "rotary_emb.inv_freq", "@rotary_emb.inv_freq", "mtp.*" },              \
    .fixed = { { "attn_output_gate", "true" }, { "mamba_ssm_dtype" }, { "mtp_num_hidden_layers" }, \
               { "mtp_use_dedicated_embeddings" } },                                               \
    .bos = -1, .eos = -1
#define HAS_DELTA (DELTA_RULE | NORMS_PLUS_ONE)
#define GEMMA_LINE(more)                                                                  \
    .act_keys = { "hidden_activation", "hidden_act" }, .act = "gelu_pytorch_tanh",        \
    .theta_keys = "rope_theta", .has = EMBED_SCALED | NORMS_PLUS_ONE | GELU_IS_TANH | more, \
    .flags = { ATTENTION_BIAS }, .bos = 2, .eos = 1, INV_FREQ

static const FamilyRope ministral3_rope = {
    1e6,
    { .type = ROPE_YARN, .factor = 16, .original_n_ctx = 16384, .beta_fast = 32, .beta_slow = 1,
      .attention_factor = -1, .mscale = 1, .mscale_all_dim = 1, .truncate = true },
    0.1,
};

static const FamilyRope apertus_rope = {
    12e6,
    { .type = ROPE_LLAMA3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4,
      .original_n_ctx = 8192, .attention_factor = -1, .beta_fast = 32, .beta_slow = 1,
      .truncate = true },
    0,
};

const Family families[] = {
    { .name = "llama", .architecture = { "LlamaForCausalLM", "LLaMAForCausalLM" }, .keys = no_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .bos = 1, .eos = 2 },
    { .name = "llama_bidirec", .architecture = { "LlamaBidirectionalModel" }, .keys = no_keys,
      .tensors = no_tensors, LLAMA_LINE, .has = BOTH_WAYS,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .bos = 1, .eos = 2 },
    { .name = "mistral", .architecture = { "MistralForCausalLM" }, .keys = mistral_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .window = WINDOW_ALL, .window_absent = 4096, .bos = 1, .eos = 2 },
    { .name = "ministral3", .architecture = { "Ministral3ForCausalLM" }, .keys = ministral3_keys,
      .tensors = no_tensors, LLAMA_LINE, .rope_absent = &ministral3_rope, .has = QUERY_SCALED,
      .window = WINDOW_ALL, .bos = 1, .eos = 2 },
    { .name = "qwen2", .architecture = { "Qwen2ForCausalLM" }, .keys = qwen2_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .has = HAS_QKV_BIAS, .window = WINDOW_LAST, .window_absent = 4096, .bos = -1, .eos = -1 },
    { .name = "qwen2_vl_text", .architecture = { "Qwen2VLTextModel" }, .keys = qwen2_vl_keys,
      .tensors = no_tensors, QWEN2_VL },
    { .name = "qwen2_5_vl_text", .architecture = { "Qwen2_5_VLTextModel" }, .keys = qwen2_vl_keys,
      .tensors = no_tensors, QWEN2_VL },
    { .name = "qwen3", .architecture = { "Qwen3ForCausalLM" }, .keys = qwen3_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .qk_norm = QK_HEAD, .flags = { ATTENTION_BIAS }, .window = WINDOW_LAST,
      .window_absent = 4096, .bos = -1, .eos = -1 },
    { .name = "qwen3_vl_text", .architecture = { "Qwen3VLTextModel" }, .keys = qwen3_vl_keys,
      .tensors = no_tensors, LLAMA_ROPE(500000, ALL_ROPES), .has = TAKES_MROPE,
      .qk_norm = QK_HEAD, .flags = { ATTENTION_BIAS }, .bos = -1, .eos = -1 },
    { .name = "qwen2_moe", .architecture = { "Qwen2MoeForCausalLM" }, .keys = qwen2_moe_keys,
      .tensors = qwen2_moe_tensors,
      LLAMA_LINE, .has = HAS_SHARED_ROUTER, .flags = { ON("qkv_bias", true, HAS_QKV_BIAS) },
      .window = WINDOW_NAMED, .window_absent = 4096, .bos = -1, .eos = -1 },
    { .name = "qwen3_moe", .architecture = { "Qwen3MoeForCausalLM" }, .keys = qwen3_moe_keys,
      .tensors = no_tensors,
      LLAMA_LINE, .qk_norm = QK_HEAD, .flags = { ATTENTION_BIAS }, .window = WINDOW_NAMED,
      .window_absent = 4096, .bos = -1, .eos = -1 },
    { .name = "mixtral", .architecture = { "MixtralForCausalLM" }, .keys = mixtral_keys,
      .tensors = mixtral_tensors,
      LLAMA_ROPE(1e6, ALL_ROPES),
      .has = HAS_RENORMALIZE | EXPERTS_AS_WIDE, .window = WINDOW_ALL, .bos = 1, .eos = 2 },
    { .name = "phi3", .architecture = { "Phi3ForCausalLM" }, .keys = phi3_keys,
      .tensors = phi3_tensors,
      LLAMA_ROPE(10000, 1u << ROPE_DEFAULT | 1u << ROPE_LONGROPE), .rope_original = 4096,
      .rotary = 1, .rotary_keys = "partial_rotary_factor", .window = WINDOW_ALL, .bos = 1,
      .eos = 32000,
      .fixed = { { "original_max_position_embeddings" }, { "full_attn_mod", "1" },
                 { "interpolate_factor", "1" }, { "lm_head_bias", "false" } } },
    { .name = "gemma", .architecture = { "GemmaForCausalLM" }, .keys = gemma_keys,
      .tensors = no_tensors, GEMMA_LINE(0),
      .theta = 10000, .rope_types = ALL_ROPES, .prefix = { "model." } },
    { .name = "gemma2", .architecture = { "Gemma2ForCausalLM" }, .keys = gemma2_keys,
      .tensors = gemma2_tensors, GEMMA_LINE(0),
      .placement = PLACE_BOTH, .theta = 10000, .rope_types = ALL_ROPES, .window = WINDOW_EVERY,
      .window_every = 2,
      .window_absent = 4096, .prefix = { "model." }, .fixed = { { "sliding_window_size" } } },
    { .name = "gemma3_text", .architecture = { "Gemma3ForCausalLM",
                                               "Gemma3ForConditionalGeneration" },
    .keys = gemma3_keys,
      .tensors = gemma2_tensors, GEMMA_LINE(TAKES_BOTH_WAYS),
      .placement = PLACE_BOTH, .qk_norm = QK_HEAD, .theta = 1e6, .theta_window = 10000,
      .rope_types = 1u << ROPE_DEFAULT | 1u << ROPE_LINEAR, .window = WINDOW_EVERY,
      .window_every = 6,
      .window_absent = 4096, .prefix = { "model.", "language_model.model.",
                                         "model.language_model." } },
    { .name = "olmo2", .architecture = { "Olmo2ForCausalLM" }, .keys = olmo2_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .placement = PLACE_OUTPUT, .qk_norm = QK_VECTOR, .flags = { ATTENTION_BIAS }, .bos = -1,
      .eos = 50279 },
    { .name = "olmo3", .architecture = { "Olmo3ForCausalLM" }, .keys = olmo2_keys,
      .tensors = no_tensors, LLAMA_ROPE(500000, ALL_ROPES), .window_unscaled = true,
      .placement = PLACE_OUTPUT, .qk_norm = QK_VECTOR, .flags = { ATTENTION_BIAS },
      .window = WINDOW_EVERY, .window_every = 4, .window_absent = 4096, .bos = -1, .eos = 50279 },
    { .name = "smollm3", .architecture = { "SmolLM3ForCausalLM" }, .keys = smollm3_keys,
      .tensors = no_tensors, LLAMA_ROPE(2e6, ALL_ROPES), .rope_rule = ROPE_LISTED,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .window = WINDOW_UNROTATED, .bos = 128000,
      .eos = 128001 },
    { .name = "exaone4", .architecture = { "Exaone4ForCausalLM" }, .keys = exaone4_keys,
      .tensors = no_tensors, LLAMA_LINE, .rope_rule = ROPE_WINDOWED,
      .placement = PLACE_OUTPUT, .qk_norm = QK_HEAD,
      .window = WINDOW_EVERY, .window_every = 4, .window_absent = 4096, .eos = 2 },
    { .name = "hunyuan_v1_dense", .architecture = { "HunYuanDenseV1ForCausalLM" },
      .keys = hunyuan_keys, .tensors = hunyuan_tensors,
      LLAMA_ROPE(10000, ALL_ROPES & ~(1u << ROPE_DYNAMIC)), .rope_alpha = true,
      .has = QK_NORM_ROTATED, .qk_norm = QK_HEAD, .flags = { ATTENTION_BIAS }, .bos = 1, .eos = 2 },
    { .name = "arcee", .architecture = { "ArceeForCausalLM" }, .keys = arcee_keys,
      .tensors = no_tensors, LLAMA_NAMES("relu2", 10000, ALL_ROPES), .has = NO_GATE,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .bos = 128000, .eos = 128001 },
    { .name = "lfm2", .architecture = { "Lfm2ForCausalLM" }, .keys = lfm2_keys,
      .tensors = lfm2_tensors, LFM2_ROPE, .has = SHORT_CONV | FF_ADJUSTED, .bos = 1, .eos = 2,
      .fixed = { { "block_dim", NULL }, { "block_mlp_init_scale", NULL },
                 { "block_norm_eps", NULL }, { "block_out_init_scale", NULL },
                 { "block_use_swiglu", "true" }, { "block_use_xavier_init", NULL },
                 { "conv_dim", NULL }, { "conv_dim_out", NULL }, { "conv_use_xavier_init", NULL },
                 { "num_heads", NULL }, { "theta", NULL }, { "use_pos_enc", "true" } } },
    { .name = "lfm2_moe", .architecture = { "Lfm2MoeForCausalLM" }, .keys = lfm2_moe_keys,
      .tensors = lfm2_moe_tensors, LFM2_ROPE, .has = SHORT_CONV | SIGMOID_ROUTER,
      .renormalize_add = 1e-6, .flags = { ON("use_expert_bias", true, HAS_CHOICE_BIAS) },
      .moe = { .first = "num_dense_layers", .first_absent = 2 }, .bos = 1, .eos = 2 },
    { .name = "qwen3_next", .architecture = { "Qwen3NextForCausalLM" }, .keys = qwen3_next_keys,
      DELTA_LINE, .has = HAS_DELTA | HAS_SHARED_ROUTER },
    { .name = "qwen3_5_text", .architecture = { "Qwen3_5ForCausalLM", "Qwen3_5TextModel" },
      .keys = qwen3_5_keys, DELTA_LINE, .has = HAS_DELTA | TAKES_MROPE },
    { .name = "qwen3_5_moe_text",
      .architecture = { "Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextModel" },
      .keys = qwen3_5_moe_keys, DELTA_LINE,
      .has = HAS_DELTA | TAKES_MROPE | HAS_SHARED_ROUTER | HAS_RENORMALIZE },
    { .name = "apertus", .architecture = { "ApertusForCausalLM" }, .keys = apertus_keys,
      .tensors = apertus_tensors, LLAMA_NAMES("xielu", 12e6, ALL_ROPES), .has = NO_GATE,
      .rope_absent = &apertus_rope, .qk_norm = QK_HEAD, .flags = { ATTENTION_BIAS }, .bos = 1,
      .eos = 2 },
    { .name = "nemotron", .architecture = { "NemotronForCausalLM" }, .keys = nemotron_keys,
      .tensors = no_tensors, LLAMA_NAMES("relu2", 10000, ALL_ROPES),
      .norm = NORM_LAYER, .has = NO_GATE | HAS_NORM_BIAS | NORMS_PLUS_ONE,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .rotary = 0.5, .rotary_keys = "partial_rotary_factor",
      .bos = 2, .eos = 3 },
    { .name = "granite", .architecture = { "GraniteForCausalLM" }, .keys = granite_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .bos = 1, .eos = 2 },
    { .name = "granite_swa", .architecture = { "GraniteSWAForCausalLM" },
      .keys = granite_swa_keys, .tensors = no_tensors, LLAMA_LINE, .has = HAS_SINKS,
      .flags = { ATTENTION_BIAS, MLP_BIAS }, .rope_rule = ROPE_THETAS,
      .window = WINDOW_BUT_FIRST, .window_every = 4, .window_absent = 128, .bos = 100257,
      .eos = 100257 },
    { .name = "seed_oss", .architecture = { "SeedOssForCausalLM" }, .keys = seed_oss_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .flags = { ON("attention_bias", true, HAS_QKV_BIAS),
                 ON("attention_out_bias", false, HAS_OUT_BIAS), MLP_BIAS }, .eos = 2 },
    { .name = "glm4", .architecture = { "Glm4ForCausalLM" }, .keys = glm4_keys,
      .tensors = glm4_tensors, LLAMA_LINE,
      .placement = PLACE_BOTH, .flags = { ON("attention_bias", true, HAS_QKV_BIAS) },
      .rotary = 0.5, .rotary_keys = "partial_rotary_factor", .bos = -1, .eos = 151329,
      .eos_more = { 151336, 151338 }, .eos_null = true },
    { .name = "ernie4_5", .architecture = { "Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM" },
      .keys = ernie4_5_keys, .tensors = paired_tensors, LLAMA_ROPE(500000, ALL_ROPES),
      .flags = { ON("use_bias", false, HAS_QKV_BIAS | HAS_OUT_BIAS | HAS_FFN_BIAS) }, .bos = 1,
      .eos = 2 },
    { .name = "helium", .architecture = { "HeliumForCausalLM" }, .keys = helium_keys,
      .tensors = paired_tensors, LLAMA_ROPE(100000, ALL_ROPES),
      .flags = { ON("attention_bias", false, HAS_QKV_BIAS), MLP_BIAS }, .bos = 1, .eos = 2 },
    { .name = "olmoe", .architecture = { "OlmoeForCausalLM" }, .keys = olmoe_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .has = EXPERTS_AS_WIDE, .qk_norm = QK_VECTOR, .flags = { ATTENTION_BIAS }, .bos = -1,
      .eos = 50279 },
    { .name = "minimax_m2", .architecture = { "MiniMaxM2ForCausalLM" }, .keys = minimax_m2_keys,
      .tensors = minimax_m2_tensors, LLAMA_ROPE(5e6, ALL_ROPES),
      .has = HAS_RENORMALIZE | EXPERTS_AS_WIDE | HAS_CHOICE_BIAS | SIGMOID_ROUTER,
      .qk_norm = QK_VECTOR, .rotary = 1, .rotary_keys = "partial_rotary_factor",
      .rotary_dim_key = "rotary_dim", .bos = 200034, .eos = 200020,
      .fixed = { { "scoring_func", "\"sigmoid\"" }, { "use_qk_norm", "true" },
                 { "qk_norm_type", "\"per_layer\"" }, { "use_routing_bias", "true" },
                 { "shared_intermediate_size", "0" }, { "use_mtp" }, { "num_mtp_modules" },
                 { "mtp_transformer_layers" } } },
    { .name = "gpt_oss", .architecture = { "GptOssForCausalLM" }, .keys = gpt_oss_keys,
      .tensors = gpt_oss_tensors, LLAMA_ROPE(150000, ALL_ROPES),
      .has = HAS_RENORMALIZE | EXPERTS_AS_WIDE | HAS_EXPERT_BIAS | HAS_SINKS | NEEDS_ROPE_TYPE
          | TAKES_MXFP4,
      .flags = { ON("attention_bias", true, HAS_QKV_BIAS | HAS_OUT_BIAS) },
      .window = WINDOW_EVERY, .window_every = 2, .window_absent = 128, .bos = -1, .eos = -1,
      .fixed = { { "initial_context_length" } } },
    { .name = "glm4_moe", .architecture = { "Glm4MoeForCausalLM" }, .keys = glm4_moe_keys,
      .tensors = no_tensors, LLAMA_LINE,
      .has = HAS_CHOICE_BIAS | SIGMOID_ROUTER | SHARED_COUNTED, .renormalize_min = 1e-20,
      .flags = { ON("attention_bias", false, HAS_QKV_BIAS),
                 WORD("use_qk_norm", false, qk_norm, QK_HEAD, QK_NONE) },
      .moe = { .first = "first_k_dense_replace", .first_absent = 1 }, .next_layers = 1,
      .rotary = 0.5, .rotary_keys = "partial_rotary_factor", .bos = -1, .eos = -1,
      .fixed = { { "scoring_func", "\"sigmoid\"" }, { "topk_method", "\"noaux_tc\"" } } },
    { .name = "deepseek_v3", .architecture = { "DeepseekV3ForCausalLM" }, DEEPSEEK_V3 },
    /* Kimi K2's model_type; its architecture is DeepSeek V3's. */
    { .name = "kimi_k2", .architecture = { "DeepseekV3ForCausalLM" }, DEEPSEEK_V3 },
    { .name = "deepseek_v2", .architecture = { "DeepseekV2ForCausalLM" }, .keys = deepseek_v2_keys,
      .tensors = deepseek_v3_tensors, LLAMA_LINE, .has = SHARED_COUNTED | LATENT_KV,
      .topk_method = true, .flags = { ATTENTION_BIAS },
      .moe = { .first = "first_k_dense_replace" }, .bos = 1, .eos = 2,
      .fixed = { { "scoring_func", "\"softmax\"" }, { "norm_topk_prob", "false" }, LATENT_FIXED } },
    { .name = "glm4_moe_lite", .architecture = { "Glm4MoeLiteForCausalLM" },
      .keys = glm4_moe_lite_keys, .tensors = deepseek_v3_tensors, LLAMA_LINE,
      .has = HAS_CHOICE_BIAS | SIGMOID_ROUTER | SHARED_COUNTED | LATENT_KV,
      .renormalize_min = 1e-20, .flags = { ATTENTION_BIAS },
      .moe = { .types = "mlp_layer_types", .first_absent = 1 }, .next_layers = 1,
      .bos = 0, .eos = 1,
      .fixed = { { "scoring_func", "\"sigmoid\"" }, { "topk_method", "\"noaux_tc\"" },
                 { "first_k_dense_replace", "1" }, LATENT_FIXED } },
    { .name = "ernie4_5_moe", .architecture = { "Ernie4_5_MoeForCausalLM" },
      .keys = ernie4_5_moe_keys, .tensors = ernie4_5_moe_tensors, .act_keys = { "hidden_act" },
      .act = "silu", .theta = 500000, .theta_keys = "rope_theta", .rope_types = ALL_ROPES,
      .has = HAS_RENORMALIZE | HAS_CHOICE_BIAS | SHARED_COUNTED, .renormalize_min = 1e-12,
      .moe = { .first = "moe_layer_start_index", .last = "moe_layer_end_index",
               .step = "moe_layer_interval", .first_absent = 1 },
      .bos = 1, .eos = 2, .prefix = { "model." },
      .unused = { "@mtp_*", TENSOR_ATTN "rotary_emb.inv_freq", "@rotary_emb.inv_freq" },
      .fixed = { { "use_bias", "false" }, { "moe_capacity" }, { "num_nextn_predict_layers" },
                 { "moe_gate", "\"topk\"" }, { "moe_gate_act", "\"softmax\"" },
                 { "moe_use_aux_free", "true" } } },
    { .name = "llama4_text", .architecture = { "Llama4ForCausalLM" }, .keys = llama4_keys,
      .tensors = llama4_tensors, LLAMA_ROPE(500000, ALL_ROPES), .rope_rule = ROPE_LISTED,
      .has = SIGMOID_ROUTER | SCORES_SCALE_INPUT | SHARED_AS_WIDE | QK_NORM_ROTATED,
      .flags = { ATTENTION_BIAS, WORD("use_qk_norm", true, qk_norm, QK_PLAIN, QK_NONE),
                 ON("attn_temperature_tuning", true, UNROTATED_SCALED) },
      .moe = { .step = "interleave_moe_layer_step", .list = "moe_layers" },
      .window = WINDOW_CHUNKED, .window_absent = 8192, .bos = 1, .eos = 2,
      .fixed = { { "for_llm_compressor", "false" } } },
    { .name = "granitemoe", .architecture = { "GraniteMoeForCausalLM" }, .keys = granite_moe_keys,
      .tensors = granite_moe_tensors, LLAMA_LINE,
      .has = HAS_RENORMALIZE | EXPERTS_AS_WIDE, .flags = { ATTENTION_BIAS }, .bos = 1, .eos = 2 },
    { .name = "granitemoeshared", .architecture = { "GraniteMoeSharedForCausalLM" },
      .keys = granite_shared_keys, .tensors = granite_shared_tensors, LLAMA_LINE,
      .has = HAS_RENORMALIZE | EXPERTS_AS_WIDE, .flags = { ATTENTION_BIAS }, .bos = 1, .eos = 2 },
    { .name = "cohere", .architecture = { "CohereForCausalLM" }, .keys = cohere_keys,
      .tensors = cohere_tensors,
      LLAMA_ROPE(500000, ALL_ROPES),
      .norm = NORM_LAYER, .placement = PLACE_PARALLEL,
      .flags = { ATTENTION_BIAS, WORD("use_qk_norm", false, qk_norm, QK_HEADS, QK_NONE) }, .bos = 5,
      .eos = 255001 },
    { .name = "cohere2", .architecture = { "Cohere2ForCausalLM" }, .keys = cohere_keys,
      .tensors = paired_tensors, LLAMA_LINE, .norm = NORM_LAYER, .placement = PLACE_PARALLEL,
      .flags = { ATTENTION_BIAS }, .rope_rule = ROPE_WINDOWED, .window = WINDOW_EVERY,
      .window_every = 4, .window_absent = 4096, .window_needed = true, .bos = 5, .eos = 255001,
      .fixed = { { "layer_switch", "4" },
                 { "order_of_interleaved_layers", "\"local_attn_first\"" },
                 { "position_embedding_type", "\"rope_gptj\"" },
                 { "use_embedding_sharing", "true" }, { "use_gated_activation", "true" },
                 { "use_parallel_block", "true" }, { "use_parallel_embedding" } } },
    { .name = "stablelm", .architecture = { "StableLmForCausalLM" }, .keys = stablelm_keys,
      .tensors = stablelm_tensors, LLAMA_LINE,
      .norm = NORM_LAYER, .has = HAS_NORM_BIAS, .rotary = 0.25,
      .rotary_keys = "partial_rotary_factor",
      .flags = { ON("use_qkv_bias", false, HAS_QKV_BIAS),
                 WORD("qk_layernorm", false, qk_norm, QK_HEADS, QK_NONE),
                 WORD("use_parallel_residual", false, norm_placement, PLACE_PARALLEL,
                      PLACE_PRE) } },
    { .name = "gpt2", .architecture = { "GPT2LMHeadModel" }, .keys = gpt2_keys,
      .tensors = gpt2_tensors,
      .norm = NORM_LAYER, .positions = POS_LEARNED,
      .has = HAS_NORM_BIAS | HAS_QKV_BIAS | HAS_OUT_BIAS | HAS_FFN_BIAS | NO_GATE,
      .flags = { { .name = "scale_attn_weights", .absent = true, .form = FORM_NUMBER,
                   .at = AT(attn_scale), .if_false = 1 } },
      .act_keys = { "activation_function" }, .act = "gelu_new", .bos = 50256, .eos = 50256,
      .prefix = { "transformer.", "" },
      .unused = { "@h.#.attn.bias", "@h.#.attn.masked_bias" }, .fixed = { { "n_ctx" } } },
    { .name = "gpt_neox", .architecture = { "GPTNeoXForCausalLM" }, .keys = neox_keys,
      .tensors = neox_tensors,
      .norm = NORM_LAYER, .has = HAS_NORM_BIAS | HAS_FFN_BIAS | NO_GATE,
      .flags = { ON("attention_bias", true, HAS_QKV_BIAS | HAS_OUT_BIAS),
                 WORD("use_parallel_residual", true, norm_placement, PLACE_PARALLEL2, PLACE_PRE) },
      .act_keys = { "hidden_act" }, .act = "gelu", .theta = 10000,
      .theta_keys = "rotary_emb_base|rope_theta", .rotary = 0.25,
      .rotary_keys = "rotary_pct|partial_rotary_factor", .rope_types = ALL_ROPES, .eos = 2,
      .prefix = { "gpt_neox." },
      .unused = { TENSOR_LAYER "attention.bias", TENSOR_LAYER "attention.masked_bias",
                  TENSOR_LAYER "attention.rotary_emb.inv_freq" } },
    { 0 },
};

#define VISION                                                                                     \
    { "vision_tower.", "multi_modal_projector.", "model.vision_tower.",                            \
      "model.multi_modal_projector." }

#define LLAVA_PARTS                                                                                \
    { "vision_tower.", "multi_modal_projector.", "model.vision_tower.",                            \
      "model.multi_modal_projector.", "image_newline", "model.image_newline" }
#define LLAVA(type, text, architecture_)                                                           \
    { type, "text_config", text, architecture_, LLAVA_PARTS, .either_ties = true }
#define VL(type, text, flat_, architecture_)                                                       \
    { type, "text_config", text, architecture_, { "visual.", "model.visual." },                    \
      .either_ties = true, .flat = flat_,                                                          \
      .ignored = " vision_config image_token_id video_token_id vision_start_token_id "             \
                 "vision_end_token_id vision_token_id " }

const FamilyWrapper family_wrappers[] = {
    { "gemma3", "text_config", "gemma3_text", "Gemma3ForConditionalGeneration", VISION,
      .head_decides = false },
    { "mistral3", "text_config", "mistral", "Mistral3ForConditionalGeneration", VISION,
      .head_decides = true },
    { "mistral3", "text_config", "ministral3", "Mistral3ForConditionalGeneration", VISION,
      .head_decides = true },
    LLAVA("llava", "llama", "LlavaForConditionalGeneration"),
    LLAVA("llava", "mistral", "LlavaForConditionalGeneration"),
    LLAVA("llava", "qwen2", "LlavaForConditionalGeneration"),
    LLAVA("llava_next", "llama", "LlavaNextForConditionalGeneration"),
    LLAVA("llava_next", "mistral", "LlavaNextForConditionalGeneration"),
    LLAVA("llava_next", "qwen2", "LlavaNextForConditionalGeneration"),
    LLAVA("llava_onevision", "qwen2", "LlavaOnevisionForConditionalGeneration"),
    VL("qwen2_vl", "qwen2_vl_text", true, "Qwen2VLForConditionalGeneration"),
    VL("qwen2_5_vl", "qwen2_5_vl_text", true, "Qwen2_5_VLForConditionalGeneration"),
    VL("qwen3_vl", "qwen3_vl_text", false, "Qwen3VLForConditionalGeneration"),
    VL("qwen3_5", "qwen3_5_text", false, "Qwen3_5ForConditionalGeneration"),
    VL("qwen3_5_moe", "qwen3_5_moe_text", false, "Qwen3_5MoeForConditionalGeneration"),
    { "llama4", "text_config", "llama4_text", "Llama4ForConditionalGeneration",
      { "vision_model.", "multi_modal_projector.", "model.vision_model.",
        "model.multi_modal_projector." }, .head_decides = false },
    { 0 },
};

const Family *family_find(const char *model_type, const char *architecture)
{
    for (const Family *f = families; f->name; f++)
        if (model_type ? strcmp(f->name, model_type) == 0
                       : architecture && strcmp(f->architecture[0], architecture) == 0)
            return f;
    return NULL;
}

const FamilyFlag *family_flag(const Family *f, size_t at)
{
    for (const FamilyFlag *g = f->flags; g < f->flags + 4 && g->name; g++)
        if (g->form == FORM_SIZE && g->at == at)
            return g;
    return NULL;
}

void family_one_theta(const Family *f, Config *c)
{
    if (f->window_unscaled && c->rope.type == ROPE_DEFAULT && c->theta_window == c->theta)
        c->theta_window = 0;
}

void family_latent(Config *c)
{
    double all = c->rope.type != ROPE_DEFAULT ? c->rope.mscale_all_dim : 0;
    c->kv_heads = 1;
    c->head_dim = c->rotary_dim + c->kv_lora;
    if (all != 0) {
        double m      = config_yarn_mscale(c->rope.factor, all);
        c->attn_scale = m * m / sqrt((double)config_query_dim(c));
    }
}

/* log(1 + exp(x)) */
static double softplus(double x)
{
    double e = math64_exp(-fabs(x)), rest = e < 1e-9 ? e : math64_log(1 + e);
    return x > 0 ? x + rest : rest;
}

void family_xielu(float out[4], double alpha_p, double alpha_n, double beta, double eps)
{
    out[0] = (float)softplus(alpha_p);
    out[1] = (float)(beta + softplus(alpha_n));
    out[2] = (float)beta;
    out[3] = (float)eps;
}

/* ---- Activations ----------------------------------------------------------------------------- */

static bool in_family(const Family *f, FfnKind kind)
{
    return ffn_gated(kind) != ((f->has & NO_GATE) != 0);
}

/* Is it one of some words? */
static bool is_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; n && (p = strstr(p, word)) != NULL; p++)
        if ((p == words || p[-1] == ' ') && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

bool family_activation(const Family *f, const char *word, FfnKind *out)
{
    if (f->has & GELU_IS_TANH && strcmp(word, "gelu") == 0)
        word = "gelu_pytorch_tanh";
    for (FfnKind i = 0; i < FFN_KINDS; i++)
        if (in_family(f, i) && is_word(ffn_activations[i].hf, word)) {
            *out = i;
            return true;
        }
    return false;
}

void family_activations(const Family *f, char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (FfnKind i = 0; i < FFN_KINDS; i++)
        if (in_family(f, i) && at < n)
            at += (size_t)snprintf(out + at, n - at, "%s%s", at ? ", " : "", ffn_activations[i].hf);
}

/* ---- Keys that change nothing ---------------------------------------------------------------- */

static const char harmless[] =
    " architectures model_type transformers_version torch_dtype dtype _name_or_path name_or_path "
    "auto_map use_cache"
    " initializer_range attention_dropout residual_dropout hidden_dropout embd_pdrop resid_pdrop "
    "attn_pdrop "
    "hidden_dropout_prob"
    " attention_probs_dropout_prob classifier_dropout pretraining_tp pad_token_id unk_token_id "
    "sep_token_id cls_token_id"
    " decoder_start_token_id output_attentions output_hidden_states output_scores return_dict "
    "return_dict_in_generate"
    " torchscript use_bfloat16 tf_legacy_loss max_length min_length do_sample early_stopping "
    "num_beams num_beam_groups"
    " diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty "
    "no_repeat_ngram_size"
    " encoder_no_repeat_ngram_size bad_words_ids num_return_sequences forced_bos_token_id "
    "forced_eos_token_id"
    " remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    "finetuning_task id2label"
    " label2id num_labels tokenizer_class prefix task_specific_params problem_type "
    "chunk_size_feed_forward"
    " max_sequence_length model_max_length tokenizer_model_max_length tokenizer_padding_side "
    "gradient_checkpointing"
    " use_flash_attention _flash_attn_2_enabled attn_implementation _attn_implementation "
    "_attn_implementation_autoset"
    " _attn_implementation_internal unsloth_version unsloth_fixed neftune_noise_alpha "
    "is_llama_config max_window_layers"
    " base_model_tp_plan keys_to_ignore_at_inference _commit_hash cache_implementation _num_labels"
    " output_router_logits router_aux_loss_coef router_jitter_noise reorder_and_upcast_attn"
    " summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj"
    " output_past eod_token_id custom_pipelines use_flash_attn transformers.js_config ";

static const char *const harmless_values[][2] = {
    { "is_encoder_decoder", "false" }, { "is_decoder", "false|true" },
    { "add_cross_attention", "false" },
    { "tie_encoder_decoder", "false" }, { "pruned_heads", "{}" }, { "rope_interleaved", "false" },
    { "use_sliding_window", "false" },
    { "partial_rotary_factor", "1" }, { "rotary_pct", "1" }, { "qk_norm", "false" },
    { "use_qk_norm", "false" },
    { "qk_layernorm", "false" }, { "use_parallel_residual", "false" },
    { "embedding_multiplier", "1" },
    { "residual_multiplier", "1" }, { "logits_scaling", "1" }, { "logit_scale", "1" },
    { "pad_to_multiple_of", "1" },
    { "bias", "false" }, { "qkv_bias", "false" }, { "use_qkv_bias", "false" },
    { "num_experts", "0|1" },
    { "num_local_experts", "0|1" }, { "attention_bias", "false" }, { "mlp_bias", "false" },
    { "use_bidirectional_attention", "false" }, { "is_causal", "true" },
    { "scale_attn_weights", "true" },
    { "scale_attn_by_inverse_layer_idx", "false" },
    { "use_mrope", "false" }, { "rotary_scaling_factor", "1" }, { "rope_type", "\"default\"" },
};

bool family_key_harmless(const char *name)
{
    size_t n = strlen(name);
    for (const char *p = harmless; n && !strchr(name, ' ') && (p = strstr(p, name)) != NULL; p++)
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

const char *family_key_harmless_value(const char *name)
{
    for (size_t i = 0; i < sizeof harmless_values / sizeof harmless_values[0]; i++)
        if (strcmp(harmless_values[i][0], name) == 0)
            return harmless_values[i][1];
    return NULL;
}
