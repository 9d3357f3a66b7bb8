/* runtime/draft.h: guesses at the next tokens, for a batch that checks them.
 *
 * Decode the last token and the draft in one batch, with logits everywhere, and draw from each in
 * turn while the token drawn is the one drafted; then forget the rest. A batch gives the bits of
 * single tokens, so the text is the same with and without a draft. */
#ifndef RUNTIME_DRAFT_H
#define RUNTIME_DRAFT_H

#include <stddef.h>
#include <stdint.h>

typedef struct DraftOptions { /* each at least 1 */
    int min_match; /* fewest tokens at the end of the text that must have occurred before */
    int max_match; /* a match of so many tokens is as good as a longer one; >= min_match */
    int window;    /* how many of the newest tokens are searched */
} DraftOptions;

/* Guess the tokens after ids [n], the text so far, from what followed its last tokens where they
 * occurred before (the longest match, the newest of equals). Writes them to out [most] and returns
 * how many: `most`, or 0 where nothing matches. Cannot fail, keeps nothing. */
size_t draft_ngram(const int32_t *ids, size_t n, const DraftOptions *opt, int32_t *out,
                   size_t most);

#endif
