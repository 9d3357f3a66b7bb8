#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

enum { LONGEST_TEXT = 1 << 30, CACHE_FROM = 1024 }; /* bytes; normalizing makes a text at most three times as long */

bool ids_push(Ids *ids, int32_t id, Error *err)
{
    if (ids->n == ids->cap) {
        size_t   cap = ids->cap ? 2 * ids->cap : 64;
        int32_t *grown = cap < SIZE_MAX / sizeof *grown ? realloc(ids->id, cap * sizeof *grown) : NULL;
        if (!grown)
            return fail(err, SYSTEM, "tokenizer: no memory for %zu ids", cap);
        ids->id  = grown;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return true;
}

static bool push_all(Ids *ids, const int32_t *id, size_t n, Error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!ids_push(ids, id[i], err))
            return false;
    return true;
}

bool encoder_reserve(Encoder *e, size_t n, Error *err)
{
    if (e->cap >= n)
        return true;
    free(e->buffer);
    e->cap    = 0;
    e->buffer = malloc(n);
    if (!e->buffer)
        return fail(err, SYSTEM, "tokenizer: no memory for a text of %zu bytes", n);
    e->cap = n;
    return true;
}

/* ---- Words ---------------------------------------------------------------------------------------------------- */

static bool byte_symbols(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    for (size_t i = 0; i < n; i++) {
        int32_t id = t->vocab.byte_id[(unsigned char)word[i]];
        if (id < 0 && t->unk < 0)
            return fail(err, INPUT, "tokenizer: byte 0x%02x is not in the vocabulary, which has no unknown token",
                        (unsigned char)word[i]);
        if (!merger_add(&e->merger, (uint32_t)i, 1, id < 0 ? t->unk : id, id < 0, err))
            return false;
    }
    return true;
}

static bool byte_emit(Encoder *e, Error *err)
{
    const Merger *m = &e->merger;
    for (uint32_t i = m->n ? 0 : NO_SYMBOL; i != NO_SYMBOL; i = m->symbol[i].next)
        if (!ids_push(e->out, m->symbol[i].id, err))
            return false;
    return true;
}

static bool merge_word(Encoder *e, const char *word, size_t n, Error *err)
{
    const Vocab *v = &e->t->vocab;
    if (e->t->ignore_merges) {
        int32_t whole = vocab_find(v, word, n);
        if (whole >= 0)
            return ids_push(e->out, whole, err);
    }
    e->merger.n = 0;
    if (v->spm)
        return sentencepiece_symbols(e, word, n, err) && merger_run(&e->merger, v, word, err) &&
               sentencepiece_emit(e, word, n, err);
    return byte_symbols(e, word, n, err) && merger_run(&e->merger, v, word, err) && byte_emit(e, err);
}

bool encode_word(Encoder *e, const char *word, size_t n, Error *err)
{
    if (!e->cache || n > WORD_CACHE_LONGEST)
        return merge_word(e, word, n, err);
    CachedWord *c = &e->cache[fnv1a(FNV_SEED, word, n) % WORD_CACHE_SLOTS];
    if (c->segment == e->segment && c->len == n && memcmp(c->word, word, n) == 0) {
        for (size_t i = 0; i < c->n; i++) /* by index: the push may move out->id */
            if (!ids_push(e->out, e->out->id[c->first + i], err))
                return false;
        return true;
    }
    size_t first = e->out->n;
    if (!merge_word(e, word, n, err))
        return false;
    /* What an unknown token at a word's edge becomes depends on its neighbour. */
    bool edge_unknown = first == e->out->n || e->out->id[first] == e->t->unk || e->out->id[e->out->n - 1] == e->t->unk;
    if (!edge_unknown)
        *c = (CachedWord){ word, (uint32_t)n, e->segment, first, e->out->n - first };
    return true;
}

static bool pretokenized_word(void *arg, const char *word, size_t n, Error *err) { return encode_word(arg, word, n, err); }

/* ---- Segments: the text between special tokens ---------------------------------------------------------------- */

static bool byte_level_segment(Encoder *e, const char *text, size_t n, Error *err)
{
    if (e->t->add_prefix_space && text[0] != ' ') {
        if (!encoder_reserve(e, n + 1, err))
            return false;
        e->buffer[0] = ' ';
        memcpy(e->buffer + 1, text, n);
        text = e->buffer;
        n++;
    }
    return pretokenize(e->run, text, n, pretokenized_word, e, err);
}

static bool segment(Encoder *e, const char *text, size_t n, Error *err)
{
    if (n == 0)
        return true;
    e->segment++;
    e->segment_first = e->out->n;
    return e->t->vocab.spm ? sentencepiece_segment(e, text, n, err) : byte_level_segment(e, text, n, err);
}

/* NFC of the valid parts of text. *owned: NULL, or what the caller frees; *out: that, or text itself. */
static bool segment_nfc(const char *text, size_t n, char **owned, const char **out, size_t *n_out, Error *err)
{
    *owned = NULL;
    *out   = text;
    *n_out = n;
    size_t at = 0, cap = 0;
    for (size_t i = 0; i < n;) {
        size_t valid = valid_prefix(text + i, n - i), n_part;
        char  *part;
        bool   ok = normalize_nfc(text + i, valid, &part, &n_part);
        if (ok && valid == n) { /* the usual case */
            *owned = part;
            *out   = part ? part : text;
            *n_out = n_part;
            return true;
        }
        size_t bad = i + valid < n ? 1 : 0;
        if (ok && at + n_part + bad > cap) {
            cap = 2 * (at + n_part + bad) + n;
            char *grown = realloc(*owned, cap);
            ok = grown != NULL;
            *owned = ok ? grown : *owned;
        }
        if (!ok) {
            free(part);
            free(*owned);
            return fail(err, SYSTEM, "tokenizer: no memory to normalize %zu bytes", n);
        }
        memcpy(*owned + at, part ? part : text + i, n_part);
        at += n_part;
        i += valid;
        if (bad)
            (*owned)[at++] = text[i++];
        free(part);
    }
    *out   = *owned ? *owned : text;
    *n_out = *owned ? at : n;
    return true;
}

/* ---- Special tokens (as Hugging Face's added_vocabulary.rs: leftmost, then longest) --------------------------- */

static bool stands_alone(const char *text, size_t n, size_t start, size_t end)
{
    uint32_t cp = 0;
    bool before = character_before(text, start, &cp) && is_word(cp);
    bool after  = character_at(text + end, n - end, &cp) && is_word(cp);
    return !before && !after;
}

static size_t spaces_before(const char *text, size_t first, size_t start)
{
    uint32_t cp = 0;
    size_t   len;
    while ((len = character_before(text + first, start - first, &cp)) > 0 && is_white_space(cp))
        start -= len;
    return start;
}

static size_t spaces_after(const char *text, size_t n, size_t end)
{
    uint32_t cp = 0;
    size_t   len;
    while ((len = character_at(text + end, n - end, &cp)) > 0 && is_white_space(cp))
        end += len;
    return end;
}

enum { RAW, NORMALIZED, PASSES }; /* special tokens of the raw text first, then of the normalized text between them */

static bool split_special(Encoder *e, int pass, const char *text, size_t n, Error *err);

static bool between_special(Encoder *e, int pass, const char *text, size_t n, Error *err)
{
    if (pass == NORMALIZED || n == 0)
        return segment(e, text, n, err);
    if (!e->t->nfc)
        return split_special(e, NORMALIZED, text, n, err);
    char       *owned;
    const char *normal;
    size_t      n_normal;
    if (!segment_nfc(text, n, &owned, &normal, &n_normal, err))
        return false;
    bool ok = split_special(e, NORMALIZED, normal, n_normal, err);
    free(owned);
    return ok;
}

static bool split_special(Encoder *e, int pass, const char *text, size_t n, Error *err)
{
    const PieceSet *set = &e->t->special_set[pass][e->parse_special];
    size_t done = 0;
    for (size_t i = 0; set->n && i < n;) {
        int32_t which;
        size_t  start = i, len = piece_set_match(set, text + i, n - i, &which);
        if (len == 0) {
            i++;
            continue;
        }
        i += len;
        const SpecialToken *s = &e->t->special[which];
        if (s->single_word && !stands_alone(text, n, start, i))
            continue;
        if (s->lstrip)
            start = spaces_before(text, done, start);
        if (s->rstrip)
            i = spaces_after(text, n, i);
        if (!between_special(e, pass, text + done, start - done, err) || !ids_push(e->out, s->id, err))
            return false;
        done = i;
    }
    return between_special(e, pass, text + done, n - done, err);
}

bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, bool parse_special, bool add_special, Ids *out,
                      Error *err)
{
    if (n_bytes > LONGEST_TEXT)
        return fail(err, INPUT, "tokenizer: expected a text of at most %d bytes, found %zu", LONGEST_TEXT, n_bytes);
    Encoder e = { .t = t, .parse_special = parse_special, .out = out };
    if (n_bytes >= CACHE_FROM)
        e.cache = calloc(WORD_CACHE_SLOTS, sizeof *e.cache); /* without memory: slower, nothing else */
    bool ok = t->vocab.spm || pretokenize_begin(&e.run, t->pretokenizer, err);
    ok = ok && (!add_special || push_all(out, t->prefix, t->n_prefix, err));
    ok = ok && split_special(&e, RAW, text, n_bytes, err);
    ok = ok && (!add_special || push_all(out, t->suffix, t->n_suffix, err));
    pretokenize_end(e.run);
    merger_free(&e.merger);
    free(e.cache);
    free(e.buffer);
    return ok;
}
