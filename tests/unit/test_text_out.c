#include "base/text.h"
#include "test.h"

static void a_text_grows(void)
{
    TextOut o = { 0 };
    for (int i = 0; i < 1000; i++)
        text_out(&o, "%d %s,", i, "some text");
    char *text = text_out_take(&o, NULL);
    CHECK(text && strlen(text) == 13890 && strncmp(text + 13876, "999 some text,", 14) == 0, "%zu",
          text ? strlen(text) : 0);
    CHECK(!o.text && o.n == 0 && !o.failed, "taking it zeroes it");
    free(text);
}

static void any_bytes_may_stand_in_it(void)
{
    TextOut o = { 0 };
    CHECK(text_out_bytes(&o, "a\0b", 3) && text_out_bytes(&o, NULL, 0) && text_out(&o, "%s", ""),
          "adding");
    CHECK(o.n == 3 && memcmp(o.text, "a\0b", 3) == 0, "%zu bytes", o.n);
    text_out_free(&o);
    text_out_free(&o);
}

static void nothing_written_is_an_empty_text(void)
{
    TextOut o = { 0 };
    char   *text = text_out_take(&o, NULL);
    CHECK(text && !*text, "no text");
    free(text);
}

static void a_limit_keeps_what_was_there(void)
{
    TextOut o = { .most = 5 };
    Error   e = { 0 };
    CHECK(text_out_bytes(&o, "12345", 5), "five of five bytes");
    CHECK(!text_out_bytes(&o, "6", 1) && o.failed && o.n == 5, "a sixth byte");
    CHECK(!text_out(&o, "%s", "") && o.n == 5, "nothing more is added once it failed");
    CHECK(!text_out_take(&o, &e) && e.status == SYSTEM && !o.text && !o.failed,
          "taking a text that failed: '%s'", e.msg);
}

static void an_absurd_size_is_lack_of_memory(void)
{
    TextOut o = { 0 };
    CHECK(text_out_bytes(&o, "ab", 2) && !text_out_reserve(&o,
                                                           SIZE_MAX - 1) && o.failed && o.n == 2,
    "SIZE_MAX - 1 bytes");
    text_out_free(&o);
}

/* RFC 4648, section 10. */
static void base64_is_that_of_the_rfc(void)
{
    static const char *const texts[] = { "", "", "f", "Zg==", "fo", "Zm8=", "foo", "Zm9v", "foob",
                                         "Zm9vYg==", "fooba", "Zm9vYmE=", "foobar", "Zm9vYmFy",
                                         "\377\376\375", "//79" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i += 2) {
        TextOut o = { 0 };
        Base64  b = { .out = &o };
        for (const char *c = texts[i]; *c; c++)
            base64_byte(&b, (unsigned)*c);
        base64_end(&b);
        text_out(&o, "%s", "");
        CHECK(o.n == strlen(texts[i + 1]) && strncmp(o.text, texts[i + 1], o.n) == 0,
              "'%s': %.*s", texts[i], (int)o.n, o.text);
        text_out_free(&o);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_text_grows);
    TEST(any_bytes_may_stand_in_it);
    TEST(nothing_written_is_an_empty_text);
    TEST(a_limit_keeps_what_was_there);
    TEST(an_absurd_size_is_lack_of_memory);
    TEST(base64_is_that_of_the_rfc);
    return TEST_END();
}
