/* api/training.h: the inputs of training: files, text. */
#ifndef API_TRAINING_H
#define API_TRAINING_H

#include "base/file.h"
#include "source/source.h"
#include "tblock_tools.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokmake.h"
#include "train/net.h"
#include "train/trainer.h"

/* ---- train_open.c ---------------------------------------------------------------------------- */

/* What grad_api.c and train_api.c share: how a model becomes parameters, how a batch is split. */

/* Are these numbers valid for AdamW? Fails with USAGE, naming the one that is not. */
bool adamw_check(const tblock_adamw *a, Error *err);

/* Reads the config of a file, or with path NULL the default one of train. vocab: the size of
 * another vocabulary, which replaces vocab_size (its bos and eos are unknown); 0: keep vocab_size.
 * Fails if training does not support it. */
bool train_config(Config *c, const char *path, int vocab, Error *err);

/* How many of n_seqs sequences to compute at once: about 2,048 tokens, so that activations stay
 * small and in the cache. Depends on shapes alone, because another split of a batch rounds its sums
 * differently. */
int micro_batch(int n_seqs, int seq_len);

/* Parameters have the names and the row order of their source. Returns the tensor of the source (a
 * Hugging Face folder's, else our own) that parameter i is cut from, and its number of rows. NULL:
 * it is the tensor of a parameter before i (fused matrices). */
const char *source_tensor(const Source *s, const Params *p, int i, int64_t *rows);

/* Writes that tensor as number `out` of w, with its rows in the source's order, from an array of
 * all parameters. i: one for which source_tensor returns a name. */
bool source_tensor_put(const Source *s, const Params *p, int i, TensorWriter *w, int out,
                       const float *array, Error *err);

/* ---- train_lora.c ---------------------------------------------------------------------------- */

/* Reads the options of an adapter; rank 0: none. alpha 0: the rank. names: "q,v" ...; NULL: these
 * two. Fails with USAGE. */
bool lora_plan_read(LoraPlan *out, int rank, double alpha, const char *names, Error *err);

/* The names of the matrices that it changes, in a fixed order: "q,v". */
enum { LORA_NAMES = 32 };
void lora_plan_names(const LoraPlan *lora, char names[LORA_NAMES]);

/* Can every matrix of the adapter be named as in a folder of the model's family? If not, INPUT. */
bool lora_names_check(const Params *p, Error *err);

/* Writes adapter_model.safetensors (file[0]) and adapter_config.json (file[1]) as peft does. base:
 * the model's name in the config. */
bool lora_folder_write(const char *const file[2], const Params *p, const float *values,
                       double alpha, const char *base, Error *err);

/* ---- train_text.c ---------------------------------------------------------------------------- */

/* A text to train on: its bytes, its vocabulary, its tokens. */

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

/* Encodes the text with a file's tokenizer into t->ids. Fails with INPUT if an id >= vocab_size. */
bool train_text_encode(TrainText *t, const TensorFile *vocabulary, int vocab_size, Error *err);

/* Splits off this share of the tokens, from their end, for validation. Fails with INPUT if one side
 * has too few tokens for sequences of seq_len. */
bool train_text_split(const TrainText *t, double share, int seq_len, TrainData *out, Error *err);

#endif
