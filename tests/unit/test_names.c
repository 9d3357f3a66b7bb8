/* No object has a name twice, and no name is begun that cannot end. */
#include <stdlib.h>
#include "constrain/constrain.h"
#include "test.h"

static Error err;

static Constraint *of_schema(const char *schema, bool any_order)
{
    Rule          root = 0;
    Grammar      *g = grammar_new(&err);
    SchemaOptions options = { .any_order = any_order };
    grammar_read_schema(g, schema, strlen(schema), &options, "s", NULL, &root);
    return constraint_new(g, root, "s", &err);
}

static bool fits(Constraint *c, const char *text)
{
    ConstraintState s = constraint_start(c);
    CHECK(constraint_advance(c, &s, text, strlen(text), &err), "%s", err.msg);
    return constraint_may_end(c, s);
}

typedef struct Case { const char *schema, *yes[6], *no[8]; bool any_order; } Case;

static void check(const Case *t)
{
    for (; t->schema && test_case_state == 0; t++) {
        Constraint *c = of_schema(t->schema, t->any_order);
        CHECK(c, "%s: %s", t->schema, err.msg);
        for (int i = 0; c && i < 6 && t->yes[i]; i++)
            CHECK(fits(c, t->yes[i]), "%s: %s", t->schema, t->yes[i]);
        for (int i = 0; c && i < 8 && t->no[i]; i++)
            CHECK(!fits(c, t->no[i]), "%s: %s", t->schema, t->no[i]);
        constraint_free(c);
    }
}

static void a_name_comes_once_in_its_object(void)
{
    static const Case cases[] = {
        { "true", { "{\"a\":1,\"b\":2}", "{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":2}]}",
                    "{\"a\":\",\\\"a\\\":\",\"\":[]}", "{\"a\":\"a\",\"aa\":\"a\"}",
                    "{\"\\\\\":1,\"\\\"\":2}" },
          { "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1}, \"a\":1}", "[{\"\":1,\"\":1}]",
            "{\"a\":[{\"b\":1,\"c\":{},\"b\":1}]}", "{\"\\\"\":1,\"\\\"\":2}" }, false },
        { "{\"properties\":{\"b\":{},\"a\":{}}}", { "{\"b\":1,\"a\":2,\"c\":3,\"d\":4}" },
          { "{\"b\":1,\"b\":2}", "{\"c\":3,\"a\":2}", "{\"c\":3,\"c\":4}" }, false },
        { "{\"minProperties\":2,\"additionalProperties\":{\"type\":\"null\"}}",
          { "{\"a\":null,\"b\":null}" }, { "{\"a\":null,\"a\":null}", "{\"a\":null}" }, false },
        { 0 },
    };
    check(cases);
}

static void names_come_in_any_order(void)
{
    static const Case cases[] = {
        { "{\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{},"
          "\"g\":{},\"h\":{},\"i\":{},\"j\":{},\"k\":{},\"l\":{}},\"required\":[\"k\",\"b\"],"
          "\"additionalProperties\":false}",
          { "{\"b\":1,\"k\":2}", "{\"k\":1,\"l\":2,\"b\":3}",
            "{\"l\":1,\"k\":1,\"j\":1,\"i\":1,\"h\":1,\"g\":1,\"f\":1,\"e\":1,\"d\":1,\"c\":1,"
            "\"b\":1,\"a\":null}" },
          { "{\"b\":1}", "{\"b\":1,\"b\":2}", "{\"k\":1,\"b\":2,\"m\":3}",
            "{\"k\":1,\"b\":2,\"a\":3}",
            "{\"k\":1,\"b\":2,\"l\":3,\"l\":3}", "{\"b\":1,\"k\":1," "\"l\":1,}" }, true },
        { "{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"],\"maxProperties\":2}",
          { "{\"a\":1}", "{\"x\":1,\"a\":1}", "{\"a\":1,\"b\":1}" },
          { "{}", "{\"x\":1,\"y\":1", "{\"b\":1}", "{\"b\":1,\"a\":1,\"x\":1}",
            "{\"a\":1,\"a\":1}" },
          true },
        { "{\"properties\":{\"a\":{}},\"minProperties\":3}",
          { "{\"x\":1,\"a\":2,\"y\":3,\"z\":4}", "{\"x\":1,\"z\":2,\"y\":3}" },
          { "{\"x\":1,\"a\":2}", "{\"x\":1,\"a\":2,\"x\":3}" }, true },
        { "{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"null\"}}}",
          { "{\"x\":null,\"y\":1}", "{\"y\":1,\"x\":null}" }, { "{}", "{\"x\":null,\"y\":null}" },
          true },
        { 0 },
    };
    check(cases);
}

/* Those of patterns that allow few names. */
static const char *const few[] = {
    "{\"type\":\"object\",\"patternProperties\":{\"^[ab]$\":{\"type\":\"null\"}},"
    "\"additionalProperties\":false,\"minProperties\":2}",
    "{\"type\":\"object\",\"patternProperties\":{\"^(a|b+)$\":{\"type\":\"null\"}},"
    "\"additionalProperties\":false,\"minProperties\":3}",
    "{\"type\":\"object\",\"patternProperties\":{\"^x{0,2}y$\":{\"enum\":[1,2]}},"
    "\"additionalProperties\":false,\"properties\":{\"xy\":{\"type\":\"null\"}}}",
    "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"ab\",\"b\"]},\"minProperties\":3,"
    "\"additionalProperties\":{\"type\":\"null\"}}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"ab\":{\"type\":\"null\"},"
    "\"b\":{\"type\":\"null\"}},\"required\":[\"ab\"],\"additionalProperties\":{\"enum\":[0,1]},"
    "\"propertyNames\":{\"pattern\":\"^[ab]{0,2}$\"}}",
    "{\"type\":\"array\",\"items\":{\"patternProperties\":{\"^a?$\":{\"$ref\":\"#\"}},"
    "\"additionalProperties\":false,\"type\":\"object\"},\"maxItems\":2}",
};
enum { FEW = sizeof few / sizeof *few };

static const char *const tokens[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    " ",
    "a",
    "b",
    "x",
    "y",
    "0",
    "1",
    "2",
    "n",
    "u",
    "l",
    "null",
    "{\"",
    "\":",
    "\",\"",
    ",\"",
    ", \"",
    "\"a",
    "\"a\"",
    "\"a\":",
    "ab\"",
    "b\":null",
    ",\"a",
    ",\"a\"",
    ", \"b\":null",
    "\"ab\":null,\"a\":",
    ",\"b\":null,\"b\":null}",
    "{\"a\":null,\"",
    "{\"a\":null,\"a",
    "{\"a\":null,\"a\":null",
    "xy",
    "xx",
    "\":1,\"x",
    "\":1,\"xy\"",
    " \"a\"",
    " \"x",
    "null,\"a",
    "[{\"a\":[",
    "[{}]}",
    "{},{",
    "{\"\":",
    "{\"\":[",
    "[],\"\"",
    "[],\"a\":",
    "{\"",
    "b",
    "bb\"",
};
enum { TOKENS = sizeof tokens / sizeof *tokens };

static const char *piece(void *user, int id, size_t *n)
{
    (void)user;
    *n = strlen(tokens[id]);
    return tokens[id];
}

/* At each state the mask says of each token what its bytes say, and some way goes on. */
static void walk(Constraint *c, const TokenTrie *t, const char *schema)
{
    ConstraintState s = constraint_start(c);
    char            text[400] = "";
    for (int i = 0; i < 60 && test_case_state == 0; i++) {
        int             n = 0, allowed[TOKENS];
        const uint64_t *bits = constraint_mask(c, t, s, &err);
        for (int id = 0; bits && id < TOKENS; id++) {
            ConstraintState next = s;
            CHECK(constraint_advance(c, &next, tokens[id], strlen(tokens[id]), &err), "%s",
                  err.msg);
            bool may = next != STATE_DEAD;
            CHECK((bits[id / 64] >> id % 64 & 1) == may, "%s: '%s': '%s': expected %d", schema,
                  text, tokens[id], may);
            allowed[n] = id;
            n += may;
        }
        CHECK(bits && (n || constraint_may_end(c, s)), "%s: '%s' goes on with nothing", schema,
              text);
        if (n == 0 || strlen(text) > 300)
            return;
        const char *token = tokens[allowed[rand() % n]];
        CHECK(constraint_advance(c, &s, token, strlen(token), &err), "%s", err.msg);
        strcat(text, token);
    }
}

static void masks_know_the_names(void)
{
    TokenTrie *t = token_trie_new(TOKENS, piece, NULL, &err);
    srand(3);
    for (int i = 0; i < 2 * FEW && test_case_state == 0; i++) {
        Constraint *c = of_schema(few[i / 2], i % 2);
        CHECK(c, "%s: %s", few[i / 2], err.msg);
        for (int k = 0; c && k < 200 && test_case_state == 0; k++)
            walk(c, t, few[i / 2]);
        constraint_free(c);
    }
    token_trie_free(t);
}

static void names_that_run_out_are_counted(void)
{
    const Case cases[] = { // clang 14 takes few[0] for no constant
        { few[0], { "{\"a\":null,\"b\":null}", "{\"b\":null, \"a\":null}" },
          { "{\"a\":null}", "{\"a\":null,\"a\":null}" }, false },
        { few[0], { "{\"b\":null,\"a\":null}" }, { "{\"b\":null}" }, true },
        { few[3], { "{\"ab\":null,\"b\":null,\"a\":null}" }, { "{\"ab\":null,\"b\":null}" },
          false },
        { "{\"patternProperties\":{\"^[ab]$\":{}},\"additionalProperties\":false,"
          "\"minProperties\":3}", { "1" }, { "{\"a\":1,\"b\":1,\"a\":1}", "{\"a\":1" }, false },
        { 0 },
    };
    check(cases);
    CHECK(!of_schema(
              "{\"type\":\"object\",\"minProperties\":3,\"propertyNames\":{\"enum\":[1,\"a\"]}}",
              false)
              && strstr(err.msg, "no text fits"),
          "%s", err.msg);
    CHECK(!of_schema("{\"not\":{\"patternProperties\":{\"^[ab]$\":{\"type\":\"null\"}}}}", false)
          && strstr(err.msg, "a demand on one of 2 names"), "%s", err.msg);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_name_comes_once_in_its_object);
    TEST(names_come_in_any_order);
    TEST(masks_know_the_names);
    TEST(names_that_run_out_are_counted);
    return TEST_END();
}
