/* serve/fields.c: reads the members of a request by a table, and reports bad ones by name. */
#include "serve/server.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WHERE = 96, MOST_NAME = 64 };

/* Whose members are read: NULL, the body's. */
typedef struct Reader { Exchange *x; const char *where; } Reader;

static const Field *find_field(const Field *const *tables, const JsonNode *j)
{
    for (; *tables; tables++)
        for (const Field *f = *tables; f->name; f++)
            if (strlen(f->name) == j->key_n && memcmp(f->name, j->key, j->key_n) == 0)
                return f;
    return NULL;
}

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static bool wrong(const Reader *r, const char *name, size_t n, const char *fmt, ...)
{
    char    param[MOST_WHERE + MOST_NAME], said[2 * NODE_TEXT];
    size_t  at = 0;
    va_list args;
    if (r->where)
        at = (size_t)snprintf(param, MOST_WHERE, "%s.", r->where);
    at = at < MOST_WHERE ? at : MOST_WHERE - 1;
    printable_text(param + at, MOST_NAME, name, n);
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
    return refuse(r->x, MHD_HTTP_BAD_REQUEST, param, "%s: %s", param, said);
}

static bool expected(const Reader *r, const Field *f, const char *what, const JsonNode *j)
{
    char found[NODE_TEXT];
    return wrong(r, f->name, strlen(f->name), "expected %s, found %s", what,
                 j ? node_text(j, found) : "none");
}

typedef struct FieldWords { char text[96]; } FieldWords;

/* What a field takes, in words. */
static FieldWords words_of(const Field *f)
{
    const int  kind = f->kind & ~FIELD_REQUIRED;
    FieldWords w;
    if (kind == FIELD_INT || kind == FIELD_NUMBER)
        snprintf(w.text, sizeof w.text, "%s from %.17g to %.17g",
                 kind == FIELD_INT ? "an integer" : "a number", f->min, f->max);
    else
        snprintf(w.text, sizeof w.text, "%s",
                 f->help              ? f->help
                 : kind == FIELD_TEXT ? "a string"
                                      : "one");
    return w;
}

/* Numbers from min to max; of integers, 3.0 is one too. */
static bool read_number(const Reader *r, const Field *f, bool whole, const JsonNode *j, void *at)
{
    const double v = j->kind == NODE_INT || j->kind == NODE_DOUBLE ? node_number(j) : NAN;
    if (v >= f->min && v <= f->max && (!whole || v == floor(v))) {
        if (whole)
            *(int64_t *)at = j->kind == NODE_INT ? j->integer : (int64_t)v;
        else
            *(double *)at = v;
        return true;
    }
    return expected(r, f, words_of(f).text, j);
}

static bool read_field(const Reader *r, const Field *f, const JsonNode *j, void *out)
{
    void     *at   = (char *)out + f->at;
    const int kind = f->kind & ~FIELD_REQUIRED;
    if (j->kind == NODE_NULL)
        return true;
    switch (kind) {
    case FIELD_BOOL:
        if (j->kind != NODE_TRUE && j->kind != NODE_FALSE)
            return expected(r, f, "true or false", j);
        *(bool *)at = j->kind == NODE_TRUE;
        return true;
    case FIELD_INT:
    case FIELD_NUMBER: return read_number(r, f, kind == FIELD_INT, j, at);
    case FIELD_TEXT:
        if (j->kind != NODE_STRING)
            return expected(r, f, "a string", j);
        *(const JsonNode **)at = j;
        return true;
    case FIELD_NODE: *(const JsonNode **)at = j; return true;
    case FIELD_IGNORED: return true;
    default: break;
    }
    return wrong(r, f->name, strlen(f->name), "not supported: %s", f->help);
}

/* Are all required members present? null counts as absent. */
static bool check_required(const Reader *r, const JsonNode *object, const Field *const *tables)
{
    for (; *tables; tables++)
        for (const Field *f = *tables; f->name; f++) {
            const JsonNode *j = f->kind & FIELD_REQUIRED ? node_get(object, f->name) : object;
            if (!j || j->kind == NODE_NULL)
                return expected(r, f, words_of(f).text, NULL);
        }
    return true;
}

bool fields_read_at(Exchange *x, const char *where, const JsonNode *object,
                    const Field *const *tables, void *out)
{
    char         found[NODE_TEXT];
    const Reader r = { x, where };
    if (object->kind != NODE_OBJECT)
        return refuse(x, MHD_HTTP_BAD_REQUEST, where, "%s: expected a JSON object, found %s",
                      where ? where : "the body", node_text(object, found));
    JSON_NODES (j, object) {
        const Field *f = find_field(tables, j);
        if (!f && x->server->o->lenient)
            continue;
        if (!f)
            return wrong(&r, j->key, j->key_n, "unknown parameter");
        if (!read_field(&r, f, j, out))
            return false;
    }
    return check_required(&r, object, tables);
}

Place place(const char *fmt, ...)
{
    Place   p;
    va_list args;
    va_start(args, fmt);
    vsnprintf(p.text, sizeof p.text, fmt, args);
    va_end(args);
    return p;
}

bool refuse_value(Exchange *x, const char *where, const char *expected_there, const JsonNode *found)
{
    char text[NODE_TEXT];
    return refuse(x, MHD_HTTP_BAD_REQUEST, where, "%s: expected %s, found %s", where,
                  expected_there, node_text(found, text));
}

bool fields_read(Exchange *x, const JsonNode *object, const Field *const *tables, void *out)
{
    return fields_read_at(x, NULL, object, tables, out);
}
