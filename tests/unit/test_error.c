#include "base/error.h"
#include "base/text.h"

#include "test.h"

static void fail_fills_status_and_message_and_returns_false(void)
{
    Error e = { 0 };
    CHECK(!fail(&e, INPUT, "%s: expected %d, found %d", "model.bin", 3, 4), "returned true");
    CHECK(e.status == INPUT && strcmp(e.msg, "model.bin: expected 3, found 4") == 0, "%d '%s'",
          e.status, e.msg);
    CHECK(!fail(NULL, SYSTEM, "nobody listens"), "returned true");
}

static void a_message_may_be_put_in_front_of_itself(void)
{
    Error e;
    fail(&e, SYSTEM, "no memory");
    fail(&e, e.status, "layer 3: %s", e.msg);
    CHECK(strcmp(e.msg, "layer 3: no memory") == 0, "'%s'", e.msg);
}

static void what_a_terminal_should_not_see_is_escaped(void)
{
    Error e;
    fail(&e, INPUT, "%s", "a\nb\033[31m\x7f \xC2\x9B \xE2\x80\xA8 \xFF\xC3 \xED\xA0\x80\t\r");
    CHECK(strcmp(e.msg,
                 "a\\nb\\x1b[31m\\x7f \\xc2\\x9b \\xe2\\x80\\xa8 \\xff\\xc3 \\xed\\xa0\\x80\\t\\r")
              == 0,
          "'%s'", e.msg);
    fail(&e, INPUT, "%s", "\xC3\xA9 \xE6\x97\xA5 \xF0\x9F\x8E\xAD");
    CHECK(strcmp(e.msg, "\xC3\xA9 \xE6\x97\xA5 \xF0\x9F\x8E\xAD") == 0, "'%s'", e.msg);
}

/* Every character: C0, DEL, C1, separators and what turns the direction of a text, and nothing
 * else. */
static void each_character_is_shown_or_escaped(void)
{
    static const uint32_t hidden[][2] = {
        { 1, 0x1F },        { 0x7F, 0x9F },     { 0x61C, 0x61C },
        { 0x200E, 0x200F }, { 0x2028, 0x202E }, { 0x2066, 0x2069 }
    };
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        char   text[4] = { (char)code }, shown[PRINTABLE_BYTES];
        size_t n = 1, n_read;
        bool   escaped = false;
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        if (code >= 0x80) {
            n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
            for (size_t i = 0; i < n; i++)
                text[i] = (char)(i ? 0x80 | (code >> 6 * (n - 1 - i) & 0x3F)
                                   : (0xF00u >> n & 0xFF) | code >> 6 * (n - 1));
        }
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
            escaped |= code >= hidden[i][0] && code <= hidden[i][1];
        size_t n_shown = printable(shown, text, n, &n_read);
        bool   same = n_shown == n && memcmp(shown, text, n) == 0;
        CHECK(n_read == n && same != escaped && strlen(shown) == n_shown, "U+%04X: '%s'",
              (unsigned)code, shown);
    }
}

static void a_long_message_is_cut_at_a_character(void)
{
    for (size_t lead = 0; lead < 8; lead++) {
        char text[2000];
        memset(text, 'x', lead);
        for (size_t i = lead; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE6\x97\xA5", 4);
        Error e;
        fail(&e, INPUT, "%s", text);
        size_t n = strlen(e.msg);
        CHECK(n < sizeof e.msg && n > sizeof e.msg - 8, "%zu bytes", n);
        CHECK(strcmp(e.msg + n - 3, "...") == 0 && (n - 3 - lead) % 3 == 0,
              "lead %zu: %zu bytes, '%s'", lead, n, e.msg + n - 8);
    }
}

static void messages_up_to_511_bytes_stay_whole(void)
{
    char text[600];
    for (size_t n = 500; n < 520; n++) {
        memset(text, 'x', n);
        text[n] = 0;
        Error e;
        fail(&e, INPUT, "%s", text);
        if (n < sizeof e.msg)
            CHECK(strcmp(e.msg, text) == 0, "%zu bytes became %zu", n, strlen(e.msg));
        else
            CHECK(strlen(e.msg) == 511 && strcmp(e.msg + 508, "...") == 0, "%zu: '%s'", n,
                  e.msg + 500);
    }
}

static void a_range_has_both_its_ends(void)
{
    Error e = { 0 };
    CHECK(check_range("n", 2, 2, 4, &e) && check_range("n", 4, 2, 4, &e), "%s", e.msg);
    CHECK(!check_range("n", 5, 2, 4, &e) && e.status == USAGE, "status %d", e.status);
    CHECK(strcmp(e.msg, "n: expected 2 to 4, found 5") == 0, "%s", e.msg);
    CHECK(!check_range("n", 1, 2, 4, NULL), "below");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(fail_fills_status_and_message_and_returns_false);
    TEST(a_message_may_be_put_in_front_of_itself);
    TEST(what_a_terminal_should_not_see_is_escaped);
    TEST(each_character_is_shown_or_escaped);
    TEST(a_long_message_is_cut_at_a_character);
    TEST(messages_up_to_511_bytes_stay_whole);
    TEST(a_range_has_both_its_ends);
    return TEST_END();
}
