/* serve/openapi.c: /openapi.json, which describes the paths in OpenAPI's form (version 3.1): from
 * the routes, and from the tables by which their requests are read. */
#include "serve/server.h"

#include <math.h>

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
    if (kind == FIELD_BOOL)
        json_out(o, "default: %i", *(const bool *)at);
    else if (v >= f->min && v <= f->max)
        json_out(o, "default: %g", v);
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
    json_out(o, "%s: {description: %s", f->name, help);
    if (type)
        json_out(o, f->kind & FIELD_REQUIRED || kind == FIELD_REFUSED ? "type: %s"
                                                                      : "type: [%s, 'null']", type);
    if (kind == FIELD_INT || kind == FIELD_NUMBER)
        json_out(o, "minimum: %g, maximum: %g", f->min, f->max);
    default_json(o, f, kind, defaults);
    json_out(o, "}");
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
    bool    found    = false;
    json_out(o, "{type: object, additionalProperties: %i, properties: {", s->o->lenient);
    for (const Field *const *t = b->tables; *t; t++)
        for (const Field *f = *t; f->name; f++) {
            if (!is_first(b, t, f))
                continue;
            property_json(o, f, b->defaults);
            if (f->kind & FIELD_REQUIRED)
                json_out(&required, "%s", f->name);
            found |= strcmp(f->name, name) == 0;
        }
    json_out(o, "}, required: [");
    text_out_bytes(o, required.text, required.n);
    json_out(o, "]}");
    o->failed |= required.failed;
    text_out_free(&required);
    return found;
}

/* The part of a path that is a parameter. */
static void path_parameter_json(TextOut *o, const char *path)
{
    const char *name = strchr(path, '{');
    if (!name)
        return;
    json_out(o, "parameters: [{");
    json_out_member(o, "name", name + 1, strcspn(name + 1, "}"));
    json_out(o, "in: path, required: true, schema: {type: string}}]");
}

static void operation_json(TextOut *o, const Server *s, const Route *r)
{
    const char *method  = strcmp(r->method, "POST") == 0 ? "post" : "get";
    bool        streams = false;
    Place       id      = place("%s%s", method, r->path);
    for (char *c = id.text; *c; c++)
        *c = strchr("/.-{}", *c) ? '_' : *c;
    json_out(o, "%s: {summary: %s, operationId: %s", method, r->help, id.text);
    path_parameter_json(o, r->path);
    json_out(o, r->open ? "security: []" : "");
    if (r->body) {
        json_out(o, "requestBody: {required: true, content: {'application/json': {schema:");
        streams = body_json(o, s, r->body, "stream");
        json_out(o, "}}}");
    }
    json_out(o, "responses: {'200': {description: 'the answer'");
    if (*method == 'p')
        json_out(o, "content: {'application/json': {schema: {type: object}}");
    json_out(o, streams ? "'text/event-stream': {schema: {type: string}}" : "");
    json_out(o, *method == 'p' ? "}}" : "}");
    json_out(o, "default: {description: 'what is wrong', content: {'application/json': {schema: "
                "{$ref: '#/components/schemas/Error'}}}}}}");
}

static void paths_json(TextOut *o, const Server *s)
{
    json_out(o, "paths: {");
    for (const Route *r = s->routes; r->path; r++) {
        json_out(o, "%s: {", r->path);
        operation_json(o, s, r);
        json_out(o, "}");
    }
    json_out(o, "}");
}

bool openapi_handle(Exchange *x)
{
    TextOut *o = &x->answer;
    json_out(o, "{openapi: '3.1.0', info: {title: 'tblock serve', version: %s}, servers: "
                "[{url: '/'}]", tblock_version());
    json_out(o, x->server->o->n_keys ? "security: [{bearer: []}, {key: []}]" : "");
    paths_json(o, x->server);
    json_out(o, "components: {securitySchemes: {bearer: {type: http, scheme: bearer}, key: "
                "{type: apiKey, in: header, name: x-api-key}}, schemas: {Error: {type: object, "
                "required: [error], properties: {error: {type: object, required: [message, type], "
                "properties: {message: {type: string}, type: {type: string}, param: {type: "
                "[string, 'null']}}}}}}}}\n");
    return true;
}
