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
    bool           own_rows;            /* xn, and the integers of att_out, are this thread's own */
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
    Profile       *profile;             /* NULL: nobody asks, or another thread's */
    void          *scratch;             /* KERNEL_SCRATCH bytes of this thread */
    float         *attn_scratch;
    size_t         thread_bytes;        /* from a thread's scratch to the next one's */
} Run;

/* ops.c: each computes this thread's share. Who reads a result finds it complete. Shapes as in forward.c. */
void rope_table(Run *r);
void embed(Run *r, const Act *x);
void rms_norm(Run *r, Act *y, const Act *x, const float *w, int bits);
void integers(Run *r, Act *x, int bits);
void qkv(Run *r, int l);
void attention(Run *r, const Act *y, int l);
void attention_probs(Run *r, int l);     /* attention_probs.c: only for whoever asked with forward_watch_attention */
void matmul_add(Run *r, const Act *x, const Act *in, const Mat *w, const char *name);
void swiglu(Run *r, Act *gate, const Act *up, const Act *in, const Layer *w, int bits);
void head(Run *r, const Act *xn);
void observe(Run *r, const char *name, int l, const Act *x);
void enter_attention(Run *r);            /* for the profile */

enum { ATTN_MAX_Q = 64 };                /* queries that share a tile in one kernel call (more where a group is larger) */
int    attention_queries(const Config *c);
size_t attention_scratch_floats(const Config *c);

#endif
