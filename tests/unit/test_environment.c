/* A host program may compute with another rounding mode and flush subnormals: tblock's bits do not change, and the host's
 * settings are as it left them. */
#include <fenv.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/json.h"
#include "test.h"

static const char *const model_path = "models/shakespeare.bin";
enum { PROMPT = 7, DRAWN = 24 };

typedef struct Answer { uint64_t logits; int32_t token[DRAWN]; bool ok; } Answer;

static void set_host(int rounding)
{
    fesetround(rounding);
#if defined(__x86_64__)
    unsigned flush = 0x8040; /* flush to zero, denormals are zero */
    _mm_setcsr(rounding == FE_TONEAREST ? _mm_getcsr() & ~flush : _mm_getcsr() | flush);
#endif
}

/* Open (with matrices of another type, if any), compute and draw, all in the host's environment. */
static Answer answer_in(int rounding, const char *type)
{
    Answer                 a   = { .ok = false };
    tblock_error           err = { 0 };
    tblock_sampler_options sampling = { .temp = 0.7f, .top_k = 50, .top_p = 0.9, .repeat_penalty = 1.1f, .seed = 3 };
    set_host(rounding);
    tblock_model   *m = tblock_open(model_path, &(tblock_open_options){ .type = type }, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    tblock_sampler *s = c ? tblock_sampler_new(1024, &sampling, &err) : NULL;
    a.ok = s != NULL;
    int32_t ids[PROMPT + DRAWN];
    for (int i = 0; a.ok && i < PROMPT + DRAWN; i++) {
        ids[i] = i < PROMPT ? 40 + 11 * i : a.token[i - PROMPT];
        tblock_item item = { 0, i, ids[i], true };
        a.ok = tblock_decode(c, &item, 1, &err);
        if (a.ok && i >= PROMPT - 1 && i < PROMPT + DRAWN - 1)
            a.ok = tblock_sampler_next(s, tblock_logits(c, 0), ids, (size_t)i + 1, (uint32_t)i + 1, &a.token[i - PROMPT + 1], &err);
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
            CHECK(other.ok, "%s, mode %d: runs, and the host's environment is back", type[t], mode[i]);
            CHECK(other.logits == nearest.logits, "%s, mode %d: logits", type[t], mode[i]);
            CHECK(memcmp(other.token, nearest.token, sizeof other.token) == 0, "%s, mode %d: tokens drawn", type[t], mode[i]);
        }
    }
}

/* The sha256 of the data that quantize, or synth for the config of a small model, writes. */
static bool hash_of_file(int rounding, const char *type, bool synth, char hash[65])
{
    static const char config[] = "{\"d_model\": 48, \"n_layers\": 1, \"heads\": 2, \"d_ff\": 300, \"vocab_size\": 100}";
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
    ok = ok && (synth ? tblock_synth(json, file, &(tblock_synth_options){ .type = type, .seed = 5 }, &err)
                      : tblock_quantize(model_path, file, &(tblock_quantize_options){ .type = type }, NULL, &err));
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
        CHECK(hash_of_file(FE_TONEAREST, type[i / 2], synth, nearest) && hash_of_file(FE_UPWARD, type[i / 2], synth, up),
              "%s %s: no file", synth ? "synth" : "quantize", type[i / 2]);
        CHECK(strlen(up) == 64 && strcmp(nearest, up) == 0, "%s %s: %s, %s", synth ? "synth" : "quantize", type[i / 2], nearest, up);
    }
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
        CHECK(json_read_double(json_first(up), "number", 0, 1e300, &x, &err) && x == value[i], "%s: %a", text[i], x);
        json_free(up);
        set_host(FE_DOWNWARD);
        Json *down = json_parse(text[i], strlen(text[i]), "numbers", &err);
        set_host(FE_TONEAREST);
        CHECK(json_read_double(json_first(down), "number", 0, 1e300, &x, &err) && x == value[i], "%s: %a", text[i], x);
        json_free(down);
    }
}

static void zeroed_options_are_the_defaults(void)
{
    tblock_error    err = { 0 };
    const float     logits[4] = { 0, 2, 1, -1 };
    int32_t         token = -1;
    tblock_sampler *s = tblock_sampler_new(4, NULL, &err);
    CHECK(s && tblock_sampler_next(s, logits, NULL, 0, 0, &token, &err) && token == 1, "NULL: %s, %d", err.msg, token);
    tblock_sampler_free(s);
    s = tblock_sampler_new(4, &(tblock_sampler_options){ 0 }, &err);
    CHECK(s && tblock_sampler_next(s, logits, NULL, 0, 0, &token, &err) && token == 1, "zeroed: %s, %d", err.msg, token);
    tblock_sampler_free(s);
    s = tblock_sampler_new(4, &(tblock_sampler_options){ .temp = 1e-7f }, &err);
    CHECK(!s && err.status == TBLOCK_USAGE, "a temperature that divisions overflow with");
    tblock_sampler_free(s);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_hosts_rounding_and_flushing_change_no_bit);
    TEST(files_of_weights_are_the_same);
    TEST(numbers_of_a_config_are_rounded_to_nearest);
    TEST(zeroed_options_are_the_defaults);
    return TEST_END();
}
