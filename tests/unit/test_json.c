#include "base/json.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "test.h"
#include "test_data.h"
#include "other_locale.h"

static Json *parse(const char *text, Error *e) { return json_parse(text, strlen(text), "test", e); }

static void refused(const char *text, const char *message)
{
    Error e = { 0 };
    Json *j = parse(text, &e);
    CHECK(!j && e.status == INPUT && strncmp(e.msg, "test: ", 6) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", text, e.status, e.msg);
    json_free(j);
}

/* [999...] of n digits */
static const char *long_number(int n)
{
    static char text[1024];
    text[0] = '[';
    memset(text + 1, '9', (size_t)n);
    memcpy(text + 1 + n, "]", 2);
    return text;
}

static void what_cjson_lets_pass_is_refused(void)
{
    refused("{\"a\": 1} x", "byte 9: expected nothing after the value, found 'x'");
    refused("", "byte 0: expected a value, found the end of the text");
    refused("\xEF\xBB\xBF{}", "byte order mark");
    refused("[01]", "leading 0");
    refused("[1.]", "a digit after the decimal point, found ']'");
    refused("[+1]", "expected a value, found '+'");
    refused("[.5]", "expected a value");
    refused("[-]", "expected a digit");
    refused("[1e]", "digit in the exponent");
    refused("[1, 1e999]", "byte 4: expected a number that fits a double, found one too large");
    refused("[-1e309]", "fits a double");
    refused(long_number(400), "byte 1: expected a number that fits a double");
    refused("[NaN]", "expected a value, found 'N'");
    refused("[-Infinity]", "expected a digit");
    refused("[1 \v]", "found byte 0x0b");
    refused("[\"a\nb\"]", "escape for a control character");
    refused("[\"\\x\"]", "one of");
    refused("[\"\xFF\"]", "byte 2: expected UTF-8, found byte 0xff");
    refused("[\"\xED\xA0\x80\"]", "expected UTF-8");
    refused("[\"\xC0\x80\"]", "expected UTF-8");
    refused("[\"\\u0000\"]", "NUL");
    refused("{\"a\\u0000\": 1}", "NUL");
    refused("[\"\\ud800\"]", "half a surrogate pair (\\ud800)");
    refused("[\"\\udc00\\ud800\"]", "half a surrogate pair (\\udc00)");
    refused("[\"\\ud800\\u0041\"]", "half a surrogate pair");
    refused("[\"\\u12G4\"]", "four hex digits");
    refused("[\"\\u-123\"]", "four hex digits");
    refused("[1,]", "expected a value, found ']'");
    refused("{\"a\":1,}", "a key in quotes");
    refused("{a:1}", "a key in quotes, found 'a'");
    refused("{\"a\" 1}", "':' after a key");
    refused("[1", "',' or ']', found the end");
    refused("\"abc", "the end of a string");
    refused("tru", "a value");
}

static void nul_bytes_in_the_text_are_refused(void)
{
    Error e = { 0 };
    CHECK(!json_parse("[1]\0[2]", 7, "test", &e) && strstr(e.msg, "byte 3"), "%s", e.msg);
    CHECK(!json_parse("[\"a\0b\"]", 7, "test", &e) && strstr(e.msg, "byte 3"), "%s", e.msg);
    CHECK(!json_parse("[\"\\\0\"]", 6, "test", &e), "an escaped NUL");
}

static void duplicate_keys_are_refused(void)
{
    refused("{\"a\": 1, \"b\": 2, \"a\": 1}", "\"a\" appears twice");
    refused("[{\"x\": {\"deep\": 1, \"d\\u0065ep\": 2}}]", "\"deep\" appears twice");
    Error e = { 0 };
    Json *j = parse("{\"a\": {\"a\": 1}, \"A\": 2}", &e);
    CHECK(j && json_count(j) == 2, "%s", e.msg);
    CHECK(json_is_object(json_get(j, "a")) && json_is_number(json_get(j, "A")),
          "keys are case-sensitive");
    json_free(j);
}

static void depth_64_is_the_limit(void)
{
    char text[200];
    for (int depth = 64; depth <= 65; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = 0;
        Error e = { 0 };
        Json *j = parse(text, &e);
        CHECK(depth == 64 ? !!j : !j && strstr(e.msg, "byte 64: nested deeper than 64"),
              "depth %d: %s", depth, e.msg);
        json_free(j);
    }
    char *many = malloc(1 << 20);
    memset(many, '[', 1 << 20);
    Error e = { 0 };
    CHECK(!json_parse(many, 1 << 20, "test", &e), "a million brackets");
    free(many);
}

static void read_of(const char *text, double expected)
{
    Error  e = { 0 };
    double x = NAN;
    Json  *j = parse(text, &e);
    CHECK(j && json_read_double(j, "x", -INFINITY, INFINITY, &x, &e) && x == expected,
          "%s gave %a, not %a: %s", text, x, expected, e.msg);
    json_free(j);
}

static void numbers_are_exact(void)
{
    read_of("0.1", 0.1);
    read_of("-0", 0);
    read_of("1e-05", 1e-5);
    read_of("1E+2", 100);
    read_of("5e-324", 5e-324);
    read_of("1.7976931348623157e308", 1.7976931348623157e308);
    read_of("1e-400", 0);
    read_of("123456789012345678901234567890", 123456789012345678901234567890.0);
    /* cJSON's own parser cuts these at 63 characters */
    read_of("0.1000000000000000055511151231257827021181583404541015625000000000000000000000000000",
            0.1);
    read_of("100000000000000000000000000000000000000000000000000000000000000000000000000000", 1e77);
    read_of("1.00000000000000000000000000000000000000000000000000000000000000000000000000e5", 1e5);
    for (int n = 55; n < 75; n++) { /* around that length, in an array, after and before others */
        char   text[128], digits[100];
        memset(digits, '3', sizeof digits);
        snprintf(text, sizeof text, "[1,0.%.*s,2]", n - 2, digits);
        Error  e = { 0 };
        Json  *j = parse(text, &e);
        double x = 0, last = 0;
        CHECK(j && json_count(j) == 3 && json_read_double(json_next(json_first(j)), "x", 0, 1, &x,
                                                          &e), "%s: %s", text, e.msg);
        if (j)
            json_read_double(json_next(json_next(json_first(j))), "x", 0, 3, &last, &e);
        CHECK(x == 1 / 3.0 && last == 2, "%d characters: %a %a", n, x, last);
        json_free(j);
    }
}

static void int_of(const char *text, int64_t min, int64_t max, const char *message)
{
    Error   e = { 0 };
    int64_t i = 77;
    Json   *j = parse(text, &e);
    bool    ok = json_read_int(j, "heads", min, max, &i, &e);
    CHECK(j && !ok && i == 77 && e.status == INPUT && strcmp(e.msg, message) == 0, "%s: '%s'", text,
          e.msg);
    json_free(j);
}

static void integers_have_a_range(void)
{
    Error   e = { 0 };
    int64_t i = 0;
    Json   *j = parse("[3000000000, -5, 9007199254740991, 1.0, 12e1]", &e);
    const Json *item = json_first(j);
    static const int64_t expected[] = { 3000000000, -5, 9007199254740991, 1, 120 };
    for (int k = 0; item; item = json_next(item), k++)
        CHECK(json_read_int(item, "n", INT64_MIN, INT64_MAX, &i, &e) && i == expected[k],
              "%lld: %s", (long long)i, e.msg);
    json_free(j);
    int_of("3.5", 1, 8, "heads: expected an integer from 1 to 8, found 3.5");
    int_of("9", 1, 8, "heads: expected an integer from 1 to 8, found 9");
    int_of("-1", 0, INT64_MAX,
           "heads: expected an integer from 0 to 9223372036854775807, found -1");
    int_of("9007199254740993", 0, INT64_MAX,
           "heads: expected an integer from 0 to 9223372036854775807, found 9007199254740992");
    int_of("1e300", 0, 5, "heads: expected an integer from 0 to 5, found 1e+300");
    int_of("\"4\"", 1, 8, "heads: expected an integer from 1 to 8, found string");
    int_of("true", 1, 8, "heads: expected an integer from 1 to 8, found true");
    CHECK(!json_read_int(NULL, "n", 0, 1, &i, &e)
              && strcmp(e.msg, "n: expected an integer from 0 to 1, found nothing") == 0,
          "%s", e.msg);
}

static void other_reads_check_their_kind(void)
{
    Error       e = { 0 };
    double      x = 7;
    bool        b = false;
    const char *s = NULL;
    Json       *j = parse("[0.5, true, \"text\", null, {}, []]", &e);
    const Json *number = json_first(j), *truth = json_next(number), *string = json_next(truth),
               *null = json_next(string), *object = json_next(null), *array = json_next(object);
    CHECK(json_read_double(number, "x", 0, 1, &x, &e) && x == 0.5, "%s", e.msg);
    CHECK(!json_read_double(number, "x", 1, 2.5, &x, &e) && strcmp(e.msg,
        "x: expected a number from 1 to 2.5, found 0.5") == 0, "%s", e.msg);
    CHECK(!json_read_double(number, "x", 1, INFINITY, &x, &e) && strcmp(e.msg,
        "x: expected a number of at least 1, found 0.5") == 0, "%s", e.msg);
    CHECK(!json_read_double(null, "x", -INFINITY, INFINITY, &x, &e) && strcmp(e.msg,
        "x: expected a number, found null") == 0, "%s", e.msg);
    CHECK(json_read_bool(truth, "b", &b, &e) && b, "%s", e.msg);
    CHECK(!json_read_bool(number, "b", &b, &e)
              && strcmp(e.msg, "b: expected true or false, found 0.5") == 0,
          "%s", e.msg);
    CHECK(json_read_string(string, "s", &s, &e) && strcmp(s, "text") == 0, "%s", e.msg);
    CHECK(!json_read_string(object, "s", &s, &e)
              && strcmp(e.msg, "s: expected a string, found object") == 0,
          "%s", e.msg);
    CHECK(strcmp(json_kind(array), "array") == 0 && json_is_null(null) && json_is_array(array),
          "kinds");
    CHECK(!json_get(array, "a") && !json_get(NULL, "a") && !json_first(NULL) && !json_first(number)
              && json_count(NULL) == 0,
          "lookups");
    json_free(j);
    json_free(NULL);
}

static void strings_are_unescaped(void)
{
    Error       e = { 0 };
    const char *s = "";
    Json       *j = parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83c\\udfad\xC3\xA9\"", &e);
    CHECK(j && json_read_string(j, "s", &s, &e)
              && strcmp(s, "\"\\/\b\f\n\r\t\xC3\xA9\xF0\x9F\x8E\xAD\xC3\xA9") == 0,
          "'%s' %s", s, e.msg);
    json_free(j);
}

/* ---- Sizes and lack of memory ---------------------------------------------------------------- */

static void two_hundred_thousand_keys_take_no_time(void)
{
    TextOut o = { 0 };
    for (int i = 0; i < 200000; i++)
        text_out(&o, "%s\"layers.%d.wq\": {\"shape\": [%d, 2]}", i ? ", " : "{", i * 7919 % 200000,
                 i);
    text_out(&o, "}");
    size_t  n = o.n;
    Error   e = { 0 };
    char   *text = text_out_take(&o, &e);
    clock_t start = clock();
    Json   *j = json_parse(text, n, "test", &e);
    double  seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK(j && json_count(j) == 200000, "%s", e.msg);
    CHECK(seconds < 5, "%g s", seconds);
    fprintf(stderr, "# 200000 keys, %zu bytes: %.2f s\n", n, seconds);
    json_free(j);
    free(text);
}

static int allocations_left;
/* zeroed: config=msan does not see what cJSON writes */
static void *scarce_malloc(size_t n) { return allocations_left-- > 0 ? calloc(1, n) : NULL; }

static void lack_of_memory_is_an_error(void)
{
    cJSON_Hooks scarce = { scarce_malloc, free };
    cJSON_InitHooks(&scarce);
    bool ok = false;
    for (int n = 0; n < 100 && !ok; n++) {
        allocations_left = n;
        Error e = { 0 };
        Json *j = parse("{\"a\": [1, \"x\", {\"b\": null}], \"c\": 0.5}", &e);
        ok = j;
        CHECK(j || e.status == SYSTEM, "%d allocations: %d '%s'", n, e.status, e.msg);
        json_free(j);
    }
    allocations_left = INT_MAX; /* the rest goes on with zeroed memory */
    CHECK(ok, "never parsed");
}

/* What is read is what cJSON's own parser reads. */
static void mutated_texts_are_read_or_refused(void)
{
    static const char seed_text[] = "{\"a\": [1, -2.5e+3, \"\\u00e9\\ud83c\\udfad\\n\"], \"b\": "
                                    "{\"c\": null, \"d\": true}, \"e\": [[], {}, \"\xC3\xA9\"]}";
    static const char alphabet[] = "{}[]\",:\\u0123456789aeE+-. \n\xC3\xA9tfnl";
    uint32_t state = 1;
    int      passed = 0;
    for (int round = 0; round < 60000; round++) {
        char   text[sizeof seed_text + 8];
        size_t n = sizeof seed_text - 1;
        memcpy(text, seed_text, n);
        for (int k = 0; k < 1 + round % 4; k++) {
            state = state * 1664525 + 1013904223;
            size_t at = (state >> 8) % n;
            char   ch = alphabet[(state >> 20) % (sizeof alphabet - 1)];
            if (state & 0x80)
                text[at] = ch;
            else if (n < sizeof text - 1)
                memmove(text + at + 1, text + at, n - at), text[at] = ch, n++;
        }
        char *exact = malloc(n); /* so that a sanitizer sees a read past the end */
        memcpy(exact, text, n);
        Error e = { 0 };
        Json *j = json_parse(exact, n, "test", &e);
        CHECK(j || e.status == INPUT, "%.*s: %d '%s'", (int)n, text, e.status, e.msg);
        cJSON *theirs = j ? cJSON_ParseWithLength(exact, n) : NULL;
        CHECK(!j || (theirs && json_equal(j, theirs)), "%.*s: read otherwise than by cJSON", (int)n,
              text);
        cJSON_Delete(theirs);
        passed += j != NULL;
        json_free(j);
        free(exact);
    }
    CHECK(passed > 1000, "only %d texts were sound", passed);
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void output_is(const char *what, TextOut *o, const char *expected)
{
    Error e = { 0 };
    char *text = text_out_take(o, &e);
    CHECK(text && strcmp(text, expected) == 0, "%s: '%s', expected '%s' %s", what, text ? text : "",
          expected, e.msg);
    free(text);
}

static void output_strings_are_ascii(void)
{
    TextOut o = { 0 };
    json_out_string(&o, "a\"\\/\n\t\b\f\r\x01\x7F\xC3\xA9\xE6\x97\xA5\xF0\x9F\x8E\xAD", 20);
    output_is("escapes", &o,
              "\"a\\\"\\\\/\\n\\t\\b\\f\\r\\u0001\\u007f\\u00e9\\u65e5\\ud83c\\udfad\"");
    json_out_string(&o, "a\0b", 3);
    output_is("NUL", &o, "\"a\\u0000b\"");
    json_out_string(&o, "\xFFx\xE6\x97x\xF0\x9F\x8E\xED\xA0\x80", 11);
    output_is("invalid UTF-8", &o, "\"\\ufffdx\\ufffdx\\ufffd\\ufffd\\ufffd\\ufffd\"");
    json_out_string(&o, "", 0);
    output_is("empty", &o, "\"\"");
    output_is("nothing", &o, "");
}

static void a_form_is_written_with_the_commas_that_are_due(void)
{
    TextOut o = { 0 }, c = { .compact = true };
    char   *none = getenv("TBLOCK_NO_SUCH_VARIABLE"); /* NULL, which the compiler cannot know */
    json_out(&o,
             "{id: %s, type: text, 'two words': 'as \\ is', n: [%d, %zu, %lld], on: %i, off: %i",
             "a\"b", -1, (size_t)2, 1LL << 40, true, false);
    json_out_member(&o, "text", "x\0y", 3);
    json_out(&o, "x: %g, nan: %g, none: %s, raw: %-s, nothing: null, minus: -0.5, list:", 0.1,
             (double)NAN, none, "{\"a\":1}");
    json_out_ints(&o, (const int[]){ 3, 4 }, 2);
    json_out(&o, "}");
    output_is("form", &o,
              "{\"id\": \"a\\\"b\", \"type\": \"text\", \"two words\": \"as \\\\ is\", \"n\": "
              "[-1, 2, 1099511627776], \"on\": true, \"off\": false, \"text\": \"x\\u0000y\", "
              "\"x\": 0.1, \"nan\": null, \"none\": null, \"raw\": {\"a\":1}, \"nothing\": null, "
              "\"minus\": -0.5, \"list\": [3, 4]}");
    for (int i = 0; i < 2; i++)
        json_out(&c, "%-s{%s: [], null: [%-s%-s]}", i ? "" : "[", i ? "b" : "a", "", "7");
    json_out(&c, "]");
    output_is("compact", &c, "[{\"a\":[],\"null\":[7]},{\"b\":[],\"null\":[7]}]");
    json_out(&o, "{\n  a: none,\n  b: [],\n  c: {\n  }\n}\n");
    output_is("lines", &o,
              "{\n  \"a\": \"none\",\n  \"b\": [],\n  \"c\": {\n  }\n}\n");
}

static void output_doubles_are_short_and_read_back(void)
{
    static const struct {
        double      x;
        const char *text;
    } cases[] = { { 0.1, "0.1" },
                  { 1, "1" },
                  { -0.0, "-0" },
                  { 1e6, "1000000" },
                  { 500000, "500000" },
                  { 1e-5, "1e-05" },
                  { 1e300, "1e+300" },
                  { 5e-324, "5e-324" },
                  { NAN, "null" },
                  { INFINITY, "null" },
                  { 1 / 3.0, "0.3333333333333333" },
                  { 1e15, "1e+15" },
                  { 123456789012345, "123456789012345" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TextOut o = { 0 };
        json_out_double(&o, cases[i].x);
        output_is("double", &o, cases[i].text);
    }
    uint64_t u = 1;
    for (int i = 0; i < 20000; i++) {
        u = u * 6364136223846793005u + 1442695040888963407u;
        double x, back = 0;
        memcpy(&x, &u, 8);
        if (!isfinite(x))
            continue;
        TextOut o = { 0 };
        json_out_double(&o, x);
        Json *j = json_parse(o.text, o.n, "test", NULL);
        CHECK(j && json_read_double(j, "x", -INFINITY, INFINITY, &back, NULL) && back == x,
              "%a became %a", x, back);
        json_free(j);
        text_out_free(&o);
    }
}

/* ---- Locales --------------------------------------------------------------------------------- */

static void numbers_in_locale(const char *point, const char *const *names, const char *source)
{
    if (!set_locale_with(point, names, source)) {
        setlocale(LC_ALL, "C");
        SKIP("no such locale here and localedef cannot make one");
        return;
    }
    read_of("0.5", 0.5);
    read_of("-1.25e-3", -1.25e-3);
    read_of("0.33333333333333333333333333333333333333333333333333333333333333333333333333",
            1 / 3.0);
    refused("[0,5e]", "exponent");
    int_of("3.5", 1, 8, "heads: expected an integer from 1 to 8, found 3.5");
    TextOut o = { 0 };
    json_out_double(&o, 1.5);
    text_out(&o, " %.2f %d", 2.25, 1000000);
    output_is("numbers", &o, "1.5 2.25 1000000");
    CHECK(strcmp(localeconv()->decimal_point, point) == 0, "the locale of the process was changed");
    setlocale(LC_ALL, "C");
}

static void a_comma_locale_changes_nothing(void)
{
    numbers_in_locale(",", comma_locales, "de_DE");
}

static void a_locale_with_a_two_byte_point_changes_nothing(void)
{
    numbers_in_locale("\xD9\xAB",
                      (const char *const[]){ "ps_AF.UTF-8", "ps_AF", "fa_IR.UTF-8", "fa_IR", NULL },
                      "ps_AF");
}

/* ---- The suite of https://github.com/nst/JSONTestSuite --------------------------------------- */

/* Sound JSON that we refuse on purpose (json.h). */
static bool refused_on_purpose(const char *name)
{
    static const char *const names[] = { "y_object_duplicated_key.json",
                                         "y_object_duplicated_key_and_value.json",
                                         "y_object_escaped_null_in_key.json",
                                         "y_string_null_escape.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void the_json_test_suite_passes(void)
{
    char folder[512], path[1024];
    DIR *d = test_data(folder, "data/json/JSONTestSuite") ? opendir(folder) : NULL;
    if (!d) {
        SKIP("no data: %s", folder);
        return;
    }
    int accepted = 0, refusals = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        const char *name = entry->d_name;
        if (strlen(name) < 6 || strcmp(name + strlen(name) - 5, ".json") != 0 || name[1] != '_')
            continue;
        char  *text;
        size_t n;
        Error  e = { 0 };
        snprintf(path, sizeof path, "%s/%s", folder, name);
        CHECK(file_read(path, 1 << 24, &text, &n, &e), "%s", e.msg);
        if (e.status)
            break;
        Json *j = json_parse(text, n, name, &e);
        CHECK(j || e.status == INPUT, "%s: %d", name, e.status);
        if (name[0] == 'y')
            CHECK(refused_on_purpose(name) ? !j : !!j, "%s: %s", name, e.msg);
        if (name[0] == 'n')
            CHECK(!j, "%s was accepted", name);
        accepted += name[0] == 'y';
        refusals += name[0] == 'n';
        json_free(j);
        free(text);
    }
    closedir(d);
    CHECK(accepted > 50 && refusals > 100, "found only %d y_ and %d n_ files", accepted, refusals);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(what_cjson_lets_pass_is_refused);
    TEST(nul_bytes_in_the_text_are_refused);
    TEST(duplicate_keys_are_refused);
    TEST(depth_64_is_the_limit);
    TEST(numbers_are_exact);
    TEST(integers_have_a_range);
    TEST(other_reads_check_their_kind);
    TEST(strings_are_unescaped);
    TEST(two_hundred_thousand_keys_take_no_time);
    TEST(lack_of_memory_is_an_error);
    TEST(mutated_texts_are_read_or_refused);
    TEST(output_strings_are_ascii);
    TEST(a_form_is_written_with_the_commas_that_are_due);
    TEST(output_doubles_are_short_and_read_back);
    TEST(a_comma_locale_changes_nothing);
    TEST(a_locale_with_a_two_byte_point_changes_nothing);
    TEST(the_json_test_suite_passes);
    return TEST_END();
}
