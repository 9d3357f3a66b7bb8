/* chat/jinja_print.c: values as text: Python's str(), repr() and json.dumps(). What these add to
 * the strings themselves (quotes, brackets, numbers, escapes) is data. */
#include "chat/jinja_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "tokenizer/unicode.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

/* The digits of x without a point; x is 0.DIGITS times 10 to the power *power. */
static size_t shortest_digits(JinjaRun *r, double x, char digits[32], int *power)
{
    TextOut o = { 0 };
    bool    ok = json_out_double(&o, fabs(x)) && text_out_bytes(&o, "", 1);
    size_t  n = 0;
    bool    point = false;
    *power = 0;
    for (const char *p = ok ? o.text : ""; *p; p++) {
        if (*p == 'e') {
            *power += atoi(p + 1);
            break;
        }
        if (*p == '.') {
            point = true;
        } else if (n || *p != '0') {
            if (n < 31)
                digits[n++] = *p;
            *power += !point;
        } else {
            *power -= point;
        }
    }
    text_out_free(&o);
    if (!ok) {
        no_memory(r->what, r->err);
        longjmp(r->failed, 1);
    }
    while (n > 0 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    return n;
}

/* Python's repr: the fewest digits that parse to x, with an exponent from 1e16 on and below
 * 1e-4. */
String *float_text(JinjaRun *r, double x)
{
    char          digits[32], text[64];
    int           power;
    StringBuffer *b = buffer_new(r);
    if (!isfinite(x)) {
        buffer_text(r, b, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return buffer_take(r, b);
    }
    size_t n = shortest_digits(r, x, digits, &power);
    buffer_text(r, b, signbit(x) ? "-" : "");
    if (n == 0) {
        buffer_text(r, b, "0.0");
    } else if (power > 16 || power < -3) {
        snprintf(text, sizeof text, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                 power > 0 ? '+' : '-', abs(power - 1));
        buffer_text(r, b, text);
    } else {
        if (power <= 0)
            buffer_text(r, b, "0.");
        for (int i = power; i < 0; i++)
            buffer_text(r, b, "0");
        for (int i = 0; i < (int)n || i < power; i++) {
            if (i == power && i > 0)
                buffer_text(r, b, ".");
            buffer_add(r, b, i < (int)n ? digits + i : "0", NULL, 1);
        }
        if ((int)n <= power)
            buffer_text(r, b, ".0");
    }
    return buffer_take(r, b);
}

static void number(JinjaRun *r, StringBuffer *b, Value v)
{
    char text[24];
    if (v.kind == V_FLOAT) {
        buffer_string(r, b, float_text(r, v.f));
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)v.i);
    buffer_text(r, b, text);
}

/* ---- repr ------------------------------------------------------------------------------------ */

static void repr_char(JinjaRun *r, StringBuffer *b, const String *s, size_t at, size_t n,
                      uint32_t c, char quote)
{
    static const char spelled[] = "\\n\\r\\t\\\\", meant[] = "\n\r\t\\";
    bool        mark = s->mark && s->mark[at];
    const char *hit = c && c < 0x80 ? strchr(meant, (int)c) : NULL;
    Category    g = category_of(c);
    bool hidden = c != ' ' && (g == CC || g == CF || g == CS || g == CO || g == CN || g == ZL
                               || g == ZP || g == ZS);
    char text[16];
    if (hit)
        snprintf(text, sizeof text, "%.2s", spelled + 2 * (hit - meant));
    else if (c == (uint32_t)quote)
        snprintf(text, sizeof text, "\\%c", quote);
    else if (hidden)
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x",
                 (unsigned)c);
    else {
        buffer_add(r, b, s->s + at, s->mark ? s->mark + at : NULL, n);
        return;
    }
    for (const char *p = text; *p; p++)
        buffer_char(r, b, (unsigned char)*p, mark);
}

static void repr_string(JinjaRun *r, StringBuffer *b, const String *s)
{
    char quote = s->n && memchr(s->s, '\'', s->n) && !memchr(s->s, '"', s->n) ? '"' : '\'';
    buffer_add(r, b, &quote, NULL, 1);
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0;
        n = character_at(s->s + i, s->n - i, &c);
        jinja_work(r, 1);
        repr_char(r, b, s, i, n, c, quote);
    }
    buffer_add(r, b, &quote, NULL, 1);
}

static void repr_items(JinjaRun *r, StringBuffer *b, const char *open, const List *l,
                       const char *close)
{
    buffer_text(r, b, open);
    for (size_t i = 0; i < l->n; i++) {
        buffer_text(r, b, i ? ", " : "");
        repr(r, b, l->item[i]);
    }
    buffer_text(r, b, close);
}

static void repr_dict(JinjaRun *r, StringBuffer *b, const Dict *d)
{
    buffer_text(r, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        buffer_text(r, b, i ? ", " : "");
        repr(r, b, d->key[i]);
        buffer_text(r, b, ": ");
        repr(r, b, d->value[i]);
    }
    buffer_text(r, b, "}");
}

static void repr_range(JinjaRun *r, StringBuffer *b, const JinjaRange *g)
{
    char text[80];
    int  n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)g->start,
                      (long long)g->stop);
    if (g->step != 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)g->step);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    buffer_text(r, b, text);
}

static void repr_rare(JinjaRun *r, StringBuffer *b, Value v)
{
    static const char open[] = "dict_keys([\0  dict_values([\0dict_items([";
    switch (v.kind) {
    case V_RANGE: repr_range(r, b, v.range); break;
    case V_VIEW:
        repr_items(r, b, open + (v.view->kind == 'k' ? 0 : v.view->kind == 'v' ? 14 : 28),
                   to_list(r, v), "])");
        break;
    case V_NAMESPACE:
        buffer_text(r, b, "<Namespace ");
        repr_dict(r, b, v.dict);
        buffer_text(r, b, ">");
        break;
    case V_MACRO:
        buffer_text(r, b, "<Macro ");
        if (v.macro->name)
            repr_string(r, b, v.macro->name);
        else
            buffer_text(r, b, "anonymous");
        buffer_text(r, b, ">");
        break;
    default: jinja_fail(r, "printing a %s is not supported", type_name(v));
    }
}

void repr(JinjaRun *r, StringBuffer *b, Value v)
{
    jinja_enter(r);
    switch (v.kind) {
    case V_UNDEFINED: buffer_text(r, b, "Undefined"); break;
    case V_NONE: buffer_text(r, b, "None"); break;
    case V_BOOL: buffer_text(r, b, v.truth ? "True" : "False"); break;
    case V_INT: case V_FLOAT: number(r, b, v); break;
    case V_STRING:
        if (v.s->safe)
            jinja_fail(r, "the repr of a safe text is not supported");
        repr_string(r, b, v.s);
        break;
    case V_LIST: repr_items(r, b, "[", v.list, "]"); break;
    case V_TUPLE: repr_items(r, b, "(", v.list, v.list->n == 1 ? ",)" : ")"); break;
    case V_DICT: repr_dict(r, b, v.dict); break;
    default: repr_rare(r, b, v);
    }
    r->depth--;
}

String *to_string(JinjaRun *r, Value v)
{
    if (v.kind == V_STRING)
        return v.s;
    StringBuffer *b = buffer_new(r);
    if (v.kind != V_UNDEFINED)
        repr(r, b, v);
    return buffer_take(r, b);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct Dump {
    JinjaRun     *r;
    StringBuffer *b;
    bool          ascii, sorted;
    String       *indent, *item, *key; /* indent NULL: one line */
    int           level;
} Dump;

static void dump(Dump *d, Value v);

static void dump_char(Dump *d, const String *s, size_t at, size_t n, uint32_t c)
{
    static const char short_for[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    bool mark = s->mark && s->mark[at];
    char text[16] = "";
    for (const char *p = short_for; *p; p += 2)
        if (c == (uint32_t)(unsigned char)p[0])
            snprintf(text, sizeof text, "\\%c", p[1]);
    if (!text[0] && (c < 0x20 || (d->ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)))
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else if (!text[0] && d->ascii && c >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
    if (!text[0])
        buffer_add(d->r, d->b, s->s + at, s->mark ? s->mark + at : NULL, n);
    for (const char *p = text; *p; p++)
        buffer_char(d->r, d->b, (unsigned char)*p, mark);
}

static void dump_string(Dump *d, const String *s)
{
    buffer_text(d->r, d->b, "\"");
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0;
        for (n = 0; i + n < s->n && s->s[i + n] >= 0x20 && s->s[i + n] < 0x7F
                    && s->s[i + n] != '"' && s->s[i + n] != '\\'; n++)
            ;
        jinja_work(d->r, 1);
        if (n) {
            buffer_add(d->r, d->b, s->s + i, s->mark ? s->mark + i : NULL, n);
        } else {
            n = character_at(s->s + i, s->n - i, &c);
            dump_char(d, s, i, n, c);
        }
    }
    buffer_text(d->r, d->b, "\"");
}

static void new_line(Dump *d)
{
    if (!d->indent)
        return;
    buffer_text(d->r, d->b, "\n");
    buffer_fill(d->r, d->b, d->indent, (size_t)d->level);
}

static void dump_list(Dump *d, const List *l)
{
    buffer_text(d->r, d->b, "[");
    d->level++;
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            buffer_string(d->r, d->b, d->item);
        new_line(d);
        dump(d, l->item[i]);
    }
    d->level--;
    if (l->n)
        new_line(d);
    buffer_text(d->r, d->b, "]");
}

static void dump_key(Dump *d, Value key)
{
    if (key.kind == V_STRING) {
        dump_string(d, key.s);
        return;
    }
    if (!is_number(key) && key.kind != V_NONE)
        jinja_fail(d->r, "tojson: keys must be str, int, float, bool or None, not %s",
                   type_name(key));
    buffer_text(d->r, d->b, "\"");
    dump(d, key);
    buffer_text(d->r, d->b, "\"");
}

static void dump_dict(Dump *d, const Dict *m)
{
    List *keys = list_new(d->r, m->n);
    if (m->n)
        memcpy(keys->item, m->key, m->n * sizeof *m->key);
    for (size_t i = 1; d->sorted && i < m->n; i++) /* stable, and keys are few */
        for (size_t k = i; k > 0 && compare(d->r, keys->item[k - 1], keys->item[k]) > 0; k--) {
            Value t = keys->item[k];
            keys->item[k] = keys->item[k - 1], keys->item[k - 1] = t;
        }
    buffer_text(d->r, d->b, "{");
    d->level++;
    for (size_t i = 0; i < m->n; i++) {
        if (i)
            buffer_string(d->r, d->b, d->item);
        new_line(d);
        dump_key(d, keys->item[i]);
        buffer_string(d->r, d->b, d->key);
        dump(d, d->sorted ? *dict_find(d->r, m, keys->item[i]) : m->value[i]);
    }
    d->level--;
    if (m->n)
        new_line(d);
    buffer_text(d->r, d->b, "}");
}

static void dump(Dump *d, Value v)
{
    jinja_enter(d->r);
    switch (v.kind) {
    case V_NONE: buffer_text(d->r, d->b, "null"); break;
    case V_BOOL: buffer_text(d->r, d->b, v.truth ? "true" : "false"); break;
    case V_INT: number(d->r, d->b, v); break;
    case V_FLOAT:
        if (isfinite(v.f))
            number(d->r, d->b, v);
        else
            buffer_text(d->r, d->b, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
        break;
    case V_STRING: dump_string(d, v.s); break;
    case V_LIST: case V_TUPLE: dump_list(d, v.list); break;
    case V_DICT: dump_dict(d, v.dict); break;
    default: jinja_fail(d->r, "tojson: a %s is not JSON", type_name(v));
    }
    d->r->depth--;
}

/* arg: ensure_ascii, indent, separators, sort_keys, as in transformers' own tojson. */
Value filter_tojson(JinjaRun *r, Value v, const Value *arg)
{
    Dump    d = { .r = r, .b = buffer_new(r) };
    int64_t width;
    d.ascii = truth(r, arg[0]);
    d.sorted = truth(r, arg[3]);
    d.item = v_text(r, arg[1].kind == V_NONE ? ", " : ",").s;
    d.key = v_text(r, ": ").s;
    if (arg[1].kind == V_STRING) {
        d.indent = arg[1].s;
    } else if (arg[1].kind != V_NONE) {
        StringBuffer *b = buffer_new(r);
        width = need_int(r, "tojson: indent", arg[1]);
        buffer_fill(r, b, v_text(r, " ").s, width > 0 ? (size_t)width : 0);
        d.indent = buffer_take(r, b);
    }
    if (arg[2].kind != V_NONE) {
        List *two = to_list(r, arg[2]);
        if (two->n != 2)
            jinja_fail(r, "tojson: expected 2 separators, found %zu", two->n);
        d.item = need_string(r, "tojson: a separator", two->item[0]);
        d.key = need_string(r, "tojson: a separator", two->item[1]);
    }
    dump(&d, v);
    return v_string(buffer_take(r, d.b));
}
