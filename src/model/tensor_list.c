/* model/tensor_list.c: a model's tensors as one table: names, order, shapes, where each is and what
 * it reads. */
#include "model/tensor_list.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"

typedef enum Dim {
    NONE, D_MODEL, Q_DIM, KV_DIM, D_FF, VOCAB, CONTEXT, ROTARIES, HEAD, HEADS, Q_NORM, K_NORM,
    EXPERTS, EXPERT_FF, SHARED_FF, ONE, FOUR, O_DIM, Q_LORA, KV_LORA, NOPE, V_HEAD, TAPS,
    CONV_DIM, STATE_DIM, DELTA_HEADS, DELTA_VALUE, TWO_MODELS, DENSE_1, DENSE_2
} Dim;

/* Which models, and which of their layers, have a tensor; or have the biases of those tensors. */
typedef enum When {
    ALWAYS, NEVER, LEARNED, FACTORS, ONE_Q, TWO_Q, PLAIN, LATENT, Q_BIAS, Q_A_BIAS, QK_NORMED,
    SINKS, OUT_GATED, ATTENDS, STATE, SHORT, DELTA, CONV_BIASED, UNTIED,
    ATTN_NORMED, FFN_NORMED, /* a norm before the sublayer (post-norm: after the sum) */
    POST_NORMED,             /* a norm of the sublayer's result                       */
    GATED, DENSE, XIELUED, MOE, CHOICE_BIASED, SHARED, SHARED_GATED,
    QKV_BIAS, OUT_BIAS, FFN_BIAS, NORM_BIAS, ROUTER_BIAS, EXPERT_BIAS, MTP, MTP_BIAS,
    DENSE1, DENSE2, DENSE1_BIASED, DENSE2_BIASED,
    N_WHEN
} When;

/* Kinds of rows: those of a layer, in which a matrix says what it reads; and those that a model has
 * once. */
#define ROW(in_layer, owner, field, kind, reads, op, quantized) \
    { #field, #field "_bias", in_layer, kind, offsetof(owner, field), reads, op, quantized }
#define MAT(field, input, op)   ROW(true, Layer, field, KIND_MAT, INPUT_##input, OP_##op, AS_ASKED)
#define STACK(field, input, op) \
    ROW(true, Layer, field, KIND_STACK, INPUT_##input, OP_##op, AS_ASKED)
#define PER_HEAD(field, input, op) \
    ROW(true, Layer, field, KIND_HEADS, INPUT_##input, OP_##op, AS_ASKED)
#define ROUTER(field)           ROW(true, Layer, field, KIND_MAT, INPUT_FFN, OP_COUNT, AS_FLOATS)
#define FLOAT_MAT(field, input, op) \
    ROW(true, Layer, field, KIND_MAT, INPUT_##input, OP_##op, AS_FLOATS)
#define NORM(field, op)         ROW(true, Layer, field, KIND_NORM, INPUT_NONE, OP_##op, AS_ASKED)
#define MTP_NORM(field)         ROW(true, Layer, field, KIND_NORM, INPUT_NONE, OP_COUNT, AS_ASKED)
#define VECTOR(field)           ROW(true, Layer, field, KIND_VECTOR, INPUT_NONE, OP_COUNT, AS_ASKED)
#define TABLE(field) \
    ROW(false, Model, field, KIND_EMBEDDING, INPUT_NONE, OP_COUNT, AT_LEAST_Q8)
#define FLOAT_TABLE(field) \
    ROW(false, Model, field, KIND_EMBEDDING, INPUT_NONE, OP_COUNT, AS_FLOATS)
#define TOP_MAT(field)     ROW(false, Model, field, KIND_MAT, INPUT_HEAD, OP_COUNT, AT_LEAST_Q8)
#define TOP_NORM(field)    ROW(false, Model, field, KIND_NORM, INPUT_NONE, OP_COUNT, AS_ASKED)
#define TOP_VECTOR(field)  ROW(false, Model, field, KIND_VECTOR, INPUT_NONE, OP_COUNT, AS_ASKED)

/* The order is that of files and of TensorRole. A bias follows the tensor that it belongs to. */
static const struct Part {
    TensorRow row;
    Dim       rows, k;
    When      when, biased;
} parts[] = {
    /* name, what it reads, operation       rows         k          in models     biases */
    { TABLE(embed),                          VOCAB,       D_MODEL,   ALWAYS,       NEVER },
    { TABLE(pos_embed),                      CONTEXT,     D_MODEL,   LEARNED,      NEVER },
    { TOP_VECTOR(rope_factors),              ROTARIES,    NONE,      FACTORS,      NEVER },
    { NORM(attn_norm, ATTN_NORM),            D_MODEL,     NONE,      ATTN_NORMED,  NORM_BIAS },
    { MAT(wq, QKV, Q),                       Q_DIM,       D_MODEL,   ONE_Q,        Q_BIAS },
    { MAT(wq_a, QKV, Q),                     Q_LORA,      D_MODEL,   TWO_Q,        Q_A_BIAS },
    { VECTOR(q_a_norm),                      Q_LORA,      NONE,      TWO_Q,        NEVER },
    { MAT(wq_b, Q_A, Q),                     Q_DIM,       Q_LORA,    TWO_Q,        NEVER },
    { MAT(wk, QKV, K),                       KV_DIM,      D_MODEL,   ATTENDS,      QKV_BIAS },
    { VECTOR(latent_norm),                   KV_LORA,     NONE,      LATENT,       NEVER },
    { MAT(wv, QKV, V),                       KV_DIM,      D_MODEL,   PLAIN,        QKV_BIAS },
    { PER_HEAD(w_uk, UK, Q),                 KV_LORA,     NOPE,      LATENT,       NEVER },
    { PER_HEAD(w_uv, UV, V),                 V_HEAD,      KV_LORA,   LATENT,       NEVER },
    { VECTOR(q_norm),                        Q_NORM,      NONE,      QK_NORMED,    NEVER },
    { VECTOR(k_norm),                        K_NORM,      NONE,      QK_NORMED,    NEVER },
    { VECTOR(attn_sinks),                    HEADS,       NONE,      SINKS,        NEVER },
    { MAT(attn_gate, QKV, Q),                Q_DIM,       D_MODEL,   OUT_GATED,    Q_BIAS },
    { MAT(wo, WO, OUT),                      D_MODEL,     O_DIM,     ATTENDS,      OUT_BIAS },
    { MAT(conv_b, QKV, CONV_IN),             D_MODEL,     D_MODEL,   SHORT,        CONV_BIASED },
    { MAT(conv_c, QKV, CONV_IN),             D_MODEL,     D_MODEL,   SHORT,        CONV_BIASED },
    { MAT(conv_x, QKV, CONV_IN),             D_MODEL,     D_MODEL,   SHORT,        CONV_BIASED },
    { MAT(delta_qkv, QKV, CONV_IN),          CONV_DIM,    D_MODEL,   DELTA,        NEVER },
    { MAT(delta_z, QKV, CONV_IN),            STATE_DIM,   D_MODEL,   DELTA,        NEVER },
    { FLOAT_MAT(delta_b, QKV, CONV_IN),      DELTA_HEADS, D_MODEL,   DELTA,        NEVER },
    { FLOAT_MAT(delta_a, QKV, CONV_IN),      DELTA_HEADS, D_MODEL,   DELTA,        NEVER },
    { VECTOR(conv),                          TAPS,        NONE,      STATE,        NEVER },
    { VECTOR(conv_shift),                    D_MODEL,     NONE,      CONV_BIASED,  NEVER },
    { MAT(conv_out, WO, CONV_OUT),           D_MODEL,     D_MODEL,   SHORT,        CONV_BIASED },
    { VECTOR(delta_dt),                      DELTA_HEADS, NONE,      DELTA,        NEVER },
    { VECTOR(delta_rate),                    DELTA_HEADS, NONE,      DELTA,        NEVER },
    { VECTOR(delta_norm),                    DELTA_VALUE, NONE,      DELTA,        NEVER },
    { MAT(delta_out, WO, CONV_OUT),          D_MODEL,     STATE_DIM, DELTA,        NEVER },
    { NORM(attn_post_norm, ATTN_POST_NORM),  D_MODEL,     NONE,      POST_NORMED,  NORM_BIAS },
    { NORM(ffn_norm, FFN_NORM),              D_MODEL,     NONE,      FFN_NORMED,   NORM_BIAS },
    { MAT(w_gate, FFN, GATE),                D_FF,        D_MODEL,   GATED,        FFN_BIAS },
    { MAT(w_up, FFN, UP),                    D_FF,        D_MODEL,   DENSE,        FFN_BIAS },
    { VECTOR(xielu),                         FOUR,        NONE,      XIELUED,      NEVER },
    { MAT(w_down, DOWN, DOWN),               D_MODEL,     D_FF,      DENSE,        FFN_BIAS },
    { ROUTER(router),                        EXPERTS,     D_MODEL,   MOE,          ROUTER_BIAS },
    { VECTOR(choice_bias),                   EXPERTS,     NONE,      CHOICE_BIASED, NEVER },
    { STACK(expert_gate, FFN, GATE),         EXPERT_FF,   D_MODEL,   MOE,          EXPERT_BIAS },
    { STACK(expert_up, FFN, UP),             EXPERT_FF,   D_MODEL,   MOE,          EXPERT_BIAS },
    { STACK(expert_down, EXPERT_DOWN, DOWN), D_MODEL,     EXPERT_FF, MOE,          EXPERT_BIAS },
    { ROUTER(shared_router),                 ONE,         D_MODEL,   SHARED_GATED, NEVER },
    { MAT(shared_gate, FFN, GATE),           SHARED_FF,   D_MODEL,   SHARED,       NEVER },
    { MAT(shared_up, FFN, UP),               SHARED_FF,   D_MODEL,   SHARED,       NEVER },
    { MAT(shared_down, SHARED_DOWN, DOWN),   D_MODEL,     SHARED_FF, SHARED,       NEVER },
    { NORM(ffn_post_norm, FFN_POST_NORM),    D_MODEL,     NONE,      POST_NORMED,  NORM_BIAS },
    { MTP_NORM(mtp_embed_norm),              D_MODEL,     NONE,      MTP,          MTP_BIAS },
    { MTP_NORM(mtp_state_norm),              D_MODEL,     NONE,      MTP,          MTP_BIAS },
    { MAT(mtp_proj, MTP, COUNT),             D_MODEL,     TWO_MODELS, MTP,         NEVER },
    { MTP_NORM(mtp_final_norm),              D_MODEL,     NONE,      MTP,          MTP_BIAS },
    { TOP_NORM(final_norm),                  D_MODEL,     NONE,      ALWAYS,       NORM_BIAS },
    { TOP_MAT(lm_head),                      VOCAB,       D_MODEL,   UNTIED,       NEVER },
    { FLOAT_TABLE(dense1),                   DENSE_1,     D_MODEL,   DENSE1,       DENSE1_BIASED },
    { FLOAT_TABLE(dense2),                   DENSE_2,     DENSE_1,   DENSE2,       DENSE2_BIASED },
};
_Static_assert(sizeof parts / sizeof parts[0] == ROLE_COUNT, "a row for each role");

const TensorRow *tensor_row(TensorRole role) { return &parts[role].row; }

BlockPart tensor_row_part(const TensorRow *r)
{
    if (r->at == offsetof(Layer, choice_bias))
        return PART_FFN;
    if (r->at == offsetof(Layer, attn_sinks) || r->at == offsetof(Layer, conv)
        || r->at == offsetof(Layer, conv_shift) || r->at == offsetof(Layer, delta_dt)
        || r->at == offsetof(Layer, delta_rate))
        return PART_ATTENTION;
    if (!tensor_row_mat(r))
        return PART_NORMS;
    return r->reads <= INPUT_WO ? PART_ATTENTION : PART_FFN;
}

/* Does a layer have it? layer -1: outside the layers. */
static bool holds(const Config *c, When when, int layer)
{
    NormPlacement place = c->norm_placement;
    bool moe    = layer >= 0 && layer < MAX_LAYERS && config_moe(c, layer);
    bool shared = moe && c->shared_d_ff > 0;
    bool state  = layer >= 0 && layer < MAX_LAYERS && config_state(c, layer);
    bool mtp    = layer == c->n_layers;
    switch (when) {
    case LEARNED:      return c->positions == POS_LEARNED;
    case FACTORS:
        return c->rope.type == ROPE_FACTORS || c->rope.type == ROPE_LONGROPE;
    case ONE_Q:        return !state && c->q_lora == 0;
    case TWO_Q:        return !state && c->q_lora > 0;
    case PLAIN:        return !state && c->kv_lora == 0;
    case LATENT:       return !state && c->kv_lora > 0;
    case Q_BIAS:       return c->qkv_bias && c->kv_lora == 0;
    case Q_A_BIAS:     return c->qkv_bias && c->q_lora > 0;
    case QK_NORMED:    return !state && c->qk_norm != QK_NONE && c->qk_norm != QK_PLAIN;
    case SINKS:        return !state && c->attn_sinks;
    case ATTENDS:      return !state;
    case OUT_GATED:    return !state && c->attn_gate;
    case STATE:        return state;
    case SHORT:        return state && c->delta_heads == 0;
    case DELTA:        return state && c->delta_heads > 0;
    case CONV_BIASED:  return state && c->conv_bias;
    case UNTIED:       return !c->tied_embeddings && !c->headless;
    case ATTN_NORMED:  return place != PLACE_OUTPUT;
    case FFN_NORMED:   return place != PLACE_OUTPUT && place != PLACE_PARALLEL;
    case POST_NORMED:  return place == PLACE_BOTH || place == PLACE_OUTPUT;
    case GATED:        return !moe && config_gated(c);
    case DENSE:        return !moe;
    case XIELUED:      return !moe && c->ffn == FFN_XIELU;
    case MOE:          return moe;
    case CHOICE_BIASED: return moe && c->choice_bias;
    case SHARED:       return shared;
    case SHARED_GATED: return shared && c->shared_router;
    case QKV_BIAS:     return c->qkv_bias;
    case OUT_BIAS:     return c->out_bias;
    case FFN_BIAS:     return c->ffn_bias;
    case NORM_BIAS:    return c->norm_bias;
    case ROUTER_BIAS:  return moe && c->router_bias;
    case EXPERT_BIAS:  return moe && c->expert_bias;
    case MTP:          return mtp;
    case MTP_BIAS:     return mtp && c->norm_bias;
    case DENSE1:       return c->dense1 > 0;
    case DENSE2:       return c->dense2 > 0;
    case DENSE1_BIASED: return c->dense1_bias;
    case DENSE2_BIASED: return c->dense2_bias;
    case NEVER:        return false;
    case ALWAYS:
    case N_WHEN:       break;
    }
    return true;
}

static bool has_part(const Config *c, const struct Part *p, bool bias, int layer)
{
    return holds(c, p->when, layer) && (!bias || holds(c, p->biased, layer));
}

static int dim_size(const Config *c, Dim d, const char **key, int *unit)
{
    if (d == Q_NORM || d == K_NORM)
        d = c->qk_norm == QK_HEAD ? HEAD : d == Q_NORM ? Q_DIM : KV_DIM;
    *unit = d == Q_DIM ? config_query_dim(c)
        : d == KV_DIM  ? c->head_dim
        : d == O_DIM   ? config_value_dim(c)
        : d == TAPS    ? config_conv_width(c)
        : d == STATE_DIM && c->delta_heads ? c->delta_value_dim
        : d == TWO_MODELS ? 2
                       : 1;
    switch (d) {
    case D_MODEL: *key = "d_model";    return c->d_model;
    case TWO_MODELS: *key = "d_model"; return 2 * c->d_model;
    case Q_DIM:
    case O_DIM:   *key = "heads";      return c->heads * *unit;
    case KV_DIM:  *key = "kv_heads";   return c->kv_heads * c->head_dim;
    case D_FF:    *key = "d_ff";       return c->d_ff;
    case VOCAB:   *key = "vocab_size"; return c->vocab_size;
    case CONTEXT: *key = "n_ctx";      return c->n_ctx;
    case ROTARIES:
        *key = "rotary_dim";
        return c->rope.type == ROPE_LONGROPE ? c->rotary_dim : c->rotary_dim / 2;
    case HEAD:    *key = "head_dim";   return c->head_dim;
    case HEADS:   *key = "heads";      return c->heads;
    case EXPERTS: *key = "n_experts";  return c->n_experts;
    case EXPERT_FF: *key = "expert_d_ff"; return c->expert_d_ff;
    case SHARED_FF: *key = "shared_d_ff"; return c->shared_d_ff;
    case Q_LORA:  *key = "q_lora";     return c->q_lora;
    case KV_LORA: *key = "kv_lora";    return c->kv_lora;
    case NOPE:    *key = "nope_dim";   return c->nope_dim;
    case V_HEAD:  *key = "v_dim";      return c->v_dim;
    case TAPS:    *key = "conv_taps";  return c->conv_taps * config_conv_width(c);
    case CONV_DIM:    *key = "";            return config_conv_width(c);
    case STATE_DIM:   *key = "delta_heads"; return config_state_width(c);
    case DELTA_HEADS: *key = "delta_heads"; return c->delta_heads;
    case DELTA_VALUE: *key = "delta_value_dim"; return c->delta_value_dim;
    case DENSE_1: *key = "dense1";     return c->dense1;
    case DENSE_2: *key = "dense2";     return c->dense2;
    case ONE:     *key = "";           return 1;
    case FOUR:    *key = "";           return 4;
    case Q_NORM:
    case K_NORM:
    case NONE:    break;
    }
    *key = "";
    return 0;
}

TensorSpec tensor_list_start(void) { return (TensorSpec){ .at_ = -1, .layer = -1 }; }

static bool in_layer(int role) { return role < ROLE_COUNT && parts[role].row.in_layer; }

/* Layer `layer` starts at the first row of the layers. */
static bool begin_layer(TensorSpec *s, int layer)
{
    s->layer = layer;
    for (s->at_ = 0; !in_layer(s->at_ / 2); s->at_ += 2)
        ;
    return true;
}

/* Go to the next entry; at_ counts weights and biases. The rows of the layers are together in the
 * table: after their last row, the next layer starts at their first. The MTP layer comes at the
 * very end, so that the list without it is a prefix of the list. */
static bool advance(const Config *c, TensorSpec *s)
{
    int last = s->at_ / 2;
    s->at_++;
    if (s->at_ > 0 && s->at_ % 2 == 0 && in_layer(last) && !in_layer(last + 1)) {
        if (s->layer >= c->n_layers)
            return false;
        if (s->layer + 1 < c->n_layers)
            return begin_layer(s, s->layer + 1);
        s->layer = -1;
    } else if (s->layer < 0 && in_layer(s->at_ / 2)) {
        s->layer = 0;
    }
    return s->at_ < 2 * ROLE_COUNT || (c->mtp_layers && begin_layer(s, c->n_layers));
}

bool tensor_list_next(const Config *c, TensorSpec *s)
{
    do {
        if (!advance(c, s))
            return false;
    } while (!has_part(c, &parts[s->at_ / 2], s->at_ % 2 != 0, s->layer));

    const struct Part *p = &parts[s->at_ / 2];
    s->role = (TensorRole)(s->at_ / 2);
    s->bias = s->at_ % 2 != 0;
    s->part = s->bias ? p->row.bias_name : p->row.name;
    if (p->row.in_layer)
        snprintf(s->name, sizeof s->name, "layers.%d.%s", s->layer, s->part);
    else
        snprintf(s->name, sizeof s->name, "%s", s->part);
    s->rows = dim_size(c, p->rows, &s->rows_key, &s->rows_unit);
    s->k    = dim_size(c, s->bias ? NONE : p->k, &s->k_key, &s->k_unit);
    /* An embedding that is not also the head is read by single rows, so it is not in panels. */
    s->panels =
        s->k != 0 && (!tensor_spec_gathered(s) || (s->role == ROLE_EMBED && c->tied_embeddings));
    s->stack  = s->bias                 ? 1
        : p->row.kind == KIND_STACK ? c->n_experts
        : p->row.kind == KIND_HEADS ? c->heads
                                    : 1;
    if (p->row.kind == KIND_STACK && s->bias) { /* one vector for all experts */
        s->rows     *= c->n_experts;
        s->rows_unit = c->n_experts;
    }
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

uint64_t tensor_spec_params(const TensorSpec *s)
{
    if (s->role == ROLE_ROPE_FACTORS) /* constants, which are not counted */
        return 0;
    return (uint64_t)s->stack * (uint64_t)s->rows * (uint64_t)(s->k ? s->k : 1);
}

size_t tensor_spec_bytes(const TensorSpec *s, WeightType type)
{
    size_t n = (size_t)s->rows * sizeof(float);
    if (tensor_spec_panels(s, type))
        matrix_bytes(type, tensor_spec_panel_rows(s), s->k, &n);
    else if (s->k)
        n = (size_t)s->stack * (size_t)s->rows * (size_t)s->k * weight_type_bytes(type);
    return n;
}

/* What a tensor's name means: its row, whether it is the bias, its layer (-1: outside the
 * layers). */
typedef struct NamedPart { const struct Part *p; bool bias; int layer; } NamedPart;

/* p NULL: no config has such a tensor. */
static NamedPart find_part(const char *name)
{
    const char *part  = name;
    NamedPart       found = { .layer = -1 };
    if (strncmp(name, "layers.", 7) == 0) {
        const char *p = name + 7;
        int         n = 0, digits = 0;
        for (; p[digits] >= '0' && p[digits] <= '9' && digits < 7; digits++)
            n = n * 10 + (p[digits] - '0');
        if (digits == 0 || p[digits] != '.' || (p[0] == '0' && digits > 1)) /* 007 is not a layer */
            return found;
        found.layer = n;
        part = p + digits + 1;
    }
    for (int i = 0; i < ROLE_COUNT; i++) {
        const TensorRow *row = &parts[i].row;
        found.bias = parts[i].biased != NEVER && strcmp(row->bias_name, part) == 0;
        if (row->in_layer == (found.layer >= 0) && (found.bias || strcmp(row->name, part) == 0)) {
            found.p = &parts[i];
            return found;
        }
    }
    return found;
}

bool tensor_list_has(const Config *c, const char *name)
{
    NamedPart n = find_part(name);
    return n.p && n.layer < c->n_layers + c->mtp_layers && has_part(c, n.p, n.bias, n.layer);
}

bool tensor_list_has_matrix(const Config *c, const char *name)
{
    NamedPart n = find_part(name);
    return tensor_list_has(c, name) && n.p->k != NONE && !n.bias;
}

const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n)
{
    static const char *const flags[N_WHEN] = {
        [LEARNED]      = "positions rope",
        [FACTORS]      = "rope type other than factors and longrope",
        [ONE_Q]        = "q_lora above 0",
        [TWO_Q]        = "q_lora 0",
        [PLAIN]        = "kv_lora above 0",
        [LATENT]       = "kv_lora 0",
        [QK_NORMED]    = "qk_norm false",
        [SINKS]        = "attn_sinks false",
        [ATTENDS]      = "a layer with a state",
        [OUT_GATED]    = "attn_gate false",
        [STATE]        = "no state in that layer",
        [SHORT]        = "no short convolution in that layer",
        [DELTA]        = "no delta rule in that layer",
        [CONV_BIASED]  = "conv_bias false",
        [UNTIED]       = "tied_embeddings true",
        [DENSE1]       = "no dense1",
        [DENSE2]       = "no dense2",
        [DENSE1_BIASED] = "dense1_bias false",
        [DENSE2_BIASED] = "dense2_bias false",
        [QKV_BIAS]     = "qkv_bias false",
        [Q_BIAS]       = "qkv_bias false",
        [Q_A_BIAS]     = "qkv_bias false",
        [OUT_BIAS]     = "out_bias false",
        [FFN_BIAS]     = "ffn_bias false",
        [NORM_BIAS]    = "norm_bias false",
        [ROUTER_BIAS]  = "router_bias false",
        [EXPERT_BIAS]  = "expert_bias false",
        [XIELUED]      = "ffn other than xielu",
        [MOE]          = "no experts in that layer",
        [CHOICE_BIASED] = "no choice_bias in that layer",
        [SHARED]       = "no shared expert in that layer",
        [SHARED_GATED] = "shared_router false",
        [MTP]          = "mtp_layers 0, or another layer,",
    };
    NamedPart t = find_part(name);
    buf[0]  = '\0';
    if (t.p && t.layer >= c->n_layers + c->mtp_layers)
        snprintf(buf, n, " (n_layers %d in the config)", c->n_layers);
    else if (t.p && !has_part(c, t.p, t.bias, t.layer)) {
        bool        unbiased = t.bias && !holds(c, t.p->biased, t.layer);
        const char *flag     = flags[unbiased ? t.p->biased : t.p->when];
        snprintf(buf, n, flag ? " (%s in the config)" : " (the config has no such part)", flag);
    }
    return buf;
}
