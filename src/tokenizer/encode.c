/* Text to ids. A text is split at special tokens, first in its raw form, then in the normalized
 * form of the rest. The segments between are cut into words, and each word becomes ids. Repeated
 * words come from a cache. */
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

enum { LONGEST_TEXT = 1 << 30, CACHE_FROM = 1024, FILTER_FROM = 1 << 18 }; /* bytes */

bool ids_push(Ids *ids, int32_t id, Error *err)
{
    if (!ARRAY_ROOM(ids->id, ids->cap, ids->n + 1))
        return fail(err, SYSTEM, "tokenizer: out of memory for %zu ids", ids->n + 1);
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

/* ---- Words ----------------------------------------------------------------------------------- */

bool push_unknown(Encoder *e, const char *bytes, size_t n, bool runs_on, size_t first, Error *err)
{
    const Tokenizer *t = e->t;
    for (size_t i = 0; t->byte_fallback && i < n; i++)
        if (!ids_push(e->out, t->vocab.byte_id[(unsigned char)bytes[i]], err))
            return false;
    if (t->byte_fallback)
        return true;
    if (t->unk < 0)
        return fail(err, INPUT,
                    "tokenizer: '%.*s' is not in the vocabulary, which has no unknown token",
                    (int)n, bytes);
    return (runs_on && e->out->n > first && e->out->id[e->out->n - 1] == t->unk)
        || ids_push(e->out, t->unk, err);
}

size_t meta_word_end(const char *text, size_t n, size_t i)
{
    while (i < n && is_meta_space(text + i, n - i))
        i += META_SPACE_BYTES;
    while (i < n) {
        const char *next = memchr(text + i, (unsigned char)META_SPACE[0], n - i);
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
        for (size_t i = 0; i < c->n; i++) /* by index: ids_push may move out->id */
            if (!ids_push(e->out, e->out->id[c->first + i], err))
                return false;
        return true;
    }
    size_t first = e->out->n;
    if (!new_word(e, word, n, err))
        return false;
    /* A word whose ids touch an unknown token is not cached. With fused unknown tokens, the ids at
     * such an edge depend on the word next to it. */
    const int32_t *id = e->out->id, unk = e->t->unk;
    bool edge_unknown = first == e->out->n || id[first] == unk || id[e->out->n - 1] == unk
        || (first > 0 && id[first - 1] == unk);
    if (!edge_unknown) {
        memcpy(c->word, word, n);
        c->len   = (uint8_t)n;
        c->first = first;
        c->n     = e->out->n - first;
    }
    return true;
}

/* A word from the pre-tokenizer. With BPE_CHAR it may be a whole text, so it is cut first at
 * positions that no merge can cross. */
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

/* ---- Segments: the text between special tokens ----------------------------------------------- */

static bool segment(Encoder *e, const char *text, size_t n, bool at_start, Error *err)
{
    if (n == 0)
        return true;
    e->segment_first = e->out->n;
    if (is_sentencepiece(e->t))
        return sentencepiece_segment(e, text, n, err);
    if (e->t->add_prefix_space && text[0] != ' ') {
        e->scratch.n = 0;
        e->scratch.most = NORMAL_MOST;
        if (!text_out_bytes(&e->scratch, " ", 1) || !text_out_bytes(&e->scratch, text, n))
            return normalized_fits(&e->scratch, err);
        text = e->scratch.text;
        n    = e->scratch.n;
    }
    return pretokenize(e->run, text, n, at_start, pretokenized_word, e, err);
}

/* ---- Special tokens, as in Hugging Face's added_vocabulary.rs: leftmost, then longest
 * ------------- */

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

/* Special tokens are searched twice: in the raw text, then in the normalized text between. */
enum { RAW, NORMALIZED };

/* A piece of text on its way through split_special: which pass it is in, and its spans. */
typedef struct TextPart {
    int             pass;
    const char     *text;
    size_t          n;
    bool            at_start;
    const TextSpan *span;  /* ascending; the first and last may reach beyond the part */
    size_t          n_spans;
    size_t          shift; /* offset of the part in the text that the spans refer to     */
} TextPart;

/* Index of the first span that ends after byte `at`. */
static size_t span_after(const TextPart *p, size_t at)
{
    size_t i = 0;
    BISECT (i, p->n_spans, p->span[i].end <= at);
    return i;
}

/* How many bytes from i on are outside all spans. */
static size_t outside_spans(const TextPart *p, size_t i)
{
    size_t at = p->shift + i, s = span_after(p, at);
    if (s == p->n_spans || p->span[s].start >= p->shift + p->n)
        return p->n - i;
    return p->span[s].start > at ? p->span[s].start - at : 0;
}

/* The length of the longest special token at byte i, or 0. Outside the spans, every special token
 * counts; inside them, only tokens that plain text may have (added tokens that are not special). */
static size_t special_at(const Encoder *e, const TextPart *p, size_t i, int32_t *which)
{
    const PieceSet *set = e->t->special_set[p->pass];
    const char     *text = p->text + i;
    if (!set[e->parse_special].starts[(unsigned char)*text])
        return 0;
    if (!p->n_spans)
        return piece_set_match(&set[e->parse_special], text, p->n - i, which);
    int32_t any;
    size_t  plain = piece_set_match(&set[false], text, p->n - i, which);
    size_t  found = piece_set_match(&set[true], text, outside_spans(p, i), &any);
    if (found > plain)
        *which = any;
    return found > plain ? found : plain;
}

/* Does a special token, or the end of the text, follow at byte i? */
static bool special_follows(const Encoder *e, const TextPart *p, size_t i)
{
    int32_t which;
    return i == p->n || special_at(e, p, i, &which) > 0;
}

static bool split_special(Encoder *e, const TextPart *p, Error *err);

/* Maximum bytes to normalize while finding the spans of one part. Each span needs all text before
 * it normalized, so thousands of spans could take hours. */
static const size_t PREFIXES_MOST = 256 << 20;

/* Find the plain spans of p, a part of the raw text, in its normalized form. The text before a span
 * is normalized alone; usually that gives the same bytes with and without the rest, because a step
 * looks at neighbours only. If the bytes differ, or it would take too long, the span is extended to
 * the end of the part. A special token of the format may be missed then, but plain text never
 * becomes a special token. */
static bool normalize_spans(Encoder *e, const TextPart *p, size_t first, size_t n, Error *err)
{
    TextSpan *grown = realloc(e->normal_span, (n + 1) * sizeof *grown);
    if (!grown)
        return fail(err, SYSTEM, "tokenizer: out of memory for %zu spans", n);
    e->normal_span = grown;
    TextOut before = { 0 };
    size_t work = 0;
    bool   ok = true;
    for (size_t i = 0; ok && i < 2 * n; i++) {
        const TextSpan *s = &p->span[first + i / 2];
        size_t at = i % 2 ? s->end : s->start;
        size_t raw = at <= p->shift ? 0 : at - p->shift < p->n ? at - p->shift : p->n;
        work += raw;
        bool look = work <= PREFIXES_MOST;
        size_t budget = normalizer_budget(raw);
        ok = !look
            || normalizer_run(e->t->normalizer, e->regex, p->text, raw, &before, &e->scratch,
                              &budget, err);
        bool same = look && before.n <= e->normal.n
            && (!before.n || memcmp(before.text, e->normal.text, before.n) == 0);
        if (i % 2)
            grown[i / 2].end = same && raw < p->n ? before.n : e->normal.n;
        else
            grown[i / 2] = (TextSpan){ .start = raw && same ? before.n : 0 };
    }
    free(before.text);
    return ok;
}

static bool between_special(Encoder *e, const TextPart *p, size_t from, size_t to, Error *err)
{
    TextPart part = *p;
    part.text += from;
    part.n = to - from;
    part.shift += from;
    part.at_start = p->at_start && from == 0;
    if (p->pass == NORMALIZED || part.n == 0)
        return segment(e, part.text, part.n, part.at_start, err);
    part.pass = NORMALIZED;
    if (!e->t->normalizer)
        return split_special(e, &part, err);
    size_t first = span_after(&part, part.shift), last = first;
    while (last < part.n_spans && part.span[last].start < part.shift + part.n)
        last++;
    if (!normalizer_run(e->t->normalizer, e->regex, part.text, part.n, &e->normal, &e->scratch,
                        &e->growth, err)
        || (last > first && !normalize_spans(e, &part, first, last - first, err)))
        return false;
    TextPart normal = {
        NORMALIZED, e->normal.text, e->normal.n, part.at_start, e->normal_span, last - first, 0
    };
    return split_special(e, &normal, err);
}

/* The span with ids that starts at byte i of the raw text, if its ids may be used; else NULL. */
static const TextSpan *ids_at(const Encoder *e, const TextPart *p, size_t i)
{
    if (p->pass != RAW || !p->n_spans)
        return NULL;
    size_t s = span_after(p, i);
    if (s == p->n_spans || p->span[s].start != i || !p->span[s].ids)
        return NULL;
    return !p->span[s].if_safe || special_follows(e, p, p->span[s].end) ? &p->span[s] : NULL;
}

static bool split_special(Encoder *e, const TextPart *p, Error *err)
{
    bool   any = e->t->special_set[p->pass][e->parse_special].n || (p->pass == RAW && p->n_spans);
    size_t done = 0;
    for (size_t i = 0; any && i < p->n;) {
        const TextSpan *given = ids_at(e, p, i);
        if (given) {
            if (!between_special(e, p, done, i, err)
                || !push_all(e->out, given->ids, given->n_ids, err))
                return false;
            done = i = given->end;
            continue;
        }
        int32_t which;
        size_t  start = i, len = special_at(e, p, i, &which);
        if (len == 0) {
            i++;
            continue;
        }
        i += len;
        const SpecialToken *s = &e->t->special[which];
        if (s->single_word && !stands_alone(p->text, p->n, start, i))
            continue;
        if (s->lstrip)
            start = spaces_before(p->text, done, start);
        if (s->rstrip)
            i = spaces_after(p->text, p->n, i);
        if (!between_special(e, p, done, start, err) || !ids_push(e->out, s->id, err))
            return false;
        done = i;
    }
    return between_special(e, p, done, p->n, err);
}

static bool encode(Encoder *e, const char *text, size_t n_bytes, bool add_special, Error *err)
{
    const Tokenizer *t = e->t;
    if (n_bytes > LONGEST_TEXT)
        return fail(err, INPUT, "tokenizer: expected a text of at most %d bytes, found %zu",
                    LONGEST_TEXT, n_bytes);
    if (n_bytes >= CACHE_FROM)
        e->cache = calloc(WORD_CACHE_SLOTS, sizeof *e->cache); /* no memory: only slower */
    if (n_bytes >= FILTER_FROM)
        merger_filter(&e->merger, &t->vocab);
    e->growth = normalizer_budget(n_bytes);
    TextPart whole = { RAW, text, n_bytes, true, e->span, e->n_spans, 0 };
    bool ok = is_sentencepiece(t)
        || (regex_begin(&e->regex, err)
            && pretokenize_begin(&e->run, t->pretokenizer, e->regex, err));
    if (ok && e->regex)
        regex_budget(e->regex, n_bytes);
    ok = ok && (!add_special || push_all(e->out, t->prefix, t->n_prefix, err));
    ok = ok && split_special(e, &whole, err);
    ok = ok && (!add_special || push_all(e->out, t->suffix, t->n_suffix, err));
    pretokenize_end(e->run);
    regex_end(e->regex);
    merger_free(&e->merger);
    free(e->starts);
    free(e->cache);
    free(e->way);
    free(e->normal_span);
    free(e->normal.text);
    free(e->scratch.text);
    return ok;
}

bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, bool parse_special,
                      bool add_special, Ids *out, Error *err)
{
    Encoder e = { .t = t, .parse_special = parse_special, .out = out };
    return encode(&e, text, n_bytes, add_special, err);
}

bool tokenizer_encode_spans(const Tokenizer *t, const char *text, size_t n_bytes,
                            const TextSpan *span, size_t n_spans, Ids *out, Error *err)
{
    Encoder e = { .t = t, .parse_special = true, .span = span, .n_spans = n_spans, .out = out };
    return encode(&e, text, n_bytes, false, err);
}

size_t tokenizer_special_at(const Tokenizer *t, const char *text, size_t n_bytes, int *id)
{
    size_t longest = 0;
    for (int pass = RAW; n_bytes && pass <= NORMALIZED; pass++) {
        int32_t      which;
        const size_t n = piece_set_match(&t->special_set[pass][true], text, n_bytes, &which);
        if (n > longest) {
            longest = n;
            *id     = t->special[which].id;
        }
    }
    return longest;
}

int tokenizer_special_id(const Tokenizer *t, const char *text, size_t n_bytes)
{
    int id = -1;
    return n_bytes && tokenizer_special_at(t, text, n_bytes, &id) == n_bytes ? id : -1;
}

bool tokenizer_is_special(const Tokenizer *t, int id)
{
    for (size_t i = 0; i < t->n_special; i++)
        if (t->special[i].id == id)
            return true;
    return false;
}

bool tokenizer_is_text(const Tokenizer *t, int id)
{
    uint8_t type = t->vocab.types[id];
    return (type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_BYTE)
        && !tokenizer_is_special(t, id);
}
