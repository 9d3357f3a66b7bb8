/* train/optimizer.h: AdamW with decoupled weight decay (Loshchilov and Hutter 2019), clipping by
 * the global norm (Pascanu et al. 2013), and the learning rate of each step. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "train/params.h"

typedef struct OptimizerOptions {
    double beta1, beta2, eps, decay;
    bool   decay_all;               /* false: only matrices decay, not norms and biases */
} OptimizerOptions;

typedef struct Optimizer {
    const Params    *p;
    Crew            *crew;
    OptimizerOptions opt;
    float           *m, *v;         /* first and second moments (params_array); the caller owns them */
} Optimizer;

/* sqrt of the sum of squares of all gradients. Sums f32 within pieces of 16,384, double across
 * pieces. */
double grads_norm(const Params *p, const Crew *crew, const float *g);

/* Step number `step` (1, 2 ...): updates w with the gradients g * grad_scale. */
void optimizer_step(Optimizer *o, float *w, const float *g, int64_t step, double lr, double grad_scale);

/* Linear warm-up over the first steps, then half a cosine from lr to min_lr at the last step
 * (Loshchilov and Hutter 2017). step counts from 0. With n_steps 0 the rate is constant after
 * warm-up. */
typedef struct Schedule { double lr, min_lr; int64_t warmup, n_steps; } Schedule;
double schedule_rate(const Schedule *s, int64_t step);

#endif
