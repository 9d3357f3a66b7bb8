/* text/trie.h: a set of byte strings with values, used where it lies in the model file
 * (docs/format.md, "Tries"). */
#ifndef TEXT_TRIE_H
#define TEXT_TRIE_H

#include <string.h>
#include "format/tensors.h"

typedef struct Trie {
    const uint32_t *nodes;  /* [n, 3]: first child, number of children, value + 1 (0: none) */
    const uint8_t  *labels; /* [n]: the byte that leads to a node                           */
    size_t          n;
} Trie;

/* Open the tensors NAME and NAME_labels; values are under n_values. Checked here: children come
 * after their parent and are in range, no node has two parents, and no string is longer than
 * LONGEST_SOUGHT. Errors: INPUT. */
bool trie_open(Trie *t, const TensorFile *f, const char *name, size_t n_values, Error *err);

/* Go from *node (the root is 0) along a byte. False: no string goes on with this byte. */
static inline bool trie_step(const Trie *t, uint32_t *node, char byte)
{
    const uint32_t *at = t->nodes + 3 * (size_t)*node;
    const uint8_t  *first = t->labels + at[0], *hit = at[1] ? memchr(first, (unsigned char)byte, at[1]) : NULL;
    if (!hit)
        return false;
    *node = (uint32_t)(hit - t->labels);
    return true;
}

/* The value at a node; -1: none. */
static inline int32_t trie_value(const Trie *t, uint32_t node) { return (int32_t)t->nodes[3 * (size_t)node + 2] - 1; }

#endif
