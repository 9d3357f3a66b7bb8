/* Regular expressions over bytes, in canonical forms, and which bytes each distinguishes. What may
 * follow a byte in the matches of one is an expression again (expr_step.c).
 * Source: Brzozowski 1964, "Derivatives of regular expressions"; Owens, Reppy and Turon 2009,
 * "Regular-expression derivatives re-examined" (classes of bytes, canonical forms). */
#include "constrain/grammar_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { SET_WORDS = sizeof(ByteSet) / sizeof(uint32_t) };

enum { MOST_WORDS = 1 << 24 };

static const ByteSet ALL_BYTES = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };

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
    size_t         n_first = 0;
    const uint8_t *x = (const uint8_t *)interned_row(&g->splits, a);
    const uint8_t *y = (const uint8_t *)interned_row(&g->splits, b);
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
    if (kind == BYTES)
        return split_of_bytes(g, bytes_of(g, e));
    if (kind == SEQ) {
        split = g->fact[r[1]].split;
        return expr_nullable(g, r[1]) ? split_meet(g, split, g->fact[r[2]].split) : split;
    }
    if (kind == NOT || kind == REPEAT)
        return g->fact[r[1]].split;
    for (size_t i = 1; i < row_length(g, e); i++)
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
    if (!ARRAY_ROOM(g->fact, g->cap_facts, g->exprs.start.n + 1)
        || !interned_put(&g->exprs, row, n, &e, &known)) {
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

bool expr_push(Grammar *g, uint32_t kind, Expr e)
{
    if (kind_of(g, e) != kind)
        return push(g, e);
    for (size_t i = 1; i < row_length(g, e); i++)
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
        qsort(g->stack.word + from, g->stack.n - from, sizeof(uint32_t), compare_u32);
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

Expr expr_join(Grammar *g, uint32_t kind, size_t from)
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
    for (size_t i = 0; i < n && expr_push(g, ALT, e[i]); i++)
        ;
    return expr_join(g, ALT, from);
}

Expr expr_alt(Grammar *g, Expr a, Expr b) { return expr_alt_list(g, (Expr[]){ a, b }, 2); }

Expr expr_and(Grammar *g, Expr a, Expr b)
{
    size_t from = g->stack.n;
    if (expr_push(g, AND, a))
        expr_push(g, AND, b);
    return expr_join(g, AND, from);
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
    size_t          from = g->stack.n;
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
    for (size_t i = 1; i < row_length(g, e) && !g->failed; i++)
        expr_push(g, ALT, clamp(g, row_of(g, e)[i], most, depth - 1));
    return expr_join(g, ALT, from);
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
