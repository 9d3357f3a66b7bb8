/* Reads the key-values of a GGUF file with a cursor that checks every step, sorts them, and looks
 * them up by key. */
#include "format/gguf.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_KEY     = 65535,   /* limit of the specification */
    MAX_ENTRIES = 1 << 20, /* models have fewer than a hundred */
    MAX_DEPTH   = 8        /* nested arrays */
};

/* bytes 0: the length is in the file. */
static const struct {
    const char *name;
    size_t      bytes;
} types[GGUF_TYPES] = {
    [GGUF_U8] = { "u8", 1 },   [GGUF_I8] = { "i8", 1 },     [GGUF_U16] = { "u16", 2 },
          [GGUF_I16] = { "i16", 2 },
    [GGUF_U32] = { "u32", 4 }, [GGUF_I32] = { "i32", 4 },   [GGUF_F32] = { "f32", 4 },
          [GGUF_BOOL] = { "bool", 1 },
    [GGUF_U64] = { "u64", 8 }, [GGUF_I64] = { "i64", 8 },   [GGUF_F64] = { "f64", 8 },
          [GGUF_STRING] = { "string", 0 },
    [GGUF_ARRAY] = { "array", 0 },
};

const char *gguf_type_name(GgufType t) { return types[t].name; }

bool gguf_string_is(GgufString s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.bytes, text, s.n) == 0;
}

/* ---- The cursor ------------------------------------------------------------------------------ */

bool gguf_take(GgufCursor *c, const char *what, size_t n_bytes, const void **out)
{
    if (n_bytes > c->size - c->at)
        return fail(c->err, INPUT, "%s: %s: %s: expected %zu bytes at byte %zu, found %zu before "
                                   "the end of the file (cut short?)",
                    c->path, c->where, what, n_bytes, c->at, c->size - c->at);
    *out = c->data + c->at;
    c->at += n_bytes;
    return true;
}

bool gguf_take_u32(GgufCursor *c, const char *what, uint32_t *out)
{
    const void *p = NULL;
    return gguf_take(c, what, sizeof *out, &p) && memcpy(out, p, sizeof *out);
}

bool gguf_take_u64(GgufCursor *c, const char *what, uint64_t *out)
{
    const void *p = NULL;
    return gguf_take(c, what, sizeof *out, &p) && memcpy(out, p, sizeof *out);
}

bool gguf_take_string(GgufCursor *c, const char *what, size_t max_bytes, GgufString *out)
{
    uint64_t    n;
    const void *p = NULL;
    if (!gguf_take_u64(c, what, &n))
        return false;
    if (n > max_bytes)
        return fail(c->err, INPUT, "%s: %s: %s: expected at most %zu bytes, found a length of %llu",
                    c->path, c->where, what, max_bytes, (unsigned long long)n);
    if (!gguf_take(c, what, (size_t)n, &p))
        return false;
    *out = (GgufString){ p, (size_t)n };
    return true;
}

bool gguf_check_count(const GgufCursor *c, const char *what, uint64_t n, size_t limit,
                      size_t least_bytes)
{
    size_t fit = (c->size - c->at) / least_bytes;
    if (n <= fit && n <= limit)
        return true;
    return fail(c->err, INPUT, "%s: %s: expected at most %zu %s (%s), found %llu", c->path,
                c->where, fit < limit ? fit : limit, what,
                fit < limit ? "what the rest of the file can hold; cut short?"
                            : "a limit of this reader",
                (unsigned long long)n);
}

/* ---- Reading key-values ---------------------------------------------------------------------- */

static bool take_type(GgufCursor *c, const char *what, GgufType *out)
{
    uint32_t type;
    if (!gguf_take_u32(c, what, &type))
        return false;
    if (type >= GGUF_TYPES)
        return fail(c->err, INPUT, "%s: %s: %s: expected 0 to %d, found %u", c->path, c->where,
                    what, GGUF_TYPES - 1, type);
    *out = (GgufType)type;
    return true;
}

/* Minimum bytes of one item of a type in the file. */
static size_t least_bytes(GgufType t)
{
    return t == GGUF_STRING ? 8 : t == GGUF_ARRAY ? 12 : types[t].bytes;
}

static bool take_array_head(GgufCursor *c, GgufType *item, size_t *n_items)
{
    uint64_t n;
    if (!take_type(c, "type of the array's items", item)
        || !gguf_take_u64(c, "length of the array", &n))
        return false;
    if (!gguf_check_count(c, "array items", n, INT_MAX, least_bytes(*item)))
        return false;
    *n_items = (size_t)n;
    return true;
}

static bool skip_items(GgufCursor *c, GgufType item, size_t n, int depth)
{
    const void *p;
    GgufString  s;
    /* No overflow: take_array_head has compared n with the file's size. */
    if (types[item].bytes)
        return gguf_take(c, "items of the array", n * types[item].bytes, &p);
    if (depth == MAX_DEPTH)
        return fail(c->err, INPUT, "%s: %s: expected arrays at most %d deep", c->path, c->where,
                    MAX_DEPTH);
    for (size_t i = 0; i < n; i++) {
        GgufType inner;
        size_t   n_inner;
        bool     ok = item == GGUF_STRING
                ? gguf_take_string(c, "a string of the array", SIZE_MAX, &s)
                : take_array_head(c, &inner, &n_inner) && skip_items(c, inner, n_inner, depth + 1);
        if (!ok)
            return false;
    }
    return true;
}

static bool take_value(GgufCursor *c, GgufEntry *e)
{
    GgufString s;
    switch (e->type) {
    case GGUF_STRING:
        e->value = c->data + c->at;
        return gguf_take_string(c, "string", SIZE_MAX, &s);
    case GGUF_ARRAY:
        if (!take_array_head(c, &e->item, &e->n_items))
            return false;
        e->value = c->data + c->at;
        return skip_items(c, e->item, e->n_items, 0);
    default:
        return gguf_take(c, "value", types[e->type].bytes, &e->value);
    }
}

static bool take_entry(GgufCursor *c, GgufEntry *e)
{
    if (!gguf_take_string(c, "name", MAX_KEY, &e->key))
        return false;
    snprintf(c->where, sizeof c->where, "key %.*s", (int)(e->key.n < 150 ? e->key.n : 150),
             e->key.bytes);
    if (!take_type(c, "type", &e->type) || !take_value(c, e))
        return false;
    if (e->type == GGUF_BOOL && *(const unsigned char *)e->value > 1)
        return fail(c->err, INPUT, "%s: %s: expected a bool of 0 or 1, found %d", c->path, c->where,
                    *(const unsigned char *)e->value);
    return true;
}

static int compare(GgufString a, GgufString b)
{
    int order = memcmp(a.bytes, b.bytes, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int by_key(const void *a, const void *b)
{
    return compare(((const GgufEntry *)a)->key, ((const GgufEntry *)b)->key);
}

bool gguf_meta_take(GgufMeta *m, GgufCursor *c, uint64_t n)
{
    enum { LEAST = 8 + 4 + 1 }; /* length of the key, type, value */
    if (!gguf_check_count(c, "key-values", n, MAX_ENTRIES, LEAST))
        return false;
    m->path = c->path;
    m->entry = calloc((size_t)n + 1, sizeof *m->entry);
    if (!m->entry)
        return fail(c->err, SYSTEM, "%s: out of memory for %llu key-values", c->path,
                    (unsigned long long)n);
    for (m->n_entries = 0; m->n_entries < n; m->n_entries++) {
        snprintf(c->where, sizeof c->where, "key %zu of %llu", m->n_entries + 1,
                 (unsigned long long)n);
        if (!take_entry(c, &m->entry[m->n_entries]))
            return false;
    }
    qsort(m->entry, m->n_entries, sizeof *m->entry, by_key);
    for (size_t i = 1; i < m->n_entries; i++)
        if (compare(m->entry[i - 1].key, m->entry[i].key) == 0)
            return fail(c->err, INPUT, "%s: key %.*s appears twice", c->path,
                        (int)m->entry[i].key.n, m->entry[i].key.bytes);
    return true;
}

/* ---- Looking up ------------------------------------------------------------------------------ */

static int find_key(const void *key, const void *entry)
{
    return compare(*(const GgufString *)key, ((const GgufEntry *)entry)->key);
}

const GgufEntry *gguf_find(const GgufMeta *m, const char *key)
{
    GgufString wanted = { key, strlen(key) };
    return m->n_entries ? bsearch(&wanted, m->entry, m->n_entries, sizeof *m->entry, find_key)
                        : NULL;
}

/* Fail because the key is not what was expected; e NULL: there is no such key. */
static bool unexpected(const GgufMeta *m, const char *key, const char *expected, const GgufEntry *e,
                       Error *err)
{
    if (!e)
        return fail(err, INPUT, "%s: key %s: expected %s, found no such key", m->path, key,
                    expected);
    bool array = e->type == GGUF_ARRAY;
    return fail(err, INPUT, "%s: key %s: expected %s, found %s%s", m->path, key, expected,
                array ? "an array of " : "", types[array ? e->item : e->type].name);
}

static bool is_array(const GgufEntry *e, GgufType item)
{
    return e && e->type == GGUF_ARRAY && e->item == item;
}

/* take_value has checked the bytes. */
static GgufString string_at(const void *value)
{
    uint64_t n;
    memcpy(&n, value, sizeof n);
    return (GgufString){ (const char *)value + sizeof n, (size_t)n };
}

bool gguf_read_string(const GgufMeta *m, const char *key, GgufString *out, Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    if (!e || e->type != GGUF_STRING)
        return unexpected(m, key, "a string", e, err);
    *out = string_at(e->value);
    return true;
}

bool gguf_read_bool(const GgufMeta *m, const char *key, bool *out, Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    if (!e || e->type != GGUF_BOOL)
        return unexpected(m, key, "a bool", e, err);
    *out = *(const unsigned char *)e->value != 0;
    return true;
}

/* Read an integer. *too_large: a u64 that int64_t cannot hold. False: not an integer type. */
static bool integer_at(GgufType t, const void *value, int64_t *out, bool *too_large)
{
#define AS(type) { type v; memcpy(&v, value, sizeof v); *out = (int64_t)v; return true; }
    uint64_t large;
    *too_large = false;
    switch (t) {
    case GGUF_U8: AS(uint8_t)
    case GGUF_I8: AS(int8_t)
    case GGUF_U16: AS(uint16_t)
    case GGUF_I16: AS(int16_t)
    case GGUF_U32: AS(uint32_t)
    case GGUF_I32: AS(int32_t)
    case GGUF_I64: AS(int64_t)
    case GGUF_U64:
        memcpy(&large, value, sizeof large);
        *too_large = large > INT64_MAX;
        *out = *too_large ? INT64_MAX : (int64_t)large;
        return true;
    default: return false;
    }
#undef AS
}

bool gguf_read_int(const GgufMeta *m, const char *key, int64_t min, int64_t max, int64_t *out,
                   Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    int64_t          value;
    bool             too_large;
    if (!e || !integer_at(e->type, e->value, &value, &too_large))
        return unexpected(m, key, "an integer", e, err);
    if (too_large || value < min || value > max)
        return fail(err, INPUT, "%s: key %s: expected an integer from %lld to %lld, found %s%lld",
                    m->path, key, (long long)min, (long long)max, too_large ? "more than " : "",
                    (long long)value);
    *out = value;
    return true;
}

bool gguf_read_number(const GgufMeta *m, const char *key, double *out, Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    float            single;
    double           value;
    if (!e || (e->type != GGUF_F32 && e->type != GGUF_F64))
        return unexpected(m, key, "a number (f32 or f64)", e, err);
    if (e->type == GGUF_F32)
        value = memcpy(&single, e->value, sizeof single) ? (double)single : 0;
    else
        memcpy(&value, e->value, sizeof value);
    if (value - value != 0) /* infinite or NaN */
        return fail(err, INPUT, "%s: key %s: expected a finite number, found %g", m->path, key,
                    value);
    *out = value;
    return true;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

static void *array_memory(const GgufMeta *m, const char *key, size_t n, size_t size, Error *err)
{
    void *memory = calloc(n ? n : 1, size);
    if (!memory)
        fail(err, SYSTEM, "%s: key %s: out of memory for an array of %zu", m->path, key, n);
    return memory;
}

bool gguf_read_strings(const GgufMeta *m, const char *key, GgufString **out, size_t *n, Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    if (!is_array(e, GGUF_STRING))
        return unexpected(m, key, "an array of string", e, err);
    GgufString *list = array_memory(m, key, e->n_items, sizeof *list, err);
    if (!list)
        return false;
    const char *at = e->value;
    for (size_t i = 0; i < e->n_items; i++) {
        list[i] = string_at(at);
        at = list[i].bytes + list[i].n;
    }
    *out = list;
    *n = e->n_items;
    return true;
}

bool gguf_read_floats(const GgufMeta *m, const char *key, float **out, size_t *n, Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    if (!is_array(e, GGUF_F32))
        return unexpected(m, key, "an array of f32", e, err);
    float *list = array_memory(m, key, e->n_items, sizeof *list, err);
    if (!list)
        return false;
    memcpy(list, e->value, e->n_items * sizeof *list);
    *out = list;
    *n = e->n_items;
    return true;
}

bool gguf_read_ints(const GgufMeta *m, const char *key, int32_t **out, size_t *n, Error *err)
{
    const GgufEntry *e = gguf_find(m, key);
    if (!e || e->type != GGUF_ARRAY || e->item == GGUF_F32 || e->item == GGUF_F64
        || !types[e->item].bytes)
        return unexpected(m, key, "an array of integers", e, err);
    GgufType item = e->item == GGUF_BOOL ? GGUF_U8 : e->item;
    int32_t *list = array_memory(m, key, e->n_items, sizeof *list, err);
    if (!list)
        return false;
    for (size_t i = 0; i < e->n_items; i++) {
        int64_t value = 0;
        bool    too_large;
        (void)integer_at(item, (const char *)e->value + i * types[item].bytes, &value, &too_large);
        if (value < INT32_MIN || value > INT32_MAX) {
            free(list);
            return fail(err, INPUT,
                        "%s: key %s: item %zu: expected an integer from %d to %d, found %lld",
                        m->path, key, i, INT32_MIN, INT32_MAX, (long long)value);
        }
        list[i] = (int32_t)value;
    }
    *out = list;
    *n = e->n_items;
    return true;
}
