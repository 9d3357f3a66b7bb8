/* source/family_keys.c: the keys of config.json by family, with the values that absent ones mean;
 * and those that change nothing. */
#include <math.h>
#include <string.h>

#include "source/family.h"

/* ---- Keys that are read ---------------------------------------------------------------------- */

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

const FamilyKey no_keys[]      = { END };
const FamilyKey mistral_keys[] = {
    SIZE(d_ff, 14336), SIZE(n_ctx, 4096 * 32), OR_NULL(kv_heads, 8), END,
};
const FamilyKey qwen2_keys[] = {
    SIZE(vocab_size, 151936), SIZE(d_ff, 22016), SIZE(n_ctx, 32768), OR_NULL(kv_heads, 32), END,
};
const FamilyKey qwen2_vl_keys[] = {
    SIZES(8192, 80, 64, 29568, 152064, 32768), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8), END,
};
const FamilyKey qwen3_keys[] = {
    SIZE(vocab_size, 151936), SIZE(d_ff, 22016), SIZE(n_ctx, 32768), OR_NULL(kv_heads, 32),
    OR_NULL(head_dim, 128), END,
};
const FamilyKey qwen3_vl_keys[] = {
    SIZES(4096, 32, 32, 22016, 151936, 128000), OR_NULL(kv_heads, 32), OR_NULL(head_dim, 128), END,
};
const FamilyKey qwen2_moe_keys[] = {
    SIZES(2048, 24, 16, 5632, 151936, 32768), QWEN_MOE(60, 4, 1408), SIZE(shared_d_ff, 5632),
    OR_NULL(kv_heads, 16), END,
};
const FamilyKey qwen3_moe_keys[] = {
    SIZES(2048, 24, 32, 6144, 151936, 32768), QWEN_MOE(128, 8, 768), OR_NULL(kv_heads, 4), END,
};
const FamilyKey mixtral_keys[] = {
    SIZE(d_ff, 14336), SIZE(n_ctx, 4096 * 32), NUMBER(norm_eps, 1e-5),
    SIZE_AS("num_local_experts|num_experts", n_experts, 8), SIZE(experts_used, 2),
    OR_NULL(kv_heads, 8), END,
};
const FamilyKey phi3_keys[] = {
    SIZES(3072, 32, 32, 8192, 32064, 4096), NUMBER(norm_eps, 1e-5), END,
};
const FamilyKey gemma_keys[] = {
    SIZES(3072, 28, 16, 24576, 256000, 8192), TIED, OR_NULL(kv_heads, 16), OR_NULL(head_dim, 256),
    END,
};
const FamilyKey gemma2_keys[] = {
    SIZES(2304, 26, 8, 9216, 256000, 8192), TIED, GEMMA2(50, 30),
    OR_NULL(kv_heads, 4), OR_NULL(head_dim, 256), END,
};
const FamilyKey gemma3_keys[] = {
    SIZES(2304, 26, 8, 9216, 262208, 131072), TIED, GEMMA2(NAN, NAN),
    OR_NULL(kv_heads, 4), OR_NULL(head_dim, 256), END,
};
const FamilyKey olmo2_keys[]   = { SIZE(vocab_size, 50304), NUMBER(norm_eps, 1e-5), END };
const FamilyKey olmoe_keys[] = {
    SIZES(2048, 16, 16, 2048, 50304, 4096), NUMBER(norm_eps, 1e-5), NONE(head_dim),
    SIZE_AS("num_experts|num_local_experts", n_experts, 64), SIZE(experts_used, 8),
    FLAG(renormalize, false), { FORM_OR_NULL, NULL, AT(qkv_clip), NAN }, END,
};
#define GRANITE_NUMBERS                                                                            \
    NUMBER(embed_scale, 1), NUMBER(residual_scale, 1), { FORM_POSITIVE, NULL, AT(attn_scale), 1 }, \
    { FORM_INVERSE, "logits_scaling", AT(logit_scale), 1 }
#define GRANITE_MOE                                                                                \
    GRANITE_NUMBERS, SIZE_AS("num_local_experts|num_experts", n_experts, 8), SIZE(experts_used, 2)
const FamilyKey granite_keys[]        = { GRANITE_NUMBERS, END };
const FamilyKey granite_swa_keys[]    = {
    SIZES(2560, 24, 20, 8192, 100352, 8192), NUMBER(norm_eps, 1e-5), TIED, OR_NULL(kv_heads, 4),
    GRANITE_NUMBERS, END,
};
const FamilyKey granite_moe_keys[]    = { GRANITE_MOE, END };
const FamilyKey granite_shared_keys[] = {
    GRANITE_MOE, COUNT_AS("shared_intermediate_size", shared_d_ff, 0), END,
};
const FamilyKey minimax_m2_keys[] = {
    SIZES(3072, 62, 48, 1536, 200064, 196608), OR_NULL(kv_heads, 8), OR_NULL(head_dim, 128),
    SIZE_AS("num_local_experts|num_experts", n_experts, 256), SIZE(experts_used, 8), END,
};
const FamilyKey gpt_oss_keys[] = {
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
const FamilyKey glm4_moe_keys[] = {
    SIZES(4096, 46, 96, 10944, 151552, 131072), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    SIZE_AS("n_routed_experts|num_local_experts|num_experts", n_experts, 128),
    SIZE(experts_used, 8), SIZE(expert_d_ff, 1408), GROUPS(1, 1, 1), END,
};
const FamilyKey deepseek_v3_keys[] = {
    SIZES(7168, 61, 128, 18432, 129280, 4096), OR_NULL(kv_heads, 128), LATENT_SIZES(1536, 128, 128),
    SIZE_AS("n_routed_experts|num_local_experts", n_experts, 256),
    SIZE(experts_used, 8), SIZE(expert_d_ff, 2048), GROUPS(8, 4, 2.5), END,
};
const FamilyKey deepseek_v2_keys[] = {
    SIZES(4096, 32, 32, 11008, 102400, 2048), LATENT_SIZES(1536, 128, 128),
    SIZE_AS("n_routed_experts|num_experts", n_experts, 64), SIZE(experts_used, 0),
    SIZE(expert_d_ff, 1407), OR_NULL(expert_groups, 0), OR_NULL(groups_used, 0),
    NUMBER(expert_scale, 1), COUNT_AS("n_shared_experts", shared_d_ff, 2), END,
};
const FamilyKey glm4_moe_lite_keys[] = {
    SIZES(2048, 47, 20, 10240, 154880, 202752), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 20),
    LATENT_SIZES(768, 192, 256), SIZE_AS("n_routed_experts|num_local_experts", n_experts, 64),
    SIZE(experts_used, 4), SIZE(expert_d_ff, 1536), GROUPS(1, 1, 1.8), END,
};
const FamilyKey ernie4_5_moe_keys[] = {
    SIZES(2560, 28, 20, 12288, 103424, 131072), NUMBER(norm_eps, 1e-5), TIED, OR_NULL(kv_heads, 4),
    SIZE_AS("moe_num_experts|num_experts|num_local_experts", n_experts, 64),
    SIZE_AS("moe_k|num_experts_per_tok", experts_used, 6), SIZE(expert_d_ff, 1536),
    COUNT_AS("moe_num_shared_experts", shared_d_ff, 2),
    NUMBER_AS("moe_norm_min", renormalize_min, 1e-12), END,
};
const FamilyKey llama4_keys[] = {
    SIZES(5120, 48, 40, 16384, 202048, 131072), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    OR_NULL(head_dim, 128), SIZE_AS("intermediate_size_mlp", d_ff, 16384),
    SIZE_AS("intermediate_size", expert_d_ff, 8192),
    SIZE_AS("num_local_experts|num_experts", n_experts, 16), SIZE(experts_used, 1),
    NUMBER_AS("attn_scale", query_scale, 0.1), SIZE_AS("floor_scale", query_scale_length, 8192),
    END,
};
const FamilyKey cohere_keys[] = {
    SIZES(8192, 40, 64, 22528, 256000, 8192), TIED, LAYER_NORM_EPS, NUMBER(logit_scale, 0.0625),
    END,
};
const FamilyKey stablelm_keys[] = {
    SIZES(2560, 32, 32, 6912, 50304, 4096), LAYER_NORM_EPS, OR_NULL(kv_heads, 32), NONE(head_dim),
    END,
};
const FamilyKey gpt2_keys[] = {
    SIZE_AS("n_embd|hidden_size", d_model, 768), SIZE_AS("n_layer|num_hidden_layers", n_layers, 12),
    SIZE_AS("n_head|num_attention_heads", heads, 12),
    { FORM_SIZE_OR_NULL, "n_inner", AT(d_ff), 0 }, SIZE(vocab_size, 50257),
    SIZE_AS("n_positions|max_position_embeddings", n_ctx, 1024),
    NUMBER_AS("layer_norm_epsilon", norm_eps, 1e-5), TIED, NONE(kv_heads), NONE(head_dim), END,
};
const FamilyKey seed_oss_keys[] = {
    SIZES(4096, 64, 80, 27648, 155136, 524288), OR_NULL(kv_heads, 8), OR_NULL(head_dim, 128), END,
};
const FamilyKey glm4_keys[] = {
    SIZES(4096, 40, 32, 13696, 151552, 131072), NUMBER(norm_eps, 1.5625e-7), OR_NULL(kv_heads, 2),
    OR_NULL(head_dim, 128), END,
};
const FamilyKey ernie4_5_keys[] = {
    SIZES(1024, 18, 16, 3072, 103424, 131072), NUMBER(norm_eps, 1e-5), TIED, OR_NULL(kv_heads, 2),
    OR_NULL(head_dim, 128), END,
};
const FamilyKey helium_keys[] = {
    SIZES(2560, 24, 20, 7040, 48000, 4096), NUMBER(norm_eps, 1e-8), OR_NULL(kv_heads, 20),
    OR_NULL(head_dim, 128), END,
};
const FamilyKey smollm3_keys[] = {
    SIZES(2048, 36, 16, 11008, 128256, 32768), TIED, OR_NULL(kv_heads, 4), END,
};
const FamilyKey exaone4_keys[] = {
    SIZES(4096, 32, 32, 16384, 102400, 2048), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 32), END,
};
const FamilyKey hunyuan_keys[] = {
    SIZE(vocab_size, 290943), NUMBER(norm_eps, 1e-5), END,
};
const FamilyKey arcee_keys[] = {
    SIZES(2560, 32, 32, 18432, 32000, 4096), NUMBER(norm_eps, 1e-5), END,
};
const FamilyKey nemotron_keys[] = {
    SIZES(6144, 32, 48, 24576, 256000, 4096), NUMBER_AS("norm_eps", norm_eps, 1e-5), END,
};
const FamilyKey ministral3_keys[] = {
    SIZES(4096, 34, 32, 14336, 131072, 262144), NUMBER(norm_eps, 1e-5), OR_NULL(kv_heads, 8),
    OR_NULL(head_dim, 128), END,
};
#define LFM2_KEYS                                                                                  \
    SIZE(vocab_size, 65536), SIZE(n_ctx, 128000), NUMBER_AS("norm_eps", norm_eps, 1e-5),           \
    OR_NULL(kv_heads, 8), SIZE(conv_taps, 3), FLAG(conv_bias, false),                              \
    { FORM_FLAG, "tie_word_embeddings|tie_embedding", AT(tied_embeddings), true }
const FamilyKey lfm2_keys[] = {
    LFM2_KEYS, SIZE(d_model, 2560), SIZE_AS("intermediate_size|block_ff_dim", d_ff, 12288), END,
};
const FamilyKey lfm2_moe_keys[] = {
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
const FamilyKey qwen3_next_keys[] = {
    SIZES(2048, 48, 16, 5632, 151936, 32768), DELTA_KEYS, DELTA_EXPERTS(512, 10),
    FLAG(renormalize, true), END,
};
const FamilyKey qwen3_5_keys[] = {
    SIZES(4096, 32, 16, 12288, 248320, 32768), DELTA_KEYS, OR_NULL(kv_heads, 4), END,
};
const FamilyKey qwen3_5_moe_keys[] = {
    SIZES(2048, 40, 16, 512, 248320, 32768), DELTA_KEYS, DELTA_EXPERTS(256, 8), END,
};
const FamilyKey apertus_keys[] = {
    SIZE(d_ff, 14336), SIZE(vocab_size, 131072), SIZE(n_ctx, 65536), NUMBER(norm_eps, 1e-5), END,
};
const FamilyKey phi_keys[] = {
    SIZES(2048, 24, 32, 8192, 51200, 2048), LAYER_NORM_EPS, FLAG(head_bias, true), END,
};
const FamilyKey neox_keys[] = {
    SIZES(6144, 44, 64, 24576, 50432, 2048), LAYER_NORM_EPS, NONE(kv_heads), NONE(head_dim), END,
};

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
