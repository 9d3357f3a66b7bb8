#include "base/report_rows.h"

#include <math.h>

#include "test.h"

static void shows(const char *what, Rows *r, const char *expected)
{
    char *text = text_out_take(&r->out, NULL);
    CHECK(text && strcmp(text, expected) == 0, "%s: '%s', expected '%s'", what, text ? text : "",
          expected);
    free(text);
}

static void pairs(Rows *r)
{
    rows_open(r, NULL, '{');
    rows_value(r, "n", "count", v_count(1234567), UNIT_COUNT);
    rows_value(r, "x", "share", v_real(0.25), UNIT_SHARE);
    rows_value(r, "unknown", "peak", v_shown(v_real(NAN), "-"), UNIT_NONE);
    rows_value(r, "left_out", "empty", v_none(), UNIT_NONE);
    rows_put(r, "json_alone", v_flag(true));
    rows_pair(r, "text", "alone\n");
    rows_close(r, '}');
}

static void pairs_have_keys_in_json_and_labels_elsewhere(void)
{
    Rows json = { .face = FACE_JSON }, text = { .face = FACE_TEXT, .margin = 2, .label_width = 5 };
    Rows page = { .face = FACE_PAGE };
    pairs(&json);
    pairs(&text);
    pairs(&page);
    shows("JSON", &json, "{\"n\": 1234567, \"x\": 0.25, \"unknown\": null, \"json_alone\": true}");
    shows("text", &text,
          "  count  1,234,567\n  share  25.0%\n  peak   -\n  empty  \n  text   alone\\n\n");
    shows(
        "page", &page,
        "<dl>\n<dt>count</dt><dd>1,234,567</dd>\n<dt>share</dt><dd>25.0%</dd>\n"
        "<dt>peak</dt><dd>-</dd>\n<dt>empty</dt><dd></dd>\n<dt>text</dt><dd>alone&#xfffd;</dd>\n");
}

static void table(Rows *r)
{
    static const Column columns[] = {
        { "name", "", -6, 0, UNIT_NONE, "l" },
        { "depth", "", 0, 0, UNIT_NONE, NULL },
        { "speed", "tok/s", 7, 0, UNIT_SPEED, "" },
        { NULL, "verdict", -1, 1, UNIT_NONE, NULL },
    };
    static const Table t = TABLE_OF(columns);
    rows_table(r, "rows", &t);
    rows_row(r, &t, (Cell[]){ v_text("a<b"), v_int(3), v_real(31.416), v_text("ok") }, NULL);
    rows_row(r, &t, (Cell[]){ v_text("longer than it"), v_int(-1), v_none(), v_text("") }, NULL);
    rows_table_end(r, "rows");
}

static void a_table_is_written_once_for_three_faces(void)
{
    Rows json = { .face = FACE_JSON }, text = { .face = FACE_TEXT, .indent = 1 };
    Rows page = { .face = FACE_PAGE };
    table(&json);
    table(&text);
    table(&page);
    shows("JSON", &json,
          "\"rows\": [{\"name\": \"a<b\", \"depth\": 3, \"speed\": 31.416}, "
          "{\"name\": \"longer than it\", \"depth\": -1}]");
    shows("text", &text, "          tok/s  verdict\n a<b      31.42  ok\n longer than it\n");
    shows("page", &page,
          "<div class=\"wide\"><table><thead><tr><th></th><th>tok/s</th></tr></thead><tbody>\n"
          "<tr><td class=\"l\">a&lt;b</td><td>31.42</td></tr>\n"
          "<tr><td class=\"l\">longer than it</td><td></td></tr>\n</tbody></table></div>\n");
}

static void plain_json_keeps_utf8_and_seventeen_digits(void)
{
    const char *s = "\xC3\xA9\"\\\n\t\xFF\xE2\x80\xAE";
    Rows plain = { .face = FACE_JSON, .plain = true }, ascii = { .face = FACE_JSON };
    rows_object(&plain, NULL, { "s", v_text(s) }, { "x", v_real(0.1) }, { "b", v_bytes("\0", 1) });
    rows_object(&ascii, NULL, { "s", v_text(s) }, { "x", v_real(0.1) }, { "b", v_bytes("\0", 1) });
    shows("plain", &plain,
          "{\"s\": \"\xC3\xA9\\\"\\\\\\n\\u0009\\ufffd\\u202e\", \"x\": 0.10000000000000001, "
          "\"b\": \"\\u0000\"}");
    shows("ASCII", &ascii,
          "{\"s\": \"\\u00e9\\\"\\\\\\n\\t\\ufffd\\u202e\", \"x\": 0.1, \"b\": \"\\u0000\"}");
}

static void json_has_no_word_for_what_is_not_finite(void)
{
    static const double odd[] = { INFINITY, -INFINITY, NAN };
    for (int i = 0; i < 6; i++) {
        Rows r = { .face = FACE_JSON, .plain = i < 3 };
        rows_open(&r, NULL, '[');
        rows_item(&r, v_real(odd[i % 3]));
        rows_item(&r, v_whole(odd[i % 3]));
        rows_item(&r, v_part(odd[i % 3], 1));
        rows_item(&r, v_part(0, 0));
        rows_close(&r, ']');
        shows("not finite", &r, "[null, null, null, null]");
    }
}

static void numbers_are_spelled_as_their_unit_says(void)
{
    static const struct {
        double      x;
        Unit        unit;
        const char *text;
    } cases[] = {
        { 3.14159, UNIT_SPEED, "3.142" },        { 3141.59, UNIT_SPEED, "3142" },
        { 0, UNIT_SHARE, "-" },                  { 0.3321, UNIT_SHARE, "33.2%" },
        { 5.79e6, UNIT_BYTES, "5.79 MB" },       { -NAN, UNIT_DIGITS + 4, "nan" },
        { 0.000123456, UNIT_DIGITS + 3, "0.000123" }, { 2.5, UNIT_FIXED + 2, "2.50" },
        { 0.12345, UNIT_PERCENT + 1, "12.3%" },  { 1234, UNIT_POWER + 1, "1.2e+03" },
        { NAN, UNIT_RATIO, "-" },                { NAN, UNIT_SHARE, "-" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char        buf[64];
        const char *found = real_spell(cases[i].x, cases[i].unit, buf, sizeof buf);
        CHECK(strcmp(found, cases[i].text) == 0, "'%s', expected '%s'", found, cases[i].text);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(pairs_have_keys_in_json_and_labels_elsewhere);
    TEST(a_table_is_written_once_for_three_faces);
    TEST(plain_json_keeps_utf8_and_seventeen_digits);
    TEST(json_has_no_word_for_what_is_not_finite);
    TEST(numbers_are_spelled_as_their_unit_says);
    return TEST_END();
}
