/* api/pool.h: the states of a text's tokens become one vector (docs/numerics.md, "Embeddings"). */
#ifndef API_POOL_H
#define API_POOL_H

#include "api/api.h"

/* Of positions first .. n_given - 1 of a sequence. */
typedef struct Pool {
    int     kind;         /* enum tblock_pool; TBLOCK_POOL_NONE: nothing below counts */
    int     d_model;
    const Model *dense;   /* whose matrices the vector goes through; NULL: none */
    size_t  first, n_given;
    size_t  n;            /* states added: those of positions first .. first + n - 1 */
    double *sum;          /* [d_model] */
} Pool;

/* Fails with USAGE (kind) and SYSTEM. m must outlive p. */
bool pool_begin(Pool *p, int kind, const Model *m, size_t n_given, Error *err);
void pool_end(Pool *p); /* frees; a zeroed one is accepted */
/* The state of a position, x [d_model]. Only the next one that counts is added, so positions that
 * are computed again, or lie behind the given ones, change nothing. */
void pool_add(Pool *p, size_t pos, const float *x);
/* Has it all states that count? */
bool pool_is_full(const Pool *p);
/* Is it finite? */
bool pool_is_finite(const Pool *p);
/* The vector, out [pool_width], of one that is full. Fails with SYSTEM. */
bool pool_give(const Pool *p, bool normalize, float *out, Error *err);
int  pool_width(const Config *c, int kind);

#endif
