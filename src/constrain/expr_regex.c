/* Patterns in the syntax of ECMA-262 with its flag u, as expressions. */
#include "constrain/grammar_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/unicode.h"

/* A part of a pattern with anchors matches differently at the start and at the end of the whole
 * text than elsewhere: e[starts][ends]. */
typedef struct Part { Expr e[2][2]; bool anchored; } Part;

typedef struct Builder {
    Grammar         *g;
    const char      *text, *what;
    const Pattern   *pattern;
    const RegexPart *p, *end;
    CharForm         form;
} Builder;

/* The column counts characters, from 1. */
static bool wrong_at(Builder *s, const char *at, const char *why)
{
    size_t column = 1;
    for (const char *p = s->text; p < at; p++)
        column += ((unsigned char)*p & 0xC0) != 0x80;
    return grammar_wrong(s->g, "%s: column %zu: %s", s->what, column, why);
}

static Part same(Expr e) { return (Part){ { { e, e }, { e, e } }, false }; }

static Expr not_empty(Builder *s, Expr e)
{
    return expr_nullable(s->g, e) ? expr_minus(s->g, e, EXPR_EMPTY) : e;
}

/* a, then b. If one of them matches the empty string, the other keeps its position at the start or
 * at the end. */
static Part row(Builder *s, const Part *a, const Part *b)
{
    Grammar *g = s->g;
    if (!a->anchored && !b->anchored)
        return same(expr_seq(g, a->e[0][0], b->e[0][0]));
    Part r = { .anchored = true };
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            Expr way[4] = { expr_seq(g, not_empty(s, a->e[i][0]), not_empty(s, b->e[0][j])) };
            if (expr_nullable(g, a->e[i][0]))
                way[1] = not_empty(s, b->e[i][j]);
            if (expr_nullable(g, b->e[0][j]))
                way[2] = not_empty(s, a->e[i][j]);
            if (expr_nullable(g, a->e[i][j]) && expr_nullable(g, b->e[i][j]))
                way[3] = EXPR_EMPTY;
            r.e[i][j] = expr_alt_list(g, way, 4);
        }
    return r;
}

/* Parts to be joined, from the last on, because a sequence is built from its rest. */
typedef struct Parts { Part *part; size_t n, cap; } Parts;

static void parts_add(Builder *s, Parts *to, Part part)
{
    if (!ARRAY_ROOM(to->part, to->cap, to->n + 1)) {
        grammar_no_memory(s->g);
        return;
    }
    to->part[to->n++] = part;
}

static Part in_a_row(Builder *s, Parts *parts)
{
    Part all = same(EXPR_EMPTY);
    while (parts->n > 0)
        all = row(s, &parts->part[--parts->n], &all);
    return all;
}

static Part any_of(Builder *s, const Parts *parts)
{
    Part  any = { .anchored = false };
    Expr *list = malloc((parts->n + 1) * sizeof *list);
    if (!list)
        grammar_no_memory(s->g);
    for (int k = 0; k < 4 && list; k++) {
        for (size_t i = 0; i < parts->n; i++) {
            list[i] = parts->part[i].e[k / 2][k % 2];
            any.anchored |= parts->part[i].anchored;
        }
        any.e[k / 2][k % 2] = expr_alt_list(s->g, list, parts->n);
    }
    free(list);
    return any;
}

static Part alternatives(Builder *s);

static Part anchor(bool at_start)
{
    Part part = { .anchored = true };
    for (int i = 0; i < 4; i++)
        if (at_start ? i / 2 : i % 2)
            part.e[i / 2][i % 2] = EXPR_EMPTY;
    return part;
}

static Part atom(Builder *s)
{
    const RegexPart *p = s->p++;
    Part             inside;
    switch (p->kind) {
    case PART_OPEN:
        inside = alternatives(s);
        s->p++; /* PART_CLOSE */
        return inside;
    case PART_START:
    case PART_END: return anchor(p->kind == PART_START);
    case PART_SET: return same(expr_chars(s->g, &s->pattern->set[p->set], s->form));
    default:       return same(EXPR_EMPTY); /* PART_FLAGS; REGEX_ECMA has no others */
    }
}

static Part repeated(Builder *s)
{
    const char *from = s->p->from;
    Part        part = atom(s);
    if (s->g->failed || s->p == s->end || s->p->kind != PART_REPEAT)
        return part;
    uint32_t min = s->p->min, max = s->p++->max;
    if (part.anchored && (min != 1 || max != 1))
        wrong_at(s, from, "an anchor that is repeated: not supported here");
    return part.anchored ? part : same(expr_repeat(s->g, part.e[0][0], min, max));
}

static Part alternatives(Builder *s)
{
    Parts all = { 0 }, one = { 0 };
    while (!s->g->failed && s->p < s->end && s->p->kind != PART_CLOSE) {
        if (s->p->kind != PART_OR) {
            parts_add(s, &one, repeated(s));
            continue;
        }
        parts_add(s, &all, in_a_row(s, &one));
        s->p++;
    }
    parts_add(s, &all, in_a_row(s, &one));
    Part any = any_of(s, &all);
    free(all.part);
    free(one.part);
    return any;
}

Expr expr_regex(Grammar *g, const char *pattern, size_t n, bool search, CharForm form,
                const char *what)
{
    Pattern    parts;
    RegexFault fault;
    Builder    s = { .g = g, .text = pattern, .what = what, .pattern = &parts, .form = form };
    if (g->failed)
        return EXPR_NOTHING;
    if (!regex_parse(&parts, pattern, n, &REGEX_ECMA, &fault)) {
        fault.from ? wrong_at(&s, fault.from, fault.why) : grammar_no_memory(g);
        return EXPR_NOTHING;
    }
    s.p = parts.part;
    s.end = parts.n ? parts.part + parts.n : NULL;
    Part part = alternatives(&s);
    pattern_free(&parts);
    if (g->failed)
        return EXPR_NOTHING;
    if (!search)
        return part.e[1][1];
    Expr any = expr_any_char(g, form), more = expr_repeat(g, any, 0, REPEAT_FOREVER);
    if (!part.anchored)
        return expr_seq(g, more, expr_seq(g, part.e[0][0], more));
    Expr some = expr_repeat(g, any, 1, REPEAT_FOREVER);
    return expr_alt_list(g, (Expr[]){ part.e[1][1], expr_seq(g, some, part.e[0][1]),
                                      expr_seq(g, part.e[1][0], some),
                                      expr_seq(g, some, expr_seq(g, part.e[0][0], some)) }, 4);
}

Expr expr_pattern(Grammar *g, const char *pattern)
{
    return expr_regex(g, pattern, strlen(pattern), false, CHARS_UTF8, "pattern");
}
