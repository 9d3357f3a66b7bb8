#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "text/tokenizer_parts.h"

/* Bytes that one id can add: the unknown token is decoded to its surface, every other piece gets no longer. */
static size_t longest(const Tokenizer *t, int32_t id)
{
    size_t n;
    vocab_bytes(&t->vocab, id, &n);
    return t->vocab.types[id] == PIECE_UNKNOWN && t->vocab.spm ? strlen(t->unk_surface) : n;
}

size_t decode_longest(const Tokenizer *t)
{
    size_t unknown = t->vocab.spm ? strlen(t->unk_surface) : 0;
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
    case PIECE_UNKNOWN: p = t->unk_surface; n = strlen(p); break;
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
        if (ids[i] < 0 || ids[i] >= t->vocab.size)
            return fail(err, INPUT, "tokenizer: expected ids from 0 to %d, found %d at place %zu", t->vocab.size - 1, ids[i], i);
        if (!add_size(total, longest(t, ids[i]), &total))
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
