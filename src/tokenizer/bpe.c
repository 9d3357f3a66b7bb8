/* The words of a BPE tokenizer.json: a word becomes symbols (one for each byte, or one for each
 * character), which merge.c then merges. Follows tokenizers' models/bpe/model.rs (merge_word). */
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

/* Where the merges of the character at word[i] may start; NULL: at its bytes. Making the tables for
 * this takes as long as they save for this many characters. */
static const CharacterStart *start_at(Encoder *e, const char *word, size_t n, size_t i)
{
    enum { STARTS_FROM = 1 << 15 };
    if (e->n_wide++ == STARTS_FROM)
        e->starts = character_starts(&e->t->vocab);
    return e->starts ? character_start(e->starts, &e->t->vocab, word, n, i) : NULL;
}

static bool byte_symbols(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    for (size_t i = 0; i < n;) {
        unsigned char         byte = (unsigned char)word[i];
        const CharacterStart *s = byte >= 0xC0 ? start_at(e, word, n, i) : NULL;
        for (int k = 0; s && k < s->n; i += s->len[k++])
            if (!merger_add(&e->merger, (uint32_t)i, s->len[k], s->id[k], false, err))
                return false;
        if (s)
            continue;
        int32_t id = t->vocab.byte_id[byte];
        if (id < 0 && t->unk < 0 && !t->drop_unknown)
            return fail(
                err, INPUT,
                "tokenizer: byte 0x%02x is not in the vocabulary, which has no unknown token",
                byte);
        if (id < 0 && t->unk < 0)
            i++;
        else if (!merger_add(&e->merger, (uint32_t)i++, 1, id < 0 ? t->unk : id, id < 0, err))
            return false;
    }
    return true;
}

/* A character that is not in the vocabulary. With byte_fallback it becomes its byte pieces, else
 * the unknown token. With fuse_unk a run of such characters gets one unknown token. */
static bool unknown_symbols(Encoder *e, const char *word, size_t at, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    Merger *m = &e->merger;
    for (size_t i = at; t->byte_fallback && i < at + n; i++)
        if (!merger_add(m, (uint32_t)i, 1, t->vocab.byte_id[(unsigned char)word[i]], false, err))
            return false;
    if (t->byte_fallback)
        return true;
    if (t->unk < 0 && t->drop_unknown)
        return true;
    if (t->unk < 0)
        return fail(err, INPUT,
                    "tokenizer: '%.*s' is not in the vocabulary, which has no unknown token",
                    (int)n, word + at);
    if (t->fuse_unk && m->n && m->symbol[m->n - 1].frozen) {
        m->symbol[m->n - 1].len += (uint32_t)n;
        return true;
    }
    return merger_add(m, (uint32_t)at, (uint32_t)n, t->unk, true, err);
}

static bool character_symbols(Encoder *e, const char *word, size_t n, Error *err)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp = 0;
        len = character_at(word + i, n - i, &cp);
        len = len ? len : 1;
        int32_t id = vocab_find(&e->t->vocab, word + i, len);
        bool    ok = text_has(e, id)
            ? merger_add(&e->merger, (uint32_t)i, (uint32_t)len, id, false, err)
            : unknown_symbols(e, word, i, len, err);
        if (!ok)
            return false;
    }
    return true;
}

static bool push_id(Encoder *e, const char *word, size_t n, uint32_t i, Error *err)
{
    (void)word, (void)n;
    return ids_push(e->out, e->merger.symbol[i].id, err);
}

bool bpe_word(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    int32_t whole = t->ignore_merges ? vocab_find(&t->vocab, word, n) : -1;
    if (whole >= 0 && (t->type == BPE || text_has(e, whole)))
        return ids_push(e->out, whole, err);
    return merged_word(e, word, n, t->type == BPE ? byte_symbols : character_symbols, push_id, err);
}
