/* text/normalize.h: rewrites a text by a list of steps before it is cut into words (docs/format.md,
 * "normalizer"). These are the normalizers of tokenizer.json; SentencePiece's own is in
 * sentencepiece.c. */
#ifndef TEXT_NORMALIZE_H
#define TEXT_NORMALIZE_H

#include "base/json.h"
#include "base/text_out.h"
#include "text/charsmap.h"
#include "text/regex.h"

typedef struct Normalizer Normalizer; /* immutable */

/* Read the steps of the metadata entry, an array. A charsmap step uses the tables of f, which must
 * outlive *z. `what` begins each message. Errors: INPUT, SYSTEM. */
bool normalizer_open(Normalizer **z, const Json *steps, const TensorFile *f, const char *what, Error *err);
void normalizer_free(Normalizer *z); /* NULL is fine */

/* Positions in words have 32 bits, so a normalized text must stay under 4 GiB. */
#define NORMAL_MOST ((size_t)3 << 30)

/* Did writing the normalized text succeed? If not, *err is INPUT (too long) or SYSTEM (no
 * memory). */
bool normalized_fits(const TextOut *o, Error *err);

/* Most bytes that all steps together may write for a text of n bytes. Without a bound, replacements
 * of replacements in a hostile file could grow without end. The worst published file writes about
 * 50 n: seven steps, four of them on U+FDFA, whose NFKD is eleven times as long. */
static inline size_t normalizer_budget(size_t n) { return n < NORMAL_MOST / 128 ? 128 * n + 4096 : NORMAL_MOST; }

/* Rewrite text[0 .. n) into `out`, whose content is replaced; scratch is overwritten too. Invalid
 * UTF-8 stays as it is. The bytes that the steps write are subtracted from *budget. Errors: INPUT
 * (the budget is used up, a pattern that runs away), SYSTEM. */
bool normalizer_run(const Normalizer *z, RegexRun *r, const char *text, size_t n, TextOut *out, TextOut *scratch, size_t *budget, Error *err);

#endif
