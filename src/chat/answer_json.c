/* chat/answer_json.c: tracks streamed JSON byte by byte, and converts values of other notations. */
#include "chat/chat_answer_parts.h"

#include <stdlib.h>
#include "base/json.h"

/* ---- Tracking -------------------------------------------------------------------------------- */

enum { A_VALUE, A_FIRST, A_KEY, A_FIRST_KEY, A_COLON, A_COMMA, IN_STRING, IN_KEY, IN_WORD };

bool key_path_same(const KeyPath *a, const KeyPath *b, int n)
{
    for (int i = 0; i < n && i < PATH_KEYS; i++)
        if (a->key[i].n != b->key[i].n || memcmp(a->key[i].s, b->key[i].s, a->key[i].n) != 0)
            return false;
    return n <= PATH_KEYS && a->n >= n && b->n >= n;
}

/* A key that is too long for KeyPath is cut to one that matches none: no key of a form is that
 * long. */
static void key_byte(JsonTrack *t, char c)
{
    if (t->objects <= PATH_KEYS && t->path.key[t->objects - 1].n < KEY_BYTES)
        t->path.key[t->objects - 1].s[t->path.key[t->objects - 1].n++] = c;
}

static JsonStep in_string(JsonTrack *t, char c)
{
    bool key = t->expect == IN_KEY;
    if ((unsigned char)c < 0x20)
        return JSON_BAD;
    if (!t->escape && c == '"') {
        t->expect = key ? A_COLON : A_COMMA;
        return key ? JSON_INSIDE : JSON_ENDS;
    }
    if (key)
        key_byte(t, c);
    t->escape = !t->escape && c == '\\';
    return JSON_INSIDE;
}

static JsonStep close_value(JsonTrack *t, char c)
{
    if (!t->depth || t->open[t->depth - 1] != (c == '}' ? '{' : '['))
        return JSON_BAD;
    t->depth--;
    t->objects -= c == '}';
    t->path.n = t->objects;
    t->expect = A_COMMA;
    return t->depth ? JSON_ENDS : JSON_DONE;
}

static JsonStep begin_value(JsonTrack *t, char c)
{
    if (c != '{' && c != '[') {
        t->expect = c == '"' ? IN_STRING : IN_WORD;
        return !t->depth
                || !(c == '"' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'))
            ? JSON_BAD
            : JSON_BEGINS;
    }
    if (t->depth == JSON_DEEPEST)
        return JSON_BAD;
    t->open[t->depth++] = c;
    t->objects += c == '{';
    t->expect = c == '{' ? A_FIRST_KEY : A_FIRST;
    return JSON_BEGINS;
}

JsonStep json_track(JsonTrack *t, char c)
{
    if (t->expect == IN_STRING || t->expect == IN_KEY)
        return in_string(t, c);
    if (t->expect == IN_WORD) {
        if (c != ',' && c != ']' && c != '}' && !answer_space(c))
            return c == '+' || c == '-' || c == '.' || (c >= '0' && c <= '9')
                           || (c >= 'a' && c <= 'z') || c == 'E' ? JSON_INSIDE : JSON_BAD;
        t->expect = A_COMMA;
    }
    if (answer_space(c))
        return JSON_INSIDE;
    t->path.n = t->objects;
    switch (t->expect) {
    case A_VALUE: return begin_value(t, c);
    case A_FIRST: return c == ']' ? close_value(t, c) : begin_value(t, c);
    case A_FIRST_KEY: case A_KEY:
        if (c == '}' && t->expect == A_FIRST_KEY)
            return close_value(t, c);
        t->expect = IN_KEY;
        if (t->objects <= PATH_KEYS)
            t->path.key[t->objects - 1].n = 0;
        return c == '"' ? JSON_INSIDE : JSON_BAD;
    case A_COLON: t->expect = A_VALUE; return c == ':' ? JSON_INSIDE : JSON_BAD;
    default:
        if (c != ',')
            return c == '}' || c == ']' ? close_value(t, c) : JSON_BAD;
        t->expect = t->depth && t->open[t->depth - 1] == '{' ? A_KEY : A_VALUE;
        return t->depth ? JSON_INSIDE : JSON_BAD;
    }
}

bool json_at_colon(const JsonTrack *t) { return t->expect == A_COLON; }

size_t json_length(const char *s, size_t n)
{
    JsonTrack t = { 0 };
    if (!n || (s[0] != '{' && s[0] != '['))
        return 0;
    for (size_t i = 0; i < n; i++) {
        JsonStep step = json_track(&t, s[i]);
        if (step == JSON_BAD || step == JSON_DONE)
            return step == JSON_DONE ? i + 1 : 0;
    }
    return 0;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

bool json_out_inside(TextOut *o, const char *s, size_t n)
{
    char   out[JSON_CHAR_BYTES];
    size_t used;
    for (size_t i = 0; i < n; i += used) {
        size_t n_out = json_char(out, s + i, n - i, &used);
        text_out_bytes(o, out, n_out);
    }
    return !o->failed;
}

bool json_unquote(TextOut *o, const char *s, size_t n)
{
    JsonDoc d = { 0 };
    Error   e = { 0 };
    bool    good = json_doc_read(&d, s, n, 0, "answer", &e);
    if (!good && e.status == SYSTEM)
        o->failed = true;
    good = good && d.node->kind == NODE_STRING && text_out_bytes(o, d.node->text, d.node->n);
    json_doc_free(&d);
    return good;
}

/* ---- Other notations ------------------------------------------------------------------------- */

typedef struct Loose {
    TextOut    *o;
    const char *s, *end, *quote;
    size_t      n_quote;
    int         depth;
} Loose;

static bool loose_value(Loose *l);

static void loose_spaces(Loose *l)
{
    while (l->s < l->end && answer_space(*l->s))
        l->s++;
}

static bool loose_is(Loose *l, const char *word)
{
    size_t n = strlen(word);
    bool   is = (size_t)(l->end - l->s) >= n && memcmp(l->s, word, n) == 0;
    l->s += is ? n : 0;
    return is;
}

/* \n, \x41, \u0041 as JSON spells them; before other characters the backslash stays. */
static void loose_escape(Loose *l)
{
    char c = *l->s;
    bool json = c && strchr("nrtbf\\/\"", c);
    if (c == 'u' || c == 'x')
        text_out(l->o, c == 'u' ? "\\u" : "\\u00");
    else if (json)
        text_out(l->o, "\\%c", c);
    else
        text_out(l->o, c == '\'' ? "'" : "\\\\");
    l->s += json || c == '\'' || c == 'u' || c == 'x';
}

static bool loose_hex(const Loose *l)
{
    int n = *l->s == 'u' ? 4 : *l->s == 'x' ? 2 : 0;
    if (l->end - l->s <= n)
        return false;
    for (int i = 1; i <= n; i++)
        if (!l->s[i] || !strchr("0123456789abcdefABCDEF", l->s[i]))
            return false;
    return true;
}

static bool loose_string(Loose *l, char quote)
{
    text_out_bytes(l->o, "\"", 1);
    while (l->s < l->end && *l->s != quote) {
        const char *from = l->s;
        if (*l->s == '\\') {
            if (++l->s == l->end || !loose_hex(l))
                return false;
            loose_escape(l);
            continue;
        }
        while (l->s < l->end && *l->s != quote && *l->s != '\\')
            l->s++;
        json_out_inside(l->o, from, (size_t)(l->s - from));
    }
    text_out_bytes(l->o, "\"", 1);
    return l->s++ < l->end;
}

/* Text up to the template's quote, or a key that ends at its colon. */
static bool loose_until(Loose *l, const char *mark, size_t n)
{
    const char *to = l->s;
    while ((size_t)(l->end - to) >= n && memcmp(to, mark, n) != 0)
        to++;
    if ((size_t)(l->end - to) < n)
        return false;
    text_out_bytes(l->o, "\"", 1);
    json_out_inside(l->o, l->s, (size_t)(to - l->s));
    text_out_bytes(l->o, "\"", 1);
    l->s = to + n;
    return true;
}

static bool loose_key(Loose *l)
{
    loose_spaces(l);
    char c = l->s < l->end ? *l->s : '\0';
    bool template_quote = l->n_quote && (size_t)(l->end - l->s) >= l->n_quote
                          && memcmp(l->s, l->quote, l->n_quote) == 0;
    if (!template_quote && c != '"' && c != '\'')
        return loose_until(l, ":", 1) && text_out_bytes(l->o, ": ", 2);
    if (!loose_value(l))
        return false;
    loose_spaces(l);
    return loose_is(l, ":") && text_out_bytes(l->o, ": ", 2);
}

static bool loose_items(Loose *l, char close, bool keys)
{
    bool first = true;
    text_out_bytes(l->o, keys ? "{" : "[", 1);
    for (;;) {
        loose_spaces(l);
        if (l->s < l->end && *l->s == close) {
            l->s++;
            return text_out_bytes(l->o, keys ? "}" : "]", 1);
        }
        if (!first && (!loose_is(l, ",") || !text_out_bytes(l->o, ", ", 2)))
            return false;
        if ((keys && !loose_key(l)) || !loose_value(l))
            return false;
        first = false;
    }
}

static bool loose_number(Loose *l)
{
    const char *from = l->s;
    while (l->s < l->end && *l->s && strchr("+-.0123456789eE", *l->s))
        l->s++;
    JsonDoc d = { 0 };
    size_t  n = (size_t)(l->s - from);
    Error   e = { 0 };
    bool    good = n && json_doc_read(&d, from, n, 0, "answer", &e);
    l->o->failed |= !good && e.status == SYSTEM;
    json_doc_free(&d);
    return good && text_out_bytes(l->o, from, n);
}

static bool loose_value(Loose *l)
{
    static const char *const words[][2] = {
        { "true", "true" }, { "false", "false" }, { "null", "null" },
        { "True", "true" }, { "False", "false" }, { "None", "null" },
    };
    bool good;
    loose_spaces(l);
    if (l->depth == JSON_DEEPEST || l->s == l->end)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (loose_is(l, words[i][0]))
            return text_out(l->o, "%s", words[i][1]);
    if (l->n_quote && (size_t)(l->end - l->s) >= l->n_quote
        && memcmp(l->s, l->quote, l->n_quote) == 0) {
        l->s += l->n_quote;
        return loose_until(l, l->quote, l->n_quote);
    }
    l->depth++;
    switch (*l->s) {
    case '"': case '\'': l->s++; good = loose_string(l, l->s[-1]); break;
    case '[': l->s++; good = loose_items(l, ']', false); break;
    case '(': l->s++; good = loose_items(l, ')', false); break;
    case '{': l->s++; good = loose_items(l, '}', true); break;
    default: good = loose_number(l);
    }
    l->depth--;
    return good && !l->o->failed;
}

bool json_from_loose(TextOut *o, const char *s, size_t n, const char *quote, size_t n_quote)
{
    Loose l = { o, s, n ? s + n : s, quote, n_quote, 0 };
    if (!n || !loose_value(&l))
        return false;
    loose_spaces(&l);
    return l.s == l.end && !o->failed;
}
