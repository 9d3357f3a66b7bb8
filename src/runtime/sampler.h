/* runtime/sampler.h: from logits to the next token, a pure function of (logits, ids so far, options, seed, index).
 * docs/numerics.md, row "sampling", is the definition. */
#ifndef RUNTIME_SAMPLER_H
#define RUNTIME_SAMPLER_H

#include "base/error.h"
#include "base/philox.h"

typedef tblock_sampler_options SamplerOptions;
typedef struct tblock_sampler  Sampler;

typedef struct Candidate { float x, p; int32_t id; } Candidate; /* x: logit after penalty and temperature; p: weight */

/* Ranges: temp 0 or at least 1e-6, top_k >= 0, 0 <= top_p, min_p <= 1, repeat_penalty >= 0; else USAGE. 0 switches each off. */
Sampler *sampler_new(int vocab_size, const SamplerOptions *opt, Error *err);
void     sampler_free(Sampler *s); /* NULL is accepted */

/* The distribution to draw from: *candidates (owned by s, valid until its next call) in order (x descending, id ascending), with weights
 * p > 0 whose sum is *total. temp 0: one candidate. Returns how many; 0 on error (a NaN logit, an id out of range: INPUT). */
int sampler_candidates(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous,
                       const Candidate **candidates, double *total, Error *err);

bool sampler_next(Sampler *s, const float *logits, const int32_t *previous, size_t n_previous, uint32_t index, int32_t *token,
                  Error *err);

#endif
