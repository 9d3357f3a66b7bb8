/* runtime/sampler_buckets.h: the draw from a large vocabulary without sorting it. Private to the sampler.
 *
 * Candidates fall into buckets by how far their x lies under the largest one. Only the bucket in which a sum reaches its
 * target is sorted; the sums before it are taken in any order. Such a sum differs from the definition's (candidate
 * order) by a rounding error with a bound, so a comparison is answered where the bound decides it and given up where it
 * does not: then the sampler sorts. The token is the definition's, to the bit, either way. */
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
    Candidate     *sorted;       /* [n] room for the bucket that is sorted                    */
    int            n;
    float          largest;      /* finite                                                    */
    double         sum[N_BUCKETS];
    int            count[N_BUCKETS];
    double         error;        /* bound of a sum's relative error, with room                */
} Buckets;

/* Draw at u (0 <= u < 1) from what top-k, top-p and min-p leave. False: rounding might decide it, *token is unset. */
bool buckets_draw(Buckets *b, const SamplerOptions *opt, double u, int32_t *token);

/* (x descending, id ascending), the order of candidates: whether a comes before c. */
static inline bool candidate_before(const Candidate *a, const Candidate *c)
{
    return a->x > c->x || (a->x == c->x && a->id < c->id);
}
void candidates_sort(Candidate *c, int n);

#endif
