/* text/normalize.h: rewrites a text by a list of steps before it is cut (docs/format.md, "normalizer"): the normalizers of
 * tokenizer.json. SentencePiece's own normalizer is in sentencepiece.c. */
#ifndef TEXT_NORMALIZE_H
#define TEXT_NORMALIZE_H

#include "base/json.h"
#include "text/bytes.h"
#include "text/charsmap.h"
#include "text/regex.h"

typedef struct Normalizer Normalizer; /* immutable */

/* Read the steps of the metadata entry, an array; a charsmap step uses the tables of f. what begins the messages. */
bool normalizer_open(Normalizer **z, const Json *steps, const TensorFile *f, const char *what, Error *err);
void normalizer_free(Normalizer *z); /* NULL is accepted */

/* Bytes that all steps together may write for a text of n bytes: replacements of replacements of a hostile file know no bound. The
 * worst of published files is some 50 n: seven steps, four of them on U+FDFA, whose NFKD is eleven times as long. */
static inline size_t normalizer_budget(size_t n) { return n < BYTES_MOST / 128 ? 128 * n + 4096 : BYTES_MOST; }

/* Rewrite text[0 .. n) into `out` (its content is replaced; scratch likewise). Bytes that are no UTF-8 stay as they are. What the steps
 * write is taken off *budget; INPUT where it is not enough. */
bool normalizer_run(const Normalizer *z, RegexRun *r, const char *text, size_t n, Bytes *out, Bytes *scratch, size_t *budget, Error *err);

#endif
