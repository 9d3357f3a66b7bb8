/* tests/unit/test_api.c: what a program that calls the library wrongly gets: a status and a
 * message, and outputs that it may free. */
#include <math.h>
#include <unistd.h>

#include "openblas.h"
#include "sanitized.h"
#include "test.h"
#include "temp_folder.h"
#include "tblock_tools.h"

static const char *const model_path = "models/shakespeare.bin";
static tblock_error      err;

#define REFUSED(call, want, word)                                                                  \
    do {                                                                                           \
        err = (tblock_error){ 0 };                                                                 \
        CHECK(!(call), "accepted");                                                                \
        CHECK(err.status == (want) && strstr(err.msg, word),                                       \
              "expected status %d and '%s', found %d: %s", want, word, err.status, err.msg);       \
    } while (0)

static char       *const some_text = (char *)(uintptr_t)8; /* what an output held before: freeing it
                                                            * would crash */
static int32_t    *const some_ids  = (int32_t *)(uintptr_t)8;

static tblock_model *open_model(void)
{
    tblock_model *m = tblock_open(model_path, NULL, &err);
    if (!m)
        SKIP("%s", err.msg);
    return m;
}

static void a_vocabulary_tells_its_tokens(void)
{
    tblock_tokenizer_info info;
    tblock_token          t[3];
    tblock_model         *m = open_model();
    if (!m)
        return;
    CHECK(tblock_tokenizer_describe(m, &info, &err), "%s", err.msg);
    CHECK(strcmp(info.type, "bpe") == 0 && info.size == 1024 && info.unk == -1 && !info.n_prefix
              && !info.chat_template && !info.special_tokens,
          "type %s, size %d, unk %d", info.type, info.size, info.unk);
    CHECK(tblock_tokens(m, 'a', 3, t, &err), "%s", err.msg);
    CHECK(t[0].n_bytes == 1 && *t[0].bytes == 'a' && *t[2].bytes == 'c'
              && t[0].type == TBLOCK_TOKEN_NORMAL,
          "found '%.*s'", (int)t[0].n_bytes, t[0].bytes);
    CHECK(tblock_tokens(m, 1021, 3, t, &err), "%s", err.msg);
    REFUSED(tblock_tokens(m, 1022, 3, t, &err), TBLOCK_USAGE, "found 1024");
    REFUSED(tblock_tokens(m, 1, SIZE_MAX, t, &err), TBLOCK_USAGE, "found 1024");
    REFUSED(tblock_tokens(m, -1, 1, t, &err), TBLOCK_USAGE, "found -1");
    REFUSED(tblock_tokens(m, INT32_MAX, 1, t, &err), TBLOCK_USAGE, "found 2147483647");
    tblock_close(m);
    m = tblock_open("tests/data/models/llama-gqa", NULL, &err);
    CHECK(m != NULL, "%s", err.msg);
    REFUSED(tblock_tokenizer_describe(m, &info, &err), TBLOCK_INPUT, "tokenizer");
    REFUSED(tblock_tokens(m, 0, 1, t, &err), TBLOCK_INPUT, "tokenizer");
    tblock_close(m);
}

static void weights_are_read_by_number(void)
{
    tblock_weight w;
    float         x[192];
    tblock_model *m = open_model();
    if (!m)
        return;
    CHECK(tblock_weight_count(m) == 56, "found %zu", tblock_weight_count(m));
    CHECK(tblock_weight_describe(m, 2, &w, &err) && strcmp(w.name, "layers.0.wq") == 0
              && strcmp(w.type, "bf16") == 0 && w.n_dims == 2 && w.shape[0] == 192
              && w.shape[1] == 192,
          "%s: %s, %s", err.msg, w.name, w.type);
    CHECK(tblock_weight_describe(m, 55, &w, &err) && strcmp(w.name, "final_norm") == 0
              && strcmp(w.type, "f32") == 0 && w.n_dims == 1 && w.shape[0] == 192,
          "%s: %s, %s", err.msg, w.name, w.type);
    CHECK(tblock_weight_read(m, 55, x, &err) && x[0] > 0 && x[191] > 0, "%s", err.msg);
    REFUSED(tblock_weight_describe(m, 56, &w, &err), TBLOCK_USAGE, "below 56, found 56");
    REFUSED(tblock_weight_read(m, SIZE_MAX, x, &err), TBLOCK_USAGE, "below 56");
    tblock_close(m);
}

static bool second_time_no(void *user, double done)
{
    double *last = user;
    bool    first = *last < 0;
    *last = done;
    return first;
}

static void go_on_stops_the_work_and_leaves_no_file(void)
{
    double                  last = -1;
    tblock_quantize_options q8   = { .type = "q8", .go_on = second_time_no, .user = &last };
    tblock_open_options     check = { .check = true, .go_on = second_time_no, .user = &last };
    if (access(model_path, R_OK) || !make_folder())
        SKIP("no %s", model_path);
    REFUSED(tblock_quantize(model_path, in_folder("q8.bin"), &q8, NULL, &err), TBLOCK_SYSTEM,
            "stopped by the caller");
    CHECK(last > 0 && last < 1 && access(in_folder("q8.bin"), F_OK) != 0, "%g", last);
    last = -1;
    REFUSED(tblock_open(model_path, &check, &err), TBLOCK_SYSTEM, "stopped by the caller");
    CHECK(rmdir(folder) == 0, "a file is left");
}

static void outputs_are_null_after_a_failure(void)
{
    int32_t             *ids = some_ids, bad = -7;
    char                *text = some_text;
    size_t               n = 9;
    tblock_chat_message *messages = (tblock_chat_message *)(uintptr_t)8;
    tblock_model        *m = open_model();
    if (!m)
        return;
    REFUSED(tblock_detokenize(m, &bad, 1, &text, &n, &err), TBLOCK_INPUT, "-7");
    CHECK(!text && n == 0, "detokenize leaves its outputs");
    text = some_text;
    REFUSED(tblock_tokenize_json(m, "[", 1, &text, &err), TBLOCK_INPUT, "");
    CHECK(!text, "tokenize_json leaves its output");
    n = 9;
    REFUSED(tblock_chat_from_json("{", 1, "this", &messages, &n, &err), TBLOCK_INPUT, "this");
    CHECK(!messages && n == 0, "chat_from_json leaves its outputs");
    tblock_context *c = tblock_context_new(m, NULL, &err);
    n = 9;
    REFUSED(tblock_state_load(c, 0, "missing/state", &ids, &n, &err), TBLOCK_INPUT,
            "missing/state");
    CHECK(!ids && n == 0, "state_load leaves its outputs");
    ids = some_ids;
    tblock_chat *chat = tblock_chat_new(m, &(tblock_chat_options){ .format = "chatml" }, &err);
    n = 9;
    REFUSED(tblock_chat_render(chat, NULL, 0, true, &ids, &n, &err), TBLOCK_INPUT, "chat");
    CHECK(!ids && n == 0, "chat_render leaves its outputs");
    text = some_text;
    REFUSED(tblock_chat_text(chat, NULL, 0, true, &text, &n, &err), TBLOCK_INPUT, "chat");
    CHECK(!text && n == 0, "chat_text leaves its outputs");
    tblock_chat_free(chat);
    tblock_context_free(c);
    tblock_close(m);
}

static void ids_that_are_no_tokens_are_refused(void)
{
    tblock_model        *m = open_model();
    int32_t              sampled[] = { 5, 6, 99999999 }, *ids;
    size_t               n;
    tblock_chat_message  turn[] = { { .role = "user", .text = "a", .n_bytes = 1 },
                                    { .role = "assistant", .text = "b", .n_bytes = 1,
                                      .ids = sampled, .n_ids = 3 },
                                    { .role = "user", .text = "c", .n_bytes = 1 } };
    if (!m)
        return;
    tblock_chat *chat = tblock_chat_new(m, &(tblock_chat_options){ .format = "chatml" }, &err);
    REFUSED(tblock_chat_render(chat, turn, 3, true, &ids, &n, &err), TBLOCK_INPUT,
            "message 2: id 2: expected 0 to 1023, found 99999999");
    tblock_context *c = tblock_context_new(m, NULL, &err);
    CHECK(c && tblock_decode(c, &(tblock_item){ 0, 0, 5, false }, 1, &err), "%s", err.msg);
    sampled[0] = -5;
    REFUSED(tblock_state_save(c, 0, sampled, 1, "/nowhere/state", &err), TBLOCK_USAGE,
            "token 0: expected 0 to 1023, found -5");
    tblock_context_free(c);
    tblock_chat_free(chat);
    tblock_close(m);
}

static void a_batch_that_does_not_fit_names_its_own_tokens(void)
{
    tblock_model *m = open_model();
    tblock_item   item[9];
    if (!m)
        return;
    tblock_context *c =
        tblock_context_new(m, &(tblock_context_options){ .n_ctx = 4, .n_seqs = 2 }, &err);
    for (int i = 0; i < 9; i++)
        item[i] = (tblock_item){ i >= 3, i < 3 ? i : i - 3, 1, false };
    REFUSED(tblock_decode(c, item, 9, &err), TBLOCK_USAGE,
            "sequence 1: 6 more tokens after 0 do not fit into the context of 4");
    tblock_context_free(c);
    tblock_close(m);
}

static void conversations_that_could_not_be_read_are_not_written(void)
{
    char               *json = some_text;
    tblock_chat_message m    = { .json = "{\"content\": 1}" };
    REFUSED(tblock_chat_to_json(&m, 1, &json, &err), TBLOCK_USAGE, "an object with a role");
    CHECK(!json, "chat_to_json leaves its output");
    m = (tblock_chat_message){ .role = "user", .text = "a\0b", .n_bytes = 3 };
    REFUSED(tblock_chat_to_json(&m, 1, &json, &err), TBLOCK_USAGE, "NUL");
    m = (tblock_chat_message){ .text = "a", .n_bytes = 1 };
    REFUSED(tblock_chat_to_json(&m, 1, &json, &err), TBLOCK_USAGE, "role");
    REFUSED(tblock_chat_save(&m, 1, "/dev/null", &err), TBLOCK_USAGE, "role");
    m.role = "user";
    REFUSED(tblock_chat_save(&m, 1, "/no/such/folder", &err), TBLOCK_SYSTEM, "/no/such/folder");
}

static void what_is_held_is_named(void)
{
    REFUSED(tblock_hold("x", -1, &err), TBLOCK_USAGE, "found -1");
    REFUSED(tblock_hold("x", TBLOCK_HOLD_MODEL + 1, &err), TBLOCK_USAGE, "what: expected");
}

static void a_tolerance_is_not_negative(void)
{
    tblock_verify_report report;
    tblock_model        *m = open_model();
    tblock_context      *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    if (!c)
        return;
    REFUSED(tblock_verify(c, "golden", &(tblock_verify_options){ .tol = -1, .has_tol = true },
                          &report, &err), TBLOCK_USAGE, "tol");
    REFUSED(tblock_verify(c, "golden", &(tblock_verify_options){ .tol = NAN, .has_tol = true },
                          &report, &err), TBLOCK_USAGE, "tol");
    tblock_context_free(c);
    tblock_close(m);
}

static void no_options_are_the_defaults(void)
{
    tblock_grad_check_row *rows = NULL;
    size_t                 n    = 0;
    REFUSED(tblock_train("/nowhere/model.bin", NULL, NULL, &err), TBLOCK_USAGE, "text");
    CHECK(tblock_grad_check(NULL, &rows, &n, &err) && n > 0, "%s", err.msg);
    tblock_free(rows);
}

/* A tensor's pages are locked where they are used: of a model made while loading, its own
 * memory. */
static void weights_are_locked_whatever_they_were_made_from(void)
{
    static const char *const path[] = { "models/shakespeare.bin", "models/shakespeare.bin",
                                        "tests/data/models/llama-gqa" };
    if (SANITIZED) {
        SKIP("mlock does nothing with a sanitizer");
        return;
    }
    for (int i = 0; i < 3; i++) {
        tblock_model *m = tblock_open(
            path[i], &(tblock_open_options){ .mlock = true, .type = i == 1 ? "q8" : NULL }, &err);
        if (!m) {
            CHECK(err.status == TBLOCK_SYSTEM && strstr(err.msg, "lock"), "%s: %s", path[i],
                  err.msg);
            SKIP("%s", err.msg);
            return;
        }
        char   line[200];
        long   locked = 0;
        FILE  *f = fopen("/proc/self/status", "re");
        while (f && fgets(line, sizeof line, f))
            if (strncmp(line, "VmLck:", 6) == 0)
                locked = strtol(line + 6, NULL, 10);
        if (f)
            fclose(f);
        tblock_model_info info;
        tblock_model_describe(m, &info);
        CHECK(locked * 1024 >= (long)info.made_bytes && locked > 0,
              "%s: %ld kB locked, %zu bytes made", path[i], locked, info.made_bytes);
        tblock_close(m);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_vocabulary_tells_its_tokens);
    TEST(weights_are_read_by_number);
    TEST(go_on_stops_the_work_and_leaves_no_file);
    TEST(outputs_are_null_after_a_failure);
    TEST(ids_that_are_no_tokens_are_refused);
    TEST(a_batch_that_does_not_fit_names_its_own_tokens);
    TEST(conversations_that_could_not_be_read_are_not_written);
    TEST(what_is_held_is_named);
    TEST(a_tolerance_is_not_negative);
    TEST_TRAINING(no_options_are_the_defaults);
    TEST(weights_are_locked_whatever_they_were_made_from);
    return TEST_END();
}
