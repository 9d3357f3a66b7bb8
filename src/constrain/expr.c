/* Regular expressions over bytes, by derivatives: what may follow a byte in the matches of an
 * expression is an expression again, so expressions are the states of an automaton that is built as
 * needed. Intersections and complements cost no more than alternatives do.
 * Source: Brzozowski 1964, "Derivatives of regular expressions"; Owens, Reppy and Turon 2009,
 * "Regular-expression derivatives re-examined" (classes of bytes, canonical forms). */
#include "constrain/grammar_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A row is a head (kind and flags), then: BYTES the set; SEQ head and rest, where the head is no
 * SEQ; ALT and AND their operands, ascending; NOT its operand; REPEAT its operand, min, max. */
enum { BYTES, EMPTY, SEQ, ALT, AND, NOT, REPEAT };
enum {
    KIND = 255,
    NULLABLE = 256,
    COMPLEX = 512, /* contains AND or NOT: may match nothing without showing it */
    COUNTS = 1024  /* contains a counting REPEAT, not inside AND, NOT, REPEAT */
};
enum { SET_WORDS = sizeof(ByteSet) / sizeof(uint32_t) };

enum { MOST_WORDS = 1 << 24, MOST_STEP_WORDS = 1 << 22, MOST_EXPR_DEPTH = 1000 };
enum { MOST_EXPLORED = 1 << 17, MOST_COUNTED = 200 };

static const ByteSet ALL_BYTES = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };

static const uint32_t *row_of(const Grammar *g, Expr e)
{
    size_t n;
    return interned_row(&g->exprs, e, &n);
}

static uint32_t flags_of(const Grammar *g, Expr e) { return *row_of(g, e); }
static uint32_t kind_of(const Grammar *g, Expr e) { return *row_of(g, e) & KIND; }
bool expr_nullable(const Grammar *g, Expr e) { return flags_of(g, e) & NULLABLE; }

static ByteSet set_union(ByteSet a, ByteSet b)
{
    for (int i = 0; i < 4; i++)
        a.bits[i] |= b.bits[i];
    return a;
}

static ByteSet set_common(ByteSet a, ByteSet b)
{
    for (int i = 0; i < 4; i++)
        a.bits[i] &= b.bits[i];
    return a;
}

static ByteSet bytes_of(const Grammar *g, Expr e)
{
    ByteSet set;
    memcpy(&set, row_of(g, e) + 1, sizeof set);
    return set;
}

/* ---- Which bytes are distinguished ----------------------------------------------------------- */

enum { SPLIT_NONE, SPLIT_ALL };
enum { SPLIT_WORDS = 256 / sizeof(uint32_t), MOST_SPLITS = 1 << 14, MOST_MEETS = 1 << 16 };

/* SPLIT_ALL if there are too many: it is always correct. */
static uint32_t put_split(Grammar *g, const uint8_t like[256])
{
    uint32_t row[SPLIT_WORDS], split = SPLIT_ALL;
    bool     known;
    memcpy(row, like, sizeof row);
    if (g->splits.start.n < MOST_SPLITS
        && !interned_put(&g->splits, row, SPLIT_WORDS, &split, &known))
        grammar_no_memory(g);
    return g->failed ? (uint32_t)SPLIT_ALL : split;
}

static uint32_t split_of_bytes(Grammar *g, ByteSet set)
{
    uint8_t  like[256];
    unsigned first[2] = { 256, 256 };
    for (unsigned b = 0; b < 256; b++) {
        bool in = bytes_have(&set, b);
        if (first[in] == 256)
            first[in] = b;
        like[b] = (uint8_t)first[in];
    }
    return put_split(g, like);
}

static uint32_t make_meet(Grammar *g, uint32_t a, uint32_t b)
{
    uint8_t        like[256], first[256];
    size_t         n, n_first = 0;
    const uint8_t *x = (const uint8_t *)interned_row(&g->splits, a, &n);
    const uint8_t *y = (const uint8_t *)interned_row(&g->splits, b, &n);
    for (unsigned byte = 0; byte < 256; byte++) {
        size_t i = 0;
        while (i < n_first && (x[first[i]] != x[byte] || y[first[i]] != y[byte]))
            i++;
        if (i == n_first)
            first[n_first++] = (uint8_t)byte;
        like[byte] = first[i];
    }
    return put_split(g, like);
}

uint32_t split_meet(Grammar *g, uint32_t a, uint32_t b)
{
    uint32_t pair[] = { a < b ? a : b, a < b ? b : a }, number;
    bool     known;
    if (a == b || pair[0] <= SPLIT_ALL) /* a common case */
        return pair[0] == SPLIT_ALL ? (uint32_t)SPLIT_ALL : pair[1];
    if (g->meets.start.n >= MOST_MEETS)
        return SPLIT_ALL;
    if (!interned_put(&g->meets, pair, 2, &number, &known)) {
        grammar_no_memory(g);
        return SPLIT_ALL;
    }
    if (number < g->met.n)
        return g->met.word[number];
    uint32_t split = make_meet(g, a, b);
    if (number > g->met.n || !words_add(&g->met, &split, 1))
        grammar_no_memory(g);
    return split;
}

/* Of an expression whose parts have theirs already. */
static uint32_t find_split(Grammar *g, Expr e)
{
    const uint32_t *r = row_of(g, e);
    uint32_t        split = SPLIT_NONE, kind = *r & KIND;
    size_t          n;
    if (kind == BYTES)
        return split_of_bytes(g, bytes_of(g, e));
    if (kind == SEQ) {
        split = g->fact[r[1]].split;
        return expr_nullable(g, r[1]) ? split_meet(g, split, g->fact[r[2]].split) : split;
    }
    if (kind == NOT || kind == REPEAT)
        return g->fact[r[1]].split;
    interned_row(&g->exprs, e, &n);
    for (size_t i = 1; i < n; i++)
        split = split_meet(g, split, g->fact[row_of(g, e)[i]].split);
    return split;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static Expr put(Grammar *g, const uint32_t *row, size_t n, ByteSet first)
{
    uint32_t e;
    bool     known, surely_alive = !(*row & COMPLEX) || *row & NULLABLE;
    if (g->failed || !grammar_work(g, 8 + n))
        return EXPR_NOTHING;
    if (g->exprs.words.n > MOST_WORDS || g->exprs.start.n >= g->most_exprs) {
        grammar_wrong(g, "it is too large");
        return EXPR_NOTHING;
    }
    if (!ARRAY_ROOM(g->fact, g->cap_facts, g->exprs.start.n + 1)) {
        grammar_no_memory(g);
        return EXPR_NOTHING;
    }
    if (!interned_put(&g->exprs, row, n, &e, &known)) {
        grammar_no_memory(g);
        return EXPR_NOTHING;
    }
    if (!known) {
        g->fact[e] = (ExprFact){ first, SPLIT_ALL, surely_alive ? ALIVE : 0 };
        g->fact[e].split = find_split(g, e);
    }
    return e;
}

static bool push(Grammar *g, Expr e) { return words_add(&g->stack, &e, 1) || grammar_no_memory(g); }

Expr expr_bytes(Grammar *g, ByteSet set)
{
    uint32_t row[1 + SET_WORDS] = { BYTES };
    memcpy(row + 1, &set, sizeof set);
    return put(g, row, 1 + SET_WORDS, set);
}

bool expr_begin(Grammar *g)
{
    uint32_t empty = EMPTY | NULLABLE;
    uint8_t  like[256] = { 0 };
    put_split(g, like); /* SPLIT_NONE */
    for (unsigned b = 0; b < 256; b++)
        like[b] = (uint8_t)b;
    put_split(g, like); /* SPLIT_ALL */
    expr_bytes(g, (ByteSet){ { 0 } }); /* matches nothing: EXPR_NOTHING */
    put(g, &empty, 1, (ByteSet){ { 0 } });
    if (!g->failed)
        g->fact[EXPR_NOTHING].alive = NOTHING_LEFT;
    return !g->failed;
}

Expr expr_range(Grammar *g, uint8_t first, uint8_t last)
{
    ByteSet set = { { 0 } };
    for (unsigned byte = first; byte <= last; byte++)
        bytes_put(&set, byte);
    return expr_bytes(g, set);
}

/* a is no SEQ, and neither is EXPR_NOTHING or EXPR_EMPTY. */
static Expr pair(Grammar *g, Expr a, Expr b)
{
    uint32_t a_flags = flags_of(g, a), b_flags = flags_of(g, b);
    uint32_t row[] = {
        SEQ | (a_flags & b_flags & NULLABLE) | ((a_flags | b_flags) & (COMPLEX | COUNTS)), a, b
    };
    const uint32_t *r = row_of(g, a), *next = row_of(g, b);
    if ((*r & KIND) == REPEAT && r[2] == 0 && r[3] == REPEAT_FOREVER
        && (b == a || ((*next & KIND) == SEQ && next[1] == a)))
        return b; /* x* x* is x* */
    ByteSet first = g->fact[a].first;
    return put(g, row, 3, a_flags & NULLABLE ? set_union(first, g->fact[b].first) : first);
}

Expr expr_seq(Grammar *g, Expr a, Expr b)
{
    if (a == EXPR_NOTHING || b == EXPR_NOTHING || g->failed)
        return EXPR_NOTHING;
    if (a == EXPR_EMPTY || b == EXPR_EMPTY)
        return a == EXPR_EMPTY ? b : a;
    size_t from = g->stack.n;
    for (; kind_of(g, a) == SEQ; a = row_of(g, a)[2])
        if (!push(g, row_of(g, a)[1]))
            return EXPR_NOTHING;
    for (b = pair(g, a, b); g->stack.n > from && b != EXPR_NOTHING;)
        b = pair(g, g->stack.word[--g->stack.n], b);
    g->stack.n = from;
    return b;
}

size_t expr_length(const Grammar *g, Expr e)
{
    size_t n = 1;
    for (; kind_of(g, e) == SEQ; e = row_of(g, e)[2])
        n++;
    return n;
}

Expr expr_text(Grammar *g, const char *bytes, size_t n)
{
    Expr e = EXPR_EMPTY;
    while (n-- > 0)
        e = expr_seq(g, expr_range(g, (uint8_t)bytes[n], (uint8_t)bytes[n]), e);
    return e;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Push e, or its operands if it is of this kind itself. */
static bool push_flat(Grammar *g, uint32_t kind, Expr e)
{
    size_t n;
    interned_row(&g->exprs, e, &n);
    if (kind_of(g, e) != kind)
        return push(g, e);
    for (size_t i = 1; i < n; i++)
        if (!push(g, row_of(g, e)[i]))
            return false;
    return true;
}

/* Sort the stack from `from` on, without duplicates. Those that match one byte become one. */
static bool tidy(Grammar *g, uint32_t kind, size_t from)
{
    ByteSet set = { { 0 } };
    size_t  n = from;
    bool    any = false;
    for (size_t i = from; i < g->stack.n; i++) {
        Expr e = g->stack.word[i];
        if (kind_of(g, e) != BYTES) {
            g->stack.word[n++] = e;
            continue;
        }
        set = !any ? bytes_of(g, e)
            : kind == ALT ? set_union(set, bytes_of(g, e)) : set_common(set, bytes_of(g, e));
        any = true;
    }
    g->stack.n = n;
    if (any && !push(g, expr_bytes(g, set)))
        return false;
    if (g->stack.n > from)
        qsort(g->stack.word + from, g->stack.n - from, sizeof(uint32_t), ascending);
    n = from;
    for (size_t i = from; i < g->stack.n; i++)
        if (n == from || g->stack.word[i] != g->stack.word[n - 1])
            g->stack.word[n++] = g->stack.word[i];
    g->stack.n = n;
    return !g->failed;
}

/* Apply the laws to the stack; they may leave one expression, which is the result. */
static bool absorb(Grammar *g, uint32_t kind, size_t from)
{
    size_t n = from;
    bool   nullable = kind == AND, other = false;
    for (size_t i = from; i < g->stack.n; i++) {
        Expr            e = g->stack.word[i];
        const uint32_t *r = row_of(g, e);
        bool            all = (*r & KIND) == NOT && r[1] == EXPR_NOTHING;
        if (kind == ALT ? all : e == EXPR_NOTHING) {
            g->stack.word[from] = e;
            g->stack.n = from + 1;
            return true;
        }
        if (e == EXPR_EMPTY)
            other = true;
        else if (kind == ALT ? e != EXPR_NOTHING : !all) {
            nullable = kind == ALT ? nullable || *r & NULLABLE : nullable && *r & NULLABLE;
            g->stack.word[n++] = e;
        }
    }
    g->stack.n = n;
    if (other && kind == AND) { /* the empty string, if all match it */
        g->stack.word[from] = nullable ? EXPR_EMPTY : EXPR_NOTHING;
        g->stack.n = from + 1;
    } else if (other && !nullable) {
        return push(g, EXPR_EMPTY) && tidy(g, kind, from);
    }
    return true;
}

/* Join the stack from `from` on, and pop it. */
static Expr join(Grammar *g, uint32_t kind, size_t from)
{
    Expr e = EXPR_NOTHING;
    if (grammar_work(g, g->stack.n - from) && !g->failed && tidy(g, kind, from)
        && absorb(g, kind, from)) {
        size_t   n = g->stack.n - from;
        uint32_t head = kind | (kind == AND ? NULLABLE | COMPLEX : 0);
        ByteSet  first = kind == AND ? ALL_BYTES : (ByteSet){ { 0 } };
        for (size_t i = from; i < g->stack.n; i++) {
            uint32_t flags = flags_of(g, g->stack.word[i]);
            ByteSet  more = g->fact[g->stack.word[i]].first;
            head = kind == AND ? head & (flags | ~(uint32_t)NULLABLE)
                               : head | (flags & (NULLABLE | COMPLEX | COUNTS));
            first = kind == AND ? set_common(first, more) : set_union(first, more);
        }
        if (n == 0)
            e = kind == ALT ? EXPR_NOTHING : expr_not(g, EXPR_NOTHING);
        else if (n == 1)
            e = g->stack.word[from];
        else if (push(g, 0)) {
            memmove(g->stack.word + from + 1, g->stack.word + from, n * sizeof(uint32_t));
            g->stack.word[from] = head;
            e = put(g, g->stack.word + from, n + 1, first);
        }
    }
    g->stack.n = from;
    return e;
}

Expr expr_alt_list(Grammar *g, const Expr *e, size_t n)
{
    size_t from = g->stack.n;
    for (size_t i = 0; i < n && push_flat(g, ALT, e[i]); i++)
        ;
    return join(g, ALT, from);
}

Expr expr_alt(Grammar *g, Expr a, Expr b) { return expr_alt_list(g, (Expr[]){ a, b }, 2); }

Expr expr_and(Grammar *g, Expr a, Expr b)
{
    size_t from = g->stack.n;
    if (push_flat(g, AND, a))
        push_flat(g, AND, b);
    return join(g, AND, from);
}

Expr expr_not(Grammar *g, Expr e)
{
    uint32_t head = flags_of(g, e), row[] = { NOT | COMPLEX | (~head & NULLABLE), e };
    return (head & KIND) == NOT ? row_of(g, e)[1] : put(g, row, 2, ALL_BYTES);
}

Expr expr_minus(Grammar *g, Expr a, Expr b) { return expr_and(g, a, expr_not(g, b)); }

/* x{a,b}{min,max} is x{a min,b max} if the counts leave no gap: the most of k times reaches the
 * least of k + 1 times, for k = min and so for all after it. */
static bool one_repeat(const uint32_t *r, uint32_t *min, uint32_t *max)
{
    uint64_t a = r[2], b = r[3], low = a * *min, high = b * *max;
    if (b == REPEAT_FOREVER || *max == REPEAT_FOREVER)
        high = REPEAT_FOREVER;
    bool closed = *min == *max || (b == REPEAT_FOREVER && *min > 0) || b * *min + 1 >= low + a;
    if (!closed || low >= REPEAT_FOREVER
        || (high >= REPEAT_FOREVER && b != REPEAT_FOREVER && *max != REPEAT_FOREVER))
        return false;
    *min = (uint32_t)low;
    *max = (uint32_t)high;
    return true;
}

Expr expr_repeat(Grammar *g, Expr e, uint32_t min, uint32_t max)
{
    if (max < min || g->failed)
        return EXPR_NOTHING;
    if (max == 0 || e == EXPR_EMPTY || (e == EXPR_NOTHING && min == 0))
        return EXPR_EMPTY;
    if (e == EXPR_NOTHING || (min == 1 && max == 1))
        return e;
    const uint32_t *r = row_of(g, e);
    if ((*r & KIND) == REPEAT && r[2] == 0 && r[3] == REPEAT_FOREVER)
        return e;
    if ((*r & KIND) == REPEAT && one_repeat(r, &min, &max)) {
        e = r[1];
        r = row_of(g, e);
    }
    uint32_t flags = *r & (NULLABLE | COMPLEX);
    min = flags & NULLABLE ? 0 : min; /* fewer match the same: the rest may be empty */
    flags |= (min ? 0 : NULLABLE) | (min > 1 || max != REPEAT_FOREVER ? COUNTS : 0);
    uint32_t row[] = { REPEAT | flags, e, min, max };
    return put(g, row, 4, g->fact[e].first);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static Expr clamp(Grammar *g, Expr e, uint32_t most, int depth)
{
    const uint32_t *r = row_of(g, e);
    size_t          n, from = g->stack.n;
    if (depth == 0 || !(*r & COUNTS))
        return e;
    if ((*r & KIND) == REPEAT) {
        uint32_t min = r[2] < most ? r[2] : most;
        return expr_repeat(g, r[1], min, r[3] < most || r[3] == REPEAT_FOREVER ? r[3] : most);
    }
    if ((*r & KIND) == SEQ) {
        Expr was = r[1], rest = r[2], head = clamp(g, was, most, depth - 1);
        Expr after = clamp(g, rest, most, depth - 1);
        return head == was && after == rest ? e : expr_seq(g, head, after);
    }
    interned_row(&g->exprs, e, &n);
    for (size_t i = 1; i < n && !g->failed; i++)
        push_flat(g, ALT, clamp(g, row_of(g, e)[i], most, depth - 1));
    return join(g, ALT, from);
}

Expr expr_clamp(Grammar *g, Expr e, uint32_t most)
{
    enum { DEEP = 8 }; /* a token seldom reaches later counts */
    return clamp(g, e, most, DEEP);
}

Expr expr_repeated(const Grammar *g, Expr e, uint32_t *max)
{
    const uint32_t *r = row_of(g, e);
    if ((*r & KIND) == SEQ)
        r = row_of(g, r[1]);
    *max = (*r & KIND) == REPEAT ? r[3] : 0;
    return (*r & KIND) == REPEAT ? r[1] : EXPR_NOTHING;
}

/* ---- Derivatives ----------------------------------------------------------------------------- */

void expr_classes(Grammar *g)
{
    for (; g->n_classed < g->exprs.start.n; g->n_classed++) {
        if (kind_of(g, (Expr)g->n_classed) != BYTES)
            continue;
        ByteSet set = bytes_of(g, (Expr)g->n_classed);
        int     split[256], members[256] = { 0 }, inside[256] = { 0 };
        for (unsigned b = 0; b < 256; b++) {
            members[g->class_of[b]]++;
            inside[g->class_of[b]] += bytes_have(&set, b);
            split[b] = -1;
        }
        /* What is in the set leaves its class for a new one. What was found out about the old class
         * still holds for it: it is only used for expressions that came before. */
        for (unsigned b = 0; b < 256; b++) {
            int c = g->class_of[b];
            if (!bytes_have(&set, b) || inside[c] == members[c])
                continue;
            if (split[c] < 0)
                split[c] = g->n_classes++;
            g->class_of[b] = (uint8_t)split[c];
        }
        for (unsigned b = 256; b-- > 0;)
            g->class_byte[g->class_of[b]] = (uint8_t)b;
    }
}

static Expr step(Grammar *g, Expr e, unsigned class);

/* Push the derivatives of all operands of e. */
static void push_steps(Grammar *g, Expr e, uint32_t kind, unsigned class)
{
    size_t n;
    interned_row(&g->exprs, e, &n);
    for (size_t i = 1; i < n && !g->failed; i++) {
        Expr part = row_of(g, e)[i];
        if (kind == AND || bytes_have(&g->fact[part].first, g->class_byte[class]))
            push_flat(g, kind, step(g, part, class));
    }
}

/* A sequence of expressions, of which the first few may be empty. */
static Expr step_seq(Grammar *g, Expr e, unsigned class)
{
    size_t from = g->stack.n;
    while (!g->failed && kind_of(g, e) == SEQ) {
        Expr head = row_of(g, e)[1], rest = row_of(g, e)[2];
        push_flat(g, ALT, expr_seq(g, step(g, head, class), rest));
        e = rest;
        if (!expr_nullable(g, head))
            return join(g, ALT, from);
    }
    push_flat(g, ALT, step(g, e, class));
    return join(g, ALT, from);
}

static Expr step_new(Grammar *g, Expr e, unsigned class)
{
    size_t          from = g->stack.n;
    const uint32_t *r = row_of(g, e);
    uint32_t        kind = *r & KIND;
    if (kind == SEQ)
        return step_seq(g, e, class);
    if (kind == NOT)
        return expr_not(g, step(g, r[1], class));
    if (kind == REPEAT) {
        uint32_t inside = r[1], min = r[2] ? r[2] - 1 : 0;
        uint32_t max = r[3] == REPEAT_FOREVER ? r[3] : r[3] - 1;
        Expr     rest = expr_repeat(g, inside, min, max);
        return expr_seq(g, step(g, inside, class), rest);
    }
    push_steps(g, e, kind, class);
    return join(g, kind, from);
}

/* Is the derivative too cheap to cache? */
static bool is_plain(const Grammar *g, Expr e)
{
    const uint32_t *r = row_of(g, e);
    return (*r & KIND) == BYTES || ((*r & KIND) == SEQ && kind_of(g, r[1]) == BYTES);
}

static Expr step(Grammar *g, Expr e, unsigned class)
{
    if (g->failed || !bytes_have(&g->fact[e].first, g->class_byte[class]))
        return EXPR_NOTHING;
    if (is_plain(g, e))
        return kind_of(g, e) == BYTES ? EXPR_EMPTY : row_of(g, e)[2];
    class = split_class(g, g->fact[e].split, class);
    uint32_t number, key[] = { e, class };
    bool     known;
    if (!interned_put(&g->steps, key, 2, &number, &known)) {
        grammar_no_memory(g);
        return EXPR_NOTHING;
    }
    uint32_t none = UINT32_MAX; /* not known yet */
    if (!known && !words_add(&g->stepped, &none, 1)) {
        grammar_no_memory(g);
        return EXPR_NOTHING;
    }
    if (g->stepped.word[number] != none)
        return g->stepped.word[number];
    if (++g->depth > MOST_EXPR_DEPTH)
        grammar_wrong(g, "it is nested too deeply");
    Expr after = step_new(g, e, class);
    g->depth--;
    if (!g->failed)
        g->stepped.word[number] = after;
    return after;
}

/* ---- What is left ---------------------------------------------------------------------------- */

/* The search for a string that a joined expression matches: states, and how each was reached. */
typedef struct Search { Interned seen; Words from, todo; size_t n_steps; } Search;

static bool is_alive(Grammar *g, Expr e);

static bool search_put(Grammar *g, Search *s, Expr e, uint32_t from)
{
    uint32_t number;
    bool     known;
    if (!interned_put(&s->seen, &e, 1, &number, &known))
        return grammar_no_memory(g);
    return known || (words_add(&s->from, &from, 1) && words_add(&s->todo, &number, 1))
        || grammar_no_memory(g);
}

/* The search takes states from the end of the row: of those from `first` on, put the one there that
 * joins the fewest expressions. An expression that is satisfied is joined no more, so a string that
 * satisfies all is found soon. */
static void nearest_last(Grammar *g, Search *s, size_t first)
{
    size_t least = SIZE_MAX;
    for (size_t i = first; i < s->todo.n; i++) {
        size_t n, joined;
        interned_row(&g->exprs, *interned_row(&s->seen, s->todo.word[i], &n), &joined);
        if (joined > least)
            continue;
        least = joined;
        uint32_t nearest = s->todo.word[i];
        s->todo.word[i] = s->todo.word[s->todo.n - 1];
        s->todo.word[s->todo.n - 1] = nearest;
    }
}

/* Look one byte further from state `at`: does a state certainly match a string? */
static bool search_from(Grammar *g, Search *s, uint32_t at)
{
    size_t   n;
    Expr     e = *interned_row(&s->seen, at, &n);
    uint32_t first = (uint32_t)s->todo.n;
    for (int c = 0; c < g->n_classes && !g->failed; c++) {
        if (split_class(g, g->fact[e].split, (unsigned)c) != (unsigned)c)
            continue;
        Expr     after = step(g, e, (unsigned)c);
        uint32_t kind = kind_of(g, after);
        if (after == EXPR_NOTHING || g->fact[after].alive == NOTHING_LEFT)
            continue;
        if (g->fact[after].alive == ALIVE)
            return true;
        /* Inside anything else, joins are nested less deeply than here: this ends. */
        if (kind == AND || kind == NOT)
            search_put(g, s, after, at);
        else if (is_alive(g, after))
            return true;
        if (++s->n_steps > MOST_EXPLORED)
            return grammar_wrong(g, "whether some text fits it takes too long to find out");
    }
    nearest_last(g, s, first);
    return false;
}

static bool search(Grammar *g, Expr e)
{
    Search   s = { 0 };
    uint32_t at = 0;
    bool     found = false;
    search_put(g, &s, e, 0);
    while (!found && !g->failed && s.todo.n) {
        at = s.todo.word[--s.todo.n];
        found = search_from(g, &s, at);
    }
    size_t n;
    for (; found && !g->failed; at = s.from.word[at]) {
        g->fact[*interned_row(&s.seen, at, &n)].alive = ALIVE;
        if (at == 0)
            break;
    }
    for (uint32_t i = 0; !found && !g->failed && i < s.seen.start.n; i++)
        g->fact[*interned_row(&s.seen, i, &n)].alive = NOTHING_LEFT;
    interned_free(&s.seen);
    free(s.from.word);
    free(s.todo.word);
    return found;
}

static bool is_alive(Grammar *g, Expr e)
{
    if (g->fact[e].alive || g->failed)
        return g->fact[e].alive == ALIVE;
    if (++g->depth > MOST_EXPR_DEPTH)
        grammar_wrong(g, "it is nested too deeply");
    uint32_t kind = kind_of(g, e);
    bool     alive = kind == SEQ || kind == REPEAT;
    Expr     from = e;
    if (kind == AND || kind == NOT)
        alive = search(g, e);
    else if (kind == REPEAT)
        alive = is_alive(g, row_of(g, e)[1]);
    for (; alive && kind == SEQ && kind_of(g, e) == SEQ; e = row_of(g, e)[2])
        alive = is_alive(g, row_of(g, e)[1]);
    if (alive && kind == SEQ)
        alive = is_alive(g, e);
    size_t n;
    interned_row(&g->exprs, e, &n);
    for (size_t i = 1; kind == ALT && !alive && i < n; i++)
        alive = is_alive(g, row_of(g, e)[i]);
    g->depth--;
    if (!g->failed)
        g->fact[from].alive = alive ? ALIVE : NOTHING_LEFT;
    return alive;
}

bool expr_is_nothing(Grammar *g, Expr e)
{
    expr_classes(g);
    return !is_alive(g, e);
}

Expr expr_step(Grammar *g, Expr e, unsigned class)
{
    if (g->steps.words.n > MOST_STEP_WORDS) { /* drop the cache; it is computed again */
        interned_empty(&g->steps);
        g->stepped.n = 0;
    }
    Expr after = step(g, e, class);
    return after != EXPR_NOTHING && g->fact[after].alive != ALIVE && !is_alive(g, after)
             ? EXPR_NOTHING
             : after;
}

bool expr_matches(Grammar *g, Expr e, const char *bytes, size_t n)
{
    expr_classes(g);
    for (size_t i = 0; i < n && e != EXPR_NOTHING; i++)
        e = step(g, e, g->class_of[(unsigned char)bytes[i]]);
    return !g->failed && expr_nullable(g, e);
}

static uint32_t count_from(Grammar *g, Expr e, uint32_t most, int depth)
{
    uint32_t n = is_alive(g, e) && expr_nullable(g, e), bytes[256] = { 0 };
    if (depth == MOST_COUNTED || g->failed)
        return most + 1;
    for (int byte = 0; byte < 256; byte++)
        bytes[g->class_of[byte]]++;
    for (int class = 0; class < g->n_classes && n <= most; class++) {
        Expr after = step(g, e, (unsigned)class);
        if (after == EXPR_NOTHING || !is_alive(g, after))
            continue;
        uint32_t more = after == e ? most + 1 : count_from(g, after, most, depth + 1);
        n = more > (most - n) / bytes[class] ? most + 1 : n + more * bytes[class];
    }
    return n;
}

uint32_t expr_count(Grammar *g, Expr e, uint32_t most)
{
    expr_classes(g);
    return count_from(g, e, most, 0);
}

static void texts_from(Grammar *g, Expr e, char *path, size_t n, TextOut *out)
{
    if (expr_nullable(g, e)) {
        text_out_bytes(out, path, n);
        text_out_bytes(out, "", 1);
    }
    for (unsigned byte = 0; byte < 256 && !g->failed; byte++) {
        Expr after = step(g, e, g->class_of[byte]);
        if (after == EXPR_NOTHING || !is_alive(g, after))
            continue;
        path[n] = (char)byte;
        texts_from(g, after, path, n + 1, out);
    }
}

bool expr_texts(Grammar *g, Expr e, uint32_t most, TextOut *out)
{
    char path[MOST_COUNTED + 1];
    if (expr_count(g, e, most) > most || g->failed)
        return false;
    texts_from(g, e, path, 0, out);
    return !g->failed && (!out->failed || grammar_no_memory(g));
}
