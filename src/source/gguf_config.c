/* source/gguf_config.c: converts the settings of a GGUF file to our config. */
#include "source/gguf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool maybe_flag(GgufReader *r, const char *key, bool *out)
{
    return !gguf_has(r, key) || key_bool(&r->keys, key, NULL, out);
}

/* Read a setting of any type as a number: true is 1, an array its largest magnitude. */
static bool any_number(GgufReader *r, const char *key, double *out)
{
    const GgufMeta  *m = r->keys.gguf;
    char             full[GGUF_NAME];
    const GgufEntry *e = gguf_find(m, gguf_name(&r->keys, key, full));
    int64_t          whole;
    int32_t         *list;
    size_t           n;
    bool             flag;
    if (e->type == GGUF_BOOL) {
        bool ok = gguf_read_bool(m, full, &flag, r->keys.err);
        *out    = flag;
        return ok;
    }
    if (e->type == GGUF_F32 || e->type == GGUF_F64)
        return gguf_read_number(m, full, out, r->keys.err);
    if (e->type != GGUF_ARRAY) {
        bool ok = gguf_read_int(m, full, INT64_MIN, INT64_MAX, &whole, r->keys.err);
        *out    = ok ? (double)whole : 0;
        return ok;
    }
    if (!gguf_read_ints(m, full, &list, &n, r->keys.err))
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = fabs((double)list[i]) > *out ? fabs((double)list[i]) : *out;
    free(list);
    return true;
}

/* Unsupported settings that change the result, with the values that leave it unchanged. */
static const struct Unknown { const char *key; double harmless[2]; } unknown[] = {
    { "attention.max_alibi_bias", { 0, 0 } },      { "attention.clamp_kqv", { 0, 0 } },
    { TEMPERATURE, { 0, 0 } },
    { "attention.temperature_length", { 0, 0 } },  { "attention.output_scale", { 0, 1 } },
    { "attention.value_scale", { 0, 1 } },         { "attention.shared_kv_layers", { 0, 0 } },
    { "attention.q_lora_rank", { 0, 0 } },         { "attention.kv_lora_rank", { 0, 0 } },
    { "moe_every_n_layers", { 0, 1 } },
    { "no_rope_layer_step", { 0, 0 } },            { "rope.scaling.alpha", { 0, 1 } },
    { LOG_MULTIPLIER, { 0, 0 } }, { "rope.scaling.yarn_ext_factor", { -1, 1 } },
    { "rope.scaling.yarn_attn_factor", { -1, 1 } }, { "swin_norm", { 0, 0 } },
};
/* The same if no layer has experts. */
static const struct Unknown of_experts[] = {
    { "expert_weights_scale", { 0, 1 } },      { "expert_gating_func", { 0, 1 } },
    { "expert_group_count", { 0, 1 } },        { "leading_dense_block_count", { 0, 0 } },
    { "interleave_moe_layer_step", { 0, 1 } },
};
enum {
    N_UNKNOWN = sizeof unknown / sizeof unknown[0],
    N_OF_EXPERTS = sizeof of_experts / sizeof of_experts[0]
};

/* Is this key read for files of the architecture? */
static bool is_read(const GgufReader *r, const char *key)
{
    unsigned flags = r->arch->flags;
    bool     log = strcmp(key, LOG_MULTIPLIER) == 0;
    return (flags & QUERY_SCALE && (log || strcmp(key, TEMPERATURE) == 0))
        || (flags & OF_DEEPSEEK && (log || strstr(key, "_lora_rank")));
}

/* Other unknown keys repeat what the tensors say, or do not change the result. llama.cpp skips keys
 * that it does not know, too. */
static bool nothing_unknown(GgufReader *r)
{
    int n = r->c->n_experts > 0 ? N_UNKNOWN : N_UNKNOWN + N_OF_EXPERTS;
    for (int i = 0; i < n; i++) {
        const struct Unknown *u = i < N_UNKNOWN ? &unknown[i] : &of_experts[i - N_UNKNOWN];
        double                x;
        if (!gguf_has(r, u->key) || is_read(r, u->key))
            continue;
        if (!any_number(r, u->key, &x))
            return false;
        if (x != u->harmless[0] && x != u->harmless[1])
            return key_wrong(
                &r->keys, u->key,
                "expected %g, found %g: it would change the result, and is not supported",
                u->harmless[1], x);
    }
    return true;
}

static const Tensor *layer_tensor(const GgufReader *r, int layer, const char *name)
{
    char full[GGUF_NAME];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    return gguf_tensor(r->f, full);
}

/* Of the first layer with attention. */
static const Tensor *first_layer_tensor(const GgufReader *r, const char *name)
{
    int l = 0;
    while (l + 1 < r->c->n_layers && config_state(r->c, l))
        l++;
    return layer_tensor(r, l, name);
}

/* ---- Parts of the config --------------------------------------------------------------------- */

/* LFM2: KV heads of each layer; one without any convolves. */
static bool read_state_layers(GgufReader *r)
{
    static const char key[] = "attention.head_count_kv";
    Config  *c = r->c;
    char     full[GGUF_NAME];
    int32_t *list;
    size_t   n;
    bool     ok = true;
    if (!gguf_read_ints(r->keys.gguf, gguf_name(&r->keys, key, full), &list, &n, r->keys.err))
        return false;
    if (n != (size_t)c->n_layers)
        ok = key_wrong(&r->keys, key, "expected %d items, one for each layer, found %zu",
                       c->n_layers, n);
    c->kv_heads = 0;
    for (size_t l = 0; ok && l < n; l++) {
        if (list[l] == 0)
            layers_add(&c->state_layers, (int)l);
        else if (list[l] < 0 || list[l] > KEY_LARGEST || (c->kv_heads && list[l] != c->kv_heads))
            ok = key_wrong(&r->keys, key, "expected 0 or one number in all layers, found %d",
                           (int)list[l]);
        else
            c->kv_heads = list[l];
    }
    free(list);
    c->kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    if (!config_has_state(c))
        config_no_states(c);
    return ok;
}

/* Qwen3-Next: a list of them, or all but every n-th. */
static bool delta_layers(GgufReader *r)
{
    static const char key[] = "attention.recurrent_layers", step[] = "full_attention_interval";
    Config  *c = r->c;
    char     full[GGUF_NAME];
    int32_t *list = NULL;
    size_t   n;
    int      every = 4;
    if (gguf_has(r, key) && !gguf_read_ints(r->keys.gguf, gguf_name(&r->keys, key, full), &list, &n,
                                       r->keys.err))
        return false;
    bool ok = list ? n >= (size_t)c->n_layers
                || key_wrong(&r->keys, key, "expected %d items, one for each layer, found %zu",
                             c->n_layers, n)
                   : !gguf_has(r, step) || key_size(&r->keys, step, NULL, &every);
    for (int l = 0; ok && l < c->n_layers; l++)
        if (list ? list[l] != 0 : (l + 1) % every != 0)
            layers_add(&c->state_layers, l);
    free(list);
    return ok;
}

/* The sizes of the gated delta rule. */
static bool read_delta(GgufReader *r)
{
    static const char *const needed[] = { "ssm.conv_kernel", "ssm.time_step_rank",
                                          "ssm.group_count", "ssm.state_size", "ssm.inner_size" };
    Config *c = r->c;
    int     values[5];
    if (!(r->arch->flags & OF_DELTA))
        return true;
    for (int i = 0; i < 5; i++)
        if (!key_size(&r->keys, needed[i], NULL, &values[i]))
            return false;
    c->conv_taps = values[0];
    if (values[4] % values[1] != 0)
        return key_wrong(&r->keys, needed[4], "expected a multiple of ssm.time_step_rank %d, found "
                                              "%d", values[1], values[4]);
    c->delta_value_dim = values[4] / values[1];
    c->delta_tiled = r->arch->flags & TILED_HEADS && values[2] > 1 && values[1] > values[2];
    c->attn_gate = true;
    if (!delta_layers(r))
        return false;
    if (!config_has_state(c))
        config_no_states(c);
    return true;
}

/* Is it a list that names recurrent layers? */
static bool lists_states(const GgufReader *r, const ConfigKey *k)
{
    char full[GGUF_NAME];
    return r->arch->flags & OF_LFM2 && k->at == offsetof(Config, kv_heads)
        && gguf_find(r->keys.gguf, gguf_name(&r->keys, k->gguf, full))->type == GGUF_ARRAY;
}

/* Read every key of the table that the file has; keys of experts only if there are experts. */
static bool read_table(GgufReader *r)
{
    static const size_t needed[] = { offsetof(Config, d_model), offsetof(Config, n_layers),
                                     offsetof(Config, n_ctx) };
    Config *c = r->c;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!key_size(&r->keys, config_key_at(needed[i])->gguf, NULL,
                      (int *)(void *)((char *)c + needed[i])))
            return false;
    if (c->n_layers > MAX_LAYERS) /* before any loop over the layers */
        return key_wrong(&r->keys, "block_count", "expected at most %d, found %d", MAX_LAYERS,
                         c->n_layers);
    for (const ConfigKey *k = config_keys; k->name; k++)
        if (k->gguf && (c->n_experts || !(k->flags & KEY_OF_EXPERTS)) && gguf_has(r, k->gguf)
            && !lists_states(r, k) && !key_read(&r->keys, k, k->gguf, NULL, c))
            return false;
    if (c->heads < 1 && !key_size(&r->keys, "attention.head_count", NULL, &c->heads))
        return false;
    const ConfigKey *kv = config_key_at(offsetof(Config, kv_heads));
    return !gguf_has(r, kv->gguf) || !lists_states(r, kv) || read_state_layers(r);
}

/* Latent attention, as in files since April 2025: the lengths of K and V are those of the latent
 * vector; the heads' lengths have separate keys. */
static bool read_latent(GgufReader *r)
{
    static const char *const needed[] = { "attention.kv_lora_rank", "attention.key_length_mla",
                                          "attention.value_length_mla", "rope.dimension_count" };
    Config *c = r->c;
    int     q = 0;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!gguf_has(r, needed[i]))
            return key_wrong(&r->keys, needed[i], "expected a size, found no such key (files from "
                                                  "before April 2025 have none: make it again)");
    if (!key_size(&r->keys, "attention.key_length_mla", NULL, &q))
        return false;
    c->nope_dim = q - c->rotary_dim;
    return q > c->rotary_dim
        || key_wrong(&r->keys, "attention.key_length_mla",
                     "expected more than rope.dimension_count %d, found %d", c->rotary_dim, q);
}

/* Fill in the sizes that the file omits. */
static bool read_sizes(GgufReader *r)
{
    Config       *c = r->c;
    const Tensor *embed = gguf_tensor(r->f, "token_embd.weight");
    if (!gguf_has(r, "attention.key_length") && c->d_model % c->heads != 0)
        return key_wrong(&r->keys, "embedding_length",
                         "expected a multiple of head_count %d, found %d", c->heads, c->d_model);
    if (!gguf_maybe_size(r, "nextn_predict_layers", &r->source->next_layers))
        return false;
    if (r->source->next_layers >= c->n_layers)
        return key_wrong(&r->keys, "nextn_predict_layers",
                         "expected less than block_count %d, found %d", c->n_layers,
                         r->source->next_layers);
    c->n_layers -= r->source->next_layers; /* which are counted too */
    if (!gguf_has(r, "attention.head_count_kv"))
        c->kv_heads = c->heads;
    if (!gguf_has(r, "attention.key_length"))
        c->head_dim = c->d_model / c->heads;
    if (!gguf_has(r, "rope.dimension_count"))
        c->rotary_dim = c->head_dim;
    if (r->arch->flags & OF_DEEPSEEK && !read_latent(r))
        return false;
    int v_dim = c->kv_lora ? c->kv_lora : c->head_dim;
    int v_want = v_dim;
    if (!gguf_maybe_size(r, "attention.value_length", &v_dim))
        return false;
    if (v_dim != v_want)
        return key_wrong(&r->keys, "attention.value_length", "expected %s %d, found %d",
                         c->kv_lora ? "kv_lora_rank" : "key_length", v_want, v_dim);
    if (!embed || embed->rank != 2 || embed->shape[0] > KEY_LARGEST)
        return fail(r->keys.err, INPUT, "%s: tensor token_embd.weight: expected a matrix, found %s",
                    r->keys.path, embed ? "another shape" : "no such tensor");
    c->vocab_size = (int)embed->shape[0];
    return true;
}

static bool read_norms(GgufReader *r)
{
    Config           *c    = r->c;
    const FamilyFlag *side = family_flag(r->family, offsetof(Config, norm_placement));
    bool              parallel = side && side->absent;
    c->norm      = r->family->norm;
    c->norm_bias = r->family->has & HAS_NORM_BIAS;
    if (!maybe_flag(r, "use_parallel_residual", &parallel))
        return false;
    /* A stablelm file has no flag for parallel sublayers: it just has no second norm. */
    if (side && side->if_true == PLACE_PARALLEL && !first_layer_tensor(r, "ffn_norm.weight"))
        parallel = true;
    c->norm_placement = parallel && side ? (NormPlacement)side->if_true : r->family->placement;
    return key_number(&r->keys,
                      c->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                          : "attention.layer_norm_epsilon",
                      NULL, &c->norm_eps);
}

/* 0: there is no such matrix. */
static int rows_of(const GgufReader *r, const char *name)
{
    const Tensor *t = gguf_tensor(r->f, name);
    return t && t->rank == 2 && t->shape[0] <= KEY_LARGEST ? (int)t->shape[0] : 0;
}

/* Biases, norms of q and k, and a head have no keys: the tensors show them, as in llama.cpp. */
static void see_tensors(const GgufReader *r)
{
    Config           *c    = r->c;
    const FamilyFlag *norm = family_flag(r->family, offsetof(Config, qk_norm));
    c->tied_embeddings = !gguf_tensor(r->f, "output.weight");
    if (c->pool != POOL_UNSAID && c->pool != POOL_OTHER) {
        c->dense1 = rows_of(r, "dense_2.weight");
        c->dense2 = c->dense1 ? rows_of(r, "dense_3.weight") : 0;
    }
    c->qkv_bias = first_layer_tensor(r, "attn_q.bias") || first_layer_tensor(r, "attn_qkv.bias");
    c->out_bias = first_layer_tensor(r, "attn_output.bias") != NULL;
    for (int l = 0; l < c->n_layers; l++)
        c->conv_bias |= config_state(c, l) && layer_tensor(r, l, "shortconv.in_proj.bias");
    c->attn_sinks = first_layer_tensor(r, "attn_sinks.weight") != NULL;
    c->ffn_bias = first_layer_tensor(r, "ffn_up.bias") != NULL;
    c->qk_norm_after_rope = r->family->has & QK_NORM_ROTATED;
    if (r->arch->flags & OF_LLAMA4) { /* llama.cpp: all but the variant of 128 experts */
        c->qk_norm            = c->n_experts == 128 ? QK_NONE : QK_PLAIN;
        c->qk_norm_after_rope = c->qk_norm != QK_NONE;
    }
    if (first_layer_tensor(r, "attn_q_norm.weight"))
        c->qk_norm = norm ? (QkNorm)norm->if_true
            : r->family->qk_norm ? r->family->qk_norm
                                 : QK_HEAD;
}

/* Read which layers have no window from a list of flags; true: the layer has one. */
static bool listed_windows(GgufReader *r)
{
    Config  *c = r->c;
    char     full[GGUF_NAME];
    int32_t *list;
    size_t   n;
    if (!gguf_read_ints(r->keys.gguf, gguf_name(&r->keys, WINDOW_PATTERN, full), &list, &n,
                        r->keys.err))
        return false;
    bool ok = n >= (size_t)c->n_layers
        || key_wrong(&r->keys, WINDOW_PATTERN, "expected %d items, one for each layer, found %zu",
                     c->n_layers, n);
    for (int l = 0; ok && c->window && l < c->n_layers; l++)
        if (!list[l])
            layers_add(&c->full_layers, l);
    free(list);
    return ok;
}

/* Llama 4, as in llama.cpp's src/models/llama4.cpp. */
static bool read_chunks(GgufReader *r)
{
    enum { CHUNK = 8192 };
    Config *c = r->c;
    if (!(r->arch->flags & OF_LLAMA4))
        return true;
    if (gguf_has(r, "attention.sliding_window") && c->window != CHUNK)
        return key_wrong(&r->keys, "attention.sliding_window", "expected %d, found %d", CHUNK,
                         c->window);
    c->window                = c->query_scale_length = CHUNK;
    c->query_scale           = 0.1;
    c->query_scale_unrotated = c->window_chunked = true;
    return true;
}

static bool read_window(GgufReader *r)
{
    Config          *c     = r->c;
    int every = r->arch->full_every ? r->arch->full_every : r->family->window_every, n_full = 0;
    char             full[GGUF_NAME];
    const GgufEntry *pattern = gguf_find(r->keys.gguf, gguf_name(&r->keys, WINDOW_PATTERN, full));
    bool             listed  = pattern && pattern->type == GGUF_ARRAY;
    if (!(listed ? listed_windows(r) : gguf_maybe_size(r, WINDOW_PATTERN, &every)))
        return false;
    for (int l = 0; !listed && c->window && every > 0 && l < c->n_layers; l++)
        if ((l + 1) % every == 0)
            layers_add(&c->full_layers, l);
    for (int l = 0; l < c->n_layers; l++)
        n_full += layers_has(&c->full_layers, l);
    if (c->window && r->family->rope_rule == ROPE_WINDOWED)
        c->no_rope_layers = c->full_layers;
    for (int l = 0, n = r->arch->no_rope_every; n && l < c->n_layers; l++)
        if ((l + 1) % n == 0)
            layers_add(&c->no_rope_layers, l);
    if (c->window >= c->n_ctx || n_full == c->n_layers) { /* the window would hide nothing */
        c->window         = 0;
        c->window_chunked = false;
        c->full_layers    = (Layers){ 0 };
    }
    return true;
}

/* llama.cpp, llama_hparams::is_masked_swa: at most half of the window away. */
static bool read_directions(GgufReader *r)
{
    Config *c      = r->c;
    bool    causal = !(r->arch->flags & BOTH_DIRECTIONS);
    if (!maybe_flag(r, "attention.causal", &causal))
        return false;
    c->bidirectional = !causal;
    if (r->arch->flags & BOTH_DIRECTIONS && !causal)
        c->window = c->window ? c->window / 2 + 1 : 0;
    else if (c->bidirectional && c->window)
        return key_wrong(&r->keys, "attention.sliding_window", "expected none where attention goes "
                                                               "in both directions, found %d",
                         c->window);
    return true;
}

static void read_scales(const GgufReader *r)
{
    Config  *c     = r->c;
    unsigned flags = r->arch->flags;
    if (r->family->has & EMBED_SCALED && !gguf_has(r, "embedding_scale"))
        c->embed_scale = sqrt((double)c->d_model);
    if (flags & LAST_SCALE && c->n_layers == r->arch->big_layers && !gguf_has(r, "attention.scale"))
        c->attn_scale = 1 / sqrt((double)c->d_model / c->heads);
    if (flags & OF_GPT_OSS) {
        c->gate_limit = 7;
        c->gate_alpha = 1.702;
    }
    if (flags & DIVIDE && c->logit_scale != 0)
        c->logit_scale = 1 / c->logit_scale;
}

/* The number of a gating function in llama.cpp: softmax, sigmoid, softmax of the chosen. */
static bool read_score(GgufReader *r)
{
    Config *c = r->c;
    bool    sigmoid = r->family->has & SIGMOID_ROUTER && !(r->arch->flags & OF_DEEPSEEK);
    int     func = 0;
    if (!gguf_has(r, "expert_weights_norm"))
        c->renormalize = r->arch->flags & RENORMALIZE;
    if (!gguf_maybe_size(r, "expert_gating_func", &func))
        return false;
    if (func > 3)
        return key_wrong(&r->keys, "expert_gating_func", "expected at most 3, found %d", func);
    c->router_score = func == 2 || (func == 0 && sigmoid) ? ROUTER_SIGMOID : ROUTER_SOFTMAX;
    c->renormalize |= func == 3;
    c->renormalize_min = c->renormalize ? r->family->renormalize_min : 0;
    c->renormalize_add = c->renormalize ? r->family->renormalize_add : 0;
    if (c->expert_groups <= 1 || c->expert_groups == c->groups_used)
        c->expert_groups = c->groups_used = 0;
    if (c->router_score == ROUTER_SOFTMAX && c->expert_groups > 0) /* DeepSeek V2: another sum */
        return key_wrong(&r->keys, "expert_group_count",
                         "expected 1 where the router is a softmax, found %d", c->expert_groups);
    if (c->expert_scale == 0) /* llama.cpp: none */
        c->expert_scale = 1;
    return true;
}

/* The first layer with experts shows what all have. */
static void see_experts(GgufReader *r)
{
    Config *c = r->c;
    int     l = 0;
    while (l < c->n_layers && !config_moe(c, l))
        l++;
    const Tensor *shared = layer_tensor(r, l, "ffn_gate_shexp.weight");
    if (shared && shared->rank == 2 && shared->shape[0] <= KEY_LARGEST)
        c->shared_d_ff = (int)shared->shape[0];
    else if (!shared && r->family->has & SHARED_COUNTED)
        c->shared_d_ff = 0;
    c->choice_bias   = layer_tensor(r, l, "exp_probs_b.bias") != NULL;
    c->router_bias   = layer_tensor(r, l, "ffn_gate_inp.bias") != NULL;
    c->expert_bias   = layer_tensor(r, l, "ffn_gate_exps.bias") != NULL;
    c->shared_router = r->family->has & HAS_SHARED_ROUTER && c->shared_d_ff > 0;
    c->expert_input_scaled = r->family->has & SCORES_SCALE_INPUT;
}

static bool read_experts(GgufReader *r)
{
    Config *c = r->c;
    int     first = 0, step = 1;
    if (c->n_experts == 0)
        return true;
    if (!gguf_has(r, "expert_feed_forward_length"))
        c->expert_d_ff = c->d_ff;
    if (c->experts_used < 1 && !key_size(&r->keys, "expert_used_count", NULL, &c->experts_used))
        return false;
    if (!gguf_maybe_size(r, "leading_dense_block_count", &first)
        || !gguf_maybe_size(r, "interleave_moe_layer_step", &step) || !read_score(r))
        return false;
    for (int l = 0; l < c->n_layers; l++)
        if (l < first || (step > 0 && (l + 1) % step != 0))
            layers_add(&c->dense_layers, l);
    see_experts(r);
    if (c->d_ff == 0)
        c->d_ff = c->expert_d_ff;
    return true;
}

/* Read an id of the vocabulary. -1 if there is no such key, or if no token has the id. */
static bool read_id(GgufReader *r, const char *key, int *out)
{
    int64_t id;
    *out = -1;
    if (!gguf_find(r->keys.gguf, key))
        return true;
    if (!gguf_read_int(r->keys.gguf, key, INT64_MIN, INT64_MAX, &id, r->keys.err))
        return false;
    if (id >= 0 && id < r->c->vocab_size)
        *out = (int)id;
    else if (id != -1 && id != UINT32_MAX)
        return source_warn(r->source, r->keys.err,
                           "%s: key %s: %lld is outside of the vocabulary of %d: left out",
                           r->keys.path, key, (long long)id, r->c->vocab_size);
    return true;
}

/* llama.cpp's enum llama_pooling_type: 4 is a score of a reranker. */
static bool read_pool(GgufReader *r)
{
    static const PoolKind kinds[] = { POOL_UNSAID, POOL_MEAN, POOL_CLS, POOL_LAST };
    double                type    = 0;
    if (gguf_has(r, "pooling_type") && !any_number(r, "pooling_type", &type))
        return false;
    r->c->pool = type == -1 ? POOL_UNSAID
        : type >= 0 && type < 4 ? kinds[(int)type]
                                : POOL_OTHER;
    return true;
}

static bool read_ids(GgufReader *r)
{
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    Config *c = r->c;
    if (!read_id(r, "tokenizer.ggml.bos_token_id", &c->bos))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int  id;
        bool known = false;
        if (!read_id(r, ends[i], &id))
            return false;
        for (int j = 0; j < c->n_eos; j++)
            known |= c->eos[j] == id;
        if (id >= 0 && !known)
            c->eos[c->n_eos++] = id;
    }
    return true;
}

bool gguf_config(Source *s, const GgufArch *a, Error *err)
{
    Config    *c = &s->stored.config;
    char       prefix[32];
    GgufReader r = {
        .keys = { .path = s->path, .prefix = prefix, .gguf = s->gguf.meta, .err = err },
        .arch = a,
        .family = family_find(a->family, NULL),
        .f = &s->gguf,
        .c = c,
        .source = s
    };
    snprintf(prefix, sizeof prefix, "%s.", a->name);
    config_defaults(c);
    family_activation(r.family, r.family->act, &c->ffn);
    c->positions = r.family->positions;
    if (a->window_family && gguf_has(&r, "attention.sliding_window"))
        r.family = family_find(a->window_family, NULL);
    if (!read_table(&r) || !read_sizes(&r) || !read_delta(&r) || !read_norms(&r) || !read_chunks(&r)
        || !read_directions(&r) || !read_window(&r) || !read_experts(&r) || !gguf_read_rope(&r)
        || !gguf_read_window_theta(&r) || !gguf_read_query_scale(&r) || !read_pool(&r)
        || !read_ids(&r) || !nothing_unknown(&r))
        return false;
    if (c->kv_lora > 0)
        family_latent(c);
    read_scales(&r);
    see_tensors(&r);
    snprintf(c->family, sizeof c->family, "%s",
             c->n_experts && a->moe_family ? a->moe_family : r.family->name);
    return config_check(c, s->path, err) && config_supported(c, s->path, err);
}
