/* api/train_open.h: what grad_api.c and train_api.c share: how a model becomes parameters, how a
 * batch is cut. */
#ifndef API_TRAIN_OPEN_H
#define API_TRAIN_OPEN_H

#include "source/source.h"
#include "tblock_tools.h"
#include "train/net.h"

/* Are these numbers that AdamW can work with? Fails with USAGE, naming the one that is not. */
bool adamw_check(const tblock_adamw *a, Error *err);

/* Reads the config of a file, or with path NULL the default one of train. vocab: the size of
 * another vocabulary, which replaces vocab_size (its bos and eos are unknown); 0: keep
 * vocab_size. Checks that training implements it. */
bool train_config(Config *c, const char *path, int vocab, Error *err);

/* How many of n_seqs sequences to compute at once: about 2,048 tokens, so that activations stay
 * small and in the cache. It depends on shapes alone, because another cut of a batch rounds its
 * sums differently. */
int micro_batch(int n_seqs, int seq_len);

/* The name of a parameter in its source: in a Hugging Face folder the checkpoint's, unless
 * several of our tensors are cut from that one (fused matrices). Otherwise our own name. */
const char *tensor_source_name(const Source *s, const Params *p, int tensor);

#endif
