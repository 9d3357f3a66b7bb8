/* kernels/kernels.h: the arithmetic, one table of functions per instruction set, all giving the
 * same bits.
 *
 * docs/numerics.md defines every result by a short scalar loop; kernels/lanes/ holds one 16-lane
 * vector type per instruction set, and bodies written once over it. Lanes are rows (outputs), never
 * parts of one sum, except in the "16-lane sums" whose shape is part of the definition. No kernel
 * knows a model, a thread or a file.
 *
 * All float arrays are f32. "aligned" is 64 bytes. Row strides of activations are multiples of 16
 * floats, rows are aligned, and kernels may WRITE the padding up to that multiple but results never
 * depend on what it holds. Weights, KV and scratch are aligned; K and V data is read exactly (no
 * padding beyond what is said). Vectors given with a length n may have any alignment and are read
 * and written exactly. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "base/error.h"
#include "base/cpu.h"
#include "quant/quant.h"

enum {
    LANES    = 16,
    K_CHUNK  = 256,              /* chunk of a matmul's sum                                */
    KV_TILE  = 64,               /* positions of an attention tile, at absolute boundaries */
    ATTN_MAX_Q = 64,             /* queries that share a tile in one call, or a whole group */
};

typedef enum KvType { KV_F32, KV_F16, KV_Q8, KV_COUNT } KvType;

/* y[t][0 .. 16*n_panels) = bias + W x[t] for t in 0 .. n_tok. Definition "matmul, float weights";
 * quantized weights are dequantized first (--math f32). */
typedef struct MatmulArgs {
    float       *y;              /* [n_tok, y_stride], aligned                              */
    size_t       y_stride;
    const float *x;              /* [n_tok, x_stride], aligned                              */
    size_t       x_stride;
    Panels       w;              /* n_panels consecutive panels of the kernel's weight type */
    int          n_panels, k, n_tok;
    const float *bias;           /* [16*n_panels] or NULL                                   */
    void        *scratch;        /* KERNEL_SCRATCH bytes, aligned, one for each thread      */
} MatmulArgs;

enum { KERNEL_SCRATCH = 512 * 1024 };

/* The same for quantized weights and activations as integers (Kernels.quantize). Definition
 * "Weights q8 and q4". */
typedef struct IntMatmulArgs {
    float         *y;            /* [n_tok, y_stride], aligned                              */
    size_t         y_stride;
    const int16_t *q;            /* [n_tok, q_stride], rows aligned, 0 from k to k rounded up to
                                  * 64 */
    size_t         q_stride;
    const float   *d;            /* [n_tok, d_stride]: the scale of each int_each(ints)    */
    size_t         d_stride;
    Integers       ints;         /* INT8_BY_32: of q8 and types with a scale for each 32    */
    Panels         w;
    int            n_panels, k, n_tok;
    const float   *bias;         /* [16*n_panels] or NULL                                   */
    void          *scratch;      /* KERNEL_SCRATCH bytes, aligned, one for each thread      */
} IntMatmulArgs;

/* One query against one tile of 64 positions of one KV head: writes the partial state of the
 * definition "attention". */
typedef struct AttnQuery {
    const float *q;              /* [head_dim], aligned                                     */
    int          first, end;     /* visible positions inside the tile, 0 <= first < end <= 64 */
    float       *part;           /* attn_state_floats(head_dim) floats, aligned: [0] m, [1] l, [16
                                  * ..] o; if l is NaN, m may be any number (the result is NaN) */
} AttnQuery;

typedef struct AttnTile {
    const void  *k;              /* [4][head_dim][16] of the KV type: position t of the tile is lane
                                  * t%16 of group t/16; NULL: K is V, and `wide` is set */
    const void  *v;              /* [64][v_stride] of the KV type; v_stride = head_dim rounded up to
                                  * 16 */
    const float *k_scale, *v_scale; /* KV_Q8: [64] each, aligned: the factor of a position's
                                     * codes; else NULL */
    const void  *next_k;         /* of the next tile, prefetched meanwhile; NULL: unknown */
    const float *next_scale;     /* its k_scale */
    float       *wide;           /* room for K, then V, as f32 (attn_wide_floats), aligned; NULL:
                                  * none */
    int          head_dim;
    float        scale, soft_cap; /* soft_cap 0: none                                       */
    int          n_q;
    const AttnQuery *q;
} AttnTile;

/* A short convolution of n channels, of n_tok tokens: the sum of token t is shift or +0, then
 * fmaf(w[i * taps + j], u[t + j][i], that), j ascending. y [n_tok, n] becomes y times the sum, or
 * SiLU of the sum. */
enum { MOST_TAPS = 64 };
typedef struct ConvArgs {
    float       *y;
    size_t       y_stride;
    const float *const *u;       /* [n_tok + taps - 1], each [n]                            */
    const float *w, *shift;      /* [n, taps]; [n] or NULL                                  */
    int          taps, n_tok, n;
    bool         silu;
} ConvArgs;

/* Tokens of one value head of the gated delta rule: changes the state and writes o. */
enum { DELTA_COLUMNS = 32 };
typedef struct DeltaSpan {
    float       *state;          /* [n_k, n_v]                                              */
    float       *o;              /* [n_tok, n_v]                                            */
    const float *q, *k;          /* [n_tok, n_k], normed                                    */
    const float *v;              /* [n_tok, v_stride]                                       */
    size_t       v_stride;
    const float *decay, *beta;   /* [n_tok]                                                 */
    float       *room;           /* [n_k, DELTA_COLUMNS]; of one token NULL                 */
    int          n_tok, n_k, n_v;
} DeltaSpan;

static inline size_t attn_state_floats(int head_dim)
{
    return 16 + ((size_t)head_dim + 15) / 16 * 16;
}
static inline size_t attn_wide_floats(int head_dim)
{
    return KV_TILE * (((size_t)head_dim + 15) / 16 * 16);
}

/* One step of AdamW (Loshchilov and Hutter 2019, algorithm 2): m = beta1 m + (1 - beta1) g, v =
 * beta2 v + (1 - beta2) g^2, w = keep w - step m / (root sqrt(v) + eps), with g the gradient times
 * grad_scale. keep = 1 - lr * decay, step = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t). */
typedef struct AdamwStep { float beta1, beta2, eps, grad_scale, keep, step, root; } AdamwStep;

typedef struct Kernels {
    Isa         id;
    /* its name: "scalar", "avx2" ... */
    const char *isa;
    void (*matmul[WT_COUNT])(const MatmulArgs *a);
    /* NULL for float types */
    void (*matmul_int[WT_COUNT])(const IntMatmulArgs *a);
    /* bf16 weights, --math bf16: x is rounded inside */
    void (*matmul_bf16)(const MatmulArgs *a);
    /* n floats to integers and their scales; q is 0 up to n rounded up to 64. */
    void (*quantize)(int16_t *q, float *d, const float *x, int n, Integers ints);
    void (*attn_tile[KV_COUNT])(const AttnTile *a);
    /* state = merge(state, part), ascending tiles */
    void (*attn_merge)(float *state, const float *part, int head_dim);
    /* y[d] = o[d] * (1 / l) */
    void (*attn_end)(float *y, const float *state, int head_dim);
    /* y may be x */
    void (*rms_norm)(float *y, const float *x, const float *w, int n, float eps);
    /* the same; b may be NULL */
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, int n, float eps);
    /* x = x + y */
    void (*add)(float *x, const float *y, int n);
    /* x = x + y * m, rounded twice */
    void (*add_scaled)(float *x, const float *y, float m, int n);
    /* y = fmaf(p, f, y) */
    void (*add_weighted)(float *y, const float *f, float p, int n);
    /* x = x * m */
    void (*scale)(float *x, float m, int n);
    /* x = cap * tanh(x / cap) */
    void (*soft_cap)(float *x, float cap, int n);
    /* h = SiLU(gate) * up; h may be gate or up */
    void (*swiglu)(float *h, const float *gate, const float *up, int n);
    /* the same with GELU, tanh form */
    void (*geglu)(float *h, const float *gate, const float *up, int n);
    void (*geglu_erf)(float *h, const float *gate, const float *up, int n);
    /* Rotate n_heads consecutive heads of head_dim floats, in place: pairs (i, i + rot/2), i <
     * rot/2. */
    void (*rope)(float *x, int n_heads, int head_dim, int rot, const float *cosine,
                 const float *sine);
    void (*exp)(float *y, const float *x, int n);                 /* y may be x, in these six */
    void (*sigmoid)(float *y, const float *x, int n);
    void (*gelu)(float *y, const float *x, int n);                /* erf form  */
    void (*gelu_tanh)(float *y, const float *x, int n);
    void (*relu)(float *y, const float *x, int n);                /* x < 0 ? +0 : x */
    void (*relu2)(float *y, const float *x, int n);               /* relu(x) * relu(x) */
    /* y may be x; v [4]: p, n, beta, eps of docs/numerics.md */
    void (*xielu)(float *y, const float *x, const float *v, int n);
    void (*short_conv)(const ConvArgs *a);
    /* y = exp(rate * softplus(a + dt)); y may be a */
    void (*delta_decay)(float *y, const float *a, const float *dt, const float *rate, int n);
    void (*delta_rule)(const DeltaSpan *a);
    /* in place; definition "other softmax" */
    void (*softmax)(float *x, int n);
    void (*f32_to_f16)(uint16_t *y, const float *x, int n);
    void (*f16_to_f32)(float *y, const uint16_t *x, int n);
    /* KV_Q8: a position of one head; returns its scale */
    float (*f32_to_q8)(int8_t *code, const float *x, int n);
    /* For training. h = act(gate) * up (or act(x)); gate and up (x) are overwritten with their
     * gradients; d_h is that of h. */
    void (*swiglu_backward)(float *h, float *gate, float *up, const float *d_h, int n);
    void (*geglu_backward)(float *h, float *gate, float *up, const float *d_h, int n);
    void (*geglu_erf_backward)(float *h, float *gate, float *up, const float *d_h, int n);
    void (*gelu_backward)(float *h, float *x, const float *d_h, int n);
    void (*gelu_tanh_backward)(float *h, float *x, const float *d_h, int n);
    void (*relu_backward)(float *h, float *x, const float *d_h, int n);
    void (*relu2_backward)(float *h, float *x, const float *d_h, int n);
    /* x, w and d_y [n] of one row; gradients are added to d_x, d_w, d_b, of which the last two may
     * be NULL. */
    void (*rms_norm_backward)(float *d_x, float *d_w, const float *x, const float *w,
                              const float *d_y, int n, float eps);
    void (*layer_norm_backward)(float *d_x, float *d_w, float *d_b, const float *x, const float *w,
                                const float *d_y, int n, float eps);
    /* 16-lane sum */
    float (*dot)(const float *x, const float *y, int n);
    /* x = softmax(x * scale), in place; *m is the largest x * scale, *l the sum of exp(x * scale -
     * m). */
    void (*softmax_scaled)(float *x, float scale, int n, float *m, float *l);
    /* x = exp(x * scale - m) / l */
    void (*softmax_again)(float *x, float scale, float m, float l, int n);
    /* d_s = p * (d_s - sum) * scale */
    void (*softmax_backward)(float *d_s, const float *p, float sum, float scale, int n);
    void (*adamw)(float *w, float *m, float *v, const float *g, int n, const AdamwStep *s);
} Kernels;

/* The best table that this CPU runs, or the one named (NULL and "auto": best). Fails with USAGE,
 * listing those that work, if the CPU or this build lacks the ISA. The table is constant and is
 * never freed. */
const Kernels *kernels_select(const char *isa, Error *err);

/* Number i (0 ..) of the tables that this CPU can run, scalar first; NULL past the last. For
 * tests. */
const Kernels *kernels_table(int i);

/* Scalar exp of the definition, for the sampler: the same bits as Kernels.exp. */
float kernels_expf(float x);

#endif
