/* Patterns in the syntax of ECMA-262 with its flag u, as expressions. */
#include "constrain/grammar_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tokenizer/unicode.h"

enum { MOST_GROUPS_DEEP = 200, MOST_COUNT = 1 << 24 };

/* A part of a pattern with anchors matches differently at the start and at the end of the whole
 * text than elsewhere: e[starts][ends]. */
typedef struct Part { Expr e[2][2]; bool anchored; } Part;

typedef struct Pattern {
    Grammar    *g;
    const char *text, *p, *end, *what;
    CharForm    form;
    int         depth;
    bool        caseless, dot_all;
} Pattern;

/* The column counts characters, from 1. */
static bool wrong_at(Pattern *s, const char *at, const char *why)
{
    size_t column = 1;
    for (const char *p = s->text; p < at; p++)
        column += ((unsigned char)*p & 0xC0) != 0x80;
    return grammar_wrong(s->g, "%s: column %zu: %s", s->what, column, why);
}

static bool refuse(Pattern *s, const char *from, const char *name)
{
    char why[128];
    snprintf(why, sizeof why, "%s: not supported here", name);
    return wrong_at(s, from, why);
}

static bool next_is(const Pattern *s, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(s->end - s->p) >= n && memcmp(s->p, text, n) == 0;
}

static bool take(Pattern *s, const char *text)
{
    bool is = next_is(s, text);
    s->p += is ? strlen(text) : 0;
    return is;
}

static Part same(Expr e) { return (Part){ { { e, e }, { e, e } }, false }; }

static Expr set_expr(Pattern *s, CharSet *set)
{
    char_set_sort(set);
    if (s->caseless && !set->failed)
        char_set_fold(set);
    Expr e = expr_chars(s->g, set, s->form);
    char_set_free(set);
    return e;
}

/* ---- Escapes and sets ------------------------------------------------------------------------ */

static bool hex_digits(Pattern *s, int n, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < n; i++, s->p++) {
        int digit = s->p < s->end ? hex_digit(*s->p) : -1;
        if (digit < 0)
            return false;
        *c = *c * 16 + (uint32_t)digit;
    }
    return true;
}

/* After \x or \u: "41", "{1F600}", or two surrogates of four digits each. */
static bool coded(Pattern *s, const char *from, int n_digits, uint32_t *c)
{
    uint32_t low;
    if (take(s, "{")) {
        *c = 0;
        const char *first = s->p;
        for (int d; s->p < s->end && (d = hex_digit(*s->p)) >= 0 && *c < CHARACTERS; s->p++)
            *c = *c * 16 + (uint32_t)d;
        if (s->p == first || *c >= CHARACTERS || !take(s, "}"))
            return wrong_at(s, from, "expected the code of a character in { }");
    } else if (!hex_digits(s, n_digits, c)) {
        return wrong_at(s, from, n_digits == 2 ? "expected two hexadecimal digits after \\x"
                                               : "expected four hexadecimal digits after \\u");
    }
    const char *before = s->p;
    if (*c >= 0xD800 && *c < 0xDC00 && take(s, "\\u")) {
        if (hex_digits(s, 4, &low) && low >= 0xDC00 && low < 0xE000)
            *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
        else
            s->p = before;
    }
    return true;
}

/* A character's escape; s->p is after its letter. */
static bool escaped_char(Pattern *s, const char *from, char letter, uint32_t *c)
{
    static const char letters[] = "tnvfr", codes[] = "\t\n\v\f\r";
    const char       *at = strchr(letters, letter);
    if (letter == 'x' || letter == 'u')
        return coded(s, from, letter == 'x' ? 2 : 4, c);
    if (letter && at) {
        *c = (uint32_t)codes[at - letters];
    } else if (letter == '0' && !(s->p < s->end && *s->p >= '0' && *s->p <= '9')) {
        *c = 0;
    } else if (letter == 'c' && s->p < s->end && (*s->p | 32) >= 'a' && (*s->p | 32) <= 'z') {
        *c = (uint32_t)*s->p++ & 31;
    } else if (letter >= '0' && letter <= '9') {
        return refuse(s, from, letter == '0' ? "octal escape" : "back-reference");
    } else if (letter == 'k') {
        return refuse(s, from, "back-reference");
    } else if (letter == 'b' || letter == 'B') {
        return refuse(s, from, "word boundary");
    } else if ((unsigned char)letter < 0x80 && (letter | 32) >= 'a' && (letter | 32) <= 'z') {
        return wrong_at(s, from, "unknown escape");
    } else {
        *c = (unsigned char)letter;
        if (*c < 0x80)
            return true;
        s->p--;
        int n = utf8_decode(s->p, (size_t)(s->end - s->p), c);
        s->p += n;
    }
    return true;
}

/* \p{Name} or \p{Key=Name}; s->p is after the p. */
static bool property(Pattern *s, const char *from, CharSet *set)
{
    static const char *const keys[] = { "General_Category=", "gc=", "Script=", "sc=",
                                        "Script_Extensions=", "scx=" };
    const char *close = take(s, "{") ? memchr(s->p, '}', (size_t)(s->end - s->p)) : NULL;
    if (!close)
        return wrong_at(s, from, "expected a property in { }");
    for (int i = 0; i < 6; i++)
        if (take(s, keys[i])) {
            if (i >= 4)
                return refuse(s, from, "property Script_Extensions");
            break;
        }
    if (close - s->p == 3 && memcmp(s->p, "Any", 3) == 0)
        char_set_add(set, 0, CHARACTERS - 1);
    else if (!char_set_property(set, s->p, (size_t)(close - s->p)))
        return wrong_at(s, from, "no such property of characters");
    s->p = close + 1;
    return true;
}

/* \d \w \s \p and their complements; *is: is it one of them? */
static bool class_escape(Pattern *s, const char *from, char letter, CharSet *set, bool *is)
{
    CharSet one = { 0 };
    char    kind = (char)(letter | 32);
    *is = letter && strchr("dDwWsSpP", letter);
    if (!*is)
        return true;
    if (kind == 'd' || kind == 'w')
        char_set_add(&one, '0', '9');
    if (kind == 'w') {
        char_set_add(&one, 'A', 'Z');
        char_set_add(&one, 'a', 'z');
        char_set_add(&one, '_', '_');
    }
    if (kind == 's') {
        char_set_add(&one, '\t', '\r');
        char_set_add(&one, 0x2028, 0x2029);
        char_set_add(&one, 0xFEFF, 0xFEFF);
        char_set_property(&one, "Zs", 2);
    }
    bool good = kind != 'p' || property(s, from, &one);
    char_set_sort(&one);
    if (letter != kind)
        char_set_invert(&one);
    for (size_t i = 0; i < one.n; i += 2)
        char_set_add(set, one.edge[i], one.edge[i + 1] - 1);
    set->failed |= one.failed;
    char_set_free(&one);
    return good;
}

/* One literal character; by contract, not the last of the pattern's bytes. */
static uint32_t plain_char(Pattern *s)
{
    uint32_t c = 0xFFFD;
    int      n = utf8_decode(s->p, (size_t)(s->end - s->p), &c);
    s->p += n > 0 ? n : 1;
    return c;
}

/* One member of a class: a character, or a class escape, for which *is_set. */
static bool member(Pattern *s, CharSet *set, uint32_t *c, bool *is_set)
{
    const char *from = s->p;
    *is_set = false;
    if (*s->p != '\\') {
        *c = plain_char(s);
        return true;
    }
    if (s->p + 1 == s->end)
        return wrong_at(s, from, "expected a character after \\");
    char letter = s->p[1];
    s->p += 2;
    if (!class_escape(s, from, letter, set, is_set) || *is_set)
        return !s->g->failed;
    if (letter == 'b') {
        *c = '\b';
        return true;
    }
    return escaped_char(s, from, letter, c);
}

/* [...]; s->p is after the bracket. */
static Expr class_expr(Pattern *s, const char *from)
{
    CharSet set = { 0 };
    bool    inverted = take(s, "^"), is_set, good = true;
    while (good && s->p < s->end && *s->p != ']') {
        const char *at = s->p;
        uint32_t    first = 0, last;
        good = member(s, &set, &first, &is_set);
        last = first;
        bool range = good && s->p + 1 < s->end && *s->p == '-' && s->p[1] != ']';
        if (range && !is_set) {
            s->p++;
            good = member(s, &set, &last, &is_set);
            if (good && (is_set || last < first))
                good = wrong_at(s, at, "expected a range of characters that ascends");
        } else if (range) {
            good = wrong_at(s, at, "expected no range from a class of characters");
        }
        if (good && !is_set)
            char_set_add(&set, first, last);
    }
    if (good && !take(s, "]"))
        wrong_at(s, from, "expected ] after [");
    char_set_sort(&set);
    if (s->caseless && !set.failed)
        char_set_fold(&set);
    if (inverted && !set.failed)
        char_set_invert(&set);
    Expr e = expr_chars(s->g, &set, s->form);
    char_set_free(&set);
    return e;
}

static Expr dot(Pattern *s)
{
    CharSet set = { 0 };
    if (s->dot_all)
        return expr_any_char(s->g, s->form);
    char_set_add(&set, '\n', '\n');
    char_set_add(&set, '\r', '\r');
    char_set_add(&set, 0x2028, 0x2029);
    char_set_invert(&set);
    Expr e = expr_chars(s->g, &set, s->form);
    char_set_free(&set);
    return e;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static Expr not_empty(Pattern *s, Expr e)
{
    return expr_nullable(s->g, e) ? expr_minus(s->g, e, EXPR_EMPTY) : e;
}

/* a, then b. If one of them matches the empty string, the other keeps its position at the start or
 * at the end. */
static Part row(Pattern *s, const Part *a, const Part *b)
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

static void parts_add(Pattern *s, Parts *to, Part part)
{
    if (!ARRAY_ROOM(to->part, to->cap, to->n + 1)) {
        grammar_no_memory(s->g);
        return;
    }
    to->part[to->n++] = part;
}

static Part row_of(Pattern *s, Parts *parts)
{
    Part all = same(EXPR_EMPTY);
    while (parts->n > 0)
        all = row(s, &parts->part[--parts->n], &all);
    return all;
}

static Part any_of(Pattern *s, const Parts *parts)
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

static Part alternatives(Pattern *s);

/* The letters of (?ims-ims ; s->p is after the question mark. False: there are none. */
static bool group_flags(Pattern *s, const char *from)
{
    bool on = true;
    for (; s->p < s->end && *s->p != ')' && *s->p != ':'; s->p++) {
        if (*s->p == '-' && on)
            on = false;
        else if (*s->p == 'i')
            s->caseless = on;
        else if (*s->p == 's')
            s->dot_all = on;
        else
            return refuse(s, from, "this kind of group");
    }
    return s->p < s->end || wrong_at(s, from, "expected ) after (");
}

/* What follows "(?". *empty: it was (?i), which holds up to the end of the group around it. */
static bool group_kind(Pattern *s, const char *from, bool *empty)
{
    if (next_is(s, "=") || next_is(s, "!") || next_is(s, "<=") || next_is(s, "<!"))
        return refuse(s, from, "look-around");
    if (take(s, "P<") || take(s, "<")) {
        const char *close = memchr(s->p, '>', (size_t)(s->end - s->p));
        if (!close || close == s->p)
            return wrong_at(s, from, "expected the name of a group in < >");
        s->p = close + 1;
        return true;
    }
    if (!group_flags(s, from))
        return false;
    *empty = *s->p++ == ')';
    return true;
}

/* s->p is after the parenthesis. */
static Part group(Pattern *s, const char *from)
{
    bool caseless = s->caseless, dot_all = s->dot_all, empty = false;
    Part part = same(EXPR_EMPTY);
    if (take(s, "?") && (!group_kind(s, from, &empty) || empty))
        return part;
    if (++s->depth > MOST_GROUPS_DEEP)
        wrong_at(s, from, "groups are nested too deeply");
    else
        part = alternatives(s);
    s->depth--;
    if (!take(s, ")"))
        wrong_at(s, from, "expected ) after (");
    s->caseless = caseless;
    s->dot_all = dot_all;
    return part;
}

static Part anchor(bool at_start)
{
    Part part = { .anchored = true };
    for (int i = 0; i < 4; i++)
        if (at_start ? i / 2 : i % 2)
            part.e[i / 2][i % 2] = EXPR_EMPTY;
    return part;
}

static Part escape(Pattern *s, const char *from)
{
    CharSet  set = { 0 };
    uint32_t c = 0;
    bool     is_class;
    if (s->p == s->end) {
        wrong_at(s, from, "expected a character after \\");
        return same(EXPR_NOTHING);
    }
    char letter = *s->p++;
    if (letter == 'A' || letter == 'z')
        return anchor(letter == 'A');
    if (class_escape(s, from, letter, &set, &is_class) && !is_class
        && escaped_char(s, from, letter, &c))
        char_set_add(&set, c, c);
    return same(set_expr(s, &set));
}

static Part atom(Pattern *s)
{
    const char *from = s->p;
    CharSet     set = { 0 };
    switch (*s->p++) {
    case '(':
        return group(s, from);
    case '[':
        return same(class_expr(s, from));
    case '.':
        return same(dot(s));
    case '^':
    case '$':
        return anchor(*from == '^');
    case '\\':
        return escape(s, from);
    case '*':
    case '+':
    case '?':
        wrong_at(s, from, "expected something to repeat");
        return same(EXPR_NOTHING);
    default:
        s->p--;
        uint32_t c = plain_char(s);
        char_set_add(&set, c, c);
        return same(set_expr(s, &set));
    }
}

/* {m}, {m,} or {m,n}; false: it is none, and the brace is literal. */
static bool braces(Pattern *s, uint32_t *min, uint32_t *max)
{
    const char *from = s->p, *comma = NULL;
    uint64_t    value[2] = { 0 };
    for (s->p++; s->p < s->end && *s->p != '}'; s->p++) {
        if (*s->p == ',' && !comma && s->p > from + 1)
            comma = s->p;
        else if (*s->p >= '0' && *s->p <= '9')
            value[comma != NULL] = value[comma != NULL] * 10 + (uint64_t)(*s->p - '0');
        else
            break;
        if (value[0] > MOST_COUNT || value[1] > MOST_COUNT)
            return wrong_at(s, from, "a repetition is at most 16777216");
    }
    if (s->p == s->end || *s->p != '}' || s->p == from + 1) {
        s->p = from;
        return false;
    }
    *min = (uint32_t)value[0];
    *max = !comma ? *min : comma + 1 == s->p ? REPEAT_FOREVER : (uint32_t)value[1];
    s->p++;
    return *min <= *max || wrong_at(s, from, "expected a repetition {m,n} with m at most n");
}

static Part repeated(Pattern *s)
{
    const char *from = s->p;
    Part        part = atom(s);
    uint32_t    min = 0, max = REPEAT_FOREVER;
    const char *at = s->p;
    if (s->g->failed || s->p == s->end)
        return part;
    if (*s->p == '*' || *s->p == '+' || *s->p == '?') {
        min = *s->p == '+';
        max = *s->p++ == '?' ? 1 : max;
    } else if (*s->p != '{' || !braces(s, &min, &max)) {
        return part;
    }
    if (part.anchored && (min != 1 || max != 1))
        refuse(s, from, "an anchor that is repeated");
    if (next_is(s, "+"))
        refuse(s, at, "possessive repetition");
    take(s, "?"); /* lazy or greedy makes no difference here */
    if (s->p < s->end && (*s->p == '*' || *s->p == '+' || *s->p == '?'))
        wrong_at(s, s->p, "expected something to repeat");
    return part.anchored ? part : same(expr_repeat(s->g, part.e[0][0], min, max));
}

static Part alternatives(Pattern *s)
{
    Parts all = { 0 }, one = { 0 };
    while (!s->g->failed && s->p < s->end && *s->p != ')') {
        if (take(s, "|"))
            parts_add(s, &all, row_of(s, &one));
        else
            parts_add(s, &one, repeated(s));
    }
    parts_add(s, &all, row_of(s, &one));
    Part any = any_of(s, &all);
    free(all.part);
    free(one.part);
    return any;
}

Expr expr_regex(Grammar *g, const char *pattern, size_t n, bool search, CharForm form,
                const char *what)
{
    Pattern s = { g, pattern, pattern, pattern + n, what, form, 0, false, false };
    size_t  valid = valid_prefix(pattern, n);
    if (g->failed)
        return EXPR_NOTHING;
    if (valid < n)
        wrong_at(&s, pattern + valid, "expected UTF-8, found other bytes");
    Part part = alternatives(&s);
    if (!g->failed && s.p < s.end)
        wrong_at(&s, s.p, "expected ( before )");
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
