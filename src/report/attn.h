/* report/attn.h: attention probabilities as a page of heat maps and as JSON. Draws what it is
 * given, computes nothing. */
#ifndef REPORT_ATTN_H
#define REPORT_ATTN_H

#include "base/json.h"
#include "model/config.h"

/* of one token; any bytes */
typedef struct AttnPiece { const char *bytes; size_t n_bytes; } AttnPiece;

/* What to draw. Everything belongs to the caller. */
typedef struct AttnView {
    const char      *model;            /* name of the file                        */
    const char      *sha256, *kv_type; /* "" if unknown                           */
    const Config    *cfg;
    size_t           n_tokens;
    const int32_t   *token;            /* [n_tokens]                              */
    const AttnPiece *piece;            /* [n_tokens]; NULL: no tokenizer          */
    int              n_layers, n_heads;
    const int       *layer, *head;     /* which of the model's                    */
    const float     *p;                /* [n_layers, n_heads, n_tokens, n_tokens] */
} AttnView;

/* Takes the output in chunks; false, with err filled, stops. */
typedef struct AttnSink {
    bool (*put)(void *user, const char *data, size_t n_bytes, Error *err); void *user;
} AttnSink;

/* Both fail if the sink does, and without memory. A page of HTML has fewer than ATTN_PAGE_BYTES;
 * attn_html fails (USAGE) if there are more heads than have room for one cell each. */
enum { ATTN_PAGE_BYTES = 3000000 };
bool attn_html(const AttnView *v, const AttnSink *out, Error *err);
bool attn_json(const AttnView *v, const AttnSink *out, Error *err);

/* Hand what *text has collected to the sink and empty it. */
bool attn_flush(TextOut *text, const AttnSink *out, Error *err);

/* A token as a person can read it, a JSON string: white space, control characters, invisible
 * characters and bytes that are not UTF-8 are spelled. After `limit` bytes it ends with an
 * ellipsis. */
void attn_label(TextOut *out, const AttnPiece *piece, size_t limit);

#endif
