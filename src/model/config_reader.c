/* model/config_reader.c: reads the keys of a config, in JSON or in the metadata of a GGUF file,
 * through the table of config_keys.c. */
#include "model/config_keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Messages -------------------------------------------------------------------------------- */

const char *key_what(KeyReader *r, const char *name)
{
    snprintf(r->what, sizeof r->what, "%s: %s%s%s", r->path, r->gguf ? "key " : "", r->prefix,
             name);
    return r->what;
}

bool key_wrong(KeyReader *r, const char *name, const char *fmt, ...)
{
    char    text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail(r->err, INPUT, "%s: %s", key_what(r, name), text);
}

const char *key_found(const Json *j, char *buf, size_t n)
{
    const char *text;
    double      x;
    if (json_is_number(j) && json_read_double(j, "", -INFINITY, INFINITY, &x, NULL))
        snprintf(buf, n, "%.9g", x);
    else if (json_is_string(j) && json_read_string(j, "", &text, NULL))
        snprintf(buf, n, "'%s'", text);
    else
        snprintf(buf, n, "%s%s", json_is_array(j) || json_is_object(j) ? "an " : "", json_kind(j));
    return buf;
}

/* ---- Which value ----------------------------------------------------------------------------- */

static const Json *look(const KeyReader *r, const char *name)
{
    for (const char *const *o = r->outer ? r->of_outer : NULL; o && *o; o++) {
        const Json *j = strcmp(*o, name) == 0 ? json_get(r->outer, name) : NULL;
        if (j && !json_is_null(j))
            return j;
    }
    return json_get(r->json, name);
}

const Json *key_take(KeyReader *r, const char *name)
{
    const Json *j = look(r, name);
    if (j && r->n_taken < KEYS_TAKEN)
        r->taken[r->n_taken++] = json_key(j);
    return j;
}

bool key_same(const Json *a, const Json *b)
{
    const char *s, *t;
    double      x, y;
    if (a == b)
        return true;
    if (json_is_string(a) && json_is_string(b))
        return json_read_string(a, "", &s, NULL) && json_read_string(b, "", &t, NULL)
            && strcmp(s, t) == 0;
    if (json_is_number(a) && json_is_number(b))
        return json_read_double(a, "", -INFINITY, INFINITY, &x, NULL)
            && json_read_double(b, "", -INFINITY, INFINITY, &y, NULL) && x == y;
    return strcmp(json_kind(a), json_kind(b)) == 0 && json_count(a) == 0 && json_count(b) == 0;
}

bool key_take_any(KeyReader *r, const char *names, const Json **out, const char **found)
{
    char all[128], *rest = all;
    snprintf(all, sizeof all, "%s", names);
    *out   = NULL;
    *found = names;
    for (char *name; (name = strsep(&rest, "|")) != NULL;) {
        const Json *j = key_take(r, name);
        bool        null = !j || json_is_null(j);
        char        a[80], b[80];
        if (!null && *out && !json_is_null(*out) && !key_same(j, *out))
            return key_wrong(r, name, "expected the same as %s, %s, found %s", *found,
                             key_found(*out, a, sizeof a), key_found(j, b, sizeof b));
        if (j && (!*out || (json_is_null(*out) && !null))) {
            *out   = j;
            *found = json_key(j);
        }
    }
    return true;
}

const Json *key_left(const KeyReader *r, const Json *at)
{
    for (const Json *i = at ? json_next(at) : json_first(r->json); i; i = json_next(i)) {
        bool taken = false;
        for (size_t t = 0; t < r->n_taken && !taken; t++)
            taken = strcmp(r->taken[t], json_key(i)) == 0;
        if (!taken)
            return i;
    }
    return NULL;
}

/* ---- Values ---------------------------------------------------------------------------------- */

const char *gguf_name(const KeyReader *r, const char *name, char buf[GGUF_NAME])
{
    snprintf(buf, GGUF_NAME, "%s%s", r->prefix, name);
    return buf;
}

bool key_there(const KeyReader *r, const char *name)
{
    char full[GGUF_NAME];
    return gguf_find(r->gguf, gguf_name(r, name, full)) != NULL;
}

bool key_int(KeyReader *r, const char *name, const Json *j, int min, int max, int *out)
{
    char    full[GGUF_NAME];
    int64_t v;
    if (!(r->gguf ? gguf_read_int(r->gguf, gguf_name(r, name, full), min, max, &v, r->err)
                  : json_read_int(j, key_what(r, name), min, max, &v, r->err)))
        return false;
    *out = (int)v;
    return true;
}

bool key_size(KeyReader *r, const char *name, const Json *j, int *out)
{
    return key_int(r, name, j, 1, KEY_LARGEST, out);
}

bool key_number(KeyReader *r, const char *name, const Json *j, double *out)
{
    char full[GGUF_NAME];
    return r->gguf ? gguf_read_number(r->gguf, gguf_name(r, name, full), out, r->err)
                   : json_read_double(j, key_what(r, name), -INFINITY, INFINITY, out, r->err);
}

bool key_bool(KeyReader *r, const char *name, const Json *j, bool *out)
{
    char full[GGUF_NAME];
    return r->gguf ? gguf_read_bool(r->gguf, gguf_name(r, name, full), out, r->err)
                   : json_read_bool(j, key_what(r, name), out, r->err);
}

/* Read a size that a GGUF file lists for each layer. All must be the same. */
static bool layer_size(KeyReader *r, const char *name, int *out)
{
    char     full[GGUF_NAME];
    int32_t *v;
    size_t   n;
    if (!gguf_read_ints(r->gguf, gguf_name(r, name, full), &v, &n, r->err))
        return false;
    bool same = n > 0;
    for (size_t i = 1; same && i < n; i++)
        same = v[i] == v[0];
    if (same)
        *out = v[0];
    free(v);
    return same || key_wrong(r, name, "expected the same number for all layers, found others");
}

bool key_read(KeyReader *r, const ConfigKey *key, const char *name, const Json *j, void *base)
{
    void *field = (char *)base + key->at;
    char  full[GGUF_NAME];
    if (r->gguf && key->flags & KEY_PER_LAYER
        && gguf_find(r->gguf, gguf_name(r, name, full))->type == GGUF_ARRAY)
        return layer_size(r, name, field);
    if (key->kind == KEY_BOOL)
        return key_bool(r, name, j, field);
    if (key->kind == KEY_INT)
        return key_int(r, name, j, r->gguf ? 0 : (int)key->min,
                       r->gguf ? KEY_LARGEST : (int)key->max, field);
    return r->gguf ? key_number(r, name, j, field)
                   : json_read_double(j, key_what(r, name), key->min, key->max, field, r->err);
}
