/* tests/unit/test_draft.c: what follows the last tokens where they stood before. */
#include "test.h"

#include "runtime/sampler.h"

enum { MAX_N = 3000, MOST = 20 };

static size_t draft(const int32_t *ids, size_t n, int min_match, int max_match, int window,
                    int32_t out[MOST])
{
    DraftOptions o = {.min_match = min_match, .max_match = max_match, .window = window};
    return draft_ngram(ids, n, &o, out, MOST);
}

#define DRAFT(out, ...) \
    draft((int32_t[]){ __VA_ARGS__ }, sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), 2, 16, \
          MAX_N, out)

static void what_followed_then_is_the_guess(void)
{
    int32_t out[MOST];
    size_t  n = DRAFT(out, 5, 6, 7, 8, 9, 1, 5, 6);
    CHECK(n == MOST && out[0] == 7 && out[1] == 8 && out[2] == 9 && out[3] == 1 && out[4] == 5
              && out[5] == 6,
          "%zu: %d %d %d", n, out[0], out[1], out[2]);
    CHECK(out[6] == 7 && out[7] == 8, "past the end it goes on with itself: %d %d", out[6], out[7]);
}

static void a_period_goes_on(void)
{
    int32_t out[MOST];
    CHECK(DRAFT(out, 1, 2, 3, 1, 2, 3, 1) == MOST, "no guess");
    for (int i = 0; i < MOST; i++)
        CHECK(out[i] == (i + 1) % 3 + 1, "token %d: %d", i, out[i]);
    CHECK(DRAFT(out, 4, 4, 4) == MOST && out[0] == 4 && out[MOST - 1] == 4, "a run of one token");
}

static void the_longest_match_wins_then_the_newest(void)
{
    int32_t out[MOST];
    CHECK(DRAFT(out, 1, 2, 3, 70, 2, 3, 80, 1, 2, 3) && out[0] == 70, "three tokens before two: %d",
          out[0]);
    CHECK(DRAFT(out, 1, 2, 3, 70, 1, 2, 3, 80, 1, 2, 3) && out[0] == 80, "the newest of equals: %d",
          out[0]);
    const int32_t ids[] = {9, 1, 2, 3, 70, 8, 1, 2, 3, 80, 9, 1, 2, 3};
    CHECK(draft(ids, 14, 2, 3, MAX_N, out) && out[0] == 80, "three are as good as four: %d",
          out[0]);
    CHECK(draft(ids, 14, 2, 4, MAX_N, out) && out[0] == 70, "four are better than three: %d",
          out[0]);
}

static void without_a_match_there_is_no_guess(void)
{
    int32_t       out[MOST];
    const int32_t ids[] = {1, 2, 3, 4, 5, 2};
    CHECK(draft(ids, 0, 1, 16, MAX_N, out) == 0 && draft(ids, 1, 1, 16, MAX_N, out) == 0,
          "a text too short");
    CHECK(draft(ids, 6, 2, 16, MAX_N, out) == 0, "one token where two are asked for");
    CHECK(draft(ids, 6, 1, 16, MAX_N, out) == MOST && out[0] == 3, "one token: %d", out[0]);
    CHECK(draft(ids, 6, 1, 16, 3, out) == 0, "it lies behind the window");
    CHECK(draft(ids, 6, 1, 16, 4, out) == MOST, "it lies in the window");
    CHECK(draft_ngram(ids, 6, &(DraftOptions){1, 16, MAX_N}, out, 0) == 0, "no room, no guess");
}

/* The definition: for every earlier place, how many tokens agree. */
static size_t literal(const int32_t *ids, size_t n, size_t min_match, size_t max_match,
                      size_t window, int32_t *out)
{
    size_t best = 0, from = 0;
    for (size_t end = 1; end < n; end++) { /* the match ends before ids[end] */
        size_t length = 0;
        while (length < max_match && length < end && ids[end - 1 - length] == ids[n - 1 - length])
            length++;
        if (n - end <= window && length >= min_match && length >= best) {
            best = length;
            from = end;
        }
    }
    for (size_t i = 0; i < MOST && best; i++)
        out[i] = from + i < n ? ids[from + i] : out[from + i - n];
    return best ? MOST : 0;
}

static void every_place_of_a_random_text_is_seen(void)
{
    static int32_t text[MAX_N];
    uint32_t       s = 1;
    int            found = 0;
    for (int round = 0; round < 4000; round++) {
        size_t n = round % 4 ? 2 + (size_t)round % 300 : 200 + (size_t)round % (MAX_N - 200);
        int    vocab = round % 3 == 0 ? 2 : round % 3 == 1 ? 30 : 1000;
        for (size_t i = 0; i < n; i++) {
            s       = s * 1664525u + 1013904223u;
            text[i] = (int32_t)((s >> 8) % (uint32_t)vocab);
        }
        if (round % 2) /* a part of it again */
            memmove(text + n - n / 8, text + n / 3, n / 8 * sizeof *text);
        int     min_match = 1 + round % 5, max_match = min_match + round / 5 % 7,
                window = round % 11 ? 1 << 20 : 1 + round % 150;
        int32_t got[MOST] = {0}, want[MOST] = {0};
        size_t  n_got = draft(text, n, min_match, max_match, window, got),
                n_want =
                    literal(text, n, (size_t)min_match, (size_t)max_match, (size_t)window, want);
        CHECK(n_got == n_want && memcmp(got, want, sizeof got) == 0,
              "round %d, %zu tokens of %d, match %d to %d, window %d: %d, expected %d",
              round, n, vocab, min_match, max_match, window, got[0], want[0]);
        found += n_want > 0;
    }
    CHECK(found > 1000 && found < 3900, "%d of 4000 texts had a guess", found);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(what_followed_then_is_the_guess);
    TEST(a_period_goes_on);
    TEST(the_longest_match_wins_then_the_newest);
    TEST(without_a_match_there_is_no_guess);
    TEST(every_place_of_a_random_text_is_seen);
    return TEST_END();
}
