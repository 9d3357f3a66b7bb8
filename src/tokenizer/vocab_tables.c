/* The hash tables and tries of docs/format.md. Their keys come from untrusted files, and the hashes
 * are public. So nothing here may become slow if keys are chosen to collide. */
#include <stdlib.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

/* ---- Hash tables of the model file ----------------------------------------------------------- */

/* The first free slot from i on. A full slot points to where the search continues; each search
 * shortens these paths (as in union-find). */
static uint32_t free_slot(uint32_t *next, uint32_t i)
{
    while (next[i] != i) {
        next[i] = next[next[i]];
        i = next[i];
    }
    return i;
}

bool table_make(const uint64_t *hashes, const int32_t *values, size_t n, int32_t **table,
                size_t *slots, Error *err)
{
    *slots = 16;
    while (*slots < 2 * n)
        *slots *= 2;
    int32_t  *t = malloc(*slots * sizeof *t);
    uint32_t *next = malloc(*slots * sizeof *next);
    *table = t;
    if (!t || !next) {
        free(next);
        return fail(err, SYSTEM, "out of memory for a table of %zu entries", n);
    }
    uint32_t mask = (uint32_t)*slots - 1; /* n is below 2^31 */
    memset(t, -1, *slots * sizeof *t);
    for (size_t i = 0; i < *slots; i++)
        next[i] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = free_slot(next, (uint32_t)hashes[i] & mask);
        t[slot]    = values ? values[i] : (int32_t)i;
        /* At most half the slots are full, so this never closes a circle. */
        next[slot] = (slot + 1) & mask;
    }
    free(next);
    return true;
}

/* ---- Tries ----------------------------------------------------------------------------------- */

typedef struct Key { Text text; int32_t value; } Key;
/* The keys below a node, and the length of the node's own string. */
typedef struct KeyRange { size_t first, last; uint32_t depth; } KeyRange;

static int by_bytes(const void *a, const void *b)
{
    const Text *x = &((const Key *)a)->text, *y = &((const Key *)b)->text;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Append the children of node i, one for each byte that continues its keys. The keys are sorted. */
static size_t add_children(const Key *key, KeyRange *range, TrieTable *t, size_t i, size_t n)
{
    KeyRange r = range[i];
    size_t   at = r.first, first = n;
    if (at < r.last && key[at].text.n == r.depth)
        t->nodes[i][2] = (uint32_t)key[at++].value + 1;
    while (at < r.last) {
        size_t begin = at;
        char   byte = key[at].text.p[r.depth];
        while (at < r.last && key[at].text.p[r.depth] == byte)
            at++;
        range[n] = (KeyRange){ begin, at, r.depth + 1 };
        memset(t->nodes[n], 0, sizeof t->nodes[n]);
        t->labels[n++] = (uint8_t)byte;
    }
    t->nodes[i][0] = n > first ? (uint32_t)first : 0;
    t->nodes[i][1] = (uint32_t)(n - first);
    return n;
}

/* One node for each distinct prefix of the sorted keys, and the root. */
static size_t count_nodes(const Key *key, size_t n)
{
    size_t count = 1;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0, most = i ? key[i - 1].text.n : 0;
        while (same < most && same < key[i].text.n
               && key[i - 1].text.p[same] == key[i].text.p[same])
            same++;
        count += key[i].text.n - same;
    }
    return count;
}

bool trie_make(const Text *keys, const int32_t *values, size_t n, TrieTable *out, Error *err)
{
    Key *key = malloc((n + 1) * sizeof *key);
    for (size_t i = 0; key && i < n; i++)
        key[i] = (Key){ keys[i], values[i] };
    if (key)
        qsort(key, n, sizeof *key, by_bytes);
    size_t    most = key ? count_nodes(key, n) : 1;
    KeyRange *range = most <= INT32_MAX ? calloc(most, sizeof *range) : NULL;
    *out = (TrieTable){ .nodes = range ? malloc(most * sizeof *out->nodes) : NULL,
                        .labels = range ? malloc(most) : NULL };
    bool ok = key && range && out->nodes && out->labels;
    if (ok) {
        range[0] = (KeyRange){ 0, n, 0 };
        memset(out->nodes[0], 0, sizeof out->nodes[0]);
        out->labels[0] = 0;
        out->n = 1;
        /* Breadth first, so that the children of a node are next to each other and come after
         * it. */
        for (size_t i = 0; i < out->n; i++)
            out->n = add_children(key, range, out, i, out->n);
    } else {
        fail(err, SYSTEM, "out of memory for a trie of %zu nodes", most);
    }
    free(key);
    free(range);
    return ok;
}

void trie_table_free(TrieTable *t)
{
    free(t->nodes);
    free(t->labels);
    *t = (TrieTable){ 0 };
}
