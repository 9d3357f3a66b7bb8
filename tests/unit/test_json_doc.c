#include "base/json.h"

#include <math.h>
#include "base/hash.h"
#include "test.h"

static bool parse(JsonDoc *d, const char *text, size_t n, Error *e)
{
    char *copy = malloc(n + 1);
    memcpy(copy, text, n);
    copy[n] = 0;
    return json_doc_parse(d, copy, n, JSON_FINITE, "test", e);
}

static void refused(const char *text, const char *message)
{
    Error   e = { 0 };
    JsonDoc d;
    CHECK(!parse(&d, text, strlen(text), &e) && e.status == INPUT && strncmp(e.msg, "test: ",
        6) == 0 && strstr(e.msg, message),
          "%s: %d '%s'",
          text, e.status, e.msg);
    CHECK(!d.text && !d.node, "%s: something is left", text);
}

static void what_is_no_json_is_refused(void)
{
    refused("{\"a\": 1} x", "byte 9: expected nothing after the value, found 'x'");
    refused("", "byte 0: expected a value, found the end of the text");
    refused("\xEF\xBB\xBF{}", "byte 0");
    refused("[01]", "leading 0");
    refused("[1.]", "a digit after the decimal point, found ']'");
    refused("[+1]", "expected a value, found '+'");
    refused("[-]", "expected a digit");
    refused("[1e]", "digit in the exponent");
    refused("[1e999]", "fits a double");
    refused("[NaN]", "expected a value, found 'N'");
    refused("[\"a\nb\"]", "escape for a control character");
    refused("[\"\\x\"]", "one of");
    refused("[\"\\", "one of");
    refused("[\"\xFF\"]", "byte 2: expected UTF-8, found byte 0xff");
    refused("[\"\xED\xA0\x80\"]", "expected UTF-8");
    refused("[\"\\ud800\"]", "half a surrogate pair (\\ud800)");
    refused("[\"\\udc00\\ud800\"]", "half a surrogate pair (\\udc00)");
    refused("[\"\\ud800\\u0041\"]", "half a surrogate pair");
    refused("[\"\\u12G4\"]", "four hex digits");
    refused("[\"\\u12", "four hex digits");
    refused("[1,]", "expected a value, found ']'");
    refused("[1 2]", "',' or ']'");
    refused("{\"a\":1,}", "a key in quotes");
    refused("{a:1}", "a key in quotes, found 'a'");
    refused("{\"a\" 1}", "':' after a key");
    refused("[1", "',' or ']', found the end");
    refused("[", "expected a value, found the end");
    refused("\"abc", "the end of a string");
    refused("tru", "a value");
    refused("{\"a\": 1, \"b\": 2, \"a\": 3}", "the key \"a\" appears twice");
    char many[400] = "{", deep[200];
    for (int i = 0; i < 20; i++)
        sprintf(many + strlen(many), "\"key %d\": %d,", i, i);
    strcat(many, "\"key 7\": 1}");
    refused(many, "the key \"key 7\" appears twice");
    memset(deep, '[', 100);
    deep[100] = 0;
    refused(deep, "nested deeper than 64");
}

static void what_is_refused_can_be_chosen(void)
{
    static const char text[] = "{\"a\\u0000\": \"b\\u0000\", \"c\": 1e999}";
    JsonDoc d;
    Error   e = { 0 };
    char   *copy = strdup(text);
    CHECK(json_doc_parse(&d, copy, sizeof text - 1, 0, "test",
                         &e) && d.node[1].key_n == 2 && d.node[1].n == 2 && isinf(d.node[2].number),
    "%s",
          e.msg);
    json_doc_free(&d);
    copy = strdup(text);
    CHECK(!json_doc_parse(&d, copy, sizeof text - 1, JSON_NO_NUL, "test", &e) && strstr(e.msg,
        "byte 3: a string holds NUL"), "%s", e.msg);
}

static void strings_end_with_nul(void)
{
    static const char text[] = "{\"key\": \"\\u00e9x\"}";
    JsonDoc d;
    Error   e = { 0 };
    CHECK(parse(&d, text, sizeof text - 1, &e) && strcmp(d.node[1].key,
                                                         "key") == 0 && strcmp(d.node[1].text,
        "\xC3\xA9x") == 0, "%s", e.msg);
    json_doc_free(&d);
}

static void values_are_what_the_text_says(void)
{
    static const char text[] = " {\"s\": \"a\\u0000\\u00e9\\ud83d\\ude00\\n\\/\", \"i\": -12, "
                               "\"d\": 1.5e2, \"big\": 12345678901234567890, "
                               "\"l\": [1, [], {}, null, true, false], \"last\": 0} ";
    JsonDoc d;
    Error   e = { 0 };
    CHECK(parse(&d, text, sizeof text - 1, &e), "%s", e.msg);
    const JsonNode *root = d.node, *s = node_get(root, "s"), *l = node_get(root, "l");
    CHECK(root->kind == NODE_OBJECT && root->n == 6 && root->skip == d.n_nodes, "%u members",
          root->n);
    CHECK(s && s->n == 10 && memcmp(s->text, "a\0\xC3\xA9\xF0\x9F\x98\x80\n/", 10) == 0, "%u bytes",
          s ? s->n : 0);
    CHECK(node_get(root, "i")->integer == -12 && node_number(node_get(root,
        "d")) == 150 && node_get(root, "big")->kind == NODE_DOUBLE,
          "numbers");
    CHECK(node_number(node_get(root, "big")) == 12345678901234567890.0, "%g",
          node_number(node_get(root, "big")));
    CHECK(l && l->n == 6 && l->skip == 7, "%u items", l ? l->n : 0);
    int n = 0, truths = 0;
    JSON_NODES (i, l) {
        n++;
        truths += node_truth(i);
    }
    CHECK(n == 6 && truths == 2, "%d items, %d true", n, truths);
    CHECK(!node_get(root, "S") && !node_get(l, "s") && !node_get(NULL, "s"),
          "a key that is not there");
    char found[NODE_TEXT];
    CHECK(strcmp(node_text(node_get(root, "i"), found),
                 "-12") == 0 && strcmp(node_text(NULL, found), "nothing") == 0, "%s", found);
    CHECK(isnan(node_number(s)) && node_number(l + 5) == 1, "no number");
    json_doc_free(&d);
    json_doc_free(&d);
}

/* As many values as the bytes allow are an error before they fill the memory. */
static void too_many_values_are_refused(void)
{
    size_t  n = (size_t)2 * ((1 << 24) + 10);
    char   *text = malloc(n + 1);
    JsonDoc d;
    Error   e = { 0 };
    for (size_t i = 0; i < n; i += 2)
        memcpy(text + i, ",0", 2);
    text[0] = '[';
    text[n] = 0;
    CHECK(!json_doc_parse(&d, text, n, 0, "test", &e) && e.status == INPUT && strstr(e.msg,
        "at most 16777216 values"), "%s", e.msg);
}

static void a_map_finds_what_was_put_into_it(void)
{
    enum { N = 5000 };
    static char key[N][24];
    ByteMap m = { 0 };
    Error   e = { 0 };
    bool    found, ok = true;
    CHECK(byte_map_find(&m, "x", 1, -7) == -7, "an empty map");
    for (int i = 0; i < N; i++) {
        sprintf(key[i], "%.*s%d", i % 18, "aaaaaaaaaaaaaaaaaa", i);
        int32_t *v = byte_map_put(&m, key[i], strlen(key[i]), i, &found, &e);
        ok = ok && v && !found && *v == i;
    }
    for (int i = 0; i < N; i++) {
        int32_t *v = byte_map_put(&m, key[i], strlen(key[i]), -1, &found, &e);
        ok = ok && found && v && *v == i && byte_map_find(&m, key[i], strlen(key[i]), -1) == i;
    }
    CHECK(ok && m.n == N, "%zu keys", m.n);
    CHECK(byte_map_find(&m, "a", 1, -1) == -1 && byte_map_find(&m, "", 0, -1) == -1,
          "keys that are not there");
    CHECK(*byte_map_put(&m, "", 0, 9, &found, &e) == 9 && byte_map_find(&m, "", 0, -1) == 9,
          "the empty key");
    byte_map_free(&m);
    byte_map_free(&m);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(what_is_no_json_is_refused);
    TEST(what_is_refused_can_be_chosen);
    TEST(strings_end_with_nul);
    TEST(values_are_what_the_text_says);
    TEST(too_many_values_are_refused);
    TEST(a_map_finds_what_was_put_into_it);
    return TEST_END();
}
