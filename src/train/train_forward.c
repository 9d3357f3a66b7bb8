/* train/train_forward.c: the block of runtime/forward.c over whole sequences, in f32, keeping what backward.c reads.
 *
 *   PRE      x += f(n x)         POST     x = n(x + f x)
 *   BOTH     x += n f(n x)       OUTPUT   x += n(f x)        for f attention, then for f feed-forward */
#include "train/block.h"

#include <string.h>

#include "base/checked.h"
#include "train/sublayer.h"

float *carve(Carver *c, size_t rows, size_t width)
{
    size_t n, at = c->at;
    c->overflow |= !mul_size(rows, width, &n) || n > SIZE_MAX / 64 || at > SIZE_MAX / 64;
    if (c->overflow)
        return NULL;
    c->at = at + round_up(n, 16);
    return c->base ? c->base + at : NULL;
}

void block_acts_carve(BlockActs *a, Carver *c, const BlockShape *s, int n_tok)
{
    size_t n = (size_t)n_tok, d = (size_t)s->d_model;
    size_t q = (size_t)s->heads * (size_t)s->head_dim, kv = (size_t)s->kv_heads * (size_t)s->head_dim;
    bool   normed = s->qk_norm != QK_NONE, out = sublayer_norms_out(s), post = s->place == PLACE_POST;
    *a = (BlockActs){ .x = carve(c, n, d) };
    a->q_raw    = normed ? carve(c, n, q) : NULL;
    a->k_raw    = normed ? carve(c, n, kv) : NULL;
    a->q        = carve(c, n, q);
    a->k        = carve(c, n, kv);
    a->v        = carve(c, n, kv);
    a->att_out  = carve(c, n, q);
    a->stats    = carve(c, n, 2 * (size_t)s->heads);
    a->attn_y   = out ? carve(c, n, d) : NULL;
    a->attn_sum = post ? carve(c, n, d) : NULL;
    a->mid      = carve(c, n, d);
    a->gate     = ffn_gated(s->ffn) ? carve(c, n, (size_t)s->d_ff) : NULL;
    a->up       = carve(c, n, (size_t)s->d_ff);
    a->ffn_y    = out ? carve(c, n, d) : NULL;
    a->ffn_sum  = post ? carve(c, n, d) : NULL;
}

void block_work_carve(BlockWork *w, Carver *c, const BlockShape *s, int n_tok)
{
    size_t n = (size_t)n_tok, d = (size_t)s->d_model;
    size_t q = (size_t)s->heads * (size_t)s->head_dim, kv = (size_t)s->kv_heads * (size_t)s->head_dim;
    w->xn    = carve(c, n, d);
    w->y     = carve(c, n, d);
    w->d_y   = carve(c, n, d);
    w->d_x   = carve(c, n, d);
    w->h     = carve(c, n, (size_t)s->d_ff);
    w->d_h   = carve(c, n, (size_t)s->d_ff);
    w->d_q   = carve(c, n, q);
    w->d_att = carve(c, n, q);
    w->d_k   = carve(c, n, kv);
    w->d_v   = carve(c, n, kv);
}

int block_width(const BlockShape *s)
{
    int q = s->heads * s->head_dim;
    return q > s->d_model ? q : s->d_model;
}

/* ---- The two halves' common parts ---- */

NormParams sublayer_norm(const BlockShape *s, float *w, float *b) { return (NormParams){ s->norm, w, b, s->eps, s->d_model }; }

/* The norm before a sublayer; without one it reads x itself. */
const float *sublayer_in(const BlockCall *b, const float *x, float *w, float *bias)
{
    NormParams p = sublayer_norm(b->shape, w, bias);
    if (!sublayer_norms_in(b->shape))
        return x;
    norm_forward(b->crew, b->work->xn, x, &p, call_tokens(b));
    return b->work->xn;
}

/* out = x + y, with the norms that stand behind the sublayer; y is what it gave, kept in `kept` where its norm needs it. */
static void sublayer_out(const BlockCall *b, const Sublayer *l, float *out, const float *x, float *y)
{
    const BlockShape *s = b->shape;
    int        n_tok = call_tokens(b);
    size_t     n = (size_t)n_tok * (size_t)s->d_model;
    NormParams in = sublayer_norm(s, l->norm, l->norm_bias), post = sublayer_norm(s, l->post_norm, l->post_norm_bias);
    float     *sum = l->sum ? l->sum : out;
    DropoutKey drop = sublayer_dropout(b, l);
    show(b, l->y_step, false, y, s->d_model);
    if (l->y)
        norm_forward(b->crew, b->work->y, y, &post, n_tok);
    y = l->y ? b->work->y : y;
    if (l->y)
        show(b, l->post_step, false, y, s->d_model);
    dropout(b->crew, y, &drop, b->first_seq * (uint64_t)b->seq_len * (uint64_t)s->d_model, n);
    residual_add(b->crew, sum, x, y, s->residual_scale, n);
    show(b, l->add_step, false, sum, s->d_model);
    if (!l->sum)
        return;
    norm_forward(b->crew, out, sum, &in, n_tok);
    show(b, l->norm_step, false, out, s->d_model);
}

/* q, k and v as they are made; rotated ones apart. */
static void show_heads(const BlockCall *b, const BlockActs *a)
{
    const BlockShape *s = b->shape;
    int  q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    bool normed = s->qk_norm != QK_NONE;
    show(b, STEP_Q, false, normed ? a->q_raw : a->q, q);
    show(b, STEP_K, false, normed ? a->k_raw : a->k, kv);
    show(b, STEP_V, false, a->v, kv);
    if (normed) {
        show(b, STEP_Q_NORM, false, a->q, q);
        show(b, STEP_K_NORM, false, a->k, kv);
    }
}

NormParams head_norm(const BlockShape *s, float *w, int heads)
{
    return (NormParams){ s->norm, w, NULL, s->eps, s->qk_norm == QK_HEAD ? s->head_dim : heads * s->head_dim };
}

/* x = norm(raw) of each head, or of the whole vector. */
static void norm_heads(const BlockCall *b, float *x, const float *raw, float *w, int heads)
{
    NormParams p = head_norm(b->shape, w, heads);
    norm_forward(b->crew, x, raw, &p, call_tokens(b) * (heads * b->shape->head_dim / p.n));
}

AttentionShape call_attention(const BlockCall *b)
{
    const BlockShape *s = b->shape;
    return (AttentionShape){ b->n_seqs, b->seq_len, s->heads, s->kv_heads, s->head_dim, s->window, s->causal, s->attn_scale };
}

/* ---- The block ---- */

/* y = Wo attention(rope(Wq xn), rope(Wk xn), Wv xn) */
static void attention_half(const BlockCall *b, BlockActs *a, const float *xn, float *y)
{
    const BlockShape   *s = b->shape;
    const BlockWeights *w = b->w;
    AttentionShape      shape = call_attention(b);
    int  n = call_tokens(b), d = s->d_model, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    bool normed = s->qk_norm != QK_NONE;
    linear(b->crew, normed ? a->q_raw : a->q, xn, w->wq, w->wq_bias, n, q, d);
    linear(b->crew, normed ? a->k_raw : a->k, xn, w->wk, w->wk_bias, n, kv, d);
    linear(b->crew, a->v, xn, w->wv, w->wv_bias, n, kv, d);
    if (normed) {
        norm_heads(b, a->q, a->q_raw, w->q_norm, s->heads);
        norm_heads(b, a->k, a->k_raw, w->k_norm, s->kv_heads);
    }
    show_heads(b, a);
    if (b->rope && b->rope->rot > 0) {
        rope_rotate(b->crew, a->q, b->rope, n, s->heads, s->head_dim, false);
        rope_rotate(b->crew, a->k, b->rope, n, s->kv_heads, s->head_dim, false);
        show(b, STEP_Q_ROPE, false, a->q, q);
        show(b, STEP_K_ROPE, false, a->k, kv);
    }
    attention_forward(b->crew, a->att_out, a->stats, a->probs, a->q, a->k, a->v, &shape);
    if (a->probs)
        show(b, STEP_PROBS, false, a->probs, s->heads * b->seq_len);
    show(b, STEP_HEADS, false, a->att_out, q);
    linear(b->crew, y, a->att_out, w->wo, w->wo_bias, n, d, q);
}

/* y = W_down (act(W_gate xn) * (W_up xn)) */
static void feed_forward_half(const BlockCall *b, BlockActs *a, const float *xn, float *y)
{
    const BlockShape   *s = b->shape;
    const BlockWeights *w = b->w;
    int n = call_tokens(b), d = s->d_model;
    if (a->gate) {
        linear(b->crew, a->gate, xn, w->w_gate, w->w_gate_bias, n, s->d_ff, d);
        show(b, STEP_GATE, false, a->gate, s->d_ff);
    }
    linear(b->crew, a->up, xn, w->w_up, w->w_up_bias, n, s->d_ff, d);
    show(b, STEP_UP, false, a->up, s->d_ff);
    activation_forward(b->crew, b->work->h, a->gate, a->up, s->ffn, (size_t)n * (size_t)s->d_ff);
    show(b, STEP_H, false, b->work->h, s->d_ff);
    linear(b->crew, y, b->work->h, w->w_down, w->w_down_bias, n, d, s->d_ff);
}

void block_forward(const BlockCall *b, BlockActs *a, float *out)
{
    const BlockWeights *w = b->w;
    Sublayer attn = attention_sublayer(b, a), ffn = ffn_sublayer(b, a);
    float   *y;

    show(b, STEP_X, false, a->x, b->shape->d_model);
    const float *xn = sublayer_in(b, a->x, w->attn_norm, w->attn_norm_bias);
    show_normed(b, STEP_ATTN_NORM, xn, false);
    y = attn.y ? attn.y : b->work->y;
    attention_half(b, a, xn, y);                         /* y = Wo attention(...)        */
    sublayer_out(b, &attn, a->mid, a->x, y);             /* mid = x + [norm] y           */

    xn = sublayer_in(b, a->mid, w->ffn_norm, w->ffn_norm_bias);
    show_normed(b, STEP_FFN_NORM, xn, false);
    y = ffn.y ? ffn.y : b->work->y;
    feed_forward_half(b, a, xn, y);                      /* y = W_down (act(gate) * up)  */
    sublayer_out(b, &ffn, out, a->mid, y);               /* out = mid + [norm] y         */
}
