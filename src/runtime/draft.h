/* runtime/draft.h: guesses at the next tokens, for a batch that verifies them (tblock.h: tblock_draft_ngram). */
#ifndef RUNTIME_DRAFT_H
#define RUNTIME_DRAFT_H

#include "base/error.h"

typedef tblock_draft_options DraftOptions;

/* What tblock_draft_ngram answers; every option is set here and at least 1. */
size_t draft_ngram(const int32_t *ids, size_t n, const DraftOptions *opt, int32_t *out, size_t most);

#endif
