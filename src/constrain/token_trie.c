/* A vocabulary as trees of bytes. Plain tokens have their own trees, because a mask that allows any
 * text of a JSON string takes them all unchecked; and so have long tokens, because a count that is
 * far from its end affects only those. */
#include "constrain/token_trie.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "constrain/grammar_parts.h"

typedef struct TokenBytes { const unsigned char *bytes; size_t n; int id; } TokenBytes;

static int pieces_ascend(const void *a, const void *b)
{
    const TokenBytes *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    return order ? order : x->n != y->n ? (x->n > y->n) - (x->n < y->n) : x->id - y->id;
}

/* Has it only characters that a JSON string holds unescaped? */
static bool is_plain(const TokenBytes *p)
{
    uint32_t c = 0;
    for (size_t i = 0; i < p->n;) {
        int n = utf8_decode((const char *)p->bytes + i, p->n - i, &c);
        if (n < 0 || c < 0x20 || c == '"' || c == '\\')
            return false;
        i += (size_t)n;
    }
    return true;
}

/* The index of its tree, tier by tier. */
static int slice_of(const TokenTrie *t, const TokenBytes *p)
{
    int tier = 0;
    while (p->n > t->most[tier])
        tier++;
    return SLICES * tier + (is_plain(p) ? SLICE_PLAIN : SLICE_OTHER);
}

static bool is_crossing(const TokenBytes *p)
{
    for (size_t i = 0; i + 2 < p->n; i++) {
        size_t quote = i + 1 + (p->bytes[i + 1] == ' ');
        if (p->bytes[i] == ',' && p->bytes[quote] == '"' && quote + 1 < p->n)
            return true;
    }
    return false;
}

static bool find_crossing(TokenTrie *t, const TokenBytes *piece, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_crossing(&piece[i]))
            continue;
        if (!ARRAY_ROOM(t->crossing, t->cap_crossing, t->n_crossing + 1))
            return false;
        t->crossing[t->n_crossing++] =
            (CrossingToken){ (size_t)(piece[i].bytes - (const unsigned char *)t->bytes), piece[i].n,
                             piece[i].id };
    }
    return true;
}

/* Count the nodes of sorted pieces, or make them. */
static size_t make_nodes(TokenSlice *s, const TokenBytes *piece, size_t n, bool make)
{
    size_t n_nodes = 0, depth = 0;
    size_t path[MOST_TOKEN_BYTES]; /* the node at each depth */
    for (size_t i = 0; i < n; i++) {
        size_t common = 0;
        if (i > 0)
            while (common < piece[i - 1].n && common < piece[i].n
                   && piece[i - 1].bytes[common] == piece[i].bytes[common])
                common++;
        for (; make && depth > common; depth--)
            s->node[path[depth - 1]].end = (uint32_t)n_nodes;
        for (depth = common; depth < piece[i].n; depth++) {
            if (make) {
                s->node[n_nodes] = (TrieNode){ .byte = piece[i].bytes[depth],
                                               .depth = (uint16_t)(depth + 1),
                                               .first_id = (uint32_t)s->n_ids, .n_ids = 0 };
                path[depth] = n_nodes;
            }
            n_nodes++;
        }
        if (make) {
            s->node[path[depth - 1]].n_ids++;
            s->id[s->n_ids++] = piece[i].id;
        }
    }
    for (; make && depth > 0; depth--)
        s->node[path[depth - 1]].end = (uint32_t)n_nodes;
    return n_nodes;
}

static bool make_slice(TokenSlice *s, const TokenBytes *piece, size_t n, size_t n_words)
{
    s->n_nodes = make_nodes(s, piece, n, false);
    s->node = calloc(s->n_nodes + 1, sizeof *s->node);
    s->id = calloc(n + 1, sizeof *s->id);
    s->bits = calloc(n_words + 1, sizeof *s->bits);
    if (!s->node || !s->id || !s->bits)
        return false;
    make_nodes(s, piece, n, true);
    for (size_t i = 0; i < n; i++)
        s->bits[piece[i].id / 64] |= 1ull << piece[i].id % 64;
    return true;
}

/* Copy the bytes of all pieces into t, and sort them. by_slice: where each tree's begin. */
static TokenBytes *take_pieces(TokenTrie *t, const char *(*piece)(void *user, int id, size_t *n),
                               void *user, size_t by_slice[TIERS * SLICES + 1])
{
    TokenBytes *all = calloc((size_t)t->n_vocab + 1, sizeof *all), *sorted = NULL;
    TextOut     bytes = { 0 };
    size_t      n = 0, count[TIERS * SLICES] = { 0 };
    for (int id = 0; all && id < t->n_vocab; id++) {
        size_t      n_bytes = 0;
        const char *p = piece(user, id, &n_bytes);
        if (!p || n_bytes == 0 || n_bytes > MOST_TOKEN_BYTES)
            continue;
        text_out_bytes(&bytes, p, n_bytes);
        all[n++] = (TokenBytes){ .n = n_bytes, .id = id };
        if (n_bytes > t->most[TIERS - 1])
            t->most[TIERS - 1] = (uint32_t)n_bytes;
    }
    t->bytes = bytes.text;
    sorted = all && !bytes.failed ? malloc((n + 1) * sizeof *sorted) : NULL;
    for (size_t i = 0, at = 0; sorted && i < n; at += all[i++].n) {
        all[i].bytes = (const unsigned char *)t->bytes + at;
        count[slice_of(t, &all[i])]++;
    }
    by_slice[0] = 0;
    for (int s = 0; s < TIERS * SLICES; s++)
        by_slice[s + 1] = by_slice[s] + count[s];
    for (size_t i = n; sorted && i-- > 0;) {
        int s = slice_of(t, &all[i]);
        sorted[by_slice[s] + --count[s]] = all[i];
    }
    free(all);
    return sorted;
}

TokenTrie *token_trie_new(int n_vocab, const char *(*piece)(void *user, int id, size_t *n),
                          void *user, Error *err)
{
    TokenTrie *t = malloc(sizeof *t);
    size_t     by_slice[TIERS * SLICES + 1];
    bool       good = t != NULL;
    if (good)
        *t = (TokenTrie){ .n_vocab = n_vocab, .most = { 8, 16, 32, 33 } };
    TokenBytes *sorted = good ? take_pieces(t, piece, user, by_slice) : NULL;
    good = sorted != NULL;
    for (int s = 0; good && s < TIERS * SLICES; s++) {
        size_t n = by_slice[s + 1] - by_slice[s];
        qsort(sorted + by_slice[s], n, sizeof *sorted, pieces_ascend);
        good =
            make_slice(&t->slice[s / SLICES][s % SLICES], sorted + by_slice[s], n, mask_words(t));
    }
    good = good && find_crossing(t, sorted, by_slice[TIERS * SLICES]);
    free(sorted);
    if (good)
        return t;
    token_trie_free(t);
    no_memory("vocabulary", err);
    return NULL;
}

void token_trie_free(TokenTrie *t)
{
    if (!t)
        return;
    for (int s = 0; s < TIERS * SLICES; s++) {
        TokenSlice *slice = &t->slice[s / SLICES][s % SLICES];
        free(slice->node);
        free(slice->id);
        free(slice->bits);
    }
    free(t->bytes);
    free(t->crossing);
    free(t);
}

int token_trie_size(const TokenTrie *t) { return t->n_vocab; }

int32_t token_trie_longest(const TokenTrie *t, const char *bytes, size_t n, size_t *n_token)
{
    int32_t id = -1;
    *n_token = 0;
    for (int k = 0; k < TIERS * SLICES; k++) {
        const TokenSlice *s = &t->slice[k / SLICES][k % SLICES];
        size_t            depth = 0, end = s->n_nodes;
        for (size_t i = 0; i < end && depth < n;) {
            const TrieNode *node = &s->node[i];
            if (node->byte != (uint8_t)bytes[depth]) {
                i = node->end;
                continue;
            }
            depth++;
            i++;
            end = node->end;
            if (node->n_ids && depth > *n_token) {
                *n_token = depth;
                id = s->id[node->first_id];
            }
        }
    }
    return id;
}
