/* base/byte_map.c: a hash table with linear probing, at most half full. The hash folds 16 bytes
 * at a time: it multiplies them with a secret to 128 bits, as wyhash does (Wang Yi, public
 * domain). */
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 Wide;

enum { SMALLEST = 16 };

HashSeed hash_seed_new(void)
{
    HashSeed seed = { { 0 } };
    /* Never fails since Linux 3.17. If it does, an address is a secret too. */
    if (getentropy(&seed, sizeof seed) != 0) {
        seed.secret[0] = (uint64_t)(uintptr_t)&seed * 0x9E3779B97F4A7C15u;
        seed.secret[1] = seed.secret[0] * 0xC2B2AE3D27D4EB4Fu;
        seed.secret[2] = seed.secret[1] * 0x9E3779B97F4A7C15u;
    }
    for (int i = 0; i < 3; i++)
        seed.secret[i] |= 1;
    return seed;
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    Wide product = (Wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load(const char *p, size_t n)
{
    uint64_t v = 0;
    if (n) /* p may be NULL */
        memcpy(&v, p, n);
    return v;
}

static inline uint64_t hash(const HashSeed *seed, const char *p, size_t n)
{
    const uint64_t *secret = seed->secret;
    uint64_t        h = secret[0] ^ n;
    for (; n > 16; p += 16, n -= 16)
        h = fold(load(p, 8) ^ secret[1], load(p + 8, 8) ^ h);
    uint64_t low = load(p, n < 8 ? n : 8), high = n > 8 ? load(p + 8, n - 8) : 0;
    return fold(fold(low ^ secret[1], high ^ h), secret[2]);
}

uint64_t byte_hash(const HashSeed *seed, const void *p, size_t n) { return hash(seed, p, n); }

static ByteSlot *seek(const ByteMap *m, const char *p, size_t n, uint64_t h)
{
    uint64_t first = load(p, n < 8 ? n : 8);
    for (size_t i = h & m->mask;; i = (i + 1) & m->mask) {
        ByteSlot *s = &m->slot[i];
        if (!s->p
            || (s->first == first && s->n == n && (n <= 8 || memcmp(s->p + 8, p + 8, n - 8) == 0)))
            return s;
    }
}

bool byte_map_reserve(ByteMap *m, size_t n, Error *err)
{
    if (m->slot && n <= (m->mask + 1) / 2)
        return true;
    size_t slots = SMALLEST;
    while (slots / 2 < n && slots <= SIZE_MAX / 4 / sizeof(ByteSlot))
        slots *= 2;
    ByteMap grown = { .slot = slots / 2 < n ? NULL : calloc(slots, sizeof *grown.slot),
                      .mask = slots - 1,
                      .n = m->n,
                      .seed = m->slot ? m->seed : hash_seed_new() };
    if (!grown.slot)
        return fail(err, SYSTEM, "out of memory for a table of %zu entries", n);
    for (size_t i = 0; m->slot && i <= m->mask; i++)
        if (m->slot[i].p)
            *seek(&grown, m->slot[i].p, m->slot[i].n, hash(&m->seed, m->slot[i].p, m->slot[i].n)) =
                m->slot[i];
    free(m->slot);
    *m = grown;
    return true;
}

int32_t *byte_map_put(ByteMap *m, const char *p, size_t n, int32_t value, bool *found, Error *err)
{
    if ((!m->slot || m->n + 1 > (m->mask + 1) / 2)
        && !byte_map_reserve(m, m->n ? 2 * m->n : SMALLEST / 2, err))
        return NULL;
    uint64_t  h = hash(&m->seed, p, n);
    ByteSlot *s = seek(m, p, n, h);
    *found = s->p != NULL;
    if (!s->p) {
        *s =
            (ByteSlot){ .p = p, .first = load(p, n < 8 ? n : 8), .n = (uint32_t)n, .value = value };
        m->n++;
    }
    return &s->value;
}

int32_t byte_map_find(const ByteMap *m, const char *p, size_t n, int32_t otherwise)
{
    if (!m->slot)
        return otherwise;
    const ByteSlot *s = seek(m, p, n, hash(&m->seed, p, n));
    return s->p ? s->value : otherwise;
}

void byte_map_free(ByteMap *m)
{
    free(m->slot);
    *m = (ByteMap){ 0 };
}
