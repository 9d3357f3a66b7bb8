/* tests/unit/test_logit_rows.c: sums over logits against values known from closed forms. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "api/api.h"

#define NEAR(a, b, far) \
    CHECK(fabs((a) - (b)) <= (far), "expected %.17g, found %.17g", (double)(b), (double)(a))

static void log_sum_exp_of_equal_logits_is_log_n(void)
{
    double x[100];
    for (int i = 0; i < 100; i++)
        x[i] = -3000;
    NEAR(log_sum_exp(x, 100), log(100) - 3000, 1e-12);
    NEAR(log_sum_exp(x, 1), -3000.0, 0);
    x[7] = 1000; /* the others are nothing beside it */
    NEAR(log_sum_exp(x, 100), 1000.0, 0);
}

static void infinities_and_nan(void)
{
    double x[3] = {-INFINITY, 0, -INFINITY}, none[2] = {-INFINITY, -INFINITY}, bad[2] = {0, NAN};
    NEAR(log_sum_exp(x, 3), 0.0, 0);
    CHECK(isinf(log_sum_exp(none, 2)) && log_sum_exp(none, 2) < 0, "%g", log_sum_exp(none, 2));
    CHECK(isnan(log_sum_exp(bad, 2)), "%g", log_sum_exp(bad, 2));
    CHECK(isnan(kl_divergence(bad, NAN, x, 0, 2)), "not NaN");
}

static void kl_of_two_coins(void)
{
    double p[2] = {log(0.25), log(0.75)}, q[2] = {log(0.5) + 40, log(0.5) + 40};
    double lp = log_sum_exp(p, 2), lq = log_sum_exp(q, 2);
    NEAR(kl_divergence(p, lp, q, lq, 2), 0.25 * log(0.5) + 0.75 * log(1.5), 1e-14);
    NEAR(kl_divergence(q, lq, p, lp, 2), 0.5 * log(2) + 0.5 * log(2.0 / 3), 1e-14);
    NEAR(kl_divergence(p, lp, p, lp, 2), 0.0, 0);
    double never[2] = {0, -INFINITY};
    CHECK(isinf(kl_divergence(p, lp, never, 0, 2)), "what ours never says costs infinitely");
    NEAR(kl_divergence(never, 0, p, lp, 2), -log(0.25), 1e-14);
}

static void a_masked_token_adds_nothing_to_kl(void)
{
    double p[3] = { log(0.25), log(0.75), -INFINITY }, q[3] = { log(0.5), log(0.5), -INFINITY },
           open[3] = { log(0.25), log(0.25), log(0.5) };
    double lowest[3] = {log(0.25), log(0.75), -DBL_MAX}, want = 0.25 * log(0.5) + 0.75 * log(1.5);
    NEAR(kl_divergence(p, log_sum_exp(p, 3), q, log_sum_exp(q, 3), 3), want, 1e-14);
    NEAR(kl_divergence(lowest, log_sum_exp(lowest, 3), q, log_sum_exp(q, 3), 3), want, 1e-14);
    NEAR(kl_divergence(p, log_sum_exp(p, 3), open, log_sum_exp(open, 3), 3), 0.75 * log(3), 1e-14);
}

static void top_tokens_are_in_order_and_ties_go_to_the_lower_id(void)
{
    double x[8] = {1, 5, NAN, 5, -INFINITY, 7, 1, 0};
    int    id[TOP_MOST], n = top_tokens(x, 8, 5, id), want[5] = {5, 1, 3, 0, 6};
    CHECK(n == 5 && memcmp(id, want, sizeof want) == 0, "%d: %d %d %d %d %d", n, id[0], id[1],
          id[2], id[3], id[4]);
    CHECK(top_tokens(x, 3, 5, id) == 2 && id[0] == 1 && id[1] == 0, "NaN counts, or order");
    CHECK(top_tokens(x, 8, 1, id) == 1 && id[0] == 5, "%d", id[0]);
    CHECK(top_tokens(x, 8, 0, id) == 0, "none was asked for");
}

static void same_tokens_in_any_order(void)
{
    int a[3] = {1, 2, 3}, b[3] = {3, 1, 2}, c[3] = {1, 2, 4};
    CHECK(same_tokens(a, 3, b, 3) && !same_tokens(a, 3, c, 3) && !same_tokens(a, 3, a,
        2) && same_tokens(a, 0, c, 0), "wrong");
}

static void moments_of_known_numbers(void)
{
    static const double x[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
    Moments m = {0};
    CHECK(isnan(moments_error(&m)), "an error of nothing");
    for (int i = 0; i < 4; i++)
        moments_add(&m, x[i]);
    NEAR(m.mean, 1e9 + 10, 1e-6);
    NEAR(moments_error(&m), sqrt(30.0 / 4), 1e-6); /* variance 30: a sum of squares would have lost
                                                    * it */
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(log_sum_exp_of_equal_logits_is_log_n);
    TEST(infinities_and_nan);
    TEST(kl_of_two_coins);
    TEST(a_masked_token_adds_nothing_to_kl);
    TEST(top_tokens_are_in_order_and_ties_go_to_the_lower_id);
    TEST(same_tokens_in_any_order);
    TEST(moments_of_known_numbers);
    return TEST_END();
}
