/* train/optimizer.h: AdamW with decoupled decay (Loshchilov and Hutter 2019), clipping by the global norm (Pascanu et al. 2013), and
 * the learning rate of a step. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "train/params.h"

typedef struct OptimizerOptions {
    double beta1, beta2, eps, decay;
    bool   decay_all;               /* of every parameter; false: of matrices alone, not of norms and biases */
} OptimizerOptions;

typedef struct Optimizer {
    const Params    *p;
    Crew            *crew;
    OptimizerOptions opt;
    float           *m, *v;         /* first and second moments, params_array: owned by whoever made them */
} Optimizer;

/* sqrt of the sum of squares of all gradients. Squares are summed in f32 by pieces of 16,384, the pieces in double. */
double grads_norm(const Params *p, const Crew *crew, const float *g);

/* Step number `step` (1, 2 ...): w changes by gradients g * grad_scale. */
void optimizer_step(Optimizer *o, float *w, const float *g, int64_t step, double lr, double grad_scale);

/* Warm-up from 0 over the first steps, then half a cosine from lr to min_lr at the last step (Loshchilov and Hutter 2017). step
 * from 0; constant (after the warm-up) where n_steps is 0. */
typedef struct Schedule { double lr, min_lr; int64_t warmup, n_steps; } Schedule;
double schedule_rate(const Schedule *s, int64_t step);

#endif
