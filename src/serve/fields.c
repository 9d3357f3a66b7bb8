/* serve/fields.c: reads the members of a request by a table, and names what is wrong. */
#include "serve/server.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const Field *find_field(const Field *const *tables, const JsonNode *j)
{
    for (; *tables; tables++)
        for (const Field *f = *tables; f->name; f++)
            if (strlen(f->name) == j->key_n && memcmp(f->name, j->key, j->key_n) == 0)
                return f;
    return NULL;
}

static bool expected(Exchange *x, const Field *f, const char *what, const JsonNode *j)
{
    char found[NODE_TEXT];
    return refuse(x, MHD_HTTP_BAD_REQUEST, f->name, "%s: expected %s, found %s", f->name, what,
                  node_text(j, found));
}

/* Numbers from min to max; of integers, 3.0 is one too. */
static bool read_number(Exchange *x, const Field *f, const JsonNode *j, void *at)
{
    char         range[96];
    const double v     = j->kind == NODE_INT || j->kind == NODE_DOUBLE ? node_number(j) : NAN;
    const bool   whole = f->kind == FIELD_INT;
    if (v >= f->min && v <= f->max && (!whole || v == floor(v))) {
        if (whole)
            *(int64_t *)at = j->kind == NODE_INT ? j->integer : (int64_t)v;
        else
            *(double *)at = v;
        return true;
    }
    snprintf(range, sizeof range, "%s from %.17g to %.17g", whole ? "an integer" : "a number",
             f->min, f->max);
    return expected(x, f, range, j);
}

static bool read_field(Exchange *x, const Field *f, const JsonNode *j, void *out)
{
    void *at = (char *)out + f->at;
    if (j->kind == NODE_NULL)
        return true;
    switch (f->kind) {
    case FIELD_BOOL:
        if (j->kind != NODE_TRUE && j->kind != NODE_FALSE)
            return expected(x, f, "true or false", j);
        *(bool *)at = j->kind == NODE_TRUE;
        return true;
    case FIELD_INT:
    case FIELD_NUMBER: return read_number(x, f, j, at);
    case FIELD_TEXT:
        if (j->kind != NODE_STRING)
            return expected(x, f, "a string", j);
        *(const JsonNode **)at = j;
        return true;
    case FIELD_NODE: *(const JsonNode **)at = j; return true;
    case FIELD_IGNORED: return true;
    case FIELD_REFUSED: break;
    }
    return refuse(x, MHD_HTTP_BAD_REQUEST, f->name, "%s: not supported: %s", f->name, f->help);
}

bool fields_read(Exchange *x, const JsonNode *object, const Field *const *tables, void *out)
{
    char found[NODE_TEXT], name[64];
    if (object->kind != NODE_OBJECT)
        return refuse(x, MHD_HTTP_BAD_REQUEST, NULL, "the body: expected a JSON object, found %s",
                      node_text(object, found));
    JSON_NODES (j, object) {
        const Field *f = find_field(tables, j);
        if (!f && x->server->o->lenient)
            continue;
        if (!f) {
            printable_text(name, sizeof name, j->key, j->key_n);
            return refuse(x, MHD_HTTP_BAD_REQUEST, name, "%s: unknown parameter", name);
        }
        if (!read_field(x, f, j, out))
            return false;
    }
    return true;
}
