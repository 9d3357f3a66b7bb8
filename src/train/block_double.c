/* train/block_double.c: the block in double, written from the formulas alone. It shares no
 * arithmetic with train_forward.c, so an error in one cannot hide in the other. */
#include "train/block_lab.h"

#include <assert.h>
#include <math.h>

#include "base/memory.h"
#include "train/block.h"

const double *double_tensor(const Params *p, const double *w, int layer, TensorRole role, bool bias)
{
    int i = params_index(p, layer, role, bias);
    return i >= 0 ? w + p->at[i] : NULL;
}

static const double *tensor(const BlockDouble *b, TensorRole role, bool bias)
{
    return double_tensor(b->p, b->w, b->layer, role, bias);
}

static int tokens(const BlockDouble *b) { return b->n_seqs * b->seq_len; }

/* ---- One line of the paper each -------------------------------------------------------------- */

static void norm_row(double *y, const double *x, const double *w, const double *bias, Norm kind,
                     double eps, int n)
{
    double mean = 0, square = 0;
    assert(w);
    for (int j = 0; kind == NORM_LAYER && j < n; j++)
        mean += x[j] / n;
    for (int j = 0; j < n; j++)
        square += (x[j] - mean) * (x[j] - mean) / n;
    for (int j = 0; j < n; j++)
        y[j] = (x[j] - mean) / sqrt(square + eps) * w[j] + (bias ? bias[j] : 0);
}

void double_norm(double *y, const double *x, const double *w, const double *bias, Norm kind,
                 double eps, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        norm_row(y + (size_t)t * (size_t)n, x + (size_t)t * (size_t)n, w, bias, kind, eps, n);
}

static void norm_rows(const BlockDouble *b, double *y, const double *x, TensorRole role, int rows,
                      int n)
{
    double_norm(y, x, tensor(b, role, false), tensor(b, role, true), b->shape->norm,
                (double)b->shape->eps, rows, n);
}

void double_product(double *y, const double *x, const double *w, const double *bias, int n_tok,
                    int rows, int k)
{
    assert(w);
    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < rows; r++) {
            double sum = bias ? bias[r] : 0;
            for (int j = 0; j < k; j++)
                sum += w[(size_t)r * (size_t)k + (size_t)j] * x[(size_t)t * (size_t)k + (size_t)j];
            y[(size_t)t * (size_t)rows + (size_t)r] = sum;
        }
}

static void product(const BlockDouble *b, double *y, const double *x, TensorRole role, int rows,
                    int k)
{
    double_product(y, x, tensor(b, role, false), tensor(b, role, true), tokens(b), rows, k);
    int down = params_lora_index(b->p, b->layer, role, false),
        up   = params_lora_index(b->p, b->layer, role, true);
    for (int t = 0; down >= 0 && t < tokens(b); t++)
        for (int r = 0; r < b->p->rank; r++) {
            const double *a = b->w + b->p->at[down] + (size_t)r * (size_t)k,
                         *u = b->w + b->p->at[up] + (size_t)r * (size_t)rows;
            double low = 0;
            for (int j = 0; j < k; j++)
                low += a[j] * x[(size_t)t * (size_t)k + (size_t)j];
            for (int j = 0; j < rows; j++)
                y[(size_t)t * (size_t)rows + (size_t)j] += (double)b->p->lora_scale * low * u[j];
        }
}

static void rotate(const BlockDouble *b, double *x, int heads)
{
    int hd = b->shape->head_dim, half = b->rot / 2;
    for (int t = 0; t < tokens(b); t++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < half; i++) {
                double *v = x + (size_t)t * (size_t)(heads * hd) + (size_t)(h * hd),
                       angle = t % b->seq_len * b->inv_freq[i];
                double  c = cos(angle) * b->factor, s = sin(angle) * b->factor, first = v[i],
                        second = v[i + half];
                v[i]        = first * c - second * s;
                v[i + half] = second * c + first * s;
            }
}

/* One query of one head: y = sum of p v over the positions from .. end - 1. score has room for
 * `end`. */
static void attend(double *y, const double *q, const double *k, const double *v, size_t stride,
                   int from, int end, int hd, double scale, double *score)
{
    double most = -INFINITY, sum = 0;
    for (int t = from; t < end; t++) {
        score[t] = 0;
        for (int i = 0; i < hd; i++)
            score[t] += q[i] * k[(size_t)t * stride + (size_t)i] * scale;
        most = fmax(most, score[t]);
    }
    for (int t = from; t < end; t++)
        sum += score[t] = exp(score[t] - most);
    for (int i = 0; i < hd; i++) {
        y[i] = 0;
        for (int t = from; t < end; t++)
            y[i] += score[t] / sum * v[(size_t)t * stride + (size_t)i];
    }
}

static void attention(const BlockDouble *b, double *y, const double *q, const double *k,
                      const double *v, double *score)
{
    const BlockShape *s = b->shape;
    size_t wide = (size_t)s->heads * (size_t)s->head_dim,
           narrow = (size_t)s->kv_heads * (size_t)s->head_dim;
    for (int t = 0; t < tokens(b); t++)
        for (int h = 0; h < s->heads; h++) {
            int    pos = t % b->seq_len,
                   from = s->window > 0 && pos >= s->window ? pos - s->window + 1 : 0;
            size_t at  = (size_t)t * wide + (size_t)(h * s->head_dim);
            size_t kv  =
                 (size_t)(t - pos) * narrow + (size_t)(h / (s->heads / s->kv_heads) * s->head_dim);
            attend(y + at, q + at, k + kv, v + kv, narrow, from, s->causal ? pos + 1 : b->seq_len,
                   s->head_dim, (double)s->attn_scale, score);
        }
}

static double gelu(double x) { return x * 0.5 * (1 + erf(x / sqrt(2))); }
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double activation(FfnKind kind, double x)
{
    switch (kind) {
    case FFN_SWIGLU:    return x / (1 + exp(-x));
    case FFN_GEGLU:
    case FFN_GELU_TANH: return gelu_tanh(x);
    case FFN_GELU:
    case FFN_GEGLU_ERF: return gelu(x);
    case FFN_RELU:      return x > 0 ? x : 0;
    case FFN_RELU2:     return x > 0 ? x * x : 0;
    case FFN_XIELU:     /* train_supported rejects it */
    case FFN_KINDS:     break;
    }
    return 0;
}

/* ---- The block ------------------------------------------------------------------------------- */

typedef struct BlockBuffers {
    double *n, *q, *k, *v, *raw, *att, *y, *mid, *gate, *up, *score;
} BlockBuffers;

/* With base NULL it only counts. Returns the doubles taken, 0 if the size overflows. */
static size_t share_out(const BlockDouble *b, BlockBuffers *r, double *base)
{
    const BlockShape *s = b->shape;
    size_t n = (size_t)tokens(b), at = 0;
    size_t q = (size_t)s->heads * (size_t)s->head_dim,
           kv = (size_t)s->kv_heads * (size_t)s->head_dim;
    const struct { double **p; size_t rows, width; } parts[] = {
        { &r->n, n, (size_t)s->d_model }, { &r->q, n, q }, { &r->k, n, kv }, { &r->v, n, kv },
        { &r->raw, n, q }, { &r->att, n, q },
        { &r->y, n, (size_t)s->d_model }, { &r->mid, n, (size_t)s->d_model },
        { &r->gate, n, (size_t)s->d_ff },
        { &r->up, n, (size_t)s->d_ff }, { &r->score, 1, (size_t)b->seq_len },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t floats;
        *parts[i].p = base ? base + at : NULL;
        if (!mul_size(parts[i].rows, parts[i].width, &floats) || !add_size(at, floats, &at))
            return 0;
    }
    return at;
}

size_t block_double_room(const BlockDouble *b)
{
    BlockBuffers r;
    return share_out(b, &r, NULL);
}

/* q or k: product, norm (qk_norm), rotation, or the last two in the other order. */
static void heads_of(const BlockDouble *b, double *x, double *raw, const double *n, TensorRole role,
                     TensorRole norm, int heads)
{
    const BlockShape *s = b->shape;
    int width = heads * s->head_dim, normed = s->qk_norm == QK_HEAD ? s->head_dim : width;
    product(b, s->qk_norm == QK_NONE ? x : raw, n, role, width, s->d_model);
    if (b->rot > 0 && s->qk_norm_after_rope)
        rotate(b, raw, heads);
    if (s->qk_norm != QK_NONE)
        norm_rows(b, x, raw, norm, tokens(b) * (width / normed), normed);
    if (b->rot > 0 && !s->qk_norm_after_rope)
        rotate(b, x, heads);
}

/* out = x + f. The norm is that of f before the sum (BOTH, OUTPUT) or that of the sum (POST). */
static void merge(const BlockDouble *b, double *out, const double *x, double *f, TensorRole norm,
                  TensorRole post)
{
    const BlockShape *s = b->shape;
    size_t n = (size_t)tokens(b) * (size_t)s->d_model;
    if (sublayer_norms_out(s))
        norm_rows(b, f, f, post, tokens(b), s->d_model);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] + f[i] * (double)s->residual_scale;
    if (s->place == PLACE_POST)
        norm_rows(b, out, out, norm, tokens(b), s->d_model);
}

/* The input of a half: norm(x) (PRE, BOTH), or x itself. */
static const double *before(const BlockDouble *b, double *n, const double *x, TensorRole norm)
{
    if (!sublayer_norms_in(b->shape))
        return x;
    norm_rows(b, n, x, norm, tokens(b), b->shape->d_model);
    return n;
}

void block_double(const BlockDouble *b, double *y, const double *x, double *room)
{
    const BlockShape *s = b->shape;
    int          q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, d = s->d_model;
    size_t       hidden = (size_t)tokens(b) * (size_t)s->d_ff;
    BlockBuffers r = { 0 };
    bool         fits = room && share_out(b, &r, room);
    assert(fits); /* the size from block_double_room */

    const double *n = before(b, r.n, x, ROLE_ATTN_NORM);
    heads_of(b, r.q, r.raw, n, ROLE_WQ, ROLE_Q_NORM, s->heads);
    heads_of(b, r.k, r.raw, n, ROLE_WK, ROLE_K_NORM, s->kv_heads);
    product(b, r.v, n, ROLE_WV, kv, d);
    attention(b, r.att, r.q, r.k, r.v, r.score);
    product(b, r.y, r.att, ROLE_WO, d, q);
    merge(b, r.mid, x, r.y, ROLE_ATTN_NORM, ROLE_ATTN_POST_NORM);

    n = before(b, r.n, r.mid, ROLE_FFN_NORM);
    product(b, r.up, n, ROLE_W_UP, s->d_ff, d);
    if (ffn_gated(s->ffn))
        product(b, r.gate, n, ROLE_W_GATE, s->d_ff, d);
    for (size_t i = 0; i < hidden; i++)
        r.up[i] = ffn_gated(s->ffn) ? activation(s->ffn, r.gate[i]) * r.up[i]
                                    : activation(s->ffn, r.up[i]);
    product(b, r.y, r.up, ROLE_W_DOWN, d, s->d_ff);
    merge(b, y, r.mid, r.y, ROLE_FFN_NORM, ROLE_FFN_POST_NORM);
}
