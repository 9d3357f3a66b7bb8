/* A host program may compute with another rounding mode and flush subnormals: tblock's bits do not
 * change, and the host's settings are as it left them. */
#include <dlfcn.h>
#include <fenv.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/file.h"
#include "base/json.h"
#include "format/tensors.h"
#include "openblas.h"
#include "tblock_tools.h"
#include "test.h"
#include "other_locale.h"

static const char *const model_path = "models/shakespeare.bin";
enum { PROMPT = 7, SAMPLED = 24 };

typedef struct Answer { uint64_t logits; int32_t token[SAMPLED]; bool ok; } Answer;

static void set_host(int rounding)
{
    fesetround(rounding);
#if defined(__x86_64__)
    unsigned flush = 0x8040; /* flush to zero, denormals are zero */
    _mm_setcsr(rounding == FE_TONEAREST ? _mm_getcsr() & ~flush : _mm_getcsr() | flush);
#endif
}

/* Open (with matrices of another type, if any), compute and sample, in the host's environment. */
static Answer answer_in(int rounding, const char *type)
{
    Answer                 a   = { .ok = false };
    tblock_error           err = { 0 };
    tblock_sampler_options sampling = {
        .temp = 0.7f, .top_k = 50, .top_p = 0.9, .repeat_penalty = 1.1f, .seed = 3
    };
    set_host(rounding);
    tblock_model   *m = tblock_open(model_path, &(tblock_open_options){ .type = type }, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    tblock_sampler *s = c ? tblock_sampler_new(1024, &sampling, &err) : NULL;
    a.ok = s != NULL;
    int32_t ids[PROMPT + SAMPLED];
    for (int i = 0; a.ok && i < PROMPT + SAMPLED; i++) {
        ids[i] = i < PROMPT ? 40 + 11 * i : a.token[i - PROMPT];
        tblock_item item = { 0, i, ids[i], true };
        a.ok = tblock_decode(c, &item, 1, &err);
        if (a.ok && i >= PROMPT - 1 && i < PROMPT + SAMPLED - 1)
            a.ok = tblock_sampler_next(s, tblock_logits(c, 0), ids, (size_t)i + 1, (uint32_t)i + 1,
                                       &a.token[i - PROMPT + 1], &err);
    }
    if (a.ok)
        a.logits = tblock_hash_floats(tblock_logits(c, 0), 1024);
    a.ok = a.ok && fegetround() == rounding;
#if defined(__x86_64__)
    a.ok = a.ok && (rounding == FE_TONEAREST || (_mm_getcsr() & 0x8040) == 0x8040);
    _mm_setcsr(0x1F80);
#endif
    fesetround(FE_TONEAREST);
    tblock_sampler_free(s);
    tblock_context_free(c);
    tblock_close(m);
    return a;
}

static void the_hosts_rounding_and_flushing_change_no_bit(void)
{
    static const int mode[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    FILE *f = fopen(model_path, "rb");
    if (!f) {
        SKIP("no %s", model_path);
        return;
    }
    fclose(f);
    static const char *const type[] = { "auto", "q8", "q4" };
    for (int t = 0; t < 3; t++) {
        Answer nearest = answer_in(FE_TONEAREST, type[t]);
        CHECK(nearest.ok, "%s runs", type[t]);
        for (int i = 0; i < 3; i++) {
            Answer other = answer_in(mode[i], type[t]);
            CHECK(other.ok, "%s, mode %d: runs, and the host's environment is back", type[t],
                  mode[i]);
            CHECK(other.logits == nearest.logits, "%s, mode %d: logits", type[t], mode[i]);
            CHECK(memcmp(other.token, nearest.token, sizeof other.token) == 0,
                  "%s, mode %d: tokens drawn", type[t], mode[i]);
        }
    }
}

/* The sha256 of the data that quantize, or synth for the config of a small model, writes. */
static bool hash_of_file(int rounding, const char *type, bool synth, char hash[65])
{
    static const char config[] =
        "{\"d_model\": 48, \"n_layers\": 1, \"heads\": 2, \"d_ff\": 300, \"vocab_size\": 100}";
    char         folder[] = "/tmp/tblock.XXXXXX", json[64], file[64];
    tblock_error err = { 0 };
    if (!mkdtemp(folder))
        return false;
    snprintf(json, sizeof json, "%s/config.json", folder);
    snprintf(file, sizeof file, "%s/model.bin", folder);
    FILE *f  = fopen(json, "wb");
    bool  ok = f && fputs(config, f) >= 0;
    ok = f && fclose(f) == 0 && ok;
    set_host(rounding);
    ok = ok
        && (synth
                ? tblock_synth(json, file, &(tblock_synth_options){ .type = type, .seed = 5 }, &err)
                : tblock_quantize(model_path, file, &(tblock_quantize_options){ .type = type },
                                  NULL, &err));
    set_host(FE_TONEAREST);
    tblock_model     *m = ok ? tblock_open(file, NULL, &err) : NULL;
    tblock_model_info info;
    if (m) {
        tblock_model_describe(m, &info);
        snprintf(hash, 65, "%s", info.hash);
    }
    tblock_close(m);
    remove(json);
    remove(file);
    rmdir(folder);
    return m != NULL;
}

static void files_of_weights_are_the_same(void)
{
    static const char *const type[] = { "q8", "q4", "bf16" };
    for (int i = 0; i < 6; i++) {
        char nearest[65] = "", up[65] = "none";
        bool synth       = i % 2;
        CHECK(hash_of_file(FE_TONEAREST, type[i / 2], synth, nearest) && hash_of_file(FE_UPWARD,
            type[i / 2], synth, up),
              "%s %s: no file", synth ? "synth" : "quantize", type[i / 2]);
        CHECK(strlen(up) == 64 && strcmp(nearest, up) == 0, "%s %s: %s, %s",
              synth ? "synth" : "quantize", type[i / 2], nearest, up);
    }
}

/* A folder's model as a file, written in the host's environment, and the logits of one token of the
 * folder opened there. */
static bool folder_in(int rounding, const char *folder, char **file, size_t *n, uint64_t *logits)
{
    char                  out[] = "/tmp/tblock.XXXXXX";
    tblock_error          err = { 0 };
    tblock_model_info     info;
    int                   fd = mkstemp(out);
    set_host(rounding);
    bool            ok = fd >= 0 && tblock_convert(folder, out, NULL, NULL, &err);
    tblock_model   *m  = ok ? tblock_open(folder, NULL, &err) : NULL;
    tblock_context *c  = m ? tblock_context_new(m, NULL, &err) : NULL;
    ok =
        c && tblock_decode(c, &(tblock_item){ 0, 0, 7, true }, 1, &err) && fegetround() == rounding;
    set_host(FE_TONEAREST);
    if (ok) {
        tblock_model_describe(m, &info);
        *logits = tblock_hash_floats(tblock_logits(c, 0), (size_t)info.vocab_size);
    }
    ok = ok && file_read(out, 1 << 26, file, n, &err);
    CHECK(ok, "%s, mode %d: %s", folder, rounding, err.msg);
    tblock_context_free(c);
    tblock_close(m);
    if (fd >= 0)
        close(fd);
    remove(out);
    return ok;
}

/* Norm weights to which 1 is added, multipliers that are square roots, frequencies by rule. */
static void other_sources_become_the_same_model(void)
{
    static const char *const name[] = { "gemma3", "llama-yarn", "cohere", "stablelm", "gpt2" };
    static const int         mode[] = { FE_UPWARD, FE_TOWARDZERO };
    for (int i = 0; i < 10; i++) {
        char    *nearest = NULL, *other = NULL, folder[64];
        size_t   n = 0, n_other = 0;
        uint64_t logits = 0, other_logits = 1;
        snprintf(folder, sizeof folder, "tests/data/models/%s", name[i / 2]);
        if (folder_in(FE_TONEAREST, folder, &nearest, &n, &logits)
            && folder_in(mode[i % 2], folder, &other, &n_other, &other_logits)) {
            CHECK(n == n_other && memcmp(nearest, other, n) == 0, "%s, mode %d: other bytes",
                  folder, mode[i % 2]);
            CHECK(logits == other_logits, "%s, mode %d: logits", folder, mode[i % 2]);
        }
        free(nearest);
        free(other);
    }
}

static void rounds_upward(void *user, const char *name, size_t first, int n_tok, const float *x,
                          size_t stride)
{
    (void)name, (void)first, (void)n_tok, (void)x, (void)stride;
    ++*(int *)user;
    set_host(FE_UPWARD);
}

static void an_observer_that_sets_rounding_changes_no_bit(void)
{
    tblock_error    err = { 0 };
    int             calls = 0;
    uint64_t        hash[2] = { 0, 1 };
    tblock_model   *m = tblock_open(model_path, NULL, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    for (int i = 0; c && i < 2; i++) {
        tblock_observe(c, i ? rounds_upward : NULL, &calls);
        set_host(i ? FE_DOWNWARD : FE_TONEAREST);
        CHECK(tblock_seq_rewind(c, 0, 0, &err) && tblock_decode(c, &(tblock_item){ 0, 0, 7, true },
            1, &err), "%s", err.msg);
        hash[i] = tblock_hash_floats(tblock_logits(c, 0), 1024);
        CHECK(fegetround() == (i ? FE_DOWNWARD : FE_TONEAREST),
              "the host's rounding is not as it was");
#if defined(__x86_64__)
        CHECK((_mm_getcsr() & 0xE040) == (i ? 0xA040 : 0), "nor its vector unit");
#endif
    }
    CHECK(c && calls > 2 && hash[0] == hash[1], "%d calls: %s", calls, err.msg);
    set_host(FE_TONEAREST);
    tblock_context_free(c);
    tblock_close(m);
}

static void reports_are_the_same_in_a_comma_locale(void)
{
    tblock_error err = { 0 };
    char        *text[2] = { NULL, NULL };
    CHECK(tblock_report(model_path, NULL, &text[0], &err), "%s", err.msg);
    if (!set_locale_with(",", comma_locales, "de_DE"))
        SKIP("no such locale here and localedef cannot make one");
    else
        CHECK(tblock_report(model_path, NULL, &text[1], &err) && text[0] && strcmp(text[0],
            text[1]) == 0, "another report");
    setlocale(LC_ALL, "C");
    free(text[0]);
    free(text[1]);
}

typedef struct Numbers { tblock_eval_report eval; uint64_t attention; bool ok; } Numbers;

/* What eval and attn answer, in the host's environment. */
static Numbers numbers_in(int rounding)
{
    Numbers             a   = { .ok = false };
    tblock_error        err = { 0 };
    tblock_eval_options opt = { .window = 24, .stride = 10, .n_bytes = 77 };
    int32_t             ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = 30 + 13 * i;
    set_host(rounding);
    tblock_model     *m = tblock_open(model_path, NULL, &err);
    tblock_context   *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    bool              ok = c && tblock_eval_text(c, ids, 40, &opt, &a.eval, &err);
    tblock_attention *p = ok ? tblock_attention_new(c, ids, 40, NULL, &err) : NULL;
    a.attention = p ? tblock_hash_floats(tblock_attention_head(p, 1, 1), 40 * 40) : 0;
    a.ok        = p && fegetround() == rounding;
    set_host(FE_TONEAREST);
    tblock_attention_free(p);
    tblock_context_free(c);
    tblock_close(m);
    return a;
}

static void scores_and_attention_are_the_same(void)
{
    static const int mode[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    Numbers          nearest = numbers_in(FE_TONEAREST);
    CHECK(nearest.ok && nearest.eval.nll > 0, "eval and attn run");
    for (int i = 0; i < 3; i++) {
        Numbers other = numbers_in(mode[i]);
        CHECK(other.ok && memcmp(&other.eval.nll, &nearest.eval.nll, sizeof(double)) == 0,
              "mode %d: nll %a, %a", mode[i], other.eval.nll,
              nearest.eval.nll);
        CHECK(memcmp(&other.eval.recipe_perplexity, &nearest.eval.recipe_perplexity, sizeof(double))
                      == 0
                  && memcmp(&other.eval.bits_per_byte, &nearest.eval.bits_per_byte, sizeof(double))
                      == 0,
              "mode %d: eval", mode[i]);
        CHECK(other.attention == nearest.attention, "mode %d: attention", mode[i]);
    }
}

/* grad's file of a small model, after two steps; NULL: none. */
static char *gradients(int rounding, const char *config, const char *folder, size_t *n,
                       tblock_error *err)
{
    char                model[96], tokens[96], out[96], *bytes = NULL;
    tblock_grad_options opt      = { .adamw_steps = 2, .threads = 1 };
    const int32_t       ids[2][6] = { { 1, 5, 9, 3, 7, 2 }, { 4, 4, 8, 0, 6, 1 } };
    snprintf(model, sizeof model, "%s/model.bin", folder);
    snprintf(tokens, sizeof tokens, "%s/tokens.safetensors", folder);
    snprintf(out, sizeof out, "%s/grad.safetensors", folder);
    TensorWriter *w  = tensor_writer_new(tokens, 64, err);
    bool          ok = w && tensor_writer_declare(w, "tokens", DT_I32, 2, (int64_t[]){ 2, 6 }, err)
        && tensor_writer_begin(w, err) && tensor_writer_put(w, 0, 0, ids, sizeof ids, err)
        && tensor_writer_end(w, err)
        && tblock_synth(config, model, &(tblock_synth_options){ .type = "f32", .seed = 5 }, err);
    set_host(rounding);
    ok = ok && tblock_grad(model, tokens, out, &opt, NULL, err);
    ok = fegetround() == rounding && ok;
    set_host(FE_TONEAREST);
    ok = ok && file_read(out, 1 << 24, &bytes, n, err);
    remove(model);
    remove(tokens);
    remove(out);
    return ok ? bytes : NULL;
}

static void gradients_are_the_same(void)
{
    static const char text[] =
        "{\"d_model\": 48, \"n_layers\": 1, \"heads\": 2, \"d_ff\": 64, \"vocab_size\": 10}";
    char              folder[] = "/tmp/tblock.XXXXXX", config[64];
    tblock_error      err = { 0 };
    size_t            n = 0, n_up = 0;
    CHECK(mkdtemp(folder) != NULL, "no folder");
    snprintf(config, sizeof config, "%s/config.json", folder);
    FILE *f = fopen(config, "wb");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "no config");
    char *nearest = gradients(FE_TONEAREST, config, folder, &n, &err);
    char *up = gradients(FE_UPWARD, config, folder, &n_up, &err);
    CHECK(nearest && up && n == n_up && memcmp(nearest, up, n) == 0, "%s",
          err.msg[0] ? err.msg : "other bytes");
    free(up);
    free(nearest);
    remove(config);
    rmdir(folder);
}

static void numbers_of_a_config_are_rounded_to_nearest(void)
{
    static const char *const text[] = { "[0.1]", "[1e-5]", "[500000.3]", "[12345678901234567]" };
    static const double      value[] = { 0.1, 1e-5, 500000.3, 12345678901234567.0 };
    for (int i = 0; i < 4; i++) {
        double x = 0;
        Error  err = { 0 };
        set_host(FE_UPWARD);
        Json *up = json_parse(text[i], strlen(text[i]), "numbers", &err);
        set_host(FE_TONEAREST);
        CHECK(json_read_double(json_first(up), "number", 0, 1e300, &x, &err) && x == value[i],
              "%s: %a", text[i], x);
        json_free(up);
        set_host(FE_DOWNWARD);
        Json *down = json_parse(text[i], strlen(text[i]), "numbers", &err);
        set_host(FE_TONEAREST);
        CHECK(json_read_double(json_first(down), "number", 0, 1e300, &x, &err) && x == value[i],
              "%s: %a", text[i], x);
        json_free(down);
    }
}

static void zeroed_options_are_the_defaults(void)
{
    tblock_error    err = { 0 };
    const float     logits[4] = { 0, 2, 1, -1 };
    int32_t         token = -1;
    tblock_sampler *s = tblock_sampler_new(4, NULL, &err);
    CHECK(s && tblock_sampler_next(s, logits, NULL, 0, 0, &token, &err) && token == 1,
          "NULL: %s, %d", err.msg, token);
    tblock_sampler_free(s);
    s = tblock_sampler_new(4, &(tblock_sampler_options){ 0 }, &err);
    CHECK(s && tblock_sampler_next(s, logits, NULL, 0, 0, &token, &err) && token == 1,
          "zeroed: %s, %d", err.msg, token);
    tblock_sampler_free(s);
    s = tblock_sampler_new(4, &(tblock_sampler_options){ .temp = 1e-7f }, &err);
    CHECK(!s && err.status == TBLOCK_USAGE, "a temperature that divisions overflow with");
    tblock_sampler_free(s);
}

/* dlclose of it may wait for ever: blas.c says why. */
static void openblas_stays_loaded_when_training_ends(void)
{
    Blas  b;
    Error err = { 0 };
    CHECK(blas_open(&b, &err), "%s", err.msg);
    blas_close(&b);
    void *left = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
    CHECK(left != NULL, "it is gone");
    if (left)
        dlclose(left);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_hosts_rounding_and_flushing_change_no_bit);
    TEST(files_of_weights_are_the_same);
    TEST(other_sources_become_the_same_model);
    TEST(an_observer_that_sets_rounding_changes_no_bit);
    TEST(reports_are_the_same_in_a_comma_locale);
    TEST(scores_and_attention_are_the_same);
    TEST_TRAINING(gradients_are_the_same);
    TEST_TRAINING(openblas_stays_loaded_when_training_ends);
    TEST(numbers_of_a_config_are_rounded_to_nearest);
    TEST(zeroed_options_are_the_defaults);
    return TEST_END();
}
