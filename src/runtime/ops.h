/* runtime/ops.h: what a forward pass works on, and its operations. Private to this room.
 *
 * Every member of a team runs the same code on a Run of its own. An operation computes this
 * member's share: tokens (BY_ROWS) of what each token has for itself, panels of 16 columns
 * (BY_COLUMNS) of a product, with whatever is done to them next. Who computes what never shows in
 * the bits.
 *
 * Nobody places a barrier. An operation says how it touches each activation (touch), and the team
 * meets only where a member would read what another wrote since they last met, or overwrite what
 * another may still read. So who computes columns of q rotates them and puts its heads into the
 * cache without waiting, and a block of one token has five meetings. */
#ifndef RUNTIME_OPS_H
#define RUNTIME_OPS_H

#include "base/threads.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "runtime/forward.h"

/* Consecutive tokens of one sequence inside a call: they share the tiles they look at. */
typedef struct Span { int seq, pos, first, n_tok; } Span;

/* How the members share what an operation touches. ANYWHERE: each may touch any of it. */
typedef enum Cut { ANYWHERE, BY_ROWS, BY_COLUMNS, BY_HEADS } Cut;

/* How something was touched since the team's meeting number `since`; before that, everybody was
 * done with it. */
typedef struct Use { unsigned since; Cut cut; bool written; } Use;

/* An activation [n_tok, stride] f32: rows are 64-byte aligned, stride is the width rounded up to
 * 16. Where the matrices that read it multiply integers, the same as integers beside it
 * (docs/numerics.md, "Activations for quantized weights"). */
typedef struct Act {
    float   *data;
    size_t   stride;
    int      width;
    int      bits;                      /* of the integers: 8 or 16; 0: there are none now */
    int16_t *q;                         /* [n_tok, q_stride], width rounded up to 64       */
    float   *d;                         /* [n_tok, d_stride]: a scale for each 256         */
    size_t   q_stride, d_stride;
    bool     own, own_ints;             /* this member's: no other touches it, or its integers */
    Use      use;
} Act;

static inline float *act_row(const Act *a, int t) { return a->data + (size_t)t * a->stride; }

/* Up to this many tokens each thread computes the rows that every thread reads (norms, integers)
 * for itself: that takes less time than to meet. */
enum { OWN_ROWS = 4 };

/* Sine and cosine of the call's positions. */
typedef struct RopeTable {
    float        *cosine, *sine;        /* [n_tok, rotary_dim / 2] */
    const double *inv_freq;
    double        factor;
} RopeTable;

/* Which experts the tokens of a call take (experts.c). What each token takes is every member's own
 * where own_rows is set; the tokens by expert always are. */
typedef struct Routing {
    Act    logits, shared;    /* [n_tok, n_experts]; [n_tok, 1]: products of the two routers */
    int   *expert;            /* [n_tok, experts_used], ascending                            */
    float *weight;            /* the same: what their results are multiplied by              */
    Use    use;               /* of expert and weight                                        */
    int   *first;             /* [n_experts + 1]: where each expert's tokens begin in        */
    int   *token;             /* [n_tok * experts_used]                                      */
    float *share;             /* their weights                                               */
} Routing;

/* One member's view. All members hold the same values but for `team`, `scratch` and what is their
 * own. */
typedef struct Run {
    const Model   *model;
    const Layer   *layer;     /* [n_layers]: the model's, with the context's plan (numerics.h) */
    const Mat     *lm_head;
    const Kernels *kernels;
    KvCache       *kv_cache;
    const BatchToken *token;  /* [n_tok] */
    const Span    *span;
    int            n_tok, n_spans;
    Act x, xn, q, k, v, att_out, y, gate, up;
    Act            expert_in; /* rows of xn by expert                                        */
    Act            mix;       /* [n_tok, d_model]: what one expert gives                     */
    Routing        routing;
    int            expert_rows; /* rows of expert_in, gate and up where there are experts    */
    bool           own_rows;  /* few tokens: xn, and the integers of att_out, are each member's own */
    RopeTable      rope[2];   /* of layers that see all; of those with a window (often the same) */
    Use            angles;    /* of rope     */
    Use            cached;    /* of kv_cache */
    float          norm_eps, attn_scale, attn_softcap, embed_scale, residual_scale;
    float          logit_scale, logit_softcap;
    ForwardObserver observer;
    void          *observer_user;
    AttentionRow   attention_row;
    void          *attention_user;
    size_t         first;     /* the batch's item that token[0] is        */
    Team           team;
    unsigned       met;       /* how often the team has met, from 1 on    */
    Profile       *profile;   /* NULL: nobody asks, or another thread's   */
    void          *scratch;   /* KERNEL_SCRATCH bytes of this thread      */
    float         *attn_scratch;
    size_t         thread_bytes; /* from a thread's scratch to the next one's */
} Run;

/* ---- The operations of forward.c, in its order; shapes as there ---- */

void transformer(Run *r);                             /* forward.c: the whole pass */
void rope_angles(Run *r);
void embed(Run *r, Act *x);
void norm(Run *r, Act *y, Act *x, NormVectors v);     /* y = norm(x); without such a norm y = x */
void matmul(Run *r, Act *y, Act *in, const Mat *w);   /* y = W in + bias */
void norm_heads(Run *r, Act *x, const float *w);      /* nothing where w is NULL */
void rope(Run *r, Act *x, int l);
void kv_put(Run *r, int l);                           /* k and v into the cache of layer l */
void attention(Run *r, Act *y, int l);                /* attention.c */
void attention_probs(Run *r, int l);                  /* attention_probs.c: if someone watches */
void add(Run *r, Act *x, Act *y, NormVectors v);      /* x += y, or x += norm(y) */
/* h = act(W_gate in) * (W_up in), or act(W_up in) of a network without a gate */
void hidden(Run *r, Act *h, Act *in, const Mat *w_gate, const Mat *w_up);
void experts(Run *r, Act *y, Act *in, int l);         /* experts.c: y = sum over each token's */
void head(Run *r, Act *xn);                           /* logits of the tokens that want them */
void observe(Run *r, const char *name, int l, Act *x); /* pass.c: x under that name, a format of l */

/* ---- What they share ---- */

/* What the operation is about to touch, all of it at once: the team meets first if it must. Every
 * member calls it, whatever its share: touch(r, reads(x, BY_ROWS), writes(y, BY_ROWS)). */
typedef struct Touch { Use *use; Cut cut; bool writes; } Touch;
void touch_all(Run *r, const Touch *t, size_t n);
#define touch(r, ...) \
    touch_all(r, (const Touch[]){__VA_ARGS__}, sizeof((const Touch[]){__VA_ARGS__}) / sizeof(Touch))

static inline Touch reads(Act *a, Cut cut) { return (Touch){a->own ? NULL : &a->use, cut, false}; }
static inline Touch writes(Act *a, Cut cut)
{
    a->bits = 0;
    return (Touch){a->own ? NULL : &a->use, cut, true};
}

/* This member's share of n; and of the tokens, where few are everybody's: the answer says which. */
static inline void my_share(const Run *r, int n, int *first, int *end)
{
    threads_share(r->team, n, first, end);
}
static inline Cut my_rows(const Run *r, int *first, int *end)
{
    *first = 0;
    *end   = r->n_tok;
    if (r->own_rows)
        return ANYWHERE;
    my_share(r, r->n_tok, first, end);
    return BY_ROWS;
}

/* For the profile: an operation begins, which reads so many bytes of weights. */
static inline void enter(const Run *r, const char *name, double bytes, double operations)
{
    if (r->profile)
        profile_enter(r->profile, name, bytes, operations);
}
static inline double mat_read(const Mat *w)
{
    return (double)panel_bytes(w->type, w->k) * panel_count(w->rows);
}
static inline double mat_work(const Mat *w, int n_tok) { return 2.0 * w->rows * w->k * n_tok; }

/* Columns of n panels from panel p on, in rows of that width. */
static inline int columns(int p, int n, int width)
{
    return n * PANEL_ROWS < width - p * PANEL_ROWS ? n * PANEL_ROWS : width - p * PANEL_ROWS;
}

/* Panels that are multiplied before their columns are gone on with: few where tokens are many, so
 * that the columns are still in the cache; 32 are 512 columns. */
static inline int piece_panels(int n_tok, int panels)
{
    return n_tok > OWN_ROWS && panels > 32 ? 32 : panels;
}

/* Where a product goes: n_tok rows; those that are multiplied begin with row t of the other
 * activation. */
typedef struct RowSpan { float *data; size_t stride; int t, n_tok; } RowSpan;

/* y = W x + bias, panels first .. end - 1, from the integers of x where the plan says so. */
void multiply(const Run *r, RowSpan y, const Act *x, const Mat *w, int first, int end);

/* Before that: the integers of x that w multiplies. */
void prepare(Run *r, Act *x, const Mat *w);

/* Integers of n values of row t from column `at` on, a multiple of 256. */
void quantize(const Run *r, const Act *x, int t, int at, int n, int bits);

/* Panels first .. end - 1 of the hidden values h of one network; up: room as large. made: NULL, or
 * the activation that h lies in from its first row on, of which integers are made too, of `bits`.
 */
void hidden_panels(const Run *r, RowSpan h, RowSpan up, const Act *in, const Mat *w_gate, const Mat *w_up,
                   int first, int end, const Act *made, int bits);

/* Rows of hidden values that experts need for a call of up to max_tok tokens. */
int  expert_rows(const Config *c, int max_tok);

enum { ATTN_MAX_Q = 64 }; /* queries that share a tile in one kernel call, or a whole group */
int    attention_queries(const Config *c);
size_t attention_scratch_floats(const Config *c);

#endif
