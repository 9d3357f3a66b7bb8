/* train/backward.c: the block of train_forward.c from its end to its beginning. `d` in a name: the gradient of the loss by it.
 *
 *   s = x + y:                dx = ds, dy = ds
 *   y = W x + b:              dx = W^T dy, dW = dy x^T, db = dy
 *   norms, rope, attention, activations: train_ops.h says each */
#include "train/block.h"

#include <string.h>

#include "train/sublayer.h"

static void clear(float *x, size_t n) { memset(x, 0, n * sizeof *x); }

/* ---- The two halves' common parts ---- */

/* From the gradient of out (in d_x) to that of what the sublayer gave, which is returned; d_x becomes the gradient of the sum, which
 * is x's share through the residual. */
static const float *back_through_sum(const BlockCall *b, const Sublayer *l, const Sublayer *d, float *d_x)
{
    const BlockShape *s = b->shape;
    const BlockWork  *k = b->work;
    int        n_tok = call_tokens(b);
    size_t     n = (size_t)n_tok * (size_t)s->d_model;
    NormParams norm = sublayer_norm(s, l->norm, l->norm_bias), d_norm = sublayer_norm(s, d->norm, d->norm_bias);
    NormParams post = sublayer_norm(s, l->post_norm, l->post_norm_bias), d_post = sublayer_norm(s, d->post_norm, d->post_norm_bias);
    DropoutKey drop = sublayer_dropout(b, l);
    show(b, l->sum ? l->norm_step : l->add_step, true, d_x, s->d_model);
    if (l->sum) {                                              /* out = norm(sum) */
        memcpy(k->d_y, d_x, n * sizeof *d_x);
        clear(d_x, n);
        norm_backward_rows(b->crew, d_x, &d_norm, l->sum, &norm, k->d_y, n_tok);
        show(b, l->add_step, true, d_x, s->d_model);
    }
    if (!l->y && drop.p == 0 && s->residual_scale == 1.0f) {
        show(b, l->y_step, true, d_x, s->d_model);
        return d_x;
    }
    memcpy(k->d_y, d_x, n * sizeof *d_x);                      /* sum = x + scale * y */
    scale_all(b->crew, k->d_y, s->residual_scale, n);
    dropout(b->crew, k->d_y, &drop, b->first_seq * (uint64_t)b->seq_len * (uint64_t)s->d_model, n);
    show(b, l->y ? l->post_step : l->y_step, true, k->d_y, s->d_model);
    if (!l->y)
        return k->d_y;
    clear(k->y, n);                                            /* y = norm(what the sublayer gave) */
    norm_backward_rows(b->crew, k->y, &d_post, l->y, &post, k->d_y, n_tok);
    show(b, l->y_step, true, k->y, s->d_model);
    return k->y;
}

/* d_x += the gradient through the sublayer's input, work->d_x, and the norm before it. */
static void back_through_input(const BlockCall *b, const Sublayer *l, const Sublayer *d, const float *x, float *d_x)
{
    const BlockShape *s = b->shape;
    int        n_tok = call_tokens(b);
    NormParams norm = sublayer_norm(s, l->norm, l->norm_bias), d_norm = sublayer_norm(s, d->norm, d->norm_bias);
    if (sublayer_norms_in(s))
        norm_backward_rows(b->crew, d_x, &d_norm, x, &norm, b->work->d_x, n_tok);
    else
        residual_add(b->crew, d_x, d_x, b->work->d_x, 1.0f, (size_t)n_tok * (size_t)s->d_model);
}

/* d_x (of normed heads) becomes that of the heads before their norm. room: as large. */
static void norm_heads_backward(const BlockCall *b, float *d_x, float *room, float *d_w, const float *raw, float *w, int heads)
{
    NormParams p = head_norm(b->shape, w, heads), d = head_norm(b->shape, d_w, heads);
    int        rows = call_tokens(b) * (heads * b->shape->head_dim / p.n);
    size_t     n = (size_t)rows * (size_t)p.n;
    memcpy(room, d_x, n * sizeof *d_x);
    clear(d_x, n);
    norm_backward_rows(b->crew, d_x, &d, raw, &p, room, rows);
}

/* ---- The block ---- */

/* From d_y to work->d_x, the gradient of xn. */
static void feed_forward_half_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d, const float *xn,
                                       const float *d_y)
{
    const BlockShape   *s = b->shape;
    const BlockWeights *w = b->w;
    const BlockWork    *k = b->work;
    int n = call_tokens(b), dm = s->d_model;
    linear_backward(b->crew, k->d_h, d_y, w->w_down, n, dm, s->d_ff, false);
    show(b, STEP_H, true, k->d_h, s->d_ff);
    activation_backward(b->crew, k->h, a->gate, a->up, k->d_h, s->ffn, (size_t)n * (size_t)s->d_ff); /* gate, up: now d_gate, d_up */
    show(b, STEP_UP, true, a->up, s->d_ff);
    if (a->gate)
        show(b, STEP_GATE, true, a->gate, s->d_ff);
    linear_weight_backward(b->crew, d->w_down, d->w_down_bias, d_y, k->h, n, dm, s->d_ff);
    linear_backward(b->crew, k->d_x, a->up, w->w_up, n, s->d_ff, dm, false);
    linear_weight_backward(b->crew, d->w_up, d->w_up_bias, a->up, xn, n, s->d_ff, dm);
    if (a->gate) {
        linear_backward(b->crew, k->d_x, a->gate, w->w_gate, n, s->d_ff, dm, true);
        linear_weight_backward(b->crew, d->w_gate, d->w_gate_bias, a->gate, xn, n, s->d_ff, dm);
    }
    show_normed(b, STEP_FFN_NORM, k->d_x, true);
}

static void attention_half_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d, const float *xn,
                                    const float *d_y)
{
    const BlockShape   *s = b->shape;
    const BlockWeights *w = b->w;
    const BlockWork    *k = b->work;
    AttentionShape      shape = call_attention(b);
    int n = call_tokens(b), dm = s->d_model, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    linear_backward(b->crew, k->d_att, d_y, w->wo, n, dm, q, false);
    show(b, STEP_HEADS, true, k->d_att, q);
    linear_weight_backward(b->crew, d->wo, d->wo_bias, d_y, a->att_out, n, dm, q);
    attention_backward(b->crew, k->d_q, k->d_k, k->d_v, a->q, a->k, a->v, a->att_out, a->stats, k->d_att, &shape);
    show(b, STEP_V, true, k->d_v, kv);
    if (b->rope && b->rope->rot > 0) {
        show(b, STEP_Q_ROPE, true, k->d_q, q);
        show(b, STEP_K_ROPE, true, k->d_k, kv);
        rope_rotate(b->crew, k->d_q, b->rope, n, s->heads, s->head_dim, true);
        rope_rotate(b->crew, k->d_k, b->rope, n, s->kv_heads, s->head_dim, true);
    }
    if (s->qk_norm != QK_NONE) {
        show(b, STEP_Q_NORM, true, k->d_q, q);
        show(b, STEP_K_NORM, true, k->d_k, kv);
        norm_heads_backward(b, k->d_q, k->d_att, d->q_norm, a->q_raw, w->q_norm, s->heads);
        norm_heads_backward(b, k->d_k, k->d_att, d->k_norm, a->k_raw, w->k_norm, s->kv_heads);
    }
    show(b, STEP_Q, true, k->d_q, q);
    show(b, STEP_K, true, k->d_k, kv);
    linear_backward(b->crew, k->d_x, k->d_q, w->wq, n, q, dm, false);
    linear_backward(b->crew, k->d_x, k->d_k, w->wk, n, kv, dm, true);
    linear_backward(b->crew, k->d_x, k->d_v, w->wv, n, kv, dm, true);
    linear_weight_backward(b->crew, d->wq, d->wq_bias, k->d_q, xn, n, q, dm);
    linear_weight_backward(b->crew, d->wk, d->wk_bias, k->d_k, xn, n, kv, dm);
    linear_weight_backward(b->crew, d->wv, d->wv_bias, k->d_v, xn, n, kv, dm);
    show_normed(b, STEP_ATTN_NORM, k->d_x, true);
}

void block_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d, float *d_x)
{
    const BlockWeights *w = b->w;
    BlockCall    of_d = *b;                                            /* the same places in the gradients */
    of_d.w = d;
    Sublayer     attn = attention_sublayer(b, a), d_attn = attention_sublayer(&of_d, a);
    Sublayer     ffn  = ffn_sublayer(b, a), d_ffn = ffn_sublayer(&of_d, a);
    const float *xn, *d_y;

    d_y = back_through_sum(b, &ffn, &d_ffn, d_x);                      /* out = mid + [norm] y         */
    xn  = sublayer_in(b, a->mid, w->ffn_norm, w->ffn_norm_bias);       /* made anew: cheaper than kept */
    feed_forward_half_backward(b, a, d, xn, d_y);                      /* y = W_down (act(gate) * up)  */
    back_through_input(b, &ffn, &d_ffn, a->mid, d_x);

    d_y = back_through_sum(b, &attn, &d_attn, d_x);                    /* mid = x + [norm] y           */
    xn  = sublayer_in(b, a->x, w->attn_norm, w->attn_norm_bias);
    attention_half_backward(b, a, d, xn, d_y);                         /* y = Wo attention(...)        */
    back_through_input(b, &attn, &d_attn, a->x, d_x);
    show(b, STEP_X, true, d_x, b->shape->d_model);
}
