/* text/tokenizer_parts.h: shared by the files of the tokenizer; nothing else includes it.
 *   tokenizer.c       opens: the metadata entry and its checks
 *   encode.c          special tokens, then the normalizer, then words; the template around them
 *   bpe.c             words of tokenizer.json's BPE: bytes or characters, then merges
 *   sentencepiece.c   spm: normalizer, words, output (unknown, byte fallback, unused pieces)
 *   unigram.c         the best way to cut a text into pieces
 *   decode.c          ids to bytes; text_stream.c does the same one id at a time
 *   tokenize_json.c   the JSON lines protocol */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/merge.h"
#include "text/normalize.h"
#include "text/piece_set.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

/* SPM and SPM_UNIGRAM follow SentencePiece in everything; the others follow tokenizers. */
typedef enum TokenizerType { SPM, SPM_UNIGRAM, BPE, BPE_CHAR, UNIGRAM, TOKENIZER_TYPES } TokenizerType;

typedef struct SpecialToken {
    int32_t id;
    bool    lstrip, rstrip;  /* takes the white space on that side with it      */
    bool    single_word;     /* only where it is not inside a word              */
    bool    normalized;      /* searched after the normalizer                   */
    bool    special;         /* only where special tokens are parsed            */
    char   *pattern;         /* normalized: the text to search; NULL: the piece */
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

static inline bool is_sentencepiece(const Tokenizer *t) { return t->type == SPM || t->type == SPM_UNIGRAM; }
static inline bool is_unigram(const Tokenizer *t) { return t->type == SPM_UNIGRAM || t->type == UNIGRAM; }

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
    /* Where the ids of the current segment begin in out. A segment is the text between special
     * tokens. */
    size_t           segment_first;
    Merger           merger;
    RegexRun        *regex;         /* NULL: none needed */
    PretokenizeRun  *run;
    CachedWord      *cache;         /* NULL for short texts */
    TextOut          normal, scratch; /* normalized text of the segment */
    /* Bytes of normalized text that may still be written (normalizer_budget). */
    size_t           growth;
    struct UnigramNode *node;       /* Viterbi's table, in unigram.c */
    size_t           n_node;
} Encoder;

/* Append one id. False: SYSTEM, no memory. */
bool ids_push(Ids *ids, int32_t id, Error *err);

/* Append the ids of a word, from the cache if they are there. */
bool encode_word(Encoder *e, const char *word, size_t n, Error *err);

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
