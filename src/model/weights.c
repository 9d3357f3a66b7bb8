/* model/weights.c: binds tensors to layers. Every shape and type is checked here once, so that the
 * forward pass checks nothing. Data stored as the kernels want it is used in place; weights_make.c
 * makes the rest. */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/count.h"
#include "model/model_writer.h"

enum { ALIGN = 64 };

typedef struct ModelBinder {
    Model            *m;
    const StoredModel *c;
    const WeightType *types;  /* of each tensor; NULL: as stored */
    Error            *err;
    Maker             maker;
    const Progress   *progress;
} ModelBinder;

static bool aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

/* ---- Binding --------------------------------------------------------------------------------- */

/* A vector of n_padded floats; those past its rows are 0. */
static const float *bind_vector(ModelBinder *b, const TensorSpec *s, const CheckedTensor *c,
                                size_t n_padded)
{
    size_t n = (size_t)s->rows;
    if (!c->rows && c->type == WT_F32 && n == n_padded && aligned(c->part[0]->data, ALIGN))
        return c->part[0]->data;
    float *v = weights_own(&b->maker, n_padded * sizeof *v);
    if (!v)
        return NULL;
    checked_vector(s, c, v);
    memset(v + n, 0, (n_padded - n) * sizeof *v);
    return v;
}

/* The data of a tensor in place, or a copy if it is not aligned to `to` bytes. */
static const void *in_place(ModelBinder *b, const Tensor *t, size_t to)
{
    if (aligned(t->data, to))
        return t->data;
    void *copy = weights_own(&b->maker, t->n_bytes);
    if (copy)
        memcpy(copy, t->data, t->n_bytes);
    return copy;
}

/* The data of a matrix that is used as it is stored. */
static bool bind_in_place(ModelBinder *b, const CheckedTensor *c, Panels *out)
{
    for (int i = 0; i < part_count(c->type); i++) {
        out->part[i] = in_place(b, c->part[i], c->panels ? ALIGN : weight_type_bytes(c->type));
        if (!out->part[i])
            return false;
    }
    return true;
}

/* The field of Layer or Model for the tensor's role. */
static void *place_of(Model *m, const TensorSpec *s)
{
    const TensorRow *row = tensor_row(s->role);
    return (char *)(row->in_layer ? (void *)&m->layer[s->layer] : m) + row->at;
}

/* The field that points to a vector. */
static const float **find_vector(Model *m, const TensorSpec *s)
{
    void *place = place_of(m, s);
    switch (tensor_row(s->role)->kind) {
    case KIND_MAT:
    case KIND_STACK:
    case KIND_HEADS:     return &((Mat *)place)->bias;
    case KIND_NORM:      return s->bias ? &((NormVectors *)place)->b : &((NormVectors *)place)->w;
    case KIND_EMBEDDING: return &((Embedding *)place)->bias;
    case KIND_VECTOR:    break;
    }
    return place;
}

/* Bind a vector. A matrix's bias is padded, because kernels read it in whole panels. */
static bool bind_to_vector(ModelBinder *b, const TensorSpec *s, const CheckedTensor *c)
{
    const float    **v    = find_vector(b->m, s);
    const TensorRow *row  = tensor_row(s->role);
    size_t           rows = (size_t)s->rows;
    *v = bind_vector(b, s, c,
                     row->kind == KIND_STACK     ? rows + PANEL_ROWS
                         : row->kind == KIND_MAT ? (size_t)panel_count(s->rows) * PANEL_ROWS
                                                 : rows);
    return *v != NULL;
}

/* Does the stored matrix differ from the wanted type? A bf16 matrix of `quantize` has no magnitude
 * under 2^-50, so one that may have such values must be made again. */
static bool other_type(const ModelBinder *b, const CheckedTensor *c, WeightType type)
{
    return type != c->type || (type == WT_BF16 && !b->c->bf16_min);
}

/* What happens to a matrix: it is used in place, packed in its own type, or retyped. */
typedef enum Fate { IN_PLACE, PACKED, RETYPED } Fate;

static Fate matrix_fate(const ModelBinder *b, const TensorSpec *s, const CheckedTensor *c,
                        WeightType type)
{
    if (b->types && other_type(b, c, type))
        return RETYPED;
    if (c->panels) /* each rank copies its own panels; a table of which rows are read stays */
        return b->m->ranks && s->panels ? PACKED : IN_PLACE;
    return tensor_spec_panels(s, c->type) || c->rows ? PACKED : IN_PLACE;
}

/* The bytes of all matrices that are not used in place. now: of them, those that must be made
 * when the model is opened. */
static size_t made_bytes(const ModelBinder *b, size_t *now)
{
    size_t n = *now = 0;
    int    i = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&b->m->cfg, &s); i++) {
        const CheckedTensor *c    = &b->c->tensor[i];
        WeightType           type = b->types ? b->types[i] : c->type;
        Own                  own  = model_panels(b->m, s.role, s.rows, s.stack);
        Fate                 fate = s.k ? matrix_fate(b, &s, c, type) : IN_PLACE;
        size_t               made = fate != IN_PLACE ? weights_made_bytes(&s, type, &own) : 0;
        n    += made;
        *now += fate == PACKED && weights_may_be_late(&b->maker, &s, c) ? 0 : made;
    }
    return n;
}

/* Before anything is made: memory that is not there is noticed only when it is written. Floats that
 * would take it are packed pass by pass. Sets *made. */
static bool memory_for(ModelBinder *b, size_t *made)
{
    size_t       now;
    const double have = memory_available(""), each = b->m->ranks ? b->m->ranks->local : 1;
    *made = made_bytes(b, &now);
    b->maker.floats_late = have > 0 && now >= HUGE_PAGE && (double)now * each > 0.9 * have;
    if (b->maker.floats_late)
        *made = made_bytes(b, &now);
    const double need = (double)now * each;
    if (have > 0 && now >= HUGE_PAGE && need > have)
        return fail(b->err, SYSTEM, "%s: out of memory: weights that are not used as they are in "
                                    "the file take %.0f MB, but %.0f MB are available", b->c->path,
                    need / (1 << 20), have / (1 << 20));
    b->m->available = have > need ? have - need : have > 0;
    return true;
}

static bool make_matrix(ModelBinder *b, const TensorSpec *s, CheckedTensor *c, Fate fate,
                        WeightType type, Panels *out, const LateMatrix **late)
{
    CheckedTensor stored = *c;
    if (fate == IN_PLACE)
        return bind_in_place(b, c, out);
    if (fate == RETYPED ? !weights_retype(&b->maker, s, c, type, out)
                        : !weights_pack_later(&b->maker, s, c, out, late))
        return false;
    return *late || !b->m->ranks || !tensor_spec_gathered(s)
        || weights_table(&b->maker, s, &stored, type, fate == RETYPED, late);
}

static bool bind_to_matrix(ModelBinder *b, const TensorSpec *s, CheckedTensor *c, WeightType type)
{
    Model *m     = b->m;
    Panels w     = { { NULL } };
    Own    own   = model_panels(m, s->role, s->rows, s->stack);
    Fate   fate  = matrix_fate(b, s, c, type);
    size_t bytes = fate == RETYPED ? tensor_spec_bytes(s, type) : checked_bytes(c);
    const LateMatrix *late = NULL;
    if (!make_matrix(b, s, c, fate, type, &w, &late))
        return false;
    if (tensor_spec_gathered(s))
        *(Embedding *)place_of(m, s) =
            (Embedding){ .type = c->type,
                         .panels = c->panels || tensor_spec_panels(s, c->type),
                         .rows = s->rows,
                         .k = s->k,
                         .w = w,
                         .late = late,
                         .own = own.run[0] };
    else
        *(Mat *)place_of(m, s) =
            (Mat){ .type = c->type,
                   .rows = s->rows,
                   .k = s->k,
                   .stack = s->stack,
                   .w = w,
                   .held = fate == IN_PLACE ? (Own){ .items = { 0, 0 } } : own,
                   .late = late };
    m->matrix_bytes[c->type] += bytes;
    return true;
}

static bool bind(ModelBinder *b, const TensorSpec *s, int i)
{
    CheckedTensor c = b->c->tensor[i];
    b->m->weight_bytes += checked_bytes(&c);
    return s->k ? bind_to_matrix(b, s, &c, b->types ? b->types[i] : c.type)
                : bind_to_vector(b, s, &c);
}

static size_t mat_bytes(const Mat *w)
{
    if (w->rows == 0)
        return 0;
    return panel_bytes(w->type, w->k) * (size_t)panel_count(w->rows)
        + (w->bias ? (size_t)w->rows * sizeof(float) : 0);
}

static size_t embedding_row_bytes(const Embedding *e)
{
    return weight_type_quantized(e->type) ? panel_bytes(e->type, e->k) / PANEL_ROWS
                                          : weight_type_bytes(e->type) * (size_t)e->k;
}

static size_t norm_bytes(const Model *m, const NormVectors *v)
{
    return ((size_t)(v->w != NULL) + (size_t)(v->b != NULL)) * (size_t)m->cfg.d_model
        * sizeof(float);
}

/* Bytes of a layer that one token reads: of the experts, those that it uses. */
static size_t layer_bytes(const Model *m, const Layer *w)
{
    size_t n = 0;
    for (int i = 0; i < ROLE_COUNT; i++) {
        const TensorRow *row   = tensor_row((TensorRole)i);
        const void      *place = (const char *)w + row->at;
        if (row->in_layer && row->kind == KIND_NORM)
            n += norm_bytes(m, place);
        else if (row->in_layer && tensor_row_mat(row))
            n += mat_bytes(place)
                * (row->kind == KIND_STACK       ? (size_t)m->cfg.experts_used
                       : row->kind == KIND_HEADS ? (size_t)m->cfg.heads
                                                 : 1);
    }
    return n;
}

static size_t decode_bytes(const Model *m)
{
    size_t n =
        norm_bytes(m, &m->final_norm) + mat_bytes(&m->lm_head) + embedding_row_bytes(&m->embed);
    for (int l = 0; l < m->cfg.n_layers; l++)
        n += layer_bytes(m, &m->layer[l]);
    return n;
}

/* Norms without a weight get one of all 1, in layers that rotate. */
static bool bind_plain_norms(ModelBinder *b)
{
    Model *m = b->m;
    float *ones;
    if (m->cfg.qk_norm != QK_PLAIN)
        return true;
    ones = weights_own(&b->maker, (size_t)m->cfg.head_dim * sizeof *ones);
    for (int i = 0; ones && i < m->cfg.head_dim; i++)
        ones[i] = 1;
    for (int l = 0; l < m->cfg.n_layers + m->cfg.mtp_layers; l++)
        if (config_rotates(&m->cfg, l))
            m->layer[l].q_norm = m->layer[l].k_norm = ones;
    return ones != NULL;
}

static bool bind_all(ModelBinder *b)
{
    Model *m = b->m;
    int    i = 0;
    size_t all = stored_model_bytes(b->c), made;
    if (!memory_for(b, &made) || !weights_region(&b->maker, made))
        return false;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&m->cfg, &s); i++) {
        if (!bind(b, &s, i)
            || !progress_tell(b->progress, (double)m->weight_bytes, (double)all, b->err))
            return false;
    }
    if (!bind_plain_norms(b))
        return false;
    late_weights_measure(m->late, m->ranks ? m->ranks->local : 1, m->available);
    if (m->cfg.tied_embeddings) {
        assert(m->embed.panels);
        m->lm_head = (Mat){ .type = m->embed.type,
                            .rows = m->embed.rows,
                            .k = m->embed.k,
                            .stack = 1,
                            .w = m->embed.w,
                            .held = { { 0, m->embed.late != NULL }, { m->embed.own } },
                            .late = m->embed.late };
    }
    m->n_params        = count_params(&m->cfg);
    m->bytes_per_token = decode_bytes(m);
    return true;
}

bool model_bind(Model *m, const StoredModel *c, const WeightType *types, Ranks *ranks,
                const Progress *progress, Error *err)
{
    *m = (Model){ .cfg = c->config, .ranks = ranks };
    ModelBinder b = { .m = m,
                      .c = c,
                      .types = types,
                      .err = err,
                      .maker = { .m = m, .path = c->path, .err = err },
                      .progress = progress };
    m->layer = calloc((size_t)m->cfg.n_layers + (size_t)m->cfg.mtp_layers, sizeof *m->layer);
    bool ok  = m->layer
        ? bind_all(&b)
        : fail(err, SYSTEM, "%s: out of memory for %d layers", c->path, c->config.n_layers);
    if (!ok)
        model_free(m);
    threads_pool_free(b.maker.pool);
    return ok;
}

bool model_bind_file(Model *m, const Config *cfg, const TensorFile *f, Error *err)
{
    StoredModel c;
    *m = (Model){ 0 };
    bool ok = stored_model_from_file(&c, cfg, f, err) && model_bind(m, &c, NULL, NULL, NULL, err);
    stored_model_free(&c);
    return ok;
}

void model_free(Model *m)
{
    for (int i = 0; i < m->n_owned; i++)
        free(m->owned[i].data);
    free(m->owned);
    pages_unmap(m->region.data, m->region.n_bytes);
    weight_pages_free(m->pages);
    late_weights_free(m->late);
    free(m->layer);
    *m = (Model){ 0 };
}

Model model_mtp(const Model *m)
{
    Model own = { .cfg          = config_mtp(&m->cfg),
                  .ranks        = m->ranks,
                  .embed        = m->embed,
                  .pos_embed    = m->pos_embed,
                  .rope_factors = m->rope_factors,
                  .layer        = m->layer + m->cfg.n_layers,
                  .is_mtp       = true,
                  .final_norm   = m->layer[m->cfg.n_layers].mtp_final_norm,
                  .lm_head      = m->lm_head,
                  .late         = m->late };
    own.bytes_per_token = decode_bytes(&own);
    return own;
}

void embedding_row(const Embedding *e, int token, float *out, void *scratch)
{
    assert(token >= 0 && token < e->rows);
    int panel = token / PANEL_ROWS;
    if (e->late && (!late_matrix_packed(e->late) || panel < e->own.first || panel >= e->own.end)) {
        late_matrix_row(e->late, token, out, scratch);
        return;
    }
    panel -= e->late ? e->own.first : 0;
    if (e->panels)
        panel_row_to_f32(e->type, out, panels_from(e->type, e->w, panel, e->k),
                         token % PANEL_ROWS, e->k);
    else
        elements_to_f32(e->type, out,
                        (const char *)e->w.part[0]
                            + ((size_t)panel * PANEL_ROWS + (size_t)token % PANEL_ROWS)
                                * (size_t)e->k * weight_type_bytes(e->type),
                        (size_t)e->k);
}
