/* Checks the keywords of a schema: well-formed, and supported. */
#include <math.h>
#include "constrain/schema_parts.h"

typedef enum KeywordForm {
    SCHEMA,
    SCHEMAS,
    NAMED_SCHEMAS,
    ITEMS,
    DEPENDENCIES,
    COUNT,
    NUMBER,
    LIMIT,
    TEXT_,
    TEXTS,
    NAMED_TEXTS,
    LIST,
    ANYTHING,
    BOOLEAN,
    TYPES,
    REFUSED
} KeywordForm;

static const struct { const char *name; KeywordForm form; } keywords[] = {
    { "type", TYPES },               { "enum", LIST },
    { "const", ANYTHING },           { "properties", NAMED_SCHEMAS },
    { "required", TEXTS },           { "patternProperties", NAMED_SCHEMAS },
    { "additionalProperties", SCHEMA }, { "propertyNames", SCHEMA },
    { "minProperties", COUNT },      { "maxProperties", COUNT },
    { "prefixItems", SCHEMAS },      { "items", ITEMS },
    { "additionalItems", SCHEMA },   { "contains", SCHEMA },
    { "minContains", COUNT },        { "maxContains", COUNT },
    { "uniqueItems", BOOLEAN },      { "minItems", COUNT },
    { "maxItems", COUNT },           { "minLength", COUNT },
    { "maxLength", COUNT },          { "pattern", TEXT_ },
    { "format", TEXT_ },             { "minimum", NUMBER },
    { "maximum", NUMBER },           { "exclusiveMinimum", LIMIT },
    { "exclusiveMaximum", LIMIT },   { "multipleOf", NUMBER },
    { "anyOf", SCHEMAS },            { "oneOf", SCHEMAS },
    { "allOf", SCHEMAS },            { "not", SCHEMA },
    { "if", SCHEMA },                { "then", SCHEMA },
    { "else", SCHEMA },              { "dependentRequired", NAMED_TEXTS },
    { "dependentSchemas", NAMED_SCHEMAS }, { "dependencies", DEPENDENCIES },
    { "$ref", TEXT_ },               { "unevaluatedProperties", REFUSED },
    { "unevaluatedItems", REFUSED }, { "$dynamicRef", REFUSED },
    { "$recursiveRef", REFUSED },
};

static const char *const form_names[] = {
    [SCHEMA] = "a schema",           [SCHEMAS] = "a list of schemas",
    [NAMED_SCHEMAS] = "an object of schemas", [ITEMS] = "a schema or a list of them",
    [DEPENDENCIES] = "an object of schemas or lists of names",
    [COUNT] = "a count",             [NUMBER] = "a number",
    [LIMIT] = "a number, or a bool as in draft 4",
    [TEXT_] = "a text",              [TEXTS] = "a list of texts",
    [NAMED_TEXTS] = "an object of lists of names", [LIST] = "a list",
    [BOOLEAN] = "a bool",            [TYPES] = "names of types",
};

static bool is_bool(const JsonNode *j) { return j->kind == NODE_FALSE || j->kind == NODE_TRUE; }
static bool is_schema(const JsonNode *j) { return j->kind == NODE_OBJECT || is_bool(j); }
static bool is_number(const JsonNode *j) { return j->kind == NODE_INT || j->kind == NODE_DOUBLE; }

static bool is_texts(const JsonNode *j)
{
    JSON_NODES (i, j)
        if (i->kind != NODE_STRING)
            return false;
    return j->kind == NODE_ARRAY;
}

static bool are_schemas(const JsonNode *j, NodeKind kind, bool or_texts)
{
    JSON_NODES (i, j)
        if (!is_schema(i) && !(or_texts && is_texts(i)))
            return false;
    return j->kind == kind;
}

static bool is_count(const JsonNode *j)
{
    double x = node_number(j);
    return is_number(j) && x >= 0 && x == floor(x);
}

static bool are_types(const JsonNode *j)
{
    static const char *const names[] = { "null",  "boolean", "integer", "number",
                                         "string", "array",   "object" };
    EACH_OR_ONE (i, j) {
        bool known = false;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            known |= node_is(i, names[k]);
        if (!known)
            return false;
    }
    return j->kind == NODE_STRING || j->kind == NODE_ARRAY;
}

static bool has_form(const JsonNode *j, KeywordForm form)
{
    switch (form) {
    case SCHEMA:        return is_schema(j);
    case SCHEMAS:       return are_schemas(j, NODE_ARRAY, false);
    case NAMED_SCHEMAS: return are_schemas(j, NODE_OBJECT, false);
    case ITEMS:         return is_schema(j) || are_schemas(j, NODE_ARRAY, false);
    case DEPENDENCIES:  return are_schemas(j, NODE_OBJECT, true);
    case COUNT:         return is_count(j);
    case NUMBER:        return is_number(j);
    case LIMIT:         return is_number(j) || is_bool(j);
    case TEXT_:         return j->kind == NODE_STRING;
    case TEXTS:         return is_texts(j);
    case LIST:          return j->kind == NODE_ARRAY;
    case BOOLEAN:       return is_bool(j);
    case TYPES:         return are_types(j);
    case NAMED_TEXTS:
        JSON_NODES (i, j)
            if (!is_texts(i))
                return false;
        return j->kind == NODE_OBJECT;
    default: return true;
    }
}

static bool check_keyword(Schema *s, const JsonNode *j)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const char *name = keywords[i].name;
        if (j->key_n != strlen(name) || memcmp(j->key, name, j->key_n) != 0)
            continue;
        if (keywords[i].form == REFUSED)
            return schema_refuse(s, j, "the keyword %s is not kept", name);
        return has_form(j, keywords[i].form)
            || schema_refuse(s, j, "%s: expected %s", name, form_names[keywords[i].form]);
    }
    return true; /* an annotation */
}

bool schema_check(Schema *s, const JsonNode *schema)
{
    NodeFacts *f = &s->fact[schema - s->doc.node];
    if (f->checked)
        return true;
    f->checked = true;
    if (!is_schema(schema))
        return schema_refuse(s, schema, "expected a schema (an object, true or false)");
    if (ref_alone(s) && keyword(schema, "$ref"))
        return check_keyword(s, keyword(schema, "$ref"));
    JSON_NODES (i, schema)
        if (!check_keyword(s, i))
            return false;
    return true;
}

uint32_t schema_count(Schema *s, const JsonNode *j, uint32_t otherwise)
{
    if (!j)
        return otherwise;
    double x = node_number(j);
    if (x < REPEAT_FOREVER)
        return (uint32_t)x;
    schema_refuse(s, j, "expected a count under 2^32 - 1");
    return 0;
}
