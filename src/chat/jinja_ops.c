/* chat/jinja_ops.c: operators, attributes, items and slices, with Python's semantics. Integers have
 * 64 bits; if Python's would need more, that is an error. */
#include "chat/jinja_parts.h"

#include <math.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

bool to_index(Value v, int64_t *i)
{
    *i = v.kind == V_BOOL ? v.truth : v.i;
    return v.kind == V_BOOL || v.kind == V_INT;
}

#if defined(__GNUC__)
__attribute__((noreturn))
#endif
static void undefined(JinjaRun *r, Value v)
{
    jinja_fail(r, "%.*s", (int)v.s->n, v.s->s);
}

int64_t need_int(JinjaRun *r, const char *what, Value v)
{
    int64_t i = 0;
    if (is_undefined(v))
        undefined(r, v);
    if (!to_index(v, &i))
        jinja_fail(r, "%s: expected an int, found %s", what, type_name(v));
    return i;
}

String *need_string(JinjaRun *r, const char *what, Value v)
{
    if (is_undefined(v))
        undefined(r, v);
    if (v.kind != V_STRING)
        jinja_fail(r, "%s: expected a str, found %s", what, type_name(v));
    return v.s;
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static void overflow(JinjaRun *r) { jinja_fail(r, "an integer of more than 64 bits"); }

static int64_t floor_div(JinjaRun *r, int64_t a, int64_t b, int64_t *rest)
{
    if (b == 0)
        jinja_fail(r, "division by zero");
    if (a == INT64_MIN && b == -1)
        overflow(r);
    int64_t q = a / b;
    *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) {
        *rest += b;
        q--;
    }
    return q;
}

static Value int_power(JinjaRun *r, int64_t a, int64_t b)
{
    int64_t y = 1;
    if (b < 0 && a == 0)
        jinja_fail(r, "0 cannot be raised to a negative power");
    if (b < 0)
        return v_float(pow((double)a, (double)b));
    while (b > 0) {
        if ((b & 1) && __builtin_mul_overflow(y, a, &y))
            overflow(r);
        b >>= 1;
        if (b && __builtin_mul_overflow(a, a, &a))
            overflow(r);
    }
    return v_int(y);
}

static Value int_op(JinjaRun *r, int op, int64_t a, int64_t b)
{
    int64_t y = 0, rest;
    bool    bad = false;
    switch (op) {
    case T_ADD: bad = __builtin_add_overflow(a, b, &y); break;
    case T_SUB: bad = __builtin_sub_overflow(a, b, &y); break;
    case T_MUL: bad = __builtin_mul_overflow(a, b, &y); break;
    case T_FLOORDIV: y = floor_div(r, a, b, &rest); break;
    case T_MOD: floor_div(r, a, b, &y); break;
    case T_POW: return int_power(r, a, b);
    default:
        if (b == 0)
            jinja_fail(r, "division by zero");
        if (a > 1LL << 53 || a < -(1LL << 53) || b > 1LL << 53 || b < -(1LL << 53))
            jinja_fail(r, "dividing an integer above 2^53 is not supported");
        return v_float((double)a / (double)b);
    }
    if (bad)
        overflow(r);
    return v_int(y);
}

/* As CPython's float_divmod. */
static double float_divmod(double a, double b, double *rest)
{
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) {
        m += b;
        q -= 1;
    } else if (m == 0) {
        m = copysign(0, b);
    }
    *rest = m;
    if (q == 0)
        return copysign(0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}

static Value float_op(JinjaRun *r, int op, double a, double b)
{
    double y = 0, rest;
    if ((op == T_DIV || op == T_FLOORDIV || op == T_MOD) && b == 0)
        jinja_fail(r, "division by zero");
    switch (op) {
    case T_ADD: y = a + b; break;
    case T_SUB: y = a - b; break;
    case T_MUL: y = a * b; break;
    case T_DIV: y = a / b; break;
    case T_FLOORDIV: y = float_divmod(a, b, &rest); break;
    case T_MOD: float_divmod(a, b, &y); break;
    default:
        if (a == 0 && b < 0)
            jinja_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            jinja_fail(r, "a complex number is not supported");
        y = pow(a, b);
        if (isinf(y) && isfinite(a) && isfinite(b))
            jinja_fail(r, "the result of ** is too large");
    }
    return v_float(y);
}

/* ---- Safe texts: Python's class Markup ------------------------------------------------------- */

static bool is_safe(Value v) { return v.kind == V_STRING && v.s->safe; }

static Value make_safe(Value v, bool safe)
{
    v.s->safe = safe;
    return v;
}

/* A safe text as it is; in another, HTML's special characters are replaced, as markupsafe.escape
 * does. A replacement has the mark of what it replaces. */
static String *escape(JinjaRun *r, String *s)
{
    static const char chars[] = "&<>'\"";
    static const char *const escapes[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    StringBuffer *b = s->safe ? NULL : buffer_new(r);
    size_t        from = 0;
    jinja_work(r, b ? s->n / 4 : 0);
    for (size_t i = 0; b && i < s->n; i++) {
        const char *hit = s->s[i] ? strchr(chars, s->s[i]) : NULL;
        if (!hit)
            continue;
        buffer_add(r, b, s->s + from, s->mark ? s->mark + from : NULL, i - from);
        for (const char *c = escapes[hit - chars]; *c; c++)
            buffer_char(r, b, (unsigned char)*c, s->mark && s->mark[i]);
        from = i + 1;
    }
    if (from == 0)
        return s;
    buffer_add(r, b, s->s + from, s->mark ? s->mark + from : NULL, s->n - from);
    return buffer_take(r, b);
}

static Value add_texts(JinjaRun *r, String *a, String *b)
{
    bool safe = a->safe || b->safe;
    if (safe) {
        a = escape(r, a);
        b = escape(r, b);
    }
    return make_safe(v_string(string_join2(r, a, b)), safe);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static Value repeat(JinjaRun *r, Value v, int64_t times)
{
    size_t n = times > 0 ? (size_t)times : 0;
    if (v.kind == V_STRING) {
        StringBuffer *b = buffer_new(r);
        buffer_fill(r, b, v.s, n);
        return make_safe(v_string(buffer_take(r, b)), v.s->safe);
    }
    if (n && v.list->n > JINJA_MEMORY / sizeof(Value) / n)
        jinja_fail(r, "needs more than %d MB of memory", JINJA_MEMORY >> 20);
    List *l = list_new(r, v.list->n * n);
    jinja_work(r, l->n);
    for (size_t i = 0; i < l->n; i++)
        l->item[i] = v.list->item[i % v.list->n];
    return (Value){ .kind = v.kind, .list = l };
}

static Value append_lists(JinjaRun *r, Value a, Value b)
{
    List *l = list_new(r, a.list->n + b.list->n);
    jinja_work(r, l->n);
    for (size_t i = 0; i < l->n; i++)
        l->item[i] = i < a.list->n ? a.list->item[i] : b.list->item[i - a.list->n];
    return (Value){ .kind = a.kind, .list = l };
}

static const char *spell(int op)
{
    return op == T_ADD        ? "+"
           : op == T_SUB      ? "-"
           : op == T_MUL      ? "*"
           : op == T_DIV      ? "/"
           : op == T_FLOORDIV ? "//"
           : op == T_MOD      ? "%"
                              : "**";
}

/* ---- Operators of two values ----------------------------------------------------------------- */

Value binary(JinjaRun *r, int op, Value a, Value b)
{
    bool    sequence = a.kind == V_STRING || a.kind == V_LIST || a.kind == V_TUPLE;
    int64_t i, k;
    if (op == T_MOD && is_safe(a))
        jinja_fail(r, "%% of a safe text is not supported (it would escape HTML)");
    if (op == T_MOD && a.kind == V_STRING)
        return format_percent(r, a.s, b);
    if (is_undefined(a) || is_undefined(b))
        undefined(r, is_undefined(a) ? a : b);
    if (to_index(a, &i) && to_index(b, &k))
        return int_op(r, op, i, k);
    if (is_number(a) && is_number(b))
        return float_op(r, op, as_double(a), as_double(b));
    if (op == T_ADD && sequence && a.kind == b.kind)
        return a.kind == V_STRING ? add_texts(r, a.s, b.s) : append_lists(r, a, b);
    if (op == T_MUL && sequence && to_index(b, &k))
        return repeat(r, a, k);
    if (op == T_MUL && to_index(a, &i)
        && (b.kind == V_STRING || b.kind == V_LIST || b.kind == V_TUPLE))
        return repeat(r, b, i);
    jinja_fail(r, "unsupported operand types for %s: '%s' and '%s'", spell(op), type_name(a),
               type_name(b));
}

Value negate(JinjaRun *r, Value a)
{
    int64_t i;
    if (is_undefined(a))
        undefined(r, a);
    if (a.kind == V_FLOAT)
        return v_float(-a.f);
    if (!to_index(a, &i))
        jinja_fail(r, "bad operand type for unary -: '%s'", type_name(a));
    return int_op(r, T_SUB, 0, i);
}

/* ---- Attributes and items -------------------------------------------------------------------- */

static Value missing_attribute(JinjaRun *r, const String *name)
{
    return v_undefined(r, "is no attribute or item of it", name->s, name->n);
}

static Value method(JinjaRun *r, Value v, const char *name)
{
    Method *m = jinja_alloc(r, sizeof *m);
    *m = (Method){ .self = v, .name = name };
    return (Value){ .kind = V_METHOD, .method = m };
}

/* An attribute that is not an item. V_MISSING: there is none. */
static Value own_attribute(JinjaRun *r, Value v, const String *name)
{
    bool        unsafe = false;
    const char *known = NULL;
    if (v.kind == V_NAMESPACE) {
        Value *found = dict_name(v.dict, name->s, name->n);
        return found ? *found : (Value){ 0 };
    }
    if (v.kind == V_LOOP) {
        Value found = loop_attribute(r, v.loop, name);
        if (found.kind != V_MISSING)
            return found;
    }
    if (v.kind == V_TUPLE && v.list->group && string_is(name, "grouper"))
        return v.list->item[0];
    if (v.kind == V_TUPLE && v.list->group && string_is(name, "list"))
        return v.list->item[1];
    if (v.kind == V_CYCLER && string_is(name, "current"))
        return v.cycler->items->item[v.cycler->at];
    if (v.kind == V_MACRO && (string_is(name, "name") || string_is(name, "arguments")))
        jinja_fail(r, "the attribute '%.*s' of a macro is not supported", (int)name->n, name->s);
    if (is_method(v, name, &unsafe, &known))
        return unsafe ? v_undefined(r, "may not be used in a template", name->s, name->n)
                      : method(r, v, known);
    if (name->n > 2 && memcmp(name->s, "__", 2) == 0 && v.kind != V_DICT)
        return v_undefined(r, "may not be used in a template", name->s, name->n);
    return (Value){ 0 };
}

Value get_attribute(JinjaRun *r, Value v, String *name)
{
    if (is_undefined(v) && name->n > 2 && memcmp(name->s, "__", 2) == 0)
        jinja_fail(r, "'%.*s' of an undefined value is not supported", (int)name->n, name->s);
    if (is_undefined(v))
        undefined(r, v);
    Value found = own_attribute(r, v, name);
    if (found.kind != V_MISSING)
        return found;
    Value *item = v.kind == V_DICT ? dict_find(r, v.dict, v_string(name)) : NULL;
    return item ? *item : missing_attribute(r, name);
}

static Value char_at(JinjaRun *r, String *s, size_t i)
{
    size_t from = string_byte(r, s, i);
    return make_safe(v_string(string_part(r, s, from, string_byte(r, s, i + 1))), s->safe);
}

Value get_item(JinjaRun *r, Value v, Value key)
{
    int64_t i;
    size_t  n;
    Value  *item;
    if (is_undefined(v))
        undefined(r, v);
    if (v.kind == V_DICT && hashable(key) && (item = dict_find(r, v.dict, key)) != NULL)
        return *item;
    bool sequence = v.kind == V_STRING || v.kind == V_LIST || v.kind == V_TUPLE
                 || v.kind == V_RANGE;
    if (sequence && to_index(key, &i)) {
        n = length_of(r, v);
        i += i < 0 ? (int64_t)n : 0;
        if (i >= 0 && (uint64_t)i < n)
            return v.kind == V_STRING  ? char_at(r, v.s, (size_t)i)
                   : v.kind == V_RANGE ? range_item(v.range, (size_t)i)
                                       : v.list->item[i];
    }
    if (key.kind == V_STRING) {
        Value found = own_attribute(r, v, key.s);
        return found.kind != V_MISSING ? found : missing_attribute(r, key.s);
    }
    return missing_attribute(r, to_string(r, key));
}

/* Bounds as Python's slice.indices() gives them. */
static int64_t bound(JinjaRun *r, Value v, int64_t n, bool back, bool start)
{
    int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
    if (v.kind == V_NONE || v.kind == V_MISSING)
        return start == back ? high : low;
    int64_t i = need_int(r, "a slice", v);
    i += i < 0 ? n : 0;
    return i < low ? low : i > high ? high : i;
}

Value get_slice(JinjaRun *r, Value v, Value start, Value stop, Value step)
{
    if (is_undefined(v))
        undefined(r, v);
    if (v.kind != V_STRING && v.kind != V_LIST && v.kind != V_TUPLE && v.kind != V_RANGE)
        jinja_fail(r, "a %s has no slices", type_name(v));
    bool    one = step.kind == V_NONE || step.kind == V_MISSING;
    int64_t by = one ? 1 : need_int(r, "a slice", step), n = (int64_t)length_of(r, v);
    if (by == 0)
        jinja_fail(r, "slice step cannot be zero");
    int64_t from = bound(r, start, n, by < 0, true), to = bound(r, stop, n, by < 0, false);
    if (v.kind == V_STRING && by == 1) {
        size_t begin = string_byte(r, v.s, (size_t)from);
        size_t end = string_byte(r, v.s, (size_t)to);
        return make_safe(v_string(string_part(r, v.s, begin, end)), v.s->safe);
    }
    if (v.kind == V_RANGE)
        jinja_fail(r, "a slice of a range is not supported");
    const List *all = to_list(r, v);
    List       *l = list_new(r, 0);
    for (int64_t i = from; by > 0 ? i < to : i > to;) {
        list_add(r, l, all->item[i]);
        if (__builtin_add_overflow(i, by, &i))
            break;
    }
    jinja_work(r, l->n);
    if (v.kind == V_STRING)
        return make_safe(v_string(join(r, v_text(r, "").s, l)), v.s->safe);
    return (Value){ .kind = v.kind, .list = l };
}
