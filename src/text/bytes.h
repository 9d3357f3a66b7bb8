/* text/bytes.h: a growing run of bytes. */
#ifndef TEXT_BYTES_H
#define TEXT_BYTES_H

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

/* Zero it to begin; free(p) at the end. most: bytes that it may come to hold, 0: BYTES_MOST. */
typedef struct Bytes { char *p; size_t n, cap, most; } Bytes;

/* Words are numbered with 32 bits, so a normalized text must stay under 4 GiB. */
#define BYTES_MOST ((size_t)3 << 30)

/* Room for more bytes behind the n that are there; then p is not NULL. */
static inline bool bytes_reserve(Bytes *b, size_t more, Error *err)
{
    size_t most = b->most ? b->most : BYTES_MOST;
    if (more > most || b->n > most - more)
        return fail(err, INPUT, "tokenizer: normalizer: expected at most %zu bytes of normalized text, found more: its rules make the text grow",
                    most);
    if (b->p && b->cap - b->n >= more)
        return true;
    size_t cap = 2 * b->cap > b->n + more ? 2 * b->cap : b->n + more + 64;
    char  *grown = realloc(b->p, cap);
    if (!grown)
        return fail(err, SYSTEM, "tokenizer: out of memory for a text of %zu bytes", cap);
    b->p   = grown;
    b->cap = cap;
    return true;
}

static inline bool bytes_add(Bytes *b, const char *p, size_t n, Error *err)
{
    if (!bytes_reserve(b, n, err))
        return false;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return true;
}

#endif
