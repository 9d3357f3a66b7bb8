#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "text/tokenizer_parts.h"

/* What SentencePiece shows for the unknown token (its default unk_surface): U+2047 between spaces. */
#define UNKNOWN_SURFACE " \xE2\x81\x87 "

size_t decode_longest(const Tokenizer *t)
{
    size_t unknown = strlen(UNKNOWN_SURFACE);
    return t->vocab.longest > unknown ? t->vocab.longest : unknown;
}

/* SentencePiece's Decode (sentencepiece_processor.cc), but byte pieces give their bytes and control pieces are shown.
 * Only the first U+2581 of the text can be a dummy prefix; where extra white space is removed, all leading ones go. */
static size_t decode_spm(const Tokenizer *t, int32_t id, bool *start, char *out)
{
    size_t      n;
    const char *p = vocab_bytes(&t->vocab, id, &n);
    switch (t->vocab.types[id]) {
    case PIECE_CONTROL: memcpy(out, p, n); return n;
    case PIECE_UNKNOWN: p = UNKNOWN_SURFACE; n = strlen(UNKNOWN_SURFACE); break;
    case PIECE_BYTE:    break;
    default:
        if (*start && (t->add_dummy_prefix || t->remove_extra_whitespaces) && n >= META_SPACE_BYTES &&
            memcmp(p, META_SPACE, META_SPACE_BYTES) == 0) {
            p += META_SPACE_BYTES;
            n -= META_SPACE_BYTES;
            *start = t->remove_extra_whitespaces;
        }
    }
    char *at = out;
    for (size_t i = 0; i < n;) {
        bool space = n - i >= META_SPACE_BYTES && memcmp(p + i, META_SPACE, META_SPACE_BYTES) == 0;
        *at++ = space ? ' ' : p[i];
        i += space ? META_SPACE_BYTES : 1;
    }
    if (at > out)
        *start = false;
    return (size_t)(at - out);
}

size_t decode_id(const Tokenizer *t, int32_t id, bool *start, char *out)
{
    if (t->vocab.spm)
        return decode_spm(t, id, start, out);
    size_t      n;
    const char *p = vocab_bytes(&t->vocab, id, &n);
    memcpy(out, p, n);
    return n;
}

bool tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, char **text, size_t *n_bytes, Error *err)
{
    size_t total = 1;
    for (size_t i = 0; i < n; i++) {
        size_t n_piece = 0;
        if (ids[i] < 0 || ids[i] >= t->vocab.size)
            return fail(err, INPUT, "tokenizer: expected ids from 0 to %d, found %d at place %zu", t->vocab.size - 1, ids[i], i);
        vocab_bytes(&t->vocab, ids[i], &n_piece);
        if (!add_size(total, n_piece + strlen(UNKNOWN_SURFACE), &total))
            return fail(err, SYSTEM, "tokenizer: no memory to decode %zu ids", n);
    }
    char *out = malloc(total);
    if (!out)
        return fail(err, SYSTEM, "tokenizer: no memory to decode %zu ids", n);
    size_t at = 0;
    bool   start = true;
    for (size_t i = 0; i < n; i++)
        at += decode_id(t, ids[i], &start, out + at);
    out[at]  = '\0';
    *text    = out;
    *n_bytes = at;
    return true;
}
