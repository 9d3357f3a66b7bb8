/* runtime/forward.h: tokens in, logits out: the forward pass over a batch of (sequence, position, token).
 * Lives here: the block, its operations, which share of each a thread owns. Does not: files, text, the command line. */
#ifndef RUNTIME_FORWARD_H
#define RUNTIME_FORWARD_H

#include "kernels/kernels.h"
#include "model/model.h"
#include "runtime/kv_cache.h"
#include "runtime/numerics.h"
#include "runtime/profile.h"

typedef struct BatchToken {
    int     seq, pos, token;
    float  *logits;                     /* where its logits go, [vocab_size rounded up to 16]; NULL: not wanted */
} BatchToken;

/* Sees the residual stream: "embed", then of each layer "layer0.attn" (attention is added) and "layer0" (feed-forward too),
 * and "final_norm"; first is the index of the first row in the batch. */
typedef void (*ForwardObserver)(void *user, const char *name, size_t first, int n_tok, const float *x, size_t stride);

/* Where the attention probabilities of one query go: room for pos + 1 floats, for keys 0 .. pos; NULL: not wanted. item:
 * index of the query's token in the caller's batch. Called from any thread of the team, once for each layer, head and item. */
typedef float *(*AttentionRow)(void *user, int layer, int head, size_t item);

typedef struct Forward Forward;         /* buffers for up to max_tok tokens at once */

/* model must outlive it. threads >= 1: the most that are used. A call with little work takes fewer (not after
 * forward_all_threads), and so do short calls while other processes have the processors (team_size.h). */
Forward *forward_new(const Model *model, const Kernels *kernels, Numerics numerics, int max_tok, int threads, Error *err);
void     forward_free(Forward *f);      /* NULL is accepted */
void     forward_all_threads(Forward *f);
void     forward_pin_threads(Forward *f); /* to physical cores (base/threads.h: pin); before the first call */
size_t   forward_bytes(const Forward *f);

/* What forward_bytes would answer, without a model: c passed config_check, ints as numerics_ints says. And one thread's
 * part of it that attention works in, whatever the length of the sequence: states of the running softmax, no score is kept. */
size_t   forward_plan_bytes(const Config *c, unsigned ints, int max_tok, int threads);
size_t   forward_attention_bytes(const Config *c);
void     forward_observe(Forward *f, ForwardObserver observer, void *user);

/* Have attention probabilities computed beside the forward pass, whose bits do not change; NULL ends it. Keys that a window
 * masks get 0. A row is complete when forward returns. */
void     forward_watch_attention(Forward *f, AttentionRow row, void *user);

/* Add the time of every operation to *p from now on (the caller's, who keeps it); NULL ends it. */
void     forward_profile(Forward *f, Profile *p);

/* Run token[0 .. n_tok), n_tok <= max_tok, whose positions are reserved in kv and are each the next of its sequence;
 * lengths of the sequences grow. first: index of token[0] in the caller's batch (for the observer). Cannot fail. */
void forward(Forward *f, KvCache *kv, const BatchToken *token, int n_tok, size_t first);

#endif
