/* train/block_double.h: a decoder block in double, by plain loops over its formulas: what gradients are checked against. Slow. */
#ifndef TRAIN_BLOCK_DOUBLE_H
#define TRAIN_BLOCK_DOUBLE_H

#include "train/params.h"

/* One block over n_seqs sequences of seq_len. w: the parameters of p (a model whose layer 0 is the block) in double, params_array's
 * layout. inv_freq [rot / 2], factor: as config_inv_freq gives them; rot 0: positions are not rotated. */
typedef struct BlockDouble {
    const Params     *p;
    const BlockShape *shape;
    const double     *w, *inv_freq;
    double            factor;
    int               rot, n_seqs, seq_len;
} BlockDouble;

/* Room that block_double needs, in doubles; 0 where that overflows. */
size_t block_double_room(const BlockDouble *b);

/* y = block(x), both [n_tok, d_model]. Cannot fail. */
void block_double(const BlockDouble *b, double *y, const double *x, double *room);

#endif
