/* model/tensor_list.c: names, shapes and order of a model's tensors, as one table. */
#include "model/tensor_list.h"

#include <stdio.h>
#include <string.h>

typedef enum Dim {
    NONE, D_MODEL, Q_DIM, KV_DIM, D_FF, VOCAB, CONTEXT, HALF_ROTARY, HEAD, Q_NORM, K_NORM, EXPERTS, EXPERT_FF, SHARED_FF, ONE
} Dim;

/* Which models, and which of their layers, have a part. */
typedef enum When {
    ALWAYS, LEARNED, FACTORS, QKV_BIAS, QK_NORMED, OUT_BIAS, UNTIED, NORM_BIAS,
    ATTN_NORMED, ATTN_NORM_BIAS, FFN_NORMED, FFN_NORM_BIAS, /* a norm before the sublayer (or, of post, after the sum) */
    POST_NORMED, POST_NORM_BIAS,                            /* a norm of what the sublayer gives                       */
    GATED, GATE_BIAS, DENSE, FFN_BIAS, MOE, SHARED, SHARED_GATED,
    N_WHEN
} When;

static const struct Part {
    const char *name;
    TensorRole  role;
    bool        in_layer, bias;
    Dim         rows, k;
    When        when;
    bool        stack;       /* of all experts */
} parts[] = {
    { "embed",               ROLE_EMBED,          false, false, VOCAB,       D_MODEL,   ALWAYS,         false },
    { "pos_embed",           ROLE_POS_EMBED,      false, false, CONTEXT,     D_MODEL,   LEARNED,        false },
    { "rope_factors",        ROLE_ROPE_FACTORS,   false, false, HALF_ROTARY, NONE,      FACTORS,        false },
    { "attn_norm",           ROLE_ATTN_NORM,      true,  false, D_MODEL,     NONE,      ATTN_NORMED,    false },
    { "attn_norm_bias",      ROLE_ATTN_NORM,      true,  true,  D_MODEL,     NONE,      ATTN_NORM_BIAS, false },
    { "wq",                  ROLE_WQ,             true,  false, Q_DIM,       D_MODEL,   ALWAYS,         false },
    { "wq_bias",             ROLE_WQ,             true,  true,  Q_DIM,       NONE,      QKV_BIAS,       false },
    { "wk",                  ROLE_WK,             true,  false, KV_DIM,      D_MODEL,   ALWAYS,         false },
    { "wk_bias",             ROLE_WK,             true,  true,  KV_DIM,      NONE,      QKV_BIAS,       false },
    { "wv",                  ROLE_WV,             true,  false, KV_DIM,      D_MODEL,   ALWAYS,         false },
    { "wv_bias",             ROLE_WV,             true,  true,  KV_DIM,      NONE,      QKV_BIAS,       false },
    { "q_norm",              ROLE_Q_NORM,         true,  false, Q_NORM,      NONE,      QK_NORMED,      false },
    { "k_norm",              ROLE_K_NORM,         true,  false, K_NORM,      NONE,      QK_NORMED,      false },
    { "wo",                  ROLE_WO,             true,  false, D_MODEL,     Q_DIM,     ALWAYS,         false },
    { "wo_bias",             ROLE_WO,             true,  true,  D_MODEL,     NONE,      OUT_BIAS,       false },
    { "attn_post_norm",      ROLE_ATTN_POST_NORM, true,  false, D_MODEL,     NONE,      POST_NORMED,    false },
    { "attn_post_norm_bias", ROLE_ATTN_POST_NORM, true,  true,  D_MODEL,     NONE,      POST_NORM_BIAS, false },
    { "ffn_norm",            ROLE_FFN_NORM,       true,  false, D_MODEL,     NONE,      FFN_NORMED,     false },
    { "ffn_norm_bias",       ROLE_FFN_NORM,       true,  true,  D_MODEL,     NONE,      FFN_NORM_BIAS,  false },
    { "w_gate",              ROLE_W_GATE,         true,  false, D_FF,        D_MODEL,   GATED,          false },
    { "w_gate_bias",         ROLE_W_GATE,         true,  true,  D_FF,        NONE,      GATE_BIAS,      false },
    { "w_up",                ROLE_W_UP,           true,  false, D_FF,        D_MODEL,   DENSE,          false },
    { "w_up_bias",           ROLE_W_UP,           true,  true,  D_FF,        NONE,      FFN_BIAS,       false },
    { "w_down",              ROLE_W_DOWN,         true,  false, D_MODEL,     D_FF,      DENSE,          false },
    { "w_down_bias",         ROLE_W_DOWN,         true,  true,  D_MODEL,     NONE,      FFN_BIAS,       false },
    { "router",              ROLE_ROUTER,         true,  false, EXPERTS,     D_MODEL,   MOE,            false },
    { "expert_gate",         ROLE_EXPERT_GATE,    true,  false, EXPERT_FF,   D_MODEL,   MOE,            true },
    { "expert_up",           ROLE_EXPERT_UP,      true,  false, EXPERT_FF,   D_MODEL,   MOE,            true },
    { "expert_down",         ROLE_EXPERT_DOWN,    true,  false, D_MODEL,     EXPERT_FF, MOE,            true },
    { "shared_router",       ROLE_SHARED_ROUTER,  true,  false, ONE,         D_MODEL,   SHARED_GATED,   false },
    { "shared_gate",         ROLE_SHARED_GATE,    true,  false, SHARED_FF,   D_MODEL,   SHARED,         false },
    { "shared_up",           ROLE_SHARED_UP,      true,  false, SHARED_FF,   D_MODEL,   SHARED,         false },
    { "shared_down",         ROLE_SHARED_DOWN,    true,  false, D_MODEL,     SHARED_FF, SHARED,         false },
    { "ffn_post_norm",       ROLE_FFN_POST_NORM,  true,  false, D_MODEL,     NONE,      POST_NORMED,    false },
    { "ffn_post_norm_bias",  ROLE_FFN_POST_NORM,  true,  true,  D_MODEL,     NONE,      POST_NORM_BIAS, false },
    { "final_norm",          ROLE_FINAL_NORM,     false, false, D_MODEL,     NONE,      ALWAYS,         false },
    { "final_norm_bias",     ROLE_FINAL_NORM,     false, true,  D_MODEL,     NONE,      NORM_BIAS,      false },
    { "lm_head",             ROLE_LM_HEAD,        false, false, VOCAB,       D_MODEL,   UNTIED,         false },
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* layer: -1 outside the layers. */
static bool has_part(const Config *c, const struct Part *p, int layer)
{
    NormPlacement place = c->norm_placement;
    bool moe    = layer >= 0 && layer < c->n_layers && config_moe(c, layer), dense = !moe, gated = config_gated(c);
    bool shared = moe && c->shared_d_ff > 0, post = place == PLACE_BOTH || place == PLACE_OUTPUT;
    bool before = place != PLACE_OUTPUT, second = before && place != PLACE_PARALLEL;
    switch (p->when) {
    case LEARNED:        return c->positions == POS_LEARNED;
    case FACTORS:        return c->rope.type == ROPE_FACTORS;
    case QKV_BIAS:       return c->qkv_bias;
    case QK_NORMED:      return c->qk_norm != QK_NONE;
    case OUT_BIAS:       return c->out_bias;
    case UNTIED:         return !c->tied_embeddings;
    case NORM_BIAS:      return c->norm_bias;
    case ATTN_NORMED:    return before;
    case ATTN_NORM_BIAS: return before && c->norm_bias;
    case FFN_NORMED:     return second;
    case FFN_NORM_BIAS:  return second && c->norm_bias;
    case POST_NORMED:    return post;
    case POST_NORM_BIAS: return post && c->norm_bias;
    case GATED:          return dense && gated;
    case GATE_BIAS:      return dense && gated && c->ffn_bias;
    case DENSE:          return dense;
    case FFN_BIAS:       return dense && c->ffn_bias;
    case MOE:            return moe;
    case SHARED:         return shared;
    case SHARED_GATED:   return shared && c->shared_router;
    case ALWAYS:
    case N_WHEN:         break;
    }
    return true;
}

static int dim_size(const Config *c, Dim d, const char **key, int *unit)
{
    if (d == Q_NORM || d == K_NORM)
        d = c->qk_norm == QK_HEAD ? HEAD : d == Q_NORM ? Q_DIM : KV_DIM;
    *unit = d == Q_DIM || d == KV_DIM ? c->head_dim : 1;
    switch (d) {
    case D_MODEL: *key = "d_model";    return c->d_model;
    case Q_DIM:   *key = "heads";      return c->heads * c->head_dim;
    case KV_DIM:  *key = "kv_heads";   return c->kv_heads * c->head_dim;
    case D_FF:    *key = "d_ff";       return c->d_ff;
    case VOCAB:   *key = "vocab_size"; return c->vocab_size;
    case CONTEXT: *key = "n_ctx";      return c->n_ctx;
    case HALF_ROTARY: *key = "rotary_dim"; return c->rotary_dim / 2;
    case HEAD:    *key = "head_dim";   return c->head_dim;
    case EXPERTS: *key = "n_experts";  return c->n_experts;
    case EXPERT_FF: *key = "expert_d_ff"; return c->expert_d_ff;
    case SHARED_FF: *key = "shared_d_ff"; return c->shared_d_ff;
    case ONE:     *key = "";           return 1;
    case Q_NORM:
    case K_NORM:
    case NONE:    break;
    }
    *key = "";
    return 0;
}

TensorSpec tensor_list_start(void) { return (TensorSpec){ .row_ = -1, .layer = -1 }; }

/* The parts inside the layers stand together in the table: at their end, the next layer starts at their first. */
static bool advance(const Config *c, TensorSpec *s)
{
    int last = s->row_;
    s->row_++;
    if (last >= 0 && parts[last].in_layer && (s->row_ == N_PARTS || !parts[s->row_].in_layer)) {
        if (s->layer + 1 < c->n_layers) {
            s->layer++;
            while (s->row_ > 0 && parts[s->row_ - 1].in_layer)
                s->row_--;
        } else {
            s->layer = -1;
        }
    } else if (s->row_ < N_PARTS && parts[s->row_].in_layer && s->layer < 0) {
        s->layer = 0;
    }
    return s->row_ < N_PARTS;
}

bool tensor_list_next(const Config *c, TensorSpec *s)
{
    do {
        if (!advance(c, s))
            return false;
    } while (!has_part(c, &parts[s->row_], s->layer));

    const struct Part *p = &parts[s->row_];
    if (p->in_layer)
        snprintf(s->name, sizeof s->name, "layers.%d.%s", s->layer, p->name);
    else
        snprintf(s->name, sizeof s->name, "%s", p->name);
    s->part = p->name;
    s->role = p->role;
    s->bias = p->bias;
    s->rows = dim_size(c, p->rows, &s->rows_key, &s->rows_unit);
    s->k    = dim_size(c, p->k, &s->k_key, &s->k_unit);
    /* an embedding that is not the head as well is only gathered, one row at a time */
    s->panels = s->k != 0 && (!tensor_spec_gathered(s) || (p->role == ROLE_EMBED && c->tied_embeddings));
    s->stack  = p->stack ? c->n_experts : 1;
    return true;
}

int tensor_list_count(const Config *c)
{
    int n = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);)
        n++;
    return n;
}

int tensor_spec_shape(const TensorSpec *s, int64_t shape[3])
{
    int rank = 0;
    if (s->stack > 1)
        shape[rank++] = s->stack;
    shape[rank++] = s->rows;
    if (s->k)
        shape[rank++] = s->k;
    return rank;
}

uint64_t tensor_spec_params(const TensorSpec *s) { return (uint64_t)s->stack * (uint64_t)s->rows * (uint64_t)(s->k ? s->k : 1); }

size_t tensor_spec_bytes(const TensorSpec *s, WeightType type)
{
    size_t n = (size_t)s->rows * sizeof(float);
    if (tensor_spec_panels(s, type))
        matrix_bytes(type, tensor_spec_panel_rows(s), s->k, &n);
    else if (s->k)
        n = (size_t)s->stack * (size_t)s->rows * (size_t)s->k * weight_type_bytes(type);
    return n;
}

/* The row of a tensor's name, and its layer (-1 outside); NULL where no config has such a tensor. */
static const struct Part *find_part(const char *name, int *layer)
{
    const char *part = name;
    *layer = -1;
    if (strncmp(name, "layers.", 7) == 0) {
        const char *p = name + 7;
        int         n = 0, digits = 0;
        for (; p[digits] >= '0' && p[digits] <= '9' && digits < 7; digits++)
            n = n * 10 + (p[digits] - '0');
        if (digits == 0 || p[digits] != '.' || (p[0] == '0' && digits > 1)) /* 007 is no layer */
            return NULL;
        *layer = n;
        part   = p + digits + 1;
    }
    for (int i = 0; i < N_PARTS; i++)
        if (parts[i].in_layer == (*layer >= 0) && strcmp(parts[i].name, part) == 0)
            return &parts[i];
    return NULL;
}

bool tensor_list_has(const Config *c, const char *name)
{
    int                layer;
    const struct Part *p = find_part(name, &layer);
    return p && layer < c->n_layers && has_part(c, p, layer);
}

bool tensor_list_has_matrix(const Config *c, const char *name)
{
    int                layer;
    const struct Part *p = find_part(name, &layer);
    return p && p->k != NONE && layer < c->n_layers && has_part(c, p, layer);
}

const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n)
{
    static const char *const flags[N_WHEN] = {
        [LEARNED] = "positions rope",   [FACTORS] = "rope type other than factors", [QKV_BIAS] = "qkv_bias false",
        [QK_NORMED] = "qk_norm false",  [OUT_BIAS] = "out_bias false",  [UNTIED] = "tied_embeddings true",
        [NORM_BIAS] = "norm_bias false", [ATTN_NORM_BIAS] = "norm_bias false", [FFN_NORM_BIAS] = "norm_bias false",
        [POST_NORM_BIAS] = "norm_bias false", [FFN_BIAS] = "ffn_bias false", [GATE_BIAS] = "ffn_bias false",
        [MOE] = "no experts in that layer", [SHARED] =
                "no shared expert in that layer", [SHARED_GATED] = "shared_router false",
    };
    int                layer;
    const struct Part *p = find_part(name, &layer);
    buf[0] = '\0';
    if (p && layer >= c->n_layers)
        snprintf(buf, n, " (n_layers %d in the config)", c->n_layers);
    else if (p && !has_part(c, p, layer))
        snprintf(buf, n, flags[p->when] ? " (%s in the config)" : " (the config has no such part)", flags[p->when]);
    return buf;
}
