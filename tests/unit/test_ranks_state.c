/* tests/unit/test_ranks_state.c: what ranks keep of a sequence. A state is one file, the same bytes
 * for every number of ranks, and any number loads it; shared beginnings and receipts are those of
 * one process. */
#include "test.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/file.h"
#include "rank_group.h"
#include "rank_shapes.h"
#include "temp_folder.h"

enum { VOCAB = SHAPE_VOCAB, SAVED = 200, AFTER = 3, SEQ = 1 };

static Error err;

static const int sizes[] = { 1, 2, 3, 4, 7 }; /* of 3 KV heads and 6 heads */
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* A negative window: of the first layer alone. */
static bool make_model(int window)
{
    char json[300];
    snprintf(json, sizeof json,
             "{\"d_model\": 36, \"n_layers\": 2, \"heads\": 6, \"kv_heads\": 3, \"head_dim\": 10, "
             "\"d_ff\": 40, \"vocab_size\": %d, \"n_ctx\": 256, \"window\": %d%s}",
             VOCAB, abs(window), window < 0 ? ", \"full_layers\": [1]" : "");
    return write_config(json)
        && tblock_synth(in_folder("config.json"), in_folder("m.bin"),
                        &(tblock_synth_options){ .type = "f32", .seed = 1 }, &err);
}

static tblock_context *context_of(const tblock_model *m, const char *kv)
{
    return m ? tblock_context_new(m, &(tblock_context_options){ .n_seqs = 2, .kv_type = kv,
                                                                .n_batch = 96, .threads = 2 },
                                  &err)
             : NULL;
}

static int32_t token_at(int pos) { return (pos * 7 + pos / 9) % VOCAB; }

/* Positions from .. to - 1; out [to - from, VOCAB] or NULL: their logits. */
static bool decode(tblock_context *c, int seq, int from, int to, float *out)
{
    tblock_item item[SAVED] = { 0 };
    for (int i = 0; i < to - from; i++)
        item[i] = (tblock_item){ seq, from + i, token_at(from + i), true };
    if (!tblock_decode(c, item, (size_t)(to - from), &err))
        return false;
    for (int i = 0; out && i < to - from; i++)
        memcpy(out + i * VOCAB, tblock_logits(c, (size_t)i), VOCAB * sizeof *out);
    return true;
}

static bool compute_and_save(tblock_context *c, const char *path)
{
    int32_t id[SAVED];
    for (int i = 0; i < SAVED; i++)
        id[i] = token_at(i);
    return decode(c, SEQ, 0, SAVED, NULL) && tblock_state_save(c, SEQ, id, SAVED, path, &err);
}

static void check_same_bytes(const char *a, const char *b)
{
    FileMap x = { 0 }, y = { 0 };
    CHECK(file_map_open(&x, a, &err) && file_map_open(&y, b, &err), "%s", err.msg);
    CHECK(x.size == y.size && memcmp(x.data, y.data, x.size) == 0, "%zu bytes, and %zu", x.size,
          y.size);
    file_map_close(&x);
    file_map_close(&y);
}

/* The state that one process saved goes on here as there. */
static void check_load(tblock_context *c, int seq, const float *want)
{
    float    got[AFTER * VOCAB];
    int32_t *id = NULL;
    size_t   n  = 0;
    CHECK(tblock_state_load(c, seq, in_folder("one"), &id, &n, &err), "%s", err.msg);
    CHECK(n == SAVED && id[SAVED - 1] == token_at(SAVED - 1) && tblock_seq_length(c, seq) == SAVED,
          "%zu tokens", n);
    CHECK(decode(c, seq, SAVED, SAVED + AFTER, got), "%s", err.msg);
    CHECK(memcmp(got, want, sizeof got) == 0, "other logits");
    tblock_free(id);
}

static void check_states(const char *kv)
{
    float           want[AFTER * VOCAB];
    tblock_model   *m = tblock_open(in_folder("m.bin"), NULL, &err);
    tblock_context *c = context_of(m, kv);
    CHECK(c && compute_and_save(c, in_folder("one"))
              && decode(c, SEQ, SAVED, SAVED + AFTER, want), "%s", err.msg);
    tblock_context_free(c);
    tblock_close(m);
    for (int i = 0; i < N_SIZES && test_case_state == 0; i++) {
        Group g = { 0 };
        CHECK(group_start(&g, sizes[i], &err), "%s", err.msg);
        m = ranks_open(&g.rank[0], in_folder("m.bin"), NULL, &err);
        c = context_of(m, kv);
        CHECK(c && compute_and_save(c, in_folder("many")), "%d ranks: %s", sizes[i], err.msg);
        check_same_bytes(in_folder("one"), in_folder("many"));
        for (int seq = 0; c && seq < 2; seq++)
            check_load(c, seq, want); /* into an empty sequence, and one that holds something */
        tblock_context_free(c);
        tblock_close(m);
        CHECK(group_end(&g), "%s", g.error[sizes[i] - 1].msg);
    }
}

static void a_state_is_the_same_file_for_every_number_of_ranks(void)
{
    static const int         windows[] = { 0, 70, -70 };
    static const char *const kv[]      = { "f32", "f16", "q8" };
    for (int i = 0; i < 3 && test_case_state == 0; i++) {
        CHECK(make_model(windows[i]), "%s", err.msg);
        check_states(kv[i]);
        check_states(kv[(i + 1) % 3]);
    }
}

/* Each rank has some channels and heads of a state; with one latent vector, all of a tile. */
static void states_of_layers_are_the_same_file_for_every_number_of_ranks(void)
{
    for (int i = 0; i < N_SHAPES && test_case_state == 0; i++) {
        CHECK(make_shape(i, "f32", &err), "%s", err.msg);
        check_states("f16");
        CHECK(test_case_state == 0, "shape %d", i);
    }
}

/* The file fails in the middle, or is none: rank 0 says so, and all go on. */
static void after_a_file_that_fails_all_ranks_go_on(void)
{
    float           want[AFTER * VOCAB];
    struct rlimit   usual, small;
    int32_t        *id;
    size_t          n;
    Group           g = { 0 };
    CHECK(make_model(0) && group_start(&g, 3, &err), "%s", err.msg);
    tblock_model   *m = ranks_open(&g.rank[0], in_folder("m.bin"), NULL, &err);
    tblock_context *c = context_of(m, "f32");
    CHECK(c && compute_and_save(c, in_folder("one")), "%s", err.msg);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &usual);
    small = (struct rlimit){ 8192, usual.rlim_max };
    setrlimit(RLIMIT_FSIZE, &small);
    bool saved = c && tblock_seq_rewind(c, SEQ, 0, &err) && compute_and_save(c, in_folder("many"));
    setrlimit(RLIMIT_FSIZE, &usual);
    CHECK(!saved && err.status == SYSTEM && strstr(err.msg, "many: "), "found '%s'", err.msg);
    CHECK(c && !tblock_state_load(c, 0, in_folder("m.bin"), &id, &n, &err)
              && strstr(err.msg, "tblock-state"), "found '%s'", err.msg);
    CHECK(c && decode(c, SEQ, SAVED, SAVED + AFTER, want), "%s", err.msg);
    if (c)
        check_load(c, 0, want);
    tblock_context_free(c);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[2].msg);
}

/* ---- Generations ----------------------------------------------------------------------------- */

/* Of a biased text, two tokens are likely, so that many guesses are right, and longer than one. */
static const int32_t likely[] = { 3, 17 };
static const float   bias[]   = { 9, 7.5f };

/* What two generations told: their receipts; tokens that were not computed again; guesses. */
typedef struct Sampled { char *receipt[2]; size_t reused, proposed, accepted; } Sampled;

static void sampled_free(Sampled *d)
{
    for (int i = 0; i < 2; i++)
        tblock_free(d->receipt[i]);
}

/* Two generations, of which the second begins with the first one's prompt. */
static Sampled sample_two(tblock_context *c, int n_tokens, bool biased)
{
    enum { PROMPT = 90, COMMON = 70 };
    int32_t                id[2][PROMPT];
    tblock_generation     *g[2] = { NULL, NULL };
    tblock_receipt        *r[2] = { NULL, NULL };
    Sampled                  d  = { .reused = 0 };
    for (int i = 0; i < 2; i++) {
        for (int t = 0; t < PROMPT; t++)
            id[i][t] = token_at(t < COMMON ? t : t + 5 * i);
        tblock_generation_options o = { .ids = id[i], .n_ids = PROMPT, .max_tokens = n_tokens,
                                        .draft = biased ? 20 : 4,
                                        .sampling = { .temp = 0.7f,
                                                      .bias_ids = likely,
                                                      .bias = bias,
                                                      .n_bias = biased ? 2 : 0,
                                                      .seed = (uint64_t)i + 3 } };
        r[i]       = tblock_receipt_new(c, &o, &(tblock_receipt_options){ .every = 1 }, &err);
        o.on_token = tblock_receipt_token;
        o.user     = r[i];
        g[i]       = r[i] ? tblock_generation_open(c, &o, &err) : NULL;
        CHECK(g[i] && tblock_advance(c, &g[i], 1, 0, &err), "%s", err.msg);
    }
    for (int i = 0; i < n_tokens && test_case_state == 0; i++)
        CHECK(tblock_advance(c, g, 2, 0, &err), "%s", err.msg);
    for (int i = 0; i < 2; i++) {
        tblock_generation_info info = { 0 };
        if (g[i])
            tblock_generation_describe(g[i], &info);
        d.reused = info.n_reused;
        d.proposed += info.n_proposed;
        d.accepted += info.n_accepted;
        CHECK(r[i] && tblock_receipt_json(r[i], &d.receipt[i], &err), "%s", err.msg);
        tblock_generation_close(g[i]);
        tblock_receipt_free(r[i]);
    }
    return d;
}

static void check_sampled(const Sampled *want, const Sampled *got, const char *what, int size)
{
    for (int i = 0; i < 2; i++)
        CHECK(want->receipt[i] && got->receipt[i]
                  && strcmp(want->receipt[i], got->receipt[i]) == 0,
              "%s, %d ranks: receipt %d: %s", what, size, i, got->receipt[i]);
    CHECK(got->reused == want->reused, "%s, %d ranks: %zu tokens reused, not %zu", what, size,
          got->reused, want->reused);
}

static void shared_beginnings_and_receipts_are_those_of_one_process(void)
{
    CHECK(make_model(0), "%s", err.msg);
    tblock_model   *m = tblock_open(in_folder("m.bin"), NULL, &err);
    tblock_context *c = context_of(m, "q8");
    CHECK(c, "%s", err.msg);
    Sampled one = sample_two(c, 30, false);
    CHECK(one.reused == 70, "%zu tokens reused", one.reused);
    tblock_context_free(c);
    tblock_close(m);
    for (int i = 0; i < N_SIZES && test_case_state == 0; i++) {
        Group  g    = { 0 };
        Sampled many = { .reused = 0 };
        CHECK(group_start(&g, sizes[i], &err), "%s", err.msg);
        m = ranks_open(&g.rank[0], in_folder("m.bin"), NULL, &err);
        c = context_of(m, "q8");
        CHECK(c, "%s", err.msg);
        if (c)
            many = sample_two(c, 30, false);
        check_sampled(&one, &many, "alike", sizes[i]);
        sampled_free(&many);
        tblock_context_free(c);
        tblock_close(m);
        CHECK(group_end(&g), "%s", g.error[sizes[i] - 1].msg);
    }
    sampled_free(&one);
}

/* With the model's layer that predicts the token after the next, in several rounds: from nothing,
 * behind what the sequences hold, behind a state that was loaded, and no more. */
enum { ROUNDS = 4 };
static void sample_rounds(tblock_context *c, bool guesses, Sampled d[ROUNDS])
{
    int32_t *id = NULL;
    size_t   n  = 0;
    memset(d, 0, ROUNDS * sizeof *d);
    CHECK(!guesses || tblock_draft_by(c, c, &err), "%s", err.msg);
    for (int i = 0; i < ROUNDS && test_case_state == 0; i++) {
        if (i == 2)
            CHECK(tblock_state_save(c, 0, c->seq_tokens[0].id, (size_t)c->kv.seq[0].length,
                                    in_folder("one"), &err)
                      && tblock_seq_rewind(c, 0, 0, &err)
                      && tblock_state_load(c, 0, in_folder("one"), &id, &n, &err),
                  "%s", err.msg);
        CHECK(i < 3 || tblock_draft_by(c, NULL, &err), "%s", err.msg);
        d[i] = sample_two(c, 90, i != 1);
    }
    tblock_free(id);
}

static void check_guesses(int shape)
{
    Sampled         plain[ROUNDS], one[ROUNDS], many[ROUNDS];
    tblock_model   *m = tblock_open(in_folder("m.bin"), NULL, &err);
    for (int i = 0; i < 2; i++) {
        tblock_context *c = context_of(m, "q8");
        CHECK(c, "%s", err.msg);
        sample_rounds(c, i == 1, i ? one : plain);
        tblock_context_free(c);
    }
    tblock_close(m);
    for (int i = 0; i < ROUNDS; i++)
        check_sampled(&plain[i], &one[i], "one process", 1);
    CHECK(one[0].proposed > 40 && one[0].accepted > 10 && one[0].accepted < one[0].proposed,
          "shape %d: %zu of %zu", shape, one[0].accepted, one[0].proposed);
    for (int i = 0; i < N_SIZES && test_case_state == 0; i++) {
        Group g = { 0 };
        CHECK(group_start(&g, sizes[i], &err), "%s", err.msg);
        m = ranks_open(&g.rank[0], in_folder("m.bin"), NULL, &err);
        tblock_context *c = context_of(m, "q8");
        CHECK(c, "%s", err.msg);
        if (c)
            sample_rounds(c, true, many);
        for (int j = 0; c && j < ROUNDS; j++) {
            check_sampled(&plain[j], &many[j], "guesses", sizes[i]);
            CHECK(many[j].proposed == one[j].proposed && many[j].accepted == one[j].accepted,
                  "shape %d, %d ranks, round %d: %zu guesses of %zu right, not %zu of %zu", shape,
                  sizes[i], j, many[j].accepted, many[j].proposed, one[j].accepted,
                  one[j].proposed);
            sampled_free(&many[j]);
        }
        tblock_context_free(c);
        tblock_close(m);
        CHECK(group_end(&g), "%s", g.error[sizes[i] - 1].msg);
    }
    for (int i = 0; i < ROUNDS; i++) {
        sampled_free(&plain[i]);
        sampled_free(&one[i]);
    }
}

static void the_layer_ahead_guesses_as_in_one_process(void)
{
    int n = 0;
    for (int i = 0; i < N_SHAPES && test_case_state == 0; i++)
        if (strstr(rank_shape[i], "mtp_layers")) {
            CHECK(make_shape(i, "f32", &err), "%s", err.msg);
            check_guesses(i);
            n++;
        }
    CHECK(n == 2, "%d shapes", n);
}

int main(int argc, char **argv)
{
    static const char *const made[] = { "config.json", "m.bin", "one", "many" };
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder()) {
        puts("FAIL test_ranks_state: cannot make a folder");
        return 1;
    }
    TEST(a_state_is_the_same_file_for_every_number_of_ranks);
    TEST(states_of_layers_are_the_same_file_for_every_number_of_ranks);
    TEST(after_a_file_that_fails_all_ranks_go_on);
    TEST(shared_beginnings_and_receipts_are_those_of_one_process);
    TEST(the_layer_ahead_guesses_as_in_one_process);
    for (int i = 0; i < 4; i++)
        remove(in_folder(made[i]));
    rmdir(in_folder(""));
    return TEST_END();
}
