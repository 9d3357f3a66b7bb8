/* The merges inside a multi-byte character that always happen, whatever the rest of its word. In
 * scripts without spaces, words are long and few repeat; there this saves most lookups of pairs:
 * 95% of the characters of a Japanese text start as one symbol in Llama 3's vocabulary, 59% in
 * GPT-2's.
 *
 * Why a word has the same ids as from its bytes: BPE does the merge of the lowest rank first. As
 * long as each merge inside a character has a lower rank than any possible merge with a neighbour,
 * before or after it, these merges happen, and no neighbour takes part until then: doing them at
 * once changes no other choice. The neighbouring symbol is not known yet, but it ends (or starts)
 * with the neighbouring byte, which bounds its merges. Ranks inside must ascend, and pieces must be
 * the bytes of their parts; otherwise no merge is certain. */
#include <stdlib.h>
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

/* Slots by character (475 KB, of which few are in use) and by symbol and neighbouring byte (128 KB
 * for each side). */
enum { CHARACTER_BITS = 12, OUTER_BITS = 15 };

/* A character's merges: state[0] is its bytes, merge i makes state[i + 1]. Ranks ascend. */
typedef struct InnerMerges {
    char           bytes[4];
    uint8_t        n_bytes, n; /* n_bytes 0: empty */
    uint32_t       rank[3];
    CharacterStart state[4];
} InnerMerges;

/* A piece's first and last byte. short: it may be a part of a character, or one. */
typedef struct Edge { uint8_t first, last; bool is_short; } Edge;

struct CharacterStarts {
    InnerMerges inner[1 << CHARACTER_BITS];
    /* 1 + the lowest rank at which a symbol merges with one before it that ends with a byte, or
     * with one after it that starts with a byte; 0: never. A shared slot has the lowest rank. */
    uint32_t before[1 << OUTER_BITS], after[1 << OUTER_BITS];
    Edge     edge[]; /* of each id */
};

static size_t outer_slot(int32_t id, uint8_t byte)
{
    return ((uint32_t)id * 256 + byte) * 0x9E3779B1u >> (32 - OUTER_BITS);
}

static void keep_lowest(uint32_t *slot, uint32_t rank)
{
    *slot = *slot ? *slot : rank + 1; /* ranks come in ascending order */
}

/* False: a merge makes a piece with other edges than its parts have. */
static bool add_outer(CharacterStarts *c, const uint32_t merge[3], uint32_t rank)
{
    Edge left = c->edge[merge[0]], right = c->edge[merge[1]], both = c->edge[merge[2]];
    if (right.is_short && right.first >= 0xC0)
        keep_lowest(&c->before[outer_slot((int32_t)merge[1], left.last)], rank);
    if (left.is_short && left.last >= 0x80)
        keep_lowest(&c->after[outer_slot((int32_t)merge[0], right.first)], rank);
    return both.first == left.first && both.last == right.last;
}

CharacterStarts *character_starts(const Vocab *v)
{
    CharacterStarts *c = calloc(1, sizeof *c + (size_t)v->size * sizeof c->edge[0]);
    bool ok = c != NULL;
    for (int32_t i = 0; ok && i < v->size; i++) {
        size_t n;
        const char *bytes = vocab_bytes(v, i, &n);
        if (n)
            c->edge[i] = (Edge){ (uint8_t)bytes[0], (uint8_t)bytes[n - 1], n <= 4 };
    }
    for (int b = 0; ok && b < 256; b++)
        ok = v->byte_id[b] >= 0;
    for (size_t i = 0; ok && i < v->n_merges; i++)
        ok = add_outer(c, v->merges + 3 * i, (uint32_t)i);
    if (ok)
        return c;
    free(c);
    return NULL;
}

/* The next merge of *s makes *out of it. Returns its rank; UINT32_MAX: there is none. */
static uint32_t next_merge(const Vocab *v, const CharacterStart *s, CharacterStart *out)
{
    uint32_t best = UINT32_MAX, rank;
    int32_t  id;
    for (int i = 0; i + 1 < s->n; i++) {
        if (!vocab_merge(v, s->id[i], s->id[i + 1], NULL, 0, &rank, &id) || rank >= best)
            continue;
        best = rank;
        *out = *s;
        out->n--;
        out->id[i] = id;
        out->len[i] = (uint8_t)(s->len[i] + s->len[i + 1]);
        for (int k = i + 1; k < out->n; k++)
            out->id[k] = s->id[k + 1], out->len[k] = s->len[k + 1];
    }
    return best;
}

static void find_inner(const CharacterStarts *c, const Vocab *v, const char *bytes, size_t n,
                       InnerMerges *m)
{
    *m = (InnerMerges){ .n_bytes = (uint8_t)n, .state[0].n = (uint8_t)n };
    memcpy(m->bytes, bytes, n);
    for (size_t i = 0; i < n; i++)
        m->state[0].id[i] = v->byte_id[(unsigned char)bytes[i]], m->state[0].len[i] = 1;
    for (uint32_t rank, last = 0; m->state[m->n].n > 1; m->n++, last = rank) {
        CharacterStart *next = &m->state[m->n + 1];
        rank = next_merge(v, &m->state[m->n], next);
        if (rank < last)
            m->n = 0; /* this one would overtake the merge that allows it */
        if (rank < last || rank == UINT32_MAX || !c->edge[next->id[0]].is_short
            || !c->edge[next->id[next->n - 1]].is_short)
            return;
        m->rank[m->n] = rank;
    }
}

/* The lowest rank at which a neighbour can merge with the character. before, after: the bytes
 * around it; -1: none. */
static uint32_t outer_rank(const CharacterStarts *c, const CharacterStart *s, int before, int after)
{
    uint32_t b = before < 0 ? 0 : c->before[outer_slot(s->id[0], (uint8_t)before)],
             a = after < 0 ? 0 : c->after[outer_slot(s->id[s->n - 1], (uint8_t)after)];
    return b - 1 < a - 1 ? b - 1 : a - 1;
}

const CharacterStart *character_start(CharacterStarts *c, const Vocab *v, const char *word,
                                      size_t n, size_t at)
{
    uint32_t key = 0;
    size_t   len = character_at(word + at, n - at, &key);
    InnerMerges *m = &c->inner[key * 0x9E3779B1u >> (32 - CHARACTER_BITS)];
    if (len < 2)
        return NULL;
    if (m->n_bytes != len || memcmp(m->bytes, word + at, len) != 0)
        find_inner(c, v, word + at, len, m);
    int before = at ? (unsigned char)word[at - 1] : -1,
        after = at + len < n ? (unsigned char)word[at + len] : -1;
    uint32_t outer = outer_rank(c, &m->state[0], before, after);
    for (int i = 0; i < m->n; i++) {
        uint32_t then = outer_rank(c, &m->state[i + 1], before, after);
        if (m->rank[i] >= outer || m->rank[i] >= then)
            return &m->state[i];
        outer = then;
    }
    return &m->state[m->n];
}
