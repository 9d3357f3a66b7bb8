/* base/hash.c: sha256 by nettle. */
#include "base/hash.h"

#include <nettle/sha2.h>
#include <stdlib.h>

struct Sha256 {
    struct sha256_ctx ctx;
};

Sha256 *sha256_new(void)
{
    Sha256 *s = malloc(sizeof *s);
    if (s)
        sha256_init(&s->ctx);
    return s;
}

void sha256_add(Sha256 *s, const void *data, size_t n_bytes)
{
    sha256_update(&s->ctx, n_bytes, data);
}

void sha256_end(Sha256 *s, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t           digest[SHA256_DIGEST_SIZE];
    sha256_digest(&s->ctx, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = 0;
    free(s);
}
