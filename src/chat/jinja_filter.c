/* chat/jinja_filter.c: the filters of jinja2/filters.py: of sequences and of any value, and the
 * search by name. Those that make HTML, wrap lines or draw at random are rejected by name. */
#include "chat/jinja_parts.h"

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

static Value sort(JinjaRun *r, Value v, const Value *a)
{
    const List *l = to_list(r, v);
    Sorted     *s = jinja_array(r, l->n + 1, sizeof *s);
    for (size_t i = 0; i < l->n; i++)
        s[i] = (Sorted){ sort_key(r, l->item[i], a[2], truth(r, a[1])), l->item[i] };
    return v_list(sorted(r, s, l->n, truth(r, a[0])));
}

static Value dictsort(JinjaRun *r, Value v, const Value *a)
{
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

static Value groupby(JinjaRun *r, Value v, const Value *a)
{
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

static Value least(JinjaRun *r, Value v, const Value *a, bool most)
{
    Value best = { 0 }, best_key = { 0 };
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

static Value min(JinjaRun *r, Value v, const Value *a) { return least(r, v, a, false); }
static Value max(JinjaRun *r, Value v, const Value *a) { return least(r, v, a, true); }

static Value unique(JinjaRun *r, Value v, const Value *a)
{
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

static Value list(JinjaRun *r, Value v)
{
    return v_list(to_list(r, v));
}

static Value items(JinjaRun *r, Value v)
{
    if (is_undefined(v))
        return v_iter(r, list_new(r, 0));
    if (v.kind != V_DICT)
        jinja_fail(r, "items: expected a dict, found %s", type_name(v));
    return v_iter(r, to_list(r, v_view(r, 'i', v.dict)));
}

static Value length(JinjaRun *r, Value v)
{
    size_t n = length_of(r, v);
    if (n == SIZE_MAX)
        jinja_fail(r, "a %s has no length", type_name(v));
    return v_int((int64_t)n);
}

static Value first(JinjaRun *r, Value v)
{
    Value out;
    return iter_next(r, iter_begin(r, v), &out)
               ? out : v_undefined(r, "has no value: the sequence is empty", "first", 5);
}

static Value last(JinjaRun *r, Value v)
{
    if (v.kind == V_ITER)
        jinja_fail(r, "last: a generator cannot be reversed");
    const List *l = to_list(r, v);
    return l->n ? l->item[l->n - 1]
                : v_undefined(r, "has no value: the sequence is empty", "last", 4);
}

static Value reverse(JinjaRun *r, Value v)
{
    const List *l = to_list(r, v);
    List       *back = list_new(r, l->n);
    jinja_work(r, l->n);
    for (size_t i = 0; i < l->n; i++)
        back->item[i] = l->item[l->n - 1 - i];
    if (v.kind == V_STRING)
        return v_string(join(r, v_text(r, "").s, back));
    return v.kind == V_ITER ? v_list(back) : v_iter(r, back);
}

static Value join_filter(JinjaRun *r, Value v, const Value *a)
{
    const List *l = to_list(r, v);
    List       *parts = list_new(r, l->n);
    for (size_t i = 0; i < l->n; i++)
        parts->item[i] = attribute_of(r, l->item[i], a[1], v_none());
    return v_string(join(r, to_string(r, a[0]), parts));
}

static Value sum(JinjaRun *r, Value v, const Value *a)
{
    Value       total = a[1];
    const List *l = to_list(r, v);
    if (total.kind == V_STRING)
        jinja_fail(r, "sum: cannot sum strings");
    for (size_t i = 0; i < l->n; i++)
        total = binary(r, T_ADD, total, attribute_of(r, l->item[i], a[0], v_none()));
    return total;
}

static Value batch(JinjaRun *r, Value v, const Value *a)
{
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

static Value slice(JinjaRun *r, Value v, const Value *a)
{
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
    Value a[2] = { 0 };
    List *out = list_new(r, 0);
    if (!truth(r, v))
        return v_iter(r, out);
    bool attribute = !args->n && dict_name(args->named, "attribute", 9);
    if (attribute)
        take_args(r, "map", args, "attribute default=None", a);
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

/* ---- The rest -------------------------------------------------------------------------------- */

static Value default_(JinjaRun *r, Value v, const Value *a)
{
    return is_undefined(v) || (truth(r, a[1]) && !truth(r, v)) ? a[0] : v;
}

static Value attr(JinjaRun *r, Value v, const Value *a)
{
    String *name = need_string(r, "attr", a[0]);
    if (is_undefined(v) || v.kind != V_DICT)
        return get_attribute(r, v, name);
    Dict none = { 0 }; /* the attributes alone, not the items */
    return get_attribute(r, (Value){ .kind = V_DICT, .dict = &none }, name);
}

static const Filter filters[] = {
    { "attr", "name", .with = attr },
    { "batch", "linecount fill_with=None", .with = batch },
    { "count", "", true, .plain = length },
    { "d", "default_value='' boolean=False", true, .with = default_ },
    { "default", "default_value='' boolean=False", true, .with = default_ },
    { "dictsort", "case_sensitive=False by='key' reverse=False", .with = dictsort },
    { "first", "", .plain = first },
    { "groupby", "attribute default=None case_sensitive=False", .with = groupby },
    { "items", "", .plain = items },
    { "join", "d='' attribute=None", true, .with = join_filter },
    { "last", "", .plain = last },
    { "length", "", true, .plain = length },
    { "list", "", .plain = list },
    { "map", .raw = map },
    { "max", "case_sensitive=False attribute=None", .with = max },
    { "min", "case_sensitive=False attribute=None", .with = min },
    { "reject", .raw = reject },
    { "rejectattr", .raw = rejectattr },
    { "reverse", "", .plain = reverse },
    { "select", .raw = select_ },
    { "selectattr", .raw = selectattr },
    { "slice", "slices fill_with=None", .with = slice },
    { "sort", "reverse=False case_sensitive=False attribute=None", .with = sort },
    { "sum", "attribute=None start=0", .with = sum },
    { "unique", "case_sensitive=False attribute=None", .with = unique },
    { .name = "e" }, { .name = "escape" }, { .name = "forceescape" }, { .name = "pprint" },
    { .name = "random" }, { .name = "striptags" }, { .name = "urlize" }, { .name = "wordwrap" },
    { .name = "xmlattr" }, { 0 },
};

static const Filter *find_filter(const String *name)
{
    const Filter *const tables[] = { filters, text_filters };
    for (int i = 0; i < 2; i++)
        for (const Filter *f = tables[i]; f->name; f++)
            if (string_is(name, f->name))
                return f;
    return NULL;
}

bool filter_exists(const String *name) { return find_filter(name) != NULL; }

Value apply_filter(JinjaRun *r, const String *name, Value v, const Args *args)
{
    const Filter *f = find_filter(name);
    Value         a[4] = { 0 };
    if (!f)
        jinja_fail(r, "there is no filter '%.*s'", (int)(name->n < 80 ? name->n : 80), name->s);
    if (!f->plain && !f->with && !f->raw)
        jinja_fail(r, "the filter '%s' is not supported", f->name);
    if (v.kind == V_STRING && v.s->safe && !f->safe)
        jinja_fail(r, "the filter '%s' of a safe text is not supported", f->name);
    jinja_enter(r);
    if (f->args)
        take_args(r, f->name, args, f->args, a);
    v = f->plain ? f->plain(r, v) : f->with ? f->with(r, v, a) : f->raw(r, v, args);
    r->depth--;
    return v;
}
