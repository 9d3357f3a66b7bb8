#include <math.h>
#include "constrain/constrain.h"
#include "test.h"

static Error err;
static char  unknown[256];

static Constraint *read_schema(const char *schema, bool any_order)
{
    TextOut  formats = { 0 };
    Rule     root;
    Grammar *g = grammar_new(&err);
    SchemaOptions options = { .any_order = any_order };
    if (!g)
        return NULL;
    bool ok = grammar_read_schema(g, schema, strlen(schema), &options, "s.json", &formats, &root);
    snprintf(unknown, sizeof unknown, "%.*s", (int)formats.n, formats.n ? formats.text : "");
    text_out_free(&formats);
    if (!ok) {
        grammar_failed(g, &err);
        grammar_free(g);
        return NULL;
    }
    return constraint_new(g, root, "s.json", &err);
}

static bool fits(Constraint *c, const char *text)
{
    ConstraintState s = constraint_start(c);
    CHECK(constraint_advance(c, &s, text, strlen(text), &err), "%s", err.msg);
    return constraint_may_end(c, s);
}

typedef struct Case { const char *schema, *yes[8], *no[10]; } Case;

static void check_order(const Case *c, bool any_order)
{
    for (; c->schema && test_case_state == 0; c++) {
        Constraint *x = read_schema(c->schema, any_order);
        CHECK(x, "%s: %s", c->schema, err.msg);
        for (int i = 0; x && i < 8 && c->yes[i]; i++)
            CHECK(fits(x, c->yes[i]), "%s: %s", c->schema, c->yes[i]);
        for (int i = 0; x && i < 10 && c->no[i]; i++)
            CHECK(!fits(x, c->no[i]), "%s: %s", c->schema, c->no[i]);
        constraint_free(x);
    }
}

static void check(const Case *c) { check_order(c, false); }

static void types_are_kept_apart(void)
{
    static const Case cases[] = {
        { "true", { "null", "-0.5e+3", "\"\"", "[1,{\"a\": [], \"b\":true}]", "{}" },
          { "", "nul", "01", "1.", "[1,]", "{\"a\"}", " 1", "[1 ,2]", "[1,  2]" } },
        { "{\"type\":\"integer\"}", { "0", "-12", "7" },
          { "7.0", "-0", "7.5", "\"7\"", "1e2", "+1" } },
        { "{\"type\":\"integer\",\"$schema\":\"http://json-schema.org/draft-04/schema#\"}", { "7" },
          { "7.0" } },
        { "{\"type\":[\"string\",\"null\"]}", { "null", "\"\\n\\u001f\\\"\"" },
          { "0", "\"\n\"", "\"\\u000a\"", "\"\\u0041\"", "\"\\/\"" } },
        { "{\"type\":[\"integer\",\"number\"]}", { "1.5" }, { "true" } },
        { 0 },
    };
    check(cases);
}

static void values_are_compared_by_value(void)
{
    static const Case cases[] = {
        { "{\"enum\":[1,\"a\",null,[1,{\"b\":2}]]}",
          { "1", "\"a\"", "null", "[1, {\"b\": 2}]" },
          { "1.0", "[1, {\"b\": 2.00}]", "2", "\"b\"", "[1]", "[1,{\"b\":2,\"c\":3}]", "[1,{}]" } },
        { "{\"const\":{\"a\":[],\"b\":false}}", { "{\"a\":[],\"b\":false}" },
          { "{\"a\":[]}", "{\"a\":[0],\"b\":false}", "{\"a\":[],\"b\":0}" } },
        { "{\"not\":{\"const\":{\"a\":1}}}", { "{}", "{\"a\":2}", "{\"a\":1,\"b\":1}", "1", "[]" },
          { "{\"a\":1}", "{\"a\": 1.0}" } },
        { "{\"not\":{\"enum\":[[1,2],0]}}", { "[1]", "[1,3]", "[1,2,3]", "1" },
          { "[1,2]", "[1.0, 2]", "0", "-0" } },
        { "{\"const\":12345678901234567890.10}", { "12345678901234567890.1" },
          { "12345678901234567890", "12345678901234567891.1" } },
        { "{\"const\":\"a\\\"\\u00e9\\n\"}", { "\"a\\\"\u00e9\\n\"" }, { "\"a\"" } },
        { 0 },
    };
    check(cases);
}

#define TEN "1234567890"
#define ZEROS "0000000000"

/* So a model cannot go on with zeros for ever. */
static void numbers_end(void)
{
    static const Case cases[] = {
        { "{\"type\":\"integer\"}", { TEN TEN, "-" TEN TEN }, { TEN TEN "1", "1.0" } },
        { "{\"type\":\"number\"}",
          { TEN TEN "." TEN TEN, "1.50", "0.0", "-0" },
          { TEN TEN "1", "1." TEN TEN "1", "1e1000" } },
        { "{}",
          { "1e999", "-0.50E-12", "[" TEN TEN "]" },
          { "1e1000", TEN TEN "1", "{\"a\": 1." TEN TEN "1}" } },
        { "{\"type\":\"number\",\"exclusiveMinimum\":" TEN TEN TEN "}",
          { "2" ZEROS TEN ZEROS },
          { TEN TEN TEN, "1", "1" ZEROS ZEROS ZEROS "01" } },
        { "{\"minimum\":1e30,\"type\":\"integer\"}", { "1" ZEROS ZEROS ZEROS }, { "1e30", "1" } },
        { "{\"exclusiveMinimum\":0.15,\"exclusiveMaximum\":0.16,\"type\":\"number\"}",
          { "0.155" },
          { "0.15", "0.16" } },
        { "{\"enum\":[7,1.50]}", { "7", "1.5" }, { "7.0", "1.50", "07", "7e0" } },
        { "{\"anyOf\":[{\"const\":1.5},{\"type\":[\"integer\",\"string\"]}]}",
          { "1.5", "2", "\"\"" },
          { "1.50", "2.0" } },
        { "{\"allOf\":[{\"$ref\":\"#/$defs/"
          "a\"},{\"minimum\":3}],\"$defs\":{\"a\":{\"type\":\"integer\"}}}",
          { "3", "10" },
          { "3.0", "2" } },
        { "{\"type\":\"integer\",\"not\":{\"const\":7.0}}", { "6", "70" }, { "7", "7.0", "6.0" } },
        { "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":0}]}",
          { "-3", "1.50", "1.0" },
          { "-1.5" } },
        { "{\"$ref\":\"#/$defs/"
          "a\",\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{"
          "\"$ref\":"
          "\"#/$defs/a\"}}]}}}",
          { "1", "[1,[2]]" },
          { "1.0", "[1.0]" } },
        { 0 },
    };
    check(cases);
}

/* Numbers of at most two places, in hundredths, against bounds in hundredths. */
static void check_numbers(const char *schema, bool (*valid)(int hundredths, int x), int x)
{
    Constraint *c = read_schema(schema, false);
    CHECK(c, "%s: %s", schema, err.msg);
    for (int h = -1230; c && h <= 1230 && test_case_state == 0; h++) {
        char text[32], *sign = h < 0 ? "-" : "";
        int size = abs(h);
        snprintf(text, sizeof text, "%s%d.%02d", sign, size / 100, size % 100);
        CHECK(fits(c, text) == valid(h, x), "%s: %s", schema, text);
        strcat(text, "00");
        CHECK(fits(c, text) == valid(h, x), "%s: %s", schema, text);
        if (size % 10 == 0) {
            snprintf(text, sizeof text, "%s%d.%d", sign, size / 100, size / 10 % 10);
            CHECK(fits(c, text) == valid(h, x), "%s: %s", schema, text);
        }
        if (size % 100 == 0) {
            snprintf(text, sizeof text, "%s%d", sign, size / 100);
            CHECK(fits(c, text) == valid(h, x), "%s: %s", schema, text);
        }
    }
    constraint_free(c);
}

static bool from(int h, int x)     { return h >= x; }
static bool above(int h, int x)    { return h > x; }
static bool up_to(int h, int x)    { return h <= x; }
static bool below(int h, int x)    { return h < x; }
static bool multiple(int h, int x) { return h % x == 0; }

static void bounds_are_exact(void)
{
    static const struct { const char *text; int x; } bounds[] = {
        { "0", 0 },     { "-0.0", 0 },  { "5", 500 },     { "10", 1000 }, { "-10", -1000 },
        { "9.99", 999 }, { "0.05", 5 }, { "-0.05", -5 }, { "1e1", 1000 }, { "305E-2", 305 },
        { "-7.5", -750 }, { "0.1e-1", 1 }, { "12.30", 1230 }, { "99", 9900 },
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds && test_case_state == 0; i++) {
        static const struct { const char *name; bool (*valid)(int, int); } words[] = {
            { "minimum", from }, { "exclusiveMinimum", above },
            { "maximum", up_to }, { "exclusiveMaximum", below },
        };
        for (int w = 0; w < 4; w++) {
            char schema[100];
            snprintf(schema, sizeof schema, "{\"type\":\"number\",\"%s\":%s}", words[w].name,
                     bounds[i].text);
            check_numbers(schema, words[w].valid, bounds[i].x);
        }
    }
}

static void multiples_are_exact(void)
{
    static const struct { const char *text; int x; } steps[] = {
        { "1", 100 },  { "2", 200 },     { "0.01", 1 },   { "0.05", 5 },  { "0.25", 25 },
        { "3", 300 },  { "0.07", 7 },    { "1.2", 120 },  { "0.6", 60 },  { "4e-1", 40 },
        { "10", 1000 }, { "12", 1200 },  { "1.30", 130 }, { "0.80", 80 },
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps && test_case_state == 0; i++) {
        char schema[100];
        snprintf(schema, sizeof schema, "{\"type\":\"number\",\"multipleOf\":%s}", steps[i].text);
        check_numbers(schema, multiple, steps[i].x);
    }
    static const Case large[] = {
        { "{\"multipleOf\":1000,\"type\":\"integer\"}", { "0", "1000", "-123000", "5000" },
          { "100", "1500", "1000.5", "10" } },
        { "{\"minimum\":9007199254740993,\"type\":\"number\"}", { "9007199254740993" },
          { "9007199254740992", "9007199254740992.999" } },
        { 0 },
    };
    check(large);
}

static void strings_are_counted_in_characters(void)
{
    static const Case cases[] = {
        { "{\"type\":\"string\",\"minLength\":2,\"maxLength\":2}",
          { "\"ab\"", "\"\u00e9\U0001F600\"", "\"\\n\\u0000\"" }, { "\"a\"", "\"abc\"" } },
        { "{\"type\":\"string\",\"pattern\":\"^[a-c]+$\",\"maxLength\":3}", { "\"abc\"", "\"c\"" },
          { "\"\"", "\"abcd\"", "\"abd\"" } },
        { "{\"type\":\"string\",\"pattern\":\"b\",\"not\":{\"pattern\":\"^a\"}}",
          { "\"b\"", "\"xba\"" }, { "\"ab\"", "\"x\"" } },
        { 0 },
    };
    check(cases);
}

static void formats_follow_their_rfcs(void)
{
    static const Case cases[] = {
        { "{\"type\":\"string\",\"format\":\"date\"}",
          { "\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\"" },
          { "\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"",
            "\"24-1-1\"" } },
        { "{\"type\":\"string\",\"format\":\"date-time\"}",
          { "\"1990-12-31T15:59:60-08:00\"", "\"2016-12-31T23:59:60Z\"",
            "\"1937-01-01T12:00:27.87+00:20\"", "\"2017-01-01t00:19:60.5+00:20\"" },
          { "\"1990-12-31T15:58:60-08:00\"", "\"1990-12-31T15:59:61-08:00\"",
            "\"1990-12-31T24:00:00Z\"", "\"1990-12-31 15:59:59Z\"", "\"1990-12-31T15:59:59\"" } },
        { "{\"type\":\"string\",\"format\":\"duration\"}",
          { "\"P1Y2M3DT4H5M6S\"", "\"PT1M\"", "\"P4W\"" },
          { "\"P\"", "\"PT\"", "\"P1D2W\"", "\"P1YT\"", "\"P1Y1D\"" } },
        { "{\"type\":\"string\",\"format\":\"email\"}",
          { "\"a.b+c@example.com\"", "\"\\\"a @ b\\\"@x.org\"", "\"a@[127.0.0.1]\"" },
          { "\"a\"", "\".a@b.c\"", "\"a@b..c\"", "\"a b@c.d\"", "\"a@[300.0.0.1]\"" } },
        { "{\"type\":\"string\",\"format\":\"ipv6\"}",
          { "\"::\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::1\"", "\"::ffff:1.2.3.4\"" },
          { "\"1:2:3:4:5:6:7\"", "\"::1::2\"", "\"12345::\"", "\"1::2:3:4:5:6:7:8:9\"" } },
        { "{\"type\":\"string\",\"format\":\"ipv4\"}", { "\"255.0.9.10\"" },
          { "\"256.1.1.1\"", "\"01.1.1.1\"", "\"1.1.1\"" } },
        { "{\"type\":\"string\",\"format\":\"hostname\"}", { "\"a-b.example\"", "\"1.2\"" },
          { "\"-a\"", "\"a-\"", "\"a..b\"", "\"a.\"", "\"xn--X\"", "\"\"" } },
        { "{\"type\":\"string\",\"format\":\"uri\"}",
          { "\"http://u@[::1]:80/a/b?c#d\"", "\"urn:x\"", "\"a:\"" },
          { "\"/a\"", "\"http://a b\"", "\"http://[::1\"", "\"1a:b\"", "\"a:%zz\"" } },
        { "{\"type\":\"string\",\"format\":\"uuid\"}",
          { "\"2EB8AA08-aa98-11ea-b4aa-73b441d16380\"" },
          { "\"2eb8aa08aa9811eab4aa73b441d16380\"" } },
        { "{\"type\":\"string\",\"format\":\"time\"}", { "\"08:30:06.28-08:00\"" },
          { "\"08:30:06\"" } },
        { 0 },
    };
    check(cases);
    Constraint *c = read_schema("{\"anyOf\":[{\"format\":\"topic\"},{\"format\":\"x\"}]}", false);
    CHECK(c && strcmp(unknown, "topic, x") == 0, "'%s'", unknown);
    constraint_free(c);
}

static void objects_keep_order_and_counts(void)
{
#define AB "\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}}"
    static const Case cases[] = {
        { "{\"type\":\"object\"," AB ",\"additionalProperties\":false}",
          { "{}", "{\"a\":null}", "{\"b\":null}", "{\"a\":null, \"b\": null}" },
          { "{\"b\":null,\"a\":null}", "{\"a\":1}", "{\"c\":1}", "{\"a\":null,}" } },
        { "{\"type\":\"object\"," AB ",\"required\":[\"b\",\"c\"],\"additionalProperties\":"
          "{\"type\":\"integer\"}}",
          { "{\"b\":null,\"c\":1}", "{\"a\":null,\"b\":null,\"c\":1,\"d\":2,\"e\":3}" },
          { "{\"b\":null}", "{\"b\":null,\"c\":null}", "{\"b\":null,\"c\":1,\"d\":null}" } },
        { "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":3," AB "}",
          { "{\"a\":null,\"x\":1}", "{\"x\":1,\"y\":2}", "{\"a\":null,\"b\":null,\"c\":0}" },
          { "{}", "{\"a\":null}", "{\"x\":1}", "{\"a\":null,\"b\":null,\"x\":1,\"y\":1}",
            "{\"w\":1,\"x\":1,\"y\":1,\"z\":1}" } },
        { "{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"b$\":"
          "{\"minimum\":5}},\"additionalProperties\":{\"type\":\"string\"}}",
          { "{\"ab\":5,\"a\":1,\"xb\":5,\"yb\":true,\"x\":\"\"}" },
          { "{\"ab\":4}", "{\"a\":1.5}", "{\"xb\":4}", "{\"x\":1}" } },
        { "{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2},\"properties\":{\"abc\":true}}",
          { "{\"ab\":1}", "{}" }, { "{\"abc\":1}", "{\"xyz\":1}" } },
        { "{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]},\"dependentSchemas\":{\"c\":"
          "{\"maxProperties\":1}}," AB "}",
          { "{\"a\":null,\"b\":null}", "{\"b\":null}", "{\"c\":1}", "{\"x\":1,\"y\":1}" },
          { "{\"a\":null}", "{\"b\":null,\"c\":1}", "{\"c\":1,\"d\":1}" } },
        { 0 },
    };
    check(cases);
    static const Case free_order[] = {
        { "{\"type\":\"object\"," AB ",\"required\":[\"a\"]}",
          { "{\"b\":null,\"a\":null}", "{\"x\":1,\"a\":null,\"y\":1,\"b\":null}", "{\"a\":null}" },
          { "{\"b\":null}", "{\"a\":null,\"a\":null}", "{}" } },
        { 0 },
    };
    check_order(free_order, true);
}

static void arrays_keep_places_and_counts(void)
{
    static const Case cases[] = {
        { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"integer\"}],"
          "\"items\":"
          "{\"type\":\"string\"},\"minItems\":1,\"maxItems\":4}",
          { "[null]", "[null, 1]", "[null,1,\"a\",\"b\"]" },
          { "[]", "[1]", "[null,null]", "[null,1,1]", "[null,1,\"\",\"\",\"\"]" } },
        { "{\"type\":\"array\",\"items\":[{\"type\":\"null\"}],\"additionalItems\":false}",
          { "[]", "[null]" },
          { "[1]", "[null,null]" } },
        { "{\"type\":\"array\",\"items\":{\"type\":\"array\"},\"minItems\":3,\"maxItems\":6}",
          { "[[],[],[]]", "[[],[],[],[[]],[],[]]" },
          { "[[],[]]", "[[],[],[],[],[],[],[]]" } },
        { "{\"type\":\"array\",\"contains\":{\"type\":\"null\"},\"minContains\":2,\"maxContains\":"
          "3}",
          { "[null,null]", "[1,null,{},null,2,null]" },
          { "[null]", "[null,null,null,null]", "[1,2,3]", "[]" } },
        { "{\"uniqueItems\":true,\"type\":\"array\",\"items\":{\"type\":[\"boolean\",\"null\"]}}",
          { "[]", "[true,null,false]" }, { "[true,true]", "[true,false,null,true]", "[1]" } },
        { "{\"uniqueItems\":true,\"items\":{\"minimum\":-0.5,\"maximum\":1,\"multipleOf\":0.5,"
          "\"type\":\"number\"},\"type\":\"array\"}",
          { "[0,0.5,1,-0.50]", "[1.0]" }, { "[0.5,0.50]", "[0,-0]", "[1,1.0]", "[2]" } },
        { "{\"uniqueItems\":true,\"type\":\"array\",\"items\":[{\"pattern\":\"^[ab]$\",\"type\":"
          "\"string\"},{\"enum\":[\"a\",\"c\",[1]]}],\"additionalItems\":{\"const\":[1.0]}}",
          { "[\"b\",\"a\",[1]]", "[\"a\",[1]]" },
          { "[\"a\",[1.0]]", "[\"a\",\"a\"]", "[\"b\",[1],[1.0]]", "[\"b\",\"b\"]" } },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":1,\"items\":{\"enum\":[1,2,1.0,"
          "\"a\"]}}",
          { "[1]", "[2,1,\"a\"]" },
          { "[]", "[1,1]", "[1,1.0]", "[2,1,\"a\",2]" } },
        { 0 },
    };
    check(cases);
}

static void schemas_combine(void)
{
    static const Case cases[] = {
        { "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}}},"
          "{\"properties\":{\"a\":{\"minimum\":3}},\"required\":[\"a\"]}]}",
          { "{\"a\":3}", "{\"a\":4,\"b\":1}" },
          { "{\"a\":2}", "{}", "{\"a\":\"\"}" } },
        { "{\"anyOf\":[{\"type\":\"object\",\"required\":[\"a\"]},{\"type\":\"integer\"}]}",
          { "1", "{\"a\":1}" },
          { "{}", "\"\"" } },
        { "{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",
          { "1", "2.5", "\"x\"", "[]" },
          { "3", "1.5" } },
        { "{\"oneOf\":[{\"type\":\"object\",\"required\":[\"a\"]},{\"type\":\"object\","
          "\"required\":"
          "[\"b\"]}]}",
          { "{\"a\":1}", "{\"b\":1}" },
          { "{}", "{\"a\":1,\"b\":1}" } },
        { "{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{\"type\":\"integer\"}}}}",
          { "{\"a\":\"\"}", "{\"a\":1.5}" },
          { "{}", "{\"a\":1}", "{\"b\":1}" } },
        { "{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}}",
          { "{\"a\":\"\"}", "{\"a\":1,\"b\":[],\"c\":2}" },
          { "{}", "{\"a\":1}" } },
        { "{\"type\":\"array\",\"not\":{\"items\":{\"type\":\"null\"}}}",
          { "[1]", "[null,1,null]" },
          { "[]", "[null]" } },
        { "{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"x\",\"y\"]}},\"required\":["
          "\"k\"],"
          "\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}}},\"then\":{\"required\":[\"a\"]},"
          "\"else\":"
          "{\"required\":[\"b\"]}}",
          { "{\"k\":\"x\",\"a\":1}", "{\"k\":\"y\",\"b\":1}" },
          { "{\"k\":\"x\",\"b\":1}", "{\"k\":\"y\",\"a\":1}", "{\"k\":\"y\"}" } },
        { 0 },
    };
    check(cases);
}

static void references_lead_anywhere_in_the_document(void)
{
    static const Case cases[] = {
        { "{\"$ref\":\"#/$defs/a~1b/items/1\",\"$defs\":{\"a/"
          "b\":{\"items\":[1,{\"type\":\"null\"}]}}}",
          { "null" },
          { "1" } },
        { "{\"$ref\":\"#n\",\"$defs\":{\"x\":{\"$anchor\":\"n\",\"type\":\"null\"}}}",
          { "null" },
          { "1" } },
        { "{\"$id\":\"http://x/a/b\",\"$ref\":\"../c\",\"$defs\":{\"x\":{\"$id\":\"/"
          "c\",\"type\":\"null\"}}}",
          { "null" },
          { "1" } },
        { "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#"
          "\"}},"
          "\"required\":[\"v\"],\"additionalProperties\":false}",
          { "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}" },
          { "{\"v\":1,\"next\":{}}", "{\"v\":1,\"next\":{\"v\":2,\"next\":0}}" } },
        { "{\"definitions\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/t\"}}},"
          "\"allOf\":[{\"$ref\":\"#/definitions/t\"},{\"minItems\":1}]}",
          { "[[]]", "[[],[[],[]]]" },
          { "[]", "[1]", "[[1]]" } },
        { 0 },
    };
    check(cases);
}

static void what_cannot_be_kept_is_refused_with_its_place(void)
{
    static const struct { const char *schema, *message; } cases[] = {
        { "{", "s.json: byte 1: expected" },
        { "3", "s.json: #: expected a schema" },
        { "{\"properties\":{\"a\":{\"minLength\":-1}}}",
          "s.json: #/properties/a/minLength: minLength: expected a count" },
        { "{\"properties\":{\"a\":{\"unevaluatedItems\":false}}}",
          "s.json: #/properties/a/unevaluatedItems: the keyword unevaluatedItems is not kept" },
        { "{\"type\":\"text\"}", "s.json: #/type: type: expected names of types" },
        { "{\"$ref\":\"#/x\"}", "s.json: #/$ref: $ref: '#/x' is not in this document" },
        { "{\"$ref\":\"http://x/y\"}", "s.json: #/$ref: $ref: 'http://x/y' is not in" },
        { "{\"$ref\":\"#\"}", "s.json: #/$ref: $ref: leads back to itself" },
        { "{\"allOf\":[{\"$ref\":\"#\"}]}", "defined by itself, without end" },
        { "{\"not\":{\"$ref\":\"#\"}}", "defined by itself, without end" },
        { "{\"pattern\":\"a(?=b)\"}", "s.json: #/pattern: pattern: column 2" },
        { "{\"uniqueItems\":true}", "s.json: #/uniqueItems: uniqueItems: kept only for" },
        { "{\"multipleOf\":0}", "s.json: #/multipleOf: multipleOf: a step that is not kept" },
        { "{\"$schema\":\"http://x\"}", "s.json: #/$schema: $schema: expected a draft" },
        { "false", "s.json: no text fits" },
        { "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}",
          "no text fits" },
        { "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}}}",
          "no text fits" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Constraint *c = read_schema(cases[i].schema, false);
        CHECK(!c && err.status == INPUT && strstr(err.msg, cases[i].message), "%s: '%s'",
              cases[i].schema, c ? "taken" : err.msg);
        constraint_free(c);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(types_are_kept_apart);
    TEST(values_are_compared_by_value);
    TEST(numbers_end);
    TEST(bounds_are_exact);
    TEST(multiples_are_exact);
    TEST(strings_are_counted_in_characters);
    TEST(formats_follow_their_rfcs);
    TEST(objects_keep_order_and_counts);
    TEST(arrays_keep_places_and_counts);
    TEST(schemas_combine);
    TEST(references_lead_anywhere_in_the_document);
    TEST(what_cannot_be_kept_is_refused_with_its_place);
    return TEST_END();
}
