/* runtime/run.h: what one forward pass works on. Private to this room. */
#ifndef RUNTIME_RUN_H
#define RUNTIME_RUN_H

#include "base/threads.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "runtime/kv_cache.h"
#include "runtime/forward.h"

/* Consecutive tokens of one sequence inside a call: they share the tiles they look at. */
typedef struct Span { int seq, pos, first, n_tok; } Span;

/* An activation [n_tok, stride] f32: rows are 64-byte aligned, stride is the width rounded up to 16. */
typedef struct Act { float *data; size_t stride; int width; } Act;

static inline float *act_row(const Act *a, int t) { return a->data + (size_t)t * a->stride; }

/* One thread's view. All threads of a team hold the same values but for `team` and `scratch`, run the same code, and
 * meet at the end of each operation (ops.c): none is visible in forward.c. */
typedef struct Run {
    const Model   *model;
    const Kernels *kernels;
    KvCache       *kv_cache;
    const BatchToken *token;  /* [n_tok] */
    const Span    *span;
    int            n_tok, n_spans, n_logits;
    Act x, xn, q, k, v, att_out, y, gate, up, logits;
    float         *cosine, *sine;       /* [n_tok, head_dim / 2] of the tokens' positions */
    const double  *inv_freq;
    double         rope_factor;
    float          norm_eps, attn_scale;
    ForwardObserver observer;
    void          *observer_user;
    AttentionRow   attention_row;
    void          *attention_user;
    size_t         first;               /* the batch's item that token[0] is */
    Team           team;
    void          *scratch;             /* KERNEL_SCRATCH bytes of this thread */
    float         *attn_scratch;
} Run;

/* ops.c: each computes this thread's share, then waits for the others. Shapes as in forward.c. */
void embed(Run *r, const Act *x);
void rope_table(Run *r);
void rms_norm(Run *r, const Act *y, const Act *x, const float *w);
void matmul(Run *r, const Act *y, const Act *x, const Mat *w);
void rope(Run *r, const Act *x, int heads);
void kv_put(Run *r, int l);
void attention(Run *r, const Act *y, int l);
void attention_probs(Run *r, int l);     /* attention_probs.c: only for whoever asked with forward_watch_attention */
void swiglu(Run *r, const Act *gate, const Act *up);
void add(Run *r, const Act *x, const Act *y);
void head(Run *r, const Act *xn);
void observe(Run *r, const char *name, int l, const Act *x);

enum { ATTN_MAX_Q = 64 };                /* queries that share a tile in one kernel call (more where a group is larger) */
int    attention_queries(const Config *c);
size_t attention_scratch_floats(const Config *c);

#endif
