/* source/family.c: the table of families. */
#include "source/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

#define AT(field) offsetof(Config, field)
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
    { .name = "phi", .architecture = { "PhiForCausalLM" }, .keys = phi_keys,
      .tensors = phi_tensors, LLAMA_NAMES("gelu_new", 10000, ALL_ROPES),
      .norm = NORM_LAYER, .placement = PLACE_PARALLEL,
      .has = HAS_NORM_BIAS | HAS_QKV_BIAS | HAS_OUT_BIAS | HAS_FFN_BIAS | NO_GATE,
      .rotary = 0.5, .rotary_keys = "partial_rotary_factor", .bos = 1, .eos = 2 },
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
