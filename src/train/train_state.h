/* train/train_state.h: checkpoints: parameters, moments, the losses so far, and the settings
 * that decide how training goes on. A safetensors file (docs/train.md, "Checkpoints"), written
 * whole or not at all. */
#ifndef TRAIN_TRAIN_STATE_H
#define TRAIN_TRAIN_STATE_H

#include "format/tensors.h"
#include "train/trainer.h"

/* A setting as name and text. Training can continue only if all settings are equal. */
typedef struct StateSetting { const char *key; char value[80]; } StateSetting;

/* Writes a checkpoint. tokenizer: the file whose tokenizer is copied; NULL: none. SYSTEM:
 * memory, disk. */
bool train_state_save(const Trainer *t, const char *path, const StateSetting *setting, size_t n_settings, const TensorFile *tokenizer,
                      Error *err);

/* Is f a checkpoint, with the bytes that were written? INPUT if not. Then its tokenizer may be
 * used. */
bool train_state_check(const TensorFile *f, Error *err);

/* Was it made with these settings? INPUT if not, naming what differs. */
bool train_state_compare(const TensorFile *f, const StateSetting *setting, size_t n_settings, Error *err);

/* Was it made with this config? INPUT if not, naming the first key that differs. */
bool train_state_compare_config(const TensorFile *f, const Config *c, Error *err);

/* Fills an open trainer. f must have passed the checks above. INPUT if a tensor is missing or
 * wrong. */
bool train_state_load(Trainer *t, const TensorFile *f, Error *err);

#endif
