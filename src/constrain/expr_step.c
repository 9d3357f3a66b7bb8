/* Derivatives: what may follow a byte in the matches of an expression is an expression again, so
 * expressions are the states of an automaton that is built as needed. Intersections and complements
 * cost no more than alternatives do. Sources: expr.c. */
#include "constrain/grammar_parts.h"

#include <stdlib.h>

enum { MOST_STEP_WORDS = 1 << 22, MOST_EXPR_DEPTH = 1000 };
enum { MOST_EXPLORED = 1 << 17, MOST_COUNTED = 200 };

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
    for (size_t i = 1; i < row_length(g, e) && !g->failed; i++) {
        Expr part = row_of(g, e)[i];
        if (kind == AND || bytes_have(&g->fact[part].first, g->class_byte[class]))
            expr_push(g, kind, step(g, part, class));
    }
}

/* A sequence of expressions, of which the first few may be empty. */
static Expr step_seq(Grammar *g, Expr e, unsigned class)
{
    size_t from = g->stack.n;
    while (!g->failed && kind_of(g, e) == SEQ) {
        Expr head = row_of(g, e)[1], rest = row_of(g, e)[2];
        expr_push(g, ALT, expr_seq(g, step(g, head, class), rest));
        e = rest;
        if (!expr_nullable(g, head))
            return expr_join(g, ALT, from);
    }
    expr_push(g, ALT, step(g, e, class));
    return expr_join(g, ALT, from);
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
    return expr_join(g, kind, from);
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
    uint32_t none = UINT32_MAX; /* not known yet */
    bool     known;
    if (!interned_put(&g->steps, key, 2, &number, &known)
        || (!known && !words_add(&g->stepped, &none, 1))) {
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
        size_t joined = row_length(g, *interned_row(&s->seen, s->todo.word[i]));
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
    Expr     e = *interned_row(&s->seen, at);
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
    for (; found && !g->failed; at = s.from.word[at]) {
        g->fact[*interned_row(&s.seen, at)].alive = ALIVE;
        if (at == 0)
            break;
    }
    for (uint32_t i = 0; !found && !g->failed && i < s.seen.start.n; i++)
        g->fact[*interned_row(&s.seen, i)].alive = NOTHING_LEFT;
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
    for (size_t i = 1; kind == ALT && !alive && i < row_length(g, e); i++)
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
