/* model/weights.c: from tensor names to layers. Every shape and type is checked here once, so that the forward pass
 * checks nothing. What lies in the file as the kernels want it is used in place, the rest is packed into owned memory. */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cpu_count.h"
#include "base/threads.h"
#include "model/count.h"
#include "model/retype.h"
#include "model/tensor_check.h"

enum { ALIGN = 64, SMALL_MATRIX = 1 << 20 }; /* below SMALL_MATRIX bytes a team costs more than it saves */

typedef struct Binder {
    Model            *m;
    const TensorFile *f;
    const WeightType *types;  /* of each tensor; NULL: as stored */
    Error            *err;
    ThreadPool       *pool;   /* makes panels; made for the first large matrix */
    int               threads;
} Binder;

/* Memory that lives as long as the model: n_bytes, 64-byte aligned. NULL: no memory, *err filled. */
static void *own(Binder *b, size_t n_bytes)
{
    Model *m = b->m;
    if (m->n_owned == m->cap_owned) {
        int    cap = m->cap_owned ? 2 * m->cap_owned : 16;
        void **p   = realloc(m->owned, (size_t)cap * sizeof *p);
        if (!p) {
            fail(b->err, SYSTEM, "%s: no memory to load the weights", b->f->map.path);
            return NULL;
        }
        m->owned     = p;
        m->cap_owned = cap;
    }
    void *p = aligned_alloc(ALIGN, round_up(n_bytes, ALIGN));
    if (!p) {
        fail(b->err, SYSTEM, "%s: no memory for %zu bytes of weights", b->f->map.path, n_bytes);
        return NULL;
    }
    m->owned[m->n_owned++] = p;
    return p;
}

static bool aligned(const void *p, size_t to) { return (uintptr_t)p % to == 0; }

/* ---- Packing row-major matrices ---- */

typedef struct PackJob {
    WeightType           type;
    int                  rows, k;
    const unsigned char *from;
    unsigned char       *to;
} PackJob;

static void pack_share(void *arg, Team team)
{
    const PackJob *j   = arg;
    size_t         row = weight_type_bytes(j->type) * (size_t)j->k, panel = panel_bytes(j->type, j->k);
    int first, end;
    threads_share(team, panel_count(j->rows), &first, &end);
    for (int p = first; p < end; p++) {
        int r = p * PANEL_ROWS, n = j->rows - r < PANEL_ROWS ? j->rows - r : PANEL_ROWS;
        panel_pack(j->type, j->to + (size_t)p * panel, j->from + (size_t)r * row, n, j->k);
    }
}

/* On a machine with several memory nodes a page lies near the thread that writes it first, so panels are packed by the shares
 * that multiply them later, on the same cores (those of a context with as many threads and affinity "cores"). */
static int team_size(Binder *b, size_t n_bytes)
{
    if (!b->pool && n_bytes >= SMALL_MATRIX) {
        b->threads = threads_default();
        b->pool    = threads_pool_new(b->threads, cpu_count_nodes("") > 1);
    }
    return n_bytes < SMALL_MATRIX ? 1 : b->threads;
}

/* The panels of a row-major tensor in owned memory. */
static const void *pack(Binder *b, const Tensor *t, WeightType type, int rows, int k)
{
    size_t n_bytes = 0;
    if (!matrix_bytes(type, rows, k, &n_bytes)) {
        fail(b->err, INPUT, "%s: tensor %s: too large to pack", b->f->map.path, t->name);
        return NULL;
    }
    void *copy = NULL; /* a foreign file may start an element at any byte */
    if (!aligned(t->data, weight_type_bytes(type))) {
        copy = malloc(t->n_bytes);
        if (!copy) {
            fail(b->err, SYSTEM, "%s: no memory for %zu bytes of weights", b->f->map.path, t->n_bytes);
            return NULL;
        }
        memcpy(copy, t->data, t->n_bytes);
    }
    PackJob job = { .type = type, .rows = rows, .k = k, .from = copy ? copy : t->data, .to = own(b, n_bytes) };
    if (job.to)
        threads_pool_run(b->pool, team_size(b, n_bytes), pack_share, &job);
    free(copy);
    return job.to;
}

/* ---- Other types than the stored ones ---- */

typedef struct RetypeJob {
    const TensorSpec    *spec;
    const CheckedTensor *from;
    WeightType           type;
    bool                 panels;
    void                *to[MAX_PARTS];
    unsigned char       *scratch;       /* [threads, scratch_bytes] */
    size_t               scratch_bytes;
    RetypeReport        *report;        /* [threads] */
} RetypeJob;

static void retype_share(void *arg, Team team)
{
    const RetypeJob *j = arg;
    int              k = j->spec->k, first, end;
    unsigned char   *scratch = j->scratch + (size_t)team.thread * j->scratch_bytes;
    float           *rows    = (float *)(void *)scratch;
    RetypeReport    *sum     = &j->report[team.thread];
    threads_share(team, panel_count(j->spec->rows), &first, &end);
    for (int p = first; p < end && sum->fault == RETYPE_GOOD; p++) {
        RetypeReport one;
        int          r = p * PANEL_ROWS, n = j->spec->rows - r < PANEL_ROWS ? j->spec->rows - r : PANEL_ROWS;
        void        *to[MAX_PARTS] = { NULL }, *rest = scratch + retype_rows_bytes(k);
        for (int i = 0; i < part_count(j->type); i++)
            to[i] = (char *)j->to[i] + (size_t)p * (j->panels ? part_bytes(j->type, i, k)
                                                              : PANEL_ROWS * (size_t)k * weight_type_bytes(j->type));
        retype_read(j->spec, j->from, r, n, rows, rest);
        retype_store(j->type, j->panels, to, rows, n, k, false, rest, &one);
        retype_sum(sum, &one, r);
    }
}

static bool retype_run(Binder *b, RetypeJob *j)
{
    int          threads = team_size(b, tensor_spec_bytes(j->spec, j->type));
    RetypeReport sum     = { .n = 0 };
    j->scratch_bytes = retype_rows_bytes(j->spec->k) + retype_scratch_bytes(j->spec->k);
    j->scratch       = aligned_alloc(ALIGN, (size_t)threads * j->scratch_bytes);
    j->report        = calloc((size_t)threads, sizeof *j->report);
    bool ok = j->scratch && j->report;
    if (ok)
        threads_pool_run(b->pool, threads, retype_share, j);
    for (int t = 0; ok && t < threads; t++) /* members have ascending rows: the first fault is the lowest */
        retype_sum(&sum, &j->report[t], 0);
    free(j->scratch);
    free(j->report);
    if (!ok)
        return fail(b->err, SYSTEM, "%s: no memory to load the weights", b->f->map.path);
    return sum.fault == RETYPE_GOOD ? true : retype_fail(&sum, b->f->map.path, j->spec, j->type, b->err);
}

/* A matrix of another type in owned memory; c is changed to what it is now. */
static bool retype(Binder *b, const TensorSpec *s, CheckedTensor *c, WeightType type, Panels *out)
{
    RetypeJob j = { .spec = s, .from = c, .type = type, .panels = tensor_spec_panels(s, type) };
    for (int i = 0; i < part_count(type); i++) {
        size_t n = j.panels ? part_bytes(type, i, s->k) * (size_t)panel_count(s->rows) : tensor_spec_bytes(s, type);
        out->part[i] = j.to[i] = own(b, n);
        if (!j.to[i])
            return false;
    }
    if (!retype_run(b, &j))
        return false;
    for (int i = 0; i < part_count(c->type); i++)
        file_map_release(&b->f->map, c->part[i]->offset, c->part[i]->n_bytes);
    c->type   = type;
    c->panels = j.panels;
    return true;
}

/* ---- Binding ---- */

/* A vector of n_padded floats, 0 past its rows. */
static const float *bind_vector(Binder *b, const TensorSpec *s, const CheckedTensor *c, size_t n_padded)
{
    const Tensor *t = c->part[0];
    size_t        n = (size_t)s->rows, element_bytes = weight_type_bytes(c->type);
    if (c->type == WT_F32 && n == n_padded && aligned(t->data, ALIGN))
        return t->data;
    float *v = own(b, n_padded * sizeof *v);
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
    void *copy = own(b, t->n_bytes);
    if (copy)
        memcpy(copy, t->data, t->n_bytes);
    return copy;
}

/* The data of a matrix, in panels where the spec wants panels. */
static bool bind_matrix(Binder *b, const TensorSpec *s, const CheckedTensor *c, Panels *out)
{
    *out = (Panels){ { NULL } };
    if (!c->panels && s->panels) {
        out->part[0] = pack(b, c->part[0], c->type, s->rows, s->k);
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
        if (!retype(b, s, c, type, &w))
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
    Binder b  = { .m = m, .f = f, .types = types, .err = err };
    bool   ok = config_check(cfg, f->map.path, err) && config_supported(cfg, f->map.path, err)
              && tensor_check_unknown(cfg, f, err);
    if (ok) {
        m->layer = calloc((size_t)cfg->n_layers, sizeof *m->layer);
        ok = m->layer ? bind_all(&b) : fail(err, SYSTEM, "%s: no memory for %d layers", f->map.path, cfg->n_layers);
    }
    if (!ok)
        model_free(m);
    threads_pool_free(b.pool);
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
