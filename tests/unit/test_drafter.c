/* tests/unit/test_drafter.c: a model guesses for another, which draws what it draws alone. */
#include "test.h"

#include <unistd.h>

#include "api/generation.h"
#include "temp_folder.h"

enum { MOST = 300, N_CTX = 240 };

static Error         err;
static tblock_model *model, *other, *windowed, *words, *other_words, *ahead;

static tblock_model *synth_with(const char *name, int seed, int window, int vocab, int mtp_layers)
{
    char                 json[256];
    tblock_synth_options o = { .type = "f32", .seed = (uint64_t)seed };
    snprintf(json, sizeof json, "{\"d_model\": 32, \"n_layers\": 2, \"heads\": 2, \"d_ff\": 40, "
                                "\"vocab_size\": %d, \"n_ctx\": %d, \"window\": %d, "
                                "\"mtp_layers\": %d}",
             vocab, N_CTX, window, mtp_layers);
    bool made =
        write_config(json) && tblock_synth(in_folder("config.json"), in_folder(name), &o, &err);
    return made ? tblock_open(in_folder(name), NULL, &err) : NULL;
}

static tblock_model *synth(const char *name, int seed, int window, int vocab)
{
    return synth_with(name, seed, window, vocab, 0);
}

static tblock_context *context_of(const tblock_model *m, int n_seqs, int n_batch, int n_ctx)
{
    tblock_context *c = tblock_context_new(
        m,
        &(tblock_context_options){
            .n_seqs = n_seqs, .n_batch = n_batch, .n_ctx = n_ctx, .threads = 1 },
        &err);
    CHECK(c, "%s", err.msg);
    return c;
}

static tblock_generation_info info_of(const tblock_generation *g)
{
    tblock_generation_info i;
    tblock_generation_describe(g, &i);
    return i;
}

/* What one was told: the tokens, and a hash of the logits of each. */
typedef struct Told {
    int32_t  id[MOST];
    uint64_t hash[MOST];
    size_t   n, n_proposed, n_accepted, n_steps;
    int      end;
} Told;

static void note(void *user, size_t index, int32_t token, const float *logits)
{
    Told *t = user;
    (void)token;
    if (index < MOST)
        t->hash[index] = tblock_hash_floats(logits, 40);
}

static Told tell(tblock_context *c, tblock_generation_options o, size_t piece)
{
    Told t                = { 0 };
    o.on_token            = note;
    o.user                = &t;
    tblock_generation *g  = tblock_generation_open(c, &o, &err);
    while (g && info_of(g).end == TBLOCK_GOES_ON && tblock_advance(c, &g, 1, piece, &err))
        ;
    CHECK(g && info_of(g).end != TBLOCK_GOES_ON && info_of(g).end != TBLOCK_END_FAILED, "%s",
          g ? info_of(g).error->msg : err.msg);
    if (!g)
        return t;
    tblock_generation_info i = info_of(g);
    t.n = i.n_ids < MOST ? i.n_ids : MOST, t.end = i.end;
    t.n_proposed = i.n_proposed, t.n_accepted = i.n_accepted, t.n_steps = i.n_steps;
    memcpy(t.id, i.ids, t.n * sizeof *t.id);
    tblock_generation_close(g);
    return t;
}

static void same(const Told *a, const Told *b)
{
    CHECK(a->n == b->n && memcmp(a->id, b->id, sizeof a->id) == 0, "other tokens than alone");
    CHECK(memcmp(a->hash, b->hash, sizeof a->hash) == 0, "other logits than alone");
    CHECK(a->end == b->end, "ends with %d, alone with %d", b->end, a->end);
}

/* Text i of many: all ways to draw. */
static tblock_generation_options options(int i)
{
    static const int32_t ids[] = { 5, 9, 2, 7, 7, 3, 11, 30, 4, 5, 9, 2, 7, 1, 8, 8 }, never = -1;
    static const int32_t bias_ids[] = { 3, 17 };
    static const float   bias[] = { 2, -5 };
    return (tblock_generation_options){ .ids        = ids,
                                        .n_ids      = 1 + (size_t)i * 7 % 16,
                                        .max_tokens = i % 3 ? 20 + i % 17 : 0,
                                        .draft      = 1 + i * 5 % 13,
                                        .stop_ids   = &never,
                                        .n_stop_ids = 1,
                                        .sampling   = { .temp  = (float)(i % 4) * 0.5f,
                                                        .top_k = i % 5 ? 0 : 8,
                                                        .repeat_penalty = i % 2 ? 1.3f : 0,
                                                        .presence_penalty = i % 7 ? 0 : 0.5f,
                                                        .bias_ids = bias_ids,
                                                        .bias     = bias,
                                                        .n_bias   = i % 6 ? 0 : 2,
                                                        .seed     = (uint64_t)i } };
}

enum { TEXTS = 40 };

/* Returns the share of the guesses that were right. */
static double compare_all(const tblock_model *m, const tblock_model *by, int n_batch, int n_ctx)
{
    tblock_context *alone = context_of(m, 1, 0, 0), *c = context_of(m, 1, n_batch, 0),
                   *draft = context_of(by, 1, n_batch, n_ctx);
    size_t          proposed = 0, accepted = 0;
    CHECK(tblock_draft_by(c, draft, &err), "%s", err.msg);
    for (int i = 0; i < TEXTS && test_case_state == 0; i++) {
        tblock_generation_options o = options(i);
        Told                      with = tell(c, o, 3);
        o.draft                        = 0;
        Told without                   = tell(alone, o, 0);
        same(&without, &with);
        proposed += with.n_proposed, accepted += with.n_accepted;
    }
    CHECK(proposed > 500, "only %zu guesses", proposed);
    tblock_context_free(alone), tblock_context_free(c), tblock_context_free(draft);
    return proposed ? (double)accepted / (double)proposed : 0;
}

static void a_model_that_guesses_for_itself_is_always_right(void)
{
    double right = compare_all(model, model, 0, 0);
    CHECK(right > 0.99, "%f of all", right); /* but for one that the context has no room for */
    right = compare_all(windowed, windowed, 16, 0);
    CHECK(right > 0.99, "%f of all", right);
}

static void another_model_changes_no_bit(void)
{
    double right = compare_all(model, other, 0, 0);
    CHECK(right < 0.9, "%f of all", right);
    compare_all(model, windowed, 5, 0);
}

static void a_model_that_is_wrong_is_asked_rarely(void)
{
    tblock_context *c = context_of(model, 1, 0, 0), *draft = context_of(other, 1, 0, 0);
    CHECK(tblock_draft_by(c, draft, &err), "%s", err.msg);
    tblock_generation_options o = options(2);
    o.max_tokens = 220, o.draft = 7;
    Told t                      = tell(c, o, 0);
    CHECK(t.n_accepted < 20 && t.n_proposed > 5 && t.n_proposed < 80, "%zu of %zu", t.n_accepted,
          t.n_proposed);
    tblock_context_free(c), tblock_context_free(draft);
}

/* At temperature 3 each token occurs again, and what followed is rejected. */
static void an_ngram_that_is_wrong_is_looked_up_rarely(void)
{
    tblock_context           *c = context_of(model, 1, 0, 0);
    tblock_generation_options o = options(2);
    o.max_tokens = 220, o.draft = 7, o.draft_match = 1, o.sampling.temp = 3;
    Told t = tell(c, o, 0);
    CHECK(t.n_accepted < 20 && t.n_proposed > 5 && t.n_proposed < 80, "%zu of %zu", t.n_accepted,
          t.n_proposed);
    tblock_context_free(c);
}

/* Accepted every other time it is never paused; always rejected, for 8 steps at most. */
static void a_draft_that_is_right_at_times_is_not_paused(void)
{
    tblock_context           *c = context_of(model, 1, 0, 0);
    tblock_generation_options o = options(2);
    o.draft                     = 7;
    tblock_generation *g        = tblock_generation_open(c, &o, &err);
    CHECK(g, "%s", err.msg);
    for (int i = 0; g && i < 40; i++) {
        generation_adapt(g, i % 2 ? 2 : 1, 2);
        CHECK(g->pause == 0, "paused for %d steps", g->pause);
    }
    for (int i = 0; g && i < 40; i++) {
        generation_adapt(g, 1, 2);
        CHECK(g->pause <= 8 && (i < 3 || g->pause > 0), "reject %d: %d steps", i, g->pause);
        CHECK(g->draft_length == 1, "%zu tokens", g->draft_length);
    }
    tblock_generation_close(g), tblock_context_free(c);
}

static void behind_its_context_it_guesses_nothing(void)
{
    tblock_context *c = context_of(model, 1, 0, 0), *draft = context_of(model, 1, 0, 30);
    CHECK(tblock_draft_by(c, draft, &err), "%s", err.msg);
    tblock_generation_options o = options(3);
    o.max_tokens = 100, o.draft = 7;
    Told t                      = tell(c, o, 0);
    CHECK(t.n_accepted == t.n_proposed && t.n_proposed > 5 && t.n_proposed < 30
              && t.n - o.n_ids == 100,
          "%zu of %zu", t.n_accepted, t.n_proposed);
    tblock_context_free(c), tblock_context_free(draft);
}

/* Of a model with more rows than its tokenizer has tokens, or fewer than the other. */
static void rows_of_no_token_are_not_guessed(void)
{
    compare_all(words, other_words, 0, 0);
}

/* Sequences come, go, begin alike and are forgotten. */
static void sequences_share_their_beginning(void)
{
    tblock_context *c = context_of(model, 3, 0, 0), *draft = context_of(model, 4, 0, 0);
    CHECK(tblock_draft_by(c, draft, &err), "%s", err.msg);
    int32_t                   ids[150];
    tblock_generation_options o = options(2);
    for (int i = 0; i < 150; i++)
        ids[i] = i * i % 40;
    o.ids = ids, o.n_ids = 150, o.max_tokens = 9;
    Told first = tell(c, o, 0);
    ids[140]   = 39; /* 140 tokens are the same */
    Told               second = tell(c, o, 0);
    tblock_context_info with;
    tblock_context_describe(c, &with);
    CHECK(first.n_accepted == first.n_proposed && second.n_accepted == second.n_proposed
              && second.n_proposed > 0,
          "%zu of %zu", second.n_accepted, second.n_proposed);
    CHECK(tblock_seq_length(draft, 1) > 140, "%d", (int)tblock_seq_length(draft, 1));
    CHECK(draft->kv.seq[0].layer[0].tile[1] == draft->kv.seq[1].layer[0].tile[1],
          "no tile is shared");
    CHECK(with.kv_bytes == c->kv.bytes + draft->kv.bytes && draft->kv.bytes, "%zu", with.kv_bytes);
    for (int s = 0; s < 3; s++)
        CHECK(tblock_seq_rewind(c, s, 0, &err) && tblock_seq_length(draft, s) == 0, "%s", err.msg);
    tblock_context_describe(c, &with);
    CHECK(c->kv.bytes == 0 || with.kv_bytes == c->kv.bytes + draft->kv.bytes, "%zu", with.kv_bytes);
    tblock_context_free(c), tblock_context_free(draft);
}

/* A state is read by the drafter when it guesses, in pieces. */
static void a_state_is_gone_on_from(void)
{
    tblock_context *c = context_of(model, 1, 0, 0), *draft = context_of(model, 1, 0, 0);
    int32_t         ids[120], *loaded = NULL;
    size_t          n;
    for (int i = 0; i < 120; i++)
        ids[i] = i * 7 % 40;
    tblock_generation_options o = options(5);
    o.ids = ids, o.n_ids = 120, o.max_tokens = 30, o.draft = 7;
    Told want = tell(c, o, 0);
    CHECK(tblock_state_save(c, 0, c->seq_tokens[0].id, (size_t)c->kv.seq[0].length,
                            in_folder("seq.state"), &err)
              && tblock_seq_rewind(c, 0, 0, &err)
              && tblock_state_load(c, 0, in_folder("seq.state"), &loaded, &n, &err)
              && tblock_draft_by(c, draft, &err),
          "%s", err.msg);
    Told got = tell(c, o, 10);
    same(&want, &got);
    CHECK(got.n_proposed > 5 && got.n_proposed == got.n_accepted, "%zu of %zu", got.n_accepted,
          got.n_proposed);
    tblock_free(loaded);
    tblock_context_free(c), tblock_context_free(draft);
}

/* The rows of a step are shared, and those that are told together are told the same. */
static void many_share_the_draft(void)
{
    enum { N = 6 };
    tblock_context    *c = context_of(model, N, 0, 0), *draft = context_of(model, N, 0, 0),
                      *alone = context_of(model, 1, 0, 0);
    tblock_generation *g[N];
    Told               want[N], got[N] = { { .n = 0 } };
    CHECK(tblock_draft_by(c, draft, &err), "%s", err.msg);
    for (int i = 0; i < N; i++) {
        tblock_generation_options o = options(i + 1);
        o.max_tokens = 20 + 10 * i, o.draft = 7;
        want[i]    = tell(alone, o, 0);
        o.on_token = note, o.user = &got[i];
        g[i] = tblock_generation_open(c, &o, &err);
        CHECK(g[i], "%s", err.msg);
    }
    for (int step = 0; step < 300 && test_case_state == 0; step++) {
        size_t rows = 0, drawing = 0;
        CHECK(tblock_advance(c, g, N, 0, &err), "%s", err.msg);
        for (int i = 0; i < N; i++) {
            drawing += info_of(g[i]).end == TBLOCK_GOES_ON;
            rows += info_of(g[i]).n_proposed;
        }
        CHECK(drawing < 5 || rows == 0, "%zu draw, and %zu are guessed", drawing, rows);
    }
    size_t proposed = 0;
    for (int i = 0; i < N; i++) {
        tblock_generation_info x = info_of(g[i]);
        CHECK(x.n_ids == want[i].n && memcmp(x.ids, want[i].id, x.n_ids * sizeof *x.ids) == 0
                  && memcmp(got[i].hash, want[i].hash, sizeof got[i].hash) == 0,
              "generation %d tells otherwise", i);
        CHECK(x.n_proposed == x.n_accepted, "%zu of %zu", x.n_accepted, x.n_proposed);
        proposed += x.n_proposed;
        tblock_generation_close(g[i]);
    }
    CHECK(proposed > 30, "%zu", proposed);
    tblock_context_free(c), tblock_context_free(draft), tblock_context_free(alone);
}

/* It draws within the constraint too. */
static void it_guesses_what_fits(void)
{
    static const char  pattern[] = "[a-z ]{2,9}(,[a-z0-9]{1,5}){3,20}";
    tblock_context    *alone = context_of(words, 1, 0, 0), *c = context_of(words, 1, 0, 0),
                      *draft = context_of(words, 1, 0, 0);
    tblock_constraint *k =
        tblock_constraint_new(words, TBLOCK_REGEX, pattern, strlen(pattern), "k", &err);
    size_t             proposed = 0, accepted = 0;
    CHECK(k && tblock_draft_by(c, draft, &err), "%s", err.msg);
    for (int i = 0; i < 20 && test_case_state == 0; i++) {
        tblock_generation_options o = options(i);
        o.constraint                = k;
        Told with                   = tell(c, o, 0);
        o.draft                     = 0;
        Told without                = tell(alone, o, 0);
        same(&without, &with);
        proposed += with.n_proposed - without.n_proposed;
        accepted += with.n_accepted - without.n_accepted;
    }
    CHECK(proposed > 50 && accepted > proposed * 9 / 10, "%zu of %zu", accepted, proposed);
    tblock_constraint_free(k);
    tblock_context_free(alone), tblock_context_free(c), tblock_context_free(draft);
}

/* ---- By the model's own layer that predicts the token after the next ---- */

/* Generations step together, where each has its share of the draft; those that come later begin as
 * others did, or in sequences that are told other texts. */
static void its_own_layer_changes_no_bit(void)
{
    enum { N = 3 };
    tblock_context    *alone = context_of(ahead, 1, 0, 0), *c = context_of(ahead, N, 70, 0);
    tblock_generation *g[N];
    Told               want[N], got[N];
    size_t             proposed = 0;
    CHECK(tblock_draft_by(c, c, &err), "%s", err.msg);
    for (int round = 0; round < 12 && test_case_state == 0; round++) {
        int32_t ids[N][150];
        memset(got, 0, sizeof got);
        for (int i = 0; i < N; i++) {
            tblock_generation_options o = options(round + i);
            for (int j = 0; j < 150; j++)
                ids[i][j] = (j < 100 + 20 * i ? j * j : j + round) % 40;
            o.ids = ids[i], o.n_ids = round % 3 ? 150 : o.n_ids, o.max_tokens = 60;
            o.draft    = 7;
            want[i]    = tell(alone, o, 0);
            o.on_token = note, o.user = &got[i];
            g[i]       = tblock_generation_open(c, &o, &err);
            CHECK(g[i], "%s", err.msg);
        }
        for (int step = 0; step < 300 && test_case_state == 0; step++)
            CHECK(tblock_advance(c, g, (size_t)(step % N) + 1, 40, &err), "%s", err.msg);
        for (int i = 0; i < N; i++) {
            tblock_generation_info x = info_of(g[i]);
            CHECK(x.n_ids == want[i].n && memcmp(x.ids, want[i].id, x.n_ids * sizeof *x.ids) == 0
                      && memcmp(got[i].hash, want[i].hash, sizeof got[i].hash) == 0,
                  "round %d: generation %d tells otherwise", round, i);
            proposed += x.n_proposed;
            tblock_generation_close(g[i]);
        }
    }
    CHECK(proposed > 100, "%zu", proposed);
    for (int s = 0; s < N; s++)
        CHECK(tblock_seq_rewind(c, s, 0, &err), "%s", err.msg);
    tblock_context_free(alone), tblock_context_free(c);
}

static void refused(tblock_context *c, tblock_context *draft, int status, const char *words_of_it)
{
    bool done = tblock_draft_by(c, draft, &err);
    CHECK(!done && err.status == status && strstr(err.msg, words_of_it), "%s",
          done ? "done" : err.msg);
}

/* A state cannot forget a wrong guess, of neither of the two. */
static void models_with_states_are_refused(void)
{
    tblock_synth_options o = { .type = "f32", .seed = 1 };
    bool                 made = write_config("{\"d_model\": 24, \"n_layers\": 2, \"heads\": 2, "
                                             "\"d_ff\": 24, \"vocab_size\": 40, \"n_ctx\": 64, "
                                             "\"state_layers\": [0], \"conv_taps\": 3}")
        && tblock_synth(in_folder("config.json"), in_folder("state.bin"), &o, &err);
    tblock_model *m = made ? tblock_open(in_folder("state.bin"), NULL, &err) : NULL;
    CHECK(m, "%s", err.msg);
    tblock_context *c = context_of(model, 1, 0, 0), *state = context_of(m, 1, 0, 0);
    refused(c, state, INPUT, "(state_layers)");
    refused(state, c, INPUT, "(state_layers)");
    refused(state, NULL, INPUT, "(state_layers)"); /* nor by what stands in the text again */
    tblock_context_free(c), tblock_context_free(state);
    tblock_close(m);
    unlink(in_folder("state.bin"));
}

static void wrong_drafters_are_refused(void)
{
    tblock_model   *small = synth("small.bin", 1, 0, 39);
    tblock_context *c = context_of(model, 2, 0, 0), *draft = context_of(other, 2, 0, 0),
                   *few = context_of(other, 1, 0, 0), *text = context_of(words, 2, 0, 0),
                   *fewer_tokens = context_of(small, 2, 0, 0);
    refused(c, c, INPUT, "(mtp_layers), found none");
    refused(c, few, USAGE, "expected at least 2 sequences, found 1");
    refused(c, text, INPUT, "found one where that has none");
    refused(text, c, INPUT, "found none");
    refused(c, fewer_tokens, INPUT, "expected the 40 tokens of");
    CHECK(tblock_draft_by(c, draft, &err), "%s", err.msg);
    refused(few, c, USAGE, "one that has one");
    CHECK(tblock_draft_by(c, NULL, &err) && !c->drafter, "%s", err.msg);
    tblock_context_free(c), tblock_context_free(draft), tblock_context_free(few);
    tblock_context_free(text), tblock_context_free(fewer_tokens);
    tblock_close(small);
}

int main(int argc, char **argv)
{
    static const char *const files[] = { "config.json", "a.bin", "b.bin",     "c.bin",
                                         "small.bin",   "w.bin", "seq.state", "m.bin" };
    TEST_MAIN_ARGS(argc, argv);
    bool made = make_folder() && (model = synth("a.bin", 1, 0, 40))
        && (other = synth("b.bin", 2, 0, 40)) && (windowed = synth("c.bin", 1, 50, 40))
        && (ahead = synth_with("m.bin", 1, 50, 40, 1))
        && tblock_convert("tests/data/models/llama3-e2e", in_folder("w.bin"), NULL, NULL, &err)
        && (words = tblock_open(in_folder("w.bin"), NULL, &err))
        && (other_words =
                tblock_open(in_folder("w.bin"), &(tblock_open_options){ .type = "q4" }, &err));
    if (!made) {
        printf("FAIL prepare: %s\n", err.msg);
        return 1;
    }
    TEST(a_model_that_guesses_for_itself_is_always_right);
    TEST(another_model_changes_no_bit);
    TEST(a_model_that_is_wrong_is_asked_rarely);
    TEST(an_ngram_that_is_wrong_is_looked_up_rarely);
    TEST(a_draft_that_is_right_at_times_is_not_paused);
    TEST(behind_its_context_it_guesses_nothing);
    TEST(rows_of_no_token_are_not_guessed);
    TEST(sequences_share_their_beginning);
    TEST(a_state_is_gone_on_from);
    TEST(many_share_the_draft);
    TEST(it_guesses_what_fits);
    TEST(its_own_layer_changes_no_bit);
    TEST(wrong_drafters_are_refused);
    TEST(models_with_states_are_refused);
    tblock_close(model), tblock_close(other), tblock_close(windowed), tblock_close(words),
        tblock_close(other_words), tblock_close(ahead);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in_folder(files[i]));
    rmdir(folder);
    return TEST_END();
}
