/* train/block_lab.h: the block in double, and checks of the float block against it. */
#ifndef TRAIN_BLOCK_LAB_H
#define TRAIN_BLOCK_LAB_H

#include "base/progress.h"
#include "train/net.h"

/* ---- reference.c ----------------------------------------------------------------------------- */

/* The loss of one sequence in double, on top of block_double.c. As plain as
 * possible, and it shares no arithmetic with the code that it checks. */

/* The number of doubles of scratch that reference_loss needs for n tokens. */
size_t reference_room(const Params *p, int n);

/* Mean of -log p(target[t]) over the n tokens of a sequence. w: the parameters' array as
 * doubles. room: reference_room(p, n) doubles. */
double reference_loss(const Params *p, const double *w, const int32_t *token, const int32_t *target,
                      int n, double *room);

/* ---- block_double.c -------------------------------------------------------------------------- */

/* A decoder block in double, by plain loops over its formulas. The
 * gradient checks compare with it. Slow. */

/* One block over n_seqs sequences of seq_len. w: all parameters in double, laid out as
 * params_array; `layer` says which block. inv_freq [rot / 2] and factor come from
 * config_inv_freq; rot 0: no rotation. */
typedef struct BlockDouble {
    const Params     *p;
    const BlockShape *shape;
    int               layer;
    const double     *w, *inv_freq;
    double            factor;
    int               rot, n_seqs, seq_len;
} BlockDouble;

/* The number of doubles of scratch that block_double needs; 0 if it overflows. */
size_t block_double_room(const BlockDouble *b);

/* y = block(x), both [n_tok, d_model]. y may be x. Cannot fail. */
void block_double(const BlockDouble *b, double *y, const double *x, double *room);

/* What a model needs besides its blocks. y [rows, n] = norm of each row of x; y may be x. y
 * [n_tok, rows] = x W^T + bias; bias NULL: none. */
void double_norm(double *y, const double *x, const double *w, const double *bias, Norm kind,
                 double eps, int rows, int n);
void double_product(double *y, const double *x, const double *w, const double *bias, int n_tok,
                    int rows, int k);

/* A tensor of p in the array w, or NULL if there is none. layer -1: a tensor outside the layers. */
const double *double_tensor(const Params *p, const double *w, int layer, TensorRole role,
                            bool bias);

/* ---- grad_check.c ---------------------------------------------------------------------------- */

/* Are the gradients right? Compares those of the backward pass with central
 * differences of the loss in double. */

typedef struct GradCheckRow {
    const char *name;
    double      worst;          /* largest |g - d| / max(|d|, RMS of the tensor's gradient) */
    double      at_grad, at_difference; /* both, for that element */
    size_t      element;
    int         n;              /* elements checked */
} GradCheckRow;

/* Writes rows [p->n], from p->first on. Checks `samples` elements of each parameter (all if it has
 * fewer): the one with the largest gradient and random others by seed. g comes from the backward
 * pass; d = (L(w + h) - L(w - h)) / 2h is computed in double with h = 2^-18 max(1, |w|). If g and d
 * differ, it tries smaller h, down to 2^-18 of that. The data is one sequence of n_tok random
 * tokens. progress may be NULL. Fails with SYSTEM (no memory). */
bool grad_check(GradCheckRow *rows, const Params *p, Crew *crew, const float *w, int n_tok,
                int samples, uint64_t seed, const Progress *progress, Error *err);

/* ---- block_lab.c ----------------------------------------------------------------------------- */

/* One decoder block for inspection: all its values and gradients, a check of the gradients in
 * double, stacked blocks with norms before or after their halves, the fused residual and norm. */

/* A summary of a tensor of numbers. */
typedef struct LabStat {
    bool   seen;
    size_t n, n_bad, first_bad;    /* NaN or infinite ones; the first is bad_value */
    float  bad_value;
    double rms, largest;           /* of the finite ones; largest magnitude */
} LabStat;
LabStat lab_stat(const float *x, size_t n);
double  lab_rms(const float *x, size_t n); /* infinite if a value is not finite */

typedef struct BlockLab {
    Config       config;           /* of a model with this one block */
    BlockShape   shape;
    int          n_seqs, seq_len, n_tok;
    Params       params;           /* layer 0 is the block */
    float       *w, *d_w;          /* weights and gradients (params_array) */
    Crew         crew;
    RopeAngles   rope;
    double      *inv_freq, factor;
    float       *memory;
    BlockActs    acts;             /* acts.probs: NULL unless kept */
    BlockWork    work;
    float       *x, *d_y, *y, *d_x; /* [n_tok, d_model] */
    size_t       acts_bytes, work_bytes, scratch_bytes; /* kept; shared; scratch of one thread */

    LabStat      value[BLOCK_STEPS], gradient[BLOCK_STEPS];
    BlockStep    order[BLOCK_STEPS], back[BLOCK_STEPS]; /* order of computation */
    int          n_order, n_back;
    double       forward_seconds, backward_seconds;
} BlockLab;

/* Turns a zeroed lab into one for a config of one layer, which has passed config_check and
 * train_supported (learned positions are allowed: they do not belong to a block). Weights, x and
 * d_y are zero. probs: keep the attention probabilities. Fails with SYSTEM (memory, no
 * OpenBLAS). */
bool lab_open(BlockLab *lab, const Config *c, bool causal, int n_seqs, int seq_len, bool probs,
              int threads, Error *err);
void lab_close(BlockLab *lab);     /* accepts a zeroed one */

/* Fills the weights of block number `block` from a seed, uniformly: matrices with variance 1 /
 * inputs, norms from 0.9 to 1.1, biases from -0.1 to 0.1, so that no gradient is special.
 * lab_fill_input fills x and d_y with variance 1. */
void lab_fill_weights(BlockLab *lab, uint64_t seed, int block);
void lab_fill_input(BlockLab *lab, uint64_t seed);

/* Forward and backward: computes y, d_x and d_w, and the summaries of all steps. */
void lab_run(BlockLab *lab);

/* ---- Checks ---------------------------------------------------------------------------------- */

typedef struct LabCheck {
    int    tensor;                 /* in params; -1: x */
    int    samples;
    size_t at;                     /* the element with the largest error */
    double computed, expected, error;
} LabCheck;

/* Checks the gradients of lab_run against central differences of sum(y * d_y) in double, at
 * `samples` elements of x and of each tensor of the block (all, if it has fewer). An error is
 * relative to the tensor's largest checked gradient, or to 1/100 of the largest of all tensors
 * if that is more: a gradient that is 0 by its formula has no size of its own. check has room
 * for params.n + 1. Returns how many it filled, or -1 on failure. y_error: largest |y - y in
 * double|. */
int lab_check(const BlockLab *lab, int samples, uint64_t seed, LabCheck *check, double *y_error,
              const Progress *progress, Error *err);

/* The floating-point operations of lab_check. */
double lab_check_flops(const BlockLab *lab, int samples);

/* Runs the fused residual + norm and the two operations that it replaces (x + y, then the norm;
 * with gradients). Are the bits the same, and how long does each take? Fails with SYSTEM. */
typedef struct LabFused {
    bool forward_same, backward_same; double fused_seconds, plain_seconds;
} LabFused;
bool lab_fused(BlockLab *lab, LabFused *out, Error *err);

/* ---- Stacked blocks -------------------------------------------------------------------------- */

/* Runs blocks 0 .. n - 1 on lab->x with norms at `place`, then backward from lab->d_y. rms[i] is
 * that of the residual stream before block i (rms[n]: of the result); ratio[i] = |its gradient|
 * / |d_y|. weights puts block i's weights into lab->w, once forward and once backward; NULL: all
 * blocks have the same. rms and ratio have room for n + 1. */
typedef bool (*LabWeights)(void *user, BlockLab *lab, int block, Error *err);
bool lab_stack(BlockLab *lab, NormPlacement place, int n, LabWeights weights, void *user,
               double *rms, double *ratio, const Progress *progress, Error *err);

#endif
