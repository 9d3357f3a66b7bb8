/* The values of a pickle, in blocks of memory that are counted and freed together. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "format/pickle.h"

typedef struct PickleBlock {
    struct PickleBlock *next;
    size_t              used, cap;
    _Alignas(16) unsigned char bytes[];
} PickleBlock;

enum { BLOCK_BYTES = 64 << 10 };

void *pickle_alloc(Pickle *p, size_t n_bytes, Error *err)
{
    size_t limit = p->limit ? p->limit : PICKLE_MEMORY_MAX;
    if (n_bytes > limit || p->used > limit - n_bytes) {
        fail(err, INPUT, "expected objects of at most %zu MB in memory, found more", limit >> 20);
        return NULL;
    }
    n_bytes = round_up(n_bytes, 16);
    PickleBlock *b = p->blocks;
    if (!b || n_bytes > b->cap - b->used) {
        size_t cap = n_bytes > BLOCK_BYTES / 4 ? n_bytes : BLOCK_BYTES;
        b = calloc(1, sizeof *b + cap);
        if (!b) {
            fail(err, SYSTEM, "out of memory for a pickle's objects");
            return NULL;
        }
        b->cap = cap;
        /* This block is full: keep the block with room in front. */
        if (p->blocks && cap == n_bytes) {
            b->next = p->blocks->next;
            p->blocks->next = b;
        } else {
            b->next = p->blocks;
            p->blocks = b;
        }
    }
    void *out = b->bytes + b->used;
    b->used += n_bytes;
    p->used += n_bytes;
    return out;
}

void pickle_free(Pickle *p)
{
    for (PickleBlock *b = p->blocks; b;) {
        PickleBlock *next = b->next;
        free(b);
        b = next;
    }
    *p = (Pickle){ 0 };
}

bool pickle_append(Pickle *p, PickleItems *items, PickleValue v, Error *err)
{
    if (items->n == items->cap) {
        size_t       cap = items->cap ? 2 * items->cap : 4;
        /* No overflow: the old size was counted. */
        PickleValue *at = pickle_alloc(p, cap * sizeof *at, err);
        if (!at)
            return false;
        if (items->n)
            memcpy(at, items->at, items->n * sizeof *at);
        items->at = at;
        items->cap = cap;
    }
    items->at[items->n++] = v;
    return true;
}

bool pickle_new_items(Pickle *p, PickleKind kind, const PickleValue *from, size_t n,
                      PickleValue *out, Error *err)
{
    size_t       n_bytes;
    PickleItems *items = pickle_alloc(p, sizeof *items, err);
    if (!items)
        return false;
    if (n) {
        if (!mul_size(n, sizeof *from, &n_bytes) || !(items->at = pickle_alloc(p, n_bytes, err)))
            return false;
        memcpy(items->at, from, n_bytes);
    }
    items->n = items->cap = n;
    *out = (PickleValue){ .kind = kind, .items = items };
    return true;
}

const char *pickle_kind_name(PickleKind kind)
{
    static const char *const names[] = {
        [PICKLE_NONE] = "None",     [PICKLE_BOOL] = "bool",     [PICKLE_INT] = "int",
        [PICKLE_LONG] = "long int", [PICKLE_FLOAT] = "float",   [PICKLE_STRING] = "string",
        [PICKLE_BYTES] = "bytes",   [PICKLE_TUPLE] = "tuple",   [PICKLE_LIST] = "list",
        [PICKLE_DICT] = "dict",     [PICKLE_GLOBAL] = "global", [PICKLE_STORAGE] = "torch storage",
        [PICKLE_TENSOR] = "tensor",
    };
    return names[kind];
}

bool pickle_is_text(const PickleValue *v, const char *text)
{
    return (v->kind == PICKLE_STRING || v->kind == PICKLE_BYTES) && v->n == strlen(text)
        && memcmp(v->text, text, v->n) == 0;
}

const PickleValue *pickle_get(const PickleValue *dict, const char *key)
{
    if (dict->kind != PICKLE_DICT)
        return NULL;
    for (size_t i = dict->items->n / 2; i-- > 0;)
        if (pickle_is_text(&dict->items->at[2 * i], key))
            return &dict->items->at[2 * i + 1];
    return NULL;
}
