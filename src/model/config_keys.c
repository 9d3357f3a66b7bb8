/* model/config_keys.c: the table of config keys. */
#include "model/config_keys.h"

#include <assert.h>
#include <string.h>

static const char *const norm_words[]      = { "rms", "layer", NULL };
static const char *const placement_words[] = { "pre", "post", "both", "parallel",
                                               "parallel2", "output", NULL };
#define FFN_WORD(kind, kernel, ...) #kernel,
const char *const ffn_words[] = { ACTIVATIONS(FFN_WORD) NULL };
#define OP_GATED(name)   name ", gate"
#define OP_PLAIN(name)   name
#define OP_NUMBERS(name) name
#define FFN_ROW(kind, kernel, form, name, flops, hf) { name, OP_##form(name), flops, hf },
const Activation ffn_activations[] = { ACTIVATIONS(FFN_ROW) };
static const char *const position_words[]  = { "rope", "learned", NULL };
static const char *const qk_norm_words[]   = { "none", "head", "vector", "heads", "plain", NULL };
static const char *const pool_words[]      = { "none", "mean", "last", "cls", "other", NULL };
static const char *const dense_words[]     = { "none", "tanh", "relu", "sigmoid", NULL };
static const char *const router_words[]    = { "softmax", "sigmoid", NULL };
const char *const rope_type_words[] = { "default", "linear",   "llama3",  "yarn",
                                        "factors", "longrope", "dynamic", NULL };

#define AT(field) offsetof(Config, field)
#define RANGE(field, kind_, least, most, flags_, hf_, gguf_, meta_)                            \
    { .name = #field, .kind = kind_, .at = AT(field), .min = least, .max = most, .flags = flags_, \
      .hf = hf_, .gguf = gguf_, .meta = meta_ }
#define INT(field, ...) RANGE(field, KEY_INT, __VA_ARGS__)
#define NUM(field, ...) RANGE(field, KEY_DOUBLE, __VA_ARGS__)
#define FLAG(field, flags_, hf_, gguf_) \
    { .name = #field, .kind = KEY_BOOL, .at = AT(field), .flags = flags_, .hf = hf_, .gguf = gguf_ }
#define WORD(field, words_, flags_, hf_) \
    { .name = #field, .kind = KEY_WORD, .at = AT(field), .flags = flags_, .hf = hf_,               \
      .words = words_ }
#define PART(field, kind_, flags_, hf_) \
    { .name = #field, .kind = kind_, .at = AT(field), .flags = flags_, .hf = hf_ }
enum {
    REQUIRED = KEY_REQUIRED,
    SPARSE = KEY_SPARSE,
    EXPERTS = KEY_SPARSE | KEY_OF_EXPERTS,
    STATES  = KEY_SPARSE | KEY_OF_STATES,
    LISTED = KEY_PER_LAYER
};

/* The three names of a row are those of Hugging Face, of GGUF (without the architecture) and of
 * Meta. Families that use another name say so in source/family.c. */
const ConfigKey config_keys[] = {
    PART(family, KEY_FAMILY, 0, "model_type"),
    INT(d_model, 1, MAX_WIDTH, REQUIRED, "hidden_size", "embedding_length", "dim"),
    INT(n_layers, 1, MAX_LAYERS, REQUIRED, "num_hidden_layers", "block_count", "n_layers"),
    INT(heads, 1, MAX_HEADS, REQUIRED | LISTED, "num_attention_heads", "attention.head_count",
        "n_heads"),
    INT(kv_heads, 1, MAX_HEADS, LISTED, "num_key_value_heads", "attention.head_count_kv",
        "n_kv_heads"),
    INT(head_dim, 2, MAX_HEAD, 0, "head_dim", "attention.key_length", "head_dim"),
    INT(d_ff, 1, MAX_FF, REQUIRED | LISTED, "intermediate_size", "feed_forward_length",
        "hidden_dim"),
    INT(vocab_size, 1, MAX_VOCAB, REQUIRED, "vocab_size", NULL, NULL),
    NUM(theta, 1, 1e15, 0, "rope_theta", "rope.freq_base", "rope_theta"),
    NUM(norm_eps, 1e-30, 1, 0, "rms_norm_eps", NULL, "norm_eps"),
    INT(n_ctx, 1, MAX_CTX, 0, "max_position_embeddings", "context_length", NULL),
    FLAG(tied_embeddings, 0, "tie_word_embeddings", NULL),
    WORD(norm, norm_words, 0, NULL),
    WORD(norm_placement, placement_words, 0, NULL),
    WORD(ffn, ffn_words, 0, "hidden_act"),
    FLAG(qkv_bias, 0, "attention_bias", NULL),
    FLAG(out_bias, 0, NULL, NULL),
    FLAG(ffn_bias, 0, "mlp_bias", NULL),
    WORD(qk_norm, qk_norm_words, KEY_OR_FALSE, NULL),
    INT(window, 0, MAX_CTX, 0, "sliding_window", "attention.sliding_window", "sliding_window"),
    WORD(positions, position_words, 0, NULL),
    PART(rope, KEY_ROPE, 0, "rope_scaling|rope_parameters"),
    FLAG(headless, SPARSE, NULL, NULL),
    FLAG(head_bias, SPARSE, "lm_head_bias", NULL),
    FLAG(norm_bias, SPARSE, NULL, NULL),
    FLAG(qk_norm_after_rope, SPARSE, NULL, NULL),
    FLAG(window_chunked, SPARSE, NULL, NULL),
    FLAG(bidirectional, SPARSE, NULL, NULL),
    PART(full_layers, KEY_LAYERS, SPARSE, NULL),
    PART(no_rope_layers, KEY_LAYERS, SPARSE, NULL),
    NUM(theta_window, 0, 1e15, SPARSE, "rope_local_base_freq", NULL, NULL),
    INT(rotary_dim, 2, MAX_HEAD, SPARSE, NULL, "rope.dimension_count", NULL),
    NUM(embed_scale, 1e-30, 1e30, SPARSE, "embedding_multiplier", "embedding_scale", NULL),
    NUM(residual_scale, 1e-30, 1e30, SPARSE, "residual_multiplier", "residual_scale", NULL),
    NUM(logit_scale, 1e-30, 1e30, SPARSE, "logit_scale", "logit_scale", NULL),
    NUM(attn_scale, 0, 1e30, SPARSE, "attention_multiplier", "attention.scale", NULL),
    NUM(query_scale, 0, 1e6, SPARSE, NULL, NULL, NULL),
    INT(query_scale_length, 0, MAX_CTX, SPARSE, NULL, NULL, NULL),
    FLAG(query_scale_unrotated, SPARSE, NULL, NULL),
    NUM(attn_softcap, 0, 1e30, SPARSE, "attn_logit_softcapping", "attn_logit_softcapping", NULL),
    NUM(logit_softcap, 0, 1e30, SPARSE, "final_logit_softcapping", "final_logit_softcapping", NULL),
    NUM(gate_limit, 0, 1e30, SPARSE, "swiglu_limit", NULL, NULL),
    NUM(gate_alpha, 0, 1e30, SPARSE, "swiglu_alpha", NULL, NULL),
    INT(kv_lora, 0, MAX_HEAD, SPARSE, "kv_lora_rank", "attention.kv_lora_rank", NULL),
    INT(q_lora, 0, MAX_WIDTH, SPARSE, "q_lora_rank", "attention.q_lora_rank", NULL),
    INT(nope_dim, 0, MAX_HEAD, SPARSE, "qk_nope_head_dim", NULL, NULL),
    INT(v_dim, 0, MAX_HEAD, SPARSE, "v_head_dim", "attention.value_length_mla", NULL),
    NUM(latent_norm_eps, 0, 1, SPARSE, NULL, NULL, NULL),
    FLAG(attn_sinks, SPARSE, NULL, NULL),
    FLAG(attn_gate, SPARSE, NULL, NULL),
    PART(state_layers, KEY_LAYERS, SPARSE, NULL),
    INT(conv_taps, 0, MAX_TAPS, STATES, "conv_L_cache", "shortconv.l_cache", NULL),
    FLAG(conv_bias, STATES, "conv_bias", NULL),
    INT(delta_heads, 0, MAX_HEADS, STATES, "linear_num_value_heads", "ssm.time_step_rank", NULL),
    INT(delta_key_heads, 0, MAX_HEADS, STATES, "linear_num_key_heads", "ssm.group_count", NULL),
    INT(delta_key_dim, 0, MAX_HEAD, STATES, "linear_key_head_dim", "ssm.state_size", NULL),
    INT(delta_value_dim, 0, MAX_HEAD, STATES, "linear_value_head_dim", NULL, NULL),
    FLAG(delta_tiled, STATES, NULL, NULL),
    NUM(qkv_clip, 0, 1e30, SPARSE, "clip_qkv", NULL, NULL),
    INT(n_experts, 0, MAX_EXPERTS, SPARSE, "num_experts|num_local_experts", "expert_count", NULL),
    INT(experts_used, 0, MAX_EXPERTS, EXPERTS, "num_experts_per_tok", "expert_used_count", NULL),
    INT(expert_d_ff, 0, MAX_FF, EXPERTS, "moe_intermediate_size",
        "expert_feed_forward_length", NULL),
    INT(shared_d_ff, 0, MAX_FF, EXPERTS, "shared_expert_intermediate_size",
        "expert_shared_feed_forward_length", NULL),
    FLAG(router_bias, EXPERTS, NULL, NULL),
    FLAG(expert_bias, EXPERTS, NULL, NULL),
    WORD(router_score, router_words, EXPERTS, NULL),
    FLAG(choice_bias, EXPERTS, NULL, NULL),
    INT(expert_groups, 0, MAX_EXPERTS, EXPERTS, "n_group", "expert_group_count", NULL),
    INT(groups_used, 0, MAX_EXPERTS, EXPERTS, "topk_group", "expert_group_used_count", NULL),
    FLAG(group_by_largest, EXPERTS, NULL, NULL),
    FLAG(renormalize, EXPERTS, "norm_topk_prob", "expert_weights_norm"),
    NUM(renormalize_min, 0, 1, EXPERTS, NULL, NULL, NULL),
    NUM(renormalize_add, 0, 1, EXPERTS, NULL, NULL, NULL),
    NUM(expert_scale, 1e-30, 1e30, EXPERTS, "routed_scaling_factor", "expert_weights_scale", NULL),
    FLAG(expert_input_scaled, EXPERTS, NULL, NULL),
    FLAG(shared_router, EXPERTS, NULL, NULL),
    PART(dense_layers, KEY_LAYERS, SPARSE, NULL),
    INT(mtp_layers, 0, 1, SPARSE, NULL, NULL, NULL),
    WORD(pool, pool_words, SPARSE, NULL),
    INT(dense1, 0, MAX_WIDTH, SPARSE, NULL, NULL, NULL),
    FLAG(dense1_bias, SPARSE, NULL, NULL),
    WORD(dense1_act, dense_words, SPARSE, NULL),
    INT(dense2, 0, MAX_WIDTH, SPARSE, NULL, NULL, NULL),
    FLAG(dense2_bias, SPARSE, NULL, NULL),
    WORD(dense2_act, dense_words, SPARSE, NULL),
    FLAG(labels, SPARSE, NULL, NULL),
    INT(bos, -1, MAX_VOCAB, 0, "bos_token_id", NULL, NULL),
    PART(eos, KEY_EOS, 0, "eos_token_id"),
    { 0 },
};
#undef AT

/* A factor below 1 would rotate by more than one radian per position; angles are not exact enough
 * for that. A Hugging Face config may leave out what follows from its context (hf_rope.c). */
#define LINEAR (1u << ROPE_LINEAR)
#define LLAMA3 (1u << ROPE_LLAMA3)
#define YARN   (1u << ROPE_YARN)
#define BY_LENGTH (1u << ROPE_LONGROPE | 1u << ROPE_DYNAMIC)
#define ROPE(field, least, most, types_, needed_, hf_needed_, hf_, gguf_)                          \
    { .name = #field, .kind = KEY_DOUBLE, .at = offsetof(Rope, field), .min = least, .max = most,  \
      .types = types_,                                                                             \
      .needed = needed_, .hf_needed = hf_needed_, .hf = hf_, .gguf = gguf_ }
const ConfigKey rope_keys[] = {
    /* types that have it, that need it, and that need it in a Hugging Face config */
    ROPE(factor,           1,    1e6,     LINEAR | LLAMA3 | YARN | BY_LENGTH,
         LINEAR | LLAMA3 | YARN | BY_LENGTH, LINEAR | LLAMA3 | 1u << ROPE_DYNAMIC,
         "factor", NULL),
    ROPE(low_freq_factor,  1e-6, 1e6,     LLAMA3, LLAMA3, LLAMA3, "low_freq_factor", NULL),
    ROPE(high_freq_factor, 1e-6, 1e6,     LLAMA3, LLAMA3, LLAMA3, "high_freq_factor", NULL),
    ROPE(original_n_ctx,   1,    MAX_CTX, LLAMA3 | YARN | BY_LENGTH, LLAMA3 | YARN | BY_LENGTH, 0,
         "original_max_position_embeddings", NULL),
    ROPE(beta_fast,        1e-6, 1e6,     YARN, 0, 0, "beta_fast", "rope.scaling.yarn_beta_fast"),
    ROPE(beta_slow,        1e-6, 1e6,     YARN, 0, 0, "beta_slow", "rope.scaling.yarn_beta_slow"),
    ROPE(attention_factor, 1e-6, 1e6,     YARN | 1u << ROPE_LONGROPE, 0, 0,
         "attention_factor", NULL),
    ROPE(mscale,           0,    1e6,     YARN, 0, 0, "mscale", NULL),
    ROPE(mscale_all_dim,   0,    1e6,     YARN, 0, 0, "mscale_all_dim", NULL),
    { .name = "truncate", .kind = KEY_BOOL, .at = offsetof(Rope, truncate), .types = YARN,
      .hf = "truncate" },
    { 0 },
};

_Static_assert(sizeof(Norm) == sizeof(int) && sizeof(RopeType) == sizeof(int),
               "enums are read and written as int");

const ConfigKey *config_key_at(size_t at)
{
    const ConfigKey *key = config_keys;
    while (key->name && key->at != at)
        key++;
    assert(key->name);
    return key;
}

size_t config_key_size(const ConfigKey *key)
{
    return key->kind == KEY_INT || key->kind == KEY_WORD ? sizeof(int)
        : key->kind == KEY_DOUBLE                        ? sizeof(double)
        : key->kind == KEY_BOOL                          ? sizeof(bool)
                                                         : sizeof(Layers);
}

bool config_key_default(const ConfigKey *key, const Config *c)
{
    Config none;
    config_defaults(&none);
    none.rotary_dim = c->head_dim;
    return memcmp((const char *)c + key->at, (const char *)&none + key->at, config_key_size(key))
        == 0;
}

int config_word_get(const void *field)
{
    int value;
    memcpy(&value, field, sizeof value);
    return value;
}

void config_word_set(void *field, int value) { memcpy(field, &value, sizeof value); }
