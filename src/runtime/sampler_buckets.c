/* runtime/sampler_buckets.c: samples by buckets, with a bound for every rounding error. */
#include "runtime/sampler.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* What is kept: the candidates up to and including `last`, with weights that sum to about `sum`. */
typedef struct Head { Candidate last; double sum; } Head;

enum { BLOCK = 64 }; /* a constant trip count, so that the compiler vectorizes */

/* Bucket numbers grow as x falls, because subtraction and multiplication round monotonically. */
static void find_buckets(Buckets *b)
{
    const float m = b->largest;
    int         i = 0;
    for (; i + BLOCK <= b->n; i += BLOCK) {
        const float *x = b->x + i;
        float       *p = b->p + i;
        int          at[BLOCK];
        for (int j = 0; j < BLOCK; j++) {
            float below = (m - x[j]) * (float)BUCKETS_PER_UNIT;
            at[j]       = (int)(below < (float)(N_BUCKETS - 1) ? below : (float)(N_BUCKETS - 1));
            p[j]        = x[j] - m;
        }
        for (int j = 0; j < BLOCK; j++)
            b->bucket[i + j] = (uint16_t)at[j];
    }
    for (; i < b->n; i++) {
        float below  = (m - b->x[i]) * (float)BUCKETS_PER_UNIT;
        b->bucket[i] =
            (uint16_t)(int)(below < (float)(N_BUCKETS - 1) ? below : (float)(N_BUCKETS - 1));
        b->p[i]      = b->x[i] - m;
    }
    b->kernels->exp(b->p, b->p, b->n);
}

/* Sums the buckets and bounds the error. Two sums of the same n numbers >= 0 in different orders
 * differ by less than 2n * 2^-53 of either. The bound is twice that, for the buckets' own sums
 * and the few operations around a comparison. */
static void fill_buckets(Buckets *b, Head *all)
{
    memset(b->sum, 0, sizeof b->sum);
    memset(b->count, 0, sizeof b->count);
    for (int i = 0; i < b->n; i++) {
        b->sum[b->bucket[i]] += (double)b->p[i];
        b->count[b->bucket[i]]++;
    }
    b->error = ((double)b->n + 2 * N_BUCKETS) * 0x1p-51;
    *all     = (Head){.last = {.x = -INFINITY, .id = INT_MAX}};
    for (int i = 0; i < N_BUCKETS; i++)
        all->sum += b->sum[i];
}

/* Collects the candidates of one bucket in b->sorted, in order. Returns how many. */
static int sort_bucket(Buckets *b, int bucket)
{
    int n = 0, i = 0;
    for (; i < b->n; i += BLOCK) {
        int      end = b->n - i < BLOCK ? b->n - i : BLOCK;
        unsigned any = 0;
        if (end == BLOCK) /* most blocks have none, which vectors find quickly */
            for (int j = 0; j < BLOCK; j++)
                any |= (unsigned)(b->bucket[i + j] == bucket);
        else
            any = 1;
        for (int j = 0; any && j < end; j++)
            if (b->bucket[i + j] == bucket)
                b->sorted[n++] = (Candidate){.x = b->x[i + j], .p = b->p[i + j], .id = i + j};
    }
    candidates_sort(b->sorted, n);
    return n;
}

static double sum_before(const Buckets *b, int bucket)
{
    double sum = 0;
    for (int i = 0; i < bucket; i++)
        sum += b->sum[i];
    return sum;
}

/* Keeps the first k candidates (k <= n). Counts are exact, so this is always certain. */
static void keep_top_k(Buckets *b, int k, Head *head)
{
    int bucket = 0, before = 0;
    while (before + b->count[bucket] < k)
        before += b->count[bucket++];
    head->sum = sum_before(b, bucket);
    sort_bucket(b, bucket);
    for (int i = 0; i < k - before; i++)
        head->sum += (double)b->sorted[i].p;
    head->last = b->sorted[k - before - 1];
}

/* Finds the head that ends with the first candidate whose sum reaches the target. The target has
 * the error of its own sum; whether "reaches" means > or >= lies within it. False: not certain. */
static bool reach(Buckets *b, double target, const Head *within, Head *out)
{
    const double low = target * (1 - 2 * b->error), high = target * (1 + 2 * b->error);
    double       sum = 0;
    int          bucket = 0;
    for (; bucket < N_BUCKETS && (sum + b->sum[bucket]) * (1 + b->error) < low; bucket++)
        sum += b->sum[bucket];
    for (; bucket < N_BUCKETS; bucket++) {
        int n = sort_bucket(b, bucket);
        for (int i = 0; i < n; i++) {
            const Candidate *c = &b->sorted[i];
            if (candidate_before(&within->last, c))
                return false;
            sum += (double)c->p;
            if (sum * (1 + b->error) < low)
                continue;
            *out = (Head){*c, sum};
            return sum * (1 - b->error) > high;
        }
    }
    return false;
}

/* Keeps the candidates of the head up to the last one with p >= min_p * p[0]. */
static void keep_min_p(Buckets *b, float min_p, Head *head)
{
    const float floor_p = min_p * kernels_expf(0);
    Candidate   last    = {.x = INFINITY};
    for (int i = 0; i < b->n; i++) {
        if (!(b->p[i] >= floor_p && b->p[i] > 0))
            continue;
        Candidate c = {b->x[i], b->p[i], i};
        if (candidate_before(&last, &c) && !candidate_before(&head->last, &c))
            last = c;
    }
    int bucket = b->bucket[last.id], n = sort_bucket(b, bucket);
    head->last = last;
    head->sum  = sum_before(b, bucket);
    for (int i = 0; i < n && !candidate_before(&last, &b->sorted[i]); i++)
        head->sum += (double)b->sorted[i].p;
}

bool buckets_sample(Buckets *b, const SamplerOptions *opt, double u, int32_t *token)
{
    Head head, sampled;
    find_buckets(b);
    fill_buckets(b, &head);
    if (opt->top_k > 0 && opt->top_k < b->n)
        keep_top_k(b, opt->top_k, &head);
    if (opt->top_p < 1 && !reach(b, opt->top_p * head.sum, &(Head){head.last, 0}, &head))
        return false;
    if (opt->min_p > 0)
        keep_min_p(b, opt->min_p, &head);
    if (!reach(b, u * head.sum, &head, &sampled))
        return false;
    *token = sampled.last.id;
    return true;
}
