/* Encodes as google/sentencepiece 0.2 does: src/normalizer.cc (Normalize, NormalizePrefix),
 * src/bpe_model.cc (SampleEncode) and src/sentencepiece_processor.cc
 * (PopulateSentencePieceText). */
#include <string.h>
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

/* What one rule of the normalizer takes from the text, and its replacement. */
typedef struct SpmRule { size_t taken; const char *by; size_t n; } SpmRule;

/* The rule that applies at text, n > 0. The first of these that fits: a user-defined symbol,
 * unchanged; the longest replacement of the charsmap; a character, unchanged; U+FFFD for a byte
 * that starts no character. */
static SpmRule rule_at(const Tokenizer *t, const char *text, size_t n)
{
    int32_t  id;
    uint32_t cp = 0;
    SpmRule     r = { 0 };
    size_t   len = piece_set_match(&t->user_defined, text, n, &id);
    if (len == 0 && t->has_charsmap
        && (r.taken = charsmap_match(&t->charsmap, text, n, false, &r.by, &r.n)) > 0)
        return r;
    len = len ? len : character_at(text, n, &cp);
    return len ? (SpmRule){ len, text, len } : (SpmRule){ 1, "\xEF\xBF\xBD", 3 };
}

/* Normalize text into out: apply the rules, turn spaces into U+2581, remove extra spaces, put the
 * dummy prefix first. */
static void normalize(const Tokenizer *t, const char *text, size_t n, TextOut *out)
{
    bool squeeze = t->remove_extra_whitespaces;
    out->n = 0;
    while (squeeze && n) {
        SpmRule r = rule_at(t, text, n);
        if (r.n != 1 || *r.by != ' ')
            break;
        text += r.taken, n -= r.taken;
    }
    if (n == 0)
        return;
    const char *space = t->escape_whitespaces ? META_SPACE : " ";
    size_t      n_space = strlen(space);
    if (t->add_dummy_prefix)
        text_out_bytes(out, space, n_space);

    bool after_space = squeeze;
    for (size_t i = 0; i < n;) {
        SpmRule        r = rule_at(t, text + i, n - i);
        const char *p = r.by, *end = p + r.n;
        i += r.taken;
        while (after_space && p < end && *p == ' ')
            p++;
        if (p < end)
            after_space = squeeze && end[-1] == ' ';
        for (size_t len = 1; p < end; p += len, len = 1) {
            while (*p != ' ' && p + len < end && p[len] != ' ')
                len++;
            if (!(*p == ' ' ? text_out_bytes(out, space, n_space) : text_out_bytes(out, p, len)))
                return;
        }
    }
    while (squeeze && out->n >= n_space
           && memcmp(out->text + out->n - n_space, space, n_space) == 0)
        out->n -= n_space;
}

bool sentencepiece_segment(Encoder *e, const char *text, size_t n, Error *err)
{
    const TextOut *normal = &e->normal;
    e->normal.most = e->growth ? e->growth : 1;
    normalize(e->t, text, n, &e->normal);
    if (!normalized_fits(normal, err))
        return false;
    e->growth -= normal->n < e->growth ? normal->n : e->growth;
    /* Unigram takes the segment as one word: sums of scores run through the whole text, and so does
     * their rounding. */
    if (e->t->type == SPM_UNIGRAM)
        return normal->n == 0 || unigram_word(e, normal->text, normal->n, err);
    for (size_t i = 0, end; i < normal->n; i = end) {
        end = e->t->splits_at_space ? meta_word_end(normal->text, normal->n, i) : normal->n;
        if (!encode_word(e, normal->text + i, end - i, err))
            return false;
    }
    return true;
}

static bool symbols(Encoder *e, const char *word, size_t n, Error *err)
{
    const Tokenizer *t = e->t;
    for (size_t i = 0; i < n;) {
        int32_t  id;
        uint32_t cp = 0;
        size_t   len = piece_set_match(&t->user_defined, word + i, n - i, &id);
        bool     frozen = len > 0;
        if (!frozen) {
            len = character_at(word + i, n - i, &cp);
            /* A user-defined symbol that is not UTF-8 can leave half a character. */
            len = len ? len : 1;
            id  = vocab_find(&t->vocab, word + i, len);
        }
        if (!merger_add(&e->merger, (uint32_t)i, (uint32_t)len, id, frozen, err))
            return false;
        i += len;
    }
    return true;
}

static bool push_piece(Encoder *e, int32_t id, const char *bytes, size_t n, Error *err)
{
    return id >= 0 && id != e->t->unk ? ids_push(e->out, id, err)
                                      : push_unknown(e, bytes, n, true, e->segment_first, err);
}

/* The last merge among symbols [first, last), of which there are two or more that became one.
 * Returns the symbol that this merge removed. */
static size_t latest_merge(const MergeSymbol *s, size_t first, size_t last)
{
    size_t latest = first + 1;
    for (size_t i = first + 2; i < last; i++)
        if (s[i].time > s[latest].time)
            latest = i;
    return latest;
}

/* An unused piece takes part in merges but is never a result. So merges are undone, the latest
 * first, until no part is unused; an unused single character becomes unknown. The times of the
 * merges of symbols [first, last) form a tree: the part that starts at a ends at the first symbol
 * that was merged later than a itself. */
static bool push_unused(Encoder *e, const char *word, size_t first, size_t last, size_t n_word,
                        Error *err)
{
    const MergeSymbol *s = e->merger.symbol;
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

static bool push_symbol(Encoder *e, const char *word, size_t n, uint32_t i, Error *err)
{
    const Merger *m = &e->merger;
    const MergeSymbol *s = &m->symbol[i];
    if (e->t->has_unused && s->id >= 0 && e->t->vocab.types[s->id] == PIECE_UNUSED)
        return push_unused(e, word, i, s->next == NO_SYMBOL ? m->n : s->next, n, err);
    return push_piece(e, s->id, word + s->start, s->len, err);
}

bool sentencepiece_word(Encoder *e, const char *word, size_t n, Error *err)
{
    return merged_word(e, word, n, symbols, push_symbol, err);
}
