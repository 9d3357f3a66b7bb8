/* Byte-level BPE training. The text becomes a table of distinct words with counts. Each step merges
 * the most frequent pair, only in the words that have it. The best pair comes from a heap whose
 * entries (offers) may be stale: an offer is checked against the pair's count when it is popped. */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_parts.h"

enum { LONGEST_WORD = 256 };

/* A word that occurs `count` times. Its symbols are ids; each merge leaves fewer of them. */
typedef struct Word { int32_t *symbol; int n; int64_t count; } Word;

/* Two neighbours: how often they occur, and in which words they were seen. The list may name a word
 * twice, and a word that no longer has the pair. */
typedef struct BpePair {
    int32_t  left, right;
    int64_t  count;
    int32_t *word;
    size_t   n_words, cap_words;
} BpePair;

/* An offer to merge. It is stale if the pair's count has changed since. */
typedef struct Offer { int64_t count; int32_t left, right, pair; } Offer;

typedef struct Piece { const char *bytes; size_t n; } Piece;

typedef struct Bpe {
    ByteMap  ids;             /* bytes of a word to its number           */
    char   **chunk;           /* holds the keys and the symbols          */
    size_t   n_chunks, chunk_used;
    Word    *word;
    size_t   n_words, cap_words;
    BpePair    *pair;
    size_t   n_pairs, cap_pairs;
    int32_t *slot;            /* hash table of pairs: number + 1; 0: empty */
    size_t   mask;
    Offer   *heap;
    size_t   n_heap, cap_heap;
    Piece   *piece;           /* by id */
    size_t   n_pieces, cap_pieces;
    ByteMap  pieces;          /* bytes of a piece to its id */
    BpeMerge *merge;
    size_t   n_merges, cap_merges;
    Error   *err;
} Bpe;

static bool no_room(const Bpe *b) { return fail(b->err, SYSTEM, "out of memory for a vocabulary"); }

/* ---- Words ----------------------------------------------------------------------------------- */

/* n bytes, aligned for ids, that live as long as b. NULL: no memory. */
static void *take(Bpe *b, size_t n)
{
    enum { CHUNK = 1 << 20 };
    n = (n + 7) / 8 * 8;
    if (b->n_chunks == 0 || b->chunk_used + n > CHUNK) {
        char **list = realloc(b->chunk, (b->n_chunks + 1) * sizeof *list);
        if (list)
            b->chunk = list;
        if (!list || !(b->chunk[b->n_chunks] = malloc(CHUNK)))
            return NULL;
        b->n_chunks++;
        b->chunk_used = 0;
    }
    void *p = b->chunk[b->n_chunks - 1] + b->chunk_used;
    b->chunk_used += n;
    return p;
}

static bool add_word(Bpe *b, const char *bytes, size_t n)
{
    char    *copy = take(b, n);
    int32_t *symbol = take(b, n * sizeof *symbol);
    bool     found;
    if (!copy || !symbol || b->n_words >= INT32_MAX ||
        !ARRAY_ROOM(b->word, b->cap_words, b->n_words + 1))
        return no_room(b);
    memcpy(copy, bytes, n);
    for (size_t i = 0; i < n; i++)
        symbol[i] = (unsigned char)bytes[i];
    if (!byte_map_put(&b->ids, copy, n, (int32_t)b->n_words, &found, b->err))
        return false;
    b->word[b->n_words++] = (Word){ symbol, (int)n, 1 };
    return true;
}

static bool count_word(void *arg, const char *bytes, size_t n, Error *err)
{
    Bpe *b = arg;
    (void)err;
    n = n < LONGEST_WORD ? n : LONGEST_WORD;
    int32_t i = n > 1 ? byte_map_find(&b->ids, bytes, n, -1) : -1;
    if (i >= 0)
        b->word[i].count++;
    return n < 2 || i >= 0 || add_word(b, bytes, n);
}

static bool count_words(Bpe *b, const char *text, size_t n, const char *steps)
{
    Pretokenizer   *p = NULL;
    RegexRun       *regex = NULL;
    PretokenizeRun *run = NULL;
    Json           *j = json_parse(steps, strlen(steps), "pretokenize", b->err);
    bool ok = j && pretokenizer_open(&p, j, "pretokenize", b->err) && regex_begin(&regex, b->err)
           && pretokenize_begin(&run, p, regex, b->err);
    if (ok) {
        regex_budget(regex, n);
        ok = pretokenize(run, text, n, true, count_word, b, b->err);
    }
    pretokenize_end(run);
    regex_end(regex);
    pretokenizer_free(p);
    json_free(j);
    return ok;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static size_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = (uint64_t)(uint32_t)left * 0x9E3779B97F4A7C15u
        + (uint64_t)(uint32_t)right * 0xC2B2AE3D27D4EB4Fu;
    return (size_t)(h ^ h >> 32);
}

static bool rehash(Bpe *b)
{
    size_t   slots = b->mask ? 2 * (b->mask + 1) : 4096;
    int32_t *slot  = calloc(slots, sizeof *slot);
    if (!slot)
        return no_room(b);
    free(b->slot);
    b->slot = slot;
    b->mask = slots - 1;
    for (size_t i = 0; i < b->n_pairs; i++) {
        size_t at = hash_pair(b->pair[i].left, b->pair[i].right) & b->mask;
        while (slot[at])
            at = (at + 1) & b->mask;
        slot[at] = (int32_t)i + 1;
    }
    return true;
}

/* The number of a pair, which is added if it is new; -1: no memory. */
static int32_t pair_of(Bpe *b, int32_t left, int32_t right)
{
    if (2 * (b->n_pairs + 1) > b->mask && !rehash(b))
        return -1;
    size_t at = hash_pair(left, right) & b->mask;
    for (; b->slot[at]; at = (at + 1) & b->mask) {
        const BpePair *p = &b->pair[b->slot[at] - 1];
        if (p->left == left && p->right == right)
            return b->slot[at] - 1;
    }
    if (b->n_pairs >= INT32_MAX - 1 || !ARRAY_ROOM(b->pair, b->cap_pairs, b->n_pairs + 1)) {
        no_room(b);
        return -1;
    }
    b->pair[b->n_pairs] = (BpePair){ .left = left, .right = right };
    b->slot[at] = (int32_t)++b->n_pairs;
    return (int32_t)b->n_pairs - 1;
}

static bool note_word(Bpe *b, BpePair *p, int32_t word)
{
    if (p->n_words && p->word[p->n_words - 1] == word)
        return true;
    if (!ARRAY_ROOM(p->word, p->cap_words, p->n_words + 1))
        return no_room(b);
    p->word[p->n_words++] = word;
    return true;
}

/* ---- Heap: the best offer first -------------------------------------------------------------- */

static bool better(const Offer *a, const Offer *b)
{
    return a->count != b->count ? a->count > b->count
        : a->left != b->left    ? a->left < b->left
                                : a->right < b->right;
}

static bool offer(Bpe *b, int32_t pair)
{
    const BpePair *p = &b->pair[pair];
    Offer       o = { p->count, p->left, p->right, pair };
    size_t      i = b->n_heap;
    if (!ARRAY_ROOM(b->heap, b->cap_heap, i + 1))
        return no_room(b);
    for (b->n_heap++; i > 0 && better(&o, &b->heap[(i - 1) / 2]); i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = o;
    return true;
}

static Offer take_best(Bpe *b)
{
    Offer  best = b->heap[0], last = b->heap[--b->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < b->n_heap; i = child) {
        if (child + 1 < b->n_heap && better(&b->heap[child + 1], &b->heap[child]))
            child++;
        if (!better(&b->heap[child], &last))
            break;
        b->heap[i] = b->heap[child];
    }
    b->heap[i] = last;
    return best;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* The id of a piece, which is added if it is new; -1: no memory. */
static int32_t piece_id(Bpe *b, const char *bytes, size_t n)
{
    bool     found;
    int32_t *id;
    if (!ARRAY_ROOM(b->piece, b->cap_pieces, b->n_pieces + 1)) {
        no_room(b);
        return -1;
    }
    if (!(id = byte_map_put(&b->pieces, bytes, n, (int32_t)b->n_pieces, &found, b->err)))
        return -1;
    if (!found)
        b->piece[b->n_pieces++] = (Piece){ bytes, n };
    return *id;
}

static bool add_bytes(Bpe *b)
{
    char *all = take(b, 256);
    if (!all)
        return no_room(b);
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        if (piece_id(b, all + i, 1) < 0)
            return false;
    }
    return true;
}

static int32_t merged_id(Bpe *b, int32_t left, int32_t right)
{
    Piece x = b->piece[left], y = b->piece[right];
    char *bytes = take(b, x.n + y.n);
    if (!bytes) {
        no_room(b);
        return -1;
    }
    memcpy(bytes, x.bytes, x.n);
    memcpy(bytes + x.n, y.bytes, y.n);
    return piece_id(b, bytes, x.n + y.n);
}

/* ---- Merging --------------------------------------------------------------------------------- */

/* Add a word's pairs, times `sign`, to the counts. With `note`, also note the word at each pair
 * that holds the symbol `fresh` (-1: at every pair). */
static bool count_pairs(Bpe *b, int32_t number, int64_t sign, int32_t fresh, bool note)
{
    const Word *w = &b->word[number];
    for (int i = 0; i + 1 < w->n; i++) {
        int32_t left = w->symbol[i], right = w->symbol[i + 1], p = pair_of(b, left, right);
        if (p < 0)
            return false;
        b->pair[p].count += sign * w->count;
        if (note && (fresh < 0 || left == fresh || right == fresh)
            && !note_word(b, &b->pair[p], number))
            return false;
    }
    return true;
}

static bool offer_fresh(Bpe *b, int32_t number, int32_t fresh)
{
    const Word *w = &b->word[number];
    for (int i = 0; i + 1 < w->n; i++)
        if ((w->symbol[i] == fresh || w->symbol[i + 1] == fresh)
            && !offer(b, pair_of(b, w->symbol[i], w->symbol[i + 1])))
            return false;
    return true;
}

static bool holds(const Word *w, int32_t left, int32_t right)
{
    for (int i = 0; i + 1 < w->n; i++)
        if (w->symbol[i] == left && w->symbol[i + 1] == right)
            return true;
    return false;
}

static void merge_word(Word *w, int32_t left, int32_t right, int32_t merged)
{
    int n = 0;
    for (int i = 0; i < w->n; n++) {
        bool both = i + 1 < w->n && w->symbol[i] == left && w->symbol[i + 1] == right;
        w->symbol[n] = both ? merged : w->symbol[i];
        i += both ? 2 : 1;
    }
    w->n = n;
}

/* The pair's word list is taken out of the table first: merging adds pairs and grows other lists,
 * and the table of pairs may move. */
static bool merge_pair(Bpe *b, int32_t pair, int32_t merged)
{
    int32_t  left = b->pair[pair].left, right = b->pair[pair].right, *word = b->pair[pair].word;
    size_t   n = b->pair[pair].n_words;
    bool     ok = true;
    b->pair[pair].word = NULL;
    b->pair[pair].n_words = b->pair[pair].cap_words = 0;
    for (size_t i = 0; ok && i < n; i++) {
        if (!holds(&b->word[word[i]], left, right))
            continue;
        ok = count_pairs(b, word[i], -1, -1, false);
        merge_word(&b->word[word[i]], left, right, merged);
        ok = ok && count_pairs(b, word[i], 1, merged, true);
    }
    for (size_t i = 0; ok && i < n; i++)
        ok = offer_fresh(b, word[i], merged);
    free(word);
    return ok;
}

static bool add_merge(Bpe *b, const Offer *o)
{
    int32_t merged = merged_id(b, o->left, o->right);
    if (merged < 0)
        return false;
    if (!ARRAY_ROOM(b->merge, b->cap_merges, b->n_merges + 1))
        return no_room(b);
    b->merge[b->n_merges++] = (BpeMerge){ o->left, o->right, merged };
    return merge_pair(b, o->pair, merged);
}

static bool make_merges(Bpe *b, size_t n_ids)
{
    for (size_t i = 0; i < b->n_words; i++)
        if (!count_pairs(b, (int32_t)i, 1, -1, true))
            return false;
    for (size_t i = 0; i < b->n_pairs; i++)
        if (!offer(b, (int32_t)i))
            return false;
    while (b->n_pieces < n_ids && b->n_heap > 0) {
        Offer   best = take_best(b);
        int64_t count = b->pair[best.pair].count;
        bool    ok = true;
        if (count == best.count && count > 0)
            ok = add_merge(b, &best);
        /* The pair is rarer now: offer it again with its new count. A pair that became more
         * frequent was offered again at that time. */
        else if (count > 0 && count < best.count)
            ok = offer(b, best.pair);
        if (!ok)
            return false;
    }
    return true;
}

bool bpe_train(const char *text, size_t n_bytes, const char *steps, size_t n_ids, BpeMerge **merges,
               size_t *n_merges, size_t *n_found, Error *err)
{
    Bpe  b  = { .err = err };
    bool ok = add_bytes(&b) && count_words(&b, text, n_bytes, steps) && make_merges(&b, n_ids);
    *merges   = ok ? b.merge : NULL;
    *n_merges = b.n_merges;
    *n_found  = b.n_pieces;
    if (!ok)
        free(b.merge);
    for (size_t i = 0; i < b.n_chunks; i++)
        free(b.chunk[i]);
    for (size_t i = 0; i < b.n_pairs; i++)
        free(b.pair[i].word);
    free(b.chunk);
    free(b.word);
    free(b.pair);
    free(b.slot);
    free(b.heap);
    free(b.piece);
    byte_map_free(&b.ids);
    byte_map_free(&b.pieces);
    return ok;
}
