/* api/train_text.h: a text to train on: its bytes, its vocabulary, its tokens. */
#ifndef API_TRAIN_TEXT_H
#define API_TRAIN_TEXT_H

#include "base/file.h"
#include "text/tokenizer.h"
#include "tokmake/tokmake.h"
#include "train/trainer.h"

typedef struct TrainText {
    const char    *path;
    FileMap        map;
    char           sha256[65];
    TokenizerData  made;       /* a tokenizer made from the text, and its view */
    TensorFile     made_view;
    Ids            ids;
} TrainText;

/* Opens the text of a file; t is zeroed. Fails with INPUT for a missing or empty file. */
bool train_text_open(TrainText *t, const char *path, Error *err);
void train_text_close(TrainText *t); /* accepts a zeroed one */

/* Makes a byte-level BPE tokenizer of n_ids ids from the text: t->made_view. Fails with INPUT if
 * n_ids is under 256 or more than the text has pieces for. */
bool train_text_make_vocabulary(TrainText *t, size_t n_ids, Error *err);

/* Encodes the text with the tokenizer of a file into t->ids. Fails with INPUT if an id is not
 * below vocab_size. */
bool train_text_encode(TrainText *t, const TensorFile *vocabulary, int vocab_size, Error *err);

/* Splits off that share of the tokens, from their end, for validation. Fails with INPUT if one
 * side has too few tokens for sequences of seq_len. */
bool train_text_split(const TrainText *t, double share, int seq_len, TrainData *out, Error *err);

#endif
