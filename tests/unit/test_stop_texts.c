/* tests/unit/test_stop_texts.c: text in any pieces ends before the first complete stop text. */
#include "test.h"

#include "tokenizer/tokenizer.h"

static Error err;

/* What is shown of text when it comes in pieces of 1 to `longest` bytes. */
static const char *shown(const char *const *stop, size_t n_stop, const char *text, int longest)
{
    static TextOut out;
    StopTexts      s = { .texts = stop, .n = n_stop };
    text_out_free(&out);
    for (size_t at = 0, n = strlen(text), piece; at < n; at += piece) {
        piece = 1 + (size_t)rand() % (size_t)longest;
        piece = piece < n - at ? piece : n - at;
        CHECK(stop_texts_put(&s, text + at, piece, &out, &err), "%s", err.msg);
    }
    CHECK(stop_texts_flush(&s, &out, &err) && text_out(&out, "%s", s.found ? "|" : ""), "%s",
          err.msg);
    text_out_free(&s.held);
    return out.text;
}

#define SHOWN(text, ...)                                                                           \
    shown((const char *const[]){ __VA_ARGS__ },                                                    \
          sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), text, 3)

static void check(const char *got, const char *want)
{
    CHECK(strcmp(got, want) == 0, "'%s', expected '%s'", got, want);
}

static void it_ends_before_the_first_that_is_complete(void)
{
    check(SHOWN("one two three", "three", "two"), "one |");
    check(SHOWN("one two three", "four"), "one two three");
    check(SHOWN("one two thr", "three"), "one two thr"); /* held back, and shown at the end */
    check(SHOWN("abcd", "abcde", "bc"), "a|");           /* the longer one never came */
    check(SHOWN("xabc", "c", "abc"), "x|"); /* of those that end together the longest */
    check(SHOWN("aaab", "aab"), "a|");
    check(SHOWN("stop", "stop"), "|");
    check(SHOWN("", "stop"), "");
}

static void a_character_may_come_in_halves(void)
{
    for (int i = 0; i < 20; i++)
        check(SHOWN("a\u00e4\U0001F600b\u00e9", "\U0001F600b"), "a\u00e4|");
}

/* Texts of two letters: beginnings overlap everywhere. The definition: at each byte, who ends? */
static void any_pieces_of_any_text(void)
{
    for (int round = 0; round < 20000 && test_case_state == 0; round++) {
        char        text[24], stop[3][6], want[26] = "";
        const char *stops[3] = { stop[0], stop[1], stop[2] };
        for (int i = 0; i < 3; i++) {
            int n = 1 + rand() % 5;
            for (int j = 0; j < n; j++)
                stop[i][j] = (char)('a' + rand() % 2);
            stop[i][n] = '\0';
        }
        size_t n = (size_t)rand() % sizeof text, end = n, longest = 0;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + rand() % 2);
        text[n] = '\0';
        for (size_t i = 1; i <= n && !longest; i++)
            for (int k = 0; k < 3; k++) {
                size_t length = strlen(stop[k]);
                if (length <= i && length > longest
                    && memcmp(text + i - length, stop[k], length) == 0)
                    longest = length, end = i - length;
            }
        snprintf(want, sizeof want, "%.*s%s", (int)end, text, longest ? "|" : "");
        check(shown(stops, 3, text, 1 + round % 6), want);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(it_ends_before_the_first_that_is_complete);
    TEST(a_character_may_come_in_halves);
    TEST(any_pieces_of_any_text);
    return TEST_END();
}
