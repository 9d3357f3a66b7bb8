/* Reads GBNF, llama.cpp's grammar format, as its grammars/README.md describes it. */
#include "constrain/grammar_parts.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

enum { MOST_GROUPS_DEEP = 200, MOST_COUNT = 1 << 24 };

/* The symbols of one alternative. */
typedef struct Row { Symbol *symbol; size_t n, cap; } Row;

typedef struct Gbnf {
    Grammar    *g;
    const char *text, *p, *end, *what;
    ByteMap     names;      /* of rules, from their position in the text to their number */
    /* Of each rule; groups are defined and have no first use. */
    struct GbnfRule { const char *first_use; bool defined; } *rule;
    size_t      n_rules, cap_rules;
    int         depth;
} Gbnf;

static bool wrong_at(Gbnf *s, const char *at, const char *why)
{
    size_t line = 1, column = 1;
    for (const char *p = s->text; p < at; p++) {
        line += *p == '\n';
        column = *p == '\n' ? 1 : column + (((unsigned char)*p & 0xC0) != 0x80);
    }
    return grammar_wrong(s->g, "%s:%zu:%zu: %s", s->what, line, column, why);
}

static bool at_char(const Gbnf *s, char c) { return s->p < s->end && *s->p == c; }

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'
        || c == '_';
}

/* Skips blanks and comments, and if `lines`, newlines. */
static void skip(Gbnf *s, bool lines)
{
    while (s->p < s->end) {
        if (*s->p == '#')
            while (s->p < s->end && *s->p != '\n' && *s->p != '\r')
                s->p++;
        else if (*s->p == ' ' || *s->p == '\t' || (lines && (*s->p == '\n' || *s->p == '\r')))
            s->p++;
        else
            break;
    }
}

/* ---- Characters ------------------------------------------------------------------------------ */

static bool hex_code(Gbnf *s, int n, uint32_t *c)
{
    const char *from = s->p - 2;
    *c = 0;
    for (int i = 0; i < n; i++, s->p++) {
        int digit = s->p < s->end ? hex_digit(*s->p) : -1;
        if (digit < 0)
            return wrong_at(s, from,
                            "expected 2 hexadecimal digits after \\x, 4 after \\u, 8 after "
                            "\\U");
        *c = *c * 16 + (uint32_t)digit;
    }
    return (*c < CHARACTERS && !(*c >= 0xD800 && *c < 0xE000))
        || wrong_at(s, from, "expected the code of a character");
}

/* One character of a literal or a class that is not at its end. */
static bool one_char(Gbnf *s, uint32_t *c)
{
    static const char letters[] = "trn\\\"[]", codes[] = "\t\r\n\\\"[]";
    const char       *from = s->p, *at;
    *c = 0;
    if (*s->p != '\\') {
        s->p += utf8_decode(s->p, (size_t)(s->end - s->p), c);
        return true;
    }
    char letter = s->p + 1 < s->end ? s->p[1] : '\0';
    s->p += s->p + 1 < s->end ? 2 : 1;
    if (letter == 'x' || letter == 'u' || letter == 'U')
        return hex_code(s, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, c);
    at = letter ? strchr(letters, letter) : NULL;
    if (!at)
        return wrong_at(s, from, "unknown escape");
    *c = (uint32_t)codes[at - letters];
    return true;
}

static Expr literal(Gbnf *s)
{
    const char *from = s->p++;
    TextOut     text = { 0 };
    uint32_t    c;
    while (s->p < s->end && *s->p != '"' && one_char(s, &c)) {
        char utf8[4];
        text_out_bytes(&text, utf8, character_write(c, utf8));
    }
    if (!s->g->failed && !at_char(s, '"'))
        wrong_at(s, from, "expected a second quote after this one");
    s->p++;
    if (text.failed)
        grammar_no_memory(s->g);
    Expr e = text.failed ? EXPR_NOTHING : expr_text(s->g, text.text, text.n);
    text_out_free(&text);
    return e;
}

static Expr class_expr(Gbnf *s)
{
    const char *from = s->p++;
    CharSet     set = { 0 };
    bool        inverted = at_char(s, '^');
    uint32_t    first, last;
    s->p += inverted;
    while (s->p < s->end && *s->p != ']') {
        const char *at = s->p;
        if (!one_char(s, &first))
            break;
        last = first;
        if (s->p + 1 < s->end && *s->p == '-' && s->p[1] != ']') {
            s->p++;
            if (!one_char(s, &last))
                break;
            if (last < first)
                wrong_at(s, at, "expected a range of characters that ascends");
        }
        char_set_add(&set, first, last);
    }
    if (!s->g->failed && !at_char(s, ']'))
        wrong_at(s, from, "expected ] after this [");
    s->p++;
    char_set_sort(&set);
    if (inverted)
        char_set_invert(&set);
    Expr e = expr_chars(s->g, &set, CHARS_UTF8);
    char_set_free(&set);
    return e;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* The rule with this name, which may be defined later in the text. */
static bool rule_named(Gbnf *s, const char *name, size_t n, Rule *rule)
{
    bool     known;
    Error    why = { 0 };
    int32_t *number = byte_map_put(&s->names, name, n, (int32_t)s->g->n_rules, &known, &why);
    if (!number)
        return grammar_no_memory(s->g);
    *rule = (Rule)*number;
    if (known)
        return true;
    char *copy = strndup(name, n);
    if (!copy)
        return grammar_no_memory(s->g);
    grammar_rule(s->g, copy);
    free(copy);
    if (!ARRAY_ROOM(s->rule, s->cap_rules, s->g->n_rules + 1))
        return grammar_no_memory(s->g);
    while (s->n_rules < s->g->n_rules)
        s->rule[s->n_rules++] = (struct GbnfRule){ NULL, true };
    s->rule[*rule] = (struct GbnfRule){ name, false };
    return !s->g->failed;
}

static size_t name_at(const Gbnf *s)
{
    size_t n = 0;
    while (s->p + n < s->end && is_name(s->p[n]))
        n++;
    return n;
}

static void add_symbol(Gbnf *s, Row *row, Symbol symbol)
{
    if (!ARRAY_ROOM(row->symbol, row->cap, row->n + 1)) {
        grammar_no_memory(s->g);
        return;
    }
    row->symbol[row->n++] = symbol;
}

static void alternatives(Gbnf *s, Rule to, bool nested);

static Symbol group(Gbnf *s)
{
    const char *from = s->p++;
    Rule        rule = grammar_rule(s->g, "( )");
    skip(s, true);
    if (++s->depth > MOST_GROUPS_DEEP)
        wrong_at(s, from, "groups are nested too deeply");
    else
        alternatives(s, rule, true);
    s->depth--;
    if (!s->g->failed && !at_char(s, ')'))
        wrong_at(s, from, "expected ) after this (");
    s->p++;
    return symbol_rule(rule);
}

/* {m}, {m,} or {m,n} */
static bool braces(Gbnf *s, uint32_t *min, uint32_t *max)
{
    const char *from = s->p++;
    uint64_t    value[2] = { 0 };
    bool        comma = false, digit = false;
    for (skip(s, false); s->p < s->end && *s->p != '}'; skip(s, false)) {
        if (*s->p == ',' && !comma && digit) {
            comma = true;
            digit = false;
        } else if (*s->p >= '0' && *s->p <= '9') {
            value[comma] = value[comma] * 10 + (uint64_t)(*s->p - '0');
            digit = true;
        } else {
            break;
        }
        s->p++;
        if (value[comma] > MOST_COUNT)
            return wrong_at(s, from, "a repetition is at most 16777216");
    }
    if (!at_char(s, '}') || (!comma && !digit))
        return wrong_at(s, from, "expected {m}, {m,} or {m,n}");
    s->p++;
    *min = (uint32_t)value[0];
    *max = !comma ? *min : digit ? (uint32_t)value[1] : REPEAT_FOREVER;
    return *min <= *max || wrong_at(s, from, "expected {m,n} with m at most n");
}

/* A repetition of the last symbol; false: there is none here. */
static bool repetition(Gbnf *s, Row *row)
{
    const char *from = s->p;
    uint32_t    min = 0, max = REPEAT_FOREVER;
    if (*s->p != '*' && *s->p != '+' && *s->p != '?' && *s->p != '{')
        return false;
    if (row->n == 0)
        return !wrong_at(s, from, "expected something to repeat");
    if (*s->p == '{' && !braces(s, &min, &max))
        return true;
    if (*from != '{') {
        min = *from == '+';
        max = *from == '?' ? 1 : max;
        s->p++;
    }
    row->symbol[row->n - 1] = grammar_repeat(s->g, row->symbol[row->n - 1], min, max);
    return true;
}

/* One symbol; false: none begins here. */
static bool symbol(Gbnf *s, Row *row)
{
    Rule   rule;
    size_t n_name = name_at(s);
    if (*s->p == '"') {
        add_symbol(s, row, symbol_expr(literal(s)));
    } else if (*s->p == '[') {
        add_symbol(s, row, symbol_expr(class_expr(s)));
    } else if (*s->p == '(') {
        add_symbol(s, row, group(s));
    } else if (*s->p == '.') {
        s->p++;
        add_symbol(s, row, symbol_expr(expr_any_char(s->g, CHARS_UTF8)));
    } else if (n_name) {
        if (rule_named(s, s->p, n_name, &rule))
            add_symbol(s, row, symbol_rule(rule));
        s->p += n_name;
    } else if (*s->p == '<' || *s->p == '!') {
        wrong_at(s, s->p, "tokens: not supported here");
    } else {
        return false;
    }
    return true;
}

/* Reads symbols while there are any, as an alternative of `to`. nested: newlines are blanks. */
static void one_row(Gbnf *s, Rule to, bool nested)
{
    Row row = { 0 };
    while (!s->g->failed && s->p < s->end && (repetition(s, &row) || symbol(s, &row)))
        skip(s, nested);
    grammar_add(s->g, to, row.symbol, row.n);
    free(row.symbol);
}

static void alternatives(Gbnf *s, Rule to, bool nested)
{
    one_row(s, to, nested);
    while (!s->g->failed && at_char(s, '|')) {
        s->p++;
        skip(s, true);
        one_row(s, to, nested);
    }
}

static bool rule(Gbnf *s)
{
    const char *from = s->p;
    size_t      n = name_at(s);
    Rule        made;
    if (n == 0)
        return wrong_at(s, from, "expected the name of a rule");
    if (!rule_named(s, from, n, &made))
        return false;
    if (s->rule[made].defined)
        return wrong_at(s, from, "this rule is defined already");
    s->p += n;
    skip(s, false);
    if (s->end - s->p < 3 || memcmp(s->p, "::=", 3) != 0)
        return wrong_at(s, s->p, "expected ::= after the name of a rule");
    s->p += 3;
    skip(s, true);
    s->rule[made].defined = true;
    alternatives(s, made, false);
    if (!s->g->failed && s->p < s->end && *s->p != '\n' && *s->p != '\r')
        return wrong_at(s, s->p, "expected a symbol or the end of the line");
    skip(s, true);
    return !s->g->failed;
}

bool grammar_read_gbnf(Grammar *g, const char *text, size_t n, const char *what, Rule *root)
{
    Gbnf   s = { .g = g, .text = text, .p = text, .end = text + n, .what = what };
    size_t valid = valid_prefix(text, n);
    bool   good = !g->failed
             && (valid == n || wrong_at(&s, text + valid, "expected UTF-8, found other bytes"));
    if (good)
        skip(&s, true);
    while (good && s.p < s.end)
        good = rule(&s);
    for (size_t i = 0; good && i < s.n_rules; i++)
        if (!s.rule[i].defined)
            good = wrong_at(&s, s.rule[i].first_use, "this rule is not defined");
    int32_t found = byte_map_find(&s.names, "root", 4, -1);
    if (good && found < 0)
        good = grammar_wrong(g, "%s: expected a rule root, found none", what);
    *root = (Rule)found;
    byte_map_free(&s.names);
    free(s.rule);
    return good;
}
