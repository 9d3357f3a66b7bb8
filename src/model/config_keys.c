/* model/config_keys.c: the table of config keys, and the reader that uses it. */
#include "model/config_keys.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table ------------------------------------------------------------------------------- */

static const char *const norm_words[]      = { "rms", "layer", NULL };
static const char *const placement_words[] = { "pre", "post", "both", "parallel",
                                               "parallel2", "output", NULL };
static const char *const ffn_words[]       = { "swiglu", "geglu", "gelu", "relu",
                                         "gelu_tanh", "geglu_erf", NULL };
static const char *const position_words[]  = { "rope", "learned", NULL };
static const char *const qk_norm_words[]   = { "none", "head", "vector", "heads", NULL };
const char *const rope_type_words[] = { "default", "linear", "llama3", "yarn", "factors", NULL };

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
    FLAG(norm_bias, SPARSE, NULL, NULL),
    PART(full_layers, KEY_LAYERS, SPARSE, NULL),
    NUM(theta_window, 0, 1e15, SPARSE, "rope_local_base_freq", NULL, NULL),
    INT(rotary_dim, 2, MAX_HEAD, SPARSE, NULL, "rope.dimension_count", NULL),
    NUM(embed_scale, 1e-30, 1e30, SPARSE, "embedding_multiplier", "embedding_scale", NULL),
    NUM(residual_scale, 1e-30, 1e30, SPARSE, "residual_multiplier", "residual_scale", NULL),
    NUM(logit_scale, 1e-30, 1e30, SPARSE, "logit_scale", "logit_scale", NULL),
    NUM(attn_scale, 0, 1e30, SPARSE, "attention_multiplier", "attention.scale", NULL),
    NUM(attn_softcap, 0, 1e30, SPARSE, "attn_logit_softcapping", "attn_logit_softcapping", NULL),
    NUM(logit_softcap, 0, 1e30, SPARSE, "final_logit_softcapping", "final_logit_softcapping", NULL),
    INT(n_experts, 0, MAX_EXPERTS, SPARSE, "num_experts|num_local_experts", "expert_count", NULL),
    INT(experts_used, 0, MAX_EXPERTS, EXPERTS, "num_experts_per_tok", "expert_used_count", NULL),
    INT(expert_d_ff, 0, MAX_FF, EXPERTS, "moe_intermediate_size",
        "expert_feed_forward_length", NULL),
    INT(shared_d_ff, 0, MAX_FF, EXPERTS, "shared_expert_intermediate_size",
        "expert_shared_feed_forward_length", NULL),
    FLAG(renormalize, EXPERTS, "norm_topk_prob", "expert_weights_norm"),
    FLAG(shared_router, EXPERTS, NULL, NULL),
    PART(dense_layers, KEY_LAYERS, SPARSE, NULL),
    INT(bos, -1, MAX_VOCAB, 0, "bos_token_id", NULL, NULL),
    PART(eos, KEY_EOS, 0, "eos_token_id"),
    { 0 },
};
#undef AT

/* A factor under 1 would turn by more than one radian a position; angles are not exact enough for
 * that. A Hugging Face config may leave out what follows from its context (hf_rope.c). */
#define LINEAR (1u << ROPE_LINEAR)
#define LLAMA3 (1u << ROPE_LLAMA3)
#define YARN   (1u << ROPE_YARN)
#define ROPE(field, least, most, types_, needed_, hf_needed_, hf_, gguf_)                          \
    { .name = #field, .kind = KEY_DOUBLE, .at = offsetof(Rope, field), .min = least, .max = most,  \
      .types = types_,                                                                             \
      .needed = needed_, .hf_needed = hf_needed_, .hf = hf_, .gguf = gguf_ }
const ConfigKey rope_keys[] = {
    /*   types that have it, that cannot do without it, and in a Hugging Face config */
    ROPE(factor,           1,    1e6,     LINEAR | LLAMA3 | YARN, LINEAR | LLAMA3 | YARN,
         LINEAR | LLAMA3,
         "factor", NULL),
    ROPE(low_freq_factor,  1e-6, 1e6,     LLAMA3, LLAMA3, LLAMA3, "low_freq_factor", NULL),
    ROPE(high_freq_factor, 1e-6, 1e6,     LLAMA3, LLAMA3, LLAMA3, "high_freq_factor", NULL),
    ROPE(original_n_ctx,   1,    MAX_CTX, LLAMA3 | YARN, LLAMA3 | YARN, 0,
         "original_max_position_embeddings", NULL),
    ROPE(beta_fast,        1e-6, 1e6,     YARN, 0, 0, "beta_fast", "rope.scaling.yarn_beta_fast"),
    ROPE(beta_slow,        1e-6, 1e6,     YARN, 0, 0, "beta_slow", "rope.scaling.yarn_beta_slow"),
    ROPE(attention_factor, 1e-6, 1e6,     YARN, 0, 0, "attention_factor", NULL),
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

int config_word_get(const void *field)
{
    int value;
    memcpy(&value, field, sizeof value);
    return value;
}

void config_word_set(void *field, int value) { memcpy(field, &value, sizeof value); }

/* ---- Messages -------------------------------------------------------------------------------- */

const char *key_what(KeyReader *r, const char *name)
{
    snprintf(r->what, sizeof r->what, "%s: %s%s%s", r->path, r->gguf ? "key " : "", r->prefix,
             name);
    return r->what;
}

bool key_wrong(KeyReader *r, const char *name, const char *fmt, ...)
{
    char    text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail(r->err, INPUT, "%s: %s", key_what(r, name), text);
}

const char *key_found(const Json *j, char *buf, size_t n)
{
    const char *text;
    double      x;
    if (json_is_number(j) && json_read_double(j, "", -INFINITY, INFINITY, &x, NULL))
        snprintf(buf, n, "%.9g", x);
    else if (json_is_string(j) && json_read_string(j, "", &text, NULL))
        snprintf(buf, n, "'%s'", text);
    else
        snprintf(buf, n, "%s%s", json_is_array(j) || json_is_object(j) ? "an " : "", json_kind(j));
    return buf;
}

/* ---- Which value ----------------------------------------------------------------------------- */

static const Json *look(const KeyReader *r, const char *name)
{
    for (const char *const *o = r->outer ? r->of_outer : NULL; o && *o; o++) {
        const Json *j = strcmp(*o, name) == 0 ? json_get(r->outer, name) : NULL;
        if (j && !json_is_null(j))
            return j;
    }
    return json_get(r->json, name);
}

const Json *key_take(KeyReader *r, const char *name)
{
    const Json *j = look(r, name);
    if (j && r->n_taken < KEYS_TAKEN)
        r->taken[r->n_taken++] = json_key(j);
    return j;
}

bool key_same(const Json *a, const Json *b)
{
    const char *s, *t;
    double      x, y;
    if (a == b)
        return true;
    if (json_is_string(a) && json_is_string(b))
        return json_read_string(a, "", &s, NULL) && json_read_string(b, "", &t, NULL)
            && strcmp(s, t) == 0;
    if (json_is_number(a) && json_is_number(b))
        return json_read_double(a, "", -INFINITY, INFINITY, &x, NULL)
            && json_read_double(b, "", -INFINITY, INFINITY, &y, NULL) && x == y;
    return strcmp(json_kind(a), json_kind(b)) == 0 && json_count(a) == 0 && json_count(b) == 0;
}

bool key_take_any(KeyReader *r, const char *names, const Json **out, const char **found)
{
    char all[128], *rest = all;
    snprintf(all, sizeof all, "%s", names);
    *out   = NULL;
    *found = names;
    for (char *name; (name = strsep(&rest, "|")) != NULL;) {
        const Json *j = key_take(r, name);
        bool        null = !j || json_is_null(j);
        char        a[80], b[80];
        if (!null && *out && !json_is_null(*out) && !key_same(j, *out))
            return key_wrong(r, name, "expected the same as %s, %s, found %s", *found,
                             key_found(*out, a, sizeof a), key_found(j, b, sizeof b));
        if (j && (!*out || (json_is_null(*out) && !null))) {
            *out   = j;
            *found = json_key(j);
        }
    }
    return true;
}

const Json *key_left(const KeyReader *r, const Json *at)
{
    for (const Json *i = at ? json_next(at) : json_first(r->json); i; i = json_next(i)) {
        bool taken = false;
        for (size_t t = 0; t < r->n_taken && !taken; t++)
            taken = strcmp(r->taken[t], json_key(i)) == 0;
        if (!taken)
            return i;
    }
    return NULL;
}

/* ---- Values ---------------------------------------------------------------------------------- */

const char *gguf_name(const KeyReader *r, const char *name, char buf[GGUF_NAME])
{
    snprintf(buf, GGUF_NAME, "%s%s", r->prefix, name);
    return buf;
}

bool key_there(const KeyReader *r, const char *name)
{
    char full[GGUF_NAME];
    return gguf_find(r->gguf, gguf_name(r, name, full)) != NULL;
}

bool key_int(KeyReader *r, const char *name, const Json *j, int min, int max, int *out)
{
    char    full[GGUF_NAME];
    int64_t v;
    if (!(r->gguf ? gguf_read_int(r->gguf, gguf_name(r, name, full), min, max, &v, r->err)
                  : json_read_int(j, key_what(r, name), min, max, &v, r->err)))
        return false;
    *out = (int)v;
    return true;
}

bool key_size(KeyReader *r, const char *name, const Json *j, int *out)
{
    return key_int(r, name, j, 1, KEY_LARGEST, out);
}

bool key_number(KeyReader *r, const char *name, const Json *j, double *out)
{
    char full[GGUF_NAME];
    return r->gguf ? gguf_read_number(r->gguf, gguf_name(r, name, full), out, r->err)
                   : json_read_double(j, key_what(r, name), -INFINITY, INFINITY, out, r->err);
}

bool key_bool(KeyReader *r, const char *name, const Json *j, bool *out)
{
    char full[GGUF_NAME];
    return r->gguf ? gguf_read_bool(r->gguf, gguf_name(r, name, full), out, r->err)
                   : json_read_bool(j, key_what(r, name), out, r->err);
}

/* Read a size that a GGUF file lists for each layer. All must be the same. */
static bool layer_size(KeyReader *r, const char *name, int *out)
{
    char     full[GGUF_NAME];
    int32_t *v;
    size_t   n;
    if (!gguf_read_ints(r->gguf, gguf_name(r, name, full), &v, &n, r->err))
        return false;
    bool same = n > 0;
    for (size_t i = 1; same && i < n; i++)
        same = v[i] == v[0];
    if (same)
        *out = v[0];
    free(v);
    return same || key_wrong(r, name, "expected the same number for all layers, found others");
}

bool key_read(KeyReader *r, const ConfigKey *key, const char *name, const Json *j, void *base)
{
    void *field = (char *)base + key->at;
    char  full[GGUF_NAME];
    if (r->gguf && key->flags & KEY_PER_LAYER
        && gguf_find(r->gguf, gguf_name(r, name, full))->type == GGUF_ARRAY)
        return layer_size(r, name, field);
    if (key->kind == KEY_BOOL)
        return key_bool(r, name, j, field);
    if (key->kind == KEY_INT)
        return key_int(r, name, j, r->gguf ? 0 : (int)key->min,
                       r->gguf ? KEY_LARGEST : (int)key->max, field);
    return r->gguf ? key_number(r, name, j, field)
                   : json_read_double(j, key_what(r, name), key->min, key->max, field, r->err);
}
