/* base/byte_map.h: a hash table from byte strings to numbers. Each table has a random seed, so
 * that no file can choose keys that collide. The answers never depend on the seed. */
#ifndef BASE_BYTE_MAP_H
#define BASE_BYTE_MAP_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef struct ByteSlot {
    const char *p;     /* not copied; NULL: an empty slot */
    uint64_t    first; /* its first 8 bytes: most comparisons need no look at p */
    uint32_t    n;
    int32_t     value;
} ByteSlot;

typedef struct HashSeed { uint64_t secret[3]; } HashSeed;

typedef struct ByteMap { ByteSlot *slot; size_t mask, n; HashSeed seed; } ByteMap; /* zero it to begin */

/* Makes room for n keys in all, so that the table does not move as they are added. Fails with
 * SYSTEM. */
bool byte_map_reserve(ByteMap *m, size_t n, Error *err);

/* Adds a key, or finds it: *found says if it was there, and then it keeps its value. Returns
 * where the value is until the next put, or NULL with SYSTEM (no memory). p must outlive the
 * map; n is under 4 GiB. */
int32_t *byte_map_put(ByteMap *m, const char *p, size_t n, int32_t value, bool *found, Error *err);

/* The value of a key, or `otherwise` if it is not there. */
int32_t byte_map_find(const ByteMap *m, const char *p, size_t n, int32_t otherwise);

/* The hash alone, for tables of other things. */
HashSeed hash_seed_new(void);
uint64_t byte_hash(const HashSeed *seed, const void *p, size_t n);

void byte_map_free(ByteMap *m); /* accepts a zeroed map */

#endif
