/* base/hash.h: SHA-256, its digits, and tables of byte strings. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* ---- hash.c ---------------------------------------------------------------------------------- */

/* FNV-1a for tables and fingerprints, sha256 for model hashes and receipts: nettle's, which uses
 * the processor's SHA instructions if it has them. */

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
/* The digest of what was added; then s is reset. */
enum { SHA256_BYTES = 32 };
void    sha256_take(Sha256 *s, uint8_t digest[SHA256_BYTES]);
void    sha256_end(Sha256 *s, char hex[65]); /* writes 64 hex digits and NUL; frees s */
void    sha256_free(Sha256 *s); /* accepts NULL */
/* The digest of n bytes in hex; false: no memory. */
bool    sha256_hex(const void *data, size_t n_bytes, char hex[65]);
/* A digest as 64 hex digits and NUL, and back from 64 lowercase ones. */
void    digest_hex(const uint8_t digest[SHA256_BYTES], char hex[65]);
bool    digest_read(const char *hex, size_t n, uint8_t digest[SHA256_BYTES]);

/* ---- hex ------------------------------------------------------------------------------------- */

/* Hexadecimal digits. */

/* The value of a hex digit, 0 to 15, or -1 for another character. */
static inline int hex_digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- byte_map.c ------------------------------------------------------------------------------ */

/* A hash table from byte strings to numbers. Each table has a random seed, so
 * that no file can choose keys that collide. The results never depend on the seed. */

typedef struct ByteSlot {
    const char *p;     /* not copied; NULL: an empty slot */
    uint64_t    first; /* its first 8 bytes: most comparisons need not read p */
    uint32_t    n;
    int32_t     value;
} ByteSlot;

typedef struct HashSeed { uint64_t secret[3]; } HashSeed;

/* start zeroed */
typedef struct ByteMap { ByteSlot *slot; size_t mask, n; HashSeed seed; } ByteMap;

/* Makes room for n keys in all, so that the table does not move as they are added. Fails with
 * SYSTEM. */
bool byte_map_reserve(ByteMap *m, size_t n, Error *err);

/* Adds a key, or finds it: *found says if it was there, and then it keeps its value. Returns a
 * pointer to the value, valid until the next put, or NULL with SYSTEM (no memory). p must outlive
 * the map; n is under 4 GiB. */
int32_t *byte_map_put(ByteMap *m, const char *p, size_t n, int32_t value, bool *found, Error *err);

/* The value of a key, or `otherwise` if it is not there. */
int32_t byte_map_find(const ByteMap *m, const char *p, size_t n, int32_t otherwise);

/* The hash alone, for tables of other things. */
HashSeed hash_seed_new(void);
uint64_t byte_hash(const HashSeed *seed, const void *p, size_t n);

void byte_map_free(ByteMap *m); /* accepts a zeroed map */

#endif
