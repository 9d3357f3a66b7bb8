/* Merges given by spelling: both pieces and the piece that they form must be in the vocabulary. If
 * a pair comes twice, only one of the two rows counts. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/vocab_draft.h"

/* ---- Pairs ----------------------------------------------------------------------------------- */

static bool pair_map_grow(PairMap *m, Error *err)
{
    size_t  slots = m->slot ? 2 * (m->mask + 1) : 1024;
    PairMap grown = { .slot = malloc(slots * sizeof *grown.slot), .mask = slots - 1, .n = m->n,
                      .seed = m->slot ? m->seed : hash_seed_new() };
    if (!grown.slot)
        return fail(err, SYSTEM, "out of memory for %zu merges", slots / 2);
    for (size_t i = 0; i < slots; i++)
        grown.slot[i].row = -1;
    for (size_t i = 0; m->slot && i <= m->mask; i++) {
        if (m->slot[i].row < 0)
            continue;
        size_t at = byte_hash(&grown.seed, &m->slot[i].key, sizeof m->slot[i].key) & grown.mask;
        while (grown.slot[at].row >= 0)
            at = (at + 1) & grown.mask;
        grown.slot[at] = m->slot[i];
    }
    free(m->slot);
    *m = grown;
    return true;
}

static int32_t *pair_map_put(PairMap *m, uint32_t left, uint32_t right, int32_t row, bool *found,
                             Error *err)
{
    if ((!m->slot || m->n + 1 > (m->mask + 1) / 2) && !pair_map_grow(m, err))
        return NULL;
    uint64_t key = (uint64_t)left << 32 | right;
    size_t   at = byte_hash(&m->seed, &key, sizeof key) & m->mask;
    while (m->slot[at].row >= 0 && m->slot[at].key != key)
        at = (at + 1) & m->mask;
    *found = m->slot[at].row >= 0;
    if (!*found) {
        m->slot[at] = (struct PairSlot){ key, row };
        m->n++;
    }
    return &m->slot[at].row;
}

static void pair_map_free(PairMap *m)
{
    free(m->slot);
    *m = (PairMap){ 0 };
}

/* ---- Merges ---------------------------------------------------------------------------------- */

enum { GONE = -1 };

static bool join(MergeReader *r, Text left, Text right, Text *both)
{
    both->n = left.n + right.n;
    if (!ARRAY_ROOM(r->scratch, r->cap, both->n))
        return fail(r->d->err, SYSTEM, "%s: out of memory for %zu bytes", r->d->file, both->n);
    both->p = r->scratch;
    if (left.n)
        memcpy(r->scratch, left.p, left.n);
    if (right.n)
        memcpy(r->scratch + left.n, right.p, right.n);
    return true;
}

static bool known(MergeReader *r, Text piece, uint32_t *id)
{
    int32_t found = byte_map_find(r->ids, piece.p, piece.n, -1);
    *id = (uint32_t)found;
    return found >= 0
        || fail(r->d->err, INPUT, "%s: %s %zu: expected pieces of the vocabulary, found '%.*s'",
                r->d->file, r->what, r->n, SHOWN(piece));
}

bool merge_read(MergeReader *r, Text left, Text right)
{
    VocabDraft *d = r->d;
    Merge  m;
    Text   both = TEXT("");
    if (!join(r, left, right, &both) || !known(r, left, &m.left) || !known(r, right, &m.right)
        || !known(r, both, &m.merged))
        return false;
    r->n++;
    bool     found;
    int32_t *row = pair_map_put(&r->seen, m.left, m.right, (int32_t)d->n_merges, &found, d->err);
    if (!row)
        return false;
    if (found && r->first_holds)
        return true;
    if (found) {
        d->merges[*row].merged = (uint32_t)GONE;
        *row = (int32_t)d->n_merges;
    }
    return draft_merge(d, m);
}

bool merge_read_pair(MergeReader *r, Text spelled)
{
    const char *space = spelled.n ? memchr(spelled.p, ' ', spelled.n) : NULL;
    size_t      n = space ? (size_t)(space - spelled.p) : 0, rest = space ? spelled.n - n - 1 : 0;
    if (!space || (rest && memchr(space + 1, ' ', rest)))
        return fail(r->d->err, INPUT, "%s: %s %zu: expected two pieces, found '%.*s'", r->d->file,
                    r->what, r->n, SHOWN(spelled));
    return merge_read(r, (Text){ spelled.p, n }, (Text){ space + 1, rest });
}

void merge_reader_end(MergeReader *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->d->n_merges; i++)
        if (r->d->merges[i].merged != (uint32_t)GONE)
            r->d->merges[n++] = r->d->merges[i];
    r->d->n_merges = n;
    pair_map_free(&r->seen);
    free(r->scratch);
}
