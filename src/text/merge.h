/* text/merge.h: byte-pair encoding of one word. Its symbols are merged pair by pair, the lowest rank first, of equal ranks
 * the leftmost, until no pair merges. O(n log n), also for a word of a megabyte. */
#ifndef TEXT_MERGE_H
#define TEXT_MERGE_H

#include "text/vocab.h"

typedef struct Symbol {
    uint32_t start, len;  /* bytes of the word; len 0: merged into the symbol on its left                     */
    int32_t  id;          /* -1: no such piece                                                                */
    uint32_t prev, next;  /* neighbours; NO_SYMBOL at the ends                                                */
    uint32_t time;        /* of a symbol that was merged away: when, from 1                                   */
    bool     frozen;      /* never merged: a user-defined symbol of SentencePiece, an unknown character         */
} Symbol;

#define NO_SYMBOL UINT32_MAX

typedef struct Merger {
    uint64_t *filter;      /* NULL, or from merger_filter              */
    Symbol *symbol;        /* the word: first symbol 0, then along next */
    size_t  n, cap;
    struct MergeEntry *heap;
    size_t  n_heap, heap_cap;
} Merger;

/* Symbols of the next word: n = 0, then add. SYSTEM: no memory. A word is shorter than 4 GB. */
bool merger_add(Merger *m, uint32_t start, uint32_t len, int32_t id, bool frozen, Error *err);

/* For long texts and vocabularies that merge by ids: a bit for each merge, so that most pairs that do not merge, which are
 * most pairs, are known without a look at tables that no cache of a CPU holds. Without memory there is none. */
void merger_filter(Merger *m, const Vocab *v);

bool merger_run(Merger *m, const Vocab *v, const char *word, Error *err);
void merger_free(Merger *m); /* a zeroed Merger is accepted */

#endif
