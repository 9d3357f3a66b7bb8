/* train/block.h: forward and backward of one block. */
#ifndef TRAIN_BLOCK_H
#define TRAIN_BLOCK_H

#include "model/tensor_list.h"
#include "train/train_ops.h"

/* ---- block ----------------------------------------------------------------------------------- */

/* One decoder block: a forward pass that keeps what the backward pass needs, and
 * the backward pass. train_forward.c and backward.c read line by line like runtime/forward.c. */

typedef struct BlockShape {
    int   d_model, heads, kv_heads, head_dim, d_ff;
    int   window;                  /* positions a query sees, with its own; 0: all */
    bool  causal;
    Norm  norm;
    NormPlacement place;           /* PRE, POST, BOTH or OUTPUT                              */
    FfnKind ffn;
    QkNorm  qk_norm;               /* NONE, HEAD or VECTOR                                   */
    bool    qk_norm_after_rope;    /* q_raw and k_raw are rotated */
    float eps, attn_scale, residual_scale;
    int   rank;                    /* of the adapter; 0: none */
    float lora_scale;
} BlockShape;

/* A weight [rows, k] row-major (or [n] of a norm) and its bias, or the gradients of both. NULL:
 * the block has no such tensor, or its gradient is not wanted. a and u: its adapter, A [rank, k]
 * and U [rank, rows]: W x + b + lora_scale * U^T (A x). */
typedef struct Weight { float *w, *b, *a, *u; } Weight;

/* The tensors of a block, by name and by role, in the order of the roles. train_supported rejects
 * configs with those that the block does not read. */
#define BLOCK_FIELD(role, field, ...) Weight field;
enum { BLOCK_ROLES = ROLE_FINAL_NORM - ROLE_ATTN_NORM };
typedef union BlockWeights {
    struct { TENSORS_OF_LAYER(BLOCK_FIELD) };
    Weight of[BLOCK_ROLES];                      /* from ROLE_ATTN_NORM on */
} BlockWeights;
_Static_assert(sizeof(BlockWeights) == BLOCK_ROLES * sizeof(Weight), "a field for each role");

/* What the backward pass reads: [n_tok, width] each. NULL if the shape does not use it. */
typedef struct BlockActs {
    float *x;                      /* input                                                  */
    float *q_raw, *k_raw;          /* before their norm (qk_norm) */
    float *q, *k, *v;              /* normed and rotated                                     */
    float *att_out, *stats;        /* before wo; see attention_forward */
    float *attn_y, *attn_sum;      /* inputs of the norms after: y (BOTH, OUTPUT), sum (POST) */
    float *mid;                    /* between the two halves */
    float *gate, *up;              /* overwritten by the backward pass */
    float *ffn_y, *ffn_sum;
    float *probs;                  /* NULL, or receives the attention probabilities */
} BlockActs;

/* Work space that blocks share: nothing in it outlives a call. */
typedef struct BlockWork {
    float *xn, *y, *d_y, *d_x;     /* [n_tok, d_model]            */
    float *h, *d_h;                /* [n_tok, d_ff]               */
    float *d_q, *d_att;            /* [n_tok, heads * head_dim]   */
    float *d_k, *d_v;              /* [n_tok, kv_heads * head_dim] */
    float *low, *d_low;            /* [n_tok, rank]: lora_scale * A x */
} BlockWork;

/* Divides one allocation into arrays, 64-byte aligned. The first pass has base NULL and only counts
 * (at). The second pass has the allocation as base and hands out the arrays. */
typedef struct Carver { float *base; size_t at; bool overflow; } Carver;
/* An array of [rows, width] floats; NULL in the counting pass. Sets overflow if the size
 * overflows. */
float *carve(Carver *c, size_t rows, size_t width);

/* The arrays for n_tok tokens. probs stays NULL. */
void block_acts_carve(BlockActs *a, Carver *c, const BlockShape *s, int n_tok);
void block_work_carve(BlockWork *w, Carver *c, const BlockShape *s, int n_tok);

/* The values that a block computes, by name, in the order of the two halves. A block has only
 * some of them. _Y is what a half computes, _POST its norm, _ADD the sum with the residual. */
typedef enum BlockStep {
    STEP_X, STEP_ATTN_NORM, STEP_Q, STEP_K, STEP_V, STEP_Q_NORM, STEP_K_NORM, STEP_Q_ROPE,
    STEP_K_ROPE, STEP_PROBS, STEP_HEADS,
    STEP_ATTN_Y, STEP_ATTN_POST, STEP_ATTN_ADD,
    STEP_FFN_NORM, STEP_GATE, STEP_UP, STEP_H, STEP_FFN_Y, STEP_FFN_POST, STEP_FFN_ADD, BLOCK_STEPS
} BlockStep;

/* Sees every value [n] as it is computed, and in the backward pass its gradient, on the calling
 * thread. Each operation of the two passes names the step that it computes. Of the probabilities
 * only the value is shown (if they are kept), because their gradient never exists as a whole.
 * The backward pass computes norms again and shows them again. */
typedef struct BlockObserver {
    void (*saw)(void *user, BlockStep step, bool gradient, const float *value, size_t n);
    void *user;
} BlockObserver;

/* One call of a block. */
typedef struct BlockCall {
    const Crew         *crew;      /* after train_ops_reserve(n_tok, seq_len, block_width) */
    const BlockShape   *shape;
    const BlockWeights *w;
    const RopeAngles   *rope;      /* NULL or rot 0: positions are not rotated */
    const BlockWork    *work;
    int                 n_seqs, seq_len;
    DropoutKey          drop;      /* p 0: none; site: the first of two for each layer */
    const BlockObserver *observer; /* NULL: none */
    uint64_t            first_seq; /* in its batch: how a batch is split does not change dropout */
} BlockCall;

/* The widest row of activations that the block's operations need room for (train_ops_reserve). */
int block_width(const BlockShape *s);

/* out [n_tok, d_model] = block(a->x). Fills a. out may be another block's a->x. */
void block_forward(const BlockCall *b, BlockActs *a, float *out);

/* On entry d_x is the gradient of out, on return that of a->x. The gradients of weights are
 * added to d. Overwrites a->gate and a->up. */
void block_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d, float *d_x);

/* ---- sublayer -------------------------------------------------------------------------------- */

/* What the two halves of a block have in common: norms before the half, of its output and of the
 * sum. Private to src/train. */

static inline bool sublayer_norms_in(const BlockShape *s)
{
    return s->place == PLACE_PRE || s->place == PLACE_BOTH;
}
static inline bool sublayer_norms_out(const BlockShape *s)
{
    return s->place == PLACE_BOTH || s->place == PLACE_OUTPUT;
}
static inline int  call_tokens(const BlockCall *b) { return b->n_seqs * b->seq_len; }
static inline bool call_rotates(const BlockCall *b) { return b->rope && b->rope->rot > 0; }

/* Reports a value of a step, or its gradient, to the observer. Every operation ends with it. */
static inline void made(const BlockCall *b, BlockStep step, bool gradient, const float *value,
                        int width)
{
    size_t n = (size_t)call_tokens(b) * (size_t)width;
    if (b->observer)
        b->observer->saw(b->observer->user, step, gradient, value, n);
}

/* One half of a block: its norms, the values that they read (NULL: there is no such norm), and
 * the names of the steps. */
typedef struct Sublayer {
    Weight    norm, post_norm;
    float    *y, *sum;
    uint32_t  site;      /* of its dropout */
    BlockStep norm_step, y_step, post_step, add_step;
} Sublayer;

static inline Sublayer attention_sublayer(const BlockCall *b, const BlockActs *a)
{
    return (Sublayer){ b->w->attn_norm, b->w->attn_post_norm, a->attn_y, a->attn_sum, b->drop.site,
                       STEP_ATTN_NORM, STEP_ATTN_Y, STEP_ATTN_POST, STEP_ATTN_ADD };
}
static inline Sublayer ffn_sublayer(const BlockCall *b, const BlockActs *a)
{
    return (Sublayer){ b->w->ffn_norm, b->w->ffn_post_norm, a->ffn_y, a->ffn_sum, b->drop.site + 1,
                       STEP_FFN_NORM, STEP_FFN_Y, STEP_FFN_POST, STEP_FFN_ADD };
}
static inline DropoutKey sublayer_dropout(const BlockCall *b, const Sublayer *l)
{
    DropoutKey k = b->drop;
    k.site = l->site;
    return k;
}

/* The parameters of a norm of d_model values; of a norm of heads, each alone or all as one
 * vector. */
static inline NormParams norm_of(const BlockShape *s, Weight w)
{
    return (NormParams){ s->norm, w.w, w.b, s->eps, s->d_model };
}
static inline NormParams head_norm(const BlockShape *s, Weight w, int heads)
{
    int n = s->qk_norm == QK_HEAD ? s->head_dim : heads * s->head_dim;
    return (NormParams){ s->norm, w.w, NULL, s->eps, n };
}

/* lora_scale * A x, in work->low; A [rank, k]. */
const float   *lora_low(const BlockCall *b, const float *x, const float *a, int k);

/* The input of a half: norm(x) in work->xn, or x itself if the half has no norm before it. */
const float   *sublayer_in(const BlockCall *b, const Sublayer *l, const float *x);
AttentionShape call_attention(const BlockCall *b);

#endif
