/* base/hash.h: FNV-1a for tables and fingerprints, sha256 (nettle) for model hashes. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Continues the hash h over n bytes; start with FNV_SEED. */
#define FNV_SEED 0xcbf29ce484222325u
static inline uint64_t fnv1a(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

typedef struct Sha256 Sha256;
Sha256 *sha256_new(void); /* NULL: no memory */
void    sha256_add(Sha256 *s, const void *data, size_t n_bytes);
void    sha256_end(Sha256 *s, char hex[65]); /* writes 64 hex digits and NUL; frees s */

#endif
