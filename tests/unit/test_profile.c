/* tests/unit/test_profile.c: the clock of the forward pass. */
#include "test.h"

#include "runtime/forward.h"

static void time_goes_to_the_operation_that_runs(void)
{
    Profile p = {0};
    double  began = clock_seconds();
    profile_enter(&p, "norm", 0, 0);
    profile_enter(&p, "qkv", 100, 200);
    profile_enter(&p, "norm", 0, 0);
    profile_enter(&p, "qkv", 10, 20);
    profile_enter(&p, NULL, 0, 0);
    CHECK(p.n == 2 && strcmp(p.row[0].name, "norm") == 0 && strcmp(p.row[1].name, "qkv") == 0,
          "%d rows", p.n);
    CHECK(p.row[0].calls == 2 && p.row[1].calls == 2, "calls");
    CHECK(p.row[1].bytes == 110 && p.row[1].operations == 220, "%g bytes, %g operations",
          p.row[1].bytes, p.row[1].operations);
    CHECK(p.row[0].seconds >= 0 && p.row[1].seconds >= 0
              && p.row[0].seconds + p.row[1].seconds <= clock_seconds() - began + 1e-6,
          "%g and %g s", p.row[0].seconds, p.row[1].seconds);
    CHECK(p.running == NULL, "something still runs");
    double before = p.row[1].seconds;
    profile_enter(&p, "wo", 0, 0);
    CHECK(p.row[1].seconds == before, "time between passes counts");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(time_goes_to_the_operation_that_runs);
    return TEST_END();
}
