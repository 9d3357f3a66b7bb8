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

/* Rewrite text[0 .. n) into `out` (its content is replaced; scratch likewise). Bytes that are no UTF-8 stay as they are. */
bool normalizer_run(const Normalizer *z, RegexRun *r, const char *text, size_t n, Bytes *out, Bytes *scratch, Error *err);

#endif
