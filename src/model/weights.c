/* model/weights.c: from tensor names to layers. Every shape and type is checked here once, so that the forward pass
 * checks nothing. What lies in the file as the kernels want it is used in place, the rest is packed into owned memory. */
#include "model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/threads.h"
#include "model/count.h"
#include "model/tensor_list.h"

enum { ALIGN = 64, SMALL_MATRIX = 1 << 20 }; /* below SMALL_MATRIX bytes a team costs more than it saves */

typedef struct Binder {
    Model            *m;
    const TensorFile *f;
    bool             *used;  /* [f->n_tensors] */
    Error            *err;
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
        threads_run(n_bytes < SMALL_MATRIX ? 1 : threads_default(), pack_share, &job);
    free(copy);
    return job.to;
}

/* ---- Checking a tensor against its spec ---- */

static bool weight_type_of(DType d, WeightType *type)
{
    static const WeightType map[DT_COUNT] = { [DT_F32] = WT_F32, [DT_F16] = WT_F16, [DT_BF16] = WT_BF16 };
    *type = map[d];
    return d == DT_F32 || d == DT_F16 || d == DT_BF16;
}

static bool shape_is(const Tensor *t, int rank, const int64_t *shape)
{
    return t->rank == rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0;
}

static const char *shape_text(int rank, const int64_t *shape, char *buf, size_t n)
{
    Tensor t = { .rank = rank };
    memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
    return tensor_shape_text(&t, buf, n);
}

/* The matrix that a tensor of another shape seems to be; false where it has neither layout. Of panels, only the count is
 * known: rows are taken to be a whole number of units (heads). */
static bool found_dims(const TensorSpec *s, const Tensor *t, WeightType type, int64_t dims[2])
{
    int64_t want[4];
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] > INT32_MAX)
            return false;
    dims[0] = t->rank > 0 ? t->shape[0] : 0;
    dims[1] = t->rank > 1 ? t->shape[1] : 0;
    if (t->rank == (s->k ? 2 : 1))
        return true;
    if (!s->k || t->rank != panel_shape(type, s->rows, s->k, want))
        return false;
    dims[0] = dims[0] == want[0] ? s->rows : dims[0] * PANEL_ROWS / s->rows_unit * s->rows_unit;
    dims[1] = dims[1] == want[1] ? s->k : t->rank == 4 ? dims[1] * 2 : dims[1];
    return true;
}

/* The value of a config key that would explain the found dimension: " (kv_heads 8 in the config; this fits 32)". */
static const char *likely_cause(const TensorSpec *s, const Tensor *t, WeightType type, char *buf, size_t n)
{
    int64_t dims[2];
    buf[0] = '\0';
    if (!found_dims(s, t, type, dims))
        return buf;
    bool        in_rows = dims[0] != s->rows;
    int64_t     found   = in_rows ? dims[0] : dims[1];
    int         unit    = in_rows ? s->rows_unit : s->k_unit, expected = in_rows ? s->rows : s->k;
    const char *key     = in_rows ? s->rows_key : s->k_key;
    if (s->k && dims[0] == s->k && dims[1] == s->rows)
        snprintf(buf, n, " (the transpose)");
    else if (in_rows && dims[1] != s->k)
        snprintf(buf, n, " (neither dimension fits the config)");
    else if (found > 0 && found != expected && found % unit == 0)
        snprintf(buf, n, " (%s %d in the config; this fits %lld)", key, expected / unit, (long long)(found / unit));
    return buf;
}

static bool wrong_shape(Binder *b, const TensorSpec *s, const Tensor *t, WeightType type)
{
    int64_t plain[2] = { s->rows, s->k }, panels[4];
    char    want[64], want_panels[128] = "", found[160], text[128], why[128];
    shape_text(s->k ? 2 : 1, plain, want, sizeof want);
    if (s->k)
        snprintf(want_panels, sizeof want_panels, " or panels %s",
                 shape_text(panel_shape(type, s->rows, s->k, panels), panels, text, sizeof text));
    return fail(b->err, INPUT, "%s: tensor %s: expected %s%s, found %s%s", b->f->map.path, t->name, want, want_panels,
                tensor_shape_text(t, found, sizeof found), likely_cause(s, t, type, why, sizeof why));
}

/* ---- Binding ---- */

/* A vector of n_padded floats, 0 past its rows. */
static const float *bind_vector(Binder *b, const TensorSpec *s, const Tensor *t, WeightType type, size_t n_padded)
{
    if (!shape_is(t, 1, (int64_t[]){ s->rows })) {
        wrong_shape(b, s, t, type);
        return NULL;
    }
    size_t n = (size_t)s->rows;
    if (type == WT_F32 && n == n_padded && aligned(t->data, ALIGN))
        return t->data;
    float *v = own(b, n_padded * sizeof *v);
    if (!v)
        return NULL;
    if (aligned(t->data, weight_type_bytes(type))) {
        elements_to_f32(type, v, t->data, n);
    } else {
        /* element by element: the tensor starts at an odd byte */
        for (size_t i = 0; i < n; i++) {
            uint32_t element = 0;
            memcpy(&element, (const char *)t->data + i * weight_type_bytes(type), weight_type_bytes(type));
            elements_to_f32(type, v + i, &element, 1);
        }
    }
    memset(v + n, 0, (n_padded - n) * sizeof *v);
    return v;
}

/* The data of a matrix: *panels says in which layout. With want_panels, rows are packed; else rows stay rows. */
static const void *bind_matrix(Binder *b, const TensorSpec *s, const Tensor *t, WeightType type, bool want_panels,
                               bool *panels)
{
    int64_t shape[4];
    int     rank    = panel_shape(type, s->rows, s->k, shape);
    bool    in_rows = shape_is(t, 2, (int64_t[]){ s->rows, s->k });
    if (!in_rows && !shape_is(t, rank, shape)) {
        wrong_shape(b, s, t, type);
        return NULL;
    }
    *panels = !in_rows || want_panels;
    if (in_rows && want_panels)
        return pack(b, t, type, s->rows, s->k);
    if (aligned(t->data, in_rows ? weight_type_bytes(type) : ALIGN))
        return t->data;
    void *copy = own(b, t->n_bytes);
    if (copy)
        memcpy(copy, t->data, t->n_bytes);
    return copy;
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

static bool bind_to(Binder *b, const TensorSpec *s, const Tensor *t, WeightType type)
{
    Model *m = b->m;
    if (s->bias) {
        Mat *w  = find_mat(m, s);
        w->bias = bind_vector(b, s, t, type, (size_t)panel_count(s->rows) * PANEL_ROWS);
        return w->bias != NULL;
    }
    if (s->k == 0) {
        const float **norm = find_norm(m, s);
        *norm = bind_vector(b, s, t, type, (size_t)s->rows);
        return *norm != NULL;
    }
    bool        panels = false;
    const void *data   = bind_matrix(b, s, t, type, s->panels, &panels);
    if (s->role == ROLE_EMBED)
        m->embed = (Embedding){ .type = type, .panels = panels, .rows = s->rows, .k = s->k, .data = data };
    else
        *find_mat(m, s) = (Mat){ .type = type, .rows = s->rows, .k = s->k, .panels = data };
    return data != NULL;
}

static bool bind(Binder *b, const TensorSpec *s)
{
    const Tensor *t = tensor_find(b->f, s->name);
    char shape[64];
    if (!t)
        return fail(b->err, INPUT, "%s: tensor %s: expected %s, found no such tensor%s", b->f->map.path, s->name,
                    shape_text(s->k ? 2 : 1, (int64_t[]){ s->rows, s->k }, shape, sizeof shape),
                    s->role == ROLE_LM_HEAD ? " (tied_embeddings false in the config)"
                    : s->bias               ? " (the config asks for this bias)"
                                            : "");
    WeightType type;
    if (!weight_type_of(t->dtype, &type))
        return fail(b->err, INPUT, "%s: tensor %s: expected dtype F32, F16 or BF16, found %s", b->f->map.path, t->name,
                    dtype_name(t->dtype));
    b->used[t - b->f->tensors] = true;
    b->m->weight_bytes += t->n_bytes;
    return bind_to(b, s, t, type);
}

/* No tensor is ignored, and no weight type that we do not know is taken for its dtype. */
static bool check_unknown(Binder *b)
{
    const TensorFile *f = b->f;
    for (int i = 0; i < f->n_tensors; i++) {
        const char *name = f->tensors[i].name;
        char why[96];
        if (!b->used[i] && strncmp(name, "tok.", 4) != 0 && strncmp(name, "pad.", 4) != 0)
            return fail(b->err, INPUT, "%s: tensor %s: expected no such tensor%s", f->map.path, name,
                        tensor_list_why_absent(&b->m->cfg, name, why, sizeof why));
    }
    for (int i = 0; i < f->n_meta; i++)
        if (strncmp(f->meta[i].key, "type.", 5) == 0)
            return fail(b->err, INPUT, "%s: tensor %s: weight type '%s' is not supported", f->map.path, f->meta[i].key + 5,
                        f->meta[i].value);
    return true;
}

static size_t mat_bytes(const Mat *w)
{
    return panel_bytes(w->type, w->k) * (size_t)panel_count(w->rows) + (w->bias ? (size_t)w->rows * sizeof(float) : 0);
}

static size_t decode_bytes(const Model *m)
{
    size_t norm = (size_t)m->cfg.d_model * sizeof(float);
    size_t n    = norm + mat_bytes(&m->lm_head) + weight_type_bytes(m->embed.type) * (size_t)m->embed.k;
    for (int l = 0; l < m->cfg.n_layers; l++) {
        const Layer *w = &m->layer[l];
        n += 2 * norm + mat_bytes(&w->wq) + mat_bytes(&w->wk) + mat_bytes(&w->wv) + mat_bytes(&w->wo)
           + mat_bytes(&w->w_gate) + mat_bytes(&w->w_up) + mat_bytes(&w->w_down);
    }
    return n;
}

bool model_bind(Model *m, const Config *cfg, const TensorFile *f, Error *err)
{
    *m = (Model){ .cfg = *cfg };
    Binder b = { .m = m, .f = f, .err = err };
    bool   ok = false;
    if (!config_check(cfg, f->map.path, err) || !config_supported(cfg, f->map.path, err))
        goto done;
    m->layer = calloc((size_t)cfg->n_layers, sizeof *m->layer);
    b.used   = calloc((size_t)f->n_tensors + 1, sizeof *b.used);
    if (!m->layer || !b.used) {
        fail(err, SYSTEM, "%s: no memory for %d layers", f->map.path, cfg->n_layers);
        goto done;
    }
    for (TensorSpec s = tensor_list_start(); tensor_list_next(cfg, &s);)
        if (!bind(&b, &s))
            goto done;
    if (!check_unknown(&b))
        goto done;
    if (cfg->tied_embeddings) {
        assert(m->embed.panels);
        m->lm_head = (Mat){ .type = m->embed.type, .rows = m->embed.rows, .k = m->embed.k, .panels = m->embed.data };
    }
    m->n_params        = count_params(cfg);
    m->bytes_per_token = decode_bytes(m);
    ok = true;
done:
    free(b.used);
    if (!ok)
        model_free(m);
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
    const unsigned char *data = e->data;
    if (e->panels)
        panel_row_to_f32(e->type, out, data + (size_t)(token / PANEL_ROWS) * panel_bytes(e->type, e->k), token % PANEL_ROWS, e->k);
    else
        elements_to_f32(e->type, out, data + (size_t)token * (size_t)e->k * weight_type_bytes(e->type), (size_t)e->k);
}
