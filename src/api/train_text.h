/* api/train_text.h: a text to learn from: its bytes, its vocabulary, its tokens. */
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
    TokenizerData  made;       /* a tokenizer made from the text, and a view of it */
    TensorFile     made_view;
    Ids            ids;
} TrainText;

/* A zeroed one becomes the text of a file. INPUT: no such file, an empty one. */
bool train_text_open(TrainText *t, const char *path, Error *err);
void train_text_close(TrainText *t); /* a zeroed one is accepted */

/* Make a byte-level BPE tokenizer of n_ids ids from the text: t->made_view. INPUT: under 256, or more than the text has pieces for. */
bool train_text_make_vocabulary(TrainText *t, size_t n_ids, Error *err);

/* t->ids by the tokenizer of a file. INPUT: an id that is not under vocab_size. */
bool train_text_encode(TrainText *t, const TensorFile *vocabulary, int vocab_size, Error *err);

/* Hold back that share of the tokens, from their end. INPUT: too few are left on either side for sequences of seq_len. */
bool train_text_split(const TrainText *t, double share, int seq_len, TrainData *out, Error *err);

#endif
