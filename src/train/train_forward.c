/* train/train_forward.c: the block of runtime/forward.c over whole sequences, in f32. It keeps
 * what backward.c reads. f is first attention, then the feed-forward network; n is a norm:
 *
 *    PRE      x = x + f(n(x))         POST     x = n(x + f(x))
 *    BOTH     x = x + n(f(n(x)))      OUTPUT   x = x + n(f(x)) */
#include "train/block.h"


#include "base/memory.h"

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
    size_t q = (size_t)s->heads * (size_t)s->head_dim,
           kv = (size_t)s->kv_heads * (size_t)s->head_dim;
    bool normed = s->qk_norm != QK_NONE, out = sublayer_norms_out(s), post = s->place == PLACE_POST;
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
    size_t q = (size_t)s->heads * (size_t)s->head_dim,
           kv = (size_t)s->kv_heads * (size_t)s->head_dim;
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
    w->low   = carve(c, n, (size_t)s->rank);
    w->d_low = carve(c, n, (size_t)s->rank);
}

int block_width(const BlockShape *s)
{
    int q = s->heads * s->head_dim;
    return q > s->d_model ? q : s->d_model;
}

/* ---- Operations: each is one line of the paper ----------------------------------------------- */

const float *lora_low(const BlockCall *b, const float *x, const float *a, int k)
{
    const BlockShape *s = b->shape;
    linear(b->crew, b->work->low, x, a, NULL, call_tokens(b), s->rank, k);
    scale_all(b->crew, b->work->low, s->lora_scale, (size_t)call_tokens(b) * (size_t)s->rank);
    return b->work->low;
}

/* y = W x + bias, and the adapter's part */
static void product(const BlockCall *b, BlockStep step, float *y, const float *x, Weight w,
                    int rows, int k)
{
    linear(b->crew, y, x, w.w, w.b, call_tokens(b), rows, k);
    if (w.a) /* y += low U: the form of a gradient, because U = B^T */
        linear_backward(b->crew, y, lora_low(b, x, w.a, k), w.u, call_tokens(b), b->shape->rank,
                        rows, true);
    made(b, step, false, y, rows);
}

/* y = norm(x), for rows of d_model. */
static void normalize(const BlockCall *b, BlockStep step, float *y, const float *x, Weight w)
{
    NormParams p = norm_of(b->shape, w);
    norm_forward(b->crew, y, x, &p, call_tokens(b));
    made(b, step, false, y, b->shape->d_model);
}

/* x = norm(raw), for q or k: each head alone, or all heads as one vector. */
static void norm_heads(const BlockCall *b, BlockStep step, float *x, const float *raw, Weight w,
                       int heads)
{
    NormParams p = head_norm(b->shape, w, heads);
    int        width = heads * b->shape->head_dim;
    norm_forward(b->crew, x, raw, &p, call_tokens(b) * (width / p.n));
    made(b, step, false, x, width);
}

/* x = rope(x), in place. */
static void rotate(const BlockCall *b, BlockStep step, float *x, int heads)
{
    rope_rotate(b->crew, x, b->rope, call_tokens(b), heads, b->shape->head_dim, false);
    made(b, step, false, x, heads * b->shape->head_dim);
}

AttentionShape call_attention(const BlockCall *b)
{
    const BlockShape *s = b->shape;
    return (AttentionShape){ b->n_seqs, b->seq_len, s->heads, s->kv_heads, s->head_dim,
                             s->window, s->causal, s->attn_scale };
}

/* att_out = softmax(q k^T * attn_scale + mask) v */
static void attend(const BlockCall *b, BlockActs *a)
{
    AttentionShape shape = call_attention(b);
    attention_forward(b->crew, a->att_out, a->stats, a->probs, a->q, a->k, a->v, &shape);
    if (a->probs)
        made(b, STEP_PROBS, false, a->probs, b->shape->heads * b->seq_len);
    made(b, STEP_HEADS, false, a->att_out, b->shape->heads * b->shape->head_dim);
}

/* h = act(gate) * up, or act(up) */
static void activate(const BlockCall *b, float *h, const BlockActs *a)
{
    const BlockShape *s = b->shape;
    size_t            n = (size_t)call_tokens(b) * (size_t)s->d_ff;
    activation_forward(b->crew, h, a->gate, a->up, s->ffn, n);
    made(b, STEP_H, false, h, s->d_ff);
}

/* sum = x + dropout(y) * residual_scale. Changes y. */
static void add(const BlockCall *b, const Sublayer *l, float *sum, const float *x, float *y)
{
    const BlockShape *s = b->shape;
    size_t     d = (size_t)s->d_model, n = (size_t)call_tokens(b) * d;
    DropoutKey drop = sublayer_dropout(b, l);
    dropout(b->crew, y, &drop, b->first_seq * (uint64_t)b->seq_len * d, n);
    residual_add(b->crew, sum, x, y, s->residual_scale, n);
    made(b, l->add_step, false, sum, s->d_model);
}

/* ---- The two halves -------------------------------------------------------------------------- */

/* The norm before a half; without one it reads x itself. */
const float *sublayer_in(const BlockCall *b, const Sublayer *l, const float *x)
{
    if (!sublayer_norms_in(b->shape))
        return x;
    normalize(b, l->norm_step, b->work->xn, x, l->norm);
    return b->work->xn;
}

/* out = x + y, with the norm after the half: of y (BOTH, OUTPUT) or of the sum (POST). */
static void sublayer_out(const BlockCall *b, const Sublayer *l, float *out, const float *x,
                         float *y)
{
    if (l->y) {
        normalize(b, l->post_step, b->work->y, y, l->post_norm);
        y = b->work->y;
    }
    add(b, l, l->sum ? l->sum : out, x, y);
    if (l->sum)
        normalize(b, l->norm_step, out, l->sum, l->norm);
}

/* y = Wo attention(rope(Wq xn), rope(Wk xn), Wv xn) */
static void attention_half(const BlockCall *b, BlockActs *a, const float *xn, float *y)
{
    const BlockShape   *s = b->shape;
    const BlockWeights *w = b->w;
    int  d = s->d_model, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    bool normed = s->qk_norm != QK_NONE;
    product(b, STEP_Q, normed ? a->q_raw : a->q, xn, w->wq, q, d);
    product(b, STEP_K, normed ? a->k_raw : a->k, xn, w->wk, kv, d);
    product(b, STEP_V, a->v, xn, w->wv, kv, d);
    for (int turn = 0; turn < 2; turn++) /* norm, then rotation, or the other order */
        if ((turn == 0) != s->qk_norm_after_rope && normed) {
            norm_heads(b, STEP_Q_NORM, a->q, a->q_raw, w->q_norm, s->heads);
            norm_heads(b, STEP_K_NORM, a->k, a->k_raw, w->k_norm, s->kv_heads);
        } else if ((turn == 0) == s->qk_norm_after_rope && call_rotates(b)) {
            rotate(b, STEP_Q_ROPE, s->qk_norm_after_rope ? a->q_raw : a->q, s->heads);
            rotate(b, STEP_K_ROPE, s->qk_norm_after_rope ? a->k_raw : a->k, s->kv_heads);
        }
    attend(b, a);
    product(b, STEP_ATTN_Y, y, a->att_out, w->wo, d, q);
}

/* y = W_down (act(W_gate xn) * (W_up xn)) */
static void feed_forward_half(const BlockCall *b, BlockActs *a, const float *xn, float *y)
{
    const BlockWeights *w = b->w;
    int d = b->shape->d_model, ff = b->shape->d_ff;
    if (a->gate)
        product(b, STEP_GATE, a->gate, xn, w->w_gate, ff, d);
    product(b, STEP_UP, a->up, xn, w->w_up, ff, d);
    activate(b, b->work->h, a);
    product(b, STEP_FFN_Y, y, b->work->h, w->w_down, d, ff);
}

void block_forward(const BlockCall *b, BlockActs *a, float *out)
{
    Sublayer attn = attention_sublayer(b, a), ffn = ffn_sublayer(b, a);
    float   *y    = attn.y ? attn.y : b->work->y;

    made(b, STEP_X, false, a->x, b->shape->d_model);
    attention_half(b, a, sublayer_in(b, &attn, a->x), y);       /* y = Wo attention(...)        */
    sublayer_out(b, &attn, a->mid, a->x, y);                    /* mid = x + [norm] y           */

    y = ffn.y ? ffn.y : b->work->y;
    feed_forward_half(b, a, sublayer_in(b, &ffn, a->mid), y);   /* y = W_down (act(gate) * up)  */
    sublayer_out(b, &ffn, out, a->mid, y);                      /* out = mid + [norm] y         */
}
