/* text/merge.h: byte-pair encoding of one word. Pairs of neighbouring symbols are merged, the
 * lowest rank first and the leftmost of equal ranks, until no pair merges. O(n log n), even for a
 * word of a megabyte. */
#ifndef TEXT_MERGE_H
#define TEXT_MERGE_H

#include "text/vocab.h"

typedef struct Symbol {
    uint32_t start, len;  /* bytes of the word; len 0: merged into its left neighbour */
    int32_t  id;          /* -1: no such piece                                        */
    uint32_t prev, next;  /* neighbours; NO_SYMBOL at the ends                        */
    uint32_t time;        /* when this symbol was merged away, from 1                 */
    /* Never merged: a user-defined symbol of SentencePiece, or an unknown character. */
    bool     frozen;
} Symbol;

#define NO_SYMBOL UINT32_MAX

typedef struct Merger {
    uint64_t *filter;      /* NULL, or from merger_filter             */
    Symbol *symbol;        /* the word: starts at 0, then follow next */
    size_t  n, cap;
    struct MergeEntry *heap;
    size_t  n_heap, heap_cap;
} Merger;

/* Add a symbol of the next word; set n = 0 to begin a word. A word is shorter than 4 GB. False:
 * SYSTEM, no memory. */
bool merger_add(Merger *m, uint32_t start, uint32_t len, int32_t id, bool frozen, Error *err);

/* Set up a filter for long texts, if the vocabulary merges by ids: a table with one bit per merge
 * (a Bloom filter with one hash). Most pairs do not merge, and the filter rejects most of those
 * without a look at the merge table, which is too large for a CPU's caches. Without memory there is
 * no filter, which is only slower. */
void merger_filter(Merger *m, const Vocab *v);

/* Merge the symbols that were added. The result is the chain from symbol 0 along next. False:
 * SYSTEM, no memory. */
bool merger_run(Merger *m, const Vocab *v, const char *word, Error *err);
void merger_free(Merger *m); /* a zeroed Merger is fine */

#endif
