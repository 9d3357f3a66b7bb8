/* The storages that the pickles of a checkpoint named, each once, sorted by key. */
#include "format/pth.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

static int by_key(const void *a, const void *b)
{
    const PthStorage *x = a, *y = b;
    size_t n = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
    int    order = n ? memcmp(x->key, y->key, n) : 0;
    return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

static int key_shown(const PthStorage *s) { return s->key_bytes < 100 ? (int)s->key_bytes : 100; }

static bool from_pickle(PthStorage *out, const PickleStorage *s, const char *path, Error *err)
{
    *out = (PthStorage){ .key = s->key,
                         .key_bytes = s->key_bytes,
                         .element_bytes = dtype_bytes(s->dtype) };
    if (!mul_size((size_t)s->n_elements, out->element_bytes, &out->n_bytes))
        return fail(err, INPUT, "%s: storage %.*s: the size of %lld elements overflows", path,
                    key_shown(out), s->key, (long long)s->n_elements);
    return true;
}

/* Keep one entry for each key. An empty storage may be named with several types. */
static bool drop_repeats(PthStorages *s, const char *path, Error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const PthStorage *last = n ? &s->at[n - 1] : NULL, *next = &s->at[i];
        if (!last || by_key(last, next) != 0) {
            s->at[n++] = *next;
            continue;
        }
        if (last->n_bytes != next->n_bytes
            || (last->n_bytes && last->element_bytes != next->element_bytes))
            return fail(err, INPUT,
                        "%s: storage %.*s: expected one size, found %zu bytes in elements of %zu "
                        "and %zu in elements of %zu",
                        path, key_shown(next), next->key, last->n_bytes, last->element_bytes,
                        next->n_bytes, next->element_bytes);
    }
    s->n = n;
    return true;
}

bool pth_storages_collect(PthStorages *s, const Pickle *p, const char *path, Error *err)
{
    *s = (PthStorages){ .at = calloc(p->storages.n + 1, sizeof *s->at) };
    if (!s->at)
        return fail(err, SYSTEM, "%s: out of memory for %zu storages", path, p->storages.n);
    for (; s->n < p->storages.n; s->n++)
        if (!from_pickle(&s->at[s->n], p->storages.at[s->n].storage, path, err))
            return false;
    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, by_key);
    return drop_repeats(s, path, err);
}

void pth_storages_free(PthStorages *s)
{
    free(s->at);
    *s = (PthStorages){ 0 };
}

PthStorage *pth_storages_find(const PthStorages *s, const char *key, size_t key_bytes)
{
    PthStorage wanted = { .key = key, .key_bytes = key_bytes };
    return s->n ? bsearch(&wanted, s->at, s->n, sizeof *s->at, by_key) : NULL;
}
