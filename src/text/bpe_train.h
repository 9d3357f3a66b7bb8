/* text/bpe_train.h: makes a byte-level BPE vocabulary from a text. Source: Sennrich et al. 2016,
 * "Neural machine translation of rare words with subword units". Ties are broken as in tokenizers
 * (models/bpe/trainer.rs), so that both find the same merges. */
#ifndef TEXT_BPE_TRAIN_H
#define TEXT_BPE_TRAIN_H

#include <stdint.h>

#include "base/error.h"

/* Ids 0 .. 255 are the bytes. The following ids are pieces, in the order in which merges first make
 * them. A merge may make a piece that exists already ("a" + "bc" after "ab" + "c"); it then gets
 * that piece's id. */
typedef struct BpeMerge { int32_t left, right, merged; } BpeMerge;

/* Find merges until there are n_ids ids. The text is cut into words by the steps `pretokenize`
 * (JSON, docs/format.md). Each merge joins the pair of neighbours that occurs most often inside
 * words; ties go to the lowest left id, then to the lowest right id. The caller frees *merges
 * [*n_merges]. *n_found is less than n_ids if every word has become one piece. Only the first 256
 * bytes of a word count. Memory grows with the number of different words. Errors: INPUT
 * (pretokenize, a pattern that runs away), SYSTEM. */
bool bpe_train(const char *text, size_t n_bytes, const char *pretokenize, size_t n_ids, BpeMerge **merges, size_t *n_merges,
               size_t *n_found, Error *err);

#endif
