/* text/bpe_train.h: makes a byte-level BPE vocabulary from a text. Source: Sennrich et al. 2016, "Neural machine translation of
 * rare words with subword units"; ties as in tokenizers (models/bpe/trainer.rs), so that both find the same merges. */
#ifndef TEXT_BPE_TRAIN_H
#define TEXT_BPE_TRAIN_H

#include <stdint.h>

#include "base/error.h"

/* Ids 0 .. 255 are the bytes; the following are pieces in the order in which merges first make them. A merge may make a piece that
 * is there already ("a" + "bc" after "ab" + "c"): it then has that piece's id. */
typedef struct BpeMerge { int32_t left, right, merged; } BpeMerge;

/* The merges of a text that is cut into words by the steps `pretokenize` (JSON, docs/format.md) until there are n_ids ids: again and
 * again the pair of neighbours that occurs most often in words; of several the one with the lowest left id, then the lowest
 * right one. *merges [*n_merges] is the caller's to free; *n_found ids may be less than n_ids: every word is one piece then. Words
 * count for their first 256 bytes. Memory grows with the number of different words. Errors: INPUT (pretokenize, a pattern
 * that runs away), SYSTEM. */
bool bpe_train(const char *text, size_t n_bytes, const char *pretokenize, size_t n_ids, BpeMerge **merges, size_t *n_merges,
               size_t *n_found, Error *err);

#endif
