/* chat/jinja_filter.c: the filters of jinja2/filters.py, except those that make HTML, wrap lines or
 * draw at random, which are rejected by name. tojson is transformers' own. */
#include "chat/jinja_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "tokenizer/unicode.h"

typedef Value Filter(JinjaRun *r, Value v, const Args *args);

static Value text_or(JinjaRun *r, Value v) { return v_string(to_string(r, v)); }

/* ---- Attributes ------------------------------------------------------------------------------ */

/* The value of a filter's argument `attribute`: names and numbers between dots. */
static Value attribute_of(JinjaRun *r, Value v, Value path, Value otherwise)
{
    if (path.kind == V_NONE)
        return v;
    if (path.kind != V_STRING)
        return get_item(r, v, path);
    String *s = path.s;
    for (size_t at = 0, end; at <= s->n; at = end + 1) {
        const char *dot = at < s->n ? memchr(s->s + at, '.', s->n - at) : NULL;
        end = dot ? (size_t)(dot - s->s) : s->n;
        String *part = string_part(r, s, at, end);
        int64_t i = 0;
        bool    digits = part->n > 0 && part->n < 10;
        for (size_t k = 0; digits && k < part->n; k++) {
            digits = part->s[k] >= '0' && part->s[k] <= '9';
            i = 10 * i + (part->s[k] - '0');
        }
        v = get_item(r, v, digits ? v_int(i) : v_string(part));
        if (is_undefined(v) && otherwise.kind != V_NONE)
            v = otherwise;
    }
    return v;
}

static Value ignore_case(JinjaRun *r, Value v, bool sensitive)
{
    return v.kind == V_STRING && !sensitive ? v_string(change_case(r, v.s, CASE_LOWER)) : v;
}

/* Several paths between commas make a list of values to sort by. */
static Value sort_key(JinjaRun *r, Value v, Value paths, bool sensitive)
{
    List *keys = list_new(r, 0);
    if (paths.kind != V_STRING) {
        list_add(r, keys, ignore_case(r, attribute_of(r, v, paths, v_none()), sensitive));
        return v_list(keys);
    }
    for (size_t at = 0, end; at <= paths.s->n; at = end + 1) {
        const char *comma = at < paths.s->n ? memchr(paths.s->s + at, ',', paths.s->n - at) : NULL;
        end = comma ? (size_t)(comma - paths.s->s) : paths.s->n;
        Value one = v_string(string_part(r, paths.s, at, end));
        list_add(r, keys, ignore_case(r, attribute_of(r, v, one, v_none()), sensitive));
    }
    return v_list(keys);
}

/* ---- Sorting --------------------------------------------------------------------------------- */

typedef struct Sorted { Value key, value; } Sorted;

static bool comes_first(JinjaRun *r, Value a, Value b, bool reverse)
{
    return reverse ? compare(r, b, a) == -1 : compare(r, a, b) == -1;
}

/* Merges halves: stable, as Python's sorted() is. */
static void merge_sort(JinjaRun *r, Sorted *s, Sorted *room, size_t n, bool reverse)
{
    size_t half = n / 2, i = 0, k = half, out = 0;
    if (n < 2)
        return;
    merge_sort(r, s, room, half, reverse);
    merge_sort(r, s + half, room, n - half, reverse);
    while (i < half && k < n)
        room[out++] = comes_first(r, s[k].key, s[i].key, reverse) ? s[k++] : s[i++];
    while (i < half)
        room[out++] = s[i++];
    memcpy(s, room, out * sizeof *s);
}

static List *sorted(JinjaRun *r, Sorted *s, size_t n, bool reverse)
{
    List *l = list_new(r, n);
    merge_sort(r, s, jinja_array(r, n + 1, sizeof *s), n, reverse);
    for (size_t i = 0; i < n; i++)
        l->item[i] = s[i].value;
    return l;
}

static Value sort(JinjaRun *r, Value v, const Args *args)
{
    Value a[3] = { v_bool(false), v_bool(false), v_none() };
    take_args(r, "sort", args, "reverse case_sensitive attribute", a);
    const List *l = to_list(r, v);
    Sorted     *s = jinja_array(r, l->n + 1, sizeof *s);
    for (size_t i = 0; i < l->n; i++)
        s[i] = (Sorted){ sort_key(r, l->item[i], a[2], truth(r, a[1])), l->item[i] };
    return v_list(sorted(r, s, l->n, truth(r, a[0])));
}

static Value dictsort(JinjaRun *r, Value v, const Args *args)
{
    Value a[3] = { v_bool(false), v_text(r, "key"), v_bool(false) };
    take_args(r, "dictsort", args, "case_sensitive by reverse", a);
    const String *by = need_string(r, "dictsort", a[1]);
    if (v.kind != V_DICT || !(string_is(by, "key") || string_is(by, "value")))
        jinja_fail(r, "dictsort: expected a dict, by key or value; found %s", type_name(v));
    Sorted *s = jinja_array(r, v.dict->n + 1, sizeof *s);
    for (size_t i = 0; i < v.dict->n; i++) {
        List *pair = list_new(r, 2);
        pair->item[0] = v.dict->key[i], pair->item[1] = v.dict->value[i];
        s[i].key = ignore_case(r, pair->item[string_is(by, "value")], truth(r, a[0]));
        s[i].value = v_tuple(pair);
    }
    return v_list(sorted(r, s, v.dict->n, truth(r, a[2])));
}

static Value groupby(JinjaRun *r, Value v, const Args *args)
{
    Value a[3] = { { 0 }, v_none(), v_bool(false) };
    take_args(r, "groupby", args, "attribute default case_sensitive", a);
    bool        sensitive = truth(r, a[2]);
    const List *l = to_list(r, v);
    Sorted     *s = jinja_array(r, l->n + 1, sizeof *s);
    List       *groups = list_new(r, 0), *group = NULL;
    for (size_t i = 0; i < l->n; i++)
        s[i] = (Sorted){ ignore_case(r, attribute_of(r, l->item[i], a[0], a[1]), sensitive),
                         l->item[i] };
    sorted(r, s, l->n, false);
    for (size_t i = 0; i < l->n; i++) {
        if (!i || !equal(r, s[i - 1].key, s[i].key)) {
            group = list_new(r, 2);
            group->group = true;
            group->item[0] = attribute_of(r, s[i].value, a[0], a[1]);
            group->item[1] = v_list(list_new(r, 0));
            list_add(r, groups, v_tuple(group));
        }
        list_add(r, group->item[1].list, s[i].value);
    }
    return v_list(groups);
}

static Value least(JinjaRun *r, Value v, const Args *args, bool most)
{
    Value a[2] = { v_bool(false), v_none() }, best = { 0 }, best_key = { 0 };
    take_args(r, most ? "max" : "min", args, "case_sensitive attribute", a);
    const List *l = to_list(r, v);
    for (size_t i = 0; i < l->n; i++) {
        Value key = attribute_of(r, l->item[i], a[1], v_none());
        key = ignore_case(r, key, truth(r, a[0]));
        if (i == 0 || comes_first(r, key, best_key, most))
            best = l->item[i], best_key = key;
    }
    return l->n ? best : v_undefined(r, "has no value: the sequence is empty", most ? "max" : "min",
                                     3);
}

static Value min(JinjaRun *r, Value v, const Args *args) { return least(r, v, args, false); }
static Value max(JinjaRun *r, Value v, const Args *args) { return least(r, v, args, true); }

static Value unique(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { v_bool(false), v_none() };
    take_args(r, "unique", args, "case_sensitive attribute", a);
    const List *l = to_list(r, v);
    List       *kept = list_new(r, 0);
    Dict       *seen = dict_new(r);
    for (size_t i = 0; i < l->n; i++) {
        Value key = attribute_of(r, l->item[i], a[1], v_none());
        size_t n = seen->n;
        dict_put(r, seen, ignore_case(r, key, truth(r, a[0])), v_none());
        if (seen->n > n)
            list_add(r, kept, l->item[i]);
    }
    return v_iter(r, kept);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static Value list(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "list", args, "", NULL);
    return v_list(to_list(r, v));
}

static Value items(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "items", args, "", NULL);
    if (is_undefined(v))
        return v_iter(r, list_new(r, 0));
    if (v.kind != V_DICT)
        jinja_fail(r, "items: expected a dict, found %s", type_name(v));
    View *view = jinja_alloc(r, sizeof *view);
    *view = (View){ .kind = 'i', .dict = v.dict };
    return v_iter(r, to_list(r, (Value){ .kind = V_VIEW, .view = view }));
}

static Value length(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "length", args, "", NULL);
    size_t n = length_of(r, v);
    if (n == SIZE_MAX)
        jinja_fail(r, "a %s has no length", type_name(v));
    return v_int((int64_t)n);
}

static Value first(JinjaRun *r, Value v, const Args *args)
{
    Value out;
    take_args(r, "first", args, "", NULL);
    return iter_next(r, iter_begin(r, v), &out)
               ? out : v_undefined(r, "has no value: the sequence is empty", "first", 5);
}

static Value last(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "last", args, "", NULL);
    if (v.kind == V_ITER)
        jinja_fail(r, "last: a generator cannot be reversed");
    const List *l = to_list(r, v);
    return l->n ? l->item[l->n - 1]
                : v_undefined(r, "has no value: the sequence is empty", "last", 4);
}

static Value reverse(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "reverse", args, "", NULL);
    const List *l = to_list(r, v);
    List       *back = list_new(r, l->n);
    jinja_work(r, l->n);
    for (size_t i = 0; i < l->n; i++)
        back->item[i] = l->item[l->n - 1 - i];
    if (v.kind == V_STRING)
        return v_string(join(r, v_text(r, "").s, back));
    return v.kind == V_ITER ? v_list(back) : v_iter(r, back);
}

static Value join_filter(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { v_text(r, ""), v_none() };
    take_args(r, "join", args, "d attribute", a);
    const List *l = to_list(r, v);
    List       *parts = list_new(r, l->n);
    for (size_t i = 0; i < l->n; i++)
        parts->item[i] = attribute_of(r, l->item[i], a[1], v_none());
    return v_string(join(r, to_string(r, a[0]), parts));
}

static Value sum(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { v_none(), v_int(0) };
    take_args(r, "sum", args, "attribute start", a);
    const List *l = to_list(r, v);
    if (a[1].kind == V_STRING)
        jinja_fail(r, "sum: cannot sum strings");
    for (size_t i = 0; i < l->n; i++)
        a[1] = binary(r, T_ADD, a[1], attribute_of(r, l->item[i], a[0], v_none()));
    return a[1];
}

static Value batch(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { { 0 }, v_none() };
    take_args(r, "batch", args, "linecount fill_with", a);
    int64_t     n = need_int(r, "batch", a[0]);
    const List *l = to_list(r, v);
    List       *rows = list_new(r, 0), *row = NULL;
    for (size_t i = 0; i < l->n; i++) {
        if (!row || (int64_t)row->n == n) {
            row = list_new(r, 0);
            list_add(r, rows, v_list(row));
        }
        list_add(r, row, l->item[i]);
    }
    for (; row && a[1].kind != V_NONE && (int64_t)row->n < n; jinja_work(r, 1))
        list_add(r, row, a[1]);
    return v_iter(r, rows);
}

static Value slice(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { { 0 }, v_none() };
    take_args(r, "slice", args, "slices fill_with", a);
    int64_t     n = need_int(r, "slice", a[0]);
    const List *l = to_list(r, v);
    List       *rows = list_new(r, 0);
    if (n == 0)
        jinja_fail(r, "slice: division by zero");
    for (int64_t i = 0, at = 0; i < n; i++) {
        int64_t each = (int64_t)l->n / n, extra = (int64_t)l->n % n, take = each + (i < extra);
        List   *row = list_new(r, 0);
        jinja_work(r, 1);
        for (; take-- > 0; at++)
            list_add(r, row, l->item[at]);
        if (a[1].kind != V_NONE && i >= extra)
            list_add(r, row, a[1]);
        list_add(r, rows, v_list(row));
    }
    return v_iter(r, rows);
}

/* The arguments after the first n. */
static Args rest_of(const Args *args, size_t n)
{
    return (Args){ args->v ? args->v + n : NULL, args->n - n, args->named };
}

static Value map(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { v_none(), v_none() };
    List *out = list_new(r, 0);
    if (!truth(r, v))
        return v_iter(r, out);
    bool attribute = !args->n && dict_name(args->named, "attribute", 9);
    if (attribute)
        take_args(r, "map", args, "attribute default", a);
    else if (!args->n)
        jinja_fail(r, "map: expected the name of a filter");
    const List *l = to_list(r, v);
    Args        rest = attribute ? *args : rest_of(args, 1);
    for (size_t i = 0; i < l->n; i++)
        list_add(r, out, attribute ? attribute_of(r, l->item[i], a[0], a[1])
                                   : apply_filter(r, need_string(r, "map", args->v[0]),
                                                  l->item[i], &rest));
    return v_iter(r, out);
}

static Value choose(JinjaRun *r, Value v, const Args *args, bool keep, bool attribute)
{
    List *out = list_new(r, 0);
    if (!truth(r, v))
        return v_iter(r, out);
    if (attribute && !args->n)
        jinja_fail(r, "expected the name of an attribute");
    const List *l = to_list(r, v);
    bool        test = args->n > attribute;
    Args        rest = test ? rest_of(args, attribute + 1u) : (Args){ 0 };
    for (size_t i = 0; i < l->n; i++) {
        Value x = attribute ? attribute_of(r, l->item[i], args->v[0], v_none()) : l->item[i];
        bool  good = test ? apply_test(r, need_string(r, "a test", args->v[attribute]), x, &rest)
                          : truth(r, x);
        jinja_work(r, 1);
        if (good == keep)
            list_add(r, out, l->item[i]);
    }
    return v_iter(r, out);
}

static Value select_(JinjaRun *r, Value v, const Args *a) { return choose(r, v, a, true, false); }
static Value reject(JinjaRun *r, Value v, const Args *a) { return choose(r, v, a, false, false); }
static Value selectattr(JinjaRun *r, Value v, const Args *a) { return choose(r, v, a, true, true); }
static Value rejectattr(JinjaRun *r, Value v, const Args *a)
{
    return choose(r, v, a, false, true);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static Value absolute(JinjaRun *r, Value v, const Args *args)
{
    int64_t i = 0;
    take_args(r, "abs", args, "", NULL);
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

static Value to_int(JinjaRun *r, Value v, const Args *args)
{
    Value   a[2] = { v_int(0), v_int(10) };
    int64_t i;
    double  f = 0;
    take_args(r, "int", args, "default base", a);
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

static Value to_float(JinjaRun *r, Value v, const Args *args)
{
    Value  a[1] = { v_float(0) };
    double f;
    take_args(r, "float", args, "default", a);
    if (is_undefined(v))
        need_int(r, "float", v);
    if (is_number(v))
        return v_float(as_double(v));
    return v.kind == V_STRING && parse_float(r, v.s, &f) ? v_float(f) : a[0];
}

static Value round_(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { v_int(0), v_text(r, "common") };
    char  text[400];
    take_args(r, "round", args, "precision method", a);
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

static Value filesizeformat(JinjaRun *r, Value v, const Args *args)
{
    static const char letters[] = "kMGTPEZY";
    Value a[1] = { v_bool(false) };
    take_args(r, "filesizeformat", args, "binary", a);
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

static Value changed(JinjaRun *r, Value v, const Args *args, CaseChange how)
{
    take_args(r, "a change of case", args, "", NULL);
    return v_string(change_case(r, to_string(r, v), how));
}

static Value upper(JinjaRun *r, Value v, const Args *a) { return changed(r, v, a, CASE_UPPER); }
static Value lower(JinjaRun *r, Value v, const Args *a) { return changed(r, v, a, CASE_LOWER); }
static Value capitalize(JinjaRun *r, Value v, const Args *a)
{
    return changed(r, v, a, CASE_CAPITAL);
}

/* Words begin after blanks, '-' and opening brackets, unlike in str.title(). */
static Value title(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "title", args, "", NULL);
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

static Value trim(JinjaRun *r, Value v, const Args *args)
{
    Value a[1] = { v_none() };
    take_args(r, "trim", args, "chars", a);
    return v_string(strip(r, to_string(r, v), a[0], true, true));
}

static Value center(JinjaRun *r, Value v, const Args *args)
{
    Value a[1] = { v_int(80) };
    take_args(r, "center", args, "width", a);
    int64_t width = need_int(r, "center", a[0]);
    return v_string(pad(r, to_string(r, v), width > 0 ? (size_t)width : 0, v_text(r, " ").s, '^'));
}

static Value replace_filter(JinjaRun *r, Value v, const Args *args)
{
    Value a[3] = { { 0 }, { 0 }, v_none() };
    take_args(r, "replace", args, "old new count", a);
    int64_t count = a[2].kind == V_NONE ? -1 : need_int(r, "replace", a[2]);
    return v_string(replace(r, to_string(r, v), to_string(r, a[0]), to_string(r, a[1]), count));
}

static Value indent(JinjaRun *r, Value v, const Args *args)
{
    Value a[3] = { v_int(4), v_bool(false), v_bool(false) };
    take_args(r, "indent", args, "width first blank", a);
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

static Value truncate_(JinjaRun *r, Value v, const Args *args)
{
    Value a[4] = { v_int(255), v_bool(false), v_text(r, "..."), v_none() };
    take_args(r, "truncate", args, "length killwords end leeway", a);
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

static Value wordcount(JinjaRun *r, Value v, const Args *args)
{
    int64_t n_words = 0;
    bool    within = false;
    take_args(r, "wordcount", args, "", NULL);
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

static Value urlencode(JinjaRun *r, Value v, const Args *args)
{
    StringBuffer *b = buffer_new(r);
    take_args(r, "urlencode", args, "", NULL);
    if (v.kind == V_STRING || (v.kind != V_ITER && length_of(r, v) == SIZE_MAX)) {
        quote(r, b, to_string(r, v), false);
        return v_string(buffer_take(r, b));
    }
    const List *l = to_list(r, v.kind == V_DICT ? items(r, v, &(Args){ 0 }) : v);
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

/* ---- The rest -------------------------------------------------------------------------------- */

static Value default_(JinjaRun *r, Value v, const Args *args)
{
    Value a[2] = { v_text(r, ""), v_bool(false) };
    take_args(r, "default", args, "default_value boolean", a);
    return is_undefined(v) || (truth(r, a[1]) && !truth(r, v)) ? a[0] : v;
}

static Value attr(JinjaRun *r, Value v, const Args *args)
{
    Value a[1] = { { 0 } };
    take_args(r, "attr", args, "name", a);
    String *name = need_string(r, "attr", a[0]);
    if (is_undefined(v) || v.kind != V_DICT)
        return get_attribute(r, v, name);
    Dict none = { 0 }; /* the attributes alone, not the items */
    return get_attribute(r, (Value){ .kind = V_DICT, .dict = &none }, name);
}

static Value string(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "string", args, "", NULL);
    return text_or(r, v);
}

static Value safe(JinjaRun *r, Value v, const Args *args)
{
    take_args(r, "safe", args, "", NULL);
    const String *s = to_string(r, v);
    String       *t = string_new(r, s->s, s->mark, s->n);
    t->safe = true;
    return v_string(t);
}

static Value tojson(JinjaRun *r, Value v, const Args *args)
{
    Value a[4] = { v_bool(false), v_none(), v_none(), v_bool(false) };
    take_args(r, "tojson", args, "ensure_ascii indent separators sort_keys", a);
    return filter_tojson(r, v, a);
}

/* safe: accepts a text made by `safe`. */
static const struct { const char *name; Filter *apply; bool safe; } filters[] = {
    { "abs", absolute, false }, { "attr", attr, false }, { "batch", batch, false },
    { "capitalize", capitalize, false }, { "center", center, false }, { "count", length, true },
    { "d", default_, true }, { "default", default_, true }, { "dictsort", dictsort, false },
    { "e", NULL, false }, { "escape", NULL, false }, { "filesizeformat", filesizeformat, false },
    { "first", first, false }, { "float", to_float, true }, { "forceescape", NULL, false },
    { "format", format, false }, { "groupby", groupby, false }, { "indent", indent, false },
    { "int", to_int, true }, { "join", join_filter, true }, { "last", last, false },
    { "length", length, true }, { "list", list, false }, { "lower", lower, false },
    { "items", items, false }, { "map", map, false }, { "min", min, false }, { "max", max, false },
    { "pprint", NULL, false }, { "random", NULL, false }, { "reject", reject, false },
    { "rejectattr", rejectattr, false }, { "replace", replace_filter, true },
    { "reverse", reverse, false }, { "round", round_, false }, { "safe", safe, true },
    { "select", select_, false }, { "selectattr", selectattr, false }, { "slice", slice, false },
    { "sort", sort, false }, { "string", string, true }, { "striptags", NULL, false },
    { "sum", sum, false }, { "title", title, false }, { "trim", trim, false },
    { "truncate", truncate_, false }, { "unique", unique, false }, { "upper", upper, false },
    { "urlencode", urlencode, false }, { "urlize", NULL, false }, { "wordcount", wordcount, true },
    { "wordwrap", NULL, false }, { "xmlattr", NULL, false }, { "tojson", tojson, true },
};
enum { N_FILTERS = sizeof filters / sizeof *filters };

bool filter_exists(const String *name)
{
    for (size_t i = 0; i < N_FILTERS; i++)
        if (string_is(name, filters[i].name))
            return true;
    return false;
}

Value apply_filter(JinjaRun *r, const String *name, Value v, const Args *args)
{
    int n = (int)(name->n < 80 ? name->n : 80);
    for (size_t i = 0; i < N_FILTERS; i++) {
        if (!string_is(name, filters[i].name))
            continue;
        if (!filters[i].apply)
            jinja_fail(r, "the filter '%s' is not supported", filters[i].name);
        if (v.kind == V_STRING && v.s->safe && !filters[i].safe)
            jinja_fail(r, "the filter '%s' of a safe text is not supported", filters[i].name);
        jinja_enter(r);
        Value y = filters[i].apply(r, v, args);
        r->depth--;
        return y;
    }
    jinja_fail(r, "there is no filter '%.*s'", n, name->s);
}
