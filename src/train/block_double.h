/* train/block_double.h: a decoder block in double, by plain loops over its formulas. The
 * gradient checks compare with it. Slow. */
#ifndef TRAIN_BLOCK_DOUBLE_H
#define TRAIN_BLOCK_DOUBLE_H

#include "train/params.h"

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

/* The number of doubles that block_double needs as room; 0 if it overflows. */
size_t block_double_room(const BlockDouble *b);

/* y = block(x), both [n_tok, d_model]. y may be x. Cannot fail. */
void block_double(const BlockDouble *b, double *y, const double *x, double *room);

/* What a model needs besides its blocks. y [rows, n] = norm of each row of x; y may be x. y
 * [n_tok, rows] = x W^T + bias; bias NULL: none. */
void double_norm(double *y, const double *x, const double *w, const double *bias, Norm kind, double eps, int rows, int n);
void double_product(double *y, const double *x, const double *w, const double *bias, int n_tok, int rows, int k);

/* A tensor of p in the array w, or NULL if there is none. layer -1: a tensor outside the layers. */
const double *double_tensor(const Params *p, const double *w, int layer, TensorRole role, bool bias);

#endif
