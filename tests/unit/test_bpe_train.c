/* Merges of byte-level BPE: the most frequent pair first, ties to the lower ids, pieces that are
 * there keep their id. */
#include "test.h"
#include "tokenizer/tokenizer.h"

static const char steps[] = "[{\"regex\": \" ?[a-z]+|[^a-z]+\", \"behavior\": \"isolated\"}]";

static void most_frequent_pair_first(void)
{
    BpeMerge *m = NULL;
    size_t    n, found;
    Error     err = { 0 };
    const char text[] = "aab aab aab xy";
    bool ok = bpe_train(text, sizeof text - 1, steps, 258, &m, &n, &found, &err);
    /* " aab" twice and "aab" once: aa and ab 3 times, " a" twice */
    CHECK(ok && n == 2 && found == 258, "%zu merges, %zu ids: %s", n, found, err.msg);
    CHECK(n == 2 && m[0].left == 'a' && m[0].right == 'a' && m[0].merged == 256, "first: %d %d",
          m[0].left, m[0].right);
    CHECK(n == 2 && m[1].left == 256 && m[1].right == 'b' && m[1].merged == 257, "second: %d %d",
          m[1].left, m[1].right);
    free(m);
}

static void runs_end_where_every_word_is_one_piece(void)
{
    BpeMerge *m = NULL;
    size_t    n, found;
    Error     err = { 0 };
    bool ok = bpe_train("abc abc", 7, steps, 1000, &m, &n, &found, &err);
    /* ab, abc, " abc" */
    CHECK(ok && found == 256 + n - 0 && n == 3, "%zu merges, %zu ids", n, found);
    free(m);
    ok = bpe_train("", 0, steps, 1000, &m, &n, &found, &err);
    CHECK(ok && n == 0 && found == 256, "%zu merges of nothing", n);
    free(m);
    ok = bpe_train("\0\xff\xff\0\xff\xff", 6, steps, 300, &m, &n, &found, &err);
    CHECK(ok, "bytes that are no text: %s", err.msg);
    free(m);
}

static void pieces_are_not_made_twice(void)
{
    /* a long word of a's: aa, then aa aa ...: no two ids may have the same bytes */
    char      text[400];
    BpeMerge *m = NULL;
    size_t    n, found, length[600] = { 0 };
    Error     err = { 0 };
    memset(text, 'a', sizeof text);
    for (size_t i = 3; i < sizeof text; i += 1 + i % 11)
        text[i] = ' ';
    bool ok = bpe_train(text, sizeof text, steps, 300, &m, &n, &found, &err);
    CHECK(ok && n >= found - 256, "%s", err.msg);
    for (size_t i = 0; i < 256; i++)
        length[i] = 1;
    for (size_t i = 0, next = 256; ok && i < n; i++) {
        size_t merged = (size_t)m[i].merged, len = length[m[i].left] + length[m[i].right];
        CHECK(merged <= next, "merge %zu makes id %zu before %zu", i, merged, next);
        CHECK(merged == next || length[merged] == len,
              "merge %zu makes a piece of %zu bytes under an id of %zu", i, len, length[merged]);
        length[merged] = len;
        next += merged == next;
    }
    free(m);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(most_frequent_pair_first);
    TEST(runs_end_where_every_word_is_one_piece);
    TEST(pieces_are_not_made_twice);
    return TEST_END();
}
