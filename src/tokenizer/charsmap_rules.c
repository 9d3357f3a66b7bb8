/* Reads SentencePiece's precompiled_charsmap: u32 length, a double-array trie of that many bytes
 * (s-yata/darts-clone), then the replacements, each ended by NUL. The values in the trie are
 * offsets of replacements (sentencepiece: src/normalizer.cc). */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/vocab_draft.h"

enum {
    DEEPEST = 127,             /* nodes below the root; published maps have about ten */
    MOST_NODES = 1 << 20,
    LONGEST_REPLACEMENT = 1024,
    MOST_REPLACED = 64 << 20,  /* bytes of all replacements */
};

typedef struct CharsmapNode {
    uint32_t parent, place;    /* place: index of its children in the double array */
    uint8_t  label, depth;
    bool     used;             /* a rule ends here or below */
    int32_t  text;             /* of a rule: its index in CharsmapReader.text; -1: none */
    uint32_t index;            /* number in the new trie */
} CharsmapNode;

typedef struct CharsmapReader {
    VocabDraft       *d;
    const char   *what;
    const char   *units;        /* u32, maybe unaligned */
    size_t        n_units;
    Text          texts;        /* the replacements, each with its NUL */
    CharsmapNode *node;
    size_t        n, cap;
    struct Replacement { Text text; uint32_t node; } *text;
    size_t       n_texts, cap_texts;
} CharsmapReader;

static uint32_t unit(const CharsmapReader *r, size_t i)
{
    uint32_t u;
    memcpy(&u, r->units + 4 * i, 4);
    return u;
}

static uint32_t offset(uint32_t u) { return (u >> 10) << ((u & 1u << 9) >> 6); }

static bool add_node(CharsmapReader *r, CharsmapNode node)
{
    if (r->n > MOST_NODES)
        return fail(r->d->err, INPUT, "%s: %s: expected at most %d nodes, found more", r->d->file,
                    r->what, MOST_NODES);
    if (!ARRAY_ROOM(r->node, r->cap, r->n + 1))
        return fail(r->d->err, SYSTEM, "%s: %s: out of memory", r->d->file, r->what);
    r->node[r->n++] = node;
    return true;
}

static bool add_text(CharsmapReader *r, size_t at, CharsmapNode *node)
{
    if (at >= r->texts.n)
        return fail(r->d->err, INPUT, "%s: %s: expected offsets under %zu, found %zu", r->d->file,
                    r->what, r->texts.n, at);
    /* memchr finds one, since the last byte is NUL. */
    const char *p = r->texts.p + at, *end = memchr(p, 0, r->texts.n - at);
    size_t      n = (size_t)(end - p);
    if (n > LONGEST_REPLACEMENT)
        return fail(r->d->err, INPUT,
                    "%s: %s: expected replacements of at most %d bytes, found %zu", r->d->file,
                    r->what, LONGEST_REPLACEMENT, n);
    if (!ARRAY_ROOM(r->text, r->cap_texts, r->n_texts + 1))
        return fail(r->d->err, SYSTEM, "%s: %s: out of memory", r->d->file, r->what);
    node->text = 0;
    node->used = true;
    r->text[r->n_texts++] = (struct Replacement){ { p, n }, (uint32_t)r->n };
    return true;
}

static bool add_children(CharsmapReader *r, uint32_t parent)
{
    CharsmapNode from = r->node[parent];
    for (uint32_t label = 1; label < 256; label++) {
        uint32_t at = from.place ^ label;
        if (at >= r->n_units || (unit(r, at) & (1u << 31 | 0xFF)) != label)
            continue;
        uint32_t     child = unit(r, at), place = at ^ offset(child);
        CharsmapNode node = { .parent = parent,
                              .place = place,
                              .label = (uint8_t)label,
                              .depth = (uint8_t)(from.depth + 1),
                              .text = -1 };
        if (place >= r->n_units)
            return fail(r->d->err, INPUT,
                        "%s: %s: expected a trie whose nodes lie inside, found a node past its end",
                        r->d->file, r->what);
        if (node.depth >= DEEPEST)
            return fail(r->d->err, INPUT,
                        "%s: %s: expected rules under %d bytes, found longer ones", r->d->file,
                        r->what, DEEPEST);
        if ((child >> 8 & 1) && !add_text(r, unit(r, place) & 0x7FFFFFFF, &node))
            return false;
        if (!add_node(r, node))
            return false;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    const Text *x = &((const struct Replacement *)a)->text,
               *y = &((const struct Replacement *)b)->text;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Number the replacements in ascending order, equal ones with one number, and write them one after
 * the other. */
static bool number_texts(CharsmapReader *r, CharsmapTable *m)
{
    size_t total = 0;
    if (r->n_texts)
        qsort(r->text, r->n_texts, sizeof *r->text, by_text);
    for (size_t i = 0; i < r->n_texts; i++)
        total += i && text_is(r->text[i].text, r->text[i - 1].text) ? 0 : r->text[i].text.n;
    if (total > MOST_REPLACED)
        return fail(r->d->err, INPUT,
                    "%s: %s: expected at most %d bytes of replacements, found %zu", r->d->file,
                    r->what, MOST_REPLACED, total);
    m->bytes   = malloc(total + 1);
    m->offsets = malloc((r->n_texts + 1) * sizeof *m->offsets);
    if (!m->bytes || !m->offsets)
        return fail(r->d->err, SYSTEM, "%s: %s: out of memory", r->d->file, r->what);
    m->offsets[0] = 0;
    for (size_t i = 0; i < r->n_texts; i++) {
        Text t = r->text[i].text;
        if (!i || !text_is(t, r->text[i - 1].text)) {
            memcpy(m->bytes + m->offsets[m->n], t.p, t.n);
            m->offsets[m->n + 1] = m->offsets[m->n] + (uint32_t)t.n;
            m->n++;
        }
        r->node[r->text[i].node].text = (int32_t)m->n - 1;
    }
    return true;
}

/* Build the same trie without the branches that lead to no rule. The nodes are in breadth-first
 * order already. */
static bool make_trie(CharsmapReader *r, TrieTable *t)
{
    for (size_t i = r->n - 1; i > 0; i--)
        r->node[r->node[i].parent].used |= r->node[i].used;
    t->nodes  = calloc(r->n, sizeof *t->nodes);
    t->labels = malloc(r->n);
    if (!t->nodes || !t->labels)
        return fail(r->d->err, SYSTEM, "%s: %s: out of memory", r->d->file, r->what);
    for (size_t i = 0; i < r->n; i++) {
        CharsmapNode *n = &r->node[i];
        if (!n->used && i)
            continue;
        n->index = (uint32_t)t->n++;
        t->labels[n->index]   = n->label;
        t->nodes[n->index][2] = (uint32_t)(n->text + 1);
        if (i == 0)
            continue;
        uint32_t *parent = t->nodes[r->node[n->parent].index];
        parent[0] = parent[1]++ ? parent[0] : n->index;
    }
    return true;
}

static bool read_rules(CharsmapReader *r)
{
    VocabDraft *d = r->d;
    bool   ok = add_node(r, (CharsmapNode){ .place = offset(unit(r, 0)), .text = -1 });
    for (uint32_t i = 0; ok && i < r->n; i++)
        ok = add_children(r, i);
    ok = ok && number_texts(r, &d->charsmap) && make_trie(r, &d->charsmap.trie);
    d->has_charsmap = ok && r->n_texts > 0;
    return ok;
}

bool charsmap_read(VocabDraft *d, Text blob, const char *what)
{
    uint32_t n = 0;
    if (blob.n > 4)
        memcpy(&n, blob.p, 4);
    if (n == 0 || n % 4 || n >= blob.n - 4)
        return fail(d->err, INPUT, "%s: %s: expected a trie of 4 to %zu bytes, found %u bytes",
                    d->file, what, blob.n > 9 ? blob.n - 5 : 4, n);
    CharsmapReader r = { .d = d,
                         .what = what,
                         .units = blob.p + 4,
                         .n_units = n / 4,
                         .texts = { blob.p + 4 + n, blob.n - 4 - n } };
    if (r.texts.p[r.texts.n - 1] != 0)
        return fail(d->err, INPUT,
                    "%s: %s: expected replacements that end with NUL, found other bytes", d->file,
                    what);
    bool ok = read_rules(&r);
    free(r.node);
    free(r.text);
    return ok;
}
