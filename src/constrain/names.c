/* Unique names in each object. A grammar does not remember the names of an object, so they are
 * tracked here: a text is at a state of the automaton, inside objects whose names are recorded. A
 * name has one spelling, so equal names are equal bytes.
 *
 * A grammar that asks for this (Grammar.names_once) offers a name only if one is left that the
 * object does not have yet, so a text can reach a dead end only inside a name: if the part written
 * so far is a prefix of names that the object already has, and of no other. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "constrain/grammar_parts.h"
#include "constrain/token_trie.h"

/* The position in the JSON. In an object: before a name; inside a name; inside another string. */
enum { IN_OBJECT = 1, NAME_NEXT = 2, IN_NAME = 4, IN_TEXT = 8, ESCAPED = 16 };
/* Longer names are not checked for a dead end: the recursion would be as deep. */
enum { MOST_NAME = 1000, MOST_NAME_WORDS = 1 << 24 };

/* If names are tracked, a ConstraintState is the number of such a row. */
typedef struct NamePlace {
    uint32_t state;  /* of the automaton */
    uint32_t where;  /* flags from above */
    uint32_t around; /* row of Names.around: what contains the array or object */
    uint32_t had;    /* row of Names.had: the names of the object so far */
    uint32_t name;   /* row of Names.name: this name so far */
} NamePlace;
enum { PLACE_WORDS = sizeof(NamePlace) / sizeof(uint32_t) };
enum { NONE = 0 };

/* The remaining bytes of a name that the object already has, and a quote. */
typedef struct Rest { const uint8_t *p; size_t n; } Rest;

struct Names {
    Interned  place;
    Interned  around; /* the row around that one, its `where` and `had` */
    Interned  had;    /* the earlier names, the last one */
    Interned  name;   /* the name without its last byte, that byte, the length */
    Rest     *rest;
    uint8_t  *byte;   /* those of rest */
    size_t    n_rest, cap_rest, cap_bytes;
    uint64_t *bits;   /* the mask that the caller gets */
    size_t    cap_bits;
};

static bool put(Constraint *c, Interned *t, const uint32_t *row, size_t n, uint32_t *number)
{
    bool known;
    if (t->words.n > MOST_NAME_WORDS)
        return grammar_wrong(c->g, "the text has too many names");
    return interned_put(t, row, n, number, &known) || grammar_no_memory(c->g);
}

static NamePlace place_at(const Names *n, ConstraintState number)
{
    NamePlace p;
    memcpy(&p, interned_row(&n->place, number), sizeof p);
    return p;
}

static bool keep_place(Constraint *c, const NamePlace *p, ConstraintState *number)
{
    uint32_t row[PLACE_WORDS];
    memcpy(row, p, sizeof row);
    return put(c, &c->names->place, row, PLACE_WORDS, number);
}

bool names_begin(Constraint *c)
{
    const uint32_t  none[3] = { UINT32_MAX };
    uint32_t        number;
    const NamePlace dead = { .state = STATE_DEAD }, start = { .state = c->start };
    Names          *n = c->names = calloc(1, sizeof *n);
    return n ? put(c, &n->around, none, 3, &number) && put(c, &n->had, none, 2, &number)
                   && put(c, &n->name, (uint32_t[]){ UINT32_MAX, 0, 0 }, 3, &number)
                   && keep_place(c, &dead, &number) && keep_place(c, &start, &c->start)
             : grammar_no_memory(c->g);
}

void names_free(Names *n)
{
    if (!n)
        return;
    interned_free(&n->place);
    interned_free(&n->around);
    interned_free(&n->had);
    interned_free(&n->name);
    free(n->rest);
    free(n->byte);
    free(n->bits);
    free(n);
}

uint32_t names_state(const Names *n, ConstraintState number) { return place_at(n, number).state; }

/* ---- One byte further ------------------------------------------------------------------------ */

static bool has_had(const Names *n, uint32_t had, uint32_t name)
{
    for (; had != NONE; had = interned_row(&n->had, had)[0])
        if (interned_row(&n->had, had)[1] == name)
            return true;
    return false;
}

/* Inside a string, which the byte may end. A name that the object already has is a dead end. */
static bool step_in_string(Constraint *c, NamePlace *p, uint8_t byte)
{
    Names   *n = c->names;
    bool     in_name = p->where & IN_NAME;
    uint32_t before = p->name;
    if (byte == '"' && !(p->where & ESCAPED)) {
        p->where &= IN_OBJECT;
        p->name = NONE;
        if (in_name && has_had(n, p->had, before))
            p->state = STATE_DEAD;
        return !in_name || put(c, &n->had, (uint32_t[]){ p->had, before }, 2, &p->had);
    }
    p->where ^= byte == '\\' || p->where & ESCAPED ? ESCAPED : 0;
    uint32_t row[] = { before, byte, in_name ? interned_row(&n->name, before)[2] + 1 : 0 };
    return !in_name || put(c, &n->name, row, 3, &p->name);
}

static bool step(Constraint *c, NamePlace *p, uint8_t byte)
{
    const uint32_t *row;
    if (p->where & (IN_NAME | IN_TEXT))
        return step_in_string(c, p, byte);
    switch (byte) {
    case '"':
        p->where = (p->where & IN_OBJECT) | (p->where & NAME_NEXT ? IN_NAME : IN_TEXT);
        break;
    case '{':
    case '[':
        if (!put(c, &c->names->around, (uint32_t[]){ p->around, p->where, p->had }, 3, &p->around))
            return false;
        p->where = byte == '{' ? IN_OBJECT | NAME_NEXT : 0;
        p->had = NONE;
        break;
    case '}':
    case ']':
        row = interned_row(&c->names->around, p->around);
        p->around = row[0];
        p->where = row[1];
        p->had = row[2];
        break;
    case ',':
        p->where |= p->where & IN_OBJECT ? NAME_NEXT : 0;
        break;
    default: break;
    }
    return true;
}

/* ---- Remaining bytes of names ---------------------------------------------------------------- */

static int rests_ascend(const void *a, const void *b)
{
    const Rest *x = a, *y = b;
    int         order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* The length of the name past `from`; 0: `from` is not its prefix. */
static size_t length_past(const Names *n, uint32_t name, uint32_t from)
{
    size_t length = interned_row(&n->name, name)[2], begun = interned_row(&n->name, from)[2];
    for (size_t i = begun; i < length; i++)
        name = interned_row(&n->name, name)[0];
    return length >= begun && name == from ? length - begun + 1 : 0; /* with the quote */
}

static void write_rest(Names *n, uint32_t name, size_t length, const char *lead, uint8_t *to)
{
    size_t n_lead = strlen(lead);
    memcpy(to, lead, n_lead);
    n->rest[n->n_rest++] = (Rest){ to, n_lead + length };
    to[n_lead + length - 1] = '"';
    for (size_t i = length - 1; i-- > 0; name = interned_row(&n->name, name)[0])
        to[n_lead + i] = (uint8_t)interned_row(&n->name, name)[1];
}

/* Fill n->rest with the sorted continuations of the names that the object already has. */
static bool find_rests(Constraint *c, const NamePlace *p)
{
    static const char *const leads[] = { "\"", " \"" };
    Names                   *n = c->names;
    bool                     next = p->where & NAME_NEXT;
    size_t                   n_names = 0, n_bytes = 0;
    n->n_rest = 0;
    for (uint32_t had = p->had; had != NONE; had = interned_row(&n->had, had)[0]) {
        size_t length = length_past(n, interned_row(&n->had, had)[1], next ? NONE : p->name);
        n_names += length > 0;
        n_bytes += length ? length + 2 : 0;
    }
    if (n_names == 0)
        return true;
    if (!ARRAY_ROOM(n->rest, n->cap_rest, 2 * n_names)
        || !ARRAY_ROOM(n->byte, n->cap_bytes, 2 * n_bytes))
        return grammar_no_memory(c->g);
    uint8_t *to = n->byte;
    for (uint32_t had = p->had; had != NONE; had = interned_row(&n->had, had)[0]) {
        uint32_t name = interned_row(&n->had, had)[1];
        size_t   length = length_past(n, name, next ? NONE : p->name);
        for (int i = 0; i < (next ? 2 : 1) && length; i++, to += length + 2)
            write_rest(n, name, length, next ? leads[i] : "", to);
    }
    qsort(n->rest, n->n_rest, sizeof *n->rest, rests_ascend);
    return true;
}

/* The end of the rests from `from` on, up to `to`, with the same byte at `at`. */
static size_t same_byte(const Names *n, size_t from, size_t to, size_t at)
{
    size_t i = from;
    while (i < to && n->rest[i].p[at] == n->rest[from].p[at])
        i++;
    return i;
}

static bool next_state(Constraint *c, uint32_t state, uint8_t byte, uint32_t *next)
{
    Error e;
    *next = constraint_next(c, state, c->g->class_of[byte], &e);
    return *next != NOT_MADE;
}

/* The rests [from, to) are alike in their first `at` bytes, after which the automaton is at
 * this state: do all continuations lead to one of them? False also if c->g has failed. */
static bool exhausted(Constraint *c, uint32_t state, size_t from, size_t to, size_t at)
{
    const Names *n = c->names;
    uint32_t     next;
    for (unsigned byte = 0, i = (unsigned)from; byte < 256; byte++) {
        bool one_of_them = i < to && n->rest[i].p[at] == byte;
        if (one_of_them)
            i = (unsigned)same_byte(n, i, to, at);
        else if (!next_state(c, state, (uint8_t)byte, &next) || next != STATE_DEAD)
            return false;
    }
    for (size_t i = from, end; i < to; i = end) {
        end = same_byte(n, i, to, at);
        if (!next_state(c, state, n->rest[i].p[at], &next))
            return false;
        if (next != STATE_DEAD && n->rest[i].n > at + 1
            && (at == MOST_NAME || !exhausted(c, next, i, end, at + 1)))
            return false;
    }
    return true;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool advance(Constraint *c, NamePlace *p, const char *bytes, size_t n, Error *err)
{
    for (size_t i = 0; i < n && p->state != STATE_DEAD; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        p->state = constraint_next(c, p->state, c->g->class_of[byte], err);
        if (p->state == NOT_MADE)
            return false;
        if (p->state != STATE_DEAD && !step(c, p, byte))
            return !grammar_failed(c->g, err);
    }
    if (p->state != STATE_DEAD && p->where & IN_NAME && p->had != NONE) {
        bool found = find_rests(c, p);
        if (found && c->names->n_rest && exhausted(c, p->state, 0, c->names->n_rest, 0))
            p->state = STATE_DEAD;
    }
    return !grammar_failed(c->g, err);
}

bool names_advance(Constraint *c, ConstraintState *state, const char *bytes, size_t n, Error *err)
{
    NamePlace       p = place_at(c->names, *state);
    ConstraintState next = STATE_DEAD;
    if (!advance(c, &p, bytes, n, err))
        return false;
    if (p.state != STATE_DEAD && !keep_place(c, &p, &next))
        return !grammar_failed(c->g, err);
    *state = next;
    return true;
}

/* ---- Masks ----------------------------------------------------------------------------------- */

static void strike(Names *n, const TokenSlice *s, const TrieNode *node, uint32_t n_ids)
{
    for (uint32_t i = node->first_id; i < node->first_id + n_ids; i++)
        n->bits[s->id[i] / 64] &= ~(1ull << s->id[i] % 64);
}

/* Clear the tokens below the nodes [node, end) that follow the rests [from, to), which are
 * alike in their first `at` bytes: those that complete a duplicate name, and those after which
 * only such names are left. */
static void strike_along(Constraint *c, const TokenSlice *s, size_t node, size_t end,
                         uint32_t state, size_t from, size_t to, size_t at)
{
    Names *n = c->names;
    for (size_t i = from, next, child; i < to && node < end; i = next) {
        uint32_t after;
        next = same_byte(n, i, to, at);
        for (child = node; child < end && s->node[child].byte != n->rest[i].p[at];)
            child = s->node[child].end;
        if (child >= end || !next_state(c, state, n->rest[i].p[at], &after) || after == STATE_DEAD)
            continue;
        const TrieNode *found = &s->node[child];
        if (n->rest[i].n == at + 1) {
            for (size_t k = child; k < found->end; k++)
                strike(n, s, &s->node[k], s->node[k].n_ids);
            continue;
        }
        if (found->n_ids && exhausted(c, after, i, next, at + 1))
            strike(n, s, found, found->n_ids);
        strike_along(c, s, child + 1, found->end, after, i, next, at + 1);
    }
}

static bool is_in(const uint64_t *bits, int id) { return bits[id / 64] >> id % 64 & 1; }

/* Tokens that cross from a comma into a name: few, so each is tried. */
static bool try_crossing(Constraint *c, const TokenTrie *t, const NamePlace *at, Error *err)
{
    for (size_t i = 0; i < t->n_crossing; i++) {
        const CrossingToken *x = &t->crossing[i];
        NamePlace            p = *at;
        if (!is_in(c->names->bits, x->id))
            continue;
        if (!advance(c, &p, t->bytes + x->at, x->n, err))
            return false;
        if (p.state == STATE_DEAD)
            c->names->bits[x->id / 64] &= ~(1ull << x->id % 64);
    }
    return true;
}

static bool some_cross(const TokenTrie *t, const uint64_t *bits)
{
    bool some = false;
    for (size_t i = 0; i < t->n_crossing && !some; i++)
        some = is_in(bits, t->crossing[i].id);
    return some;
}

const uint64_t *names_mask(Constraint *c, const TokenTrie *t, ConstraintState state, Error *err)
{
    Names          *n = c->names;
    const NamePlace p = place_at(n, state);
    const uint64_t *all = state_mask(c, t, p.state, err);
    if (!all)
        return NULL;
    n->n_rest = 0;
    if (p.where & (NAME_NEXT | IN_NAME) && p.had != NONE && !find_rests(c, &p))
        return grammar_failed(c->g, err) ? NULL : all;
    if (!n->n_rest && !some_cross(t, all))
        return all;
    if (!ARRAY_ROOM(n->bits, n->cap_bits, mask_words(t) + 1)) {
        no_memory("mask", err);
        return NULL;
    }
    memcpy(n->bits, all, mask_words(t) * sizeof *all);
    for (int s = 0; s < TIERS * SLICES; s++) {
        const TokenSlice *slice = &t->slice[s / SLICES][s % SLICES];
        strike_along(c, slice, 0, slice->n_nodes, p.state, 0, n->n_rest, 0);
    }
    return try_crossing(c, t, &p, err) && !grammar_failed(c->g, err) ? n->bits : NULL;
}
