/* train/grad_check.h: are the gradients right? Compares those of the backward pass with central
 * differences of the loss in double. */
#ifndef TRAIN_GRAD_CHECK_H
#define TRAIN_GRAD_CHECK_H

#include "base/progress.h"
#include "train/params.h"

typedef struct GradCheckRow {
    const char *name;
    double      worst;          /* largest |g - d| / max(|d|, RMS of the tensor's gradient) */
    double      at_grad, at_difference; /* both, for that element */
    size_t      element;
    int         n;              /* elements checked */
} GradCheckRow;

/* Writes rows [p->n]. Checks `samples` elements of each parameter (all if it has fewer): the one
 * with the largest gradient and others drawn by seed. g comes from the backward pass; d = (L(w +
 * h) - L(w - h)) / 2h is computed in double with h = 2^-18 max(1, |w|). If g and d differ, it
 * tries smaller h, down to 2^-18 of that. The data is one sequence of n_tok random tokens.
 * progress may be NULL. Fails with SYSTEM (no memory). */
bool grad_check(GradCheckRow *rows, const Params *p, Crew *crew, const float *w, int n_tok, int samples, uint64_t seed,
                const Progress *progress, Error *err);

#endif
