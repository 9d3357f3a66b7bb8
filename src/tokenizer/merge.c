/* BPE merges of one word. A short word searches all its pairs before each merge; a long word keeps
 * its pairs in a heap. Both make the same merges in the same order. A very long word is merged in
 * windows. */
#include "base/memory.h"
#include "tokenizer/tokenizer_parts.h"

#include <stdlib.h>

typedef struct MergeEntry {
    uint64_t key;   /* rank, then left symbol: the heap's order */
    uint32_t right;
    uint32_t len;   /* of both together; if a symbol has grown since, the entry is stale */
    int32_t  id;    /* what they become                                                  */
} MergeEntry;

bool merger_add(Merger *m, uint32_t start, uint32_t len, int32_t id, bool frozen, Error *err)
{
    if (m->n >= UINT32_MAX / 2 || !ARRAY_ROOM(m->symbol, m->cap, m->n + 1))
        return fail(err, SYSTEM, "tokenizer: out of memory for a word of %zu symbols", m->n + 1);
    uint32_t i = (uint32_t)m->n++;
    m->symbol[i] = (MergeSymbol){ .start = start,
                                  .len = len,
                                  .id = id,
                                  .prev = i ? i - 1 : NO_SYMBOL,
                                  .next = NO_SYMBOL,
                                  .frozen = frozen };
    if (i)
        m->symbol[i - 1].next = i;
    return true;
}

void merger_free(Merger *m)
{
    free(m->symbol);
    free(m->heap);
    free(m->filter);
    *m = (Merger){ 0 };
}

/* 256 KB. With the 280,000 merges of Llama 3, one pair in eight passes by chance. */
enum { FILTER_BITS = 21 };

static uint64_t *filter_word(uint64_t *filter, uint32_t left, uint32_t right, uint64_t *bit)
{
    uint64_t h = (left * 0x9E3779B97F4A7C15u + right * 0xC2B2AE3D27D4EB4Fu) >> (64 - FILTER_BITS);
    *bit = (uint64_t)1 << (h & 63);
    return &filter[h / 64];
}

void merger_filter(Merger *m, const Vocab *v)
{
    uint64_t bit;
    m->filter = v->kind == VOCAB_MERGES ? calloc((1 << FILTER_BITS) / 64, sizeof *m->filter) : NULL;
    for (size_t i = 0; m->filter && i < v->n_merges; i++) {
        uint64_t *word = filter_word(m->filter, v->merges[3 * i], v->merges[3 * i + 1], &bit);
        *word |= bit;
    }
}

static bool may_merge(const Merger *m, const MergeSymbol *a, const MergeSymbol *b)
{
    uint64_t bit;
    return !m->filter || *filter_word(m->filter, (uint32_t)a->id, (uint32_t)b->id, &bit) & bit;
}

static bool pair(const Merger *m, const Vocab *v, const char *word, uint32_t left, MergeEntry *out)
{
    const MergeSymbol *a = &m->symbol[left];
    if (a->next == NO_SYMBOL)
        return false;
    const MergeSymbol *b = &m->symbol[a->next];
    if (a->frozen || b->frozen || !may_merge(m, a, b))
        return false;
    uint32_t rank, len = a->len + b->len;
    int32_t  id;
    if (!vocab_merge(v, a->id, b->id, word + a->start, len, &rank, &id))
        return false;
    *out =
        (MergeEntry){ .key = (uint64_t)rank << 32 | left, .right = a->next, .len = len, .id = id };
    return true;
}

static void join(Merger *m, const MergeEntry *e, uint32_t time)
{
    uint32_t     left = (uint32_t)e->key;
    MergeSymbol *a = &m->symbol[left], *b = &m->symbol[e->right];
    a->len  = e->len;
    a->id   = e->id;
    a->next = b->next;
    b->len  = 0;
    b->time = time;
    if (a->next != NO_SYMBOL)
        m->symbol[a->next].prev = left;
}

/* ---- Short words: look at every pair each time ----------------------------------------------- */

/* In symbols. Up to here, the quadratic loop, over one or two cache lines, beats the heap. */
enum { SHORT_WORD = 40 };

static void run_short(Merger *m, const Vocab *v, const char *word)
{
    MergeEntry entry[SHORT_WORD]; /* of the pair whose left symbol has this index */
    for (uint32_t i = 0; i < m->n; i++)
        if (!pair(m, v, word, i, &entry[i]))
            entry[i].key = UINT64_MAX;
    for (uint32_t time = 1;; time++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < m->n; i++)
            if (entry[i].key < entry[best].key)
                best = i;
        if (entry[best].key == UINT64_MAX)
            return;
        entry[entry[best].right].key = UINT64_MAX;
        join(m, &entry[best], time);
        uint32_t prev = m->symbol[best].prev;
        if (!pair(m, v, word, best, &entry[best]))
            entry[best].key = UINT64_MAX;
        if (prev != NO_SYMBOL && !pair(m, v, word, prev, &entry[prev]))
            entry[prev].key = UINT64_MAX;
    }
}

/* ---- Long words: a heap of pairs ------------------------------------------------------------- */

static void heap_push(Merger *m, MergeEntry e)
{
    size_t i = m->n_heap++;
    for (; i && m->heap[(i - 1) / 2].key > e.key; i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = e;
}

static MergeEntry heap_pop(Merger *m)
{
    MergeEntry top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->n_heap; i = child) {
        if (child + 1 < m->n_heap && m->heap[child + 1].key < m->heap[child].key)
            child++;
        if (last.key <= m->heap[child].key)
            break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

/* Enough for every merge: there are n - 1 pairs at first, and each of at most n - 1 merges takes
 * one entry out and puts at most two in. */
static bool heap_reserve(Merger *m, Error *err)
{
    if (m->heap_cap >= 2 * m->n)
        return true;
    free(m->heap);
    m->heap_cap = 0;
    m->heap     = malloc(2 * m->n * sizeof *m->heap);
    if (!m->heap)
        return fail(err, SYSTEM, "tokenizer: out of memory for a word of %zu symbols", m->n);
    m->heap_cap = 2 * m->n;
    return true;
}

static bool run_long(Merger *m, const Vocab *v, const char *word, Error *err)
{
    if (!heap_reserve(m, err))
        return false;
    MergeEntry e;
    m->n_heap = 0;
    for (uint32_t i = 0; i + 1 < m->n; i++)
        if (pair(m, v, word, i, &e))
            heap_push(m, e);
    for (uint32_t time = 1; m->n_heap; time++) {
        MergeEntry top = heap_pop(m);
        uint32_t   left = (uint32_t)top.key;
        if (m->symbol[left].len == 0 || m->symbol[top.right].len == 0
            || m->symbol[left].len + m->symbol[top.right].len != top.len)
            continue;
        join(m, &top, time);
        if (pair(m, v, word, left, &e))
            heap_push(m, e);
        uint32_t prev = m->symbol[left].prev;
        if (prev != NO_SYMBOL && pair(m, v, word, prev, &e))
            heap_push(m, e);
    }
    return true;
}

static bool merge(Encoder *e, const char *word, size_t n, WordSymbols symbols, Error *err)
{
    Merger *m = &e->merger;
    m->n = 0;
    if (!symbols(e, word, n, err))
        return false;
    if (m->n > SHORT_WORD)
        return run_long(m, &e->t->vocab, word, err);
    if (m->n > 1)
        run_short(m, &e->t->vocab, word);
    return true;
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* Merges in a window do not see the text outside. They are exact if no merge of the whole word
 * crosses the window's edges. The first one to cross an edge would join parts of the piece before
 * it and the piece after it, and until then the merges inside these two depend on nothing else. So
 * no merge crosses the edge if none does when the two pieces are merged alone. */

/* The window's last eighth is merged again in the next window: its pieces do not know what follows.
 * The end of a window may cut a character or a user-defined symbol (at most 1,024 bytes). */
static size_t kept(size_t window) { return window / 8 * 7; }

/* Append the ids of a word that is merged in windows of so many bytes. *crossed: in the whole word
 * a merge crosses the edge of a window, or a window has no edge; out may have some ids. */
static bool windows(Encoder *e, const char *word, size_t n, size_t window, WordSymbols symbols,
                    PushSymbol push, bool *crossed, Error *err)
{
    const Merger *m = &e->merger;
    size_t before = 0; /* start of the last piece before the window */
    for (size_t at = 0, cut; at < n && !*crossed; at += cut) {
        const bool   last = n - at <= window;
        const size_t len = last ? n - at : window, keep = last ? len : kept(window);
        if (!merge(e, word + at, len, symbols, err))
            return false;
        uint32_t     i = m->n ? 0 : NO_SYMBOL;
        const size_t first_end = m->n ? at + m->symbol[0].start + m->symbol[0].len : at;
        size_t       piece = at;
        for (; i != NO_SYMBOL && m->symbol[i].start < keep; i = m->symbol[i].next) {
            piece = at + m->symbol[i].start;
            if (!push(e, word + at, len, i, err))
                return false;
        }
        cut = i == NO_SYMBOL ? len : m->symbol[i].start;
        *crossed = i == NO_SYMBOL && !last;
        if (at) {
            if (!merge(e, word + before, first_end - before, symbols, err))
                return false;
            for (i = 0; i != NO_SYMBOL && m->symbol[i].start < at - before;)
                i = m->symbol[i].next;
            *crossed |= i == NO_SYMBOL || m->symbol[i].start != at - before;
        }
        before = piece;
    }
    return true;
}

bool merged_word(Encoder *e, const char *word, size_t n, WordSymbols symbols, PushSymbol push,
                 Error *err)
{
    enum { WINDOW = 1 << 16 };
    const size_t first = e->out->n;
    bool         crossed = true;
    for (size_t window = WINDOW; crossed; window *= 4) {
        crossed   = false;
        e->out->n = first;
        if (!windows(e, word, n, window, symbols, push, &crossed, err))
            return false;
    }
    return true;
}
