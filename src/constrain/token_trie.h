/* constrain/token_trie.h: the trees of a vocabulary that the mask walks. */
#ifndef CONSTRAIN_TOKEN_TRIE_H
#define CONSTRAIN_TOKEN_TRIE_H

#include "constrain/constrain.h"

/* Tokens are divided by length: tier i has those of at most most[i] bytes that no earlier tier has.
 * In each tier, tokens of plain characters are separate from those with a quote, a backslash, a
 * control character or an incomplete character. */
enum { TIERS = 4, SLICE_PLAIN = 0, SLICE_OTHER, SLICES };
enum { MOST_TOKEN_BYTES = 1024 /* longer tokens are in no mask */ };

/* In preorder: the first child follows, the next sibling is at `end`. */
typedef struct TrieNode {
    uint32_t end, first_id; /* its ids are id[first_id ...] */
    uint32_t n_ids;
    uint16_t depth;         /* from 1 */
    uint8_t  byte;
} TrieNode;

typedef struct TokenSlice {
    TrieNode *node;
    size_t    n_nodes, n_ids;
    int32_t  *id;
    uint64_t *bits; /* all its ids */
} TokenSlice;

/* A token that crosses from a comma into a string: `,"` or `, "` and more. It may contain the name
 * of a property, which names.c checks. */
/* its bytes: TokenTrie.bytes */
typedef struct CrossingToken { size_t at, n; int id; } CrossingToken;

struct TokenTrie {
    int            n_vocab;
    char          *bytes;
    uint32_t       most[TIERS]; /* the last one: of the longest token */
    TokenSlice     slice[TIERS][SLICES];
    CrossingToken *crossing;
    size_t         n_crossing, cap_crossing;
};

static inline size_t mask_words(const TokenTrie *t) { return ((size_t)t->n_vocab + 63) / 64; }

#endif
