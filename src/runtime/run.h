/* runtime/run.h: what one forward pass works on. Private to this room. */
#ifndef RUNTIME_RUN_H
#define RUNTIME_RUN_H

#include "base/threads.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "runtime/kv_cache.h"
#include "runtime/forward.h"
#include "runtime/profile.h"

/* Consecutive tokens of one sequence inside a call: they share the tiles they look at. */
typedef struct Span { int seq, pos, first, n_tok; } Span;

/* An activation [n_tok, stride] f32: rows are 64-byte aligned, stride is the width rounded up to 16. Where the matrices that
 * read it multiply integers, the same as integers beside it (docs/numerics.md, "Activations for quantized weights"). */
typedef struct Act {
    float   *data;
    size_t   stride;
    int      width;
    int      bits;                      /* of the integers: 8 or 16; 0: there are none now */
    int16_t *q;                         /* [n_tok, q_stride], width rounded up to 64       */
    float   *d;                         /* [n_tok, d_stride]: a scale for each 256         */
    size_t   q_stride, d_stride;
} Act;

static inline float *act_row(const Act *a, int t) { return a->data + (size_t)t * a->stride; }

/* Up to this many tokens each thread computes the rows that every thread reads (norms, integers) for itself: that takes less
 * time than to meet. */
enum { OWN_ROWS = 4 };

/* Sine and cosine of the call's positions. */
typedef struct RopeTable {
    float        *cosine, *sine;        /* [n_tok, rotary_dim / 2] */
    const double *inv_freq;
    double        factor;
} RopeTable;

/* Which experts the tokens of a call take (experts.c). */
typedef struct Routing {
    Act    logits, shared;              /* [n_tok, n_experts] of the router, [n_tok, 1] of the shared expert's         */
    int   *expert;                      /* [n_tok, experts_used], ascending; this thread's own where own_rows is set   */
    float *weight;                      /* the same: what their results are multiplied by                              */
    int   *first;                       /* [n_experts + 1]: where each expert's tokens begin in the two below, which    */
    int   *token;                       /* are this thread's own: [n_tok * experts_used]                               */
    float *share;                       /* their weights                                                               */
} Routing;

/* One thread's view. All threads of a team hold the same values but for `team`, `scratch` and what is their own where
 * own_rows is set, run the same code, and meet where one needs what another computed (ops.c): none is visible in forward.c. */
typedef struct Run {
    const Model   *model;
    const Kernels *kernels;
    Numerics       numerics;
    KvCache       *kv_cache;
    const BatchToken *token;  /* [n_tok] */
    const Span    *span;
    int            n_tok, n_spans;
    Act x, xn, q, k, v, att_out, y, gate, up;
    Act            expert_in, mix;      /* rows of xn by expert; [n_tok, d_model]: the experts' sum */
    Routing        routing;
    int            expert_rows;         /* rows of expert_in, gate and up where there are experts   */
    bool           own_rows;            /* xn, and the integers of att_out, are this thread's own */
    RopeTable      rope[2];             /* of layers that see all; of those with a window (often the same) */
    float          norm_eps, attn_scale, attn_softcap, embed_scale, residual_scale, logit_scale, logit_softcap;
    ForwardObserver observer;
    void          *observer_user;
    AttentionRow   attention_row;
    void          *attention_user;
    size_t         first;               /* the batch's item that token[0] is */
    Team           team;
    Profile       *profile;             /* NULL: nobody asks, or another thread's */
    void          *scratch;             /* KERNEL_SCRATCH bytes of this thread */
    float         *attn_scratch;
    size_t         thread_bytes;        /* from a thread's scratch to the next one's */
} Run;

/* Each computes this thread's share; ops.h says how. Who reads a result finds it complete. Shapes as in forward.c. */
void rope_table(Run *r);                                                    /* rows.c */
void embed(Run *r, const Act *x);
void norm(Run *r, Act *y, const Act *x, NormVectors v, int bits);
void integers(Run *r, Act *x, int bits);
void qkv(Run *r, int l);                                                    /* qkv.c */
void attention(Run *r, const Act *y, int l);                                /* attention.c */
void attention_probs(Run *r, int l);     /* attention_probs.c: only for whoever asked with forward_watch_attention */
void add_product(Run *r, const Act *x, const Act *in, const Mat *w, NormVectors v, const char *name); /* products.c */
void feed_forward(Run *r, Act *h, const Act *up, const Act *in, int l, int bits); /* ffn.c */
void route(Run *r, int l);                                                  /* experts.c */
void experts(Run *r, const Act *x, int l);
void head(Run *r, const Act *xn);                                           /* head.c */

/* Rows of hidden values that experts need for a call of up to max_tok tokens. */
int  expert_rows(const Config *c, int max_tok);

enum { ATTN_MAX_Q = 64 };                /* queries that share a tile in one kernel call (more where a group is larger) */
int    attention_queries(const Config *c);
size_t attention_scratch_floats(const Config *c);

#endif
