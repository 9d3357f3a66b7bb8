/* model/weights.c: from tensor names to layers. Every shape and type is checked here once, so that the forward pass
 * checks nothing. What lies in the file as the kernels want it is used in place; weights_make.c makes the rest. */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/count.h"
#include "model/weights_make.h"

enum { ALIGN = 64 };

typedef struct Binder {
    Model            *m;
    const TensorFile *f;
    const WeightType *types;  /* of each tensor; NULL: as stored */
    Error            *err;
    Maker             maker;
} Binder;

static bool aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

/* ---- Binding ---- */

/* A vector of n_padded floats, 0 past its rows. */
static const float *bind_vector(Binder *b, const TensorSpec *s, const CheckedTensor *c, size_t n_padded)
{
    const Tensor *t = c->part[0];
    size_t        n = (size_t)s->rows, element_bytes = weight_type_bytes(c->type);
    if (c->type == WT_F32 && n == n_padded && aligned(t->data, ALIGN))
        return t->data;
    float *v = weights_own(&b->maker, n_padded * sizeof *v);
    if (!v)
        return NULL;
    for (size_t i = 0; i < n; i++) { /* one by one: a foreign file may start an element at any byte */
        uint32_t element = 0;
        memcpy(&element, (const char *)t->data + i * element_bytes, element_bytes);
        elements_to_f32(c->type, v + i, &element, 1);
    }
    memset(v + n, 0, (n_padded - n) * sizeof *v);
    return v;
}

/* The data of a tensor where it lies, or a copy where that is not on `to` bytes. */
static const void *in_place(Binder *b, const Tensor *t, size_t to)
{
    if (aligned(t->data, to))
        return t->data;
    void *copy = weights_own(&b->maker, t->n_bytes);
    if (copy)
        memcpy(copy, t->data, t->n_bytes);
    return copy;
}

/* The data of a matrix, in panels where the spec wants panels. */
static bool bind_matrix(Binder *b, const TensorSpec *s, const CheckedTensor *c, Panels *out)
{
    *out = (Panels){ { NULL } };
    if (!c->panels && s->panels) {
        out->part[0] = weights_pack(&b->maker, c->part[0], c->type, s->rows, s->k);
        return out->part[0] != NULL;
    }
    for (int i = 0; i < part_count(c->type); i++) {
        out->part[i] = in_place(b, c->part[i], c->panels ? ALIGN : weight_type_bytes(c->type));
        if (!out->part[i])
            return false;
    }
    return true;
}

static Mat *find_mat(Model *m, const TensorSpec *s)
{
    Layer *w = s->layer < 0 ? NULL : &m->layer[s->layer];
    switch (s->role) {
    case ROLE_WQ:      return &w->wq;
    case ROLE_WK:      return &w->wk;
    case ROLE_WV:      return &w->wv;
    case ROLE_WO:      return &w->wo;
    case ROLE_W_GATE:  return &w->w_gate;
    case ROLE_W_UP:    return &w->w_up;
    case ROLE_W_DOWN:  return &w->w_down;
    case ROLE_LM_HEAD: return &m->lm_head;
    default:           return NULL;
    }
}

static const float **find_norm(Model *m, const TensorSpec *s)
{
    switch (s->role) {
    case ROLE_ATTN_NORM:  return &m->layer[s->layer].attn_norm;
    case ROLE_FFN_NORM:   return &m->layer[s->layer].ffn_norm;
    case ROLE_FINAL_NORM: return &m->final_norm;
    default:              return NULL;
    }
}

/* Is what is stored not what was asked for? bf16 of `quantize` has no magnitude under 2^-50. */
static bool other_type(const Binder *b, const CheckedTensor *c, WeightType type)
{
    return type != c->type || (type == WT_BF16 && !tensor_meta(b->f, "bf16_min"));
}

static bool bind_to(Binder *b, const TensorSpec *s, CheckedTensor *c, WeightType type)
{
    Model *m = b->m;
    if (s->bias) {
        Mat *w  = find_mat(m, s);
        w->bias = bind_vector(b, s, c, (size_t)panel_count(s->rows) * PANEL_ROWS);
        return w->bias != NULL;
    }
    if (s->k == 0) {
        const float **norm = find_norm(m, s);
        *norm = bind_vector(b, s, c, (size_t)s->rows);
        return *norm != NULL;
    }
    Panels w     = { { NULL } };
    size_t bytes = checked_bytes(c);
    if (b->types && other_type(b, c, type)) {
        if (!weights_retype(&b->maker, s, c, type, &w))
            return false;
        bytes = tensor_spec_bytes(s, type);
    } else if (!bind_matrix(b, s, c, &w)) {
        return false;
    }
    if (s->role == ROLE_EMBED)
        m->embed = (Embedding){ .type = c->type, .panels = c->panels || s->panels, .rows = s->rows, .k = s->k, .w = w };
    else
        *find_mat(m, s) = (Mat){ .type = c->type, .rows = s->rows, .k = s->k, .w = w };
    m->matrix_bytes[c->type] += bytes;
    return true;
}

static bool bind(Binder *b, const TensorSpec *s, WeightType type)
{
    CheckedTensor c;
    if (!tensor_check(s, b->f, &c, b->err))
        return false;
    b->m->weight_bytes += checked_bytes(&c);
    return bind_to(b, s, &c, type);
}

static size_t mat_bytes(const Mat *w)
{
    return panel_bytes(w->type, w->k) * (size_t)panel_count(w->rows) + (w->bias ? (size_t)w->rows * sizeof(float) : 0);
}

static size_t embedding_row_bytes(const Embedding *e)
{
    return weight_type_quantized(e->type) ? panel_bytes(e->type, e->k) / PANEL_ROWS : weight_type_bytes(e->type) * (size_t)e->k;
}

static size_t decode_bytes(const Model *m)
{
    size_t norm = (size_t)m->cfg.d_model * sizeof(float);
    size_t n    = norm + mat_bytes(&m->lm_head) + embedding_row_bytes(&m->embed);
    for (int l = 0; l < m->cfg.n_layers; l++) {
        const Layer *w = &m->layer[l];
        n += 2 * norm + mat_bytes(&w->wq) + mat_bytes(&w->wk) + mat_bytes(&w->wv) + mat_bytes(&w->wo)
           + mat_bytes(&w->w_gate) + mat_bytes(&w->w_up) + mat_bytes(&w->w_down);
    }
    return n;
}

static bool bind_all(Binder *b)
{
    Model *m = b->m;
    int    i = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&m->cfg, &s); i++)
        if (!bind(b, &s, b->types ? b->types[i] : WT_F32))
            return false;
    if (m->cfg.tied_embeddings) {
        assert(m->embed.panels);
        m->lm_head = (Mat){ .type = m->embed.type, .rows = m->embed.rows, .k = m->embed.k, .w = m->embed.w };
    }
    m->n_params        = count_params(&m->cfg);
    m->bytes_per_token = decode_bytes(m);
    return true;
}

bool model_bind(Model *m, const Config *cfg, const TensorFile *f, Error *err) { return model_bind_as(m, cfg, f, NULL, err); }

bool model_bind_as(Model *m, const Config *cfg, const TensorFile *f, const WeightType *types, Error *err)
{
    *m = (Model){ .cfg = *cfg };
    Binder b  = { .m = m, .f = f, .types = types, .err = err, .maker = { .m = m, .f = f, .err = err } };
    bool   ok = config_check(cfg, f->map.path, err) && config_supported(cfg, f->map.path, err)
              && tensor_check_unknown(cfg, f, err);
    if (ok) {
        m->layer = calloc((size_t)cfg->n_layers, sizeof *m->layer);
        ok = m->layer ? bind_all(&b) : fail(err, SYSTEM, "%s: no memory for %d layers", f->map.path, cfg->n_layers);
    }
    if (!ok)
        model_free(m);
    threads_pool_free(b.maker.pool);
    return ok;
}

void model_free(Model *m)
{
    for (int i = 0; i < m->n_owned; i++)
        free(m->owned[i]);
    free(m->owned);
    free(m->layer);
    *m = (Model){ 0 };
}

void embedding_row(const Embedding *e, int token, float *out)
{
    assert(token >= 0 && token < e->rows);
    if (e->panels)
        panel_row_to_f32(e->type, out, panels_from(e->type, e->w, token / PANEL_ROWS, e->k), token % PANEL_ROWS, e->k);
    else
        elements_to_f32(e->type, out, (const char *)e->w.part[0] + (size_t)token * (size_t)e->k * weight_type_bytes(e->type),
                        (size_t)e->k);
}
