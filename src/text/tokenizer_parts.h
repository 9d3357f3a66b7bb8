/* text/tokenizer_parts.h: what the files of the tokenizer share; nobody else includes it.
 *   tokenizer.c       opening: the metadata entry and its checks
 *   encode.c          special tokens, then words, then merges; the template around them
 *   sentencepiece.c   spm: normalizer, words, emission (unknown, byte fallback, unused pieces), decoding
 *   decode.c          ids to bytes; text_stream.c: the same, one id at a time
 *   tokenize_json.c   the JSON lines protocol */
#ifndef TEXT_TOKENIZER_PARTS_H
#define TEXT_TOKENIZER_PARTS_H

#include "text/merge.h"
#include "text/piece_set.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

typedef struct SpecialToken {
    int32_t id;
    bool    lstrip, rstrip;  /* white space on that side belongs to the token           */
    bool    single_word;     /* not inside a word                                       */
    bool    normalized;      /* looked for after the normalizer, in what is left        */
    bool    special;         /* only where special tokens are parsed                    */
} SpecialToken;

struct Tokenizer {
    Vocab    vocab;
    int32_t  unk;                    /* -1: none */
    int32_t *prefix, *suffix;        /* what add_special puts around */
    size_t   n_prefix, n_suffix;
    SpecialToken *special;
    size_t   n_special;
    PieceSet special_set[2][2];      /* [normalized][parse_special]; ids are indices into special */

    /* spm */
    bool     add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, byte_fallback;
    bool     has_unused;             /* some piece is of type 5                                                  */
    bool     splits_at_space;        /* no piece holds U+2581 after another character: no merge crosses a word   */
    PieceSet user_defined;
    char    *unk_surface;            /* what the unknown token is decoded to */

    /* bpe */
    bool     add_prefix_space, ignore_merges, nfc;
    Pretokenizer *pretokenizer;
};

/* A word seen before in the same segment: its ids stand in out already. */
enum { WORD_CACHE_SLOTS = 4096, WORD_CACHE_LONGEST = 64 };
typedef struct CachedWord {
    const char *word;
    uint32_t    len, segment; /* valid in this segment only: its text may be gone later */
    size_t      first, n;     /* out->id[first .. first + n) */
} CachedWord;

/* One call of tokenizer_encode. */
typedef struct Encoder {
    const Tokenizer *t;
    bool             parse_special;
    Ids             *out;
    uint32_t         segment;       /* number of the piece of text between special tokens, from 1 */
    size_t           segment_first; /* where its ids begin in out                                 */
    Merger           merger;
    PretokenizeRun  *run;
    CachedWord      *cache;         /* NULL for short texts */
    char            *buffer;        /* rewritten text of the segment */
    size_t           cap;
} Encoder;

bool ids_push(Ids *ids, int32_t id, Error *err);
bool encoder_reserve(Encoder *e, size_t n, Error *err); /* at least n bytes in buffer; its content is lost */

/* Append the ids of a word, from the cache if it is there: symbols, merges, ids. */
bool encode_word(Encoder *e, const char *word, size_t n, Error *err);

/* spm: ids of a segment; symbols of one word; ids of the merged word. */
bool sentencepiece_segment(Encoder *e, const char *text, size_t n, Error *err);
bool sentencepiece_symbols(Encoder *e, const char *word, size_t n, Error *err);
bool sentencepiece_emit(Encoder *e, const char *word, size_t n, Error *err);

/* The bytes that id adds to a text: at most decode_longest(t), written to out. *start: nothing has been shown yet, so a
 * dummy prefix is dropped (begin with true). */
size_t decode_longest(const Tokenizer *t);
size_t decode_id(const Tokenizer *t, int32_t id, bool *start, char *out);

#define META_SPACE "\xE2\x96\x81" /* U+2581, SentencePiece's visible space */
enum { META_SPACE_BYTES = 3 };

#endif
