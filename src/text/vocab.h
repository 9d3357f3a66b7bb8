/* text/vocab.h: the tok.* tables of a model file, used where they lie (docs/format.md, section Tokenizer): bytes of an id,
 * id of bytes, rank of a merge. Nothing is built when it is opened; everything is checked. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "format/tensors.h"

enum PieceType { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

typedef struct Vocab {
    bool            spm;            /* merges by score of the merged piece; else by the rows of tok.merges */
    int             size;
    const char     *bytes;
    const uint32_t *offsets;        /* [size + 1]                                            */
    const uint8_t  *types;          /* [size]                                                */
    const float    *scores;         /* [size], spm                                           */
    const int32_t  *index;          /* [index_mask + 1] bytes to id                          */
    size_t          index_mask;
    const uint32_t *merges;         /* [n_merges, 3], bpe                                    */
    size_t          n_merges;
    const int32_t  *merge_index;    /* [merge_mask + 1] (left, right) to row of merges, bpe  */
    size_t          merge_mask;
    size_t          longest;        /* bytes of the longest piece                            */
    int32_t         byte_id[256];   /* spm: BYTE pieces; bpe: pieces of one byte; -1: none   */
} Vocab;

/* Find and check the tables of f for a vocabulary of `size` ids. Errors: INPUT, naming the tensor. */
bool vocab_open(Vocab *v, const TensorFile *f, bool spm, int size, Error *err);

static inline const char *vocab_bytes(const Vocab *v, int32_t id, size_t *n)
{
    *n = v->offsets[id + 1] - v->offsets[id];
    return v->bytes + v->offsets[id];
}

/* Id of the piece with these bytes, -1: none. */
int32_t vocab_find(const Vocab *v, const char *bytes, size_t n);

/* Rank of merging two neighbours (lower goes first) and the id that they become; false: they do not merge.
 * spm goes by the bytes of both together; bpe by the two ids. */
bool vocab_merge(const Vocab *v, int32_t left, int32_t right, const char *both, size_t n, uint32_t *rank, int32_t *id);

#endif
