/* text/normalize.h: rewrites a text by a list of steps before it is cut (docs/format.md, "normalizer"): the normalizers of
 * tokenizer.json. SentencePiece's own normalizer is in sentencepiece.c. */
#ifndef TEXT_NORMALIZE_H
#define TEXT_NORMALIZE_H

#include "base/json.h"
#include "base/text_out.h"
#include "text/charsmap.h"
#include "text/regex.h"

typedef struct Normalizer Normalizer; /* immutable */

/* Read the steps of the metadata entry, an array; a charsmap step uses the tables of f. what begins the messages. */
bool normalizer_open(Normalizer **z, const Json *steps, const TensorFile *f, const char *what, Error *err);
void normalizer_free(Normalizer *z); /* NULL is accepted */

/* Words are numbered with 32 bits, so a normalized text must stay under 4 GiB. */
#define NORMAL_MOST ((size_t)3 << 30)

/* False where writing a normalized text failed: INPUT at its limit, SYSTEM without memory. */
bool normalized_fits(const TextOut *o, Error *err);

/* Bytes that all steps together may write for a text of n bytes: replacements of replacements of a hostile file know no bound. The
 * worst of published files is some 50 n: seven steps, four of them on U+FDFA, whose NFKD is eleven times as long. */
static inline size_t normalizer_budget(size_t n) { return n < NORMAL_MOST / 128 ? 128 * n + 4096 : NORMAL_MOST; }

/* Rewrite text[0 .. n) into `out` (its content is replaced; scratch likewise). Bytes that are no UTF-8 stay as they are. What the steps
 * write is taken off *budget; INPUT where it is not enough. */
bool normalizer_run(const Normalizer *z, RegexRun *r, const char *text, size_t n, TextOut *out, TextOut *scratch, size_t *budget, Error *err);

#endif
