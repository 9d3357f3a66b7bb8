/* text/vocab.h: the tok.* tables of a model file, used where they lie (docs/format.md, section Tokenizer): bytes of an id,
 * id of bytes, rank of a merge. Nothing is built when it is opened; everything is checked. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "text/trie.h"

enum PieceType { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

/* Bytes of what is looked for at every byte of a text (added tokens, user-defined symbols, pieces of a unigram vocabulary, rules of a
 * charsmap): a longer one would cost its length times that of the text. The longest published has 256. */
enum { LONGEST_SOUGHT = 1024 };

enum VocabKind {
    VOCAB_SCORES,                   /* merges by the score of the merged piece                 */
    VOCAB_MERGES,                   /* merges by the rows of tok.merges                        */
    VOCAB_TRIE,                     /* no merges: pieces are looked for in the text, by a trie */
};

typedef struct Vocab {
    enum VocabKind  kind;
    int             size;
    const char     *bytes;
    const uint32_t *offsets;        /* [size + 1]                                            */
    const uint8_t  *types;          /* [size]                                                */
    const float    *scores;         /* [size]; NULL: none, or f64                            */
    const double   *scores64;       /* [size]; NULL: none, or f32                            */
    Trie            trie;           /* pieces to id                                          */
    const int32_t  *index;          /* [index_mask + 1] bytes to id                          */
    size_t          index_mask;
    const uint32_t *merges;         /* [n_merges, 3]                                         */
    size_t          n_merges;
    const int32_t  *merge_index;    /* [merge_mask + 1] (left, right) to row of merges       */
    size_t          merge_mask;
    size_t          longest;        /* bytes of the longest piece                            */
    int32_t         byte_id[256];   /* BYTE pieces, or pieces of one byte; -1: none          */
} Vocab;

/* Find and check the tables of f for a vocabulary of `size` ids. byte_pieces: bytes are pieces of type BYTE; else pieces of
 * one byte. Errors: INPUT, naming the tensor. */
bool vocab_open(Vocab *v, const TensorFile *f, enum VocabKind kind, bool byte_pieces, int size, Error *err);

/* The tensor `name`, of this dtype and shape [rows] (cols 0) or [rows, cols]; rows -1: any. NULL: an INPUT error. */
const Tensor *vocab_table(const TensorFile *f, const char *name, DType dtype, int64_t rows, int64_t cols, Error *err);

static inline const char *vocab_bytes(const Vocab *v, int32_t id, size_t *n)
{
    *n = v->offsets[id + 1] - v->offsets[id];
    return v->bytes + v->offsets[id];
}

/* Id of the piece with these bytes, -1: none. */
int32_t vocab_find(const Vocab *v, const char *bytes, size_t n);

/* Rank of merging two neighbours (lower goes first) and the id that they become; false: they do not merge.
 * Scores go by the bytes of both together; merges by the two ids. */
bool vocab_merge(const Vocab *v, int32_t left, int32_t right, const char *both, size_t n, uint32_t *rank, int32_t *id);

#endif
