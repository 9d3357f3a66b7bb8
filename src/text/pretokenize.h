/* text/pretokenize.h: cuts a text into words by a list of regular expressions, run by PCRE2 with UTF and UCP (JIT where the
 * system allows it). Each step cuts every piece that the step before left; a match is a piece, and so is what lies between
 * matches ("isolated"). */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include "base/json.h"

typedef struct Pretokenizer Pretokenizer; /* immutable */

/* Compile the steps of the metadata entry (an array, docs/format.md). what begins the messages. Errors: INPUT, naming the
 * step and PCRE2's reason. */
bool pretokenizer_open(Pretokenizer **p, const Json *steps, const char *what, Error *err);
void pretokenizer_free(Pretokenizer *p); /* NULL is accepted */

/* What one thread needs to run them. Patterns come from files that nobody vouches for, so backtracking, stack and heap of
 * each attempt at a match are bounded: running into a bound is an INPUT error, never a wrong cut. */
typedef struct PretokenizeRun PretokenizeRun;
bool pretokenize_begin(PretokenizeRun **r, const Pretokenizer *p, Error *err);
void pretokenize_end(PretokenizeRun *r); /* NULL is accepted */

/* Call word(arg, ...) for each piece of text[0 .. n), in order; they cover it. Runs of invalid UTF-8 are pieces of their own.
 * Stops when word returns false. */
typedef bool (*PretokenizeWord)(void *arg, const char *word, size_t n, Error *err);
bool pretokenize(PretokenizeRun *r, const char *text, size_t n, PretokenizeWord word, void *arg, Error *err);

#endif
