/* The config: defaults, errors, JSON both ways, and the rotary frequencies. */
#include "test.h"

#include <math.h>

#include "model/config_keys.h"

#define SMALL "\"d_model\": 64, \"n_layers\": 2, \"heads\": 4, \"d_ff\": 112, \"vocab_size\": 288"

static bool parse(Config *c, const char *json, Error *err)
{
    return config_parse(c, json, strlen(json), "x.json", err);
}

static void absent_keys_mean_llama(void)
{
    Config c;
    Error  e = { 0 };
    CHECK(parse(&c, "{" SMALL "}", &e), "%s", e.msg);
    CHECK(strcmp(c.family, "llama") == 0 && c.kv_heads == 4 && c.head_dim == 16, "%s %d %d",
          c.family, c.kv_heads, c.head_dim);
    CHECK(c.theta == 10000 && c.norm_eps == 1e-6 && c.n_ctx == 2048, "theta %g eps %g n_ctx %d",
          c.theta, c.norm_eps, c.n_ctx);
    CHECK(!c.tied_embeddings && c.norm == NORM_RMS && c.norm_placement == PLACE_PRE
              && c.ffn == FFN_SWIGLU,
          "other block");
    CHECK(!c.qkv_bias && !c.out_bias && !c.ffn_bias && !c.qk_norm && c.window == 0,
          "bias or window");
    CHECK(c.positions == POS_ROPE && c.rope.type == ROPE_DEFAULT && c.bos == -1 && c.n_eos == 0,
          "positions or ids");
    CHECK(config_supported(&c, "x.json", &e), "%s", e.msg);
}

static void every_key_is_read(void)
{
    Config c;
    Error  e = { 0 };
    bool ok = parse(&c,
                    "{\"family\": \"mistral\", " SMALL
                    ", \"kv_heads\": 2, \"head_dim\": 20, \"theta\": 5e5, \"norm_eps\": 1e-5,"
                    "\"n_ctx\": 131072, \"tied_embeddings\": true, \"norm\": \"layer\", "
                    "\"norm_placement\": \"parallel\","
                    "\"ffn\": \"gelu\", \"qkv_bias\": true, \"out_bias\": true, \"ffn_bias\": "
                    "true, \"qk_norm\": true,"
                    "\"window\": 4096, \"positions\": \"learned\", \"rope\": {\"type\": \"yarn\", "
                    "\"factor\": 4,"
                    "\"original_n_ctx\": 32, \"beta_fast\": 16, \"beta_slow\": 2, "
                    "\"attention_factor\": 1.5, \"mscale\": 0.5,"
                    "\"mscale_all_dim\": 0.25, \"truncate\": false}, \"bos\": 1, \"eos\": [2, 3]}",
                    &e);
    CHECK(ok, "%s", e.msg);
    CHECK(strcmp(c.family, "mistral") == 0 && c.kv_heads == 2 && c.head_dim == 20 && c.theta == 5e5,
          "first keys");
    CHECK(c.norm_eps == 1e-5 && c.n_ctx == 131072 && c.tied_embeddings && c.norm == NORM_LAYER,
          "second keys");
    CHECK(c.norm_placement == PLACE_PARALLEL && c.ffn == FFN_GELU && c.positions == POS_LEARNED,
          "words");
    CHECK(c.qkv_bias && c.out_bias && c.ffn_bias && c.qk_norm && c.window == 4096, "flags");
    const Rope *r = &c.rope;
    CHECK(r->type == ROPE_YARN && r->factor == 4 && r->original_n_ctx == 32 && r->beta_fast == 16
              && r->beta_slow == 2,
          "rope");
    CHECK(r->attention_factor == 1.5 && r->mscale == 0.5 && r->mscale_all_dim == 0.25
              && !r->truncate,
          "rope's end");
    CHECK(c.bos == 1 && c.n_eos == 2 && c.eos[0] == 2 && c.eos[1] == 3, "ids");
}

static void written_json_reads_back_the_same(void)
{
    static const char *const ropes[] = {
        "{\"type\": \"default\"}",
        "{\"type\": \"linear\", \"factor\": 2.5}",
        "{\"type\": \"llama3\", \"factor\": 32, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
        "\"original_n_ctx\": 8192}",
        "{\"type\": \"yarn\", \"factor\": 4.1, \"original_n_ctx\": 32}",
        "{\"type\": \"yarn\", \"factor\": 40, \"original_n_ctx\": 4096, \"mscale\": 0.707, "
        "\"mscale_all_dim\": 1, \"truncate\": false}",
    };
    for (size_t i = 0; i < sizeof ropes / sizeof ropes[0]; i++) {
        Config c, d;
        Error  e = { 0 };
        char   json[1024];
        snprintf(json, sizeof json,
                 "{" SMALL ", \"norm_eps\": 1e-5, \"theta\": 123456.789, \"bos\": 1, \"eos\": [2, "
                           "7], \"rope\": %s}",
                 ropes[i]);
        CHECK(parse(&c, json, &e), "%s", e.msg);
        char *text = config_to_json(&c, &e);
        CHECK(text != NULL, "%s", e.msg);
        if (!text)
            return;
        CHECK(strstr(text, "\"norm_eps\": 1e-05") && !strchr(text, '\n'), "%s", text);
        CHECK(parse(&d, text, &e), "%s: %s", text, e.msg);
        CHECK(c.theta == d.theta && c.norm_eps == d.norm_eps && c.rope.type == d.rope.type
                  && c.rope.factor == d.rope.factor
                  && c.rope.attention_factor == d.rope.attention_factor
                  && c.rope.mscale == d.rope.mscale && c.rope.truncate == d.rope.truncate
                  && c.n_eos == d.n_eos && c.eos[1] == d.eos[1] && c.head_dim == d.head_dim,
              "%s", text);
        char *again = config_to_json(&d, &e);
        CHECK(again && strcmp(text, again) == 0, "%s / %s", text, again ? again : "nothing");
        free(again);
        free(text);
    }
}

/* Each bad config, and what its message must hold. */
static void wrong_configs_are_refused_by_name(void)
{
    static const struct { const char *json, *message;
    } cases[] = {
        { "[]", "expected an object, found array" },
        { "{" SMALL, "x.json" },
        { "{\"d_model\": 64}", "n_layers: expected an integer, found nothing" },
        { "{" SMALL ", \"hidden_size\": 64}",
          "unknown key 'hidden_size'; the nearest known key is 'd_model'" },
        { "{" SMALL ", \"kvheads\": 2}",
          "unknown key 'kvheads'; the nearest known key is 'kv_heads'" },
        { "{" SMALL ", \"zzzzzzzzz\": 2}", "unknown key 'zzzzzzzzz'" },
        { "{" SMALL ", \"Theta\": 2}", "unknown key 'Theta'; the nearest known key is 'theta'" },
        { "{" SMALL ", \"d_model\": 64}", "d_model" },
        { "{" SMALL ", \"kv_heads\": 3}", "kv_heads: expected a divisor of heads 4, found 3" },
        { "{" SMALL ", \"kv_heads\": 0}", "kv_heads: expected" },
        { "{\"d_model\": 1048576, \"n_layers\": 4096, \"heads\": 16384, \"d_ff\": 8, "
          "\"vocab_size\": 8, \"n_experts\": 1023,"
          "\"experts_used\": 2, \"expert_d_ff\": 1048576}",
          "n_experts: expected at most 64 with d_model 1048576" },
        { "{" SMALL ", \"head_dim\": 17}", "head_dim: expected an even number, found 17" },
        { "{" SMALL ", \"head_dim\": 2.5}", "head_dim: expected an integer" },
        { "{" SMALL ", \"head_dim\": 1e30}", "head_dim: expected an integer" },
        { "{" SMALL ", \"norm_eps\": 0}", "norm_eps: expected" },
        { "{" SMALL ", \"theta\": \"10000\"}", "theta: expected" },
        { "{" SMALL ", \"n_ctx\": null}", "n_ctx: expected" },
        { "{" SMALL ", \"tied_embeddings\": 1}", "tied_embeddings: expected" },
        { "{" SMALL ", \"ffn\": \"silu\"}",
          "ffn: expected swiglu, geglu, gelu, relu, gelu_tanh, geglu_erf, relu2 or xielu, found "
          "'silu'" },
        { "{" SMALL ", \"bos\": 288}", "bos: expected an id below vocab_size 288, found 288" },
        { "{" SMALL ", \"bos\": -2}", "bos: expected" },
        { "{" SMALL ", \"eos\": 2}", "eos: expected an array, found number" },
        { "{" SMALL ", \"eos\": [2, 288]}", "eos: expected ids from 0 to 287, found 288" },
        { "{" SMALL ", \"eos\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
          "eos: expected at most 16 ids, found 17" },
        { "{" SMALL ", \"rope\": \"yarn\"}", "rope: expected an object, found string" },
        { "{" SMALL ", \"rope\": {\"type\": \"ntk\"}}",
          "rope.type: expected default, linear, llama3, yarn, factors, longrope or dynamic, "
          "found 'ntk'" },
        { "{" SMALL ", \"rope\": {\"type\": \"linear\"}}",
          "rope.factor: expected a value with rope type linear, found none" },
        { "{" SMALL ", \"rope\": {\"factor\": 2}}",
          "rope.factor: expected no such key with rope type default" },
        { "{" SMALL ", \"rope\": {\"type\": \"linear\", \"factor\": 0.5}}",
          "rope.factor: expected" },
        { "{" SMALL ", \"rope\": {\"rope_type\": \"linear\"}}", "rope: unknown key 'rope_type'" },
        { "{" SMALL ", \"rope\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
                    "\"high_freq_factor\": 4,"
          "\"original_n_ctx\": 64}}",
          "rope.high_freq_factor: expected more than low_freq_factor 4, found 4" },
        { "{" SMALL ", \"family\": \"a family with a name over thirty-one bytes\"}",
          "family: expected a name of 1 to 31 bytes" },
        { "{\"d_model\": 65, \"n_layers\": 2, \"heads\": 4, \"d_ff\": 112, \"vocab_size\": 288}",
          "head_dim: expected a value, found none" },
        { "{\"d_model\": 64, \"n_layers\": 2, \"heads\": 16384, \"d_ff\": 112, \"vocab_size\": "
          "288, \"head_dim\": 128}",
          "head_dim: expected heads * head_dim of at most" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Config c;
        Error  e = { 0 };
        CHECK(!parse(&c, cases[i].json, &e), "accepted: %s", cases[i].json);
        CHECK(e.status == INPUT && strncmp(e.msg, "x.json", 6) == 0 && strstr(e.msg,
            cases[i].message), "%s -> %s",
              cases[i].json, e.msg);
    }
}

/* Only a rotation pairs the dimensions of a head. */
static void an_odd_head_is_legal_where_it_is_not_rotated_whole(void)
{
    static const char *const good[] = { "\"head_dim\": 17, \"rotary_dim\": 6",
                                        "\"head_dim\": 17, \"positions\": \"learned\"" };
    for (size_t i = 0; i < 2; i++) {
        Config c, d;
        Error  e = { 0 };
        char   json[300];
        snprintf(json, sizeof json, "{" SMALL ", %s}", good[i]);
        CHECK(parse(&c, json, &e) && c.head_dim == 17, "%s", e.msg);
        char *text = config_to_json(&c, &e);
        CHECK(text && parse(&d, text, &e) && d.head_dim == 17 && d.rotary_dim == c.rotary_dim,
              "%s: %s", text, e.msg);
        free(text);
    }
}

static void foreign_key(const ConfigKey *key, const char *name, size_t n)
{
    char   json[200], hint[80];
    Config c;
    Error  e = { 0 };
    bool   ours = false;
    for (const ConfigKey *k = config_keys; k->name; k++)
        ours |= strlen(k->name) == n && strncmp(k->name, name, n) == 0;
    snprintf(json, sizeof json, "{" SMALL ", \"%.*s\": 1}", (int)n, name);
    snprintf(hint, sizeof hint, "the nearest known key is '%s'", key->name);
    CHECK(ours || (!parse(&c, json, &e) && strstr(e.msg, hint)), "%.*s: %s", (int)n, name, e.msg);
}

/* A config.json that is handed over as it is: each of its keys is answered with ours. */
static void keys_of_other_programs_are_answered_with_ours(void)
{
    for (const ConfigKey *k = config_keys; k->name; k++) {
        for (const char *p = k->hf; p && *p; p += strcspn(p, "|") + (p[strcspn(p, "|")] == '|'))
            foreign_key(k, p, strcspn(p, "|"));
        if (k->meta)
            foreign_key(k, k->meta, strlen(k->meta));
    }
}

static void what_the_forward_pass_lacks_is_named(void)
{
    static const struct { const char *key, *message; } cases[] = {
        { "\"norm_placement\": \"post\"",
          "norm_placement: expected pre, both, parallel, parallel2 or output, found post" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char   json[256];
        Config c;
        Error  e = { 0 };
        snprintf(json, sizeof json, "{" SMALL ", %s}", cases[i].key);
        CHECK(parse(&c, json, &e), "%s", e.msg);
        CHECK(!config_supported(&c, "x.json", &e) && strstr(e.msg, cases[i].message), "%s", e.msg);
    }
}

/* ---- Rotary frequencies. The expected values were computed in Python floats by the formulas of
 * transformers 5.23.0, modeling_rope_utils.py, executed literally on doubles; the shapes are those
 * of the fixtures and of Llama 3.2. ---- */

static void check_frequencies(const char *json, const double *expected, int n,
                              double expected_factor)
{
    Config c;
    Error  e = { 0 };
    double inv_freq[64], factor;
    CHECK(parse(&c, json, &e), "%s", e.msg);
    CHECK(c.head_dim == 2 * n, "head_dim %d", c.head_dim);
    if (c.head_dim > 128)
        return;
    config_inv_freq(&c, false, NULL, 0, inv_freq, &factor);
    for (int i = 0; i < n; i++)
        CHECK(fabs(inv_freq[i] - expected[i]) <= 1e-13 * expected[i], "%d: %.17g, expected %.17g",
              i, inv_freq[i], expected[i]);
    CHECK(fabs(factor - expected_factor) <= 1e-14, "factor %.17g, expected %.17g", factor,
          expected_factor);
}

#define SHAPE(dim) \
    "\"d_model\": 64, \"n_layers\": 2, \"heads\": 2, \"d_ff\": 112, \"vocab_size\": 288, "         \
    "\"head_dim\": " #dim

static void default_and_linear_rope(void)
{
    check_frequencies("{" SHAPE(8) "}", (double[]){ 1, 0.1, 0.01, 0.001 }, 4, 1);
    check_frequencies("{" SHAPE(12) ", \"rope\": {\"type\": \"linear\", \"factor\": 4}}",
                      (double[]){ 0.25, 0.0538608672507971, 0.01160397208403195, 0.0025,
                                  0.0005386086725079711, 0.00011603972084031942 },
                      6, 1);
}

static void llama3_rope(void)
{
    check_frequencies("{" SHAPE(16) ", \"theta\": 500000, \"rope\": {\"type\": \"llama3\", "
                                    "\"factor\": 8, \"low_freq_factor\": 1,"
                                    "\"high_freq_factor\": 4, \"original_n_ctx\": 64}}",
                      (double[]){ 1.0, 0.0794030091792082, 0.004700753866357992,
                                  0.0009115830921521386, 0.00017677669529663688,
                                  3.428102195952591e-05, 6.647869871181236e-06,
                                  1.2891731721515574e-06 },
                      8, 1);
    check_frequencies("{" SHAPE(64) ", \"theta\": 500000, \"rope\": {\"type\": \"llama3\", "
                                    "\"factor\": 32, \"low_freq_factor\": 1,"
                                    "\"high_freq_factor\": 4, \"original_n_ctx\": 8192}}",
                      (double[]){ 1.0,
                                  0.6636012376960885,
                                  0.44036660267178046,
                                  0.2922278225730151,
                                  0.19392274474868576,
                                  0.12868737343265052,
                                  0.08539710028576561,
                                  0.056669621445291044,
                                  0.03760603093086393,
                                  0.024955408670558694,
                                  0.016560440080994446,
                                  0.010989528534539826,
                                  0.0072926647372171085,
                                  0.004839421345719893,
                                  0.0032114459947525913,
                                  0.001290547928209264,
                                  0.00042955679655936815,
                                  9.70828780262767e-05,
                                  1.9461638184831125e-05,
                                  1.291476718704739e-05,
                                  8.570255489881478e-06,
                                  5.687232150457046e-06,
                                  3.7740542941082826e-06,
                                  2.5044671007024935e-06,
                                  1.661967467795309e-06,
                                  1.102883668639601e-06,
                                  7.318749675440419e-07,
                                  4.856731343010108e-07,
                                  3.2229329303788936e-07,
                                  2.138742281610915e-07,
                                  1.4192720251899592e-07,
                                  9.418306725434909e-08 },
                      32, 1);
}

static void yarn_rope(void)
{
    check_frequencies(
        "{" SHAPE(16) ", \"rope\": {\"type\": \"yarn\", \"factor\": 4, \"original_n_ctx\": 32}}",
        (double[]){ 1.0, 0.19764235376052372, 0.025, 0.007905694150420948, 0.0025,
                    0.0007905694150420947, 0.00025, 7.905694150420948e-05 },
        8, 1.138629436111989);
    check_frequencies("{" SHAPE(64) ", \"rope\": {\"type\": \"yarn\", \"factor\": 4, "
                                    "\"original_n_ctx\": 4096, \"truncate\": false,"
                                    "\"mscale\": 1, \"mscale_all_dim\": 0.5}}",
                      (double[]){ 1.0,
                                  0.7498942093324559,
                                  0.5623413251903491,
                                  0.4216965034285823,
                                  0.31622776601683794,
                                  0.23713737056616555,
                                  0.17782794100389226,
                                  0.1333521432163324,
                                  0.1,
                                  0.07498942093324558,
                                  0.056234132519034905,
                                  0.04078344584405298,
                                  0.02861360881198889,
                                  0.019980142130655614,
                                  0.013875371073024076,
                                  0.009574461236755236,
                                  0.006556971521129435,
                                  0.0044499547290450065,
                                  0.002986734511777551,
                                  0.0019770763910225402,
                                  0.0012856320307266878,
                                  0.0008163842726183701,
                                  0.0005014396573872045,
                                  0.000333380358040831,
                                  0.00025,
                                  0.00018747355233311394,
                                  0.00014058533129758727,
                                  0.00010542412585714557,
                                  7.905694150420948e-05,
                                  5.9284342641541385e-05,
                                  4.445698525097307e-05,
                                  3.33380358040831e-05 },
                      32, 1.0648216253695715);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(an_odd_head_is_legal_where_it_is_not_rotated_whole);
    TEST(absent_keys_mean_llama);
    TEST(every_key_is_read);
    TEST(written_json_reads_back_the_same);
    TEST(wrong_configs_are_refused_by_name);
    TEST(keys_of_other_programs_are_answered_with_ours);
    TEST(what_the_forward_pass_lacks_is_named);
    TEST(default_and_linear_rope);
    TEST(llama3_rope);
    TEST(yarn_rope);
    return TEST_END();
}
