/* api/pool.c: the states of a text's tokens become one vector. One double for each column, to which
 * positions are added in their order, whatever the batches they came in. */
#include "api/pool.h"

#include <math.h>
#include <stdlib.h>

bool pool_begin(Pool *p, int kind, int d_model, size_t n_given, Error *err)
{
    if (!check_range("pool", kind, TBLOCK_POOL_NONE, TBLOCK_POOL_CLS, err))
        return false;
    *p = (Pool){ .kind    = kind,
                 .d_model = d_model,
                 .first   = kind == TBLOCK_POOL_LAST ? n_given - 1 : 0,
                 .n_given = kind == TBLOCK_POOL_CLS ? 1 : n_given };
    if (kind != TBLOCK_POOL_NONE)
        p->sum = calloc((size_t)d_model, sizeof *p->sum);
    return kind == TBLOCK_POOL_NONE || p->sum || no_memory(NULL, err);
}

void pool_end(Pool *p)
{
    free(p->sum);
    *p = (Pool){ 0 };
}

void pool_add(Pool *p, size_t pos, const float *x)
{
    if (!p->sum || pos >= p->n_given || pos != p->first + p->n)
        return;
    for (int i = 0; i < p->d_model; i++)
        p->sum[i] += (double)x[i];
    p->n++;
}

bool pool_is_full(const Pool *p)
{
    return p->sum && p->first + p->n == p->n_given;
}

bool pool_is_finite(const Pool *p)
{
    for (int i = 0; p->sum && i < p->d_model; i++)
        if (!isfinite(p->sum[i]))
            return false;
    return true;
}

void pool_give(const Pool *p, bool normalize, float *out)
{
    const double n       = (double)p->n;
    double       squares = 0;
    for (int i = 0; normalize && i < p->d_model; i++)
        squares += (p->sum[i] / n) * (p->sum[i] / n);
    const double length = squares > 0 ? sqrt(squares) : 1;
    for (int i = 0; i < p->d_model; i++)
        out[i] = (float)(p->sum[i] / n / length);
}
