/* train/trainer.h: training step after step: which tokens a step sees, its gradients, the optimizer, the loss on tokens held back.
 *
 * Everything is a function of the settings, the data, the parameters and moments, and the number of the step: there is no other
 * state, so that training that goes on from a saved state continues with the same bits. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "train/net.h"
#include "train/optimizer.h"

typedef struct TrainSettings {
    int      batch, micro;       /* sequences of a step; of them computed at once: gradients of the parts are added up      */
    int      seq_len;
    int64_t  n_steps;
    Schedule schedule;
    OptimizerOptions adamw;
    double   clip;               /* largest global norm of the gradients; 0: not clipped                                    */
    double   dropout;
    uint64_t seed;
} TrainSettings;

/* The tokens of a text: the first n_train are learned, the rest is held back. */
typedef struct TrainData { const int32_t *token; size_t n_train, n; } TrainData;

typedef struct Validation { int64_t step; float loss; } Validation;

typedef struct Trainer {
    TrainSettings s;
    TrainData     data;
    const Params *p;
    Crew         *crew;
    Net          *net;
    float        *w, *g, *m, *v;  /* params_array */
    int64_t       step;           /* steps that are done */
    float        *loss;           /* [n_steps]: of each, before it changed the parameters */
    Validation   *val;            /* [n_val], ascending by step */
    size_t        n_val, cap_val;
    int32_t      *token, *target; /* [micro, seq_len] */
} Trainer;

/* Allocates everything; parameters are zero. n_train and, where anything is held back, the rest are at least seq_len + 1 tokens. */
bool trainer_open(Trainer *t, const Params *p, Crew *crew, const TrainData *data, const TrainSettings *s, Error *err);
void trainer_close(Trainer *t);  /* a zeroed one is accepted */

size_t trainer_bytes(const Trainer *t); /* memory of parameters, gradients, moments and activations */

/* One step: loss and norm of the gradients (before clipping). A loss or a norm that is no number fails (NO); nothing is changed then. */
bool trainer_step(Trainer *t, double *loss, double *norm, Error *err);

/* Is the loss on the first tokens of the text a number, now, with the parameters as they are? NO: it is not. */
bool trainer_check(Trainer *t, Error *err);

/* Mean loss on what is held back, cut into windows of seq_len: all of them, or `most` that lie evenly. NaN where nothing is held
 * back. note: it is added to val. */
bool trainer_validate(Trainer *t, size_t most, bool note, double *loss, Error *err);

#endif
