/* A host program may compute with another rounding mode and flush subnormals: tblock's bits do not change, and the host's
 * settings are as it left them. */
#include <fenv.h>
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

/* Open, compute and draw, all in the host's environment. */
static Answer answer_in(int rounding)
{
    Answer                 a   = { .ok = false };
    tblock_error           err = { 0 };
    tblock_sampler_options sampling = { .temp = 0.7f, .top_k = 50, .top_p = 0.9, .repeat_penalty = 1.1f, .seed = 3 };
    set_host(rounding);
    tblock_model   *m = tblock_open(model_path, NULL, &err);
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
    Answer nearest = answer_in(FE_TONEAREST);
    CHECK(nearest.ok, "runs");
    for (int i = 0; i < 3; i++) {
        Answer other = answer_in(mode[i]);
        CHECK(other.ok, "mode %d: runs, and the host's environment is back", mode[i]);
        CHECK(other.logits == nearest.logits, "mode %d: logits", mode[i]);
        CHECK(memcmp(other.token, nearest.token, sizeof other.token) == 0, "mode %d: tokens drawn", mode[i]);
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
    TEST(numbers_of_a_config_are_rounded_to_nearest);
    TEST(zeroed_options_are_the_defaults);
    return TEST_END();
}
