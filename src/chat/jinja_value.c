/* chat/jinja_value.c: the memory of a run, marked strings, lists and dicts, equality and order. */
#include "chat/jinja_parts.h"

#include <math.h>
#include <stdlib.h>
#include "base/memory.h"
#include "tokenizer/unicode.h"

/* ---- Errors and memory ----------------------------------------------------------------------- */

void jinja_fail(JinjaRun *r, const char *fmt, ...)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->at && i < r->n_source; i++) {
        bool continues = ((unsigned char)r->source[i] & 0xC0) == 0x80;
        column = r->source[i] == '\n' ? 1 : column + !continues;
        line += r->source[i] == '\n';
    }
    TextOut o = { 0 };
    va_list list;
    va_start(list, fmt);
    bool ok = text_out_list(&o, fmt, list);
    va_end(list);
    if (ok)
        fail(r->err, INPUT, "%s: line %zu, column %zu: %.*s", r->what, line, column,
             (int)(o.n < 400 ? o.n : 400), o.text);
    else
        no_memory(r->what, r->err);
    text_out_free(&o);
    longjmp(r->failed, 1);
}

void *jinja_alloc(JinjaRun *r, size_t n)
{
    enum { HEAD = 32, SMALL_BLOCK = 64 << 10 };
    if (n > JINJA_MEMORY)
        jinja_fail(r, "needs more than %d MB of memory", JINJA_MEMORY >> 20);
    n = round_up(n, 16);
    if (!r->blocks || r->blocks->cap - r->in_block < n) {
        size_t cap = n > SMALL_BLOCK / 4 ? n : SMALL_BLOCK;
        if (r->memory + cap + HEAD > JINJA_MEMORY)
            jinja_fail(r, "needs more than %d MB of memory", JINJA_MEMORY >> 20);
        struct Block *b = malloc(HEAD + cap);
        if (!b) {
            no_memory(r->what, r->err);
            longjmp(r->failed, 1);
        }
        r->memory += cap + HEAD;
        b->cap = cap;
        /* A large allocation gets its own block, after the one that small ones still fit. */
        if (cap != SMALL_BLOCK && r->blocks) {
            b->next = r->blocks->next;
            r->blocks->next = b;
            return memset((char *)b + HEAD, 0, n);
        }
        b->next = r->blocks;
        r->blocks = b;
        r->in_block = 0;
    }
    void *p = (char *)r->blocks + HEAD + r->in_block;
    r->in_block += n;
    return memset(p, 0, n);
}

void *jinja_array(JinjaRun *r, size_t n, size_t size)
{
    size_t all;
    if (!mul_size(n, size, &all))
        all = SIZE_MAX;
    return jinja_alloc(r, all);
}

void jinja_run_free(JinjaRun *r)
{
    for (struct Block *b = r->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    r->blocks = NULL;
}

void jinja_work(JinjaRun *r, size_t n)
{
    r->steps += n;
    if (r->steps > JINJA_STEPS)
        jinja_fail(r, "takes more than %d steps", JINJA_STEPS);
}

void jinja_enter(JinjaRun *r)
{
    jinja_work(r, 1);
    if (++r->depth > JINJA_DEPTH)
        jinja_fail(r, "nested or recursive deeper than %d levels", JINJA_DEPTH);
}

/* ---- Strings --------------------------------------------------------------------------------- */

String *string_new(JinjaRun *r, const char *s, const char *mark, size_t n)
{
    String *t = jinja_alloc(r, sizeof *t);
    *t = (String){ .s = s, .mark = mark, .n = n, .n_chars = NOT_COUNTED };
    return t;
}

String *string_part(JinjaRun *r, const String *s, size_t from, size_t to)
{
    if (to < from)
        to = from;
    return string_new(r, s->s + from, s->mark ? s->mark + from : NULL, to - from);
}

Value v_text(JinjaRun *r, const char *s) { return v_string(string_new(r, s, NULL, strlen(s))); }

Value v_undefined(JinjaRun *r, const char *why, const char *name, size_t n)
{
    StringBuffer *b = buffer_new(r);
    buffer_text(r, b, "'");
    buffer_add(r, b, name, NULL, n < 100 ? valid_prefix(name, n < 100 ? n : 100) : 0);
    buffer_text(r, b, "' ");
    buffer_text(r, b, why);
    return (Value){ .kind = V_UNDEFINED, .s = buffer_take(r, b) };
}

size_t string_chars(JinjaRun *r, String *s)
{
    if (s->n_chars == NOT_COUNTED) {
        jinja_work(r, s->n / 16 + 1);
        s->n_chars = 0;
        for (size_t i = 0; i < s->n; i++)
            s->n_chars += ((unsigned char)s->s[i] & 0xC0) != 0x80;
    }
    return s->n_chars;
}

size_t string_byte(JinjaRun *r, String *s, size_t ch)
{
    if (string_chars(r, s) == s->n)
        return ch < s->n ? ch : s->n;
    size_t i = 0;
    for (; i < s->n; i++)
        if (((unsigned char)s->s[i] & 0xC0) != 0x80 && ch-- == 0)
            break;
    jinja_work(r, i / 16);
    return i;
}

bool string_is(const String *s, const char *text)
{
    return s->n == strlen(text) && memcmp(s->s, text, s->n) == 0;
}

bool string_same(const String *a, const String *b)
{
    return a->n == b->n && (a->s == b->s || memcmp(a->s, b->s, a->n) == 0);
}

size_t string_find(JinjaRun *r, const String *s, const String *part, size_t from)
{
    if (from > s->n || part->n > s->n - from)
        return SIZE_MAX;
    if (part->n == 0)
        return from;
    const char *hit = memmem(s->s + from, s->n - from, part->s, part->n);
    size_t at = hit ? (size_t)(hit - s->s) : SIZE_MAX;
    jinja_work(r, ((hit ? at : s->n) - from) / 16 + 1);
    return at;
}

StringBuffer *buffer_new(JinjaRun *r) { return jinja_alloc(r, sizeof(StringBuffer)); }

void buffer_add(JinjaRun *r, StringBuffer *b, const char *s, const char *mark, size_t n)
{
    if (n > JINJA_MEMORY)
        jinja_fail(r, "needs more than %d MB of memory", JINJA_MEMORY >> 20);
    if (n > b->cap - b->n) {
        size_t cap = b->n ? 2 * (b->n + n) : n;
        char  *text = jinja_array(r, 2, cap);
        if (b->n) {
            memcpy(text, b->s, b->n);
            memcpy(text + cap, b->mark, b->n);
        }
        b->s = text, b->mark = text + cap, b->cap = cap;
    }
    jinja_work(r, n / 16);
    if (n) {
        memcpy(b->s + b->n, s, n);
        if (mark)
            memcpy(b->mark + b->n, mark, n);
        else
            memset(b->mark + b->n, 0, n);
    }
    b->n += n;
}

void buffer_text(JinjaRun *r, StringBuffer *b, const char *s)
{
    buffer_add(r, b, s, NULL, strlen(s));
}

void buffer_char(JinjaRun *r, StringBuffer *b, uint32_t c, bool mark)
{
    static const char own[4] = { 1, 1, 1, 1 };
    char text[4];
    buffer_add(r, b, text, mark ? own : NULL, character_write(c, text));
}

void buffer_string(JinjaRun *r, StringBuffer *b, const String *s)
{
    buffer_add(r, b, s->s, s->mark, s->n);
}

void buffer_fill(JinjaRun *r, StringBuffer *b, const String *s, size_t times)
{
    size_t n;
    if (!mul_size(s->n, times, &n) || n > JINJA_MEMORY)
        jinja_fail(r, "needs more than %d MB of memory", JINJA_MEMORY >> 20);
    for (size_t i = 0; i < times && s->n; i++) {
        jinja_work(r, 1);
        buffer_string(r, b, s);
    }
}

String *buffer_take(JinjaRun *r, StringBuffer *b)
{
    String *s = string_new(r, b->n ? b->s : "", b->mark, b->n);
    s->buffer = b;
    return s;
}

/* Appending to a string that was made by appending extends it in its buffer. Templates collect long
 * answers this way, which would otherwise take time quadratic in their length. */
String *string_join2(JinjaRun *r, String *a, const String *b)
{
    StringBuffer *buffer = a->buffer;
    if (!buffer || buffer->n != a->n || buffer->s != a->s || buffer == r->out) {
        buffer = buffer_new(r);
        buffer_string(r, buffer, a);
    }
    buffer_string(r, buffer, b);
    return buffer_take(r, buffer);
}

StringBuffer *output_begin(JinjaRun *r)
{
    StringBuffer *outer = r->out;
    r->out = buffer_new(r);
    return outer;
}

String *output_end(JinjaRun *r, StringBuffer *outer)
{
    StringBuffer *b = r->out;
    r->out = outer;
    return buffer_take(r, b);
}

/* ---- Lists and dicts ------------------------------------------------------------------------- */

List *list_new(JinjaRun *r, size_t n)
{
    List *l = jinja_alloc(r, sizeof *l);
    l->item = n ? jinja_array(r, n, sizeof(Value)) : NULL;
    l->n = n;
    return l;
}

/* The capacity is the next power of two: n itself shows when it is full. */
void list_add(JinjaRun *r, List *l, Value v)
{
    if ((l->n & (l->n - 1)) == 0) {
        Value *item = jinja_array(r, l->n ? 2 * l->n : 1, sizeof *item);
        if (l->n)
            memcpy(item, l->item, l->n * sizeof *item);
        l->item = item;
    }
    l->item[l->n++] = v;
}

Dict *dict_new(JinjaRun *r) { return jinja_alloc(r, sizeof(Dict)); }

bool hashable(Value v)
{
    if (v.kind == V_TUPLE)
        for (size_t i = 0; i < v.list->n; i++)
            if (!hashable(v.list->item[i]))
                return false;
    return v.kind != V_LIST && v.kind != V_DICT;
}

Value *dict_name(const Dict *d, const char *s, size_t n)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->key[i].kind == V_STRING && d->key[i].s->n == n
            && memcmp(d->key[i].s->s, s, n) == 0)
            return &d->value[i];
    return NULL;
}

Value *dict_find(JinjaRun *r, const Dict *d, Value key)
{
    jinja_work(r, d->n / 8 + 1);
    if (key.kind == V_STRING)
        return dict_name(d, key.s->s, key.s->n);
    for (size_t i = 0; i < d->n; i++)
        if (equal(r, d->key[i], key))
            return &d->value[i];
    return NULL;
}

void dict_put_new(JinjaRun *r, Dict *d, Value key, Value value)
{
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 4;
        Value *k = jinja_array(r, cap, sizeof *k), *v = jinja_array(r, cap, sizeof *v);
        if (d->n) {
            memcpy(k, d->key, d->n * sizeof *k);
            memcpy(v, d->value, d->n * sizeof *v);
        }
        d->key = k, d->value = v, d->cap = cap;
    }
    d->key[d->n] = key;
    d->value[d->n++] = value;
}

void dict_put(JinjaRun *r, Dict *d, Value key, Value value)
{
    if (!hashable(key))
        jinja_fail(r, "unhashable type: '%s'", type_name(key));
    Value *old = dict_find(r, d, key);
    if (old)
        *old = value;
    else
        dict_put_new(r, d, key, value);
}

Value v_iter(JinjaRun *r, List *l)
{
    Iter *it = jinja_alloc(r, sizeof *it);
    it->source = v_list(l);
    return (Value){ .kind = V_ITER, .iter = it };
}

Value v_view(JinjaRun *r, char kind, Dict *d)
{
    View *view = jinja_alloc(r, sizeof *view);
    *view = (View){ kind, d };
    return (Value){ .kind = V_VIEW, .view = view };
}

Value range_item(const JinjaRange *g, size_t i) { return v_int(g->start + (int64_t)i * g->step); }

static bool is_role(const JinjaRun *r, const JsonNode *j)
{
    if (j->key_n == 4 && memcmp(j->key, "role", 4) == 0)
        for (const char *const *name = r->roles; name && *name; name++)
            if (node_is(j, *name))
                return true;
    return false;
}

Value from_json(JinjaRun *r, const JsonNode *j, bool own)
{
    Dict *d = j->kind == NODE_OBJECT ? dict_new(r) : NULL;
    List *l = j->kind == NODE_ARRAY ? list_new(r, j->n) : NULL;
    size_t n = 0;
    jinja_work(r, 1);
    switch (j->kind) {
    case NODE_NULL: return v_none();
    case NODE_FALSE: return v_bool(false);
    case NODE_TRUE: return v_bool(true);
    case NODE_INT: return v_int(j->integer);
    case NODE_DOUBLE:
        if (fabs(j->number) >= 1e18)
            jinja_fail(r, "a number of 10^18 or more is not supported");
        return v_float(j->number);
    case NODE_STRING: {
        char *mark = own && j->n ? memset(jinja_alloc(r, j->n), 1, j->n) : NULL;
        return v_string(string_new(r, j->text, mark, j->n));
    }
    case NODE_ARRAY:
        JSON_NODES (i, j)
            l->item[n++] = from_json(r, i, own);
        return v_list(l);
    default:
        JSON_NODES (i, j)
            dict_put_new(r, d, v_string(string_new(r, i->key, NULL, i->key_n)),
                         from_json(r, i, own || is_role(r, i)));
        return (Value){ .kind = V_DICT, .dict = d };
    }
}

/* ---- What values are ------------------------------------------------------------------------- */

const char *type_name(Value v)
{
    static const char *const names[] = {
        [V_MISSING] = "nothing", [V_UNDEFINED] = "Undefined", [V_NONE] = "NoneType",
        [V_BOOL] = "bool", [V_INT] = "int", [V_FLOAT] = "float", [V_STRING] = "str",
        [V_LIST] = "list", [V_TUPLE] = "tuple", [V_DICT] = "dict", [V_RANGE] = "range",
        [V_VIEW] = "dict view", [V_ITER] = "generator", [V_NAMESPACE] = "Namespace",
        [V_MACRO] = "Macro", [V_LOOP] = "LoopContext", [V_METHOD] = "method",
        [V_GLOBAL] = "function", [V_CYCLER] = "Cycler", [V_JOINER] = "Joiner",
    };
    return names[v.kind];
}

bool is_number(Value v) { return v.kind == V_BOOL || v.kind == V_INT || v.kind == V_FLOAT; }
bool is_undefined(Value v) { return v.kind == V_UNDEFINED; }

double as_double(Value v)
{
    return v.kind == V_FLOAT ? v.f : v.kind == V_BOOL ? (double)v.truth : (double)v.i;
}

size_t length_of(JinjaRun *r, Value v)
{
    switch (v.kind) {
    case V_UNDEFINED: return 0;
    case V_STRING: return string_chars(r, v.s);
    case V_LIST: case V_TUPLE: return v.list->n;
    case V_DICT: return v.dict->n;
    case V_RANGE: return v.range->n;
    case V_VIEW: return v.view->dict->n;
    case V_LOOP: return loop_length(r, v.loop);
    default: return SIZE_MAX;
    }
}

bool truth(JinjaRun *r, Value v)
{
    switch (v.kind) {
    case V_MISSING: case V_NONE: return false;
    case V_BOOL: return v.truth;
    case V_INT: return v.i != 0;
    case V_FLOAT: return v.f != 0;
    case V_STRING: return v.s->n > 0;
    default: return length_of(r, v) != 0;
    }
}

/* An int and a double, exactly: a double may not hold the int. */
static int compare_mixed(int64_t i, double f)
{
    if (isnan(f))
        return 2;
    if (f >= 0x1p63)
        return -1;
    if (f < -0x1p63)
        return 1;
    int64_t whole = (int64_t)f;
    double  rest = f - (double)whole;
    return i < whole ? -1 : i > whole ? 1 : rest > 0 ? -1 : rest < 0;
}

static int compare_numbers(Value a, Value b)
{
    if (a.kind == V_FLOAT && b.kind == V_FLOAT)
        return isnan(a.f) || isnan(b.f) ? 2 : a.f < b.f ? -1 : a.f > b.f;
    int64_t i = a.kind == V_BOOL ? a.truth : a.i, k = b.kind == V_BOOL ? b.truth : b.i;
    if (b.kind == V_FLOAT)
        return compare_mixed(i, b.f);
    if (a.kind == V_FLOAT) {
        int c = compare_mixed(k, a.f);
        return c == 2 ? 2 : -c;
    }
    return i < k ? -1 : i > k;
}

static bool equal_dicts(JinjaRun *r, const Dict *a, const Dict *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) {
        Value *other = dict_find(r, b, a->key[i]);
        same = other && equal(r, a->value[i], *other);
    }
    return same;
}

static bool equal_ranges(const JinjaRange *a, const JinjaRange *b)
{
    return a->n == b->n && (a->n == 0 || a->start == b->start)
        && (a->n <= 1 || a->step == b->step);
}

bool equal(JinjaRun *r, Value a, Value b)
{
    bool same = false;
    if (is_number(a) && is_number(b))
        return compare_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    jinja_enter(r);
    switch (a.kind) {
    case V_UNDEFINED: case V_NONE: same = true; break;
    case V_STRING:
        jinja_work(r, a.s->n / 16);
        same = string_same(a.s, b.s);
        break;
    case V_LIST: case V_TUPLE:
        same = a.list->n == b.list->n;
        for (size_t i = 0; same && i < a.list->n; i++)
            same = equal(r, a.list->item[i], b.list->item[i]);
        break;
    case V_DICT: same = equal_dicts(r, a.dict, b.dict); break;
    case V_RANGE: same = equal_ranges(a.range, b.range); break;
    case V_METHOD:
        same = a.method->name == b.method->name && a.method->self.any == b.method->self.any;
        break;
    case V_GLOBAL: same = a.global == b.global; break;
    case V_VIEW:
        if (a.view->kind != 'v')
            jinja_fail(r, "comparing views of dicts is not supported");
        same = a.any == b.any;
        break;
    default: same = a.any == b.any;
    }
    r->depth--;
    return same;
}

static int compare_lists(JinjaRun *r, const List *a, const List *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++)
        if (!equal(r, a->item[i], b->item[i]))
            return compare(r, a->item[i], b->item[i]);
    return a->n < b->n ? -1 : a->n > b->n;
}

int compare(JinjaRun *r, Value a, Value b)
{
    int c = 0;
    if (is_number(a) && is_number(b))
        return compare_numbers(a, b);
    jinja_enter(r);
    if (a.kind == V_STRING && b.kind == V_STRING) {
        size_t n = a.s->n < b.s->n ? a.s->n : b.s->n;
        jinja_work(r, n / 16);
        c = n ? memcmp(a.s->s, b.s->s, n) : 0; /* the order of UTF-8 is that of its characters */
        c = c ? (c > 0) - (c < 0) : a.s->n < b.s->n ? -1 : a.s->n > b.s->n;
    } else if (a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE)) {
        c = compare_lists(r, a.list, b.list);
    } else if (is_undefined(a) || is_undefined(b)) {
        const String *why = is_undefined(a) ? a.s : b.s;
        jinja_fail(r, "%.*s", (int)why->n, why->s);
    } else {
        jinja_fail(r, "cannot order '%s' and '%s'", type_name(a), type_name(b));
    }
    r->depth--;
    return c;
}

static bool range_contains(JinjaRun *r, const JinjaRange *g, Value x)
{
    for (size_t i = 0; i < g->n; i++) {
        jinja_work(r, 1);
        if (equal(r, range_item(g, i), x))
            return true;
    }
    return false;
}

bool contains(JinjaRun *r, Value in, Value x)
{
    if (in.kind == V_STRING) {
        if (x.kind != V_STRING)
            jinja_fail(r, "'in <string>' requires string as left operand, not %s", type_name(x));
        return string_find(r, in.s, x.s, 0) != SIZE_MAX;
    }
    bool keys = in.kind == V_DICT || (in.kind == V_VIEW && in.view->kind == 'k');
    if (keys) {
        if (!hashable(x))
            jinja_fail(r, "unhashable type: '%s'", type_name(x));
        return dict_find(r, in.kind == V_DICT ? in.dict : in.view->dict, x) != NULL;
    }
    if (in.kind == V_RANGE)
        return range_contains(r, in.range, x);
    Iter *it = iter_begin(r, in);
    for (Value v; iter_next(r, it, &v);)
        if (equal(r, v, x))
            return true;
    return false;
}

List *to_list(JinjaRun *r, Value v)
{
    if (v.kind == V_LIST || v.kind == V_TUPLE)
        return v.list;
    List *l = list_new(r, 0);
    Iter *it = iter_begin(r, v);
    for (Value x; iter_next(r, it, &x);)
        list_add(r, l, x);
    return l;
}
