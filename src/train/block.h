/* train/block.h: one decoder block, forward with what its backward pass needs kept, and backward.
 * train_forward.c and backward.c read line by line like runtime/forward.c. */
#ifndef TRAIN_BLOCK_H
#define TRAIN_BLOCK_H

#include "model/tensor_list.h"
#include "train/train_ops.h"

typedef struct BlockShape {
    int   d_model, heads, kv_heads, head_dim, d_ff;
    int   window;                  /* positions a query sees, itself included; 0: all        */
    bool  causal;
    Norm  norm;
    NormPlacement place;           /* PRE, POST, BOTH or OUTPUT                              */
    FfnKind ffn;
    QkNorm  qk_norm;               /* NONE, HEAD or VECTOR                                   */
    float eps, attn_scale, residual_scale;
} BlockShape;

/* A weight [rows, k] row-major, or [n] of a norm, and its bias; or their gradients. NULL: the block
 * has none (the gradient is not wanted). */
typedef struct Weight { float *w, *b; } Weight;

/* The tensors of a block, also by role. */
enum { BLOCK_ROLES = ROLE_FFN_POST_NORM - ROLE_ATTN_NORM + 1 };
typedef union BlockWeights {
    struct {                                     /* in the order of the roles                */
        Weight attn_norm;                        /* [d_model]: before attention, or (POST) after the sum */
        Weight wq, wk, wv, q_norm, k_norm, wo;
        Weight attn_post_norm;                   /* of what attention gives (BOTH, OUTPUT)   */
        Weight ffn_norm, w_gate, w_up, w_down;
        Weight router, expert_gate, expert_up, expert_down;         /* NULL: experts have no backward */
        Weight shared_router, shared_gate, shared_up, shared_down;  /* pass yet (train_supported)     */
        Weight ffn_post_norm;
    };
    Weight of[BLOCK_ROLES];                      /* from ROLE_ATTN_NORM on                   */
} BlockWeights;
_Static_assert(sizeof(BlockWeights) == BLOCK_ROLES * sizeof(Weight), "a field for each role");

/* What the backward pass reads: [n_tok, width] each. NULL where the shape has none. */
typedef struct BlockActs {
    float *x;                      /* input                                                  */
    float *q_raw, *k_raw;          /* before their norm (qk_norm)                            */
    float *q, *k, *v;              /* normed and rotated                                     */
    float *att_out, *stats;        /* before wo; attention_forward's                         */
    float *attn_y, *attn_sum;      /* before the norm of BOTH and OUTPUT; before that of POST */
    float *mid;                    /* between the two halves                                 */
    float *gate, *up;              /* the backward pass destroys them                        */
    float *ffn_y, *ffn_sum;
    float *probs;                  /* NULL, or gets the attention probabilities: attention_forward */
} BlockActs;

/* Room that blocks share: nothing in it outlives a call. */
typedef struct BlockWork {
    float *xn, *y, *d_y, *d_x;     /* [n_tok, d_model]            */
    float *h, *d_h;                /* [n_tok, d_ff]               */
    float *d_q, *d_att;            /* [n_tok, heads * head_dim]   */
    float *d_k, *d_v;              /* [n_tok, kv_heads * head_dim] */
} BlockWork;

/* Takes pieces of one allocation: a first pass with base NULL counts (at), a second one gives them
 * out. 64-byte aligned. */
typedef struct Carver { float *base; size_t at; bool overflow; } Carver;
float *carve(Carver *c, size_t rows, size_t width);

/* probs is left NULL. */
void block_acts_carve(BlockActs *a, Carver *c, const BlockShape *s, int n_tok);
void block_work_carve(BlockWork *w, Carver *c, const BlockShape *s, int n_tok);

/* The values of a block by name, in no order but that of the two halves; a block has some of them.
 */
typedef enum BlockStep {
    STEP_X, STEP_ATTN_NORM, STEP_Q, STEP_K, STEP_V, STEP_Q_NORM, STEP_K_NORM, STEP_Q_ROPE, STEP_K_ROPE, STEP_PROBS, STEP_HEADS,
    STEP_ATTN_Y, STEP_ATTN_POST, STEP_ATTN_ADD,                          /* y: what the half gives; post: its norm; add: the sum */
    STEP_FFN_NORM, STEP_GATE, STEP_UP, STEP_H, STEP_FFN_Y, STEP_FFN_POST, STEP_FFN_ADD, BLOCK_STEPS
} BlockStep;

/* Someone who looks on: is shown every value [n] as it is made, and going back its gradient, by the
 * thread that called. Each operation of the two passes names the step that it makes. (Of the
 * probabilities, where they are kept, the value alone: their gradient is never whole. The backward
 * pass makes norms anew and shows them again.) */
typedef struct BlockObserver { void (*saw)(void *user, BlockStep step, bool gradient, const float *value, size_t n); void *user; } BlockObserver;

/* One call of a block. */
typedef struct BlockCall {
    const Crew         *crew;      /* train_ops_reserve(n_tok, seq_len, block_width(shape)) was called */
    const BlockShape   *shape;
    const BlockWeights *w;
    const RopeAngles   *rope;      /* NULL or rot 0: positions are not rotated */
    const BlockWork    *work;
    int                 n_seqs, seq_len;
    DropoutKey          drop;      /* p 0: none; site: two for each layer, from here */
    const BlockObserver *observer; /* NULL: nobody looks on */
    uint64_t            first_seq; /* number of the first sequence in its batch: dropout does not depend on how a batch is cut */
} BlockCall;

int block_width(const BlockShape *s);

/* out = block(a->x): [n_tok, d_model]; fills a. out may be another block's a->x. */
void block_forward(const BlockCall *b, BlockActs *a, float *out);

/* d_x: the gradient of out, becomes that of a->x. d: gradients are added. */
void block_backward(const BlockCall *b, const BlockActs *a, const BlockWeights *d, float *d_x);

#endif
