/* runtime/sampler_buckets.h: draws from a large vocabulary without sorting it. Private to the
 * sampler.
 *
 * Candidates go into buckets by how far their x lies below the largest. Only the bucket in which
 * a sum reaches its target is sorted; sums of the buckets before it are taken in any order. Such
 * a sum differs from the definition's (in candidate order) by a rounding error with a known
 * bound. If the bound decides a comparison, it is answered; if not, buckets_draw gives up and
 * the sampler sorts. Either way the token is the definition's. */
#ifndef RUNTIME_SAMPLER_BUCKETS_H
#define RUNTIME_SAMPLER_BUCKETS_H

#include "kernels/kernels.h"
#include "runtime/sampler.h"

enum { BUCKETS_PER_UNIT = 64, N_BUCKETS = 88 * BUCKETS_PER_UNIT }; /* exp(-88) is +0 by definition */

typedef struct Buckets {
    const Kernels *kernels;
    const float   *x;            /* [n] after penalty and temperature; no NaN                 */
    float         *p;            /* [n] exp(x - largest)                                      */
    uint16_t      *bucket;       /* [n] of each id                                            */
    Candidate     *sorted;       /* [n] room for the bucket that is sorted */
    int            n;
    float          largest;      /* finite                                                    */
    double         sum[N_BUCKETS];
    int            count[N_BUCKETS];
    double         error;        /* bound of a sum's relative error */
} Buckets;

/* Draws at u (0 <= u < 1) from what top-k, top-p and min-p leave. False: rounding could decide
 * the result; then *token is not set. */
bool buckets_draw(Buckets *b, const SamplerOptions *opt, double u, int32_t *token);

/* Does a come before c in the order of candidates (x descending, id ascending)? */
static inline bool candidate_before(const Candidate *a, const Candidate *c)
{
    return a->x > c->x || (a->x == c->x && a->id < c->id);
}
/* Sorts into that order. */
void candidates_sort(Candidate *c, int n);

#endif
