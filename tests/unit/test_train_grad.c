/* Gradients of whole models against central differences, for every combination of parts; training's forward pass against inference's. */
#include <math.h>

#include "source/source.h"
#include "tblock.h"
#include "openblas.h"
#include "test.h"
#include "temp_folder.h"
#include "train/grad_check.h"
#include "train/net.h"

static Config base(void)
{
    Config c;
    config_defaults(&c);
    c.d_model = 24; c.n_layers = 2; c.heads = 4; c.kv_heads = 2; c.head_dim = 6; c.rotary_dim = 6; c.d_ff = 20; c.vocab_size = 37; c.n_ctx = 64;
    return c;
}

static void check_config(const Config *c, const char *what)
{
    Crew          crew = { 0 };
    Params        p = { 0 };
    Error         err = { 0 };
    GradCheckRow  row[64];
    float        *w = NULL;
    bool ok = train_supported(c, what, &err) && crew_open(&crew, 2, &err) && params_layout(&p, c, &err) && (w = params_array(&p, &err));
    CHECK(ok, "%s", err.msg);
    if (ok) {
        params_scatter(&p, w, 1);
        ok = grad_check(row, &p, &crew, w, 7, 3, 1, &err);
        CHECK(ok, "%s", err.msg);
        for (int i = 0; ok && i < p.n; i++)
            CHECK(row[i].worst <= 1e-4, "%s: %s: %g: %g, expected %g", what, row[i].name, row[i].worst, row[i].at_grad, row[i].at_difference);
    }
    free(w);
    params_free(&p);
    crew_close(&crew);
}

static void gradients_of_every_combination(void)
{
    static const NormPlacement places[] = { PLACE_PRE, PLACE_POST, PLACE_BOTH, PLACE_OUTPUT };
    static const FfnKind       kinds[] = { FFN_SWIGLU, FFN_GEGLU, FFN_GELU, FFN_RELU, FFN_GELU_TANH, FFN_GEGLU_ERF };
    static const QkNorm        qk[] = { QK_NONE, QK_HEAD, QK_VECTOR };
    for (int place = 0; place < 4; place++)
        for (int norm = 0; norm < 2; norm++)
            for (int kind = 0; kind < 6; kind++)
                for (int biases = 0; biases < 2; biases++) {
                    char   what[128];
                    Config c = base();
                    int    turn = place + norm + kind + biases; /* the rest alternates */
                    c.norm_placement = places[place];
                    c.norm           = norm ? NORM_LAYER : NORM_RMS;
                    c.norm_bias      = norm && biases;
                    c.ffn            = kinds[kind];
                    c.qkv_bias = c.out_bias = c.ffn_bias = biases;
                    c.qk_norm         = qk[turn % 3];
                    c.window          = turn % 2 ? 3 : 0;
                    c.tied_embeddings = turn / 2 % 2;
                    c.kv_heads        = turn % 3 == 0 ? 4 : turn % 3 == 1 ? 2 : 1;
                    snprintf(what, sizeof what, "placement %d norm %d ffn %d biases %d qk_norm %d window %d kv_heads %d", places[place], norm,
                             kinds[kind], biases, c.qk_norm, c.window, c.kv_heads);
                    check_config(&c, what);
                }
}

static void gradients_with_scales_and_partial_rotation(void)
{
    Config c = base();
    c.embed_scale = 3; c.residual_scale = 0.4; c.logit_scale = 0.25; c.attn_scale = 0.2; c.rotary_dim = 4;
    check_config(&c, "scales");
    c.tied_embeddings = true;
    c.window = 4;
    c.theta_window = 100;
    layers_add(&c.full_layers, 1);
    check_config(&c, "one layer without the window");
}

static void what_training_lacks_is_named(void)
{
    Error  err;
    Config c = base();
    c.n_experts = 4;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "x.json: n_experts"), "%s", err.msg);
    c = base();
    c.norm_placement = PLACE_PARALLEL;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "norm_placement"), "%s", err.msg);
    c = base();
    c.attn_softcap = 50;
    CHECK(!train_supported(&c, "x.json", &err) && strstr(err.msg, "attn_softcap"), "%s", err.msg);
}

/* ---- Forward against inference ---- */

static const char *const configs[] = {
    "{\"d_model\": 48, \"n_layers\": 3, \"heads\": 6, \"kv_heads\": 2, \"d_ff\": 80, \"vocab_size\": 97}",
    "{\"d_model\": 48, \"n_layers\": 2, \"heads\": 4, \"d_ff\": 64, \"vocab_size\": 50, \"norm\": \"layer\", \"ffn\": \"gelu\", \"qkv_bias\": true,"
    " \"out_bias\": true, \"ffn_bias\": true, \"tied_embeddings\": true, \"window\": 20}",
    "{\"d_model\": 32, \"n_layers\": 2, \"heads\": 4, \"kv_heads\": 1, \"d_ff\": 40, \"vocab_size\": 64, \"qk_norm\": true, \"ffn\": \"geglu\","
    " \"norm_placement\": \"both\", \"rope\": {\"type\": \"linear\", \"factor\": 2}}",
};

static double largest_difference(const char *path, const char *json, int n)
{
    Source  source = { 0 };
    Params  p = { 0 };
    Crew    crew = { 0 };
    Error   err = { 0 };
    Net    *net = NULL;
    int32_t token[128];
    double  most = INFINITY;
    tblock_item item[128];
    FILE *f = fopen(path, "w");
    fputs(json, f);
    fclose(f);
    char bin[512];
    snprintf(bin, sizeof bin, "%s.bin", path);
    bool ok = tblock_synth(path, bin, &(tblock_synth_options){ .type = "f32", .seed = 3 }, &err) && source_open(&source, bin, &err)
           && params_layout(&p, &source.checkpoint.config, &err) && crew_open(&crew, 2, &err) && (net = net_new(&p, &crew, 1, n, &err));
    tblock_model   *m = tblock_open(bin, NULL, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    float *w = ok ? params_array(&p, &err) : NULL, *logits = calloc((size_t)n * 128, sizeof *logits);
    for (int t = 0; t < n; t++) {
        token[t] = (t * 7 + t * t) % (ok ? p.config.vocab_size : 1);
        item[t]  = (tblock_item){ .pos = t, .token = token[t], .want_logits = true };
    }
    if (ok && w && c && params_load(&p, w, &source.checkpoint, &err) && tblock_decode(c, item, (size_t)n, &err)) {
        net_logits(net, w, token, 1, logits);
        most = 0;
        for (int t = 0; t < n; t++)
            for (int i = 0; i < p.config.vocab_size; i++)
                most = fmax(most, fabs((double)logits[t * p.config.vocab_size + i] - (double)tblock_logits(c, (size_t)t)[i]));
    }
    CHECK(err.status == 0, "%s", err.msg);
    free(w);
    free(logits);
    tblock_context_free(c);
    tblock_close(m);
    net_free(net);
    crew_close(&crew);
    params_free(&p);
    source_close(&source);
    return most;
}

static void trainings_forward_pass_is_inferences(void)
{
    CHECK(make_folder(), "no folder");
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/config%zu.json", folder, i);
        double d = largest_difference(path, configs[i], 50);
        remove(path);
        remove(strcat(path, ".bin"));
        CHECK(d <= 2e-5, "config %zu: logits differ by %g", i, d);
    }
    remove(folder);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST_TRAINING(gradients_of_every_combination);
    TEST_TRAINING(gradients_with_scales_and_partial_rotation);
    TEST(what_training_lacks_is_named);
    TEST_TRAINING(trainings_forward_pass_is_inferences);
    return TEST_END();
}
