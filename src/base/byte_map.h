/* base/byte_map.h: a hash table from byte strings to numbers. The hash of each is seeded at random, so that no file can
 * choose keys that collide; what it answers never depends on the seed. */
#ifndef BASE_BYTE_MAP_H
#define BASE_BYTE_MAP_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef struct ByteSlot {
    const char *p;     /* not copied; NULL: an empty slot                               */
    uint64_t    first; /* up to 8 bytes of it: most keys are compared without a look at p */
    uint32_t    n;
    int32_t     value;
} ByteSlot;

typedef struct HashSeed { uint64_t secret[3]; } HashSeed;

typedef struct ByteMap { ByteSlot *slot; size_t mask, n; HashSeed seed; } ByteMap; /* zero it to begin */

/* Room for n keys in all, so that they come in without moving. SYSTEM: no memory. */
bool byte_map_reserve(ByteMap *m, size_t n, Error *err);

/* Add a key that is not there yet, or find the one that is: *found says which, and the key keeps its value. Returns where
 * the value is until the next put; NULL: no memory (SYSTEM). p must outlive the map; n under 4 GiB. */
int32_t *byte_map_put(ByteMap *m, const char *p, size_t n, int32_t value, bool *found, Error *err);

/* The value of a key; `otherwise` where it is not there. */
int32_t byte_map_find(const ByteMap *m, const char *p, size_t n, int32_t otherwise);

/* The hash itself, for tables of other things. */
HashSeed hash_seed_new(void);
uint64_t byte_hash(const HashSeed *seed, const void *p, size_t n);

void byte_map_free(ByteMap *m); /* a zeroed map is accepted */

#endif
