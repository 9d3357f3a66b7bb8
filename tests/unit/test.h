/* tests/unit/test.h: the smallest harness. Cases read as sentences; each prints "ok NAME", "FAIL
 * NAME: why" or "skip NAME: why".
 *   static void window_keeps_the_newest_tokens(void) { CHECK(n == 3, "n is %d", n); }
 *   int main(int argc, char **argv) { TEST_MAIN_ARGS(argc, argv);
 *     TEST(window_keeps_the_newest_tokens); return TEST_END(); }
 * Programs take --list, or names of cases to run. */
#ifndef TEST_H
#define TEST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int    test_failures, test_case_state; /* 0 running, 1 failed, 2 skipped */
static char   test_why[1024];
static int    test_argc;
static char **test_argv;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition) && test_case_state == 0) {                                                \
            test_case_state = 1;                                                                   \
            int n_ = snprintf(test_why, sizeof test_why, "%s:%d: %s: ", __FILE__, __LINE__,        \
                              #condition);                                                         \
            snprintf(test_why + n_, sizeof test_why - (size_t)n_, __VA_ARGS__);                    \
        }                                                                                          \
    } while (0)
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        if (test_case_state == 0) {                                                                \
            test_case_state = 2;                                                                   \
            snprintf(test_why, sizeof test_why, __VA_ARGS__);                                      \
        }                                                                                          \
    } while (0)

/* The most memory that this process has had so far. */
static inline long peak_kb(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

/* An invariant holds, not with this value in this place, and again when that is as it was. */
#define BREAKS(sound, place, value)                                                                \
    do {                                                                                           \
        __typeof__(place) was_ = (place);                                                          \
        CHECK(sound, "before");                                                                    \
        (place) = (value);                                                                         \
        CHECK(!(sound), "%s = %s", #place, #value);                                                \
        (place) = was_;                                                                            \
        CHECK(sound, "behind");                                                                    \
    } while (0)

static inline void test_run(const char *name, void (*fn)(void))
{
    bool wanted = test_argc < 2;
    for (int i = 1; i < test_argc; i++)
        wanted |= strcmp(test_argv[i], name) == 0;
    if (test_argc == 2 && strcmp(test_argv[1], "--list") == 0) {
        puts(name);
        return;
    }
    if (!wanted)
        return;
    test_case_state = 0;
    fn();
    if (test_case_state == 0)
        printf("ok %s\n", name);
    else
        printf("%s %s: %s\n", test_case_state == 1 ? "FAIL" : "skip", name, test_why);
    test_failures += test_case_state == 1;
    fflush(stdout);
}

#define TEST_MAIN_ARGS(argc, argv) (test_argc = (argc), test_argv = (argv))
#define TEST(fn)                   test_run(#fn, fn)
#define TEST_END()                 (test_failures ? 1 : 0)

#endif
