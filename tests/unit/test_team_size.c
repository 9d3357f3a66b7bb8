/* A machine is two numbers here: how long a region takes with one and with more members. */
#include "runtime/forward.h"

#include "test.h"

/* Regions for `seconds`; a region of n members takes s[n - 1], with a share of the members' time
 * asleep. Returns the time that a team of `size` computed. */
static double run_for(TeamSize *t, int most, double seconds, const double *s, double asleep,
                      int size)
{
    double of_size = 0, all = 0;
    while (all < seconds) {
        int n = team_size(t, most);
        CHECK(n >= 1 && n <= most, "%d of %d", n, most);
        team_size_note(t, most, n, s[n - 1], n > 1 ? asleep * n * s[n - 1] : 0);
        all += s[n - 1];
        of_size += n == size ? s[n - 1] : 0;
    }
    return of_size / all;
}

static const double idle[4] = { 1e-3, 0.55e-3, 0.4e-3, 0.3e-3 },
                    busy[4] = { 2e-3, 30e-3, 60e-3, 90e-3 };

static void an_idle_machine_keeps_all(void)
{
    TeamSize t = { 0 };
    CHECK(run_for(&t, 4, 5, idle, 0.05, 4) == 1, "fewer were tried without need");
}

/* Work that is cut unevenly: members sleep though nobody is in the way. */
static void trials_that_fail_cost_little(void)
{
    TeamSize t = { 0 };
    double   all = run_for(&t, 4, 20, idle, 0.3, 4);
    CHECK(all > 0.97 && all < 1, "%g of the time with all four", all);
}

static void a_busy_machine_gets_one(void)
{
    TeamSize t = { 0 };
    double   one = run_for(&t, 4, 10, busy, 0.4, 1);
    CHECK(one > 0.9, "%g of the time with one", one);
    TeamSize pair = { 0 };
    double   first = run_for(&pair, 2, 0.1, busy, 0.4, 1);
    CHECK(first > 0.4, "%g of the first 100 ms with one", first);
}

static void all_come_back_when_the_machine_is_idle_again(void)
{
    TeamSize t = { 0 };
    run_for(&t, 4, 10, busy, 0.4, 1);
    run_for(&t, 4, 10, idle, 0.05, 4);
    CHECK(run_for(&t, 4, 1, idle, 0.05, 4) == 1, "%d of 4 after 10 s", team_size(&t, 4));
}

/* Half of the processors are taken: two of four are best, from above and from below. */
static void the_best_size_in_between_is_found(void)
{
    static const double half[4] = { 2e-3, 1e-3, 5e-3, 9e-3 };
    TeamSize t = { 0 };
    double   two = run_for(&t, 4, 10, half, 0.3, 2);
    CHECK(two > 0.9, "%g of the time with two", two);
    TeamSize low = { 0 };
    run_for(&low, 4, 3, busy, 0.4, 1);
    run_for(&low, 4, 10, half, 0.3, 2);
    CHECK(run_for(&low, 4, 10, half, 0.3, 2) > 0.9, "%d of 4 after 20 s", team_size(&low, 4));
}

static void a_smaller_call_takes_its_part(void)
{
    TeamSize t = { .level = 1 };
    CHECK(team_size(&t, 8) == 4 && team_size(&t, 3) == 1 && team_size(&t, 1) == 1, "%d, %d, %d",
          team_size(&t, 8), team_size(&t, 3),
          team_size(&t, 1));
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(an_idle_machine_keeps_all);
    TEST(trials_that_fail_cost_little);
    TEST(a_busy_machine_gets_one);
    TEST(all_come_back_when_the_machine_is_idle_again);
    TEST(the_best_size_in_between_is_found);
    TEST(a_smaller_call_takes_its_part);
    return TEST_END();
}
