/* runtime/sampler.h: from logits to the next token, a pure function of (logits, earlier ids,
 * options, seed, index). docs/numerics.md, row "sampling", is the definition. */
#ifndef RUNTIME_SAMPLER_H
#define RUNTIME_SAMPLER_H

#include "base/error.h"
#include "base/philox.h"

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

/* The distribution to draw from. *candidates belongs to s and is valid until the next call. They
 * are in order (x descending, id ascending), with weights p > 0 whose sum is *total. temp 0: one
 * candidate. Returns how many; 0 on failure (INPUT: a NaN logit, an id out of range). */
int sampler_candidates(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous,
                       const Candidate **candidates, double *total, Error *err);

/* Draws the next token. previous: the ids that the repetition penalty counts. index: the number
 * of the draw; the same (seed, index) gives the same random number. Fails like
 * sampler_candidates. */
bool sampler_next(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous, uint32_t index, int32_t *token,
                  Error *err);

#endif
