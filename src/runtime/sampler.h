/* runtime/sampler.h: the choice of the next token. */
#ifndef RUNTIME_SAMPLER_H
#define RUNTIME_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/number.h"
#include "kernels/kernels.h"

/* ---- sampler.c ------------------------------------------------------------------------------- */

/* From logits to the next token, a pure function of (logits, allowed tokens, earlier ids,
 * options, seed, index). docs/numerics.md, row "sampling", is the definition. */

typedef tblock_sampler_options SamplerOptions;
typedef struct tblock_sampler  Sampler;

/* x: logit after penalty and temperature; p: weight. */
typedef struct Candidate { float x, p; int32_t id; } Candidate;

/* Ranges: temp 0 or at least 1e-6, top_k >= 0, 0 <= top_p, min_p <= 1, repeat_penalty >= 0;
 * others fail with USAGE. 0 switches an option off. Free with sampler_free. */
Sampler *sampler_new(int vocab_size, const SamplerOptions *opt, Error *err);
void     sampler_free(Sampler *s); /* accepts NULL */

/* Other options, same vocabulary. Fails as sampler_new does; the options stay as they were then. */
bool sampler_set(Sampler *s, const SamplerOptions *opt, Error *err);

/* Is it one of the tokens that end the text? */
bool sampler_ends(const SamplerOptions *o, int32_t id);

/* The distribution to sample. *candidates belongs to s and is valid until the next call. They
 * are in order (x descending, id ascending), with weights p > 0 whose sum is *total. temp 0: one
 * candidate. Returns how many; 0 on failure (INPUT: a NaN logit, no logit above -inf, an id
 * out of range). */
int sampler_candidates(Sampler *s, const float *logits, const uint64_t *allowed,
                       const int32_t *previous, size_t n_previous, const Candidate **candidates,
                       double *total, Error *err);

/* All logits after bias, penalties, temperature and mask, as the last call made them. */
const float *sampler_adjusted(const Sampler *s);

/* The random number of a sample, 0 <= u < 1, and the candidate that it selects. */
double  sampler_uniform(uint64_t seed, uint32_t index);
int32_t candidates_sample(const Candidate *c, int n, double total, double u);

/* Samples the next token. allowed: a mask with at least one bit set: bit id % 64 of
 * allowed[id / 64] allows id; NULL: all. previous: the ids that the repetition penalty counts.
 * index: the number of the sample; the same (seed, index) gives the same random number. Fails like
 * sampler_candidates. */
bool sampler_next(Sampler *s, const float *logits, const uint64_t *allowed, const int32_t *previous,
                  size_t n_previous, uint32_t index, int32_t *token, Error *err);

/* ---- sampler_buckets.c ----------------------------------------------------------------------- */

/* Samples from a large vocabulary without sorting it. Private to the
 * sampler.
 *
 * Candidates go into buckets by how far their x lies below the largest. Only the bucket in which
 * a sum reaches its target is sorted; sums of the buckets before it are taken in any order. Such
 * a sum differs from the definition's (in candidate order) by a rounding error with a known
 * bound. If the bound cannot decide a comparison, buckets_sample returns false and the sampler
 * sorts. Either way the token is the definition's. */

/* exp(-88) is +0 by definition */
enum { BUCKETS_PER_UNIT = 64, N_BUCKETS = 88 * BUCKETS_PER_UNIT };

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

/* Samples at u (0 <= u < 1) from what top-k, top-p and min-p leave. False: rounding could change
 * the result; then *token is not set. */
bool buckets_sample(Buckets *b, const SamplerOptions *opt, double u, int32_t *token);

/* Does a come before c in the order of candidates (x descending, id ascending)? */
static inline bool candidate_before(const Candidate *a, const Candidate *c)
{
    return a->x > c->x || (a->x == c->x && a->id < c->id);
}
/* Sorts into that order. */
void candidates_sort(Candidate *c, int n);

/* ---- draft.c --------------------------------------------------------------------------------- */

/* Draft tokens for speculative decoding, by prompt lookup.
 *
 * Decode the last token and the draft in one batch, with logits everywhere. Sample from each in
 * turn and accept draft tokens while they equal the sampled ones; drop the rest. A batch gives the
 * bits of single tokens, so the output is the same with and without a draft. */

typedef struct DraftOptions { /* each at least 1 */
    int min_match; /* fewest tokens at the end of the sequence that must have occurred before */
    int max_match; /* a match of so many tokens is as good as a longer one; >= min_match */
    int window;    /* how many of the newest tokens are searched */
} DraftOptions;

/* Drafts the tokens after ids [n], the sequence so far, from what followed an earlier occurrence of
 * its last tokens (the longest match, the newest of equals). Writes them to out [most] and returns
 * how many: `most`, or 0 if nothing matches. Cannot fail, keeps no state. */
size_t draft_ngram(const int32_t *ids, size_t n, const DraftOptions *opt, int32_t *out,
                   size_t most);

#endif
