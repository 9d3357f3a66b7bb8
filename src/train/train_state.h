/* train/train_state.h: training in a file: parameters, moments, the losses so far, and what everything depends on. A safetensors file
 * (docs/train.md, "Checkpoints"), written whole or not at all. */
#ifndef TRAIN_TRAIN_STATE_H
#define TRAIN_TRAIN_STATE_H

#include "format/tensors.h"
#include "train/trainer.h"

/* Settings by name, as text: what must be equal for training to go on. */
typedef struct StateSetting { const char *key; char value[80]; } StateSetting;

/* tokenizer: the file whose tokenizer is copied; NULL: none. */
bool train_state_save(const Trainer *t, const char *path, const StateSetting *setting, size_t n_settings, const TensorFile *tokenizer,
                      Error *err);

/* Is f a checkpoint, with the bytes that were written? INPUT: no. It holds a tokenizer that may be used then. */
bool train_state_check(const TensorFile *f, Error *err);

/* Was it made with these settings? INPUT, naming what differs. */
bool train_state_compare(const TensorFile *f, const StateSetting *setting, size_t n_settings, Error *err);

/* Was it made with this config? INPUT, naming the first key that differs. */
bool train_state_compare_config(const TensorFile *f, const Config *c, Error *err);

/* Fill an open trainer; f passed both. INPUT: a tensor is not there, or not as it should be. */
bool train_state_load(Trainer *t, const TensorFile *f, Error *err);

#endif
