/* Gradients of whole models against central differences, for every combination of parts. */
#include <math.h>

#include "openblas.h"
#include "test.h"
#include "train/block_lab.h"

static Config base(void)
{
    Config c;
    config_defaults(&c);
    c.d_model = 24;
    c.n_layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 6;
    c.rotary_dim = 6;
    c.d_ff = 20;
    c.vocab_size = 37;
    c.n_ctx = 64;
    return c;
}

static void check_adapter(const Config *c, const LoraPlan *lora, const char *what)
{
    Crew          crew = { 0 };
    Params        p = { 0 };
    Error         err = { 0 };
    GradCheckRow  row[96];
    float        *w = NULL;
    bool ok = train_supported(c, what, &err) && crew_open(&crew, 2, &err)
        && params_layout_lora(&p, c, lora, &err) && (w = params_array(&p, &err));
    CHECK(ok, "%s", err.msg);
    if (ok) {
        params_scatter(&p, w, 1);
        ok = grad_check(row, &p, &crew, w, 7, 3, 1, NULL, &err);
        CHECK(ok, "%s", err.msg);
        for (int i = p.first; ok && i < p.n; i++)
            CHECK(row[i].worst <= 1e-4, "%s: %s: %g: %g, expected %g", what, row[i].name,
                  row[i].worst, row[i].at_grad, row[i].at_difference);
    }
    free(w);
    params_free(&p);
    crew_close(&crew);
}

static void check_config(const Config *c, const char *what)
{
    check_adapter(c, &(LoraPlan){ 0 }, what);
}

/* Every combination of norm, placement, feed-forward, sharing of KV heads, window and tied head;
 * biases and norms of q and k, which are apart from these, take turns with all of them. (Without a
 * mask: test_block_lab.c.) */
static void gradients_of_every_combination(void)
{
    static const NormPlacement places[] = { PLACE_PRE, PLACE_POST, PLACE_BOTH, PLACE_OUTPUT };
    static const FfnKind       kinds[] = { FFN_SWIGLU, FFN_GEGLU, FFN_GELU,
                                       FFN_RELU,   FFN_GELU_TANH, FFN_GEGLU_ERF,
                                       FFN_RELU2 };
    static const QkNorm        qk[] = { QK_NONE, QK_HEAD, QK_VECTOR };
    int turn = 0;
    for (int place = 0; place < 4; place++)
        for (int norm = 0; norm < 2; norm++)
            for (int kind = 0; kind < 7; kind++, turn++)
                for (int more = 0; more < 8; more++) {
                    char   what[160];
                    Config c = base();
                    bool   biases = (turn + more / 2 + more) % 2;
                    c.norm_placement = places[place];
                    c.norm           = norm ? NORM_LAYER : NORM_RMS;
                    c.norm_bias      = norm && biases;
                    c.ffn            = kinds[kind];
                    c.qkv_bias = c.out_bias = c.ffn_bias = biases;
                    c.qk_norm         = qk[(turn + more) % 3];
                    c.window          = more & 1 ? 3 : 0;
                    c.tied_embeddings = more & 2;
                    c.kv_heads        = !(more & 4) ? 4 : turn % 2 ? 2 : 1;
                    snprintf(what, sizeof what,
                             "placement %d norm %d ffn %d biases %d qk_norm %d window %d kv_heads "
                             "%d tied %d",
                             places[place], norm, kinds[kind], biases, c.qk_norm, c.window,
                             c.kv_heads, c.tied_embeddings);
                    check_config(&c, what);
                }
    CHECK(turn == 56, "%d kinds of blocks", turn);
}

static void gradients_with_scales_and_partial_rotation(void)
{
    Config c = base();
    c.embed_scale = 3;
    c.residual_scale = 0.4;
    c.logit_scale = 0.25;
    c.attn_scale = 0.2;
    c.rotary_dim = 4;
    check_config(&c, "scales");
    c.tied_embeddings = true;
    c.window = 4;
    c.theta_window = 100;
    layers_add(&c.full_layers, 1);
    check_config(&c, "one layer without the window");
    layers_add(&c.no_rope_layers, 0);
    for (int kind = QK_HEAD; kind <= QK_VECTOR; kind++) {
        c.qk_norm = (QkNorm)kind;
        c.qk_norm_after_rope = true;
        check_config(&c, "norms of rotated q and k");
    }
}

static void what_training_lacks_is_named(void)
{
    Error  err;
    Config c = base();
    c.n_experts = 4;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "x.json: n_experts"), "%s",
          err.msg);
    c = base();
    c.norm_placement = PLACE_PARALLEL;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "norm_placement"), "%s", err.msg);
    c = base();
    c.attn_softcap = 50;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "attn_softcap"), "%s", err.msg);
    c = base();
    c.conv_taps = 3;
    layers_add(&c.state_layers, 0);
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "state_layers"), "%s", err.msg);
    c = base();
    c.attn_gate = true;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "attn_gate"), "%s", err.msg);
}

/* Of the adapter alone; the model's own weights have none and stay. */
static void gradients_of_adapters(void)
{
    static const TensorRole roles[] = { ROLE_WQ, ROLE_WK, ROLE_WV, ROLE_WO, ROLE_W_GATE, ROLE_W_UP,
                                        ROLE_W_DOWN };
    static const FfnKind    kinds[] = { FFN_SWIGLU, FFN_GELU, FFN_GEGLU };
    static const QkNorm     qk[]    = { QK_NONE, QK_HEAD, QK_VECTOR };
    for (int turn = 0; turn < 12; turn++) {
        char     what[64];
        Config   c    = base();
        LoraPlan lora = { .rank = 1 + turn % 5, .alpha = 3 + turn };
        for (int i = 0; i < 7; i++)
            lora.role[roles[i]] = turn < 4 || i == turn % 7 || i == (turn + 3) % 7;
        lora.role[ROLE_WQ] |= turn >= 4;
        c.ffn             = kinds[turn % 3];
        lora.role[ROLE_W_GATE] &= c.ffn != FFN_GELU;
        c.qk_norm         = qk[turn / 2 % 3];
        c.qkv_bias = c.out_bias = c.ffn_bias = turn % 2;
        c.norm            = turn % 4 == 3 ? NORM_LAYER : NORM_RMS;
        c.norm_bias       = turn % 4 == 3;
        c.norm_placement  = turn % 3 == 2 ? PLACE_BOTH : PLACE_PRE;
        c.tied_embeddings = turn % 2;
        c.window          = turn % 4 == 1 ? 3 : 0;
        c.residual_scale  = turn == 5 ? 0.4 : 1;
        snprintf(what, sizeof what, "adapter %d of rank %d", turn, lora.rank);
        check_adapter(&c, &lora, what);
    }
}

static void an_adapter_of_nothing_is_refused(void)
{
    Params p;
    Error  err  = { 0 };
    Config c    = base();
    LoraPlan lora = { .rank = 2, .alpha = 1 };
    c.ffn = FFN_GELU; /* has no gate */
    lora.role[ROLE_W_GATE] = true;
    CHECK(!params_layout_lora(&p, &c, &lora, &err) && err.status == INPUT, "%s", err.msg);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(gradients_of_every_combination);
    TEST_TRAINING(gradients_of_adapters);
    TEST(an_adapter_of_nothing_is_refused);
    TEST_TRAINING(gradients_with_scales_and_partial_rotation);
    TEST(what_training_lacks_is_named);
    return TEST_END();
}
