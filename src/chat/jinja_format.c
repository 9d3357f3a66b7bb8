/* chat/jinja_format.c: Python's "..." % values, "...".format(values) and strftime of a day. The
 * format's text keeps its marks, as do strings that are inserted; numbers are data. */
#include "chat/jinja_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/hash.h"
#include "tokenizer/unicode.h"

/* How one value is formatted, in both kinds of formats. */
typedef struct Spec {
    String *fill;
    char    align;      /* '<', '>', '^', '=' (between sign and digits), 0: by the type */
    char    sign;       /* '+', ' ' or 0 */
    char    group;      /* ',', '_' or 0 */
    bool    alternate;
    int64_t width, precision;  /* -1: none */
    char    type;       /* 0: none */
} Spec;

enum { MOST_DIGITS = 400 };

static String *space(JinjaRun *r) { return string_new(r, " ", NULL, 1); }
static String *zero(JinjaRun *r) { return string_new(r, "0", NULL, 1); }

/* ---- Numbers --------------------------------------------------------------------------------- */

static String *float_digits(JinjaRun *r, double x, const Spec *s)
{
    TextOut o = { 0 };
    int     precision = s->precision < 0 ? 6 : (int)s->precision;
    char    type = s->type == '%' ? 'f' : s->type;
    if (s->precision > MOST_DIGITS)
        jinja_fail(r, "a precision of more than %d", MOST_DIGITS);
    bool ok = type == 'f'   ? text_out(&o, s->alternate ? "%#.*f" : "%.*f", precision, x)
              : type == 'F' ? text_out(&o, s->alternate ? "%#.*F" : "%.*F", precision, x)
              : type == 'e' ? text_out(&o, s->alternate ? "%#.*e" : "%.*e", precision, x)
              : type == 'E' ? text_out(&o, s->alternate ? "%#.*E" : "%.*E", precision, x)
              : type == 'g' ? text_out(&o, s->alternate ? "%#.*g" : "%.*g", precision, x)
                            : text_out(&o, s->alternate ? "%#.*G" : "%.*G", precision, x);
    StringBuffer *b = buffer_new(r);
    if (!ok) {
        text_out_free(&o);
        no_memory(r->what, r->err);
        longjmp(r->failed, 1);
    }
    char   text[2 * MOST_DIGITS]; /* the largest double has 309 digits before the point */
    size_t n = o.n < sizeof text ? o.n : sizeof text;
    memcpy(text, o.text, n);
    text_out_free(&o);
    buffer_add(r, b, text, NULL, n);
    if (s->type == '%')
        buffer_text(r, b, "%");
    return buffer_take(r, b);
}

static String *int_digits(JinjaRun *r, uint64_t u, const Spec *s)
{
    char     text[80];
    unsigned base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : s->type == 'b' ? 2
                                                                                               : 10;
    size_t at = sizeof text;
    do
        text[--at] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
    while (u /= base);
    StringBuffer *b = buffer_new(r);
    buffer_add(r, b, text + at, NULL, sizeof text - at);
    String *digits = buffer_take(r, b);
    return s->precision > 0 ? pad(r, digits, (size_t)s->precision, zero(r), '>') : digits;
}

/* Inserts a comma or the like between thousands (fours of hexadecimal digits). */
static String *grouped(JinjaRun *r, String *s, const Spec *spec)
{
    size_t n = 0, by = spec->type == 'x' || spec->type == 'X' || spec->type == 'b'
                    || spec->type == 'o' ? 4 : 3;
    while (n < s->n && hex_digit(s->s[n]) >= 0 && (by == 4 || s->s[n] <= '9'))
        n++;
    StringBuffer *b = buffer_new(r);
    for (size_t i = 0; i < s->n; i++) {
        if (i && i < n && (n - i) % by == 0)
            buffer_add(r, b, &spec->group, NULL, 1);
        buffer_add(r, b, s->s + i, NULL, 1);
    }
    return buffer_take(r, b);
}

static void put_number(JinjaRun *r, StringBuffer *b, String *digits, bool negative, const Spec *s)
{
    StringBuffer *head = buffer_new(r);
    buffer_text(r, head, negative ? "-" : s->sign == '+' ? "+" : s->sign ? " " : "");
    if (s->alternate && s->type && strchr("xXob", s->type)) {
        buffer_text(r, head, "0");
        buffer_add(r, head, &s->type, NULL, 1);
    }
    if (s->group)
        digits = grouped(r, digits, s);
    size_t width = s->width > 0 ? (size_t)s->width : 0;
    if (s->align == '=') {
        if (s->group && width > digits->n)
            jinja_fail(r, "a format with zeros and thousands is not supported");
        digits = pad(r, digits, width > head->n ? width - head->n : 0, s->fill, '>');
    }
    String *all = string_join2(r, buffer_take(r, head), digits);
    buffer_string(r, b, pad(r, all, width, s->fill, s->align && s->align != '=' ? s->align : '>'));
}

static void put_int(JinjaRun *r, StringBuffer *b, int64_t i, const Spec *s)
{
    put_number(r, b, int_digits(r, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, s), i < 0, s);
}

static void put_float(JinjaRun *r, StringBuffer *b, double x, const Spec *s)
{
    bool   negative = signbit(x) && !isnan(x);
    double y = s->type == '%' ? fabs(x) * 100 : fabs(x);
    if (!isfinite(x) && s->align == '=')
        jinja_fail(r, "an infinite number with zeros is not supported");
    put_number(r, b, float_digits(r, y, s), negative, s);
}

static void put_text(JinjaRun *r, StringBuffer *b, String *text, const Spec *s)
{
    if (s->precision >= 0)
        text = string_part(r, text, 0, string_byte(r, text, (size_t)s->precision));
    buffer_string(r, b, pad(r, text, s->width > 0 ? (size_t)s->width : 0, s->fill,
                            s->align ? s->align : '<'));
}

/* ---- "..." % values -------------------------------------------------------------------------- */

typedef struct Percent {
    JinjaRun     *r;
    const String *s;
    size_t        at, used; /* used: values so far */
    Value         args;
} Percent;

static Value next_value(Percent *p)
{
    bool tuple = p->args.kind == V_TUPLE;
    if (p->used >= (tuple ? p->args.list->n : 1))
        jinja_fail(p->r, "not enough arguments for a format string");
    return tuple ? p->args.list->item[p->used++] : (p->used++, p->args);
}

static char here(const Percent *p) { return p->at < p->s->n ? p->s->s[p->at] : 0; }

/* The number n with one more digit, of a width or a precision. */
static int64_t more_digits(JinjaRun *r, int64_t n, char digit)
{
    if (n > JINJA_MEMORY)
        jinja_fail(r, "needs more than %d MB of memory", JINJA_MEMORY >> 20);
    return 10 * n + (digit - '0');
}

static int64_t percent_count(Percent *p, Spec *s, bool width)
{
    int64_t n = 0;
    if (here(p) == '*') {
        p->at++;
        n = need_int(p->r, "a width", next_value(p));
        if (n < 0 && width)
            s->align = '<', n = n < -JINJA_MEMORY ? JINJA_MEMORY : -n;
    }
    for (; here(p) >= '0' && here(p) <= '9'; p->at++)
        n = more_digits(p->r, n, here(p));
    return n < 0 ? 0 : n;
}

static Value percent_key(Percent *p)
{
    size_t begin = ++p->at;
    int    open = 1;
    for (; p->at < p->s->n; p->at++) {
        open += here(p) == '(';
        open -= here(p) == ')';
        if (!open)
            break;
    }
    if (p->args.kind != V_DICT)
        jinja_fail(p->r, "a format with names needs a dict, found %s", type_name(p->args));
    Value *v = dict_find(p->r, p->args.dict, v_string(string_part(p->r, p->s, begin, p->at)));
    if (!v)
        jinja_fail(p->r, "a name of a format string is not in the dict");
    p->at++;
    return *v;
}

static void percent_char(JinjaRun *r, StringBuffer *b, Value v, Spec *s)
{
    int64_t i = 0;
    String *text = v.kind == V_STRING ? v.s : NULL;
    if (to_index(v, &i) && i >= 0 && i <= 0x10FFFF && !(i >= 0xD800 && i < 0xE000)) {
        StringBuffer *one = buffer_new(r);
        buffer_char(r, one, (uint32_t)i, false);
        text = buffer_take(r, one);
    }
    if (!text || string_chars(r, text) != 1)
        jinja_fail(r, "the format %%c needs a character");
    s->align = s->align == '<' ? '<' : '>';
    s->precision = -1;
    s->fill = space(r);
    put_text(r, b, text, s);
}

static void percent_put(Percent *p, StringBuffer *b, Value v, Spec *s)
{
    JinjaRun *r = p->r;
    int64_t   i = 0;
    if (s->type == 's' || s->type == 'r') {
        StringBuffer *text = buffer_new(r);
        if (s->type == 'r')
            repr(r, text, v);
        s->align = s->align == '<' ? '<' : '>';
        s->fill = space(r);
        put_text(r, b, s->type == 'r' ? buffer_take(r, text) : to_string(r, v), s);
        return;
    }
    if (s->type == 'c') {
        percent_char(r, b, v, s);
        return;
    }
    bool whole = s->type && strchr("diuxXo", s->type);
    if (!whole && !(s->type && strchr("eEfFgG", s->type)))
        jinja_fail(r, "the format character '%c' is not supported", s->type ? s->type : '?');
    if (!is_number(v))
        jinja_fail(r, "the format %%%c needs a number, found %s", s->type, type_name(v));
    if (!whole) {
        put_float(r, b, as_double(v), s);
        return;
    }
    if (v.kind == V_FLOAT && (strchr("xXo", s->type) || !(fabs(v.f) < 0x1p63)))
        jinja_fail(r, "the format %%%c needs an integer", s->type);
    if (v.kind == V_FLOAT)
        i = (int64_t)v.f;
    else
        to_index(v, &i);
    put_int(r, b, i, s);
}

static void percent_one(Percent *p, StringBuffer *b)
{
    Spec  s = { .fill = space(p->r), .width = -1, .precision = -1 };
    Value v = { 0 };
    bool  zeros = false;
    if (here(p) == '(')
        v = percent_key(p);
    for (; here(p) && strchr("-+ #0", here(p)); p->at++) {
        char c = here(p);
        s.align = c == '-' ? '<' : s.align;
        s.sign = c == '+' || (c == ' ' && s.sign != '+') ? c : s.sign;
        s.alternate |= c == '#';
        zeros |= c == '0';
    }
    s.width = percent_count(p, &s, true);
    if (here(p) == '.') {
        p->at++;
        s.precision = percent_count(p, &s, false);
    }
    while (here(p) && strchr("hlL", here(p)))
        p->at++;
    s.type = here(p);
    if (s.type == '%') {
        buffer_add(p->r, b, p->s->s + p->at, p->s->mark ? p->s->mark + p->at : NULL, 1);
        p->at++;
        return;
    }
    if (!s.type)
        jinja_fail(p->r, "incomplete format");
    p->at++;
    if (zeros && s.align != '<')
        s.align = '=', s.fill = zero(p->r);
    percent_put(p, b, v.kind == V_MISSING ? next_value(p) : v, &s);
}

Value format_percent(JinjaRun *r, const String *s, Value args)
{
    Percent       p = { .r = r, .s = s, .args = args };
    StringBuffer *b = buffer_new(r);
    while (p.at < s->n) {
        size_t      from = p.at;
        const char *next = memchr(s->s + from, '%', s->n - from);
        p.at = next ? (size_t)(next - s->s) : s->n;
        buffer_add(r, b, s->s + from, s->mark ? s->mark + from : NULL, p.at - from);
        if (next) {
            p.at++;
            percent_one(&p, b);
        }
        jinja_work(r, 1);
    }
    bool mapping = args.kind == V_DICT || args.kind == V_LIST || args.kind == V_RANGE
                || args.kind == V_UNDEFINED;
    if (args.kind == V_TUPLE ? p.used < args.list->n : !mapping && !p.used)
        jinja_fail(r, "not all arguments converted during string formatting");
    return v_string(buffer_take(r, b));
}

/* ---- "...".format(values) -------------------------------------------------------------------- */

static bool all_digits(const String *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->s[i] < '0' || s->s[i] > '9')
            return false;
    return s->n > 0 && s->n < 10;
}

static int64_t small_int(const String *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n = 10 * n + (s->s[i] - '0');
    return n;
}

/* The value that a field such as "0.name[key]" names. *automatic counts fields without a name. */
static Value field_value(JinjaRun *r, String *field, const Args *args, size_t *automatic)
{
    size_t at = 0, end;
    while (at < field->n && field->s[at] != '.' && field->s[at] != '[')
        at++;
    String *first = string_part(r, field, 0, at);
    Value   v;
    if (!first->n || all_digits(first)) {
        size_t i = first->n ? (size_t)small_int(first) : (*automatic)++;
        if (i >= args->n)
            jinja_fail(r, "format: there is no argument %zu", i);
        v = args->v[i];
    } else {
        Value *found = args->named ? dict_name(args->named, first->s, first->n) : NULL;
        if (!found)
            jinja_fail(r, "format: there is no argument '%.*s'",
                       (int)(first->n < 80 ? first->n : 80), first->s);
        v = *found;
    }
    while (at < field->n) {
        bool attribute = field->s[at++] == '.';
        for (end = at; end < field->n && (attribute ? field->s[end] != '.' && field->s[end] != '['
                                                    : field->s[end] != ']'); end++)
            ;
        String *name = string_part(r, field, at, end);
        v = attribute          ? get_attribute(r, v, name)
            : all_digits(name) ? get_item(r, v, v_int(small_int(name)))
                               : get_item(r, v, v_string(name));
        at = end + !attribute;
    }
    return v;
}

static bool is_align(char c) { return c && strchr("<>^=", c); }

static Spec read_spec(JinjaRun *r, String *t)
{
    Spec     s = { .fill = space(r), .width = -1, .precision = -1 };
    uint32_t c = 0;
    size_t   i = 0, n = t->n ? character_at(t->s, t->n, &c) : 0;
    if (n && n < t->n && is_align(t->s[n])) {
        s.fill = string_part(r, t, 0, n);
        s.align = t->s[n];
        i = n + 1;
    } else if (n && is_align(t->s[0])) {
        s.align = t->s[i++];
    }
    if (i < t->n && strchr("+- ", t->s[i]))
        s.sign = t->s[i++];
    s.sign = s.sign == '-' ? 0 : s.sign;
    if (i < t->n && t->s[i] == '#')
        s.alternate = t->s[i++];
    if (i < t->n && t->s[i] == '0' && !s.align)
        s.align = '=', s.fill = zero(r);
    for (; i < t->n && t->s[i] >= '0' && t->s[i] <= '9'; i++)
        s.width = more_digits(r, s.width < 0 ? 0 : s.width, t->s[i]);
    if (i < t->n && (t->s[i] == ',' || t->s[i] == '_'))
        s.group = t->s[i++];
    if (i < t->n && t->s[i] == '.')
        for (s.precision = 0, i++; i < t->n && t->s[i] >= '0' && t->s[i] <= '9'; i++)
            s.precision = more_digits(r, s.precision, t->s[i]);
    if (i < t->n)
        s.type = t->s[i++];
    if (i < t->n)
        jinja_fail(r, "format: the specification '%.*s' is not supported",
                   (int)(t->n < 80 ? t->n : 80), t->s);
    return s;
}

static void put_value(JinjaRun *r, StringBuffer *b, Value v, String *t)
{
    int64_t i;
    if (!t->n) {
        buffer_string(r, b, to_string(r, v));
        return;
    }
    Spec s = read_spec(r, t);
    bool text = v.kind == V_STRING && (!s.type || s.type == 's') && s.align != '=' && !s.sign
             && !s.group && !s.alternate;
    bool real = s.type && strchr("eEfFgG%", s.type);
    bool whole = !s.type || strchr("dbxXo", s.type);
    if (text)
        put_text(r, b, v.s, &s);
    else if (is_number(v) && real)
        put_float(r, b, as_double(v), &s);
    else if (v.kind != V_BOOL && to_index(v, &i) && whole && s.precision < 0)
        put_int(r, b, i, &s);
    else if (v.kind == V_FLOAT && !s.type && s.precision < 0)
        put_number(r, b, float_text(r, fabs(v.f)), signbit(v.f) && !isnan(v.f), &s);
    else
        jinja_fail(r, "format: the specification '%.*s' for a %s is not supported",
                   (int)(t->n < 80 ? t->n : 80), t->s, type_name(v));
}

/* One field, between its braces: name, !conversion, :specification. */
static void put_field(JinjaRun *r, StringBuffer *b, String *field, const Args *args,
                      size_t *automatic)
{
    size_t end = 0;
    bool   inside = false; /* brackets, in which ':' and '!' are part of a key */
    for (; end < field->n; end++) {
        inside = field->s[end] == '[' || (inside && field->s[end] != ']');
        if (!inside && (field->s[end] == '!' || field->s[end] == ':'))
            break;
    }
    Value v = field_value(r, string_part(r, field, 0, end), args, automatic);
    if (end < field->n && field->s[end] == '!') {
        char how = end + 1 < field->n ? field->s[end + 1] : 0;
        StringBuffer *text = buffer_new(r);
        if (how == 'r')
            repr(r, text, v);
        else if (how == 's')
            buffer_string(r, text, to_string(r, v));
        else
            jinja_fail(r, "format: expected the conversion !r or !s");
        v = v_string(buffer_take(r, text));
        end += 2;
        if (end < field->n && field->s[end] != ':')
            jinja_fail(r, "format: expected ':' after a conversion");
    }
    put_value(r, b, v, string_part(r, field, end < field->n ? end + 1 : field->n, field->n));
}

Value format_braces(JinjaRun *r, const String *s, const Args *args)
{
    StringBuffer *b = buffer_new(r);
    size_t        automatic = 0;
    for (size_t i = 0; i < s->n; i++) {
        char c = s->s[i];
        bool twice = i + 1 < s->n && s->s[i + 1] == c;
        jinja_work(r, 1);
        if ((c != '{' && c != '}') || twice) {
            buffer_add(r, b, s->s + i, s->mark ? s->mark + i : NULL, 1);
            i += (c == '{' || c == '}') && twice;
            continue;
        }
        size_t end = i + 1;
        while (c == '{' && end < s->n && s->s[end] != '}' && s->s[end] != '{')
            end++;
        if (c == '}' || end == s->n)
            jinja_fail(r, "format: a single '%c'", c);
        if (s->s[end] == '{')
            jinja_fail(r, "format: a field within a field is not supported");
        put_field(r, b, string_part(r, s, i + 1, end), args, &automatic);
        i = end;
    }
    return v_string(buffer_take(r, b));
}

/* ---- strftime -------------------------------------------------------------------------------- */

/* The day of the week, 0 for Sunday, and of the year, from 1 (Sakamoto's rule). */
static int weekday(int y, int m, int d)
{
    static const int shift[] = { 0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4 };
    y -= m < 3;
    return (y + y / 4 - y / 100 + y / 400 + shift[m - 1] + d) % 7;
}

static int year_day(int y, int m, int d)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return before[m - 1] + d + (leap && m > 2);
}

static bool date_part(char code, int y, int m, int d, char out[16])
{
    static const char *const months[] = { "January", "February", "March", "April", "May", "June",
                                          "July", "August", "September", "October", "November",
                                          "December" };
    static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday",
                                        "Friday", "Saturday" };
    int day = weekday(y, m, d);
    switch (code) {
    case 'Y': snprintf(out, 16, "%d", y); break;
    case 'y': snprintf(out, 16, "%02d", y % 100); break;
    case 'm': snprintf(out, 16, "%02d", m); break;
    case 'd': snprintf(out, 16, "%02d", d); break;
    case 'e': snprintf(out, 16, "%2d", d); break;
    case 'j': snprintf(out, 16, "%03d", year_day(y, m, d)); break;
    case 'B': snprintf(out, 16, "%s", months[m - 1]); break;
    case 'b': case 'h': snprintf(out, 16, "%.3s", months[m - 1]); break;
    case 'A': snprintf(out, 16, "%s", days[day]); break;
    case 'a': snprintf(out, 16, "%.3s", days[day]); break;
    case 'w': snprintf(out, 16, "%d", day); break;
    case 'F': snprintf(out, 16, "%04d-%02d-%02d", y, m, d); break;
    case 'D': snprintf(out, 16, "%02d/%02d/%02d", m, d, y % 100); break;
    case 'H': case 'M': case 'S': snprintf(out, 16, "00"); break;
    case '%': snprintf(out, 16, "%%"); break;
    default: return false;
    }
    return true;
}

/* Formats midnight of the run's date. */
Value format_date(JinjaRun *r, const String *s)
{
    int y = 0, m = 0, d = 0;
    StringBuffer *b = buffer_new(r);
    if (sscanf(r->date, "%4d-%2d-%2d", &y, &m, &d) != 3 || y < 1000 || m < 1 || m > 12 || d < 1
        || d > 31)
        jinja_fail(r, "expected a date as YYYY-MM-DD, found '%.20s'", r->date);
    for (size_t i = 0; i < s->n; i++) {
        char text[16];
        bool short_form = i + 2 < s->n && s->s[i + 1] == '-'; /* glibc's "%-d": without zeros */
        if (s->s[i] != '%') {
            buffer_add(r, b, s->s + i, s->mark ? s->mark + i : NULL, 1);
            continue;
        }
        i += short_form ? 2 : 1;
        char code = i < s->n ? s->s[i] : 0;
        if (!date_part(code, y, m, d, text) || (short_form && !strchr("mdejy", code)))
            jinja_fail(r, "strftime_now: the code '%%%.1s' is not supported", &code);
        const char *p = text;
        while (short_form && (*p == '0' || *p == ' ') && p[1])
            p++;
        buffer_text(r, b, p);
    }
    return v_string(buffer_take(r, b));
}
