/* tests/fuzz/fuzz.h: what every target asks of the functions that it calls. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A failure says why, in one line. */
static inline bool said(bool ok, const Error *e)
{
    if (!ok && (e->status == 0 || !e->msg[0] || strchr(e->msg, '\n')))
        abort();
    return ok;
}

static inline void claim(bool holds)
{
    if (!holds)
        abort();
}

/* Every byte, so that the sanitizers see them. */
static inline void touch(const void *data, size_t n)
{
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)data)[i]);
}

/* A copy that ends where the bytes end: a text that a reader must not read past. */
static inline char *exact_copy(const void *bytes, size_t n)
{
    char *copy = malloc(n + 1);
    claim(copy != NULL);
    if (n)
        memcpy(copy, bytes, n);
    copy[n] = '\0';
    return copy;
}

#endif
