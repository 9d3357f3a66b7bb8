/* text/tokenizer.h: text to exactly the token ids that the model was trained with, and back. Knows nothing of the model.
 * docs/format.md, section "Tokenizer", says how one is stored. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "format/tensors.h"

typedef struct Tokenizer Tokenizer; /* immutable once open: may be used by several threads at once */

/* Open the tokenizer of a tensor file whose metadata has the entry "tokenizer". The tensors are used where they lie, so f
 * must outlive it. Everything is checked here: an id, offset or index out of range is an INPUT error. */
bool tokenizer_open(Tokenizer **t, const TensorFile *f, Error *err);
void tokenizer_free(Tokenizer *t);

int tokenizer_size(const Tokenizer *t);                                                  /* ids are 0 .. size - 1 */
bool tokenizer_piece(const Tokenizer *t, int id, const char **bytes, size_t *n_bytes);   /* raw bytes of one id */

typedef struct Ids { int32_t *id; size_t n, cap; } Ids; /* release id with free() */

/* Append the ids of text (any bytes, also NUL and invalid UTF-8). parse_special: special tokens spelled in text become
 * their ids. add_special: the tokenizer's template (BOS, EOS) goes around. Errors: SYSTEM (memory), INPUT (a text that the
 * vocabulary cannot express, without an unknown token; a PCRE2 limit; a text over 1 GiB); out then holds a part.
 * Time: linear in words, n log n in the length of a word. */
bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, bool parse_special, bool add_special, Ids *out,
                      Error *err);

/* A stretch of a text that is not the format's own: what a user wrote, or what the model did. */
typedef struct TextSpan {
    size_t         start, end;
    const int32_t *ids;     /* NULL: plain text, in which no special token is found; else what stands for it */
    size_t         n_ids;
    bool           if_safe; /* with ids: only where a special token or the end of the text follows; else plain text */
} TextSpan;

/* Append the ids of text, in which special tokens count outside the spans only: ascending, apart from each other, inside the
 * text. Where no plain span spells one, and none has ids, the ids are those of tokenizer_encode with parse_special. What a plain
 * span holds never becomes a special token, alone or together with the text around it. Errors as tokenizer_encode. */
bool tokenizer_encode_spans(const Tokenizer *t, const char *text, size_t n_bytes, const TextSpan *span, size_t n_spans, Ids *out,
                            Error *err);

/* The special token that text spells from its first byte to its last; -1: none. */
int tokenizer_special_id(const Tokenizer *t, const char *text, size_t n_bytes);
/* Is this id one of the special tokens that are found in a text? */
bool tokenizer_is_special(const Tokenizer *t, int id);

/* Decode ids to the exact bytes; ids out of range are an error (INPUT). *text: caller frees, NUL-terminated as well. */
bool tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, char **text, size_t *n_bytes, Error *err);

/* One request of `tokenize --jsonl` (tblock.h: tblock_tokenize_json). Strings may hold \u0000. */
bool tokenizer_answer_json(const Tokenizer *t, const char *line, size_t n_bytes, char **answer, Error *err);

/* Streaming: bytes of successive ids, held back until a UTF-8 character is whole (at most 3 bytes wait; a byte that cannot
 * become valid UTF-8 is passed on at once). */
typedef struct TextStream TextStream;
TextStream *text_stream_new(const Tokenizer *t, bool continues); /* NULL: no memory. continues: keep a leading space */
const char *text_stream_put(TextStream *s, int id, size_t *n_bytes); /* valid until the next call; an id out of range adds nothing */
const char *text_stream_flush(TextStream *s, size_t *n_bytes);
void        text_stream_free(TextStream *s);

#endif
