/* tokenizer/tokenizer.h: text to token ids and back; a vocabulary from a text. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include <stdint.h>
#include "base/error.h"
#include "base/text.h"
#include "format/tensors.h"

/* ---- tokenizer.c ----------------------------------------------------------------------------- */

/* Turns a text into exactly the token ids that the model was trained with, and
 * back. Knows nothing of the model. docs/format.md, section "Tokenizer", says how a tokenizer is
 * stored. */

typedef struct Tokenizer Tokenizer; /* immutable once open: threads may share it */

/* Open the tokenizer of a tensor file whose metadata has the entry "tokenizer". The tensors are
 * used in place, so f must outlive it. Everything is checked here: an id, offset or index out of
 * range is an INPUT error. SYSTEM: no memory. */
bool tokenizer_open(Tokenizer **t, const TensorFile *f, Error *err);
/* NULL is fine. */
void tokenizer_free(Tokenizer *t);

/* Ids are 0 .. size - 1. */
int tokenizer_size(const Tokenizer *t);
/* The raw bytes of one id, which belong to the tokenizer. False: id is out of range. */
bool tokenizer_piece(const Tokenizer *t, int id, const char **bytes, size_t *n_bytes);
/* The type of an id in range, as tok.types of docs/format.md has it. */
int tokenizer_piece_type(const Tokenizer *t, int id);

/* What the metadata entry says. It belongs to the tokenizer. */
typedef struct TokenizerFacts {
    const char    *type; /* "spm", "bpe", ... */
    int32_t        unk;  /* -1: none */
    const int32_t *prefix, *suffix; /* of add_special */
    size_t         n_prefix, n_suffix;
} TokenizerFacts;
TokenizerFacts tokenizer_facts(const Tokenizer *t);

typedef struct Ids { int32_t *id; size_t n, cap; } Ids; /* release id with free() */

/* Append the ids of text, which may be any bytes, also NUL and invalid UTF-8. parse_special:
 * special tokens spelled in text become their ids. add_special: put the tokenizer's template (BOS,
 * EOS) around them. Errors: SYSTEM (no memory); INPUT (a text that the vocabulary cannot express
 * and no unknown token; a PCRE2 limit; a text over 1 GiB). After an error, out holds a part. Time:
 * linear in the number of words, n log n in the length of a word. */
bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, bool parse_special,
                      bool add_special, Ids *out, Error *err);

/* A span of a text that the user or the model wrote, not the chat format. */
typedef struct TextSpan {
    size_t         start, end;
    /* NULL: plain text, in which special tokens are ordinary characters. Else the ids of the
     * span. */
    const int32_t *ids;
    size_t         n_ids;
    /* Use ids only if a special token or the end of the text follows; else treat the span as plain
     * text. (Without that, a piece could reach across the end of the span.) */
    bool           if_safe;
} TextSpan;

/* Append the ids of text. Special tokens are recognized outside the spans only. Spans are
 * ascending, do not overlap and lie inside the text. If no plain span spells a special token and no
 * span has ids, the result is that of tokenizer_encode with parse_special. Nothing in a plain span
 * becomes a special token, neither alone nor together with the text around it. Errors: as
 * tokenizer_encode. */
bool tokenizer_encode_spans(const Tokenizer *t, const char *text, size_t n_bytes,
                            const TextSpan *span, size_t n_spans, Ids *out, Error *err);

/* The id of the special token whose spelling is exactly this text; -1: none. */
int tokenizer_special_id(const Tokenizer *t, const char *text, size_t n_bytes);
/* The length of the longest special token at the start of the text, and its id; 0: none. */
size_t tokenizer_special_at(const Tokenizer *t, const char *text, size_t n_bytes, int *id);
/* Is this id a special token that can be found in a text? */
bool tokenizer_is_special(const Tokenizer *t, int id);
/* May ordinary text have this id? False: special, control, unknown and unused pieces. */
bool tokenizer_is_text(const Tokenizer *t, int id);

/* Decode ids to their exact bytes. The caller frees *text, which has a NUL after its n_bytes bytes.
 * Errors: INPUT (an id out of range), SYSTEM. */
bool tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, char **text,
                      size_t *n_bytes, Error *err);

/* Answer one request of `tokenize --jsonl` (tblock_tools.h: tblock_tokenize_json). Strings may hold
 * \u0000. The caller frees *answer. Errors: INPUT, SYSTEM. */
bool tokenizer_answer_json(const Tokenizer *t, const char *line, size_t n_bytes, char **answer,
                           Error *err);

/* Streaming: returns the bytes of one id after another, and holds bytes back until a UTF-8
 * character is complete: at most 3. A byte that cannot become valid UTF-8 is returned at once.
 * Strings are valid until the next call and end with NUL. */
typedef struct TextStream TextStream;
/* continues: the text continues another, so keep a leading space. NULL: no memory. */
TextStream *text_stream_new(const Tokenizer *t, bool continues);
/* An id out of range adds nothing. */
const char *text_stream_put(TextStream *s, int id, size_t *n_bytes);
const char *text_stream_flush(TextStream *s, size_t *n_bytes);
/* The bytes of one token inside a text, even if they are a part of a character. The bytes that the
 * stream holds back stay there. */
const char *text_stream_alone(TextStream *s, int id, size_t *n_bytes);
void        text_stream_free(TextStream *s);

/* Ends a stream of text at the first stop string in it. Start with { texts, n_texts }; release held
 * with text_out_free(). */
typedef struct StopTexts {
    const char *const *texts; /* none is empty */
    size_t             n;
    TextOut            held;  /* not shown yet: it may be the start of a stop string */
    bool               found;
    size_t             which; /* it is texts[which] */
} StopTexts;

/* Append to *shown what cannot be part of a stop string: of what was held back before, then of the
 * n bytes of text. The stop string that ends first counts (of those that end together, the
 * longest), however the text is split. It is not shown; found is set, and all later text is
 * dropped. Errors: SYSTEM. */
bool stop_texts_put(StopTexts *s, const char *text, size_t n, TextOut *shown, Error *err);

/* Call this at the end of the stream: it shows what was held back. Errors: SYSTEM. */
bool stop_texts_flush(StopTexts *s, TextOut *shown, Error *err);

/* ---- bpe_train.c ----------------------------------------------------------------------------- */

/* Makes a byte-level BPE vocabulary from a text. Source: Sennrich et al. 2016,
 * "Neural machine translation of rare words with subword units". Ties are broken as in tokenizers
 * (models/bpe/trainer.rs), so that both find the same merges. */

/* Ids 0 .. 255 are the bytes. The following ids are pieces, in the order in which merges first make
 * them. A merge may make a piece that exists already ("a" + "bc" after "ab" + "c"); it then gets
 * that piece's id. */
typedef struct BpeMerge { int32_t left, right, merged; } BpeMerge;

/* Find merges until there are n_ids ids. The text is cut into words by the steps `pretokenize`
 * (JSON, docs/format.md). Each merge joins the pair of neighbours that occurs most often inside
 * words; ties go to the lowest left id, then to the lowest right id. The caller frees *merges
 * [*n_merges]. *n_found is less than n_ids if every word has become one piece. Only the first 256
 * bytes of a word count. Memory grows with the number of different words. Errors: INPUT
 * (pretokenize, a runaway pattern), SYSTEM. */
bool bpe_train(const char *text, size_t n_bytes, const char *pretokenize, size_t n_ids,
               BpeMerge **merges, size_t *n_merges, size_t *n_found, Error *err);

#endif
