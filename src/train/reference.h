/* train/reference.h: the loss of one sequence in double, on top of block_double.h. As plain as
 * possible, and it shares no arithmetic with the code that it checks. */
#ifndef TRAIN_REFERENCE_H
#define TRAIN_REFERENCE_H

#include "train/params.h"

/* The doubles that reference_loss needs as room for n tokens. */
size_t reference_room(const Params *p, int n);

/* Mean of -log p(target[t]) over the n tokens of a sequence. w: the parameters' array as
 * doubles. room: reference_room(p, n) doubles. */
double reference_loss(const Params *p, const double *w, const int32_t *token, const int32_t *target, int n, double *room);

#endif
