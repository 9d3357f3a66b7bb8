/* text/tokenizer_parts.h: what the files of the tokenizer share; nobody else includes it.
 *   tokenizer.c       opening: the metadata entry and its checks
 *   encode.c          special tokens, then the normalizer, then words; the template around them
 *   bpe.c             the words of tokenizer.json's BPE: bytes or characters, then merges
 *   sentencepiece.c   spm: normalizer, words, emission (unknown, byte fallback, unused pieces)
 *   unigram.c         the best way to cut a text into pieces
 *   decode.c          ids to bytes; text_stream.c: the same, one id at a time
 *   tokenize_json.c   the JSON lines protocol */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/merge.h"
#include "text/normalize.h"
#include "text/piece_set.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

/* SPM and SPM_UNIGRAM do all as SentencePiece does; the others as the library tokenizers does. */
typedef enum TokenizerType { SPM, SPM_UNIGRAM, BPE, BPE_CHAR, UNIGRAM, TOKENIZER_TYPES } TokenizerType;

typedef struct SpecialToken {
    int32_t id;
    bool    lstrip, rstrip;  /* white space on that side belongs to the token           */
    bool    single_word;     /* not inside a word                                       */
    bool    normalized;      /* looked for after the normalizer, in what is left        */
    bool    special;         /* only where special tokens are parsed                    */
    char   *pattern;         /* normalized: what is looked for; NULL: the piece itself  */
} SpecialToken;

enum DecodeStrip { STRIP_NONE, STRIP_SPACE, STRIP_FIRST_PIECE };

struct Tokenizer {
    TokenizerType type;
    Vocab    vocab;
    int32_t  unk;                    /* -1: none */
    int32_t *prefix, *suffix;        /* what add_special puts around */
    size_t   n_prefix, n_suffix;
    SpecialToken *special;
    size_t   n_special;
    PieceSet special_set[2][2];      /* [normalized][parse_special]; ids are indices into special */
    bool     byte_fallback;
    bool     splits_at_space;        /* no piece holds U+2581 after another character: no merge crosses a word   */

    /* SPM, SPM_UNIGRAM */
    bool     add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, has_charsmap;
    bool     has_unused;             /* some piece is of type 5                                                  */
    PieceSet user_defined;
    Charsmap charsmap;
    char    *unk_surface;            /* what the unknown token is decoded to */

    /* SPM_UNIGRAM, UNIGRAM */
    double   unk_score;

    /* BPE, BPE_CHAR, UNIGRAM */
    bool     add_prefix_space, ignore_merges, fuse_unk, drop_unknown;
    Normalizer   *normalizer;        /* NULL: none */
    Pretokenizer *pretokenizer;
    enum DecodeStrip decode_strip;   /* what goes at the start of a decoded text */
};

static inline bool is_sentencepiece(const Tokenizer *t) { return t->type == SPM || t->type == SPM_UNIGRAM; }
static inline bool is_unigram(const Tokenizer *t) { return t->type == SPM_UNIGRAM || t->type == UNIGRAM; }

/* A word seen before in the same call: its ids stand in out already. */
enum { WORD_CACHE_SLOTS = 4096, WORD_CACHE_LONGEST = 47 };
typedef struct CachedWord {
    char    word[WORD_CACHE_LONGEST];
    uint8_t len;   /* 0: empty                       */
    size_t  first; /* out->id[first .. first + n)    */
    size_t  n;
} CachedWord;

/* One call of tokenizer_encode. */
typedef struct Encoder {
    const Tokenizer *t;
    bool             parse_special;
    const TextSpan  *span;          /* of the whole text; NULL: none                                            */
    size_t           n_spans;
    TextSpan        *normal_span;   /* where the plain ones lie in the normalized text of the segment; scratch  */
    Ids             *out;
    size_t           segment_first; /* where the ids of this piece of text between special tokens begin in out */
    Merger           merger;
    RegexRun        *regex;         /* NULL: none needed */
    PretokenizeRun  *run;
    CachedWord      *cache;         /* NULL for short texts */
    TextOut          normal, scratch; /* normalized text of the segment */
    size_t           growth;        /* bytes of normalized text that are left to write (normalizer_budget) */
    struct UnigramNode *node;       /* unigram.c */
    size_t           n_node;
} Encoder;

bool ids_push(Ids *ids, int32_t id, Error *err);

/* Append the ids of a word, from the cache if it is there. */
bool encode_word(Encoder *e, const char *word, size_t n, Error *err);

/* A character (or bytes) that is no piece: byte pieces, or the unknown token; where `runs_on` after one that stands in
 * out from `first` on, nothing. Errors: INPUT where the vocabulary has neither. */
bool push_unknown(Encoder *e, const char *bytes, size_t n, bool runs_on, size_t first, Error *err);

/* The end of the word that begins at i: where a U+2581 follows another character. */
size_t meta_word_end(const char *text, size_t n, size_t i);

/* Ids of one word, or of a whole segment. */
bool bpe_word(Encoder *e, const char *word, size_t n, Error *err);
bool sentencepiece_word(Encoder *e, const char *word, size_t n, Error *err);
bool unigram_word(Encoder *e, const char *word, size_t n, Error *err);
bool sentencepiece_segment(Encoder *e, const char *text, size_t n, Error *err);

void unigram_prepare(Tokenizer *t); /* the scores that follow from those of the pieces */

/* The bytes that id adds to a text: at most decode_longest(t), written to out. *start: nothing has been shown yet, so a
 * dummy prefix is dropped (begin with true). */
size_t decode_longest(const Tokenizer *t);
size_t decode_id(const Tokenizer *t, int32_t id, bool *start, char *out);

#endif
