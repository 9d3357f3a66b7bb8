/* train/backward.c: the block of train_forward.c, from its end to its start. A name with `d` is
 * the gradient of the loss with respect to the rest of the name.
 *
 *    s = x + y:                dx = ds, dy = ds
 *    y = W x + b:              dx = W^T dy, dW = dy x^T, db = dy
 *    norms, rope, attention, activations: the formulas are in train_ops.h */
#include "train/block.h"

#include <string.h>


static void clear(float *x, size_t n) { memset(x, 0, n * sizeof *x); }

/* ---- Operations: each turns the gradient of its output into that of its input ---------------- */

/* d_low = lora_scale * U d_y: the gradient of A x. */
static const float *back_to_low(const BlockCall *b, const float *d_y, const float *u, int rows)
{
    const BlockShape *s = b->shape;
    linear(b->crew, b->work->d_low, d_y, u, NULL, call_tokens(b), s->rank, rows);
    scale_all(b->crew, b->work->d_low, s->lora_scale, (size_t)call_tokens(b) * (size_t)s->rank);
    return b->work->d_low;
}

/* d_x = W^T d_y, or d_x += W^T d_y with `added`; and through the adapter. */
static void product_back(const BlockCall *b, float *d_x, const float *d_y, Weight w, int rows,
                         int k, bool added)
{
    linear_backward(b->crew, d_x, d_y, w.w, call_tokens(b), rows, k, added);
    if (w.a)
        linear_backward(b->crew, d_x, back_to_low(b, d_y, w.u, rows), w.a, call_tokens(b),
                        b->shape->rank, k, true);
}
/* d_W += d_y x^T, d_bias += sum of d_y over the tokens, or of w's adapter d_U += low d_y^T, d_A +=
 * d_low x^T. */
static void weight_back(const BlockCall *b, Weight d, Weight w, const float *d_y, const float *x,
                        int rows, int k)
{
    int n_tok = call_tokens(b), rank = b->shape->rank;
    linear_weight_backward(b->crew, d.w, d.b, d_y, x, n_tok, rows, k);
    if (!d.a)
        return;
    linear_weight_backward(b->crew, d.u, NULL, lora_low(b, x, w.a, k), d_y, n_tok, rank, rows);
    linear_weight_backward(b->crew, d.a, NULL, back_to_low(b, d_y, w.u, rows), x, n_tok, rank, k);
}

/* The norm of q or k heads. On entry d_x is the gradient of the normed heads, on return that of
 * the heads before the norm. room is as large as d_x. */
static void norm_heads_back(const BlockCall *b, BlockStep step, float *d_x, float *room, Weight d_w,
                            const float *raw, Weight w, int heads)
{
    NormParams p = head_norm(b->shape, w, heads), d = head_norm(b->shape, d_w, heads);
    int        width = heads * b->shape->head_dim, rows = call_tokens(b) * (width / p.n);
    size_t     n = (size_t)rows * (size_t)p.n;
    memcpy(room, d_x, n * sizeof *d_x);
    clear(d_x, n);
    norm_backward_rows(b->crew, d_x, &d, raw, &p, room, rows);
    made(b, step, true, d_x, width);
}

static void rotate_back(const BlockCall *b, BlockStep step, float *d_x, int heads)
{
    rope_rotate(b->crew, d_x, b->rope, call_tokens(b), heads, b->shape->head_dim, true);
    made(b, step, true, d_x, heads * b->shape->head_dim);
}

/* From work->d_att to the gradients of q, k and v. q and k: the steps that attention read: rotated,
 * normed or plain heads. */
static void attend_back(const BlockCall *b, const BlockActs *a, BlockStep q, BlockStep k)
{
    const BlockShape *s = b->shape;
    const BlockWork  *w = b->work;
    AttentionShape    shape = call_attention(b);
    attention_backward(b->crew, w->d_q, w->d_k, w->d_v, a->q, a->k, a->v, a->att_out, a->stats,
                       w->d_att, &shape);
    made(b, STEP_V, true, w->d_v, s->kv_heads * s->head_dim);
    made(b, q, true, w->d_q, s->heads * s->head_dim);
    made(b, k, true, w->d_k, s->kv_heads * s->head_dim);
}

/* From work->d_h to d_gate and d_up, which overwrite gate and up. Recomputes h, for the gradient
 * of W_down. */
static void activate_back(const BlockCall *b, const BlockActs *a)
{
    const BlockShape *s = b->shape;
    size_t            n = (size_t)call_tokens(b) * (size_t)s->d_ff;
    activation_backward(b->crew, b->work->h, a->gate, a->up, b->work->d_h, s->ffn, n);
    made(b, STEP_UP, true, a->up, s->d_ff);
    if (a->gate)
        made(b, STEP_GATE, true, a->gate, s->d_ff);
}

/* ---- What both halves share ------------------------------------------------------------------ */

/* out = norm(sum). On entry d_x is the gradient of out, on return that of sum. */
static void back_through_norm(const BlockCall *b, const Sublayer *l, const Sublayer *d, float *d_x)
{
    size_t     n = (size_t)call_tokens(b) * (size_t)b->shape->d_model;
    NormParams norm = norm_of(b->shape, l->norm), d_norm = norm_of(b->shape, d->norm);
    made(b, l->norm_step, true, d_x, b->shape->d_model);
    memcpy(b->work->d_y, d_x, n * sizeof *d_x);
    clear(d_x, n);
    norm_backward_rows(b->crew, d_x, &d_norm, l->sum, &norm, b->work->d_y, call_tokens(b));
}

/* sum = x + dropout([norm] y) * residual_scale. d_x is the gradient of sum and therefore also
 * that of x, so it stays as it is. Returns the gradient of y. */
static const float *back_through_add(const BlockCall *b, const Sublayer *l, const Sublayer *d,
                                     const float *d_x)
{
    const BlockShape *s = b->shape;
    const BlockWork  *k = b->work;
    size_t     size = (size_t)s->d_model, n = (size_t)call_tokens(b) * size;
    NormParams post = norm_of(s, l->post_norm), d_post = norm_of(s, d->post_norm);
    DropoutKey drop = sublayer_dropout(b, l);
    made(b, l->add_step, true, d_x, s->d_model);
    if (!l->y && drop.p == 0 && s->residual_scale == 1.0f)
        return d_x;
    memcpy(k->d_y, d_x, n * sizeof *d_x);
    scale_all(b->crew, k->d_y, s->residual_scale, n);
    dropout(b->crew, k->d_y, &drop, b->first_seq * (uint64_t)b->seq_len * size, n);
    if (!l->y)
        return k->d_y;
    made(b, l->post_step, true, k->d_y, s->d_model);
    clear(k->y, n);
    norm_backward_rows(b->crew, k->y, &d_post, l->y, &post, k->d_y, call_tokens(b));
    return k->y;
}

/* Takes the gradient of out in d_x and returns the gradient of what the half computed. d_x
 * becomes the gradient of the sum: this is the share of x through the residual connection. */
static const float *back_through_sum(const BlockCall *b, const Sublayer *l, const Sublayer *d,
                                     float *d_x)
{
    if (l->sum)
        back_through_norm(b, l, d, d_x);
    const float *d_y = back_through_add(b, l, d, d_x);
    made(b, l->y_step, true, d_y, b->shape->d_model);
    return d_y;
}

/* d_x += the gradient that flows through the half's input: work->d_x, back through the norm. */
static void back_through_input(const BlockCall *b, const Sublayer *l, const Sublayer *d,
                               const float *x, float *d_x)
{
    const BlockShape *s = b->shape;
    int        n_tok = call_tokens(b);
    NormParams norm = norm_of(s, l->norm), d_norm = norm_of(s, d->norm);
    if (!sublayer_norms_in(s)) {
        residual_add(b->crew, d_x, d_x, b->work->d_x, 1.0f, (size_t)n_tok * (size_t)s->d_model);
        return;
    }
    made(b, l->norm_step, true, b->work->d_x, s->d_model);
    norm_backward_rows(b->crew, d_x, &d_norm, x, &norm, b->work->d_x, n_tok);
}

/* ---- The block ------------------------------------------------------------------------------- */

/* W_down (act(gate) * up), from d_y to work->d_x, the gradient of xn. */
static void feed_forward_half_backward(const BlockCall *b, const BlockActs *a,
                                       const BlockWeights *d, const float *xn, const float *d_y)
{
    const BlockWeights *w = b->w;
    const BlockWork    *k = b->work;
    int dm = b->shape->d_model, ff = b->shape->d_ff;
    product_back(b, k->d_h, d_y, w->w_down, dm, ff, false);           /* y = W_down h          */
    made(b, STEP_H, true, k->d_h, ff);
    activate_back(b, a);                                              /* h = act(gate) * up    */
    weight_back(b, d->w_down, w->w_down, d_y, k->h, dm, ff);
    product_back(b, k->d_x, a->up, w->w_up, ff, dm, false);           /* up = W_up xn          */
    weight_back(b, d->w_up, w->w_up, a->up, xn, ff, dm);
    if (a->gate) {
        product_back(b, k->d_x, a->gate, w->w_gate, ff, dm, true);    /* gate = W_gate xn      */
        weight_back(b, d->w_gate, w->w_gate, a->gate, xn, ff, dm);
    }
}

/* Wo attention(...), from d_y to work->d_x, the gradient of xn. */
static void attention_half_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d,
                                    const float *xn, const float *d_y)
{
    const BlockShape   *s = b->shape;
    const BlockWeights *w = b->w;
    const BlockWork    *k = b->work;
    int       dm = s->d_model, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    bool      normed = s->qk_norm != QK_NONE, rotated = call_rotates(b),
         late = s->qk_norm_after_rope;
    /* q and k as the rotation reads them, and as their norms do */
    BlockStep q_flat = normed && !late ? STEP_Q_NORM : STEP_Q,
              k_flat = normed && !late ? STEP_K_NORM : STEP_K,
              q_raw = rotated && late ? STEP_Q_ROPE : STEP_Q,
              k_raw = rotated && late ? STEP_K_ROPE : STEP_K;
    product_back(b, k->d_att, d_y, w->wo, dm, q, false);              /* y = Wo att_out        */
    made(b, STEP_HEADS, true, k->d_att, q);
    weight_back(b, d->wo, w->wo, d_y, a->att_out, dm, q);
    attend_back(b, a, late ? STEP_Q_NORM : rotated ? STEP_Q_ROPE : q_flat,
                late ? STEP_K_NORM : rotated ? STEP_K_ROPE : k_flat);
    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) != late && rotated) {
            rotate_back(b, q_flat, k->d_q, s->heads);
            rotate_back(b, k_flat, k->d_k, s->kv_heads);
        } else if ((turn == 0) == late && normed) {
            norm_heads_back(b, q_raw, k->d_q, k->d_att, d->q_norm, a->q_raw, w->q_norm, s->heads);
            norm_heads_back(b, k_raw, k->d_k, k->d_att, d->k_norm, a->k_raw, w->k_norm,
                            s->kv_heads);
        }
    product_back(b, k->d_x, k->d_q, w->wq, q, dm, false);             /* q, k, v = W xn        */
    product_back(b, k->d_x, k->d_k, w->wk, kv, dm, true);
    product_back(b, k->d_x, k->d_v, w->wv, kv, dm, true);
    weight_back(b, d->wq, w->wq, k->d_q, xn, q, dm);
    weight_back(b, d->wk, w->wk, k->d_k, xn, kv, dm);
    weight_back(b, d->wv, w->wv, k->d_v, xn, kv, dm);
}

void block_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d, float *d_x)
{
    BlockCall    of_d = *b; /* its w holds the gradients instead of the tensors */
    of_d.w = d;
    Sublayer     attn = attention_sublayer(b, a), d_attn = attention_sublayer(&of_d, a);
    Sublayer     ffn  = ffn_sublayer(b, a), d_ffn = ffn_sublayer(&of_d, a);
    const float *d_y, *xn;

    d_y = back_through_sum(b, &ffn, &d_ffn, d_x);       /* out = mid + [norm] y         */
    xn  = sublayer_in(b, &ffn, a->mid);                 /* recomputing is cheaper than keeping it */
    feed_forward_half_backward(b, a, d, xn, d_y);       /* y = W_down (act(gate) * up)  */
    back_through_input(b, &ffn, &d_ffn, a->mid, d_x);

    d_y = back_through_sum(b, &attn, &d_attn, d_x);     /* mid = x + [norm] y           */
    xn  = sublayer_in(b, &attn, a->x);
    attention_half_backward(b, a, d, xn, d_y);          /* y = Wo attention(...)        */
    back_through_input(b, &attn, &d_attn, a->x, d_x);
    made(b, STEP_X, true, d_x, b->shape->d_model);
}
