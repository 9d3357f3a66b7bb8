/* Ids back to bytes, by the rules of each type of tokenizer. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

/* Maximum bytes that one id can add. The unknown token of SentencePiece is shown as its surface
 * text; no other piece becomes longer. */
static size_t longest(const Tokenizer *t, int32_t id)
{
    size_t n;
    vocab_bytes(&t->vocab, id, &n);
    return t->vocab.types[id] == PIECE_UNKNOWN && is_sentencepiece(t) ? strlen(t->unk_surface) : n;
}

size_t decode_longest(const Tokenizer *t)
{
    size_t unknown = is_sentencepiece(t) ? strlen(t->unk_surface) : 0;
    return t->vocab.longest > unknown ? t->vocab.longest : unknown;
}

/* Copy p with a space for each U+2581. Returns the length. */
static size_t show_spaces(const char *p, size_t n, char *out)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n;) {
        bool space = is_meta_space(p + i, n - i);
        out[n_out++] = space ? ' ' : p[i];
        i += space ? META_SPACE_BYTES : 1;
    }
    return n_out;
}

/* Follows SentencePiece's Decode (sentencepiece_processor.cc) with two differences: byte pieces
 * give their exact bytes, and control pieces are shown. Only the first U+2581 of the text can be
 * the dummy prefix. With remove_extra_whitespaces, all leading ones are dropped. */
static size_t decode_spm(const Tokenizer *t, int32_t id, bool *start, char *out)
{
    size_t      n;
    const char *p = vocab_bytes(&t->vocab, id, &n);
    switch (t->vocab.types[id]) {
    case PIECE_CONTROL: memcpy(out, p, n); return n;
    case PIECE_UNKNOWN: p = t->unk_surface; n = strlen(p); break;
    case PIECE_BYTE:    break;
    default:
        if (*start && (t->add_dummy_prefix || t->remove_extra_whitespaces) && is_meta_space(p, n)) {
            p += META_SPACE_BYTES;
            n -= META_SPACE_BYTES;
            *start = t->remove_extra_whitespaces;
        }
    }
    n = show_spaces(p, n, out);
    if (n)
        *start = false;
    return n;
}

/* Characters of a tokenizer.json, as its decoder (decoders/: Replace, ByteFallback, Fuse, Strip; or
 * Metaspace) shows them. One difference: invalid UTF-8 stays as it is. */
static size_t decode_characters(const Tokenizer *t, int32_t id, bool *start, char *out)
{
    size_t      n;
    const char *p = vocab_bytes(&t->vocab, id, &n);
    bool        first = *start;
    if (first && t->decode_strip == STRIP_FIRST_PIECE) {
        size_t n_out = 0;
        for (size_t i = 0; i < n; i++) {
            if (is_meta_space(p + i, n - i))
                i += META_SPACE_BYTES - 1;
            else
                out[n_out++] = p[i];
        }
        *start = false;
        return n_out;
    }
    n = show_spaces(p, n, out);
    if (n)
        *start = false;
    if (first && n && out[0] == ' ' && t->decode_strip == STRIP_SPACE)
        memmove(out, out + 1, --n);
    return n;
}

size_t decode_id(const Tokenizer *t, int32_t id, bool *start, char *out)
{
    if (is_sentencepiece(t))
        return decode_spm(t, id, start, out);
    if (t->type != BPE)
        return decode_characters(t, id, start, out);
    size_t      n;
    const char *p = vocab_bytes(&t->vocab, id, &n);
    memcpy(out, p, n);
    return n;
}

bool tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, char **text,
                      size_t *n_bytes, Error *err)
{
    size_t total = 1;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->vocab.size)
            return fail(err, INPUT, "tokenizer: expected ids from 0 to %d, found %d at place %zu",
                        t->vocab.size - 1, ids[i], i);
        if (!add_size(total, longest(t, ids[i]), &total))
            return fail(err, SYSTEM, "tokenizer: not enough memory to decode %zu ids", n);
    }
    char *out = malloc(total);
    if (!out)
        return fail(err, SYSTEM, "tokenizer: not enough memory to decode %zu ids", n);
    size_t at = 0;
    bool   start = true;
    for (size_t i = 0; i < n; i++)
        at += decode_id(t, ids[i], &start, out + at);
    out[at]  = '\0';
    *text    = out;
    *n_bytes = at;
    return true;
}
