/* api/train_open.h: what grad_api.c and train_api.c share: how a model becomes parameters, how a batch is cut. */
#ifndef API_TRAIN_OPEN_H
#define API_TRAIN_OPEN_H

#include "source/source.h"
#include "tblock_tools.h"
#include "train/params.h"

/* Numbers that AdamW can work with? USAGE, naming the one that is not. */
bool adamw_check(const tblock_adamw *a, Error *err);

/* The config of a file, or (path NULL) the one that train has of its own; vocab: another vocabulary's size
 * instead of its vocab_size (bos and eos are of none then), 0: that one. Checked, and one
 * that training implements. */
bool train_config(Config *c, const char *path, int vocab, Error *err);

/* How many of n_seqs sequences are computed at once: about 2,048 tokens, so that activations stay small and near the processor. Depends on
 * shapes alone, as sums over parts of a batch are rounded differently. */
int micro_batch(int n_seqs, int seq_len);

/* The name that a parameter has where it comes from: in a Hugging Face folder the checkpoint's, unless several of ours are cut from that
 * tensor (fused matrices); else ours. */
const char *tensor_source_name(const Source *s, const Params *p, int tensor);

#endif
