/* runtime/ops.h: the data of a forward pass and its operations. Private to src/runtime.
 *
 * Every member of a thread team runs the same code, on a Run of its own. An operation computes this
 * member's share: tokens (BY_ROWS) if tokens are independent, or panels of 16 columns (BY_COLUMNS)
 * of a product and what is done to them next. Which member computes what never changes the bits.
 *
 * No operation places a barrier. It declares how it accesses each activation (touch), and the team
 * synchronizes only if a member would read what another wrote since the last barrier, or overwrite
 * what another may still read. So a member that computes columns of q rotates them, and puts its
 * heads into the cache, without waiting. A block of one token needs five barriers. */
#ifndef RUNTIME_OPS_H
#define RUNTIME_OPS_H

#include <pthread.h>
#include "base/threads.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "ranks/ranks.h"
#include "runtime/forward.h"

/* Consecutive tokens of one sequence in a call: they share the tiles they look at. */
typedef struct Span { int seq, pos, first, n_tok; } Span;

/* The tokens of a call whose logits are wanted, as a separate call; row: theirs in the full one. */
typedef struct LastRows {
    BatchToken *token;
    Span       *span;
    int        *row, n_tok, n_spans;
} LastRows;

/* How members divide what an operation accesses. ANYWHERE: each member may access any of it. */
typedef enum Cut { ANYWHERE, BY_ROWS, BY_COLUMNS, BY_HEADS } Cut;

/* How something was accessed since the team's barrier number `since`. A barrier separates older
 * accesses from later ones. */
typedef struct Use { unsigned since; Cut cut; bool written; } Use;

/* An activation [n_tok, stride] f32. Rows are 64-byte aligned; stride is the width rounded up to
 * 16. If its matrices multiply integers, it also holds them (docs/numerics.md, "Activations for
 * quantized weights"). */
typedef struct Act {
    float   *data;
    size_t   stride;
    int      width;
    Integers ints;                      /* those that are valid now                  */
    int      low;                       /* 1 + the input (lora.h) for which r->low has its products
                                         * with adapters; 0: none */
    int16_t *q;                         /* [n_tok, q_stride], width rounded up to 64       */
    float   *d;                         /* [n_tok, d_stride]: their scales    */
    size_t   q_stride, d_stride;
    bool     own, own_ints;             /* private to this member: all of it, or its integers */
    /* RANK_ALL: this rank has all of it; else only the columns that it computes, until gathered. */
    RankCut  spread;
    Use      use;
} Act;

static inline float *act_row(const Act *a, int t) { return a->data + (size_t)t * a->stride; }

/* For up to this many tokens each thread computes the rows that every thread reads (norms,
 * integers) for itself: that takes less time than a barrier. */
enum { OWN_ROWS = 4 };

/* Sine and cosine of the angles of the call's positions. */
typedef struct RopeTable {
    float        *cosine, *sine;        /* [n_tok, rotary_dim / 2] */
    const double *inv_freq;
    double        factor;
} RopeTable;

/* The experts of the call's tokens (experts.c). expert and weight belong to each member alone if
 * own_rows is set; first, token and share always do. */
typedef struct Routing {
    Act    logits, shared;    /* products of the routers: [n_tok, n_experts], [n_tok, 1] */
    int   *expert;            /* [n_tok, experts_used], ascending                            */
    float *weight;            /* the same: factors of their results */
    Use    use;               /* of expert and weight                                        */
    int   *first;             /* [n_experts + 1]: start of each expert's tokens in `token` */
    int   *token;             /* [n_tok * experts_used]                                      */
    float *share;             /* their weights                                               */
} Routing;

/* Ranks run a long pass as two halves (microbatches), each with a team of its own. They take
 * turns: one half computes while the other's exchange is in flight. */
enum { HALVES = RANKS_WAYS };
typedef struct HalvesTurn {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             whose;
    bool            ended;    /* one half is done: the turn stays with the other */
} HalvesTurn;

/* One member's view. All members have the same values, except `team`, `scratch` and what is
 * private. */
typedef struct Run {
    const Model   *model;
    Ranks         *ranks;     /* that share this pass; NULL: this process runs it alone */
    Range          heads, kv_heads, delta_heads; /* that this rank computes */
    const Layer   *layer;     /* [n_layers]: the model's, with the context's plan (numerics.h) */
    const Mat     *lm_head;
    const Kernels *kernels;
    KvCache       *kv_cache;
    const BatchToken *token;  /* [n_tok] */
    const Span    *span;
    int            n_tok, n_spans;
    const LastRows *last;     /* NULL: all rows go through the last block */
    Act x, xn, q, k, v, att_out, y, gate, up;
    Act            q_a, q_heads, att_latent; /* of latent attention (latent.c) */
    Act            gate_att;                 /* the gate of attention's result */
    Act            pair;      /* [n_tok, 2 d_model]: what mtp_proj reads */
    Act            conv_b, conv_c, conv_x;   /* of a layer with a state (short_conv.c) */
    Act            delta_z, delta_b, delta_a; /* of the gated delta rule (delta_rule.c) */
    Act            head_in, head_out;        /* its rows of one head, this thread's */
    Act            expert_in; /* rows of xn, grouped by expert */
    Act            mix;       /* [n_tok, d_model]: one expert's output */
    Routing        routing;
    int            expert_rows; /* rows of expert_in (and gate, up with experts) */
    bool           own_rows;  /* few tokens: xn and att_out's integers are private */
    float         *exchange;  /* buffer to gather rows: exchange_floats; NULL without ranks */
    size_t         exchange_floats;
    HalvesTurn    *turn;      /* NULL: the pass is not in halves */
    int            half;
    bool           keeps_turn; /* in exchanges whose number may differ between the halves */
    RopeTable      rope[2];   /* of layers that see all positions; of those with a window */
    Use            angles;    /* of rope     */
    Use            cached;    /* of kv_cache */
    float          norm_eps, latent_norm_eps, attn_scale, attn_softcap, qkv_clip;
    float          gate_limit, gate_alpha, embed_scale, residual_scale;
    float          logit_scale, logit_softcap, renormalize_min, renormalize_add, expert_scale;
    const float   *xielu;     /* [4] of the layer whose hidden values are computed, or NULL */
    ForwardObserver observer;
    void          *observer_user;
    const char    *observed;  /* only the step of this name; NULL: all */
    AttentionRow   attention_row;
    void          *attention_user;
    size_t         first;     /* batch item of token[0] */
    Team           team;
    unsigned       met;       /* barriers of the team so far, from 1 on */
    Profile       *profile;   /* NULL: not wanted, or not this thread's */
    void          *scratch;   /* KERNEL_SCRATCH bytes, this thread's */
    void          *late_scratch; /* late_weights_room bytes, this thread's */
    const LoraSet *const *lora; /* of each sequence (NULL: none); NULL: of none */
    Importance    *importance; /* NULL: not wanted */
    Act            low;       /* [n_tok, columns]: A x of one input */
    int            low_input;
    float         *lora_scratch; /* this thread's */
    float         *attn_scratch;
    float         *delta_scratch; /* delta_scratch_floats */
    size_t         thread_bytes; /* distance between two threads' scratch */
} Run;

/* ---- The operations of forward.c, in its order and with its shapes --------------------------- */

void transformer(Run *r);                             /* forward.c: the whole pass */
void rope_angles(Run *r);
void embed(Run *r, Act *x);
/* The normed embedding x, then the normed state of the previous token. */
void make_pair(Run *r, Act *pair, Act *x, const Layer *w);
void norm(Run *r, Act *y, Act *x, NormVectors v);     /* y = norm(x); y = x if there is no norm */
void matmul(Run *r, Act *y, Act *in, const Mat *w);   /* y = W in + bias */
/* Does nothing if w is NULL, or if the model's `qk_norm_after_rope` is not `rotated`. */
void norm_heads(Run *r, Act *x, const float *w, bool rotated);
/* x from column `at` on = norm(that, w), for each token. */
void norm_part(Run *r, Act *x, int at, const float *w, float eps);
/* latent.c: each head's matrix times its part of q, and of the result of attention. */
void latent_query(Run *r, Act *q, Act *in, const Mat *w);
void latent_values(Run *r, Act *y, Act *in, const Mat *w);
void clip(Run *r, Act *x);                            /* does nothing without qkv_clip */
void rope(Run *r, Act *x, int l);                     /* if layer l rotates */
void scale_query(Run *r, Act *q, int l);              /* q *= a number that grows with pos */
void kv_put(Run *r, int l);                           /* stores k and v in the cache of layer l */
/* After the last layer's K and V, or its state, keeps only the rows of x, xn and act whose logits
 * are wanted. act is q, or the output of a layer with a state. */
void last_rows(Run *r, int l, Act *act);
void short_conv(Run *r, int l);                       /* short_conv.c: of conv_x, in conv_c */
void delta_rule(Run *r, int l);                       /* delta_rule.c: of conv_c, in delta_z */
void attention(Run *r, Act *y, int l);                /* attention.c */
/* y = y * sigmoid(gate), and changes gate, which is a product with w. */
void open_gate(Run *r, Act *y, Act *gate, const Mat *w);
void attention_probs(Run *r, int l);                  /* attention_probs.c: if they are wanted */
void add(Run *r, Act *x, Act *y, NormVectors v);      /* x += y, or x += norm(y) */
/* h = act(W_gate in) * (W_up in), or act(W_up in) in a network without a gate. */
void hidden(Run *r, Act *h, Act *in, const Layer *w); /* ffn.c */
void experts(Run *r, Act *y, Act *in, int l);         /* experts.c: sum over a token's experts */
void keep_states(Run *r, Act *xn);                    /* of the tokens that want theirs */
void head(Run *r, Act *xn);                           /* logits of the tokens that want them */
void observe(Run *r, const char *name, int l, Act *x); /* shows x as printf(name, l) */

/* ---- What they share ------------------------------------------------------------------------- */

/* Declares all that the operation will access, after a barrier if one is needed. Every member
 * calls it, even if its share is empty: touch(r, reads(x, BY_ROWS), writes(y, BY_ROWS)). */
typedef struct Touch {
    Use *use; Cut cut; bool writes;
    Act *whole;               /* is gathered first if this rank has only a part of it */
} Touch;
void touch_all(Run *r, const Touch *t, size_t n);
#define touch(r, ...) \
    touch_all(r, (const Touch[]){__VA_ARGS__}, sizeof((const Touch[]){__VA_ARGS__}) / sizeof(Touch))

/* Writing an activation invalidates its integers and its products with adapters. */
static inline Touch reads(Act *a, Cut cut)
{
    return (Touch){a->own ? NULL : &a->use, cut, false, a};
}
static inline Touch writes(Act *a, Cut cut)
{
    a->ints = INT_NONE;
    a->low  = 0;
    return (Touch){a->own ? NULL : &a->use, cut, true, a};
}
/* The same if the columns of this rank are enough; only those were written then. */
static inline Touch reads_own(Act *a, Cut cut)
{
    return (Touch){a->own ? NULL : &a->use, cut, false, NULL};
}
static inline Touch writes_own(const Run *r, Act *a, Cut cut, RankCut spread)
{
    a->ints   = INT_NONE;
    a->low    = 0;
    a->spread = r->ranks ? spread : RANK_ALL;
    return (Touch){a->own ? NULL : &a->use, cut, true, NULL};
}
static inline Touch touches(Use *u, Cut cut, bool written)
{
    return (Touch){u, cut, written, NULL};
}

/* This member's share of n things. */
static inline void my_share(const Run *r, int n, int *first, int *end)
{
    threads_share(r->team, n, first, end);
}
/* This member's share of these panels. */
static inline void my_panels_of(const Run *r, Range own, int *first, int *end)
{
    my_share(r, own.end - own.first, first, end);
    *first += own.first;
    *end += own.first;
}
/* The same for this rank's panels of w, which is not divided into several runs. */
static inline void my_panels(const Run *r, const Mat *w, int *first, int *end)
{
    my_panels_of(r, w->own.run[0], first, end);
}
/* This member's tokens: all of them (ANYWHERE) if rows are private, else its share (BY_ROWS). */
static inline Cut my_rows(const Run *r, int *first, int *end)
{
    *first = 0;
    *end   = r->n_tok;
    if (r->own_rows)
        return ANYWHERE;
    my_share(r, r->n_tok, first, end);
    return BY_ROWS;
}

/* For the profile: starts an operation. bytes: of the weights that it reads. */
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

static inline float cut_at(float x, float least, float most)
{
    return x > most ? most : x < least ? least : x; /* a NaN stays */
}

/* The number of columns in n panels from panel p on, for rows of `width`. */
static inline int columns(int p, int n, int width)
{
    return n * PANEL_ROWS < width - p * PANEL_ROWS ? n * PANEL_ROWS : width - p * PANEL_ROWS;
}

/* How many panels to multiply before the next operation on their columns. Few if there are many
 * tokens, so that the columns are still in the cache: 32 panels are 512 columns. */
static inline int piece_panels(int n_tok, int panels)
{
    return n_tok > OWN_ROWS && panels > 32 ? 32 : panels;
}

/* The output of a product: n_tok rows of data, made from the rows of the other activation from t
 * on. */
typedef struct RowSpan { float *data; size_t stride; int t, n_tok; } RowSpan;

static inline RowSpan all_rows(const Run *r, const Act *y)
{
    return (RowSpan){ y->data, y->stride, 0, r->n_tok };
}

/* y = W x + bias for panels first .. end - 1. Multiplies the integers of x if the plan says so. */
void multiply(const Run *r, RowSpan y, const Act *x, const Mat *w, int first, int end);

/* The same for the panels at `from`, without adapters. */
void multiply_panels(const Run *r, RowSpan y, const Act *x, const Mat *w, Panels from, int first,
                     int end);

/* Call before multiply: makes the integers of x that w needs, if it has none yet, and its products
 * with the adapters of w, which multiply reads. */
void prepare(Run *r, Act *x, const Mat *w);
static inline Touch reads_low(Run *r)
{
    return (Touch){ r->lora ? &r->low.use : NULL, ANYWHERE, false, NULL };
}

/* lora_pass.c: both do nothing if no sequence of the pass has an adapter of w. */
void   lora_prepare(Run *r, Act *x, const Mat *w);
void   lora_add(const Run *r, RowSpan y, const Mat *w, int first, int end);
size_t lora_scratch_bytes(void);         /* a thread's */
int    lora_columns(const LoraSet *s, int input); /* of A x */

/* Makes integers of n values of row t from column `at` on, a multiple of 256. */
void quantize(const Run *r, const Act *x, int t, int at, int n, Integers ints);

/* Panels first .. end - 1 of the hidden values h of one network. up: a buffer of the same size.
 * made: NULL, or the activation that contains h from its first row on; then also makes its
 * integers. */
void hidden_panels(const Run *r, RowSpan h, RowSpan up, const Act *in, const Mat *w_gate,
                   const Mat *w_up, int first, int end, const Act *made, Integers ints);

/* gather.c: an all-gather: each rank gets rows first .. first + n - 1 of an activation whole; ranks
 * have columns of `width`, divided as `cut` says. All of `part` in one exchange. */
typedef struct GatherPart { int first, n, width; } GatherPart;
enum { GATHER_PARTS = 2 };
void gather_parts(Run *r, Act *a, RankCut cut, const GatherPart *part, int n_parts);
void gather_act(Run *r, Act *a);         /* all rows, as a->spread says */
/* Rank 0 gets the logits of the tokens that want them. */
void gather_logits(Run *r, size_t stride);
/* Runs the pass when it is this half's turn. */
void run_half(Run *r, void (*pass)(Run *r));

/* Rows of one head that a thread multiplies at once. */
enum { HEAD_ROWS = 64 };

/* How many rows of hidden values the experts need for a call of up to max_tok tokens. */
int  expert_rows(const Config *c, int max_tok);

/* The number of queries in a unit of attention, and the floats of scratch that a thread needs
 * for it. */
int    attention_queries(const Config *c);
size_t attention_scratch_floats(const Config *c);
/* The floats of scratch of the gated delta rule: q and k of a head, and its matrix's output. */
size_t delta_scratch_floats(const Config *c);

/* ---- buffers.c ------------------------------------------------------------------------------- */

typedef struct Buffers {
    unsigned ints;               /* activations that need integers (numerics.h) */
    int      max_tok, threads;
    char    *block;
    size_t   bytes, thread_bytes;
    char    *thread_memory;      /* [threads, thread_bytes], in the block */
} Buffers;

/* Allocates buffers for max_tok tokens and points r's activations into them. False: no memory for
 * b->bytes. free(b->block). */
bool   buffers_new(Buffers *b, Run *r, unsigned ints, int max_tok, int threads);
/* Points r's activations into base, or into one thread's private part at base; base NULL: only
 * measures. Both return the bytes. */
size_t buffers_place(Buffers *b, Run *r, char *base);
size_t buffers_place_own(const Buffers *b, Run *r, char *base);

#endif
