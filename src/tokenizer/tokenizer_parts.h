/* tokenizer/tokenizer_parts.h: the parts of a tokenizer. */
#ifndef TOKENIZER_TOKENIZER_PARTS_H
#define TOKENIZER_TOKENIZER_PARTS_H

#include <string.h>
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "format/tensors.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"

/* ---- trie.c ---------------------------------------------------------------------------------- */

/* A set of byte strings with values, used in place in the model file (docs/format.md, "Tries"). */

typedef struct Trie {
    const uint32_t *nodes;  /* [n, 3]: first child, number of children, value + 1 (0: none) */
    const uint8_t  *labels; /* [n]: the byte that leads to a node                           */
    size_t          n;
    uint32_t        root[256]; /* the child of the root for each byte; 0: none */
} Trie;

/* Open the tensors NAME and NAME_labels; values are under n_values. Checked here: children come
 * after their parent and are in range, no node has two parents, labels ascend, and no string is
 * longer than LONGEST_SOUGHT. Errors: INPUT. */
bool trie_open(Trie *t, const TensorFile *f, const char *name, size_t n_values, Error *err);

/* Go from *node (the root is 0) along a byte. False: no string continues with this byte. Labels
 * ascend, and in scripts outside ASCII most of them follow each other without a gap. */
static inline bool trie_step(const Trie *t, uint32_t *node, char byte)
{
    unsigned char c = (unsigned char)byte;
    if (*node == 0)
        return (*node = t->root[c]) != 0;
    const uint32_t *at = t->nodes + 3 * (size_t)*node;
    const uint8_t  *first = t->labels + at[0];
    if (at[1] == 0 || c < first[0] || c > first[at[1] - 1])
        return false;
    size_t         guess = (size_t)(c - first[0]);
    const uint8_t *hit =
        guess < at[1] && first[guess] == c ? first + guess : memchr(first, c, at[1]);
    if (!hit)
        return false;
    *node = (uint32_t)(hit - t->labels);
    return true;
}

/* The value at a node; -1: none. */
static inline int32_t trie_value(const Trie *t, uint32_t node)
{
    return (int32_t)t->nodes[3 * (size_t)node + 2] - 1;
}

/* ---- piece_set.c ----------------------------------------------------------------------------- */

/* A set of strings that finds the longest one at a position of a text. It holds the pieces that are
 * searched in the text itself: special tokens and SentencePiece's user-defined symbols. */

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

/* ---- vocab.c --------------------------------------------------------------------------------- */

/* The tok.* tables of a model file, used in place (docs/format.md, section
 * "Tokenizer"): from an id to bytes, from bytes to an id, the rank of a merge. Opening builds no
 * tables but checks everything. */

enum PieceType {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER_DEFINED,
    PIECE_UNUSED,
    PIECE_BYTE
};

/* Maximum bytes of a string that is searched at every byte of a text: added tokens, user-defined
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
bool vocab_open(Vocab *v, const TensorFile *f, enum VocabKind kind, bool byte_pieces, int size,
                Error *err);

/* Find tensor `name` and check its dtype and shape: [rows] if cols is 0, else [rows, cols]; rows -1
 * means any. NULL: INPUT. */
const Tensor *vocab_table(const TensorFile *f, const char *name, DType dtype, int64_t rows,
                          int64_t cols, Error *err);

/* The bytes of an id, in the model file. */
static inline const char *vocab_bytes(const Vocab *v, int32_t id, size_t *n)
{
    *n = v->offsets[id + 1] - v->offsets[id];
    return v->bytes + v->offsets[id];
}

/* The id of the piece with these bytes; -1: none. */
int32_t vocab_find(const Vocab *v, const char *bytes, size_t n);

/* May two neighbours merge? If so, *rank is the rank (the lowest merges first) and *id what they
 * become. By scores, the joined bytes are looked up; by merges, the two ids. */
bool vocab_merge(const Vocab *v, int32_t left, int32_t right, const char *both, size_t n,
                 uint32_t *rank, int32_t *id);

/* ---- merge.c --------------------------------------------------------------------------------- */

/* Byte-pair encoding of one word. Pairs of neighbouring symbols are merged, the
 * lowest rank first and the leftmost of equal ranks, until no pair merges. O(n log n), even for a
 * word of a megabyte. */

typedef struct MergeSymbol {
    uint32_t start, len;  /* bytes of the word; len 0: merged into its left neighbour */
    int32_t  id;          /* -1: no such piece                                        */
    uint32_t prev, next;  /* neighbours; NO_SYMBOL at the ends                        */
    uint32_t time;        /* when this symbol was merged away, from 1                 */
    /* Never merged: a user-defined symbol of SentencePiece, or an unknown character. */
    bool     frozen;
} MergeSymbol;

#define NO_SYMBOL UINT32_MAX

typedef struct Merger {
    uint64_t *filter;      /* NULL, or from merger_filter             */
    MergeSymbol *symbol;        /* the word: starts at 0, then follow next */
    size_t       n, cap;
    struct MergeEntry *heap;
    size_t  n_heap, heap_cap;
} Merger;

/* Add a symbol of the next word; set n = 0 to begin a word. A word is shorter than 4 GB. False:
 * SYSTEM, no memory. */
bool merger_add(Merger *m, uint32_t start, uint32_t len, int32_t id, bool frozen, Error *err);

/* Set up a filter for long texts, if the vocabulary merges by ids: a table with one bit per merge
 * (a Bloom filter with one hash). Most pairs do not merge, and the filter rejects most of those
 * without a look at the merge table, which is too large for a CPU's caches. Without memory there is
 * no filter: slower, same result. */
void merger_filter(Merger *m, const Vocab *v);

void merger_free(Merger *m); /* a zeroed Merger is fine */

/* ---- character_start.c ----------------------------------------------------------------------- */

/* The symbols from which the merges of a character's bytes may start. */
typedef struct CharacterStart {
    uint8_t n, len[4]; /* symbols, and the bytes of each */
    int32_t id[4];
} CharacterStart;

/* For long texts in a byte-level vocabulary. The caller frees it with free(). NULL: no memory, or
 * the vocabulary lacks a byte, or has merges that do not join the bytes of their parts. */
typedef struct CharacterStarts CharacterStarts;
CharacterStarts *character_starts(const Vocab *v);

/* The start of the character at word[at], which has the same result as its bytes have. Valid until
 * the next call. NULL: this is no character of two bytes or more. */
const CharacterStart *character_start(CharacterStarts *c, const Vocab *v, const char *word,
                                      size_t n, size_t at);

/* ---- charsmap.c ------------------------------------------------------------------------------ */

/* SentencePiece's table of replacements (nmt_nfkc and others). The converter has
 * expanded it into a trie and a list of texts. */

/* Bit b2 of row (b0, b1), by the low 4, 6 and 6 bits of three bytes. */
typedef struct WideSet { uint64_t row[1024]; } WideSet;

typedef struct Charsmap {
    Trie            trie;    /* replaced strings; the value is the number of the replacement */
    const char     *bytes;   /* the replacements, one after the other                */
    const uint32_t *offsets; /* [n + 1]                                              */
    /* Characters of three bytes. begins: a rule starts with one, and is only that or continues with
     * something else than another of them. second: some rule has it as another of them. */
    WideSet begins, second;
} Charsmap;

/* Open the tensors tok.charsmap, tok.charsmap_labels, tok.charsmap_bytes and tok.charsmap_offsets
 * of f, which must outlive m. INPUT if they do not fit each other. */
bool charsmap_open(Charsmap *m, const TensorFile *f, Error *err);

/* How many bytes at the start of text[0 .. n) the longest rule (with `shortest`, the shortest)
 * replaces; 0: no rule applies. *by [*n_by] is the replacement, inside the model file. */
size_t charsmap_match(const Charsmap *m, const char *text, size_t n, bool shortest, const char **by,
                      size_t *n_by);

/* ---- normalize.c ----------------------------------------------------------------------------- */

/* Rewrites a text by a list of steps before it is cut into words (docs/format.md,
 * "normalizer"). These are the normalizers of tokenizer.json; SentencePiece's own is in
 * sentencepiece.c. */

typedef struct Normalizer Normalizer; /* immutable */

/* Read the steps of the metadata entry, an array. A charsmap step uses the tables of f, which must
 * outlive *z. `what` begins each message. Errors: INPUT, SYSTEM. */
bool normalizer_open(Normalizer **z, const Json *steps, const TensorFile *f, const char *what,
                     Error *err);
void normalizer_free(Normalizer *z); /* NULL is fine */

/* Positions in words have 32 bits, so a normalized text must stay under 4 GiB. */
#define NORMAL_MOST ((size_t)3 << 30)

/* Was the normalized text written? If not, *err is INPUT (too long) or SYSTEM (no memory). */
bool normalized_fits(const TextOut *o, Error *err);

/* Maximum bytes that all steps together may write for a text of n bytes. Without a bound,
 * replacements of replacements in an untrusted file could grow without end. The worst published
 * file writes about 50 n: seven steps, four of them on U+FDFA, whose NFKD is eleven times as
 * long. */
static inline size_t normalizer_budget(size_t n)
{
    return n < NORMAL_MOST / 128 ? 128 * n + 4096 : NORMAL_MOST;
}

/* Rewrite text[0 .. n) into `out`, whose content is replaced; scratch is overwritten too. Invalid
 * UTF-8 stays as it is. The bytes that the steps write are subtracted from *budget. Errors: INPUT
 * (the budget is used up, a runaway pattern), SYSTEM. */
bool normalizer_run(const Normalizer *z, RegexRun *r, const char *text, size_t n, TextOut *out,
                    TextOut *scratch, size_t *budget, Error *err);

/* ---- pretokenize.c --------------------------------------------------------------------------- */

/* Cuts a text into words by a list of steps (docs/format.md, "pretokenize").
 * Each step cuts every piece of the step before it. */

typedef struct Pretokenizer Pretokenizer; /* immutable */

/* Compile the steps of the metadata entry, an array. `what` begins each message. Errors: INPUT,
 * naming the step; SYSTEM. */
bool pretokenizer_open(Pretokenizer **p, const Json *steps, const char *what, Error *err);
void pretokenizer_free(Pretokenizer *p); /* NULL is fine */

/* What one thread needs to run a pre-tokenizer. False: SYSTEM, no memory. */
typedef struct PretokenizeRun PretokenizeRun;
bool pretokenize_begin(PretokenizeRun **r, const Pretokenizer *p, RegexRun *regex, Error *err);
void pretokenize_end(PretokenizeRun *r); /* NULL is fine */

/* Call word(arg, ...) for each piece of text[0 .. n), in order; the piece is valid during the call
 * only. at_start: text is the start of the whole text. A run of invalid UTF-8 is a piece of its
 * own. Stops when word returns false. */
typedef bool (*PretokenizeWord)(void *arg, const char *word, size_t n, Error *err);
bool pretokenize(PretokenizeRun *r, const char *text, size_t n, bool at_start, PretokenizeWord word,
                 void *arg, Error *err);

/* ---- tokenizer parts ------------------------------------------------------------------------- */

/* Shared by the files of the tokenizer; nothing else includes it.
 *   tokenizer.c       opens: the metadata entry and its checks
 *   encode.c          special tokens, then the normalizer, then words; the template around them
 *   bpe.c             words of tokenizer.json's BPE: bytes or characters, then merges
 *   sentencepiece.c   spm: normalizer, words, output (unknown, byte fallback, unused pieces)
 *   unigram.c         the best way to cut a text into pieces
 *   decode.c          ids to bytes; text_stream.c does the same one id at a time
 *   tokenize_json.c   the JSON lines protocol */

/* SPM and SPM_UNIGRAM follow SentencePiece in everything; the others follow tokenizers. */
typedef enum TokenizerType {
    SPM,
    SPM_UNIGRAM,
    BPE,
    BPE_CHAR,
    UNIGRAM,
    TOKENIZER_TYPES
} TokenizerType;

typedef struct SpecialToken {
    int32_t id;
    bool    lstrip, rstrip;  /* takes the white space on that side with it      */
    bool    single_word;     /* only if it is not inside a word                 */
    bool    normalized;      /* searched after the normalizer                   */
    bool    special;         /* only where special tokens are parsed            */
    char   *text;            /* the text to search; NULL: the piece             */
    char   *pattern;         /* normalized: that text, normalized               */
} SpecialToken;

enum DecodeStrip { STRIP_NONE, STRIP_SPACE, STRIP_FIRST_PIECE };

struct Tokenizer {
    TokenizerType type;
    Vocab    vocab;
    int32_t  unk;                    /* -1: none */
    int32_t *prefix, *suffix;        /* what add_special puts before and after */
    size_t   n_prefix, n_suffix;
    SpecialToken *special;
    size_t   n_special;
    PieceSet special_set[2][2];      /* [normalized][parse_special]; ids index `special` */
    bool     byte_fallback;
    /* No piece holds U+2581 after another character, so no merge crosses a word. */
    bool     splits_at_space;

    /* SPM, SPM_UNIGRAM */
    bool     add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, has_charsmap;
    bool     has_unused;             /* some piece is of type PIECE_UNUSED */
    PieceSet user_defined;
    Charsmap charsmap;
    char    *unk_surface;            /* how the unknown token is decoded */

    /* SPM_UNIGRAM, UNIGRAM */
    double   unk_score;

    /* BPE, BPE_CHAR, UNIGRAM */
    bool     add_prefix_space, ignore_merges, fuse_unk, drop_unknown;
    Normalizer   *normalizer;        /* NULL: none */
    Pretokenizer *pretokenizer;
    enum DecodeStrip decode_strip;   /* what to drop at the start of a decoded text */
};

static inline bool is_sentencepiece(const Tokenizer *t)
{
    return t->type == SPM || t->type == SPM_UNIGRAM;
}
static inline bool is_unigram(const Tokenizer *t)
{
    return t->type == SPM_UNIGRAM || t->type == UNIGRAM;
}

/* A word seen before in the same call. Its ids are already in out, so they are copied from
 * there. */
enum { WORD_CACHE_SLOTS = 4096, WORD_CACHE_LONGEST = 47 };
typedef struct CachedWord {
    char    word[WORD_CACHE_LONGEST];
    uint8_t len;   /* 0: empty                    */
    size_t  first; /* out->id[first .. first + n) */
    size_t  n;
} CachedWord;

/* One call of tokenizer_encode. */
typedef struct Encoder {
    const Tokenizer *t;
    bool             parse_special;
    const TextSpan  *span;          /* of the whole text; NULL: none */
    size_t           n_spans;
    /* Scratch: the plain spans, as positions in the normalized text of the segment. */
    TextSpan        *normal_span;
    Ids             *out;
    /* Index in out of the current segment's first id. A segment is the text between special
     * tokens. */
    size_t           segment_first;
    Merger           merger;
    size_t           n_wide;        /* characters of several bytes that bpe.c has seen */
    CharacterStarts *starts;        /* NULL: none yet, or none for this vocabulary      */
    RegexRun        *regex;         /* NULL: none needed */
    PretokenizeRun  *run;
    CachedWord      *cache;         /* NULL for short texts */
    TextOut          normal, scratch; /* normalized text of the segment */
    /* Bytes of normalized text that may still be written (normalizer_budget). */
    size_t           growth;
    int32_t         *way;           /* Viterbi's table, in unigram.c */
    size_t           n_way;
} Encoder;

/* Append one id. False: SYSTEM, no memory. */
bool ids_push(Ids *ids, int32_t id, Error *err);

/* May text between special tokens have this piece? In untrusted text, it may not be a special
 * token. */
static inline bool text_has(const Encoder *e, int32_t id)
{
    return id >= 0
        && (e->t->vocab.types[id] != PIECE_CONTROL || (e->parse_special && !e->n_spans));
}

/* Append the ids of a word, from the cache if it has them. */
bool encode_word(Encoder *e, const char *word, size_t n, Error *err);

/* Append the ids of a word by merging, in memory that does not grow with the word. symbols adds the
 * symbols of a text to e->merger; push appends the ids of the piece that symbol i has become, in a
 * text of n bytes. The pieces are the chain from symbol 0 along next. */
typedef bool (*WordSymbols)(Encoder *e, const char *text, size_t n, Error *err);
typedef bool (*PushSymbol)(Encoder *e, const char *text, size_t n, uint32_t i, Error *err);
bool merged_word(Encoder *e, const char *word, size_t n, WordSymbols symbols, PushSymbol push,
                 Error *err);

/* Append byte pieces or the unknown token for bytes that are not in the vocabulary. With `runs_on`,
 * an unknown token that follows another one in out, at `first` or later, is left out. Errors: INPUT
 * if the vocabulary has neither. */
bool push_unknown(Encoder *e, const char *bytes, size_t n, bool runs_on, size_t first, Error *err);

/* The end of the word that begins at i: the next U+2581 that follows another character, or n. */
size_t meta_word_end(const char *text, size_t n, size_t i);

/* Append the ids of one word, or of a whole segment. */
bool bpe_word(Encoder *e, const char *word, size_t n, Error *err);
bool sentencepiece_word(Encoder *e, const char *word, size_t n, Error *err);
bool unigram_word(Encoder *e, const char *word, size_t n, Error *err);
bool sentencepiece_segment(Encoder *e, const char *text, size_t n, Error *err);

/* Compute the scores that follow from those of the pieces. */
void unigram_prepare(Tokenizer *t);

/* decode_id writes the bytes that id adds to a text, at most decode_longest(t), and returns how
 * many. *start: nothing has been shown yet, so a dummy prefix is dropped (begin with true). */
size_t decode_longest(const Tokenizer *t);
size_t decode_id(const Tokenizer *t, int32_t id, bool *start, char *out);

#endif
