/* train/grad_check.h: are the gradients right? Compares them with central differences of the loss in double. */
#ifndef TRAIN_GRAD_CHECK_H
#define TRAIN_GRAD_CHECK_H

#include "base/progress.h"
#include "train/params.h"

typedef struct GradCheckRow {
    const char *name;
    double      worst;          /* largest |g - d| / max(|d|, root mean square of the tensor's gradient) */
    double      at_grad, at_difference; /* the two where it was */
    size_t      element;
    int         n;              /* elements that were looked at */
} GradCheckRow;

/* rows [p->n]. For each parameter `samples` elements (all, where it has no more) drawn by seed, of which the one with the largest
 * gradient is always one: g from the backward pass, d = (L(w + h) - L(w - h)) / 2h with h = 2^-18 max(1, |w|) in double, or up to
 * 2^18 times less where that says otherwise, for one sequence of n_tok random tokens. progress may be
 * NULL. SYSTEM: no memory. */
bool grad_check(GradCheckRow *rows, const Params *p, Crew *crew, const float *w, int n_tok, int samples, uint64_t seed,
                const Progress *progress, Error *err);

#endif
