/* The laboratory for one block: gradients of every kind of block against central differences in
 * double, what the observer is shown, the fused residual + norm against the two operations. */
#include <math.h>

#include "openblas.h"
#include "test.h"
#include "train/block_lab.h"

enum { SAMPLES = 5 };
static const double limit = 1e-4; /* f32 against double: the worst over all blocks below is
                                   * 1.7e-5 */

/* A small block; sizes are such that a mixed-up dimension cannot go unseen. */
static Config small_block(Norm norm, NormPlacement place, FfnKind ffn, int kv_heads, int window,
                          bool biases)
{
    Config c;
    config_defaults(&c);
    c.d_model = 12;
    c.heads = 4;
    c.kv_heads = kv_heads;
    c.head_dim = 6;
    c.rotary_dim = 4;
    c.d_ff = 10;
    c.n_layers = c.vocab_size = c.n_ctx = 1;
    c.norm = norm;
    c.norm_placement = place;
    c.ffn = ffn;
    c.window = window;
    c.qkv_bias = c.out_bias = c.ffn_bias = biases;
    c.norm_bias = biases && norm == NORM_LAYER;
    return c;
}

/* Runs a block and checks its gradients; returns the worst error. */
static double check_block(const Config *c, bool causal, uint64_t seed, const char *what)
{
    BlockLab lab;
    LabCheck check[32];
    double   y_error = INFINITY, worst = 0;
    Error    err = { 0 };
    CHECK(config_check(c, what, &err), "%s", err.msg);
    bool ok = lab_open(&lab, c, causal, 2, 5, false, 1, &err);
    CHECK(ok, "%s: %s", what, err.msg);
    if (ok) {
        lab_fill_weights(&lab, seed, 0);
        lab_fill_input(&lab, seed);
        lab_run(&lab);
        int n = lab_check(&lab, SAMPLES, seed, check, &y_error, NULL, &err);
        CHECK(n >= 9 && y_error <= 1e-5, "%s: %d tensors, y differs by %g", what, n, y_error);
        for (int i = 0; i < n; i++) {
            CHECK(check[i].error <= limit, "%s: %s at %zu: %.9g, by differences %.9g", what,
                  check[i].tensor < 0 ? "x" : lab.params.spec[check[i].tensor].part, check[i].at,
                  check[i].computed, check[i].expected);
            worst = fmax(worst, check[i].error);
        }
    }
    lab_close(&lab);
    return worst;
}

static void gradients_are_right_in_every_combination(void)
{
    static const FfnKind kinds[] = { FFN_SWIGLU, FFN_GEGLU, FFN_GELU,
                                     FFN_RELU,   FFN_GELU_TANH, FFN_GEGLU_ERF, FFN_RELU2 };
    static const int     kv_heads[] = { 4, 2, 1 };
    double worst = 0;
    int    n = 0;
    for (int norm = 0; norm < 2; norm++)
        for (int place = PLACE_PRE; place <= PLACE_POST; place++)
            for (int f = 0; f < 7; f++)
                for (int h = 0; h < 3; h++)
                    for (int more = 0; more < 8; more++, n++) {
                        bool   causal = more & 1, biases = more & 2;
                        int    window = more & 4 ? 3 : 0;
                        char   what[128];
                        Config c = small_block((Norm)norm, (NormPlacement)place, kinds[f],
                                               kv_heads[h], window, biases);
                        /* both with each mask */
                        c.positions = (n / 8 + n) % 2 ? POS_LEARNED : POS_ROPE;
                        snprintf(what, sizeof what,
                                 "norm %d, place %d, ffn %d, kv_heads %d, window %d, causal %d, "
                                 "biases %d, positions %d",
                                 norm, place, kinds[f], kv_heads[h], window, causal, biases,
                                 c.positions);
                        worst = fmax(worst, check_block(&c, causal, (uint64_t)n, what));
                    }
    CHECK(n == 672 && worst > 0, "%d blocks, worst error %g", n, worst);
    if (getenv("VERBOSE"))
        printf("# %d blocks, worst relative error %.2g\n", n, worst);
}

/* What the combinations do not have: norms behind and on both sides, norms of q and k,
 * scales. */
static void gradients_of_other_families_blocks_are_right(void)
{
    int n = 0;
    for (int place = PLACE_BOTH; place <= PLACE_OUTPUT; place++)
        for (int qk = QK_NONE; qk <= QK_VECTOR; qk++)
            for (int norm = 0; norm < 2; norm++) {
                if (place == PLACE_PARALLEL || place == PLACE_PARALLEL2)
                    continue;
                char   what[128];
                Config c = small_block((Norm)norm, (NormPlacement)place, FFN_GEGLU, 2, 0, true);
                c.qk_norm = (QkNorm)qk;
                c.residual_scale = qk == QK_HEAD ? 0.22 : 1;
                c.attn_scale = qk == QK_VECTOR ? 0.1 : 0;
                snprintf(what, sizeof what, "norm %d, place %d, qk_norm %d", norm, place, qk);
                check_block(&c, true, (uint64_t)(1000 + n++), what);
            }
}

/* A check that cannot fail is none. */
static void a_wrong_gradient_is_found(void)
{
    Config   c = small_block(NORM_RMS, PLACE_PRE, FFN_SWIGLU, 2, 0, false);
    BlockLab lab;
    LabCheck check[32];
    double   y_error;
    Error    err = { 0 };
    CHECK(lab_open(&lab, &c, true, 2, 5, false, 1, &err), "%s", err.msg);
    lab_fill_weights(&lab, 7, 0);
    lab_fill_input(&lab, 7);
    lab_run(&lab);
    float *d_wk = params_find(&lab.params, lab.d_w, 0, ROLE_WK, false);
    for (int i = 0; i < 144; i++)
        d_wk[i] *= 1.001f;
    int n = lab_check(&lab, SAMPLES, 7, check, &y_error, NULL, &err), wrong = 0;
    for (int i = 0; i < n; i++)
        if (check[i].error > limit) {
            wrong++;
            CHECK(check[i].tensor >= 0 && lab.params.spec[check[i].tensor].role == ROLE_WK,
                  "tensor %d", check[i].tensor);
        }
    CHECK(wrong == 1, "%d tensors are wrong", wrong);
    d_wk[0] = NAN;
    lab_check(&lab, 1 << 20, 7, check, &y_error, NULL, &err);
    for (int i = 0; i < n; i++)
        if (check[i].tensor >= 0 && lab.params.spec[check[i].tensor].role == ROLE_WK)
            CHECK(!(check[i].error <= limit) && check[i].at == 0, "NaN is no error at %zu",
                  check[i].at);
    lab_close(&lab);
}

/* Where a norm follows an x of nothing, the block bends within any step of usual length. */
static void gradients_at_an_input_of_zero_are_right(void)
{
    for (int place = PLACE_PRE; place <= PLACE_POST; place++) {
        Config   c = small_block(NORM_RMS, (NormPlacement)place, FFN_SWIGLU, 2, 0, false);
        BlockLab lab;
        LabCheck check[32];
        double   y_error;
        Error    err = { 0 };
        CHECK(lab_open(&lab, &c, true, 2, 5, false, 1, &err), "%s", err.msg);
        lab_fill_weights(&lab, 7, 0);
        lab_fill_input(&lab, 7);
        memset(lab.x, 0, (size_t)lab.n_tok * (size_t)c.d_model * sizeof *lab.x);
        lab_run(&lab);
        int n = lab_check(&lab, SAMPLES, 7, check, &y_error, NULL, &err);
        for (int i = 0; i < n; i++)
            CHECK(check[i].error <= limit, "place %d, tensor %d: %g: %g, by differences %g", place,
                  check[i].tensor, check[i].error,
                  check[i].computed, check[i].expected);
        lab_close(&lab);
    }
}

static void every_value_is_shown_once_with_its_gradient(void)
{
    for (int place = PLACE_PRE; place <= PLACE_OUTPUT; place++) {
        if (place == PLACE_PARALLEL || place == PLACE_PARALLEL2)
            continue;
        Config c = small_block(NORM_RMS, (NormPlacement)place, FFN_SWIGLU, 2, 0, false);
        c.qk_norm = QK_HEAD;
        BlockLab lab;
        Error    err = { 0 };
        CHECK(lab_open(&lab, &c, true, 2, 5, true, 2, &err), "%s", err.msg);
        lab_fill_weights(&lab, 3, 0);
        lab_fill_input(&lab, 3);
        lab_run(&lab);
        CHECK(lab.n_back == lab.n_order - 1, "place %d: %d values, %d gradients", place,
              lab.n_order, lab.n_back);
        for (int i = 0; i < lab.n_order; i++)
            CHECK(lab.value[lab.order[i]].rms > 0
                      && (lab.order[i] == STEP_PROBS || lab.gradient[lab.order[i]].rms > 0),
                  "place %d, step %d: no gradient", place, lab.order[i]);
        CHECK(lab.order[0] == STEP_X && lab.back[lab.n_back - 1] == STEP_X
                  && lab.back[0] == lab.order[lab.n_order - 1],
              "place %d: order", place);
        CHECK(fabs(lab.value[STEP_PROBS].rms) > 0 && lab.value[STEP_PROBS].largest <= 1.0001,
              "place %d: probabilities", place);
        LabStat out = lab_stat(lab.y, (size_t)lab.n_tok * 12),
                d_x = lab_stat(lab.d_x, (size_t)lab.n_tok * 12);
        CHECK(out.rms == lab.value[lab.order[lab.n_order - 1]].rms
                  && d_x.rms == lab.gradient[STEP_X].rms,
              "place %d: the ends", place);
        lab_close(&lab);
    }
}

static void fused_residual_and_norm_have_the_bits_of_both(void)
{
    for (int norm = 0; norm < 2; norm++)
        for (int n_seqs = 1; n_seqs <= 61; n_seqs += 60) { /* 305 tokens: several pieces */
            Config c = small_block((Norm)norm, PLACE_PRE, FFN_RELU, 4, 0, true);
            c.d_model = norm ? 70 : 33;
            c.residual_scale = 0.7;
            BlockLab lab;
            LabFused f = { 0 };
            Error    err = { 0 };
            CHECK(lab_open(&lab, &c, true, n_seqs, 5, false, 2, &err), "%s", err.msg);
            lab_fill_weights(&lab, 5, 0);
            lab_fill_input(&lab, 5);
            lab_run(&lab);
            CHECK(lab_fused(&lab, &f, &err) && f.forward_same && f.backward_same,
                  "norm %d, %d sequences: %d %d", norm, n_seqs,
                  f.forward_same, f.backward_same);
            lab_close(&lab);
        }
}

/* A stack of one is the block; the product of one block's Jacobians is the stack's. */
static void a_stack_of_one_is_the_block(void)
{
    Config   c = small_block(NORM_RMS, PLACE_POST, FFN_SWIGLU, 2, 0, false);
    BlockLab lab;
    Error    err = { 0 };
    double   rms[4], ratio[4];
    CHECK(lab_open(&lab, &c, true, 2, 5, false, 1, &err), "%s", err.msg);
    lab_fill_weights(&lab, 3, 0);
    lab_fill_input(&lab, 3);
    lab_run(&lab);
    CHECK(lab_stack(&lab, PLACE_POST, 1, NULL, NULL, rms, ratio, NULL, &err), "%s", err.msg);
    CHECK(rms[0] == lab.value[STEP_X].rms && rms[1] == lab.value[STEP_FFN_NORM].rms, "rms %g %g",
          rms[0], rms[1]);
    CHECK(fabs(ratio[0] - lab.gradient[STEP_X].rms / lab_stat(lab.d_y,
        120).rms) < 1e-12 && ratio[1] == 1, "ratio %g", ratio[0]);
    CHECK(lab_stack(&lab, PLACE_PRE, 3, NULL, NULL, rms, ratio, NULL,
                    &err) && rms[3] > rms[0] && ratio[0] > 1, "pre-norm: the stream grows: %g, %g",
          rms[3], ratio[0]);
    lab_close(&lab);
}

static void the_first_value_that_is_not_finite_is_known(void)
{
    float   x[4] = { 3, 4, -INFINITY, NAN };
    LabStat s = lab_stat(x, 4);
    CHECK(isinf(lab_rms(x, 4)) && lab_rms(x, 2) == sqrt(12.5), "%g", lab_rms(x, 2));
    CHECK(s.n_bad == 2 && s.first_bad == 2 && isinf(s.bad_value) && fabs(s.rms - sqrt(12.5)) < 1e-12
              && s.largest == 4,
          "%zu bad, rms %g", s.n_bad, s.rms);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(gradients_are_right_in_every_combination);
    TEST_TRAINING(gradients_of_other_families_blocks_are_right);
    TEST_TRAINING(a_wrong_gradient_is_found);
    TEST_TRAINING(gradients_at_an_input_of_zero_are_right);
    TEST_TRAINING(every_value_is_shown_once_with_its_gradient);
    TEST_TRAINING(fused_residual_and_norm_have_the_bits_of_both);
    TEST_TRAINING(a_stack_of_one_is_the_block);
    TEST(the_first_value_that_is_not_finite_is_known);
    return TEST_END();
}
