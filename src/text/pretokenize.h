/* text/pretokenize.h: cuts a text into words by a list of steps (docs/format.md, "pretokenize").
 * Each step cuts every piece of the step before it. */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include "base/json.h"
#include "text/regex.h"

typedef struct Pretokenizer Pretokenizer; /* immutable */

/* Compile the steps of the metadata entry, an array. `what` begins each message. Errors: INPUT,
 * naming the step; SYSTEM. */
bool pretokenizer_open(Pretokenizer **p, const Json *steps, const char *what, Error *err);
void pretokenizer_free(Pretokenizer *p); /* NULL is fine */

/* What one thread needs to run a pre-tokenizer. False: SYSTEM, no memory. */
typedef struct PretokenizeRun PretokenizeRun;
bool pretokenize_begin(PretokenizeRun **r, const Pretokenizer *p, RegexRun *regex, Error *err);
void pretokenize_end(PretokenizeRun *r); /* NULL is fine */

/* Call word(arg, ...) for each piece of text[0 .. n), in order; the piece is valid during the call
 * only. at_start: text begins where the whole text does. A run of invalid UTF-8 is a piece of its
 * own. Stops when word returns false. */
typedef bool (*PretokenizeWord)(void *arg, const char *word, size_t n, Error *err);
bool pretokenize(PretokenizeRun *r, const char *text, size_t n, bool at_start, PretokenizeWord word, void *arg, Error *err);

#endif
