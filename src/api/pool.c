/* api/pool.c: pools hidden states into an embedding. One double per column, to which positions are
 * added in order, whatever their batches. The vector may then go through its own matrices: modules
 * after pooling, or a head that gives logits of labels. */
#include "api/pool.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"

int pool_width(const Config *c, int kind)
{
    return kind != TBLOCK_POOL_MODEL ? c->d_model : c->dense2 ? c->dense2 : c->dense1;
}

bool pool_begin(Pool *p, int kind, const Model *m, size_t n_given, Error *err)
{
    const Config *c = &m->cfg;
    if (!check_range("pool", kind, TBLOCK_POOL_NONE,
                     c->dense1 ? TBLOCK_POOL_MODEL : TBLOCK_POOL_CLS, err))
        return false;
    const bool whole = kind == TBLOCK_POOL_MODEL;
    kind = whole ? (int)c->pool : kind;
    *p = (Pool){ .kind    = kind,
                 .d_model = c->d_model,
                 .dense   = whole ? m : NULL,
                 .first   = kind == TBLOCK_POOL_LAST ? n_given - 1 : 0,
                 .n_given = kind == TBLOCK_POOL_CLS ? 1 : n_given };
    if (kind != TBLOCK_POOL_NONE)
        p->sum = calloc((size_t)c->d_model, sizeof *p->sum);
    return kind == TBLOCK_POOL_NONE || p->sum || no_memory(NULL, err);
}

void pool_end(Pool *p)
{
    free(p->sum);
    *p = (Pool){ 0 };
}

void pool_add(Pool *p, size_t pos, const float *x)
{
    if (!p->sum || pos >= p->n_given || pos != p->first + p->n)
        return;
    for (int i = 0; i < p->d_model; i++)
        p->sum[i] += (double)x[i];
    p->n++;
}

bool pool_is_full(const Pool *p)
{
    return p->sum && p->first + p->n == p->n_given;
}

bool pool_is_finite(const Pool *p)
{
    for (int i = 0; p->sum && i < p->d_model; i++)
        if (!isfinite(p->sum[i]))
            return false;
    return true;
}

static double activate(DenseAct act, double x)
{
    switch (act) {
    case DENSE_TANH: {
        const double y = 1 - 2 / (math64_exp(2 * fabs(x)) + 1);
        return x < 0 ? -y : y;
    }
    case DENSE_RELU:    return x < 0 ? 0 : x;
    case DENSE_SIGMOID: return 1 / (1 + math64_exp(-x));
    case DENSE_PLAIN:   break;
    }
    return x;
}

/* y = act(W x + b), y [rows], all in double. row: room for k floats; scratch: of embedding_row. */
static void dense(const Embedding *w, DenseAct act, const double *x, double *y, float *row,
                  void *scratch)
{
    for (int r = 0; r < w->rows; r++) {
        double sum = 0;
        embedding_row(w, r, row, scratch);
        for (int k = 0; k < w->k; k++)
            sum += (double)row[k] * x[k];
        y[r] = activate(act, w->bias ? sum + (double)w->bias[r] : sum);
    }
}

static void give(const double *x, int n, bool normalize, float *out)
{
    double squares = 0;
    for (int i = 0; normalize && i < n; i++)
        squares += x[i] * x[i];
    const double length = squares > 0 ? sqrt(squares) : 1;
    for (int i = 0; i < n; i++)
        out[i] = (float)(x[i] / length);
}

bool pool_give(const Pool *p, bool normalize, float *out, Error *err)
{
    const Model *m    = p->dense;
    const int    d    = p->d_model, a = m ? m->cfg.dense1 : 0, b = m ? m->cfg.dense2 : 0;
    double      *x    = malloc(((size_t)d + (size_t)a + (size_t)b) * sizeof *x), *y = x;
    float       *row  = malloc(((size_t)d + (size_t)a) * sizeof *row);
    void        *late = aligned_alloc(64, round_up(m ? late_weights_room(m->late) + 1 : 1, 64));
    const bool   good = (x && row && late) || no_memory(NULL, err);
    for (int i = 0; good && i < d; i++)
        x[i] = p->sum[i] / (double)p->n;
    if (good && a)
        dense(&m->dense1, m->cfg.dense1_act, x, y = x + d, row, late);
    if (good && b)
        dense(&m->dense2, m->cfg.dense2_act, y, x + d + a, row, late);
    if (good)
        give(b ? x + d + a : y, b ? b : a ? a : d, normalize && !(m && m->cfg.labels), out);
    free(x);
    free(row);
    free(late);
    return good;
}
