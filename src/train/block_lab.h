/* train/block_lab.h: one decoder block to look into: every value and gradient that passes through it, the gradient checked by central
 * differences in double, blocks one on another with their norms before or behind, the fused residual and norm. */
#ifndef TRAIN_BLOCK_LAB_H
#define TRAIN_BLOCK_LAB_H

#include "base/progress.h"
#include "train/params.h"

/* What there is to know of a tensor of numbers. */
typedef struct LabStat {
    bool   seen;
    size_t n, n_bad, first_bad;    /* NaN or infinite ones; the first is bad_value                      */
    float  bad_value;
    double rms, largest;           /* of the finite ones; largest magnitude                             */
} LabStat;
LabStat lab_stat(const float *x, size_t n);
double  lab_rms(const float *x, size_t n); /* infinite where one is not finite */

typedef struct BlockLab {
    Config       config;           /* of a model with this one block                                    */
    BlockShape   shape;
    int          n_seqs, seq_len, n_tok;
    Params       params;           /* layer 0 is the block                                              */
    float       *w, *d_w;          /* params_array each: weights, gradients                             */
    Crew         crew;
    RopeAngles   rope;
    double      *inv_freq, factor;
    float       *memory;
    BlockActs    acts;             /* of the block; acts.probs [n_seqs, heads, seq_len, seq_len] or NULL */
    BlockWork    work;
    float       *x, *d_y, *y, *d_x; /* [n_tok, d_model]                                                 */
    size_t       acts_bytes, work_bytes, scratch_bytes; /* what a block keeps, what blocks share, one thread's room */

    LabStat      value[BLOCK_STEPS], gradient[BLOCK_STEPS];
    BlockStep    order[BLOCK_STEPS], back[BLOCK_STEPS]; /* as the values, and going back the gradients, were made */
    int          n_order, n_back;
    double       forward_seconds, backward_seconds;
} BlockLab;

/* A zeroed lab becomes one for a config of one layer (config_check and train_supported, but for learned positions, which are no
 * matter of a block). Weights, x and d_y are zero. probs: keep the attention probabilities. SYSTEM: memory, no OpenBLAS. */
bool lab_open(BlockLab *lab, const Config *c, bool causal, int n_seqs, int seq_len, bool probs, int threads, Error *err);
void lab_close(BlockLab *lab);     /* a zeroed one is accepted */

/* Weights of block number `block` from a seed, uniform: matrices of variance 1 / inputs, norms 0.9 to 1.1, biases -0.1 to 0.1 (a
 * place where no gradient is a special one); and x and d_y of variance 1. */
void lab_fill_weights(BlockLab *lab, uint64_t seed, int block);
void lab_fill_input(BlockLab *lab, uint64_t seed);

/* Forward and backward: y, d_x, d_w, and all that there is to know of the steps. */
void lab_run(BlockLab *lab);

/* ---- Checks ---- */

typedef struct LabCheck {
    int    tensor;                 /* of params; -1: x */
    int    samples;
    size_t at;                     /* the worst of them */
    double computed, expected, error;
} LabCheck;

/* The gradients of lab_run by central differences of sum(y * d_y) in double, at `samples` places of x and of every tensor of the
 * block (all, where it has fewer). An error is relative to the largest gradient that was looked at in its tensor, or to 1/100 of
 * the largest of all where that is more (a gradient that is 0 by its formula has none of its own). check has room for
 * params.n + 1; returns how many, or -1: no memory. y_error: largest |y - y in double|. */
int lab_check(const BlockLab *lab, int samples, uint64_t seed, LabCheck *check, double *y_error, const Progress *progress, Error *err);

/* FLOP that lab_check takes. */
double lab_check_flops(const BlockLab *lab, int samples);

/* The fused residual + norm beside the two operations it stands for: x + y, the first norm, and their gradients. */
typedef struct LabFused { bool forward_same, backward_same; double fused_seconds, plain_seconds; } LabFused;
bool lab_fused(BlockLab *lab, LabFused *out, Error *err);

/* ---- Blocks one on another ---- */

/* Blocks 0 .. n - 1 on lab->x with their norms at `place`, back from lab->d_y: rms[i] of the residual stream before block i (rms[n]:
 * of the result), ratio[i] = |gradient of that| / |d_y|. weights puts block i's into lab->w (forward, then once more going back);
 * NULL: all have the same. rms and ratio have room for n + 1. */
typedef bool (*LabWeights)(void *user, BlockLab *lab, int block, Error *err);
bool lab_stack(BlockLab *lab, NormPlacement place, int n, LabWeights weights, void *user, double *rms, double *ratio,
               const Progress *progress, Error *err);

#endif
