/* tests/fuzz/made_tokenizer.h: uses the tokenizer that a maker has made. */
#ifndef MADE_TOKENIZER_H
#define MADE_TOKENIZER_H

#include "fuzz.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokmake.h"

/* Calls use with the tokenizer and the text. False: it is refused. */
static inline bool use_made(const TokenizerData *data, const char *text, size_t n,
                            void (*use)(const Tokenizer *t, const char *text, size_t n))
{
    Error      e = { 0 };
    TensorFile f;
    Tokenizer *t = NULL;
    claim(tokenizer_data_view(&f, data, &e));
    bool ok = said(tokenizer_open(&t, &f, &e), &e);
    if (ok)
        use(t, text, n);
    tokenizer_free(t);
    tensor_file_close(&f);
    return ok;
}

/* A text as ids and back: *back [*n_back], which the caller frees. False: it is refused. */
static inline bool there_and_back(const Tokenizer *t, const char *text, size_t n, bool special,
                                  char **back, size_t *n_back)
{
    Error e = { 0 };
    Ids   ids = { 0 };
    *back = NULL;
    bool ok = said(tokenizer_encode(t, text, n, special, special, &ids, &e), &e);
    claim(!ok || tokenizer_decode(t, ids.id, ids.n, back, n_back, &e));
    free(ids.id);
    return ok;
}

#endif
