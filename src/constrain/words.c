/* Interned rows of words. */
#include "constrain/grammar_parts.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

bool words_add(Words *w, const uint32_t *word, size_t n)
{
    if (w->n + n >= UINT32_MAX || !ARRAY_ROOM(w->word, w->cap, w->n + n))
        return false;
    if (n)
        memcpy(w->word + w->n, word, n * sizeof *word);
    w->n += n;
    return true;
}

static size_t slot_of(const Interned *t, const uint32_t *row, size_t n)
{
    size_t i = byte_hash(&t->seed, row, n * sizeof *row) & t->mask;
    while (t->slot[i]
           && (interned_length(t, t->slot[i] - 1) != n
               || memcmp(interned_row(t, t->slot[i] - 1), row, n * sizeof *row) != 0))
        i = (i + 1) & t->mask;
    return i;
}

static bool more_slots(Interned *t)
{
    size_t    cap = t->slot ? 2 * (t->mask + 1) : 64;
    uint32_t *slot = calloc(cap, sizeof *slot);
    if (!slot)
        return false;
    if (!t->slot)
        t->seed = hash_seed_new();
    free(t->slot);
    t->slot = slot;
    t->mask = cap - 1;
    for (uint32_t i = 0; i < t->start.n; i++)
        t->slot[slot_of(t, interned_row(t, i), interned_length(t, i))] = i + 1;
    return true;
}

bool interned_put(Interned *t, const uint32_t *row, size_t n, uint32_t *number, bool *known)
{
    if ((!t->slot || 2 * t->start.n > t->mask) && !more_slots(t))
        return false;
    size_t at = slot_of(t, row, n);
    *known = t->slot[at] != 0;
    if (!*known) {
        uint32_t start = (uint32_t)t->words.n;
        if (!words_add(&t->start, &start, 1))
            return false;
        if (!words_add(&t->words, row, n)) {
            t->start.n--;
            return false;
        }
        t->slot[at] = (uint32_t)t->start.n;
    }
    *number = t->slot[at] - 1;
    return true;
}

void interned_empty(Interned *t)
{
    if (t->mask > 1 << 12) { /* clearing so many slots costs more than growing again */
        interned_free(t);
        return;
    }
    t->words.n = t->start.n = 0;
    if (t->slot)
        memset(t->slot, 0, (t->mask + 1) * sizeof *t->slot);
}

void interned_free(Interned *t)
{
    free(t->words.word);
    free(t->start.word);
    free(t->slot);
    *t = (Interned){ 0 };
}
