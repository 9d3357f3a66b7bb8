#include "test.h"
#include "tokenizer/unicode.h"

static void the_character_at_the_end_is_found_backwards(void)
{
    uint32_t cp = 0;
    CHECK(character_before("x\xE2\x96\x81", 4, &cp) == 3 && cp == 0x2581, "found U+%04X", cp);
    CHECK(character_before("x\xE2\x96", 3, &cp) == 0, "half a character");
    CHECK(character_before("\x80\x80\x80\x80\x80", 5, &cp) == 0, "no lead byte");
    CHECK(character_before("", 0, &cp) == 0, "empty");
}

static void written_characters_are_read_back(void)
{
    for (uint32_t cp = 0; cp < 0x110000; cp += cp < 0x300 ? 1 : 61) {
        char     out[4];
        uint32_t back = 0;
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        size_t n = character_write(cp, out);
        CHECK(character_at(out, n, &back) == n && back == cp, "U+%04X came back as U+%04X", cp,
              back);
        for (size_t part = 1; part < n; part++)
            CHECK(character_at(out, part, &back) == 0 && partial_tail(out, part) == part,
                  "U+%04X cut to %zu bytes", cp, part);
        CHECK(partial_tail(out, n) == 0, "U+%04X is whole", cp);
    }
}

static void the_valid_prefix_ends_at_the_first_wrong_byte(void)
{
    static const struct { const char *text; size_t n, valid; } row[] = {
        { "", 0, 0 }, { "abcdefghijklmnop", 16, 16 }, { "abcdefgh\xFFxyz", 12, 8 },
        { "ab\xC3\xA9\xED\xA0\x80", 7, 4 },
        { "\xC0\x80", 2, 0 }, { "\xF4\x90\x80\x80", 4, 0 }, { "a\0b", 3, 3 },
        { "\xEF\xBF\xBE", 3, 3 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        CHECK(valid_prefix(row[i].text, row[i].n) == row[i].valid, "row %zu: %zu", i,
              valid_prefix(row[i].text, row[i].n));
}

static void a_tail_that_cannot_become_valid_is_not_partial(void)
{
    CHECK(partial_tail("\xE0\x80", 2) == 0, "overlong");
    CHECK(partial_tail("\xED\xA0", 2) == 0, "surrogate");
    CHECK(partial_tail("\xF4\x90", 2) == 0, "over U+10FFFF");
    CHECK(partial_tail("\xC1", 1) == 0 && partial_tail("\xF5", 1) == 0 && partial_tail("\xFF",
        1) == 0, "no lead byte");
    CHECK(partial_tail("a\x80", 2) == 0, "a stray continuation");
    CHECK(partial_tail("\xE2\x96\xF0\x9F\x98", 5) == 3, "the last lead byte counts");
}

static void check_form(NormalForm form, const char *text, const char *expected)
{
    char  *out = NULL;
    size_t n;
    CHECK(normalize_form(form, text, strlen(text), &out, &n), "no memory");
    const char *found = out ? out : text;
    CHECK(n == strlen(expected) && memcmp(found, expected, n) == 0, "%s became %.*s, expected %s",
          text, (int)n, found, expected);
    free(out);
}

static void check_nfc(const char *text, const char *expected) { check_form(NFC, text, expected); }

static void nfc_composes_orders_and_leaves_the_rest(void)
{
    check_nfc("plain", "plain");
    check_nfc("caf\u00e9", "caf\u00e9");
    check_nfc("cafe\u0301", "caf\u00e9");
    check_nfc("\u212a \u2126", "K \u03a9");                       /* singletons        */
    check_nfc("q\u0307\u0323", "q\u0323\u0307");                  /* order of marks    */
    check_nfc("\u1112\u1161\u11ab", "\ud55c");                    /* Hangul            */
    check_nfc("\u0958", "\u0915\u093c");                          /* never composed    */
    check_nfc("a\u0305\u0301", "a\u0305\u0301");                  /* a blocked mark    */
    check_nfc("\U0001D15E", "\U0001D157\U0001D165");
}

static void nfc_takes_linear_time_for_a_long_run_of_marks(void)
{
    enum { PAIRS = 200000 }; /* alternating classes: a sort by exchange would need hours */
    char *text = malloc(1 + 4 * PAIRS), *out = NULL;
    size_t n = 0;
    text[0] = 'q';
    for (int i = 0; i < PAIRS; i++)
        memcpy(text + 1 + 4 * i, "\u0301\u0323", 4);
    CHECK(normalize_form(NFC, text, 1 + 4 * PAIRS, &out, &n) && n == 1 + 4 * PAIRS, "%zu bytes", n);
    CHECK(out && memcmp(out, "q\u0323\u0323", 5) == 0 && memcmp(out + n - 2, "\u0301", 2) == 0,
          "marks are not in order");
    free(text);
    free(out);
}

static void the_other_forms_decompose_and_compose(void)
{
    check_form(NFD, "x\u00e9\ud55c\u1e69y", "xe\u0301\u1112\u1161\u11abs\u0323\u0307y");
    check_form(NFKD, "\ufdfa",
               "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064a\u0647 "
               "\u0648\u0633\u0644\u0645");
    check_form(NFKC, "\ufb01\u2460 \uff21\u0301", "fi1 \u00c1");
    /* what is inert begins a stretch */
    check_form(NFC, "a\u0300\u0301 \u3042\u3099\u304b\u3099b", "\u00e0\u0301 \u3042\u3099\u304cb");
    check_form(NFKC, "\u1100\u1161\u11a8\u11a8", "\uac01\u11a8");
}

/* tokenizers has the forms of Unicode 9. */
static void what_came_after_unicode_9_has_no_forms(void)
{
    check_form(NFC, "q\u0301\u1df9", "q\u0301\u1df9");   /* a mark of class 220, of Unicode 10 */
    check_form(NFD, "\U00011938", "\U00011938");         /* of 13                              */
    check_form(NFKC, "\u32ff", "\u32ff");                 /* of 12.1                            */
}

static void check_cluster(const uint32_t *c, size_t n, const char *expected)
{
    GraphemeRun run = { 0 };
    char        found[16] = "";
    for (size_t i = 0; i < n; i++)
        found[i] = grapheme_goes_on(&run, c[i]) ? '+' : '|';
    CHECK(strcmp(found, expected) == 0, "from U+%04X on: expected %s, found %s", c[0], expected,
          found);
}
#define CLUSTERS(expected, ...) \
    check_cluster((const uint32_t[]){ __VA_ARGS__ }, strlen(expected), expected)

static void clusters_follow_annex_29(void)
{
    CLUSTERS("|+||", '\r', '\n', '\n', 'a');
    /* the second mark is of Unicode 17 */
    CLUSTERS("|++|", 'a', 0x301, 0x1ACF, 'b');
    CLUSTERS("|+++|", 0x1100, 0x1161, 0x11A8, 0x11A8, 0x1100);
    CLUSTERS("|+||+|", 0xAC00, 0x11A8, 0xAC01, 0x1100, 0xAC00, 0x200B);
    CLUSTERS("|+|+|", 0x1F1E6, 0x1F1E7, 0x1F1E6, 0x1F1E7, 0x1F1E6);    /* flags, by two */
    CLUSTERS("|++++|", 0x1F468, 0x1F3FD, 0x200D, 0x1F469, 0x200D, 'a');
    CLUSTERS("|+++", 0x915, 0x94D, 0x200D, 0x937);                     /* a conjunct */
    CLUSTERS("|++|", 0x915, 0x94D, 0x200C, 0x937);
    CLUSTERS("|+|", 0x600, 'a', 'b');                                  /* a prepended sign */
    CLUSTERS("|+", 'a', 0x903);
}

static void white_space_and_words_follow_unicode(void)
{
    CHECK(is_white_space(0x85) && is_white_space(0x3000) && is_white_space('\v')
              && !is_white_space(0x180E) && !is_white_space(0x200B) && !is_white_space(0x1C),
          "white space");
    CHECK(is_word('a') && is_word('_') && is_word('7') && is_word(0x301) && is_word(0x4E2D)
              && is_word(0x2160) && !is_word('-') && !is_word(0xB2) && !is_word(' '),
          "words");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_character_at_the_end_is_found_backwards);
    TEST(written_characters_are_read_back);
    TEST(the_valid_prefix_ends_at_the_first_wrong_byte);
    TEST(a_tail_that_cannot_become_valid_is_not_partial);
    TEST(nfc_composes_orders_and_leaves_the_rest);
    TEST(nfc_takes_linear_time_for_a_long_run_of_marks);
    TEST(the_other_forms_decompose_and_compose);
    TEST(what_came_after_unicode_9_has_no_forms);
    TEST(clusters_follow_annex_29);
    TEST(white_space_and_words_follow_unicode);
    return TEST_END();
}
