#include "cli/bench.h"

#include "test.h"

static void lists_are_read(void)
{
    CountList    c;
    tblock_error err = { 0 };
    CHECK(counts_read(&c, "depth", "0,2048,16", 0, 4096, &err), "%s", err.msg);
    CHECK(c.n == 3 && c.value[0] == 0 && c.value[1] == 2048 && c.value[2] == 16, "%d: %d %d %d",
          c.n, c.value[0], c.value[1], c.value[2]);
    CHECK(counts_largest(&c) == 2048, "%d", counts_largest(&c));
    CHECK(counts_read(&c, "depth", "4096", 0, 4096, &err) && c.n == 1 && c.value[0] == 4096, "%s",
          err.msg);
    CHECK(counts_largest(&(CountList){ .n = 0 }) == 0, "none has no largest");
}

static void other_lists_are_refused_by_name(void)
{
    static const char *const bad[] = { "",
                                       ",",
                                       "1,",
                                       ",1",
                                       "1,,2",
                                       "1 2",
                                       "1.5",
                                       "-1",
                                       "+1",
                                       "x",
                                       "4097",
                                       "0",
                                       "99999999999999999999",
                                       "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CountList    c;
        tblock_error err = { 0 };
        CHECK(!counts_read(&c, "prefill", bad[i], 1, 4096, &err), "'%s' was read", bad[i]);
        CHECK(err.status == TBLOCK_USAGE && strstr(err.msg, "--prefill: expected") == err.msg,
              "'%s': %d, %s", bad[i], err.status, err.msg);
    }
}

static void the_median_is_in_the_middle(void)
{
    double odd[] = { 5, 1, 9 }, even[] = { 4, 1, 2, 100 }, one[] = { 3 };
    Spread s = spread_of(odd, 3);
    CHECK(s.median == 5 && s.least == 1 && s.most == 9, "%g %g %g", s.median, s.least, s.most);
    s = spread_of(even, 4);
    CHECK(s.median == 3 && s.least == 1 && s.most == 100, "%g %g %g", s.median, s.least, s.most);
    s = spread_of(one, 1);
    CHECK(s.median == 3 && s.least == 3 && s.most == 3, "%g %g %g", s.median, s.least, s.most);
}

static void what_is_short_is_repeated(void)
{
    CHECK(repetitions(1) == 1 && repetitions(TIMING_SECONDS) == 1, "%d, %d", repetitions(1),
          repetitions(TIMING_SECONDS));
    for (double s = 1e-7; s < 0.05; s *= 3)
        CHECK(repetitions(s) * s >= 0.9999 * TIMING_SECONDS || repetitions(s) == 1000000,
              "%d of %g s", repetitions(s), s);
    CHECK(repetitions(0.03) == 2, "%d", repetitions(0.03));
    CHECK(repetitions(0) == 1000000, "a clock that did not move: %d", repetitions(0));
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(lists_are_read);
    TEST(other_lists_are_refused_by_name);
    TEST(the_median_is_in_the_middle);
    TEST(what_is_short_is_repeated);
    return TEST_END();
}
