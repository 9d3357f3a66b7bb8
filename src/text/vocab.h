/* text/vocab.h: the tok.* tables of a model file, used in place (docs/format.md, section
 * "Tokenizer"): from an id to bytes, from bytes to an id, the rank of a merge. Opening builds no
 * tables but checks everything. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "text/trie.h"

enum PieceType { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER_DEFINED, PIECE_UNUSED, PIECE_BYTE };

/* Most bytes of a string that is searched at every byte of a text: added tokens, user-defined
 * symbols, pieces of a unigram vocabulary, rules of a charsmap. A longer one would cost its length
 * times that of the text. The longest published one has 256. */
enum { LONGEST_SOUGHT = 1024 };

enum VocabKind {
    VOCAB_SCORES,                   /* merge by the score of the merged piece     */
    VOCAB_MERGES,                   /* merge by the rows of tok.merges            */
    VOCAB_TRIE,                     /* no merges: a trie finds pieces in the text */
};

typedef struct Vocab {
    enum VocabKind  kind;
    int             size;
    const char     *bytes;
    const uint32_t *offsets;        /* [size + 1]                                */
    const uint8_t  *types;          /* [size]                                    */
    const float    *scores;         /* [size]; NULL: none, or as f64             */
    const double   *scores64;       /* [size]; NULL: none, or as f32             */
    Trie            trie;           /* pieces to id                              */
    const int32_t  *index;          /* [index_mask + 1]: hash table, bytes to id */
    size_t          index_mask;
    const uint32_t *merges;         /* [n_merges, 3] */
    size_t          n_merges;
    const int32_t  *merge_index;    /* [merge_mask + 1]: (left, right) to a row */
    size_t          merge_mask;
    size_t          longest;        /* bytes of the longest piece                    */
    int32_t         byte_id[256];   /* pieces of type BYTE, or of one byte; -1: none */
} Vocab;

/* Find and check the tables of f, which must outlive v, for a vocabulary of `size` ids.
 * byte_pieces: the piece of a byte has type BYTE; else it is the piece of that one byte. Errors:
 * INPUT, naming the tensor. */
bool vocab_open(Vocab *v, const TensorFile *f, enum VocabKind kind, bool byte_pieces, int size, Error *err);

/* Find tensor `name` and check its dtype and shape: [rows] if cols is 0, else [rows, cols]; rows -1
 * means any. NULL: INPUT. */
const Tensor *vocab_table(const TensorFile *f, const char *name, DType dtype, int64_t rows, int64_t cols, Error *err);

/* The bytes of an id, in the model file. */
static inline const char *vocab_bytes(const Vocab *v, int32_t id, size_t *n)
{
    *n = v->offsets[id + 1] - v->offsets[id];
    return v->bytes + v->offsets[id];
}

/* The id of the piece with these bytes; -1: none. */
int32_t vocab_find(const Vocab *v, const char *bytes, size_t n);

/* May two neighbours merge? If so, *rank is the rank (the lowest merges first) and *id what they
 * become. By scores, the bytes of both together are looked up; by merges, the two ids. */
bool vocab_merge(const Vocab *v, int32_t left, int32_t right, const char *both, size_t n, uint32_t *rank, int32_t *id);

#endif
