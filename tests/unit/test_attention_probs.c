/* tests/unit/test_attention_probs.c: the attention probabilities beside the forward pass, and what
 * the API makes of them. */
#include "test.h"

#include <math.h>
#include <unistd.h>

#include "api/api.h"
#include "report/attn.h"
#include "tblock_tools.h"

enum { N = 200, VOCAB = 50, HEADS = 6, LAYERS = 2 };

static char    folder[64];
static int32_t tokens[N];
static Error   err;

static const char *in_folder(const char *name)
{
    static char path[2][128];
    static int  at;
    at = !at;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

/* Groups of 3 heads; a head_dim that fills no vector. */
static tblock_model *model_of(int window)
{
    FILE *f = fopen(in_folder("config.json"), "w");
    CHECK(f, "cannot write");
    if (!f)
        return NULL;
    fprintf(f,
            "{\"d_model\": 36, \"n_layers\": %d, \"heads\": %d, \"kv_heads\": 2, \"head_dim\": 10, "
            "\"d_ff\": 40, \"vocab_size\": %d, "
            "\"n_ctx\": 512, \"window\": %d}",
            LAYERS, HEADS, VOCAB, window);
    fclose(f);
    tblock_model *m = tblock_synth(in_folder("config.json"), in_folder("m.bin"),
                                   &(tblock_synth_options){ .type = "f32", .seed = 3 }, &err)
        ? tblock_open(in_folder("m.bin"), NULL, &err)
        : NULL;
    CHECK(m, "%s", err.msg);
    return m;
}

static tblock_attention *run(const tblock_model *m, const tblock_context_options *how,
                             const tblock_attention_options *what)
{
    tblock_context   *c = m ? tblock_context_new(m, how, &err) : NULL;
    tblock_attention *a = c ? tblock_attention_new(c, tokens, N, what, &err) : NULL;
    CHECK(a, "%s", err.msg);
    CHECK(!c || tblock_seq_length(c, 0) == 0, "the sequence is not emptied");
    tblock_context_free(c);
    return a;
}

static void rows_sum_to_one_and_masked_keys_are_zero(void)
{
    static const int         windows[] = {0, 1, 5, 64, 65, 100, 199, 200, 400};
    static const char *const types[]   = {"f32", "f16", "q8"};
    for (int i = 0; i < 27; i++) {
        int               window = windows[i / 3];
        tblock_model     *m = model_of(window);
        tblock_attention *a = run(m, &(tblock_context_options){.kv_type = types[i % 3]}, NULL);
        for (int l = 0; a && l < LAYERS; l++)
            for (int h = 0; h < HEADS; h++)
                for (int q = 0; q < N; q++) {
                    const float *p = tblock_attention_head(a, l, h) + q * N;
                    double       sum = 0;
                    for (int k = 0; k < N; k++) {
                        bool sees = k <= q && (!window || q - k < window);
                        CHECK(sees ? p[k] > 0 && p[k] <= 1 : p[k] == 0,
                              "window %d, layer %d, head %d, query %d, key %d: %g", window, l,
                              h, q, k, (double)p[k]);
                        sum += (double)p[k];
                    }
                    CHECK(fabs(sum - 1) < 2e-6, "window %d, layer %d, head %d, query %d: sum %.9g",
                          window, l, h, q, sum);
                }
        tblock_attention_free(a);
        tblock_close(m);
    }
}

static bool same(const tblock_attention *a, const tblock_attention *b)
{
    for (int l = 0; a && b && l < LAYERS; l++)
        for (int h = 0; h < HEADS; h++)
            if (memcmp(tblock_attention_head(a, l, h), tblock_attention_head(b, l, h),
                       N * N * sizeof(float))
                != 0)
                return false;
    return a && b;
}

/* With a window and small pieces the cache gives tiles up while the prompt is still running. */
static void pieces_threads_and_instruction_sets_do_not_show(void)
{
    static const int windows[] = {0, 5, 70}, pieces[] = {1, 3, 63, 64, 65};
    for (int w = 0; w < 3; w++) {
        tblock_model     *m    = model_of(windows[w]);
        tblock_attention *want =
            run(m, &(tblock_context_options){ .threads = 1, .isa = "scalar" }, NULL);
        for (int i = 0; i < 5; i++) {
            tblock_attention *a = run(
                m, &(tblock_context_options){ .threads = 1 + i % 3, .n_batch = pieces[i] }, NULL);
            CHECK(same(a, want), "window %d, pieces of %d: other bits", windows[w], pieces[i]);
            tblock_attention_free(a);
        }
        const Kernels *k;
        for (int i = 0; (k = kernels_table(i)); i++) {
            tblock_attention *a = run(m, &(tblock_context_options){.isa = k->isa}, NULL);
            CHECK(same(a, want), "window %d, %s: other bits", windows[w], k->isa);
            tblock_attention_free(a);
        }
        tblock_attention_free(want);
        tblock_close(m);
    }
}

static float *into_buffer(void *user, int layer, int head, size_t item)
{
    return (float *)user + (((size_t)layer * HEADS + (size_t)head) * N + item) * N;
}

static void watching_leaves_the_logits_alone(void)
{
    tblock_model   *m    = model_of(70);
    tblock_context *c    = m ? tblock_context_new(m, NULL, &err) : NULL;
    float          *room = malloc(sizeof(float) * LAYERS * HEADS * N * N), last[VOCAB];
    tblock_item     item[N];
    for (int i = 0; i < N; i++)
        item[i] = (tblock_item){0, i, tokens[i], true};
    bool ok = c && room && tblock_decode(c, item, N, &err);
    CHECK(ok, "%s", err.msg);
    if (ok) {
        memcpy(last, tblock_logits(c, N - 1), sizeof last);
        CHECK(tblock_seq_rewind(c, 0, 0, &err), "%s", err.msg);
        forward_watch_attention(c->forward, into_buffer, room);
        CHECK(tblock_decode(c, item, N, &err), "%s", err.msg);
        CHECK(memcmp(last, tblock_logits(c, N - 1), sizeof last) == 0, "other logits");
    }
    free(room);
    tblock_context_free(c);
    tblock_close(m);
}

static void chosen_layers_and_heads_are_the_same_numbers(void)
{
    static const int  layers[] = {1}, heads[] = {5, 0};
    tblock_model     *m    = model_of(0);
    tblock_attention *all  = run(m, NULL, NULL);
    tblock_attention *some =
        run(m, NULL,
            &(tblock_attention_options){
                .layers = layers, .n_layers = 1, .heads = heads, .n_heads = 2 });
    for (int l = -1; all && some && l <= LAYERS; l++)
        for (int h = -1; h <= HEADS; h++) {
            const float *p = tblock_attention_head(some, l, h);
            CHECK((p != NULL) == (l == 1 && (h == 0 || h == 5)), "layer %d, head %d: kept or not",
                  l, h);
            CHECK(!p || memcmp(p, tblock_attention_head(all, l, h), N * N * sizeof(float)) == 0,
                  "layer %d, head %d: other bits", l, h);
        }
    tblock_attention_free(all);
    tblock_attention_free(some);
    tblock_close(m);
}

static void refuse(tblock_context *c, size_t n, const tblock_attention_options *what,
                   const char *part)
{
    tblock_attention *a = tblock_attention_new(c, tokens, n, what, &err);
    CHECK(!a && err.status == USAGE && strstr(err.msg, part), "expected '%s', found %d '%.300s'",
          part, err.status, a ? "no error" : err.msg);
    tblock_attention_free(a);
}

static void what_does_not_exist_is_refused(void)
{
    static const int missing[] = {6}, negative[] = {-1}, twice[] = {1, 0, 1};
    tblock_model    *m = model_of(0);
    tblock_context  *c =
        m ? tblock_context_new(m, &(tblock_context_options){ .n_ctx = 100 }, &err) : NULL;
    CHECK(c, "%s", err.msg);
    if (c) {
        refuse(c, 0, NULL, "at least one token");
        refuse(c, 101, NULL, "context of 100");
        refuse(c, 5, &(tblock_attention_options){ .heads = missing, .n_heads = 1 },
               "head: expected 0 to 5, found 6");
        refuse(c, 5, &(tblock_attention_options){ .layers = negative, .n_layers = 1 },
               "layer: expected 0 to 1, found -1");
        refuse(c, 5, &(tblock_attention_options){ .layers = twice, .n_layers = 3 },
               "layer 1: expected it once");
        refuse(c, 5, &(tblock_attention_options){.layers = twice}, "at least one layer");
    }
    tblock_context_free(c);
    tblock_close(m);
}

static void check_label(const char *bytes, size_t n, const char *want)
{
    TextOut got = {0}, expected = {0};
    attn_label(&got, &(AttnPiece){bytes, n}, 64);
    json_out_string(&expected, want, strlen(want));
    CHECK(got.n == expected.n && memcmp(got.text, expected.text, got.n) == 0,
          "expected %.*s, found %.*s", (int)expected.n,
          expected.text, (int)got.n, got.text);
    text_out_free(&got);
    text_out_free(&expected);
}

static void labels_spell_what_is_not_seen(void)
{
    check_label("", 0, "");
    check_label("the", 3, "the");
    check_label(" the", 4, "\u2423the");
    check_label(
        "a\n\t\r\x1B\x7F\0b", 8,
        "a\u27E8\\n\u27E9\u27E8\\t\u27E9\u27E8\\r\u27E9\u27E81B\u27E9\u27E87F\u27E9\u27E800\u27E9"
        "b");
    check_label("\xC3\xA9\xC3", 3, "\u00E9\u27E8C3\u27E9");
    check_label("\xE2\x80", 2, "\u27E8E2\u27E9\u27E880\u27E9");
    check_label("\xE2\x80\xAE x", 5, "\u27E8U+202E\u27E9\u2423x");
    check_label("\xCC\x81" "e\xCC\x81", 5, "\u25CC\u0301e\u0301");
    check_label("\xC2\xA0\xEF\xBB\xBF", 5, "\u27E8U+00A0\u27E9\u27E8U+FEFF\u27E9");
    check_label("\xF0\x9F\x98\x80", 4, "\U0001F600");
#define DIGITS "0123456789012345678901234567890123456789012345678901234567890123"
    check_label(DIGITS, 64, DIGITS);
    check_label(DIGITS "4", 65, DIGITS "\u2026");
}

static bool add_up(void *user, const char *data, size_t n_bytes, Error *e)
{
    (void)data;
    (void)e;
    *(size_t *)user += n_bytes;
    return true;
}

/* Labels of the letter that takes the most bytes in a script. */
static void a_page_has_fewer_bytes_than_its_limit(void)
{
    static const struct { int n, layers, heads, window; } cases[] = {
        {1, 1, 1, 0}, {925, 6, 6, 0}, {1024, 1, 61, 0}, {1025, 2, 4, 0}, {8192, 1, 1, 0},
        {8191, 1, 1, 5}, {3125, 1, 6, 512}, {64, 126, 128, 0}, {3, 4096, 1500, 0},
    };
    enum { LONGEST = 8192 };
    static int32_t   token[LONGEST];
    static AttnPiece piece[LONGEST];
    static int       number[4096];
    static char      letters[300];
    memset(letters, '<', sizeof letters);
    for (int i = 0; i < LONGEST; i++) {
        token[i] = INT32_MAX;
        piece[i] = (AttnPiece){letters, sizeof letters};
    }
    for (int i = 0; i < 4096; i++)
        number[i] = i;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = (size_t)cases[i].n, found = 0;
        Config c = {.n_layers = cases[i].layers, .heads = cases[i].heads, .kv_heads = 1,
                    .window = cases[i].window};
        float *p = calloc((size_t)c.n_layers * (size_t)c.heads * n * n, sizeof *p);
        CHECK(p, "no memory");
        AttnView v = {.model = "m", .sha256 = "", .kv_type = "f32", .cfg = &c, .n_tokens = n,
                      .token = token, .piece = piece, .n_layers = c.n_layers, .n_heads = c.heads,
                      .layer = number, .head = number, .p = p};
        bool drawn = p && attn_html(&v, &(AttnSink){add_up, &found}, &err);
        CHECK(c.n_layers == 4096 ? !drawn && strstr(err.msg, "choose fewer layers") : drawn,
              "%zu: %s", i, err.msg);
        CHECK(found < ATTN_PAGE_BYTES, "%zu: %zu bytes", i, found);
        free(p);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/tblock-attn-XXXXXX");
    if (!mkdtemp(folder))
        return 4;
    for (int i = 0; i < N; i++)
        tokens[i] = (i * 7 + 3) % VOCAB;
    TEST(rows_sum_to_one_and_masked_keys_are_zero);
    TEST(pieces_threads_and_instruction_sets_do_not_show);
    TEST(watching_leaves_the_logits_alone);
    TEST(chosen_layers_and_heads_are_the_same_numbers);
    TEST(what_does_not_exist_is_refused);
    TEST(labels_spell_what_is_not_seen);
    TEST(a_page_has_fewer_bytes_than_its_limit);
    unlink(in_folder("config.json"));
    unlink(in_folder("m.bin"));
    rmdir(folder);
    return TEST_END();
}
