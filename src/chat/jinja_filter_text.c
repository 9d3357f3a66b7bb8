/* chat/jinja_filter_text.c: the filters of numbers and of texts. tojson is transformers' own. */
#include "chat/jinja_parts.h"

#include <math.h>
#include <stdio.h>
#include "tokenizer/unicode.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

static Value absolute(JinjaRun *r, Value v)
{
    int64_t i = 0;
    if (v.kind == V_FLOAT)
        return v_float(fabs(v.f));
    i = need_int(r, "abs", v);
    return i < 0 ? negate(r, v_int(i)) : v_int(i);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                                             : 99;
}

/* Parses a text as Python's int(text, base) does; false: it is not an int. */
static bool parse_int(JinjaRun *r, String *s, int64_t base, int64_t *out)
{
    const String *t = strip(r, s, v_none(), true, true);
    size_t        i = t->n && (t->s[0] == '-' || t->s[0] == '+');
    bool          negative = i && t->s[0] == '-', any = false, bar = false, bad = false;
    char          letter = t->n > i + 1 && t->s[i] == '0' ? (char)(t->s[i + 1] | 32) : 0;
    int64_t       meant = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0, y = 0;
    if (base != 0 && (base < 2 || base > 36))
        return false;
    bool prefix = meant && (base == meant || base == 0);
    if (base == 0 && !meant && t->n > i + 1 && t->s[i] == '0')
        jinja_fail(r, "int: base 0 with a leading zero is not supported");
    i += prefix ? 2 : 0;
    base = base ? base : meant ? meant : 10;
    for (bar = !prefix; i < t->n; i++) { /* underscores are between digits, or after 0x */
        if (t->s[i] == '_' ? bar : digit_of(t->s[i]) >= base)
            return false;
        bar = t->s[i] == '_';
        any |= !bar;
        bad |= !bar && (__builtin_mul_overflow(y, base, &y)
                        || __builtin_sub_overflow(y, digit_of(t->s[i]), &y));
    }
    if (any && !bar && (bad || (!negative && y == INT64_MIN)))
        jinja_fail(r, "an integer of more than 64 bits");
    *out = negative ? y : -y;
    return any && !bar;
}

/* Parses a text as Python's float(text) does. */
static bool parse_float(JinjaRun *r, String *s, double *out)
{
    const String *t = strip(r, s, v_none(), true, true);
    char          text[400];
    size_t        n = 0, digits = 0;
    bool          sign = t->n && (t->s[0] == '-' || t->s[0] == '+');
    const String *word = change_case(r, string_part(r, t, sign, t->n), CASE_LOWER);
    if (string_is(word, "inf") || string_is(word, "infinity") || string_is(word, "nan")) {
        *out = word->s[0] == 'n' ? NAN : t->s[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (t->n + 1 > sizeof text)
        return t->n > 1000 ? false : (jinja_fail(r, "float: a text of more than 399 bytes"), false);
    for (size_t i = 0, part = 0; i < t->n; i++) { /* part: 1 after the point, 2 in the exponent */
        char c = t->s[i], before = i ? t->s[i - 1] : 0, after = i + 1 < t->n ? t->s[i + 1] : 0;
        bool is_digit = c >= '0' && c <= '9', e = (c | 32) == 'e';
        if (c == '_' && digit_of(before) < 10 && digit_of(after) < 10)
            continue;
        bool signed_ = (c == '-' || c == '+') && (i == 0 || (part == 2 && (before | 32) == 'e'));
        if (!is_digit && !signed_ && !(c == '.' && part == 0) && !(e && part < 2 && digits))
            return false;
        part = c == '.' ? 1 : e ? 2 : part;
        digits = e ? 0 : digits + is_digit;
        text[n++] = c;
        if (e && !after)
            return false;
    }
    text[n] = 0;
    if (digits)
        *out = json_to_double(text);
    return digits > 0;
}

static Value to_int(JinjaRun *r, Value v, const Value *a)
{
    int64_t i;
    double  f = 0;
    if (v.kind == V_STRING && parse_int(r, v.s, need_int(r, "int", a[1]), &i))
        return v_int(i);
    if (to_index(v, &i) || is_undefined(v))
        return v_int(need_int(r, "int", v));
    if (v.kind == V_STRING && (!parse_float(r, v.s, &f) || !isfinite(f)))
        return a[0];
    if (v.kind != V_FLOAT && v.kind != V_STRING)
        return a[0];
    f = v.kind == V_FLOAT ? v.f : f;
    if (isnan(f))
        return a[0];
    if (!(fabs(f) < 0x1p63))
        jinja_fail(r, "int: a number of more than 64 bits is not supported");
    return v_int((int64_t)f);
}

static Value to_float(JinjaRun *r, Value v, const Value *a)
{
    double f;
    if (is_undefined(v))
        need_int(r, "float", v);
    if (is_number(v))
        return v_float(as_double(v));
    return v.kind == V_STRING && parse_float(r, v.s, &f) ? v_float(f) : a[0];
}

static Value round_(JinjaRun *r, Value v, const Value *a)
{
    char  text[400];
    int64_t       places = need_int(r, "round", a[0]);
    const String *how = need_string(r, "round", a[1]);
    if (!is_number(v))
        need_int(r, "round", v);
    if (places < 0 || places > 22)
        jinja_fail(r, "round: a precision of %lld is not supported", (long long)places);
    if (!string_is(how, "common") && !string_is(how, "ceil") && !string_is(how, "floor"))
        jinja_fail(r, "round: the method must be common, ceil or floor");
    if (string_is(how, "common") && v.kind != V_FLOAT)
        return v_int(need_int(r, "round", v));
    double x = as_double(v), scale = pow(10, (double)places);
    if (!isfinite(x))
        jinja_fail(r, "round: the number is not finite");
    if (!string_is(how, "common")) {
        double whole = string_is(how, "ceil") ? ceil(x * scale) : floor(x * scale);
        return v_float(whole / scale + 0.0); /* Python's is an int, which has no -0 */
    }
    List *one = list_new(r, 1);
    one->item[0] = v;
    snprintf(text, sizeof text, "%%.%df", (int)places);
    Value  rounded = format_percent(r, v_text(r, text).s, v_tuple(one));
    double y = 0;
    parse_float(r, rounded.s, &y);
    return v_float(y);
}

static Value filesizeformat(JinjaRun *r, Value v, const Value *a)
{
    static const char letters[] = "kMGTPEZY";
    bool   binary_ = truth(r, a[0]);
    double base = binary_ ? 1024 : 1000, unit = base, x = 0;
    if (v.kind == V_STRING ? !parse_float(r, v.s, &x) : !is_number(v))
        jinja_fail(r, "filesizeformat: expected a number, found %s", type_name(v));
    x = v.kind == V_STRING ? x : as_double(v);
    TextOut o = { 0 };
    char    text[400];
    if (x == 1) {
        text_out(&o, "1 Byte");
    } else if (x < base) {
        text_out(&o, "%.0f Bytes", trunc(x));
    } else {
        int i = 0;
        for (unit = base * base; i < 7 && !(x < unit); i++)
            unit *= base;
        char letter = letters[i];
        text_out(&o, "%.1f %c%s", base * x / unit, binary_ && letter == 'k' ? 'K' : letter,
                 binary_ ? "iB" : "B");
    }
    bool ok = !o.failed;
    snprintf(text, sizeof text, "%.*s", ok ? (int)o.n : 0, ok ? o.text : "");
    text_out_free(&o);
    if (!ok) {
        no_memory(r->what, r->err);
        longjmp(r->failed, 1);
    }
    StringBuffer *b = buffer_new(r);
    buffer_text(r, b, text);
    return v_string(buffer_take(r, b));
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static Value changed(JinjaRun *r, Value v, CaseChange how)
{
    return v_string(change_case(r, to_string(r, v), how));
}

static Value upper(JinjaRun *r, Value v) { return changed(r, v, CASE_UPPER); }
static Value lower(JinjaRun *r, Value v) { return changed(r, v, CASE_LOWER); }
static Value capitalize(JinjaRun *r, Value v) { return changed(r, v, CASE_CAPITAL); }

/* Words begin after blanks, '-' and opening brackets, unlike in str.title(). */
static Value title(JinjaRun *r, Value v)
{
    String *s = to_string(r, v), *out = v_text(r, "").s;
    for (size_t i = 0, n; i < s->n;) {
        uint32_t c = 0;
        size_t   begin = i;
        bool     gap = false;
        for (; i < s->n && !gap; i += gap ? 0 : n) { /* a word */
            n = character_at(s->s + i, s->n - i, &c);
            gap = is_space(c) || (c < 0x80 && strchr("-({[<", (int)c) && c);
        }
        if (i > begin) {
            n = character_at(s->s + begin, i - begin, &c);
            out = string_join2(r, out, change_case(r, string_part(r, s, begin, begin + n),
                                                   CASE_UPPER));
            out = string_join2(r, out, change_case(r, string_part(r, s, begin + n, i),
                                                   CASE_LOWER));
        } else {
            n = character_at(s->s + i, s->n - i, &c);
            out = string_join2(r, out, string_part(r, s, i, i + n));
            i += n;
        }
        jinja_work(r, 1);
    }
    return v_string(out);
}

static Value trim(JinjaRun *r, Value v, const Value *a)
{
    return v_string(strip(r, to_string(r, v), a[0], true, true));
}

static Value center(JinjaRun *r, Value v, const Value *a)
{
    int64_t width = need_int(r, "center", a[0]);
    return v_string(pad(r, to_string(r, v), width > 0 ? (size_t)width : 0, v_text(r, " ").s, '^'));
}

static Value replace_filter(JinjaRun *r, Value v, const Value *a)
{
    int64_t count = a[2].kind == V_NONE ? -1 : need_int(r, "replace", a[2]);
    return v_string(replace(r, to_string(r, v), to_string(r, a[0]), to_string(r, a[1]), count));
}

static Value indent(JinjaRun *r, Value v, const Value *a)
{
    String       *s = string_join2(r, need_string(r, "indent", v), v_text(r, "\n").s), *by;
    StringBuffer *b = buffer_new(r);
    if (a[0].kind == V_STRING) {
        by = a[0].s;
    } else {
        int64_t n = need_int(r, "indent", a[0]);
        buffer_fill(r, b, v_text(r, " ").s, n > 0 ? (size_t)n : 0);
        by = buffer_take(r, b);
        b = buffer_new(r);
    }
    const List *l = split_lines(r, s, false);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            buffer_text(r, b, "\n");
        if (i ? l->item[i].s->n || truth(r, a[2]) : truth(r, a[1]))
            buffer_string(r, b, by);
        buffer_string(r, b, l->item[i].s);
    }
    return v_string(buffer_take(r, b));
}

static Value truncate_(JinjaRun *r, Value v, const Value *a)
{
    String *end = need_string(r, "truncate", a[2]);
    int64_t n = need_int(r, "truncate", a[0]), tail = (int64_t)string_chars(r, end);
    int64_t leeway = a[3].kind == V_NONE ? 5 : need_int(r, "truncate", a[3]), most;
    if (n < tail || leeway < 0 || __builtin_add_overflow(n, leeway, &most))
        jinja_fail(r, "truncate: expected a length of at least %lld and a leeway of at least 0",
                   (long long)tail);
    if (length_of(r, v) != SIZE_MAX && (int64_t)length_of(r, v) <= most)
        return v;
    String *s = need_string(r, "truncate", v);
    s = string_part(r, s, 0, string_byte(r, s, (size_t)(n - tail)));
    const char *space = truth(r, a[1]) ? NULL : memrchr(s->s, ' ', s->n);
    if (space)
        s = string_part(r, s, 0, (size_t)(space - s->s));
    return v_string(string_join2(r, s, end));
}

static Value wordcount(JinjaRun *r, Value v)
{
    int64_t n_words = 0;
    bool    within = false;
    const String *s = to_string(r, v);
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0;
        n = character_at(s->s + i, s->n - i, &c);
        Category g = category_of(c);
        bool     word = (g >= LU && g <= LO) || g == ND || g == NL || g == NO_ || c == '_';
        n_words += word && !within;
        within = word;
        jinja_work(r, 1);
    }
    return v_int(n_words);
}

static Value format(JinjaRun *r, Value v, const Args *args)
{
    List *l = list_new(r, args->n);
    if (args->n && args->named->n)
        jinja_fail(r, "format: expected arguments without or with names, found both");
    if (args->n)
        memcpy(l->item, args->v, args->n * sizeof *args->v);
    Value all = args->named->n ? (Value){ .kind = V_DICT, .dict = args->named } : v_tuple(l);
    return format_percent(r, to_string(r, v), all);
}

static void quote(JinjaRun *r, StringBuffer *b, const String *s, bool query)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->s[i];
        char          text[8];
        bool          mark = s->mark && s->mark[i];
        bool plain = digit_of((char)c) < 36 || (c && strchr("_.-~", c)) || (c == '/' && !query);
        snprintf(text, sizeof text, plain ? "%c" : query && c == ' ' ? "+" : "%%%02X", c);
        for (const char *p = text; *p; p++)
            buffer_char(r, b, (unsigned char)*p, mark);
    }
}

static Value urlencode(JinjaRun *r, Value v)
{
    StringBuffer *b = buffer_new(r);
    if (v.kind == V_STRING || (v.kind != V_ITER && length_of(r, v) == SIZE_MAX)) {
        quote(r, b, to_string(r, v), false);
        return v_string(buffer_take(r, b));
    }
    const List *l = to_list(r, v.kind == V_DICT ? v_view(r, 'i', v.dict) : v);
    for (size_t i = 0; i < l->n; i++) {
        const List *pair = to_list(r, l->item[i]);
        if (pair->n != 2)
            jinja_fail(r, "urlencode: expected pairs, found %zu items", pair->n);
        buffer_text(r, b, i ? "&" : "");
        quote(r, b, to_string(r, pair->item[0]), true);
        buffer_text(r, b, "=");
        quote(r, b, to_string(r, pair->item[1]), true);
    }
    return v_string(buffer_take(r, b));
}

static Value string(JinjaRun *r, Value v) { return v_string(to_string(r, v)); }

static Value safe(JinjaRun *r, Value v)
{
    const String *s = to_string(r, v);
    String       *t = string_new(r, s->s, s->mark, s->n);
    t->safe = true;
    return v_string(t);
}

const Filter text_filters[] = {
    { "abs", "", .plain = absolute },
    { "capitalize", "", .plain = capitalize },
    { "center", "width=80", .with = center },
    { "filesizeformat", "binary=False", .with = filesizeformat },
    { "float", "default=0.0", true, .with = to_float },
    { "format", .raw = format },
    { "indent", "width=4 first=False blank=False", .with = indent },
    { "int", "default=0 base=10", true, .with = to_int },
    { "lower", "", .plain = lower },
    { "replace", "old new count=None", true, .with = replace_filter },
    { "round", "precision=0 method='common'", .with = round_ },
    { "safe", "", true, .plain = safe },
    { "string", "", true, .plain = string },
    { "title", "", .plain = title },
    { "tojson", "ensure_ascii=False indent=None separators=None sort_keys=False", true,
      .with = filter_tojson },
    { "trim", "chars=None", .with = trim },
    { "truncate", "length=255 killwords=False end='...' leeway=None", .with = truncate_ },
    { "upper", "", .plain = upper },
    { "urlencode", "", .plain = urlencode },
    { "wordcount", "", true, .plain = wordcount },
    { 0 },
};
