/* train/net.h: a whole model on whole sequences: loss and gradients. Model files and the text
 * belong to the caller; the optimizer is optimizer.h. */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include "train/params.h"

typedef struct Net Net;

/* Allocates activations for up to n_seqs sequences of seq_len tokens at a time. p and crew must
 * outlive the net. Free with net_free. Returns NULL with SYSTEM (no memory). */
Net   *net_new(const Params *p, Crew *crew, int n_seqs, int seq_len, Error *err);
/* Call before allocating: do these activations and n_arrays arrays of parameters fit into this
 * machine's memory? Fails with SYSTEM if not. */
bool   net_fits(const Params *p, int n_arrays, int n_seqs, int seq_len, Error *err);
void   net_free(Net *n);            /* accepts NULL */
size_t net_bytes(const Net *n);     /* of activations and work space */

/* A batch, or a part of one. */
typedef struct NetBatch {
    const int32_t *token;           /* [n_seqs, seq_len], each 0 .. vocab_size - 1               */
    const int32_t *target;          /* [n_seqs, seq_len]; IGNORE_TARGET: does not count */
    int            n_seqs;
    uint64_t       first_seq;       /* number in the whole batch, for dropout */
    DropoutKey     drop;            /* p 0: none; net_loss sets site */
} NetBatch;

/* The sum of -log p(target) over the tokens that count. If grads is not NULL, adds the gradients
 * of that sum times weight. w: parameters. For the gradient of a batch's mean, pass each of its
 * parts with weight = 1 / (targets of the batch). */
double net_loss(Net *n, const float *w, float *grads, const NetBatch *b, float weight);

/* Logits [n_seqs * seq_len, vocab_size] of the forward pass. Tests compare them with inference. */
void net_logits(Net *n, const float *w, const int32_t *token, int n_seqs, float *logits);

#endif
