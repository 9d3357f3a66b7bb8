/* model/tensor_list.c: names, shapes and order of a model's tensors, as one table. */
#include "model/tensor_list.h"

#include <stdio.h>
#include <string.h>

typedef enum Dim { NONE, D_MODEL, Q_DIM, KV_DIM, D_FF, VOCAB } Dim;
typedef enum When { ALWAYS, QKV_BIAS, OUT_BIAS, FFN_BIAS, UNTIED } When;

static const struct Part {
    const char *name;
    TensorRole  role;
    bool        in_layer, bias;
    Dim         rows, k;
    When        when;
} parts[] = {
    { "embed",       ROLE_EMBED,      false, false, VOCAB,   D_MODEL, ALWAYS },
    { "attn_norm",   ROLE_ATTN_NORM,  true,  false, D_MODEL, NONE,    ALWAYS },
    { "wq",          ROLE_WQ,         true,  false, Q_DIM,   D_MODEL, ALWAYS },
    { "wq_bias",     ROLE_WQ,         true,  true,  Q_DIM,   NONE,    QKV_BIAS },
    { "wk",          ROLE_WK,         true,  false, KV_DIM,  D_MODEL, ALWAYS },
    { "wk_bias",     ROLE_WK,         true,  true,  KV_DIM,  NONE,    QKV_BIAS },
    { "wv",          ROLE_WV,         true,  false, KV_DIM,  D_MODEL, ALWAYS },
    { "wv_bias",     ROLE_WV,         true,  true,  KV_DIM,  NONE,    QKV_BIAS },
    { "wo",          ROLE_WO,         true,  false, D_MODEL, Q_DIM,   ALWAYS },
    { "wo_bias",     ROLE_WO,         true,  true,  D_MODEL, NONE,    OUT_BIAS },
    { "ffn_norm",    ROLE_FFN_NORM,   true,  false, D_MODEL, NONE,    ALWAYS },
    { "w_gate",      ROLE_W_GATE,     true,  false, D_FF,    D_MODEL, ALWAYS },
    { "w_gate_bias", ROLE_W_GATE,     true,  true,  D_FF,    NONE,    FFN_BIAS },
    { "w_up",        ROLE_W_UP,       true,  false, D_FF,    D_MODEL, ALWAYS },
    { "w_up_bias",   ROLE_W_UP,       true,  true,  D_FF,    NONE,    FFN_BIAS },
    { "w_down",      ROLE_W_DOWN,     true,  false, D_MODEL, D_FF,    ALWAYS },
    { "w_down_bias", ROLE_W_DOWN,     true,  true,  D_MODEL, NONE,    FFN_BIAS },
    { "final_norm",  ROLE_FINAL_NORM, false, false, D_MODEL, NONE,    ALWAYS },
    { "lm_head",     ROLE_LM_HEAD,    false, false, VOCAB,   D_MODEL, UNTIED },
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static bool has_part(const Config *c, const struct Part *p)
{
    switch (p->when) {
    case QKV_BIAS: return c->qkv_bias;
    case OUT_BIAS: return c->out_bias;
    case FFN_BIAS: return c->ffn_bias;
    case UNTIED:   return !c->tied_embeddings;
    case ALWAYS:   break;
    }
    return true;
}

static int dim_size(const Config *c, Dim d, const char **key, int *unit)
{
    *unit = d == Q_DIM || d == KV_DIM ? c->head_dim : 1;
    switch (d) {
    case D_MODEL: *key = "d_model";    return c->d_model;
    case Q_DIM:   *key = "heads";      return c->heads * c->head_dim;
    case KV_DIM:  *key = "kv_heads";   return c->kv_heads * c->head_dim;
    case D_FF:    *key = "d_ff";       return c->d_ff;
    case VOCAB:   *key = "vocab_size"; return c->vocab_size;
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
    } while (!has_part(c, &parts[s->row_]));

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
    s->panels = s->k != 0 && (p->role != ROLE_EMBED || c->tied_embeddings);
    return true;
}

int tensor_list_count(const Config *c)
{
    int n = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);)
        n++;
    return n;
}

uint64_t tensor_spec_params(const TensorSpec *s) { return (uint64_t)s->rows * (uint64_t)(s->k ? s->k : 1); }

size_t tensor_spec_bytes(const TensorSpec *s, WeightType type)
{
    size_t n = (size_t)s->rows * sizeof(float);
    if (tensor_spec_panels(s, type))
        matrix_bytes(type, s->rows, s->k, &n);
    else if (s->k)
        n = (size_t)s->rows * (size_t)s->k * weight_type_bytes(type);
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
    return p && has_part(c, p) && layer < c->n_layers;
}

bool tensor_list_has_matrix(const Config *c, const char *name)
{
    int                layer;
    const struct Part *p = find_part(name, &layer);
    return p && p->k != NONE && has_part(c, p) && layer < c->n_layers;
}

const char *tensor_list_why_absent(const Config *c, const char *name, char *buf, size_t n)
{
    static const char *const flags[] = { [QKV_BIAS] = "qkv_bias false", [OUT_BIAS] = "out_bias false",
                                         [FFN_BIAS] = "ffn_bias false", [UNTIED] = "tied_embeddings true" };
    int                layer;
    const struct Part *p = find_part(name, &layer);
    buf[0] = '\0';
    if (p && !has_part(c, p))
        snprintf(buf, n, " (%s in the config)", flags[p->when]);
    else if (p && layer >= c->n_layers)
        snprintf(buf, n, " (n_layers %d in the config)", c->n_layers);
    return buf;
}
