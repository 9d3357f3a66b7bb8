/* api/pool.h: pools hidden states into an embedding (docs/numerics.md, "Embeddings"). */
#ifndef API_POOL_H
#define API_POOL_H

#include "api/api.h"

/* Of positions first .. n_given - 1 of a sequence. */
typedef struct Pool {
    int     kind;         /* enum tblock_pool; TBLOCK_POOL_NONE: the rest is unused */
    int     d_model;
    const Model *dense;   /* with the matrices to apply to the vector; NULL: none */
    size_t  first, n_given;
    size_t  n;            /* states added: those of positions first .. first + n - 1 */
    double *sum;          /* [d_model] */
} Pool;

/* Fails with USAGE (kind) and SYSTEM. m must outlive p. */
bool pool_begin(Pool *p, int kind, const Model *m, size_t n_given, Error *err);
void pool_end(Pool *p); /* frees; accepts a zeroed one */
/* Adds the state of a position, x [d_model]. Only the next position that counts is added, so those
 * computed again, or from n_given on, change nothing. */
void pool_add(Pool *p, size_t pos, const float *x);
/* Have all states that count been added? */
bool pool_is_full(const Pool *p);
/* Is it finite? */
bool pool_is_finite(const Pool *p);
/* The vector of a full pool, out [pool_width]. Fails with SYSTEM. */
bool pool_give(const Pool *p, bool normalize, float *out, Error *err);
int  pool_width(const Config *c, int kind);

#endif
