/* chat/jinja_test.c: the tests of jinja2/tests.py, after "is". */
#include "chat/jinja_parts.h"

typedef bool Test(JinjaRun *r, Value v, Value x);

/* value % by == rest; of a text, % is a format. */
static bool leaves(JinjaRun *r, Value v, Value by, int64_t rest)
{
    return equal(r, binary(r, T_MOD, v, by), v_int(rest));
}

static bool odd(JinjaRun *r, Value v, Value x) { (void)x; return leaves(r, v, v_int(2), 1); }
static bool even(JinjaRun *r, Value v, Value x) { (void)x; return leaves(r, v, v_int(2), 0); }
static bool divisible(JinjaRun *r, Value v, Value x) { return leaves(r, v, x, 0); }
static bool defined(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return !is_undefined(v); }
static bool not_defined(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return is_undefined(v); }
static bool none(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return v.kind == V_NONE; }
static bool boolean(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return v.kind == V_BOOL; }
static bool integer(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return v.kind == V_INT; }
static bool real(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return v.kind == V_FLOAT; }
static bool string(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return v.kind == V_STRING; }
static bool number(JinjaRun *r, Value v, Value x) { (void)r, (void)x; return is_number(v); }

static bool mapping(JinjaRun *r, Value v, Value x)
{
    (void)r, (void)x;
    return v.kind == V_DICT || v.kind == V_CYCLER; /* jinja2 registers its cycler as one */
}

static bool is_false(JinjaRun *r, Value v, Value x)
{
    (void)r, (void)x;
    return v.kind == V_BOOL && !v.truth;
}

static bool is_true(JinjaRun *r, Value v, Value x)
{
    (void)r, (void)x;
    return v.kind == V_BOOL && v.truth;
}

static bool lower(JinjaRun *r, Value v, Value x)
{
    (void)x;
    return text_test(r, to_string(r, v), "islower");
}

static bool upper(JinjaRun *r, Value v, Value x)
{
    (void)x;
    return text_test(r, to_string(r, v), "isupper");
}

/* Has it a length and items? For an undefined value, asking for items fails. */
static bool sequence(JinjaRun *r, Value v, Value x)
{
    (void)r, (void)x;
    return v.kind == V_STRING || v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_DICT
        || v.kind == V_RANGE || v.kind == V_UNDEFINED;
}

static bool iterable(JinjaRun *r, Value v, Value x)
{
    (void)x;
    return v.kind == V_ITER || v.kind == V_LOOP || length_of(r, v) != SIZE_MAX;
}

static bool callable(JinjaRun *r, Value v, Value x)
{
    (void)r, (void)x;
    return v.kind == V_MACRO || v.kind == V_METHOD || v.kind == V_GLOBAL || v.kind == V_LOOP
        || v.kind == V_JOINER || v.kind == V_UNDEFINED;
}

static bool escaped(JinjaRun *r, Value v, Value x)
{
    (void)r, (void)x;
    return v.kind == V_STRING && v.s->safe;
}

/* The same object. For numbers and strings that is internal to Python, so it is rejected. */
static bool same_as(JinjaRun *r, Value v, Value x)
{
    if (v.kind != x.kind)
        return false;
    if (v.kind == V_NONE || v.kind == V_BOOL)
        return v.kind == V_NONE || v.truth == x.truth;
    if (v.kind <= V_STRING || v.kind == V_TUPLE || v.kind == V_METHOD)
        jinja_fail(r, "sameas of a %s is not supported", type_name(v));
    return v.any == x.any;
}

static bool within(JinjaRun *r, Value v, Value x) { return contains(r, x, v); }
static bool eq(JinjaRun *r, Value v, Value x) { return equal(r, v, x); }
static bool ne(JinjaRun *r, Value v, Value x) { return !equal(r, v, x); }
static bool lt(JinjaRun *r, Value v, Value x) { return compare(r, v, x) == -1; }
static bool gt(JinjaRun *r, Value v, Value x) { return compare(r, v, x) == 1; }
static bool le(JinjaRun *r, Value v, Value x) { return compare(r, v, x) <= 0; }

static bool ge(JinjaRun *r, Value v, Value x)
{
    int c = compare(r, v, x);
    return c == 0 || c == 1;
}

static bool is_filter(JinjaRun *r, Value v, Value x)
{
    (void)x;
    return filter_exists(need_string(r, "filter", v));
}

static bool is_test(JinjaRun *r, Value v, Value x);

static const struct { const char *name; Test *ask; const char *argument; } tests[] = {
    { "odd", odd, "" }, { "even", even, "" }, { "divisibleby", divisible, "num" },
    { "defined", defined, "" }, { "undefined", not_defined, "" }, { "filter", is_filter, "" },
    { "test", is_test, "" }, { "none", none, "" }, { "boolean", boolean, "" },
    { "false", is_false, "" }, { "true", is_true, "" }, { "integer", integer, "" },
    { "float", real, "" }, { "lower", lower, "" }, { "upper", upper, "" },
    { "string", string, "" }, { "mapping", mapping, "" }, { "number", number, "" },
    { "sequence", sequence, "" }, { "iterable", iterable, "" }, { "callable", callable, "" },
    { "sameas", same_as, "other" }, { "escaped", escaped, "" }, { "in", within, "seq" },
    { "==", eq, "b" }, { "eq", eq, "b" }, { "equalto", eq, "b" }, { "!=", ne, "b" },
    { "ne", ne, "b" }, { ">", gt, "b" }, { "gt", gt, "b" }, { "greaterthan", gt, "b" },
    { "ge", ge, "b" }, { ">=", ge, "b" }, { "<", lt, "b" }, { "lt", lt, "b" },
    { "lessthan", lt, "b" }, { "<=", le, "b" }, { "le", le, "b" },
};

static bool is_test(JinjaRun *r, Value v, Value x)
{
    const String *name = need_string(r, "test", v);
    (void)x;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (string_is(name, tests[i].name))
            return true;
    return false;
}

bool apply_test(JinjaRun *r, const String *name, Value v, const Args *args)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (string_is(name, tests[i].name)) {
            Value x[1] = { { 0 } };
            take_args(r, tests[i].name, args, tests[i].argument, x);
            return tests[i].ask(r, v, x[0]);
        }
    jinja_fail(r, "there is no test '%.*s'", (int)(name->n < 80 ? name->n : 80), name->s);
}
