/* train/reference.h: the loss of one sequence in double, on top of block_double.h: as plain as can be, and sharing nothing with what it
 * checks. */
#ifndef TRAIN_REFERENCE_H
#define TRAIN_REFERENCE_H

#include "train/params.h"

/* Doubles of room that reference_loss works in. */
size_t reference_room(const Params *p, int n);

/* Mean of -log p(target[t]) over the n tokens of a sequence. w: the parameters' array as doubles. */
double reference_loss(const Params *p, const double *w, const int32_t *token, const int32_t *target, int n, double *room);

#endif
