/* serve/openapi.c: /openapi.json, which describes the paths in OpenAPI's form (version 3.1): from
 * the routes, and from the tables by which their requests are read. */
#include "serve/server.h"

#include <math.h>

static void named(TextOut *o, const char *key, const char *text)
{
    member_json(o, key, text, strlen(text));
}

/* The default of a field; none if it is out of the field's range, as values that mean "not given"
 * are. */
static void default_json(TextOut *o, const Field *f, int kind, const void *defaults)
{
    const char *at = (const char *)defaults + f->at;
    double      v  = NAN;
    if (!defaults)
        return;
    if (kind == FIELD_INT)
        v = (double)*(const int64_t *)at;
    else if (kind == FIELD_NUMBER)
        v = *(const double *)at;
    if (kind == FIELD_BOOL) {
        text_out(o, ", \"default\": %s", *(const bool *)at ? "true" : "false");
    } else if (v >= f->min && v <= f->max) {
        text_out(o, ", \"default\": ");
        json_out_double(o, v);
    }
}

/* null counts as absent. */
static void property_json(TextOut *o, const Field *f, const void *defaults)
{
    static const char *const types[] = {
        [FIELD_BOOL] = "boolean", [FIELD_INT] = "integer", [FIELD_NUMBER] = "number",
        [FIELD_TEXT] = "string",  [FIELD_REFUSED] = "null",
    };
    const int   kind = f->kind & ~FIELD_REQUIRED;
    const char *type = types[kind], *help = kind == FIELD_IGNORED ? "is ignored" : f->help;
    json_out_string(o, f->name, strlen(f->name));
    text_out(o, ": {\"description\": ");
    json_out_string(o, help, strlen(help));
    if (type && (f->kind & FIELD_REQUIRED || kind == FIELD_REFUSED))
        text_out(o, ", \"type\": \"%s\"", type);
    else if (type)
        text_out(o, ", \"type\": [\"%s\", \"null\"]", type);
    if (kind == FIELD_INT || kind == FIELD_NUMBER) {
        text_out(o, ", \"minimum\": ");
        json_out_double(o, f->min);
        text_out(o, ", \"maximum\": ");
        json_out_double(o, f->max);
    }
    default_json(o, f, kind, defaults);
    text_out(o, "}");
}

/* If a name is in two tables, the first one counts. */
static bool is_first(const Body *b, const Field *const *table, const Field *f)
{
    for (const Field *const *t = b->tables; t != table; t++)
        for (const Field *other = *t; other->name; other++)
            if (strcmp(other->name, f->name) == 0)
                return false;
    return true;
}

/* Returns whether it has a field of that name. */
static bool body_json(TextOut *o, const Server *s, const Body *b, const char *name)
{
    TextOut required = { 0 };
    bool    found    = false, any = false;
    text_out(o, "{\"type\": \"object\", \"additionalProperties\": %s, \"properties\": {",
             s->o->lenient ? "true" : "false");
    for (const Field *const *t = b->tables; *t; t++)
        for (const Field *f = *t; f->name; f++) {
            if (!is_first(b, t, f))
                continue;
            text_out(o, any ? ", " : "");
            property_json(o, f, b->defaults);
            if (f->kind & FIELD_REQUIRED)
                text_out(&required, "%s\"%s\"", required.n ? ", " : "", f->name);
            found |= strcmp(f->name, name) == 0;
            any = true;
        }
    text_out(o, "}, \"required\": [");
    text_out_bytes(o, required.text, required.n);
    text_out(o, "]}");
    o->failed |= required.failed;
    text_out_free(&required);
    return found;
}

/* The part of a path that is a parameter. */
static void path_parameter_json(TextOut *o, const char *path)
{
    const char *name = strchr(path, '{');
    if (name)
        text_out(o,
                 ", \"parameters\": [{\"name\": \"%.*s\", \"in\": \"path\", \"required\": true, "
                 "\"schema\": {\"type\": \"string\"}}]",
                 (int)strcspn(name + 1, "}"), name + 1);
}

static void operation_json(TextOut *o, const Server *s, const Route *r)
{
    const bool post    = strcmp(r->method, "POST") == 0;
    bool       streams = false;
    text_out(o, "\"%s\": {", post ? "post" : "get");
    named(o, "summary", r->help);
    text_out(o, ", \"operationId\": \"%s", post ? "post" : "get");
    for (const char *c = r->path; *c; c++)
        text_out(o, "%c", strchr("/.-{}", *c) ? '_' : *c);
    text_out(o, "\"");
    path_parameter_json(o, r->path);
    if (r->open)
        text_out(o, ", \"security\": []");
    if (r->body) {
        text_out(o, ", \"requestBody\": {\"required\": true, \"content\": {\"application/json\": "
                    "{\"schema\": ");
        streams = body_json(o, s, r->body, "stream");
        text_out(o, "}}}");
    }
    text_out(o, ", \"responses\": {\"200\": {\"description\": \"the answer\"");
    if (post)
        text_out(o, ", \"content\": {\"application/json\": {\"schema\": {\"type\": \"object\"}}%s}",
                 streams ? ", \"text/event-stream\": {\"schema\": {\"type\": \"string\"}}" : "");
    text_out(o,
             "}, \"default\": {\"description\": \"what is wrong\", \"content\": "
             "{\"application/json\": {\"schema\": {\"$ref\": \"#/components/schemas/Error\"}}}}}}");
}

static void paths_json(TextOut *o, const Server *s)
{
    text_out(o, ", \"paths\": {");
    for (const Route *r = s->routes; r->path; r++) {
        text_out(o, r == s->routes ? "" : ", ");
        json_out_string(o, r->path, strlen(r->path));
        text_out(o, ": {");
        operation_json(o, s, r);
        text_out(o, "}");
    }
    text_out(o, "}");
}

bool openapi_handle(Exchange *x)
{
    TextOut *o = &x->answer;
    text_out(o, "{\"openapi\": \"3.1.0\", \"info\": {\"title\": \"tblock serve\"");
    named(o, "version", tblock_version());
    text_out(o, "}, \"servers\": [{\"url\": \"/\"}]");
    if (x->server->o->n_keys)
        text_out(o, ", \"security\": [{\"bearer\": []}, {\"key\": []}]");
    paths_json(o, x->server);
    text_out(
        o,
        ", \"components\": {\"securitySchemes\": {\"bearer\": {\"type\": \"http\", \"scheme\": "
        "\"bearer\"}, \"key\": {\"type\": \"apiKey\", \"in\": \"header\", \"name\": "
        "\"x-api-key\"}}, \"schemas\": {\"Error\": {\"type\": \"object\", \"required\": "
        "[\"error\"], \"properties\": {\"error\": {\"type\": \"object\", \"required\": "
        "[\"message\", \"type\"], \"properties\": {\"message\": {\"type\": \"string\"}, "
        "\"type\": {\"type\": \"string\"}, \"param\": {\"type\": [\"string\", \"null\"]}}}}}}}}\n");
    return true;
}
