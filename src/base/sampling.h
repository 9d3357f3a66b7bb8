/* base/sampling.h: the sampling options that are numbers, a row for each. The command line,
 * requests, OpenAPI, /props, the page, receipts, audits and Python read these rows;
 * runtime/sampler.c says what the options do. Logit bias and seed, which are no such numbers, are
 * declared by each of them. */
#ifndef BASE_SAMPLING_H
#define BASE_SAMPLING_H

#include "tblock_tools.h"

/* X(field of tblock_sampler_options and key in receipts, its type,
 *   least, most and default of run, its name in run, its help;
 *   least, off (the default) and name of a request's parameter, name in /props and Python, help)
 * From least to most is the same for the claim of an audit. The sampler accepts a wider range. */
#define SAMPLING_ROWS(X)                                                                           \
    X(temp, FLOAT, 0, 100, 0.8, "temp", "sampling temperature; 0 is greedy",                       \
      0, 1, "temperature", "temperature", "sharpens the distribution; 0 is greedy")                \
    X(top_k, INT, 0, 1 << 24, 40, "top-k", "sample from the N most likely tokens; 0: all",         \
      -1, 0, "top_k", "top_k", "sample among so many most probable tokens; 0 and -1: all")         \
    X(top_p, DOUBLE, 1e-6, 1, 0.95, "top-p",                                                       \
      "of these, the fewest whose probabilities add up to F; 1: all", 0, 1, "top_p", "top_p",      \
      "sample among the most probable tokens that have this share together")                       \
    X(min_p, FLOAT, 0, 1, 0, "min-p",                                                              \
      "of these, those at least F times as likely as the most likely one; 0: all", 0, 0, "min_p",  \
      "min_p", "leave out tokens less probable than this share of the most probable one")          \
    X(repeat_penalty, FLOAT, 0.01, 100, 1, "repeat-penalty",                                       \
      "make tokens that are already in the text less likely; 1: off", 0.01, 1,                     \
      "repetition_penalty", "repeat_penalty",                                                      \
      "divides the logits of tokens that were there; 1: nothing")                                  \
    X(presence_penalty, FLOAT, -100, 100, 0, "presence-penalty",                                   \
      "subtract F from the logit of each token generated so far", -100, 0,                         \
      "presence_penalty", "presence_penalty", "taken off the logit of each token generated so far")\
    X(frequency_penalty, FLOAT, -100, 100, 0, "frequency-penalty",                                 \
      "subtract F for each time the token was generated", -100, 0, "frequency_penalty",            \
      "frequency_penalty", "the same, for each time that it was generated")                        \
    X(min_tokens, INT, 0, 1 << 24, 0, "min-tokens",                                                \
      "until N tokens are generated, no end token and no stop text ends the text", 0, 0,           \
      "min_tokens", "min_tokens",                                                                  \
      "until so many tokens are generated, no end token and no stop text ends the text")

#define SAMPLING_NUMBER(field, ...) SAMPLING_##field,
enum { SAMPLING_ROWS(SAMPLING_NUMBER) SAMPLING_N };
#undef SAMPLING_NUMBER

#define RANGE_BIAS -1000, 1000

#define SAMPLING_EACH(row)                                                                         \
    for (const tblock_sampling_row *row = tblock_sampling_rows(); row->field; row++)

static inline double sampling_get(const tblock_sampler_options *o, const tblock_sampling_row *row)
{
    const char *at = (const char *)o + row->at;
    return row->type == TBLOCK_FLOAT    ? (double)*(const float *)at
           : row->type == TBLOCK_DOUBLE ? *(const double *)at
                                        : *(const int *)at;
}

/* x is a number of its type. */
static inline void sampling_put(tblock_sampler_options *o, const tblock_sampling_row *row, double x)
{
    char *at = (char *)o + row->at;
    if (row->type == TBLOCK_FLOAT)
        *(float *)at = (float)x;
    else if (row->type == TBLOCK_DOUBLE)
        *(double *)at = x;
    else
        *(int *)at = (int)x;
}

#endif
