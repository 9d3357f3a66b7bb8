/* train/train_ops.h: the operations of training, the threads and the BLAS that they run on. */
#ifndef TRAIN_TRAIN_OPS_H
#define TRAIN_TRAIN_OPS_H

#include <stdint.h>
#include "base/error.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "model/config.h"

/* ---- blas.c ---------------------------------------------------------------------------------- */

/* Matrix products by OpenBLAS. It is loaded when training starts, so a program
 * that only runs models neither needs it nor waits for it. */

/* Arguments as in cblas_sgemm, row-major: C = alpha op(A) op(B) + beta C, op(A) [m, k], op(B)
 * [k, n]. ta and tb are CBLAS_PLAIN or CBLAS_TURNED (transposed). The calling thread computes
 * the product; several threads may call at the same time. */
enum { CBLAS_ROWS = 101, CBLAS_PLAIN = 111, CBLAS_TURNED = 112 };
typedef void (*BlasSgemm)(int order, int ta, int tb, int m, int n, int k, float alpha,
                          const float *a, int lda, const float *b, int ldb, float beta, float *c,
                          int ldc);

typedef struct Blas {
    void       *library;
    BlasSgemm   sgemm;
    const char *core;      /* kernels it chose ("SkylakeX"); "" if unknown */
} Blas;

/* Loads libopenblas.so.0, which stays loaded until the process ends. Loading starts threads of
 * OpenBLAS's own, which sleep; OPENBLAS_NUM_THREADS=1 in the environment prevents them. Fails
 * with SYSTEM if the library or a function is missing. */
bool blas_open(Blas *b, Error *err);
/* Maps the buffers for the products of `threads` threads now, while an error can still be
 * reported. Returns how many threads have one, at most `threads`. On 0 it fails with SYSTEM. */
int blas_reserve(const Blas *b, int threads, Error *err);

void blas_close(Blas *b);  /* accepts a zeroed Blas */

/* ---- crew.c ---------------------------------------------------------------------------------- */

/* The threads, kernels and BLAS that compute. Every operation here divides its work into pieces
 * whose number depends on shapes alone. One thread computes a piece, and sums over pieces are added
 * in their order, so the bits do not depend on the number of threads. They may depend on the
 * version of OpenBLAS, and on the processor for which it chose kernels. */

typedef struct Crew {
    ThreadPool    *pool;
    int            threads;
    const Kernels *k;
    Blas           blas;
    float         *scratch;        /* that of thread i: scratch + i * scratch_floats */
    size_t         scratch_floats;
    float         *partial;        /* sums of pieces, before they are added */
    size_t         partial_floats;
} Crew;

/* threads 0: one for each physical core. Fails with SYSTEM (no memory, no OpenBLAS). */
bool crew_open(Crew *c, int threads, Error *err);
void crew_close(Crew *c);           /* accepts a zeroed Crew */

/* Makes room for at least so many floats per thread, and for partial sums. Fails with SYSTEM (no
 * memory). Earlier pointers into either become invalid. */
bool crew_reserve(Crew *c, size_t scratch_floats, size_t partial_floats, Error *err);

/* Calls task(arg, i, scratch) once for each i of 0 .. n - 1, on any thread, in any order.
 * scratch belongs to the thread. */
typedef void (*CrewTask)(void *arg, int i, float *scratch);
void crew_each(const Crew *c, int n, CrewTask task, void *arg);

/* The number of pieces of at most `size` units in n units. */
static inline int pieces(size_t n, size_t size) { return (int)((n + size - 1) / size); }

/* Calls task(arg, first, n) for each such piece: n units from number `first` on. */
typedef void (*PieceTask)(void *arg, size_t first, int n);
void crew_cut(const Crew *c, size_t n, size_t size, PieceTask task, void *arg);

/* ---- train ops ------------------------------------------------------------------------------- */

/* The operations of a transformer, forward and backward, in f32. Each is one line of the paper and
 * knows nothing of layers. `d_x` is the gradient of the loss with respect
 * to x.
 *
 * Activations are row-major [n_tok, width], matrices [rows, k] with y = x W^T + b. Gradients of
 * weights are ADDED, so that micro-batches accumulate; NULL means that one is
 * not wanted. Gradients of activations are overwritten, unless a comment says that they are
 * added. Nothing here fails: the caller has reserved the crew's memory with train_ops_reserve. */

enum { ROW_PIECE = 256 };     /* tokens of a piece; OpenBLAS packs all of W for each */
enum { WEIGHT_PIECE = 96 };   /* rows of a piece of a weight's gradient */
enum { NORM_PIECE = 128 };    /* tokens of a piece of a norm */
enum { QUERY_TILE = 64 };     /* queries whose scores exist at the same time */

/* Reserves the crew's memory for operations on up to n_tok tokens (in sequences of up to
 * seq_len) of up to `width` values. Fails with SYSTEM (no memory). */
bool train_ops_reserve(Crew *c, int n_tok, int seq_len, int width, Error *err);

/* ---- linear.c -------------------------------------------------------------------------------- */

/* y [n_tok, rows] = x [n_tok, k] W^T + b; b NULL: none. */
void linear(const Crew *c, float *y, const float *x, const float *w, const float *b, int n_tok,
            int rows, int k);
/* d_x [n_tok, k] = d_y [n_tok, rows] W, or d_x += d_y W with `add`. */
void linear_backward(const Crew *c, float *d_x, const float *d_y, const float *w, int n_tok,
                     int rows, int k, bool add);
/* d_w [rows, k] += d_y^T x. d_b [rows] += sum over tokens of d_y. */
void linear_weight_backward(const Crew *c, float *d_w, float *d_b, const float *d_y, const float *x,
                            int n_tok, int rows, int k);

/* ---- norm_grad.c ----------------------------------------------------------------------------- */

/* The parameters of a norm of n values, or their gradients. w NULL: no norm. b NULL: no bias. */
typedef struct NormParams { Norm kind; float *w, *b, eps; int n; } NormParams;

/* y = norm(x) for each row. RMSNorm (Zhang and Sennrich 2019): x / sqrt(mean x^2 + eps) * w.
 * LayerNorm (Ba et al. 2016): (x - mean) / sqrt(var + eps) * w + b. y may be x. */
void norm_forward(const Crew *c, float *y, const float *x, const NormParams *p, int n_tok);
/* Adds to d_x, d->w and d->b. x is the input of the norm. d_x may not be d_y. */
void norm_backward_rows(const Crew *c, float *d_x, const NormParams *d, const float *x,
                        const NormParams *p, const float *d_y, int n_tok);

/* Two fused operations. They compute the bits of the operations that they replace, but add and norm
 * a row while it is in the first cache.
 *   residual_norm_forward: sum = x + y * scale, xn = norm(sum); like residual_add,
 *     then norm_forward. sum may be x or y.
 *   residual_norm_backward: d_x += gradient of the norm, d_y = d_x * scale; like
 *     norm_backward_rows, then a scaled copy. On entry d_x is the gradient of sum along the
 *     residual stream. */
void residual_norm_forward(const Crew *c, float *sum, float *xn, const float *x, const float *y,
                           float scale, const NormParams *p, int n_tok);
void residual_norm_backward(const Crew *c, float *d_x, float *d_y, const NormParams *d,
                            const float *sum, const NormParams *p, const float *d_xn, float scale,
                            int n_tok);

/* ---- rope_grad.c ----------------------------------------------------------------------------- */

/* Rotary embedding (Su et al. 2021) of the first `rot` dimensions of each head, in pairs (i, i +
 * rot/2). cosine and the others are [seq_len, rot / 2]. */
typedef struct RopeAngles { int seq_len, rot; float *cosine, *sine, *minus_sine; } RopeAngles;
bool rope_angles_make(RopeAngles *a, int seq_len, int rot, const double *inv_freq, double factor,
                      Error *err);
void rope_angles_free(RopeAngles *a); /* accepts a zeroed one */
/* Rotates x [n_tok, heads, head_dim] in place. Token t has position t % seq_len. inverse rotates
 * by the negative angles: this is the gradient, because the transpose of a rotation is its
 * inverse. */
void rope_rotate(const Crew *c, float *x, const RopeAngles *a, int n_tok, int heads, int head_dim,
                 bool inverse);

/* ---- attention_grad.c ------------------------------------------------------------------------ */

/* y = softmax(q k^T scale + mask) v for n_seqs sequences of seq_len; each KV head serves heads /
 * kv_heads heads. The seq_len x seq_len matrix never exists as a whole: scores exist for 64
 * queries of a head at a time. The backward pass computes them again from each row's largest
 * score and sum (Dao et al. 2022, FlashAttention, algorithm 4). */
typedef struct AttentionShape {
    int   n_seqs, seq_len, heads, kv_heads, head_dim;
    int   window;          /* positions a query sees, with its own; 0: all */
    bool  causal;
    float scale;
} AttentionShape;
/* y [n_tok, heads * head_dim]. stats [n_seqs, heads, seq_len, 2] receives each row's largest
 * score and sum, for the backward pass. probs is NULL or receives the probabilities [n_seqs,
 * heads, seq_len, seq_len]. */
void attention_forward(const Crew *c, float *y, float *stats, float *probs, const float *q,
                       const float *k, const float *v, const AttentionShape *s);
/* Overwrites d_q, d_k and d_v. y and stats are what attention_forward computed. */
void attention_backward(const Crew *c, float *d_q, float *d_k, float *d_v, const float *q,
                        const float *k, const float *v, const float *y, const float *stats,
                        const float *d_y, const AttentionShape *s);

/* ---- ffn_grad.c ------------------------------------------------------------------------------ */

/* h = act(gate) * up, or act(up) if the kind has no gate (gate NULL). All have n elements. */
void activation_forward(const Crew *c, float *h, const float *gate, const float *up, FfnKind kind,
                        size_t n);
/* Computes h again. Overwrites gate with d_gate and up with d_up. */
void activation_backward(const Crew *c, float *h, float *gate, float *up, const float *d_h,
                         FfnKind kind, size_t n);

/* ---- embed_grad.c ---------------------------------------------------------------------------- */

/* x [n_tok, d] = table[token] * scale, and d_table[token] += d_x * scale. */
void embed_forward(const Crew *c, float *x, const float *table, const int32_t *token, int n_tok,
                   int d, float scale);
void embed_backward(const Crew *c, float *d_table, const int32_t *token, const float *d_x,
                    int n_tok, int d, float scale);

/* ---- residual.c ------------------------------------------------------------------------------ */

/* out = x + y * scale; out may be x or y. */
void residual_add(const Crew *c, float *out, const float *x, const float *y, float scale, size_t n);
/* x *= m. */
void scale_all(const Crew *c, float *x, float m, size_t n);

/* Dropout (Srivastava et al. 2014): x = 0 with probability p, else x / (1 - p). Philox4x32-10
 * decides from (seed, step, site, element number) alone, so the backward pass repeats the mask
 * and nothing is stored. x holds elements first .. first + n - 1 of the batch. */
typedef struct DropoutKey { float p; uint64_t seed; uint32_t step, site; } DropoutKey;
void dropout(const Crew *c, float *x, const DropoutKey *k, uint64_t first, size_t n);

/* ---- cross_entropy.c ------------------------------------------------------------------------- */

/* The head and the loss: logits = x W^T * logit_scale, loss = mean over tokens of -log
 * softmax(logits)[target]. Tokens whose target is IGNORE_TARGET do not count. The logits exist
 * for some tokens at a time. */
enum { IGNORE_TARGET = -1 };
typedef struct HeadShape { int n_tok, vocab, d; float logit_scale; } HeadShape;

/* How many tokens have logits at the same time: [head_tokens(vocab), vocab] is at most 16 MB,
 * but at least 32 tokens. */
int head_tokens(int vocab);

/* Writes loss_of[t] = -log p of each token's target, 0 if it is ignored. With d_x it also
 * computes the gradients of sum(loss_of) * weight: it overwrites d_x [n_tok, d] and adds to d_w
 * [vocab, d]. If d_x is NULL, d_w is not touched. logits has room for [head_tokens, vocab]. */
void head_loss(const Crew *c, double *loss_of, float *d_x, float *d_w, const float *x,
               const float *w, const int32_t *target, float weight, float *logits,
               const HeadShape *s);

#endif
