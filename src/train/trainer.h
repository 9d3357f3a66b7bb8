/* train/trainer.h: a training run from its first step to its last, and its checkpoints. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "format/tensors.h"
#include "train/net.h"

/* ---- trainer.c ------------------------------------------------------------------------------- */

/* Training step by step: which tokens a step sees, its gradients, the
 * optimizer, and the loss on held-out data.
 *
 * Everything depends only on the settings, the data, the parameters and moments, and the step
 * number. There is no other state, so training that continues from a checkpoint gives the same
 * bits. */

typedef struct TrainSettings {
    int      batch, micro;       /* sequences of a step; of a part (gradients add up) */
    int      seq_len;
    int64_t  n_steps;
    Schedule schedule;
    OptimizerOptions adamw;
    double   clip;               /* largest global norm of the gradients; 0: no clipping */
    double   dropout;
    uint64_t seed;
} TrainSettings;

/* The tokens of the data: training uses the first n_train, the rest is held out. */
typedef struct TrainData { const int32_t *token; size_t n_train, n; } TrainData;

typedef struct Validation { int64_t step; float loss; } Validation;

typedef struct Trainer {
    TrainSettings s;
    TrainData     data;
    const Params *p;
    Crew         *crew;
    Net          *net;
    float        *w, *g, *m, *v;  /* params_array */
    int64_t       step;           /* steps done */
    float        *loss;           /* [n_steps]: of each step, before it changed the parameters */
    Validation   *val;            /* [n_val], ascending by step */
    size_t        n_val, cap_val;
    int32_t      *token, *target; /* [micro, seq_len] */
} Trainer;

/* Allocates everything; parameters are zero. Training needs n_train >= seq_len + 1 tokens, and
 * so does the held-out part, if there is one. Fails with SYSTEM. */
bool trainer_open(Trainer *t, const Params *p, Crew *crew, const TrainData *data,
                  const TrainSettings *s, Error *err);
void trainer_close(Trainer *t);  /* accepts a zeroed one */

size_t trainer_bytes(const Trainer *t); /* of parameters, gradients, moments and activations */

/* One step. Sets *loss and *norm, the norm of the gradients before clipping. If either is not
 * finite, it fails with NO and changes no parameters. */
bool trainer_step(Trainer *t, double *loss, double *norm, Error *err);

/* Is the loss on the first tokens of the data finite with the current parameters? Fails with NO if
 * not. */
bool trainer_check(Trainer *t, Error *err);

/* *loss = mean loss on the held-out data, divided into windows of seq_len: all of them, or `most`
 * evenly spaced ones. NaN if nothing is held out. note: also append it to val. */
bool trainer_validate(Trainer *t, size_t most, bool note, double *loss, Error *err);

/* ---- train_state.c --------------------------------------------------------------------------- */

/* Checkpoints: parameters, moments, the losses so far, and the settings that decide how training
 * continues. A safetensors file (docs/train.md, "Checkpoints"), written whole or not at all. */

/* A setting, as two strings. Training can continue only if all settings are equal. */
typedef struct StateSetting { const char *key; char value[80]; } StateSetting;

/* Writes a checkpoint. tokenizer: the file whose tokenizer is copied; NULL: none. SYSTEM:
 * memory, disk. */
bool train_state_save(const Trainer *t, const char *path, const StateSetting *setting,
                      size_t n_settings, const TensorFile *tokenizer, Error *err);

/* Is f a checkpoint, with the bytes that were written? INPUT if not. Then its tokenizer may be
 * used. */
bool train_state_check(const TensorFile *f, Error *err);

/* May a new training write its checkpoint there? USAGE if it would overwrite a training that was
 * stopped, or a file that tblock did not write. */
bool train_state_spare(const char *path, Error *err);

/* Was it made with these settings? INPUT if not, naming what differs. */
bool train_state_compare(const TensorFile *f, const StateSetting *setting, size_t n_settings,
                         Error *err);

/* Was it made with this config? INPUT if not, naming the first key that differs. */
bool train_state_compare_config(const TensorFile *f, const Config *c, Error *err);

/* Fills an open trainer. f must have passed the checks above. INPUT if a tensor is missing or
 * wrong. */
bool train_state_load(Trainer *t, const TensorFile *f, Error *err);

#endif
