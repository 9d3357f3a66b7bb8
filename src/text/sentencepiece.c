/* SentencePiece BPE as google/sentencepiece 0.2 does it: src/normalizer.cc (Normalize, NormalizePrefix), src/bpe_model.cc
 * (SampleEncode) and src/sentencepiece_processor.cc (PopulateSentencePieceText). The identity normalizer only: a file
 * with a character map is refused by the converter. */
#include <string.h>
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

static bool ends_with_meta_space(const char *text, size_t n)
{
    return n >= META_SPACE_BYTES && memcmp(text + n - META_SPACE_BYTES, META_SPACE, META_SPACE_BYTES) == 0;
}

/* Bytes of the next unit of raw text: a user-defined symbol, or a character; 0 for an invalid byte. */
static size_t unit(const Tokenizer *t, const char *text, size_t n)
{
    int32_t  id;
    uint32_t cp = 0;
    size_t   len = piece_set_match(&t->user_defined, text, n, &id);
    return len ? len : character_at(text, n, &cp);
}

/* Normalize text into e->buffer: each invalid byte becomes U+FFFD, spaces U+2581, extra ones go, a dummy one comes first. */
static bool normalize(Encoder *e, const char *text, size_t n, size_t *n_out, Error *err)
{
    const Tokenizer *t = e->t;
    bool squeeze = t->remove_extra_whitespaces;
    while (squeeze && n && *text == ' ')
        text++, n--;
    *n_out = 0;
    if (n == 0)
        return true;
    if (!encoder_reserve(e, META_SPACE_BYTES * (n + 1), err))
        return false;
    const char *space = t->escape_whitespaces ? META_SPACE : " ";
    size_t      n_space = strlen(space);
    char       *out = e->buffer;
    if (t->add_dummy_prefix)
        memcpy(out, space, n_space), out += n_space;

    bool after_space = squeeze;
    for (size_t i = 0; i < n;) {
        size_t len = unit(t, text + i, n - i);
        if (len == 0) {
            memcpy(out, "\xEF\xBF\xBD", 3), out += 3;
            after_space = false;
            i++;
            continue;
        }
        const char *p = text + i, *end = p + len;
        i += len;
        while (after_space && p < end && *p == ' ')
            p++;
        if (p < end)
            after_space = squeeze && end[-1] == ' ';
        for (; p < end; p++) {
            if (*p == ' ')
                memcpy(out, space, n_space), out += n_space;
            else
                *out++ = *p;
        }
    }
    *n_out = (size_t)(out - e->buffer);
    while (squeeze && (t->escape_whitespaces ? ends_with_meta_space(e->buffer, *n_out) : *n_out && e->buffer[*n_out - 1] == ' '))
        *n_out -= n_space;
    return true;
}

/* The end of the word that begins at i: where a U+2581 follows another character. */
static size_t word_end(const char *text, size_t n, size_t i)
{
    while (i < n && n - i >= META_SPACE_BYTES && memcmp(text + i, META_SPACE, META_SPACE_BYTES) == 0)
        i += META_SPACE_BYTES;
    while (i < n) {
        const char *next = memchr(text + i, META_SPACE[0], n - i);
        if (!next)
            return n;
        i = (size_t)(next - text);
        if (n - i >= META_SPACE_BYTES && memcmp(next, META_SPACE, META_SPACE_BYTES) == 0)
            return i;
        i++;
    }
    return n;
}

bool sentencepiece_segment(Encoder *e, const char *text, size_t n, Error *err)
{
    size_t n_normal;
    if (!normalize(e, text, n, &n_normal, err))
        return false;
    for (size_t i = 0, end; i < n_normal; i = end) {
        end = e->t->splits_at_space ? word_end(e->buffer, n_normal, i) : n_normal;
        if (!encode_word(e, e->buffer + i, end - i, err))
            return false;
    }
    return true;
}

bool sentencepiece_symbols(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    for (size_t i = 0; i < n;) {
        int32_t  id;
        uint32_t cp = 0;
        size_t   len = piece_set_match(&t->user_defined, word + i, n - i, &id);
        bool     frozen = len > 0;
        if (!frozen) {
            len = character_at(word + i, n - i, &cp);
            len = len ? len : 1; /* a user-defined symbol that is not UTF-8 can leave half a character */
            id  = vocab_find(&t->vocab, word + i, len);
        }
        if (!merger_add(&e->merger, (uint32_t)i, (uint32_t)len, id, frozen, err))
            return false;
        i += len;
    }
    return true;
}

/* Bytes that are no piece: byte pieces, or one unknown token for a run of them. */
static bool push_unknown(Encoder *e, const char *bytes, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    if (t->byte_fallback) {
        for (size_t i = 0; i < n; i++)
            if (!ids_push(e->out, t->vocab.byte_id[(unsigned char)bytes[i]], err))
                return false;
        return true;
    }
    if (t->unk < 0)
        return fail(err, INPUT, "tokenizer: '%.*s' is not in the vocabulary, which has no unknown token", (int)n, bytes);
    bool runs_on = e->out->n > e->segment_first && e->out->id[e->out->n - 1] == t->unk;
    return runs_on || ids_push(e->out, t->unk, err);
}

static bool push_piece(Encoder *e, int32_t id, const char *bytes, size_t n, Error *err)
{
    return id >= 0 && id != e->t->unk ? ids_push(e->out, id, err) : push_unknown(e, bytes, n, err);
}

/* The last merge inside symbols [first, last), two or more that became one: the symbol that it took away. */
static size_t latest_merge(const Symbol *s, size_t first, size_t last)
{
    size_t latest = first + 1;
    for (size_t i = first + 2; i < last; i++)
        if (s[i].time > s[latest].time)
            latest = i;
    return latest;
}

/* An unused piece takes part in merges but is no answer: undo merges, the latest first, until no part is one; a single
 * character that is one is unknown. The merges of symbols [first, last) form a tree by their times: the part that begins
 * at a ends where a later merge than a's own was made. */
static bool push_unused(Encoder *e, const char *word, size_t first, size_t last, size_t n_word, Error *err)
{
    const Symbol *s = e->merger.symbol;
    for (size_t a = first, b; a < last; a = b) {
        b = a + 1;
        while (b < last && (a == first || s[b].time < s[a].time))
            b++;
        for (;; b = latest_merge(s, a, b)) {
            size_t  end = b < e->merger.n ? s[b].start : n_word, len = end - s[a].start;
            int32_t id = vocab_find(&e->t->vocab, word + s[a].start, len);
            bool    unused = id >= 0 && e->t->vocab.types[id] == PIECE_UNUSED;
            if (unused && b - a > 1)
                continue;
            if (!push_piece(e, unused ? -1 : id, word + s[a].start, len, err))
                return false;
            break;
        }
    }
    return true;
}

bool sentencepiece_emit(Encoder *e, const char *word, size_t n, Error *err)
{
    const Merger *m = &e->merger;
    for (uint32_t i = m->n ? 0 : NO_SYMBOL; i != NO_SYMBOL; i = m->symbol[i].next) {
        const Symbol *s = &m->symbol[i];
        bool unused = e->t->has_unused && s->id >= 0 && e->t->vocab.types[s->id] == PIECE_UNUSED;
        bool ok = unused ? push_unused(e, word, i, s->next == NO_SYMBOL ? m->n : s->next, n, err)
                         : push_piece(e, s->id, word + s->start, s->len, err);
        if (!ok)
            return false;
    }
    return true;
}
