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

void sha256_take(Sha256 *s, uint8_t digest[SHA256_BYTES])
{
    sha256_digest(&s->ctx, SHA256_BYTES, digest);
}

void sha256_free(Sha256 *s) { free(s); }

void sha256_end(Sha256 *s, char hex[65])
{
    uint8_t digest[SHA256_BYTES];
    sha256_take(s, digest);
    digest_hex(digest, hex);
    sha256_free(s);
}

bool sha256_hex(const void *data, size_t n_bytes, char hex[65])
{
    Sha256 *s = sha256_new();
    if (!s)
        return false;
    sha256_add(s, data, n_bytes);
    sha256_end(s, hex);
    return true;
}

void digest_hex(const uint8_t digest[SHA256_BYTES], char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        hex[2 * i]     = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * SHA256_BYTES] = 0;
}

bool digest_read(const char *hex, size_t n, uint8_t digest[SHA256_BYTES])
{
    if (n != 2 * SHA256_BYTES)
        return false;
    for (size_t i = 0; i < n; i++) {
        const int digit = hex_digit(hex[i]);
        if (digit < 0 || (hex[i] >= 'A' && hex[i] <= 'F'))
            return false;
        digest[i / 2] = (uint8_t)(i % 2 ? digest[i / 2] << 4 | digit : digit);
    }
    return true;
}
