/* text/bytes.h: a growing run of bytes. */
#ifndef TEXT_BYTES_H
#define TEXT_BYTES_H

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

typedef struct Bytes { char *p; size_t n, cap; } Bytes; /* zero it to begin; free(p) at the end */

/* Words are numbered with 32 bits, so a normalized text must stay under 4 GiB. */
#define BYTES_MOST ((size_t)3 << 30)

/* Room for more bytes behind the n that are there; then p is not NULL. */
static inline bool bytes_reserve(Bytes *b, size_t more, Error *err)
{
    if (b->p && b->cap - b->n >= more)
        return true;
    if (more > BYTES_MOST - b->n)
        return fail(err, INPUT, "tokenizer: the normalized text is over %zu bytes", BYTES_MOST);
    size_t cap = 2 * b->cap > b->n + more ? 2 * b->cap : b->n + more + 64;
    char  *grown = realloc(b->p, cap);
    if (!grown)
        return fail(err, SYSTEM, "tokenizer: no memory for a text of %zu bytes", cap);
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
