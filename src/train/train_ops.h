/* train/train_ops.h: the operations of a transformer, forward and backward, in f32. Each stands for one line of the paper and knows
 * nothing of layers; a gradient `d_x` is that of the loss by x.
 *
 * Activations are row-major [n_tok, width], one row after the other; matrices [rows, k], y = x W^T + b. Gradients of weights are
 * ADDED to what is there (accumulation over micro-batches); pass NULL where one is not wanted. Gradients of activations are
 * written, or added where it says so. Nothing here fails: whoever calls reserved the crew's memory (train_ops_reserve). */
#ifndef TRAIN_TRAIN_OPS_H
#define TRAIN_TRAIN_OPS_H

#include <stdint.h>

#include "model/config.h"
#include "train/crew.h"

enum { ROW_PIECE = 256 };     /* tokens of a piece: OpenBLAS packs the whole matrix for each                       */
enum { WEIGHT_PIECE = 96 };   /* rows of a piece of a weight's gradient                                            */
enum { NORM_PIECE = 128 };    /* tokens of a piece of a norm's                                                     */
enum { QUERY_TILE = 64 };     /* queries whose scores exist at once                                                */

/* Room in the crew for operations on up to n_tok tokens (sequences of up to seq_len) of width up to `width`. */
bool train_ops_reserve(Crew *c, int n_tok, int seq_len, int width, Error *err);

/* ---- linear.c ---- */

/* y [n_tok, rows] = x [n_tok, k] W^T + b; b NULL: none. */
void linear(const Crew *c, float *y, const float *x, const float *w, const float *b, int n_tok, int rows, int k);
/* d_x = d_y W, or d_x += d_y W with `add`. */
void linear_backward(const Crew *c, float *d_x, const float *d_y, const float *w, int n_tok, int rows, int k, bool add);
/* d_w [rows, k] += d_y^T x; d_b [rows] += sum over tokens of d_y. */
void linear_weight_backward(const Crew *c, float *d_w, float *d_b, const float *d_y, const float *x, int n_tok, int rows, int k);

/* ---- norm_grad.c ---- */

typedef struct NormParams { Norm kind; float *w, *b, eps; int n; } NormParams; /* or their gradients; w NULL: no norm; b NULL: none */

/* y = norm(x) of each row: RMSNorm (Zhang and Sennrich 2019) x / sqrt(mean x^2 + eps) * w, LayerNorm (Ba et al. 2016)
 * (x - mean) / sqrt(var + eps) * w + b. y may be x. */
void norm_forward(const Crew *c, float *y, const float *x, const NormParams *p, int n_tok);
/* d_x += ..., d->w += ..., d->b += ...; x: what the norm was given. d_x may not be d_y. */
void norm_backward_rows(const Crew *c, float *d_x, const NormParams *d, const float *x, const NormParams *p, const float *d_y,
                        int n_tok);

/* Two fused operations with the bits of those they stand for: each row is added up and normed while it lies in the first cache.
 *   sum = x + y * scale, xn = norm(sum)        residual_add, norm_forward; sum may be x or y
 *   d_x += what norm gives back of d_xn, d_y = d_x * scale   norm_backward_rows, then a scaled copy; d_x: on entry the gradient
 *                                              that sum has along the residual stream */
void residual_norm_forward(const Crew *c, float *sum, float *xn, const float *x, const float *y, float scale, const NormParams *p,
                           int n_tok);
void residual_norm_backward(const Crew *c, float *d_x, float *d_y, const NormParams *d, const float *sum, const NormParams *p,
                            const float *d_xn, float scale, int n_tok);

/* ---- rope_grad.c ---- */

/* Rotary embedding (Su et al. 2021) of the first `rot` dimensions of each head, pairs (i, i + rot/2). */
typedef struct RopeAngles { int seq_len, rot; float *cosine, *sine, *minus_sine; } RopeAngles; /* [seq_len, rot / 2] each */
bool rope_angles_make(RopeAngles *a, int seq_len, int rot, const double *inv_freq, double factor, Error *err);
void rope_angles_free(RopeAngles *a); /* a zeroed one is accepted */
/* Rotate x [n_tok, heads, head_dim] in place; token t has position t % seq_len. inverse: by the negative angles, which
 * is the gradient, as a rotation's transpose is its inverse. */
void rope_rotate(const Crew *c, float *x, const RopeAngles *a, int n_tok, int heads, int head_dim, bool inverse);

/* ---- attention_grad.c ---- */

/* y = softmax(q k^T scale + mask) v for n_seqs sequences of seq_len, every KV head serving heads / kv_heads heads. The L x L
 * matrix is never whole: scores exist for 64 queries of a head at a time, and the backward pass makes them anew from the
 * row's largest score and sum (Dao et al. 2022, FlashAttention, algorithm 4). */
typedef struct AttentionShape {
    int   n_seqs, seq_len, heads, kv_heads, head_dim;
    int   window;          /* positions a query sees, itself included; 0: all */
    bool  causal;
    float scale;
} AttentionShape;
/* y [n_tok, heads * head_dim]; stats [n_seqs, heads, seq_len, 2]: largest score and sum, for the backward pass. probs: NULL, or
 * [n_seqs, heads, seq_len, seq_len] that gets the probabilities. */
void attention_forward(const Crew *c, float *y, float *stats, float *probs, const float *q, const float *k, const float *v,
                       const AttentionShape *s);
/* d_q, d_k, d_v are written; y: what attention_forward gave. */
void attention_backward(const Crew *c, float *d_q, float *d_k, float *d_v, const float *q, const float *k, const float *v,
                        const float *y, const float *stats, const float *d_y, const AttentionShape *s);

/* ---- ffn_grad.c ---- */

/* h = act(gate) * up, or act(up) where the kind has no gate (gate NULL): [n_tok, d_ff]. */
void activation_forward(const Crew *c, float *h, const float *gate, const float *up, FfnKind kind, size_t n);
/* h is made anew; gate and up become d_gate and d_up, from d_h. */
void activation_backward(const Crew *c, float *h, float *gate, float *up, const float *d_h, FfnKind kind, size_t n);

/* ---- embed_grad.c ---- */

/* x [n_tok, d] = table[token] * scale; and d_table[token] += d_x * scale. */
void embed_forward(const Crew *c, float *x, const float *table, const int32_t *token, int n_tok, int d, float scale);
void embed_backward(const Crew *c, float *d_table, const int32_t *token, const float *d_x, int n_tok, int d, float scale);

/* ---- residual.c ---- */

void residual_add(const Crew *c, float *out, const float *x, const float *y, float scale, size_t n); /* out = x + y * scale; out may be either */
void scale_all(const Crew *c, float *x, float m, size_t n);

/* Dropout (Srivastava et al. 2014): x = 0 with probability p, else x / (1 - p). Which elements is a function of (seed, step,
 * site, their number) alone, by Philox4x32-10: the backward pass makes the same mask, and nothing is stored. */
typedef struct DropoutKey { float p; uint64_t seed; uint32_t step, site; } DropoutKey;
void dropout(const Crew *c, float *x, const DropoutKey *k, uint64_t first, size_t n); /* elements first .. first + n - 1 */

/* ---- cross_entropy.c ---- */

/* The head and the loss: logits = x W^T * logit_scale, loss = mean over tokens of -log softmax(logits)[target]; tokens whose
 * target is IGNORE_TARGET do not count. The logits exist for some tokens at a time. */
enum { IGNORE_TARGET = -1 };
typedef struct HeadShape { int n_tok, vocab, d; float logit_scale; } HeadShape;

/* Tokens whose logits exist at once: [head_tokens(vocab), vocab] is at most 16 MB, but at least 32. */
int head_tokens(int vocab);

/* Writes loss_of[t] = -log p of each token's target, 0 where it is ignored. With d_x: also the gradients of sum(loss_of) *
 * weight: d_x [n_tok, d] is written, d_w [vocab, d] added to (NULL: neither). logits: room for [head_tokens, vocab]. */
void head_loss(const Crew *c, double *loss_of, float *d_x, float *d_w, const float *x, const float *w, const int32_t *target,
               float weight, float *logits, const HeadShape *s);

#endif
