/* The learning rate of a step, and which parameters decay. */
#include <math.h>

#include "openblas.h"
#include "test.h"
#include "train/net.h"

static void rate_rises_and_falls(void)
{
    Schedule s = { .lr = 1, .min_lr = 0.1, .warmup = 10, .n_steps = 110 };
    CHECK(fabs(schedule_rate(&s, 0) - 0.1) < 1e-12 && fabs(schedule_rate(&s, 9) - 1) < 1e-12,
          "warm-up ends at %g", schedule_rate(&s, 9));
    CHECK(fabs(schedule_rate(&s, 10) - 1) < 1e-12, "%g", schedule_rate(&s, 10));
    CHECK(fabs(schedule_rate(&s, 60) - 0.55) < 1e-9, "half way: %g", schedule_rate(&s, 60));
    CHECK(fabs(schedule_rate(&s, 110) - 0.1) < 1e-9 && fabs(schedule_rate(&s, 500) - 0.1) < 1e-9,
          "end: %g", schedule_rate(&s, 110));
    s.n_steps = 0;
    CHECK(schedule_rate(&s, 5000) == 1, "constant: %g", schedule_rate(&s, 5000));
}

static void matrices_alone_decay(void)
{
    Config    c;
    Params    p = { 0 };
    Crew      crew = { 0 };
    Error     err = { 0 };
    config_defaults(&c);
    c.d_model = 8;
    c.n_layers = 1;
    c.heads = 2;
    c.kv_heads = 2;
    c.head_dim = 4;
    c.rotary_dim = 4;
    c.d_ff = 8;
    c.vocab_size = 10;
    c.n_ctx = 8;
    bool ok = params_layout(&p, &c, &err) && crew_open(&crew, 1, &err);
    CHECK(ok, "%s", err.msg);
    float *w = params_array(&p, &err), *g = params_array(&p, &err), *m = params_array(&p, &err),
          *v = params_array(&p, &err);
    for (int all = 0; ok && all < 2; all++) {
        params_init(&p, w, 1);
        float     wq = *params_find(&p, w, 0, ROLE_WQ, false);
        Optimizer o  = {
             .p = &p, .crew = &crew, .opt = { 0.9, 0.95, 1e-8, 0.5, all }, .m = m, .v = v
        };
        optimizer_step(&o, w, g, 1, 0.1, 1); /* no gradient: only decay, 1 - 0.1 * 0.5 */
        CHECK(fabsf(*params_find(&p, w, 0, ROLE_WQ, false) - wq * 0.95f) < 1e-7f, "wq");
        CHECK(fabsf(*params_find(&p, w, -1, ROLE_FINAL_NORM, false) - (all ? 0.95f : 1.0f)) < 1e-6f,
              "final_norm, all %d", all);
    }
    g[0] = 3;
    g[p.at[1]] = -4;
    CHECK(!ok || fabs(grads_norm(&p, &crew, g) - 5) < 1e-6, "norm %g", grads_norm(&p, &crew, g));
    free(w);
    free(g);
    free(m);
    free(v);
    params_free(&p);
    crew_close(&crew);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(rate_rises_and_falls);
    TEST_TRAINING(matrices_alone_decay);
    return TEST_END();
}
