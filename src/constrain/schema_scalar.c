/* The null, bools, numbers and strings of a schema: one regular expression for each type, in which
 * every combination of schemas is exact: and, or, not, one of. */
#include <stdlib.h>
#include "constrain/schema_parts.h"

bool scalar_begin(Schema *s)
{
    Grammar *g = s->g;
    s->any_char = expr_any_char(g, CHARS_JSON);
    s->all[IS_NULL] = expr_text(g, "null", 4);
    s->all[IS_BOOL] = expr_alt(g, expr_text(g, "true", 4), expr_text(g, "false", 5));
    s->all[IS_NUMBER] = expr_pattern(g, "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?");
    s->all[IS_STRING] = expr_repeat(g, s->any_char, 0, REPEAT_FOREVER);
    /* 1.0 is an integer, except in draft 4 */
    s->integer = expr_pattern(g, s->draft == DRAFT_4 ? "-?(?:0|[1-9][0-9]*)"
                                              : "-?(?:0|[1-9][0-9]*)(?:\\.0+)?");
    number_begin(s);
    s->quote = expr_text(g, "\"", 1);
    Expr space = expr_repeat(g, expr_text(g, " ", 1), 0, 1);
    s->comma = expr_seq(g, expr_text(g, ",", 1), space);
    s->colon = expr_seq(g, expr_text(g, ":", 1), space);
    return !schema_failed(s);
}

bool value_has_type(const JsonNode *value, ValueType type)
{
    static const ValueType types[] = { [NODE_NULL] = IS_NULL,     [NODE_FALSE] = IS_BOOL,
                                       [NODE_TRUE] = IS_BOOL,     [NODE_INT] = IS_NUMBER,
                                       [NODE_DOUBLE] = IS_NUMBER, [NODE_STRING] = IS_STRING,
                                       [NODE_ARRAY] = IS_ARRAY,   [NODE_OBJECT] = IS_OBJECT };
    return types[value->kind] == type;
}

bool type_allows(const JsonNode *schema, ValueType type)
{
    static const char *const names[] = { "null", "boolean", "number", "string", "array", "object" };
    const JsonNode          *j = keyword(schema, "type");
    EACH_OR_ONE (i, j)
        if (node_is(i, names[type]) || (type == IS_NUMBER && node_is(i, "integer")))
            return true;
    return !j;
}

Expr string_text(Schema *s, const char *text, size_t n)
{
    return expr_chars_text(s->g, text, n, CHARS_JSON);
}

Expr string_pattern(Schema *s, const JsonNode *at, const char *pattern, size_t n)
{
    Error   e;
    TextOut what = { 0 };
    text_out(&what, "%s: ", s->what);
    schema_pointer(s, &what, at);
    text_out(&what, ": pattern");
    char *begin = text_out_take(&what, &e);
    Expr  x = EXPR_NOTHING;
    if (begin)
        x = expr_regex(s->g, pattern, n, true, CHARS_JSON, begin);
    else
        grammar_fail(s->g, &e);
    free(begin);
    return x;
}

Expr scalar_and(Schema *s, ValueType type, Expr a, Expr b)
{
    return a == s->all[type] ? b : b == s->all[type] ? a : expr_and(s->g, a, b);
}

static Expr value_text(Schema *s, const JsonNode *value)
{
    switch (value->kind) {
    case NODE_NULL:   return s->all[IS_NULL];
    case NODE_FALSE:  return expr_text(s->g, "false", 5);
    case NODE_TRUE:   return expr_text(s->g, "true", 4);
    case NODE_STRING: return string_text(s, value->text, value->n);
    default:          return number_equal(s, value);
    }
}

/* The values of this type in a list. */
static Expr values(Schema *s, const JsonNode *list, ValueType type)
{
    Expr  *e = schema_keep(s, (size_t)list->n + 1, sizeof *e);
    size_t n = 0;
    JSON_NODES (i, e ? list : NULL)
        if (value_has_type(i, type))
            e[n++] = value_text(s, i);
    return expr_alt_list(s->g, e, n);
}

/* ---- Keywords -------------------------------------------------------------------------------- */

/* In draft 4 exclusiveMinimum is a bool that modifies minimum. */
static Expr number_limits(Schema *s, const JsonNode *schema)
{
    Grammar        *g = s->g;
    Expr            e = s->all[IS_NUMBER];
    const JsonNode *low = keyword(schema, "minimum"), *high = keyword(schema, "maximum");
    const JsonNode *above = keyword(schema, "exclusiveMinimum");
    const JsonNode *below = keyword(schema, "exclusiveMaximum");
    if (low)
        e = scalar_and(s, IS_NUMBER, e, number_from(s, low, above && above->kind == NODE_TRUE));
    if (high)
        e = expr_minus(g, e, number_from(s, high, !(below && below->kind == NODE_TRUE)));
    if (above && above->kind > NODE_TRUE)
        e = scalar_and(s, IS_NUMBER, e, number_from(s, above, true));
    if (below && below->kind > NODE_TRUE)
        e = expr_minus(g, e, number_from(s, below, false));
    if (keyword(schema, "multipleOf"))
        e = scalar_and(s, IS_NUMBER, e, number_multiple(s, keyword(schema, "multipleOf")));
    bool integer = false, number = !keyword(schema, "type");
    EACH_OR_ONE (i, keyword(schema, "type")) {
        integer |= node_is(i, "integer");
        number |= node_is(i, "number");
    }
    return integer && !number ? scalar_and(s, IS_NUMBER, e, s->integer) : e;
}

static Expr string_limits(Schema *s, const JsonNode *schema)
{
    Grammar        *g = s->g;
    Expr            e = s->all[IS_STRING];
    const JsonNode *low = keyword(schema, "minLength"), *high = keyword(schema, "maxLength");
    const JsonNode *pattern = keyword(schema, "pattern");
    uint32_t        min = schema_count(s, low, 0), max = schema_count(s, high, REPEAT_FOREVER);
    if (min > max)
        return EXPR_NOTHING;
    if (low || high)
        e = expr_repeat(g, s->any_char, min, max);
    if (pattern)
        e = scalar_and(s, IS_STRING, e, string_pattern(s, pattern, pattern->text, pattern->n));
    if (keyword(schema, "format"))
        e = scalar_and(s, IS_STRING, e, format_strings(s, keyword(schema, "format")));
    return e;
}

static Expr sub(Schema *s, const JsonNode *schema, ValueType type)
{
    return set_scalar(s, set_of(s, schema, false, false), type);
}

static Expr in_one_of(Schema *s, const JsonNode *list, ValueType type)
{
    Expr once = EXPR_NOTHING, twice = EXPR_NOTHING;
    JSON_NODES (i, list) {
        Expr e = sub(s, i, type);
        twice = expr_alt(s->g, twice, scalar_and(s, type, once, e));
        once  = expr_alt(s->g, once, e);
    }
    return expr_minus(s->g, once, twice);
}

static Expr conditions(Schema *s, const JsonNode *schema, ValueType type, Expr e)
{
    const JsonNode *test = keyword(schema, "if"), *then = keyword(schema, "then");
    const JsonNode *otherwise = keyword(schema, "else");
    if (!test || (!then && !otherwise))
        return e;
    Expr yes = sub(s, test, type), no = expr_minus(s->g, s->all[type], yes);
    if (then)
        yes = scalar_and(s, type, yes, sub(s, then, type));
    if (otherwise)
        no = scalar_and(s, type, no, sub(s, otherwise, type));
    return scalar_and(s, type, e, expr_alt(s->g, yes, no));
}

static Expr combined(Schema *s, const JsonNode *schema, ValueType type, Expr e)
{
    Grammar        *g = s->g;
    const JsonNode *any = keyword(schema, "anyOf"), *one = keyword(schema, "oneOf");
    JSON_NODES (i, keyword(schema, "allOf"))
        e = scalar_and(s, type, e, sub(s, i, type));
    if (any) {
        Expr some = EXPR_NOTHING;
        JSON_NODES (i, any)
            some = expr_alt(g, some, sub(s, i, type));
        e = scalar_and(s, type, e, some);
    }
    if (one)
        e = scalar_and(s, type, e, in_one_of(s, one, type));
    if (keyword(schema, "not"))
        e = expr_minus(g, e, sub(s, keyword(schema, "not"), type));
    return conditions(s, schema, type, e);
}

static Expr schema_scalars(Schema *s, const JsonNode *schema, ValueType type)
{
    Expr e = s->all[type];
    if (keyword(schema, "$ref")) {
        const JsonNode *target = schema_target(s, schema);
        e = target ? sub(s, target, type) : EXPR_NOTHING;
        if (ref_alone(s))
            return e;
    }
    if (!type_allows(schema, type))
        return EXPR_NOTHING;
    const JsonNode *value = keyword(schema, "const");
    if (keyword(schema, "enum"))
        e = scalar_and(s, type, e, values(s, keyword(schema, "enum"), type));
    if (value)
        e = scalar_and(s, type, e,
                       value_has_type(value, type) ? value_text(s, value) : EXPR_NOTHING);
    if (type == IS_NUMBER)
        e = scalar_and(s, type, e, number_limits(s, schema));
    if (type == IS_STRING)
        e = scalar_and(s, type, e, string_limits(s, schema));
    return e == EXPR_NOTHING ? e : combined(s, schema, type, e);
}

Expr scalar_of(Schema *s, SetLiteral l, ValueType type)
{
    const JsonNode *j = literal_node(s, l);
    NodeFacts      *f = &s->fact[l >> 2];
    Expr            e;
    if (l & 2) {
        e = value_has_type(j, type) ? value_text(s, j) : EXPR_NOTHING;
    } else if (f->known[type]) {
        e = f->scalar[type];
    } else if (f->busy[type]) {
        schema_refuse(s, j, "the schema is defined by itself, without end");
        return EXPR_NOTHING;
    } else {
        if (!schema_enter(s, j))
            return EXPR_NOTHING;
        f->busy[type] = 1;
        e = f->scalar[type] = schema_scalars(s, j, type);
        f->known[type] = true;
        f->busy[type] = 0;
        schema_leave(s);
    }
    return l & 1 ? expr_minus(s->g, s->all[type], e) : e;
}
