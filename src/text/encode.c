#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

enum { LONGEST_TEXT = 1 << 30, CACHE_FROM = 1024, FILTER_FROM = 1 << 18 }; /* bytes */

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

/* ---- Words ---------------------------------------------------------------------------------------------------- */

bool push_unknown(Encoder *e, const char *bytes, size_t n, bool runs_on, size_t first, Error *err)
{
    const Tokenizer *t = e->t;
    for (size_t i = 0; t->byte_fallback && i < n; i++)
        if (!ids_push(e->out, t->vocab.byte_id[(unsigned char)bytes[i]], err))
            return false;
    if (t->byte_fallback)
        return true;
    if (t->unk < 0)
        return fail(err, INPUT, "tokenizer: '%.*s' is not in the vocabulary, which has no unknown token", (int)n, bytes);
    return (runs_on && e->out->n > first && e->out->id[e->out->n - 1] == t->unk) || ids_push(e->out, t->unk, err);
}

size_t meta_word_end(const char *text, size_t n, size_t i)
{
    while (i < n && is_meta_space(text + i, n - i))
        i += META_SPACE_BYTES;
    while (i < n) {
        const char *next = memchr(text + i, META_SPACE[0], n - i);
        if (!next)
            return n;
        i = (size_t)(next - text);
        if (is_meta_space(next, n - i))
            return i;
        i++;
    }
    return n;
}

static bool new_word(Encoder *e, const char *word, size_t n, Error *err)
{
    switch (e->t->type) {
    case SPM:     return sentencepiece_word(e, word, n, err);
    case UNIGRAM: return unigram_word(e, word, n, err);
    default:      return bpe_word(e, word, n, err);
    }
}

bool encode_word(Encoder *e, const char *word, size_t n, Error *err)
{
    if (!e->cache || n > WORD_CACHE_LONGEST)
        return new_word(e, word, n, err);
    CachedWord *c = &e->cache[fnv1a(FNV_SEED, word, n) % WORD_CACHE_SLOTS];
    if (c->len == n && memcmp(c->word, word, n) == 0) {
        for (size_t i = 0; i < c->n; i++) /* by index: the push may move out->id */
            if (!ids_push(e->out, e->out->id[c->first + i], err))
                return false;
        return true;
    }
    size_t first = e->out->n;
    if (!new_word(e, word, n, err))
        return false;
    /* What an unknown token at a word's edge becomes depends on its neighbour. */
    bool edge_unknown = first == e->out->n || e->out->id[first] == e->t->unk || e->out->id[e->out->n - 1] == e->t->unk;
    if (!edge_unknown) {
        memcpy(c->word, word, n);
        c->len   = (uint8_t)n;
        c->first = first;
        c->n     = e->out->n - first;
    }
    return true;
}

/* A word from the pre-tokenizer. One of characters may be a whole text: it is cut where no merge can cross. */
static bool pretokenized_word(void *arg, const char *word, size_t n, Error *err)
{
    Encoder *e = arg;
    if (e->t->type != BPE_CHAR || !e->t->splits_at_space || e->t->ignore_merges)
        return encode_word(e, word, n, err);
    for (size_t i = 0, end; i < n; i = end) {
        end = meta_word_end(word, n, i);
        if (!encode_word(e, word + i, end - i, err))
            return false;
    }
    return true;
}

/* ---- Segments: the text between special tokens ---------------------------------------------------------------- */

static bool segment(Encoder *e, const char *text, size_t n, bool at_start, Error *err)
{
    if (n == 0)
        return true;
    e->segment_first = e->out->n;
    if (is_sentencepiece(e->t))
        return sentencepiece_segment(e, text, n, err);
    if (e->t->add_prefix_space && text[0] != ' ') {
        e->scratch.n = 0;
        if (!bytes_add(&e->scratch, " ", 1, err) || !bytes_add(&e->scratch, text, n, err))
            return false;
        text = e->scratch.p;
        n    = e->scratch.n;
    }
    return pretokenize(e->run, text, n, at_start, pretokenized_word, e, err);
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

enum { RAW, NORMALIZED }; /* special tokens of the raw text first, then of the normalized text between them */

static bool split_special(Encoder *e, int pass, const char *text, size_t n, bool at_start, Error *err);

static bool between_special(Encoder *e, int pass, const char *text, size_t n, bool at_start, Error *err)
{
    if (pass == NORMALIZED || n == 0)
        return segment(e, text, n, at_start, err);
    if (!e->t->normalizer)
        return split_special(e, NORMALIZED, text, n, at_start, err);
    return normalizer_run(e->t->normalizer, e->regex, text, n, &e->normal, &e->scratch, err) &&
           split_special(e, NORMALIZED, e->normal.p, e->normal.n, at_start, err);
}

static bool split_special(Encoder *e, int pass, const char *text, size_t n, bool at_start, Error *err)
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
        if (!between_special(e, pass, text + done, start - done, at_start && done == 0, err) || !ids_push(e->out, s->id, err))
            return false;
        done = i;
    }
    return between_special(e, pass, text + done, n - done, at_start && done == 0, err);
}

bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, bool parse_special, bool add_special, Ids *out,
                      Error *err)
{
    if (n_bytes > LONGEST_TEXT)
        return fail(err, INPUT, "tokenizer: expected a text of at most %d bytes, found %zu", LONGEST_TEXT, n_bytes);
    Encoder e = { .t = t, .parse_special = parse_special, .out = out };
    if (n_bytes >= CACHE_FROM)
        e.cache = calloc(WORD_CACHE_SLOTS, sizeof *e.cache); /* without memory: slower, nothing else */
    if (n_bytes >= FILTER_FROM)
        merger_filter(&e.merger, &t->vocab);
    bool ok = is_sentencepiece(t) || (regex_begin(&e.regex, err) && pretokenize_begin(&e.run, t->pretokenizer, e.regex, err));
    if (ok && e.regex)
        regex_budget(e.regex, n_bytes);
    ok = ok && (!add_special || push_all(out, t->prefix, t->n_prefix, err));
    ok = ok && split_special(&e, RAW, text, n_bytes, true, err);
    ok = ok && (!add_special || push_all(out, t->suffix, t->n_suffix, err));
    pretokenize_end(e.run);
    regex_end(e.regex);
    merger_free(&e.merger);
    free(e.cache);
    free(e.node);
    free(e.normal.p);
    free(e.scratch.p);
    return ok;
}
