/* train/net.h: a whole model on whole sequences: loss and gradients. */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include "train/params.h"

typedef struct Net Net;

/* Activations for up to n_seqs sequences of seq_len tokens at a time. params and crew must outlive it. SYSTEM: no memory. */
Net   *net_new(const Params *p, Crew *crew, int n_seqs, int seq_len, Error *err);
/* Before anything is allocated: do such activations and n_arrays arrays of the parameters fit into this machine's memory? SYSTEM. */
bool   net_fits(const Params *p, int n_arrays, int n_seqs, int seq_len, Error *err);
void   net_free(Net *n);            /* NULL is accepted */
size_t net_bytes(const Net *n);     /* of activations and room to work in */

/* What a batch, or a part of one, is made of. */
typedef struct NetBatch {
    const int32_t *token;           /* [n_seqs, seq_len], each 0 .. vocab_size - 1               */
    const int32_t *target;          /* the same; IGNORE_TARGET: does not count                   */
    int            n_seqs;
    uint64_t       first_seq;       /* of the whole batch, for dropout                            */
    DropoutKey     drop;            /* p 0: none; site is set here                                */
} NetBatch;

/* The sum of -log p(target) over the tokens that count. With grads: also adds the gradients of that sum * weight. w: parameters.
 * Parts of a batch give the gradient of its mean with weight = 1 / (its targets). */
double net_loss(Net *n, const float *w, float *grads, const NetBatch *b, float weight);

/* Logits [n_seqs * seq_len, vocab_size] of the forward pass, as inference computes them: for tests. */
void net_logits(Net *n, const float *w, const int32_t *token, int n_seqs, float *logits);

#endif
