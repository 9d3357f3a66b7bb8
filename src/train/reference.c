#include "train/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct Ref {
    const Params  *p;
    const Config  *c;
    const double  *w;
    int            n;             /* tokens */
    double        *x, *xn, *q, *k, *v, *att, *gate, *up, *y, *score, *inv_freq;
    double         factor[2];
} Ref;

static const double *weight(const Ref *r, int layer, TensorRole role, bool bias)
{
    int i = r->p->row[((size_t)(layer + 1) * ROLE_COUNT + (size_t)role) * 2 + bias];
    return i >= 0 ? r->w + r->p->at[i] : NULL;
}

static void product(double *y, const double *x, const double *w, const double *b, int n, int rows, int k)
{
    assert(w);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < rows; i++) {
            double sum = b ? b[i] : 0;
            for (int j = 0; j < k; j++)
                sum += w[(size_t)i * (size_t)k + (size_t)j] * x[(size_t)t * (size_t)k + (size_t)j];
            y[(size_t)t * (size_t)rows + (size_t)i] = sum;
        }
}

static void norm_row(const Ref *r, double *y, const double *x, const double *w, const double *b, int n)
{
    double mean = 0, square = 0;
    for (int i = 0; r->c->norm == NORM_LAYER && i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(square + r->c->norm_eps) * w[i] + (b ? b[i] : 0);
}

/* Rows of x by the norm of this role; as they are where the model has none. */
static void norm_rows(const Ref *r, double *y, const double *x, int layer, TensorRole role, int rows, int n)
{
    const double *w = weight(r, layer, role, false), *b = weight(r, layer, role, true);
    for (int t = 0; t < rows; t++) {
        const double *in = x + (size_t)t * (size_t)n;
        double       *out = y + (size_t)t * (size_t)n;
        if (w)
            norm_row(r, out, in, w, b, n);
        else
            memmove(out, in, (size_t)n * sizeof *out);
    }
}

static void rotate(const Ref *r, double *x, int heads, int layer)
{
    const Config *c = r->c;
    int           half = c->rotary_dim / 2, windowed = config_window(c, layer) != 0;
    for (int t = 0; t < r->n; t++)
        for (int h = 0; h < heads; h++) {
            double *a = x + ((size_t)t * (size_t)heads + (size_t)h) * (size_t)c->head_dim;
            for (int i = 0; i < half; i++) {
                double angle = t * r->inv_freq[windowed * half + i], x0 = a[i], x1 = a[i + half];
                a[i]        = (x0 * cos(angle) - x1 * sin(angle)) * r->factor[windowed];
                a[i + half] = (x1 * cos(angle) + x0 * sin(angle)) * r->factor[windowed];
            }
        }
}

static void attend(const Ref *r, int layer, int t, int h)
{
    const Config *c = r->c;
    int           d = c->head_dim, kv = h / (c->heads / c->kv_heads), window = config_window(c, layer);
    int           from = window && t >= window ? t - window + 1 : 0;
    const double *q = r->q + ((size_t)t * (size_t)c->heads + (size_t)h) * (size_t)d;
    double        scale = c->attn_scale != 0 ? c->attn_scale : 1 / sqrt(d), largest = -INFINITY, sum = 0;
    double       *out = r->att + ((size_t)t * (size_t)c->heads + (size_t)h) * (size_t)d;
    for (int s = from; s <= t; s++) {
        const double *k = r->k + ((size_t)s * (size_t)c->kv_heads + (size_t)kv) * (size_t)d;
        r->score[s] = 0;
        for (int i = 0; i < d; i++)
            r->score[s] += q[i] * k[i] * scale;
        largest = fmax(largest, r->score[s]);
    }
    for (int s = from; s <= t; s++)
        sum += r->score[s] = exp(r->score[s] - largest);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int s = from; s <= t; s++)
        for (int i = 0; i < d; i++)
            out[i] += r->score[s] / sum * r->v[((size_t)s * (size_t)c->kv_heads + (size_t)kv) * (size_t)d + (size_t)i];
}

static double activate(FfnKind kind, double x)
{
    switch (kind) {
    case FFN_SWIGLU:    return x / (1 + exp(-x));
    case FFN_GEGLU:
    case FFN_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case FFN_GEGLU_ERF:
    case FFN_GELU:      return 0.5 * x * (1 + erf(x / sqrt(2)));
    case FFN_RELU:      break;
    }
    return x > 0 ? x : 0;
}

/* x = x + [norm] y, or norm(x + y). */
static void add_sublayer(const Ref *r, int layer, TensorRole norm, TensorRole post)
{
    const Config *c = r->c;
    size_t        size = (size_t)r->n * (size_t)c->d_model;
    if (c->norm_placement == PLACE_BOTH || c->norm_placement == PLACE_OUTPUT)
        norm_rows(r, r->y, r->y, layer, post, r->n, c->d_model);
    for (size_t i = 0; i < size; i++)
        r->x[i] += r->y[i] * c->residual_scale;
    if (c->norm_placement == PLACE_POST)
        norm_rows(r, r->x, r->x, layer, norm, r->n, c->d_model);
}

/* What a sublayer reads. */
static void before_sublayer(const Ref *r, int layer, TensorRole norm)
{
    if (r->c->norm_placement == PLACE_POST)
        memcpy(r->xn, r->x, (size_t)r->n * (size_t)r->c->d_model * sizeof *r->x);
    else
        norm_rows(r, r->xn, r->x, layer, norm, r->n, r->c->d_model);
}

static void project(const Ref *r, double *y, const double *x, int layer, TensorRole role, int rows, int k)
{
    product(y, x, weight(r, layer, role, false), weight(r, layer, role, true), r->n, rows, k);
}

static void ref_block(const Ref *r, int l)
{
    const Config *c = r->c;
    int d = c->d_model, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    bool by_head = c->qk_norm == QK_HEAD;
    before_sublayer(r, l, ROLE_ATTN_NORM);
    project(r, r->q, r->xn, l, ROLE_WQ, q, d);
    project(r, r->k, r->xn, l, ROLE_WK, kv, d);
    project(r, r->v, r->xn, l, ROLE_WV, kv, d);
    norm_rows(r, r->q, r->q, l, ROLE_Q_NORM, by_head ? r->n * c->heads : r->n, by_head ? c->head_dim : q);
    norm_rows(r, r->k, r->k, l, ROLE_K_NORM, by_head ? r->n * c->kv_heads : r->n, by_head ? c->head_dim : kv);
    rotate(r, r->q, c->heads, l);
    rotate(r, r->k, c->kv_heads, l);
    for (int t = 0; t < r->n; t++)
        for (int h = 0; h < c->heads; h++)
            attend(r, l, t, h);
    project(r, r->y, r->att, l, ROLE_WO, d, q);
    add_sublayer(r, l, ROLE_ATTN_NORM, ROLE_ATTN_POST_NORM);

    before_sublayer(r, l, ROLE_FFN_NORM);
    project(r, r->up, r->xn, l, ROLE_W_UP, c->d_ff, d);
    if (config_gated(c))
        project(r, r->gate, r->xn, l, ROLE_W_GATE, c->d_ff, d);
    for (size_t i = 0; i < (size_t)r->n * (size_t)c->d_ff; i++)
        r->up[i] = config_gated(c) ? activate(c->ffn, r->gate[i]) * r->up[i] : activate(c->ffn, r->up[i]);
    project(r, r->y, r->up, l, ROLE_W_DOWN, d, c->d_ff);
    add_sublayer(r, l, ROLE_FFN_NORM, ROLE_FFN_POST_NORM);
}

static double token_loss(const Ref *r, const double *head, int t, int target)
{
    const Config *c = r->c;
    double       *z = r->score, largest = -INFINITY, sum = 0;
    product(z, r->xn + (size_t)t * (size_t)c->d_model, head, NULL, 1, c->vocab_size, c->d_model);
    for (int i = 0; i < c->vocab_size; i++)
        largest = fmax(largest, z[i] *= c->logit_scale);
    for (int i = 0; i < c->vocab_size; i++)
        sum += exp(z[i] - largest);
    return log(sum) + largest - z[target];
}

static void carve_room(Ref *r, double *room)
{
    const Config *c = r->c;
    size_t n = (size_t)r->n, q = (size_t)c->heads * (size_t)c->head_dim, d = (size_t)c->d_model, ff = (size_t)c->d_ff;
    double **parts[] = { &r->x, &r->xn, &r->y, &r->q, &r->k, &r->v, &r->att, &r->gate, &r->up };
    size_t   widths[] = { d, d, d, q, q, q, q, ff, ff };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i] = room;
        room += n * widths[i];
    }
    r->inv_freq = room;
    r->score    = room + c->rotary_dim + 2;
}

size_t reference_room(const Params *p, int n)
{
    const Config *c = &p->config;
    size_t row = 3 * (size_t)c->d_model + 4 * (size_t)(c->heads * c->head_dim) + 2 * (size_t)c->d_ff;
    return (size_t)n * row + (size_t)c->rotary_dim + 2 + (size_t)(c->vocab_size > n ? c->vocab_size : n);
}

double reference_loss(const Params *p, const double *w, const int32_t *token, const int32_t *target, int n, double *room)
{
    const Config *c = &p->config;
    Ref           r = { .p = p, .c = c, .w = w, .n = n };
    const double *embed = weight(&r, -1, ROLE_EMBED, false), *head = c->tied_embeddings ? embed : weight(&r, -1, ROLE_LM_HEAD, false);
    double        sum = 0;
    carve_room(&r, room);
    for (int i = 0; i < 2; i++)
        config_inv_freq(c, i == 1, NULL, r.inv_freq + i * (c->rotary_dim / 2), &r.factor[i]);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < c->d_model; i++)
            r.x[t * c->d_model + i] = embed[(size_t)token[t] * (size_t)c->d_model + (size_t)i] * c->embed_scale;
    for (int l = 0; l < c->n_layers; l++)
        ref_block(&r, l);
    norm_rows(&r, r.xn, r.x, -1, ROLE_FINAL_NORM, n, c->d_model);
    for (int t = 0; t < n; t++)
        sum += token_loss(&r, head, t, target[t]);
    return sum / n;
}
