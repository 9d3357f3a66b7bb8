/* Looks replacements up in the trie of SentencePiece's charsmap. */
#include "text/tokenizer_parts.h"


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
    return trie_open(&m->trie, f, "tok.charsmap", n - 1, err);
}

size_t charsmap_match(const Charsmap *m, const char *text, size_t n, bool shortest, const char **by,
                      size_t *n_by)
{
    size_t   longest = 0;
    uint32_t node = 0;
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
