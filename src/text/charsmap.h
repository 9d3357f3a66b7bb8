/* text/charsmap.h: SentencePiece's table of replacements (nmt_nfkc and the like), expanded by the converter. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include "text/trie.h"

typedef struct Charsmap {
    Trie            trie;    /* what is replaced, with the number of its replacement */
    const char     *bytes;   /* replacements, one after the other                    */
    const uint32_t *offsets; /* [n + 1]                                              */
} Charsmap;

/* The tensors tok.charsmap, tok.charsmap_labels, tok.charsmap_bytes and tok.charsmap_offsets. */
bool charsmap_open(Charsmap *m, const TensorFile *f, Error *err);

/* Bytes of text[0 .. n) that the longest rule (or the shortest) replaces, and by what; 0: no rule. */
size_t charsmap_match(const Charsmap *m, const char *text, size_t n, bool shortest, const char **by, size_t *n_by);

#endif
