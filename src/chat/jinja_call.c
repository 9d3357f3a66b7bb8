/* chat/jinja_call.c: callables: the globals, and the methods of lists, dicts and numbers that
 * Jinja2's immutable sandbox allows. */
#include "chat/jinja_parts.h"

#include <math.h>
#include <stdlib.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

static Value default_of(JinjaRun *r, const char *s)
{
    if (*s == '\'')
        return v_string(string_new(r, s + 1, NULL, strcspn(s + 1, "'")));
    if (*s == 'N')
        return v_none();
    if (*s == 'F')
        return v_bool(false);
    return s[1] == '.' ? v_float(strtod(s, NULL)) : v_int(strtol(s, NULL, 10));
}

void take_args(JinjaRun *r, const char *what, const Args *args, const char *names, Value *out)
{
    size_t n = 0, n_named = 0;
    for (const char *p = names; *p; n++) {
        size_t len = strcspn(p, " =");
        Value *v = args->named ? dict_name(args->named, p, len) : NULL;
        if (v && n < args->n)
            jinja_fail(r, "%s: got two values for '%.*s'", what, (int)len, p);
        if (v)
            out[n] = *v;
        else if (n < args->n)
            out[n] = args->v[n];
        else if (p[len] == '=')
            out[n] = default_of(r, p + len + 1);
        if (out[n].kind == V_MISSING)
            jinja_fail(r, "%s: expected an argument '%.*s'", what, (int)len, p);
        n_named += v != NULL;
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    if (args->n > n)
        jinja_fail(r, "%s: expected at most %zu arguments, found %zu", what, n, args->n);
    for (size_t i = 0; args->named && n_named < args->named->n; i++) {
        const String *s = args->named->key[i].s;
        bool known = false;
        for (const char *p = names; *p; p += strcspn(p, " "), p += *p == ' ')
            known |= s->n == strcspn(p, " =") && memcmp(p, s->s, s->n) == 0;
        if (!known)
            jinja_fail(r, "%s: unexpected keyword argument '%.*s'", what,
                       (int)(s->n < 80 ? s->n : 80), s->s);
    }
}

/* ---- Globals --------------------------------------------------------------------------------- */

static Value global_range(JinjaRun *r, const Args *args)
{
    enum { MOST = 100000 }; /* the sandbox's MAX_RANGE */
    Value       v[3] = { { 0 }, v_none(), v_int(1) };
    JinjaRange *g = jinja_alloc(r, sizeof *g);
    int64_t     span;
    take_args(r, "range", args, "start stop step", v);
    bool one = v[1].kind == V_NONE;
    g->start = one ? 0 : need_int(r, "range", v[0]);
    g->stop = need_int(r, "range", v[one ? 0 : 1]);
    g->step = need_int(r, "range", v[2]);
    if (g->step == 0)
        jinja_fail(r, "range: the step must not be 0");
    bool wide = __builtin_sub_overflow(g->stop, g->start, &span) || g->step == INT64_MIN;
    if (!wide && (span > 0) == (g->step > 0) && span != 0)
        g->n = (size_t)((span - (span > 0 ? 1 : -1)) / g->step) + 1;
    if (wide || g->n > MOST)
        jinja_fail(r, "range: more than %d items", MOST);
    return (Value){ .kind = V_RANGE, .range = g };
}

static Dict *new_dict(JinjaRun *r, const char *what, const Args *args)
{
    Dict *d = dict_new(r);
    if (args->n > 1)
        jinja_fail(r, "%s: expected at most 1 argument, found %zu", what, args->n);
    if (args->n && (args->v[0].kind == V_DICT)) {
        for (size_t i = 0; i < args->v[0].dict->n; i++)
            dict_put_new(r, d, args->v[0].dict->key[i], args->v[0].dict->value[i]);
    } else if (args->n) {
        const List *pairs = to_list(r, args->v[0]);
        for (size_t i = 0; i < pairs->n; i++) {
            const List *pair = to_list(r, pairs->item[i]);
            if (pair->n != 2)
                jinja_fail(r, "%s: expected pairs, found %zu items", what, pair->n);
            dict_put(r, d, pair->item[0], pair->item[1]);
        }
    }
    for (size_t i = 0; args->named && i < args->named->n; i++)
        dict_put(r, d, args->named->key[i], args->named->value[i]);
    return d;
}

static Value global_dict(JinjaRun *r, const Args *args)
{
    return (Value){ .kind = V_DICT, .dict = new_dict(r, "dict", args) };
}

/* transformers' namespaces reject names that begin with an underscore. */
void namespace_put(JinjaRun *r, Dict *d, Value name, Value v)
{
    if (name.kind == V_STRING && name.s->n && name.s->s[0] == '_')
        jinja_fail(r, "a name in a namespace must not begin with an underscore");
    dict_put(r, d, name, v);
}

static Value global_namespace(JinjaRun *r, const Args *args)
{
    const Dict *all = new_dict(r, "namespace", args);
    Dict       *d = dict_new(r);
    for (size_t i = 0; i < all->n; i++)
        namespace_put(r, d, all->key[i], all->value[i]);
    return (Value){ .kind = V_NAMESPACE, .dict = d };
}

static Value global_cycler(JinjaRun *r, const Args *args)
{
    if (!args->n || args->named->n)
        jinja_fail(r, "cycler: expected one item or more");
    Cycler *c = jinja_alloc(r, sizeof *c);
    c->items = list_new(r, args->n);
    memcpy(c->items->item, args->v, args->n * sizeof *args->v);
    return (Value){ .kind = V_CYCLER, .cycler = c };
}

static Value global_joiner(JinjaRun *r, const Args *args)
{
    Value v[1] = { v_text(r, ", ") };
    take_args(r, "joiner", args, "sep", v);
    Joiner *j = jinja_alloc(r, sizeof *j);
    j->separator = need_string(r, "joiner", v[0]);
    return (Value){ .kind = V_JOINER, .joiner = j };
}

static Value raise_exception(JinjaRun *r, const Args *args)
{
    Value v[1] = { { 0 } };
    take_args(r, "raise_exception", args, "message", v);
    const String *s = to_string(r, v[0]);
    jinja_fail(r, "the template says: %.*s", (int)(s->n < 400 ? s->n : 400), s->s);
}

static Value strftime_now(JinjaRun *r, const Args *args)
{
    Value v[1] = { { 0 } };
    take_args(r, "strftime_now", args, "format", v);
    return format_date(r, need_string(r, "strftime_now", v[0]));
}

static Value lipsum(JinjaRun *r, const Args *args)
{
    (void)args;
    jinja_fail(r, "lipsum is not supported: it is random");
}

static const struct { const char *name; Value (*call)(JinjaRun *, const Args *); } globals[] = {
    { "range", global_range }, { "dict", global_dict }, { "namespace", global_namespace },
    { "cycler", global_cycler }, { "joiner", global_joiner }, { "lipsum", lipsum },
    { "raise_exception", raise_exception }, { "strftime_now", strftime_now },
};

int global_find(const String *name)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (string_is(name, globals[i].name))
            return (int)i;
    return -1;
}

/* ---- Methods --------------------------------------------------------------------------------- */

/* All methods of Python's types, so that any other name is an item or undefined. */
static const char *const STRING_METHODS[] = {
    "capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find",
    "format", "format_map", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
    "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join",
    "ljust", "lower", "lstrip", "maketrans", "partition", "removeprefix", "removesuffix",
    "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill", NULL,
};
static const char *const DICT_METHODS[] = { "copy", "fromkeys", "get", "items", "keys", "values",
                                            NULL };
static const char *const DICT_UNSAFE[] = { "clear", "pop", "popitem", "setdefault", "update",
                                           NULL };
static const char *const LIST_METHODS[] = { "copy", "count", "index", NULL };
static const char *const LIST_UNSAFE[] = { "append", "clear", "extend", "insert", "pop", "remove",
                                           "reverse", "sort", NULL };
static const char *const TUPLE_METHODS[] = { "count", "index", NULL };
static const char *const RANGE_METHODS[] = { "count", "index", "start", "step", "stop", NULL };
static const char *const INT_METHODS[] = { "as_integer_ratio", "bit_count", "bit_length",
                                           "conjugate", "denominator", "from_bytes", "imag",
                                           "numerator", "real", "to_bytes", NULL };
static const char *const FLOAT_METHODS[] = { "as_integer_ratio", "conjugate", "fromhex", "hex",
                                             "imag", "is_integer", "real", NULL };
static const char *const LOOP_METHODS[] = { "cycle", "changed", NULL };
static const char *const CYCLER_METHODS[] = { "next", "reset", "items", "pos", NULL };

static const char *in_table(const char *const *table, const String *name)
{
    for (; table && *table; table++)
        if (string_is(name, *table))
            return *table;
    return NULL;
}

bool is_method(Value self, const String *name, bool *unsafe, const char **known)
{
    static const char *const *const tables[V_JOINER + 1] = {
        [V_STRING] = STRING_METHODS, [V_DICT] = DICT_METHODS, [V_LIST] = LIST_METHODS,
        [V_TUPLE] = TUPLE_METHODS, [V_RANGE] = RANGE_METHODS, [V_INT] = INT_METHODS,
        [V_BOOL] = INT_METHODS, [V_FLOAT] = FLOAT_METHODS, [V_LOOP] = LOOP_METHODS,
        [V_CYCLER] = CYCLER_METHODS,
    };
    *known = in_table(tables[self.kind], name);
    *unsafe = in_table(self.kind == V_DICT   ? DICT_UNSAFE
                       : self.kind == V_LIST ? LIST_UNSAFE
                                             : NULL, name) != NULL;
    return *known || *unsafe;
}

static Value not_supported(JinjaRun *r, Value self, const char *name)
{
    jinja_fail(r, "the method %s of a %s is not supported", name, type_name(self));
}

static Value dict_method(JinjaRun *r, Value self, const char *name, const Args *args)
{
    Value v[2] = { { 0 }, v_none() };
    if (strcmp(name, "get") == 0) {
        if (args->named->n)
            jinja_fail(r, "get takes no keyword arguments");
        take_args(r, "get", args, "key default", v);
        if (!hashable(v[0]))
            jinja_fail(r, "unhashable type: '%s'", type_name(v[0]));
        Value *found = dict_find(r, self.dict, v[0]);
        return found ? *found : v[1];
    }
    if (strcmp(name, "fromkeys") == 0)
        return not_supported(r, self, name);
    take_args(r, name, args, "", v);
    if (strcmp(name, "copy") == 0)
        return self;
    return v_view(r, name[0], self.dict);
}

static Value list_method(JinjaRun *r, Value self, const char *name, const Args *args)
{
    Value v[3] = { { 0 }, v_int(0), v_int(INT64_MAX) };
    if (strcmp(name, "copy") == 0) {
        take_args(r, name, args, "", v);
        return self;
    }
    bool        counts = strcmp(name, "count") == 0;
    const List *l = to_list(r, self);
    int64_t     n = 0, size = (int64_t)l->n;
    take_args(r, name, args, counts ? "value" : "value start stop", v);
    int64_t from = need_int(r, name, v[1]), to = need_int(r, name, v[2]);
    from = from < 0 ? (from + size < 0 ? 0 : from + size) : from;
    to = to < 0 ? to + size : to > size ? size : to;
    for (int64_t i = from; i < to; i++) {
        if (!equal(r, l->item[i], v[0]))
            continue;
        if (!counts)
            return v_int(i);
        n++;
    }
    if (!counts)
        jinja_fail(r, "index: the value is not in the %s", type_name(self));
    return v_int(n);
}

static Value number_method(JinjaRun *r, Value self, const char *name, const Args *args)
{
    Value v[1] = { { 0 } };
    if (strcmp(name, "is_integer") == 0) {
        take_args(r, name, args, "", v);
        return v_bool(isfinite(self.f) && self.f == floor(self.f));
    }
    return not_supported(r, self, name);
}

static Value cycler_method(JinjaRun *r, Value self, const char *name, const Args *args)
{
    Cycler *c = self.cycler;
    Value   v = c->items->item[c->at];
    take_args(r, name, args, "", &v);
    if (strcmp(name, "next") == 0) {
        c->at = (c->at + 1) % c->items->n;
        return v;
    }
    if (strcmp(name, "reset") != 0)
        return not_supported(r, self, name);
    c->at = 0;
    return v_none();
}

static Value call_method(JinjaRun *r, const Method *m, const Args *args)
{
    switch (m->self.kind) {
    case V_STRING:
        if (m->self.s->safe)
            jinja_fail(r, "the methods of a safe text are not supported (they would escape HTML)");
        return string_method(r, m->self.s, m->name, args);
    case V_DICT: return dict_method(r, m->self, m->name, args);
    case V_LIST: case V_TUPLE: return list_method(r, m->self, m->name, args);
    case V_RANGE:
        if (m->name[0] == 's')
            return not_supported(r, m->self, m->name);
        return list_method(r, m->self, m->name, args);
    case V_LOOP: return loop_method(r, m->self.loop, m->name, args);
    case V_CYCLER: return cycler_method(r, m->self, m->name, args);
    default: return number_method(r, m->self, m->name, args);
    }
}

Value call(JinjaRun *r, Value f, const Args *args)
{
    Value v[1] = { { 0 } };
    jinja_enter(r);
    switch (f.kind) {
    case V_MACRO: v[0] = call_macro(r, f.macro, args); break;
    case V_GLOBAL: v[0] = globals[f.global].call(r, args); break;
    case V_METHOD: v[0] = call_method(r, f.method, args); break;
    case V_LOOP:
        take_args(r, "loop", args, "iterable", v);
        v[0] = call_loop(r, f.loop, v[0]);
        break;
    case V_JOINER:
        take_args(r, "a joiner", args, "", v);
        v[0] = f.joiner->used ? v_string(f.joiner->separator) : v_text(r, "");
        f.joiner->used = true;
        break;
    case V_UNDEFINED: jinja_fail(r, "%.*s", (int)f.s->n, f.s->s);
    default: jinja_fail(r, "a %s cannot be called", type_name(f));
    }
    r->depth--;
    return v[0];
}
