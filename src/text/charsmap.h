/* text/charsmap.h: SentencePiece's table of replacements (nmt_nfkc and others). The converter has
 * expanded it into a trie and a list of texts. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include "text/trie.h"

typedef struct Charsmap {
    Trie            trie;    /* replaced strings; the value is the number of the replacement */
    const char     *bytes;   /* the replacements, one after the other                */
    const uint32_t *offsets; /* [n + 1]                                              */
} Charsmap;

/* Open the tensors tok.charsmap, tok.charsmap_labels, tok.charsmap_bytes and tok.charsmap_offsets
 * of f, which must outlive m. INPUT if they do not fit each other. */
bool charsmap_open(Charsmap *m, const TensorFile *f, Error *err);

/* How many bytes at the start of text[0 .. n) the longest rule (with `shortest`, the shortest)
 * replaces; 0: no rule applies. *by [*n_by] is the replacement, inside the model file. */
size_t charsmap_match(const Charsmap *m, const char *text, size_t n, bool shortest, const char **by, size_t *n_by);

#endif
