/* model/config.c: defaults, ranges and contradictions of a config, and its rotary frequencies.
 * Knows no JSON. */
#include "model/config.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"
#include "model/config_keys.h"

/* parameters of one of their three matrices, in all blocks */
static const uint64_t MOST_IN_EXPERTS = UINT64_C(1) << 58;

void config_defaults(Config *c)
{
    *c = (Config){ .family = "llama", .n_ctx = 2048, .theta = 10000, .norm_eps = 1e-6, .bos = -1,
                   .embed_scale = 1, .residual_scale = 1, .logit_scale = 1,
                   .expert_scale = 1 };
    c->rope = (Rope){ .type = ROPE_DEFAULT,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .attention_factor = -1,
                      .truncate = true };
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* One number or word of the config, or of its rope object (prefix "rope."), against its row of the
 * table. */
static bool check_key(const ConfigKey *key, const void *base, const char *what, const char *prefix,
                      Error *err)
{
    const void *field = (const char *)base + key->at;
    if (key->kind == KEY_INT) {
        int value;
        memcpy(&value, field, sizeof value);
        if (value < key->min || value > key->max)
            return fail(err, INPUT, "%s: %s%s: expected an integer from %.0f to %.0f, found %d",
                        what, prefix, key->name, key->min, key->max, value);
    } else if (key->kind == KEY_DOUBLE) {
        double value;
        memcpy(&value, field, sizeof value);
        if (!(value >= key->min && value <= key->max)) /* NaN too */
            return fail(err, INPUT, "%s: %s%s: expected a number from %g to %g, found %g", what,
                        prefix, key->name, key->min, key->max, value);
    } else if (key->kind == KEY_WORD) {
        int n = 0;
        while (key->words[n])
            n++;
        int value = config_word_get(field);
        if (value < 0 || value >= n)
            return fail(err, INPUT, "%s: %s%s: expected a value from 0 to %d, found %d", what,
                        prefix, key->name, n - 1, value);
    }
    return true;
}

static bool check_rope(const Config *c, const char *what, Error *err)
{
    const Rope *r = &c->rope;
    if ((int)r->type < ROPE_DEFAULT || r->type > ROPE_DYNAMIC)
        return fail(err, INPUT, "%s: rope.type: expected a value from 0 to %d, found %d", what,
                    ROPE_DYNAMIC, (int)r->type);
    for (const ConfigKey *key = rope_keys; key->name; key++) {
        bool used   = key->types >> r->type & 1;
        bool absent = key->at == offsetof(Rope, attention_factor) && r->attention_factor < 0;
        if (used && !absent && !check_key(key, r, what, "rope.", err))
            return false;
    }
    if (r->type == ROPE_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor))
        return fail(err, INPUT,
                    "%s: rope.high_freq_factor: expected more than low_freq_factor %g, found %g",
                    what, r->low_freq_factor, r->high_freq_factor);
    /* the attention factor divides by its logarithm */
    if (r->type == ROPE_LONGROPE && r->original_n_ctx < 2)
        return fail(err, INPUT,
                    "%s: rope.original_n_ctx: expected at least 2 with rope type longrope, "
                    "found %g", what, r->original_n_ctx);
    if (r->type == ROPE_DYNAMIC && c->rotary_dim < 4)
        return fail(err, INPUT,
                    "%s: rotary_dim: expected at least 4 with rope type dynamic, found %d", what,
                    c->rotary_dim);
    /* the correction range divides by log(theta) */
    if (r->type == ROPE_YARN && !(c->theta >= 1.001))
        return fail(err, INPUT, "%s: theta: expected at least 1.001 with rope type yarn, found %g",
                    what, c->theta);
    return true;
}

static bool check_ids(const Config *c, const char *what, Error *err)
{
    if (c->bos >= c->vocab_size)
        return fail(err, INPUT, "%s: bos: expected an id below vocab_size %d, found %d", what,
                    c->vocab_size, c->bos);
    if (c->n_eos < 0 || c->n_eos > MAX_EOS)
        return fail(err, INPUT, "%s: eos: expected at most %d ids, found %d", what, MAX_EOS,
                    c->n_eos);
    for (int i = 0; i < c->n_eos; i++)
        if (c->eos[i] < 0 || c->eos[i] >= c->vocab_size)
            return fail(err, INPUT, "%s: eos: expected ids from 0 to %d, found %d", what,
                        c->vocab_size - 1, c->eos[i]);
    return true;
}

/* A key that must be 0, or its default, without the part it belongs to. */
static bool check_alone(bool set, const char *key, const char *part, const char *what, Error *err)
{
    return set ? fail(err, INPUT, "%s: %s: expected none without %s, found one", what, key, part)
               : true;
}

static bool check_layers(const Layers *set, int n_layers, const char *key, const char *what,
                         Error *err)
{
    for (int l = n_layers; l < MAX_LAYERS; l++)
        if (layers_has(set, l))
            return fail(err, INPUT, "%s: %s: expected layers below n_layers %d, found %d", what,
                        key, n_layers, l);
    return true;
}

static bool check_routing(const Config *c, const char *what, Error *err)
{
    int n = c->expert_groups, size = n > 0 ? c->n_experts / n : 0;
    if (!check_alone(c->renormalize_min != 0 && !c->renormalize, "renormalize_min", "renormalize",
                     what, err)
        || !check_alone(c->renormalize_add != 0 && !c->renormalize, "renormalize_add",
                        "renormalize", what, err))
        return false;
    if (n == 0)
        return check_alone(c->groups_used != 0, "groups_used", "expert_groups", what, err)
            && check_alone(c->group_by_largest, "group_by_largest", "expert_groups", what, err);
    if (c->n_experts % n != 0 || size < 2)
        return fail(err, INPUT,
                    "%s: expert_groups: expected groups of at least 2 of %d experts, all of one "
                    "size, found %d",
                    what, c->n_experts, n);
    if (c->groups_used < 1 || c->groups_used > n || c->groups_used * size < c->experts_used)
        return fail(err, INPUT,
                    "%s: groups_used: expected at most expert_groups %d, and room for "
                    "experts_used %d in groups of %d, found %d",
                    what, n, c->experts_used, size, c->groups_used);
    return true;
}

static bool check_experts(const Config *c, const char *what, Error *err)
{
    if (c->n_experts == 0) {
        for (const ConfigKey *key = config_keys; key->name; key++)
            if (key->flags & KEY_OF_EXPERTS
                && !check_alone(!config_key_default(key, c), key->name, "n_experts", what, err))
                return false;
        return check_layers(&c->dense_layers, 0, "dense_layers", what, err);
    }
    if (c->experts_used < 1 || c->experts_used > c->n_experts)
        return fail(err, INPUT, "%s: experts_used: expected 1 to n_experts %d, found %d", what,
                    c->n_experts, c->experts_used);
    if (c->expert_d_ff < 1)
        return fail(err, INPUT, "%s: expert_d_ff: expected a value with n_experts %d, found none",
                    what, c->n_experts);
    int most = INT32_MAX / 2 / c->n_experts; /* rows of all experts' matrices together fit an int */
    if (c->expert_d_ff > most || c->d_model > most)
        return fail(
            err, INPUT,
            "%s: n_experts: expected at most %d with d_model %d and expert_d_ff %d, found %d", what,
            INT32_MAX / 2 / (c->d_model > c->expert_d_ff ? c->d_model : c->expert_d_ff), c->d_model,
            c->expert_d_ff, c->n_experts);
    uint64_t rows = (uint64_t)c->n_experts * (uint64_t)c->expert_d_ff,
             width = (uint64_t)c->d_model * (uint64_t)(c->n_layers + c->mtp_layers);
    if (rows > MOST_IN_EXPERTS / width)
        return fail(err, INPUT,
                    "%s: n_experts: expected at most %llu with d_model %d, expert_d_ff %d and "
                    "n_layers %d, found %d",
                    what, (unsigned long long)(MOST_IN_EXPERTS / width / (uint64_t)c->expert_d_ff),
                    c->d_model, c->expert_d_ff, c->n_layers, c->n_experts);
    if (c->ffn_bias || !config_gated(c))
        return fail(err, INPUT, "%s: n_experts: expected a gated feed-forward network without "
                                "bias, found another kind", what);
    return check_alone(c->shared_router && c->shared_d_ff == 0, "shared_router", "shared_d_ff",
                       what, err)
        && check_routing(c, what, err)
        && check_layers(&c->dense_layers, c->n_layers, "dense_layers", what, err);
}

static bool check_latent(const Config *c, const char *what, Error *err)
{
    if (c->kv_lora == 0)
        return check_alone(c->q_lora != 0, "q_lora", "kv_lora", what, err)
            && check_alone(c->nope_dim != 0, "nope_dim", "kv_lora", what, err)
            && check_alone(c->v_dim != 0, "v_dim", "kv_lora", what, err)
            && check_alone(c->latent_norm_eps != 0, "latent_norm_eps", "kv_lora", what, err);
    if (c->kv_heads != 1 || c->head_dim != c->rotary_dim + c->kv_lora)
        return fail(err, INPUT,
                    "%s: kv_lora: expected kv_heads 1 and a head_dim of rotary_dim + kv_lora, "
                    "found %d, and %d with %d + %d",
                    what, c->kv_heads, c->head_dim, c->rotary_dim, c->kv_lora);
    if (c->nope_dim < 1 || c->v_dim < 1)
        return fail(err, INPUT, "%s: %s: expected a value with kv_lora, found none", what,
                    c->nope_dim < 1 ? "nope_dim" : "v_dim");
    if (config_query_dim(c) > MAX_WIDTH / c->heads || c->v_dim > MAX_WIDTH / c->heads)
        return fail(err, INPUT,
                    "%s: nope_dim: expected queries and values of at most %d together, found "
                    "%d heads of %d and %d",
                    what, MAX_WIDTH, c->heads, config_query_dim(c), c->v_dim);
    return check_alone(c->positions != POS_ROPE, "kv_lora", "positions rope", what, err)
        && check_alone(c->qk_norm != QK_NONE, "qk_norm", "kv_lora 0", what, err)
        && check_alone(c->qkv_clip != 0, "qkv_clip", "kv_lora 0", what, err)
        && check_alone(c->attn_gate, "attn_gate", "kv_lora 0", what, err);
}

static bool check_delta(const Config *c, const char *what, Error *err)
{
    const int heads = c->delta_heads, keys = c->delta_key_heads;
    if (heads == 0)
        return check_alone(keys != 0, "delta_key_heads", "delta_heads", what, err)
            && check_alone(c->delta_key_dim != 0, "delta_key_dim", "delta_heads", what, err)
            && check_alone(c->delta_value_dim != 0, "delta_value_dim", "delta_heads", what, err)
            && check_alone(c->delta_tiled, "delta_tiled", "delta_heads", what, err);
    if (keys < 1 || heads % keys != 0)
        return fail(err, INPUT, "%s: delta_key_heads: expected a divisor of delta_heads %d, found "
                                "%d", what, heads, keys);
    if (c->delta_tiled && (keys == 1 || keys == heads)) /* then there is one order */
        return fail(err, INPUT, "%s: delta_tiled: expected several value heads for each of several "
                                "keys, found %d and %d", what, heads, keys);
    if (c->delta_key_dim < 1 || c->delta_value_dim < 1)
        return fail(err, INPUT, "%s: delta_key_dim: expected a length, and delta_value_dim too, "
                                "with delta_heads %d, found %d and %d", what, heads,
                    c->delta_key_dim, c->delta_value_dim);
    if (c->delta_key_dim > MAX_WIDTH / 4 / keys || c->delta_value_dim > MAX_WIDTH / 4 / heads)
        return fail(err, INPUT, "%s: delta_heads: expected at most %d keys and as many values, "
                                "found %d of %d and %d of %d", what, MAX_WIDTH / 4, keys,
                    c->delta_key_dim, heads, c->delta_value_dim);
    return check_alone(c->conv_bias, "conv_bias", "delta_heads 0", what, err);
}

static bool check_state(const Config *c, const char *what, Error *err)
{
    if (!check_layers(&c->state_layers, c->n_layers, "state_layers", what, err))
        return false;
    if (!config_has_state(c))
        return check_alone(c->conv_taps != 0, "conv_taps", "state_layers", what, err)
            && check_alone(c->conv_bias, "conv_bias", "state_layers", what, err)
            && check_alone(c->delta_heads != 0, "delta_heads", "state_layers", what, err)
            && check_delta(c, what, err);
    if (c->conv_taps < 2)
        return fail(err, INPUT, "%s: conv_taps: expected 2 to %d with state_layers, found %d", what,
                    MAX_TAPS, c->conv_taps);
    return check_delta(c, what, err);
}

static bool check_mtp(const Config *c, const char *what, Error *err)
{
    if (c->mtp_layers && c->n_layers == MAX_LAYERS)
        return fail(err, INPUT, "%s: mtp_layers: expected 0 with n_layers %d, found %d", what,
                    c->n_layers, c->mtp_layers);
    return !c->mtp_layers
        || (check_alone(config_has_state(c), "mtp_layers", "state_layers []", what, err)
            && check_alone(c->positions != POS_ROPE, "mtp_layers", "positions rope", what, err)
            && check_alone(c->headless, "mtp_layers", "headless false", what, err)
            && check_alone(c->bidirectional, "mtp_layers", "bidirectional false", what, err));
}

static bool check_dense(const Config *c, const char *what, Error *err)
{
    return check_alone(c->dense1 && (c->pool == POOL_UNSAID || c->pool == POOL_OTHER), "dense1",
                       "pool mean, last or cls", what, err)
        && check_alone(c->dense2 && !c->dense1, "dense2", "dense1", what, err)
        && check_alone(c->dense1_bias && !c->dense1, "dense1_bias", "dense1", what, err)
        && check_alone(c->dense2_bias && !c->dense2, "dense2_bias", "dense2", what, err)
        && check_alone(c->dense1_act && !c->dense1, "dense1_act", "dense1", what, err)
        && check_alone(c->dense2_act && !c->dense2, "dense2_act", "dense2", what, err)
        && check_alone(c->labels && !c->dense1, "labels", "dense1", what, err)
        && check_alone(c->labels && c->dense2, "dense2", "labels false", what, err);
}

static bool check_parts(const Config *c, const char *what, Error *err)
{
    if (c->rotary_dim > c->head_dim || (c->positions == POS_ROPE && c->rotary_dim % 2 != 0))
        return fail(err, INPUT,
                    "%s: rotary_dim: expected an even number up to head_dim %d, found %d", what,
                    c->head_dim, c->rotary_dim);
    if (c->theta_window != 0 && c->theta_window < 1)
        return fail(err, INPUT, "%s: theta_window: expected 0 or at least 1, found %g", what,
                    c->theta_window);
    if ((c->gate_limit != 0) != (c->gate_alpha != 0)
        || (c->gate_limit != 0 && c->ffn != FFN_SWIGLU))
        return fail(err, INPUT,
                    "%s: gate_limit: expected it together with gate_alpha, and ffn swiglu, found "
                    "gate_limit %g and gate_alpha %g",
                    what, c->gate_limit, c->gate_alpha);
    return check_alone(c->norm_bias && c->norm != NORM_LAYER, "norm_bias", "norm layer", what, err)
        && check_alone(c->headless && c->tied_embeddings, "headless", "tied_embeddings false", what,
                       err)
        && check_alone(c->qk_norm_after_rope && c->qk_norm == QK_NONE, "qk_norm_after_rope",
                       "qk_norm", what, err)
        && check_alone(c->query_scale != 0 && c->query_scale_length == 0, "query_scale",
                       "query_scale_length", what, err)
        && check_alone(c->query_scale == 0 && c->query_scale_length != 0, "query_scale_length",
                       "query_scale", what, err)
        && check_alone(c->query_scale_unrotated && c->query_scale == 0, "query_scale_unrotated",
                       "query_scale", what, err)
        && check_alone(c->theta_window != 0 && c->window == 0, "theta_window", "a window", what,
                       err)
        && check_alone(c->window_chunked && c->window == 0, "window_chunked", "a window", what, err)
        && check_alone(c->bidirectional && c->window_chunked, "window_chunked",
                       "bidirectional false", what, err)
        && check_alone(c->bidirectional && config_has_state(c), "state_layers",
                       "bidirectional false", what, err)
        && check_layers(&c->full_layers, c->window ? c->n_layers : 0, "full_layers", what, err)
        && check_layers(&c->no_rope_layers, c->positions == POS_ROPE ? c->n_layers : 0,
                        "no_rope_layers", what, err)
        && check_mtp(c, what, err) && check_dense(c, what, err) && check_experts(c, what, err);
}

bool config_check(const Config *c, const char *what, Error *err)
{
    if (!memchr(c->family, '\0', sizeof c->family) || !c->family[0])
        return fail(err, INPUT, "%s: family: expected a name of 1 to %d bytes", what,
                    (int)sizeof c->family - 1);
    for (const ConfigKey *key = config_keys; key->name; key++)
        if (!check_key(key, c, what, "", err))
            return false;
    if (c->heads % c->kv_heads != 0)
        return fail(err, INPUT, "%s: kv_heads: expected a divisor of heads %d, found %d", what,
                    c->heads, c->kv_heads);
    /* pairs are rotated */
    if (c->head_dim % 2 != 0 && c->positions == POS_ROPE && c->rotary_dim == c->head_dim)
        return fail(err, INPUT, "%s: head_dim: expected an even number, found %d", what,
                    c->head_dim);
    if (c->head_dim > MAX_WIDTH / c->heads)
        return fail(err, INPUT,
                    "%s: head_dim: expected heads * head_dim of at most %d, found %d * %d", what,
                    MAX_WIDTH, c->heads, c->head_dim);
    return check_latent(c, what, err) && check_state(c, what, err) && check_parts(c, what, err)
        && check_rope(c, what, err)
        && check_ids(c, what, err);
}

bool config_supported(const Config *c, const char *what, Error *err)
{
    if (c->norm_placement == PLACE_POST)
        return fail(err, INPUT,
                    "%s: norm_placement: expected pre, both, parallel, parallel2 or output, found "
                    "post (not supported)",
                    what);
    return true;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Set the keys of a part as in a model without it. */
static void set_defaults(Config *c, unsigned part)
{
    Config none;
    config_defaults(&none);
    for (const ConfigKey *key = config_keys; key->name; key++)
        if (key->flags & part)
            memcpy((char *)c + key->at, (const char *)&none + key->at, config_key_size(key));
}

void config_no_experts(Config *c)
{
    set_defaults(c, KEY_OF_EXPERTS);
    c->n_experts    = 0;
    c->dense_layers = (Layers){ 0 };
}

void config_no_states(Config *c)
{
    set_defaults(c, KEY_OF_STATES);
    c->state_layers = (Layers){ 0 };
}

Config config_mtp(const Config *c)
{
    Config own      = *c;
    own.n_layers    = 1;
    own.mtp_layers  = 0;
    own.full_layers = own.no_rope_layers = own.dense_layers = (Layers){ 0 };
    return own;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

bool layers_has(const Layers *set, int layer)
{
    assert(layer >= 0 && layer < MAX_LAYERS);
    return set->bits[layer / 64] >> (layer % 64) & 1;
}

void layers_add(Layers *set, int layer)
{
    assert(layer >= 0 && layer < MAX_LAYERS);
    set->bits[layer / 64] |= (uint64_t)1 << (layer % 64);
}

int config_window(const Config *c, int layer)
{
    return layers_has(&c->full_layers, layer) || config_state(c, layer) ? 0 : c->window;
}
int window_oldest(int window, bool chunked, int pos)
{
    return window == 0 || pos < window ? 0 : chunked ? pos - pos % window : pos - window + 1;
}
int window_end(int window, bool bidirectional, int pos, int n)
{
    return !bidirectional ? pos + 1 : window && window < n - pos ? pos + window : n;
}
bool config_moe(const Config *c, int layer)
{
    return c->n_experts > 0 && !layers_has(&c->dense_layers, layer);
}
bool config_rotates(const Config *c, int layer)
{
    return c->positions == POS_ROPE && !layers_has(&c->no_rope_layers, layer)
        && !config_state(c, layer);
}
bool config_state(const Config *c, int layer) { return layers_has(&c->state_layers, layer); }
bool config_has_state(const Config *c)
{
    bool any = false;
    for (int i = 0; i < MAX_LAYERS / 64; i++)
        any |= c->state_layers.bits[i] != 0;
    return any;
}
int config_state_width(const Config *c)
{
    return c->delta_heads ? c->delta_heads * c->delta_value_dim : c->d_model;
}
int config_conv_width(const Config *c)
{
    return config_state_width(c) + 2 * c->delta_key_heads * c->delta_key_dim;
}
/* The last conv_taps - 1 inputs of the convolution, then the matrices of the heads. */
size_t config_state_floats(const Config *c)
{
    return config_has_state(c)
        ? (size_t)(c->conv_taps - 1) * (size_t)config_conv_width(c)
            + (size_t)c->delta_heads * (size_t)c->delta_key_dim * (size_t)c->delta_value_dim
        : 0;
}
int  config_query_dim(const Config *c)
{
    return c->kv_lora ? c->rotary_dim + c->nope_dim : c->head_dim;
}
int  config_value_dim(const Config *c) { return c->kv_lora ? c->v_dim : c->head_dim; }
int  config_kv_vectors(const Config *c) { return c->kv_lora ? 1 : 2; }
double config_attn_scale(const Config *c)
{
    return c->attn_scale != 0 ? c->attn_scale : 1 / sqrt((double)config_query_dim(c));
}

/* ---- Rotary frequencies ---------------------------------------------------------------------- */

static const double PI = 3.14159265358979323846;

/* Llama 3.1: long wavelengths are divided by factor, short ones stay, those between are
 * interpolated. */
static double llama3_frequency(const Rope *r, double inv_freq)
{
    double low_wavelen  = r->original_n_ctx / r->low_freq_factor;
    double high_wavelen = r->original_n_ctx / r->high_freq_factor;
    double wavelen      = 2 * PI / inv_freq;
    if (wavelen > low_wavelen)
        return inv_freq / r->factor;
    if (wavelen < high_wavelen)
        return inv_freq;
    double smooth = (r->original_n_ctx / wavelen - r->low_freq_factor)
        / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * inv_freq / r->factor + smooth * inv_freq;
}

/* The dimension that rotates `rotations` times within the original context. */
static double yarn_correction_dim(const Config *c, double rotations)
{
    return c->rotary_dim * math64_log(c->rope.original_n_ctx / (rotations * 2 * PI))
        / (2 * math64_log(c->theta));
}

/* Dimensions below *low are extrapolated (left alone), those above *high interpolated; between them
 * is a ramp. */
static void yarn_correction_range(const Config *c, double *low, double *high)
{
    double lo = yarn_correction_dim(c, c->rope.beta_fast);
    double hi = yarn_correction_dim(c, c->rope.beta_slow);
    if (c->rope.truncate) {
        lo = floor(lo); /* exact, so the C library's are allowed here */
        hi = ceil(hi);
    }
    *low  = lo > 0 ? lo : 0;
    *high = hi < c->rotary_dim - 1 ? hi : c->rotary_dim - 1;
    if (*low == *high)
        *high += 0.001; /* as transformers: no division by 0 */
}

double config_yarn_mscale(double scale, double mscale)
{
    return scale <= 1 ? 1 : 0.1 * mscale * math64_log(scale) + 1;
}

static double yarn_attention_factor(const Rope *r)
{
    if (r->attention_factor >= 0)
        return r->attention_factor;
    if (r->mscale != 0 && r->mscale_all_dim != 0)
        return config_yarn_mscale(r->factor, r->mscale)
            / config_yarn_mscale(r->factor, r->mscale_all_dim);
    return config_yarn_mscale(r->factor, 1);
}

static void yarn_frequencies(const Config *c, double *inv_freq)
{
    double low, high;
    yarn_correction_range(c, &low, &high);
    for (int i = 0; i < c->rotary_dim / 2; i++) {
        double pos_freq      = math64_pow(c->theta, (2.0 * i) / c->rotary_dim);
        double extrapolated  = 1 / pos_freq;
        double interpolated  = 1 / (c->rope.factor * pos_freq);
        double ramp          = (i - low) / (high - low);
        double extrapolation = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
        inv_freq[i] = interpolated * (1 - extrapolation) + extrapolated * extrapolation;
    }
}

/* LongRoPE (Ding et al. 2024): a longer context makes softmax less sharp. */
static double longrope_attention_factor(const Rope *r)
{
    if (r->attention_factor >= 0)
        return r->attention_factor;
    return sqrt(1 + math64_log(r->factor) / math64_log(r->original_n_ctx));
}

/* Dynamic NTK: theta grows with the length beyond that of training. */
static double dynamic_theta(const Config *c, int length)
{
    const Rope *r     = &c->rope;
    double      n     = length > r->original_n_ctx ? length : r->original_n_ctx,
                times = r->factor * n / r->original_n_ctx - (r->factor - 1);
    return c->theta * math64_pow(times, c->rotary_dim / (c->rotary_dim - 2.0));
}

static double scaled(const Rope *r, double pos_freq, const float *factors, int i)
{
    switch (r->type) {
    case ROPE_LINEAR:   return 1 / pos_freq / r->factor;
    case ROPE_LLAMA3:   return llama3_frequency(r, 1 / pos_freq);
    case ROPE_FACTORS:  return 1 / pos_freq / (double)factors[i];
    case ROPE_LONGROPE: return 1 / ((double)factors[i] * pos_freq);
    default:            return 1 / pos_freq;
    }
}

bool config_rope_length(const Config *c)
{
    return c->positions == POS_ROPE
        && (c->rope.type == ROPE_LONGROPE || c->rope.type == ROPE_DYNAMIC);
}

void config_inv_freq(const Config *c, bool windowed, const float *factors, int length,
                     double *inv_freq, double *factor)
{
    const Rope *r     = &c->rope;
    bool        own   = windowed && c->theta_window != 0;
    double      theta = own           ? c->theta_window
        : r->type == ROPE_DYNAMIC     ? dynamic_theta(c, length)
                                      : c->theta;
    *factor = own                     ? 1
        : r->type == ROPE_YARN        ? yarn_attention_factor(r)
        : r->type == ROPE_LONGROPE    ? longrope_attention_factor(r)
                                      : 1;
    if (r->type == ROPE_YARN && !own) {
        yarn_frequencies(c, inv_freq);
        return;
    }
    if (r->type == ROPE_LONGROPE && factors && length > r->original_n_ctx)
        factors += c->rotary_dim / 2;
    for (int i = 0; i < c->rotary_dim / 2; i++) {
        double pos_freq = math64_pow(theta, (2.0 * i) / c->rotary_dim);
        inv_freq[i]     = own ? 1 / pos_freq : scaled(r, pos_freq, factors, i);
    }
}
