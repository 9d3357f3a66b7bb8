/* text/piece_set.h: a set of strings that answers "which is the longest one that the text has here?". Used for the pieces
 * that are looked for in the text itself: special tokens and SentencePiece's user-defined symbols. */
#ifndef TEXT_PIECE_SET_H
#define TEXT_PIECE_SET_H

#include "base/error.h"

typedef struct PieceSet {
    struct PieceRef { const char *bytes; size_t n; int32_t id; } *piece; /* sorted by bytes; not copied */
    size_t n, cap;
    bool   starts[256]; /* some piece begins with this byte */
} PieceSet;

bool piece_set_add(PieceSet *s, const char *bytes, size_t n, int32_t id, Error *err); /* n > 0; INPUT: over LONGEST_SOUGHT */
void piece_set_sort(PieceSet *s);                                                     /* after the last add       */
void piece_set_free(PieceSet *s);

/* Bytes of the longest piece that text[0 .. n) begins with, its id in *id; 0 when there is none. Of equal pieces the one
 * with the lowest id. Time: bytes looked at times log(pieces). */
size_t piece_set_match(const PieceSet *s, const char *text, size_t n, int32_t *id);

#endif
