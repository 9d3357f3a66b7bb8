/* text/piece_set.h: a set of strings that answers "which is the longest one that begins here?". It
 * holds the pieces that are searched in the text itself: special tokens and SentencePiece's
 * user-defined symbols. */
#ifndef TEXT_PIECE_SET_H
#define TEXT_PIECE_SET_H

#include "base/error.h"

typedef struct PieceSet {
    /* Sorted by bytes, which are not copied. */
    struct PieceRef { const char *bytes; size_t n; int32_t id; } *piece;
    size_t n, cap;
    bool   starts[256]; /* some piece begins with this byte */
} PieceSet;

/* Add a piece of n > 0 bytes, which must outlive s. Errors: INPUT (over LONGEST_SOUGHT bytes),
 * SYSTEM. */
bool piece_set_add(PieceSet *s, const char *bytes, size_t n, int32_t id, Error *err);
/* Call this after the last add. */
void piece_set_sort(PieceSet *s);
void piece_set_free(PieceSet *s);

/* Bytes of the longest piece at the start of text[0 .. n), with its id in *id; 0: there is none. Of
 * equal pieces, the lowest id. Time: the bytes looked at times log(pieces). */
size_t piece_set_match(const PieceSet *s, const char *text, size_t n, int32_t *id);

#endif
