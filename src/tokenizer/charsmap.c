/* Looks replacements up in the trie of SentencePiece's charsmap. */
#include "tokenizer/tokenizer_parts.h"

static bool is_wide(const char *p)
{
    return (unsigned char)p[0] >> 4 == 0xE && (unsigned char)p[1] >> 6 == 2
        && (unsigned char)p[2] >> 6 == 2;
}

static void wide_set(WideSet *s, unsigned b0, unsigned b1, uint64_t bits)
{
    s->row[(b0 & 15) << 6 | (b1 & 63)] |= bits;
}

static bool wide_has(const WideSet *s, const char *p)
{
    return s->row[(p[0] & 15) << 6 | (p[1] & 63)] >> (p[2] & 63) & 1;
}

/* The children of a node are *first and those after it. Returns how many there are. */
static uint32_t children(const Trie *t, uint32_t node, uint32_t *first)
{
    *first = t->nodes[3 * (size_t)node];
    return t->nodes[3 * (size_t)node + 1];
}

/* Of the rules that start with the three bytes that lead to node: true if one ends here or within
 * two bytes more, or continues with anything but a character of three bytes. Those characters are
 * added to m->second. */
static bool goes_on_otherwise(Charsmap *m, uint32_t node)
{
    const Trie *t = &m->trie;
    bool        otherwise = trie_value(t, node) >= 0;
    uint32_t    a, b, c;
    for (uint32_t i = children(t, node, &a); i > 0; i--, a++) {
        otherwise |= t->labels[a] >> 4 != 0xE || trie_value(t, a) >= 0;
        for (uint32_t k = children(t, a, &b); k > 0; k--, b++) {
            otherwise |= trie_value(t, b) >= 0;
            for (uint32_t l = children(t, b, &c); l > 0; l--, c++)
                wide_set(&m->second, t->labels[a], t->labels[b],
                         (uint64_t)1 << (t->labels[c] & 63));
        }
    }
    return otherwise;
}

static void find_begins(Charsmap *m)
{
    for (unsigned i = 0; i < 1024; i++) {
        uint32_t node = 0;
        unsigned b0 = 0xE0 | i >> 6, b1 = 0x80 | (i & 63);
        bool walks = trie_step(&m->trie, &node, (char)b0),
             ends = walks && trie_value(&m->trie, node) >= 0;
        walks = walks && trie_step(&m->trie, &node, (char)b1);
        ends |= walks && trie_value(&m->trie, node) >= 0;
        if (ends)
            wide_set(&m->begins, b0, b1, UINT64_MAX);
        for (unsigned k = 0; walks && k < 64; k++) {
            uint32_t at = node;
            if (trie_step(&m->trie, &at, (char)(0x80 | k)) && goes_on_otherwise(m, at))
                wide_set(&m->begins, b0, b1, (uint64_t)1 << k);
        }
    }
}

/* True for most characters of three bytes, also if they start a rule (as kana do) that needs
 * another character of three bytes than the text has next. */
static bool begins_no_rule(const Charsmap *m, const char *text, size_t n)
{
    if (n < 6 || !is_wide(text) || wide_has(&m->begins, text))
        return false;
    return (unsigned char)text[3] >> 4 != 0xE
        || (is_wide(text + 3) && !wide_has(&m->second, text + 3));
}

bool charsmap_open(Charsmap *m, const TensorFile *f, Error *err)
{
    const Tensor *bytes   = vocab_table(f, "tok.charsmap_bytes", DT_U8, -1, 0, err);
    const Tensor *offsets =
        bytes ? vocab_table(f, "tok.charsmap_offsets", DT_U32, -1, 0, err) : NULL;
    if (!offsets)
        return false;
    m->bytes   = bytes->data;
    m->offsets = offsets->data;
    size_t n = offsets->n_elements;
    if (n == 0 || m->offsets[0] != 0 || m->offsets[n - 1] != bytes->n_bytes)
        return fail(err, INPUT, "%s: tensor tok.charsmap_offsets: expected 0 first and %zu last",
                    f->map.path, bytes->n_bytes);
    for (size_t i = 1; i < n; i++)
        if (m->offsets[i] < m->offsets[i - 1])
            return fail(
                err, INPUT,
                "%s: tensor tok.charsmap_offsets: expected ascending offsets, found %u after %u",
                f->map.path, m->offsets[i], m->offsets[i - 1]);
    if (!trie_open(&m->trie, f, "tok.charsmap", n - 1, err))
        return false;
    find_begins(m);
    return true;
}

size_t charsmap_match(const Charsmap *m, const char *text, size_t n, bool shortest, const char **by,
                      size_t *n_by)
{
    size_t   longest = 0;
    uint32_t node = 0;
    if (begins_no_rule(m, text, n))
        return 0;
    for (size_t i = 0; i < n && trie_step(&m->trie, &node, text[i]); i++) {
        int32_t value = trie_value(&m->trie, node);
        if (value < 0)
            continue;
        longest = i + 1;
        *by   = m->bytes + m->offsets[value];
        *n_by = m->offsets[value + 1] - m->offsets[value];
        if (shortest)
            break;
    }
    return longest;
}
