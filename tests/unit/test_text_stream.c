#include "tiny_tokenizer.h"

static Tiny y;

/* Everything that the stream says for these ids, "/" between the puts. */
static const char *streamed(const int *ids, size_t n, bool continues)
{
    static char shown[1024];
    size_t at = 0, n_bytes;
    TextStream *s = text_stream_new(y.t, continues);
    for (size_t i = 0; i <= n; i++) {
        const char *text =
            i < n ? text_stream_put(s, ids[i], &n_bytes) : text_stream_flush(s, &n_bytes);
        CHECK(text[n_bytes] == '\0', "the text is not terminated");
        if (i)
            shown[at++] = '/';
        memcpy(shown + at, text, n_bytes);
        at += n_bytes;
    }
    shown[at] = '\0';
    text_stream_free(s);
    return shown;
}

static void open_bytes(void)
{
    tiny_init(&y, false);
    tiny_add_all_bytes(&y);
    bool ok = tiny_open(&y, "\"pretokenize\": []");
    CHECK(ok, "%s", y.err.msg);
}

static void characters_come_whole(void)
{
    open_bytes();
    const char *s = streamed((int[]){ 'a', 0xF0, 0x9F, 0x98, 0x80, 0xC3, 0xA9 }, 7, false);
    CHECK(strcmp(s, "a////\U0001F600//\u00e9/") == 0, "%s", s);
    tiny_close(&y);
}

static void bytes_that_cannot_become_a_character_pass_at_once(void)
{
    open_bytes();
    const char *s = streamed((int[]){ 0x80, 0xFF, 0xE0, 0x80, 'b', 0xE2, 0x96, 'c' }, 8, false);
    CHECK(strcmp(s, "\x80/\xFF//\xE0\x80/b///\xE2\x96" "c/") == 0, "%s", s);
    tiny_close(&y);
}

static void flush_gives_what_is_left(void)
{
    open_bytes();
    const char *s = streamed((int[]){ 'a', 0xE2, 0x96 }, 3, false);
    CHECK(strcmp(s, "a///\xE2\x96") == 0, "%s", s);
    tiny_close(&y);
}

static void an_id_out_of_range_adds_nothing(void)
{
    open_bytes();
    const char *s = streamed((int[]){ -1, 'a', 256, 1 << 30 }, 4, false);
    CHECK(strcmp(s, "/a///") == 0, "%s", s);
    tiny_close(&y);
}

static void the_dummy_prefix_goes_unless_the_text_continues(void)
{
    tiny_init(&y, true);
    tiny_add(&y, "<unk>", 2, 0);
    tiny_add(&y, "<s>", 3, 0);
    tiny_add(&y, "\u2581hi", 1, -1);
    tiny_add(&y, "\u2581", 1, -2);
    bool ok = tiny_open(&y, "\"unk\": 0, \"remove_extra_whitespaces\": false");
    CHECK(ok, "%s", y.err.msg);
    CHECK(strcmp(streamed((int[]){ 2, 2 }, 2, false), "hi/ hi/") == 0, "at the start");
    CHECK(strcmp(streamed((int[]){ 2, 2 }, 2, true), " hi/ hi/") == 0, "continuing");
    CHECK(strcmp(streamed((int[]){ 1, 2 }, 2, false), "<s>/hi/") == 0, "after a control piece");
    CHECK(strcmp(streamed((int[]){ 3, 2 }, 2, false), "/ hi/") == 0,
          "only one space is the prefix");
    CHECK(strcmp(streamed((int[]){ 0, 2 }, 2, false), " \u2047 / hi/") == 0,
          "after an unknown token");
    tiny_close(&y);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(characters_come_whole);
    TEST(bytes_that_cannot_become_a_character_pass_at_once);
    TEST(flush_gives_what_is_left);
    TEST(an_id_out_of_range_adds_nothing);
    TEST(the_dummy_prefix_goes_unless_the_text_continues);
    return TEST_END();
}
