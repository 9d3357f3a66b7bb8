/* tests/unit/test_generation.c: generations draw together what each draws alone. */
#include "test.h"

#include <math.h>
#include <unistd.h>

#include "api/generation.c" /* what is inside one */
#include "tblock_tools.h"
#include "temp_folder.h"

enum { VOCAB = 48, N_CTX = 200, MOST = 200, WIDTH = 36 };

static Error         err;
static tblock_model *plain, *windowed, *narrow, *stateful, *quantized, *text_model;

static uint32_t random_state = 1;
static int      below(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)n);
}

/* more: keys of the config. */
static tblock_model *model_with(const char *name, int window, const char *more)
{
    char json[360];
    snprintf(json, sizeof json,
             "{\"d_model\": %d, \"n_layers\": 2, \"heads\": 6, \"kv_heads\": 2, \"head_dim\": 10, "
             "\"d_ff\": 40, \"vocab_size\": %d, \"n_ctx\": %d, \"window\": %d%s}",
             WIDTH, VOCAB, N_CTX, window, more);
    tblock_synth_options o = { .type = "f32", .seed = 5 };
    bool                 made =
        write_config(json) && tblock_synth(in_folder("config.json"), in_folder(name), &o, &err);
    return made ? tblock_open(in_folder(name), NULL, &err) : NULL;
}
static tblock_model *model_of(const char *name, int window)
{
    return model_with(name, window, window ? ", \"full_layers\": [1]" : "");
}

static tblock_context *context_of(const tblock_model *m, int n_seqs, int n_batch, int threads)
{
    tblock_context *c = tblock_context_new(
        m, &(tblock_context_options){ .n_seqs = n_seqs, .n_batch = n_batch, .threads = threads },
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

static void expect(bool done, int status, const char *words)
{
    CHECK(!done && err.status == status && strstr(err.msg, words),
          "expected status %d, '%s'; found %d, '%s'", status, words, err.status,
          done ? "done" : err.msg);
}

/* ---- What it should be: token by token, alone ------------------------------------------------ */

typedef struct Story {
    int32_t  prompt[MOST], stop_id, id[MOST]; /* id: given, then drawn */
    size_t   n_id;
    uint64_t hash[MOST], told[MOST]; /* of the logits that id [i] was drawn from: expected, told */
    float    state[N_CTX][WIDTH];
    size_t   n_states;
    int      end;
    tblock_generation_options o;
    tblock_generation        *g;
} Story;

static void note_logits(void *user, size_t index, int32_t token, const float *logits)
{
    Story *s = user;
    (void)token;
    if (index < MOST)
        s->told[index] = tblock_hash_floats(logits, VOCAB);
}

static void note_state(void *user, const char *name, size_t first, int n_tok, const float *x,
                       size_t stride)
{
    Story *s = user;
    (void)first, (void)n_tok, (void)stride; /* one token at a time */
    if (strcmp(name, "final_norm") == 0 && s->n_states < N_CTX)
        memcpy(s->state[s->n_states++], x, sizeof *s->state);
}

/* Any text: of few different tokens, so that drafts are right at times. */
static void make_story(Story *s)
{
    static const float temps[] = { 0, 0.2f, 1 };
    *s                         = (Story){ .stop_id = below(4) ? -1 : below(VOCAB) };
    size_t n                   = 1 + (size_t)below(below(3) ? 20 : 150);
    int    first = below(VOCAB - 3), common = below(2) ? (int)n : below((int)n);
    for (size_t i = 0; i < n; i++)
        s->prompt[i] = (int)i < common ? (int)i % 3 : first + below(3);
    s->o          = (tblock_generation_options){ .ids         = s->prompt,
                                                 .n_ids       = n,
                                                 .max_tokens  = below(5) ? 1 + below(40) : 0,
                                                 .stop_ids    = &s->stop_id,
                                                 .n_stop_ids  = 1,
                                                 .draft       = below(3) ? below(64) : 0,
                                                 .draft_match = below(3),
                                                 .pool        = below(3),
                                                 .on_token    = note_logits,
                                                 .user        = s };
    s->o.sampling = (tblock_sampler_options){ .temp           = temps[below(3)],
                                              .top_k          = below(2) ? 5 : 0,
                                              .repeat_penalty = below(3) ? 0 : 1.3f,
                                              .min_tokens     = first % 3 ? 0 : common % 20,
                                              .end_ids        = &s->stop_id,
                                              .n_end_ids      = 1,
                                              .n_given        = n,
                                              .seed           = (uint64_t)below(1000) };
}

static void tell_alone(Story *s, const tblock_model *m)
{
    tblock_context *c       = context_of(m, 1, 0, 1);
    tblock_sampler *sampler = tblock_sampler_new(VOCAB, &s->o.sampling, &err);
    bool            good    = c && sampler;
    memcpy(s->id, s->prompt, s->o.n_ids * sizeof *s->id);
    s->n_id     = s->o.n_ids;
    s->n_states = 0;
    if (c)
        tblock_observe(c, note_state, s);
    for (size_t i = 0; good; i++) {
        good = tblock_decode(c, &(tblock_item){ 0, (int32_t)i, s->id[i], true }, 1, &err);
        if (!good || i + 1 < s->o.n_ids)
            continue;
        s->end = s->o.max_tokens && s->n_id - s->o.n_ids == (size_t)s->o.max_tokens
                     ? TBLOCK_END_LENGTH
                 : s->n_id == N_CTX ? TBLOCK_END_CONTEXT
                                    : TBLOCK_GOES_ON;
        int32_t id;
        if (s->end != TBLOCK_GOES_ON)
            break;
        good = tblock_sampler_next(sampler, tblock_logits(c, 0), s->id, s->n_id, (uint32_t)s->n_id,
                                   &id, &err);
        if (s->n_id < MOST)
            s->hash[s->n_id] = tblock_hash_floats(tblock_logits(c, 0), VOCAB);
        s->end = id == s->stop_id ? TBLOCK_END_TOKEN : TBLOCK_GOES_ON;
        if (s->end != TBLOCK_GOES_ON)
            break;
        s->id[s->n_id++] = id;
    }
    CHECK(good, "%s", err.msg);
    tblock_sampler_free(sampler);
    tblock_context_free(c);
}

/* The definition of docs/numerics.md, from the states of one token at a time. */
static void compare_embedding(const Story *s)
{
    const bool mean = s->o.pool == TBLOCK_POOL_MEAN;
    double     m[WIDTH] = { 0 }, t = 0;
    float      plain_y[WIDTH], unit_y[WIDTH], found[WIDTH];
    if (s->o.pool == TBLOCK_POOL_NONE) {
        expect(tblock_generation_embedding(s->g, true, found, &err), USAGE, "option pool");
        return;
    }
    for (size_t pos = mean ? 0 : s->o.n_ids - 1; pos < s->o.n_ids; pos++)
        for (int i = 0; i < WIDTH; i++)
            m[i] += (double)s->state[pos][i];
    for (int i = 0; i < WIDTH; i++) {
        m[i] /= mean ? (double)s->o.n_ids : 1;
        t += m[i] * m[i];
    }
    for (int i = 0; i < WIDTH; i++) {
        plain_y[i] = (float)m[i];
        unit_y[i]  = (float)(m[i] / sqrt(t));
    }
    CHECK(tblock_generation_embedding(s->g, false, found, &err)
              && memcmp(found, plain_y, sizeof found) == 0,
          "another embedding than alone: %s", err.msg);
    CHECK(tblock_generation_embedding(s->g, true, found, &err)
              && memcmp(found, unit_y, sizeof found) == 0,
          "another embedding of length 1 than alone: %s", err.msg);
}

static void compare(Story *s, const tblock_model *m)
{
    tblock_generation_info i = info_of(s->g);
    tell_alone(s, m);
    CHECK(i.end == s->end && i.n_ids == s->n_id, "end %d after %zu tokens (%s), alone %d after %zu",
          i.end, i.n_ids, i.error->msg, s->end, s->n_id);
    CHECK(memcmp(i.ids, s->id, i.n_ids * sizeof *i.ids) == 0, "other tokens than alone");
    CHECK(memcmp(s->told, s->hash, sizeof s->told) == 0, "other logits than alone");
    compare_embedding(s);
    CHECK(i.n_held >= i.n_given && i.n_reused < i.n_ids && i.n_accepted <= i.n_proposed,
          "%zu of %zu read, %zu reused, %zu of %zu accepted", i.n_held, i.n_given, i.n_reused,
          i.n_accepted, i.n_proposed);
}

/* ---- Company --------------------------------------------------------------------------------- */

enum { N_SEQS = 5, STORIES = 80 };

/* Cut it, and go on from its tokens in whatever sequence is free. */
static void go_on_elsewhere(tblock_context *c, Story *s)
{
    tblock_generation_info    i = info_of(s->g);
    tblock_generation_options o = s->o;
    int32_t                   ids[N_CTX];
    memcpy(ids, i.ids, i.n_ids * sizeof *ids);
    o.ids = ids, o.n_ids = i.n_ids, o.n_drawn = i.n_ids - i.n_given;
    tblock_generation_close(s->g);
    s->g = tblock_generation_open(c, &o, &err);
    CHECK(s->g, "%s", err.msg);
}

/* Stories come and go; in each step some of them take part, in any order, with any budget. */
static void tell_with(const tblock_model *m, int n_batch, int threads, const tblock_model *drafter)
{
    static Story       story[N_SEQS];
    tblock_generation *taking[N_SEQS];
    tblock_context    *c      = context_of(m, N_SEQS, n_batch, threads);
    tblock_context    *draft  = drafter ? context_of(drafter, N_SEQS, n_batch, threads) : NULL;
    size_t             reused = 0, accepted = 0, wrong = 0;
    CHECK(!draft || tblock_draft_by(c, draft, &err), "%s", err.msg);
    memset(story, 0, sizeof story);
    for (int told = 0, steps = 0; c && told < STORIES && steps < 100000 && test_case_state == 0;
         steps++) {
        size_t n = 0;
        for (int i = 0, from = below(N_SEQS); i < N_SEQS; i++) {
            Story *s = &story[(i + from) % N_SEQS];
            if (!s->g && below(3) == 0) {
                make_story(s);
                s->o.draft = m == stateful ? 0 : s->o.draft;
                s->g = tblock_generation_open(c, &s->o, &err);
                CHECK(s->g, "%s", err.msg);
            }
            if (s->g && below(4))
                taking[n++] = s->g;
        }
        CHECK(tblock_advance(c, taking, n, (size_t)below(30), &err), "%s", err.msg);
        for (int i = 0; i < N_SEQS; i++) {
            Story *s = &story[i];
            if (s->g && info_of(s->g).end == TBLOCK_GOES_ON && below(30) == 0)
                go_on_elsewhere(c, s);
            if (!s->g || (info_of(s->g).end == TBLOCK_GOES_ON && below(200)))
                continue; /* some leave early */
            tblock_generation_info info = info_of(s->g);
            if (info.end != TBLOCK_GOES_ON)
                compare(s, m);
            told += info.end != TBLOCK_GOES_ON;
            reused += info.n_reused;
            accepted += info.n_accepted;
            wrong += info.n_proposed - info.n_accepted;
            tblock_generation_close(s->g);
            s->g = NULL;
        }
    }
    for (int i = 0; i < N_SEQS; i++)
        tblock_generation_close(story[i].g);
    CHECK(reused > 100 && (m == stateful || (accepted > 50 && wrong > 50)),
          "too little to tell: %zu reused, %zu accepted, %zu wrong", reused, accepted, wrong);
    tblock_context_free(c);
    tblock_context_free(draft);
}

static void tell_together(const tblock_model *m, int n_batch, int threads)
{
    tell_with(m, n_batch, threads, NULL);
}
static void a_drafter_changes_no_bit(void)
{
    tell_with(plain, 64, 1, quantized);
    tell_with(plain, 7, 2, windowed);
    tell_with(windowed, 16, 1, narrow);
    tell_with(quantized, 0, 1, plain);
}

static void company_changes_no_bit(void)
{
    tell_together(plain, 64, 1);
}
static void threads_change_no_bit(void)
{
    tell_together(plain, 0, 2);
}
static void small_batches_change_no_bit(void)
{
    tell_together(plain, 7, 1);
}
static void quantized_weights_change_no_bit(void)
{
    tell_together(quantized, 24, 1);
}
static void a_window_changes_no_bit(void)
{
    tell_together(windowed, 16, 1);
}

static void a_state_changes_no_bit(void)
{
    tell_together(stateful, 16, 2);
}

/* Open, and go on to the end. NULL: it could not be opened. */
static tblock_generation *run_text(tblock_context *c, const tblock_generation_options *o)
{
    tblock_generation *g = tblock_generation_open(c, o, &err);
    while (g && info_of(g).end == TBLOCK_GOES_ON)
        if (!tblock_advance(c, &g, 1, 0, &err))
            break;
    CHECK(g && info_of(g).end != TBLOCK_GOES_ON, "%s", err.msg);
    return g;
}

/* Where a window gives a tile of 64 positions back, a wrong draft must not have pushed it out. */
static void a_wrong_draft_pushes_nothing_out_of_a_window(void)
{
    static Story    s;
    tblock_context *c     = context_of(narrow, 1, 2, 1);
    size_t          wrong = 0;
    for (size_t n = 50; c && n < 140 && test_case_state == 0; n++) {
        make_story(&s);
        for (size_t i = 0; i < n; i++)
            s.prompt[i] = below(VOCAB);
        s.o.n_ids = s.o.sampling.n_given = n;
        s.o.max_tokens = 4, s.o.draft = 9, s.o.draft_match = 1;
        s.o.sampling.temp = 1;
        s.g               = run_text(c, &s.o);
        compare(&s, narrow);
        wrong += info_of(s.g).n_proposed - info_of(s.g).n_accepted;
        tblock_generation_close(s.g);
        CHECK(tblock_seq_rewind(c, 0, 0, &err), "%s", err.msg);
    }
    CHECK(wrong > 50, "only %zu wrong", wrong);
    tblock_context_free(c);
}

/* Those whose drafts are always right take no step of one that does not draft, and all of them no
 * more rows than one alone may: the step of the other stays as short. */
static void who_drafts_starves_nobody(void)
{
    enum { MANY = 6, DRAFT = 7, TOKENS = 40 };
    static const int32_t ids[] = { 1, 2, 3 };
    for (size_t n = 1; n <= MANY; n++) {
        tblock_context    *c = context_of(plain, MANY, 0, 2), *d = context_of(plain, MANY, 0, 2);
        tblock_generation *g[MANY] = { NULL };
        size_t             most = 0, steps = 0;
        CHECK(c && d && tblock_draft_by(c, d, &err), "%s", err.msg);
        for (size_t i = 0; i < n; i++) /* the last one has no draft */
            g[i] = tblock_generation_open(
                c, &(tblock_generation_options){ .ids = ids, .n_ids = 3, .max_tokens = TOKENS,
                                                 .draft = i + 1 < n ? DRAFT : 0 }, &err);
        while (g[n - 1] && info_of(g[n - 1]).end == TBLOCK_GOES_ON && steps < 1000) {
            size_t before = 0, after = 0;
            for (size_t i = 0; i < n; i++)
                before += info_of(g[i]).n_proposed;
            CHECK(tblock_advance(c, g, n, 0, &err), "%s", err.msg);
            for (size_t i = 0; i < n; i++)
                after += info_of(g[i]).n_proposed;
            most = after - before > most ? after - before : most;
            steps++;
        }
        CHECK(steps == TOKENS, "%zu: %zu steps for %d tokens", n, steps, TOKENS);
        CHECK(most <= DRAFT, "%zu: %zu drafted at once", n, most);
        CHECK(n != 2 || most == DRAFT, "alone it may draft all: %zu", most);
        for (size_t i = 0; i < n; i++)
            tblock_generation_close(g[i]);
        tblock_context_free(c), tblock_context_free(d);
    }
}

static void what_a_sequence_holds_is_reused(void)
{
    static const int32_t      id[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, other[] = { 9, 9, 9 };
    tblock_context           *c = context_of(plain, 3, 0, 1);
    tblock_generation_options o = { .ids = id, .n_ids = 6, .max_tokens = -1 },
                              p = { .ids = other, .n_ids = 3, .max_tokens = -1 };
    tblock_generation *a        = run_text(c, &o), *b, *d;
    CHECK(info_of(a).n_reused == 0 && info_of(a).seq == 0, "the first");
    b = run_text(c, &p);
    CHECK(info_of(b).seq == 1, "sequence 0 is in use");
    tblock_generation_close(a);
    d = run_text(c, &p);
    CHECK(info_of(d).seq == 2 && info_of(d).n_reused == 2,
          "shared with a sequence that is in use: %zu in %d", info_of(d).n_reused, info_of(d).seq);
    tblock_generation_close(d);
    o.n_ids = 8;
    a       = run_text(c, &o);
    CHECK(info_of(a).seq == 0 && info_of(a).n_reused == 6, "%zu reused", info_of(a).n_reused);
    tblock_generation_close(a);
    a = run_text(c, &o);
    CHECK(info_of(a).seq == 0 && info_of(a).n_reused == 7,
          "the last token is computed for its logits: %zu reused", info_of(a).n_reused);
    o.n_ids = 4;
    d       = run_text(c, &o);
    CHECK(info_of(d).seq == 2 && info_of(d).n_reused == 3, "of a longer one %zu",
          info_of(d).n_reused);
    CHECK(!tblock_generation_open(c, &o, &err) && err.status == USAGE && strstr(err.msg, "all 3"),
          "%s", err.msg);
    tblock_generation_close(a), tblock_generation_close(b), tblock_generation_close(d);
    d = run_text(c, &o);
    CHECK(info_of(d).seq == 2 && info_of(d).n_reused == 3, "the one that ends here");
    tblock_generation_close(d);
    o.ids = other, o.n_ids = 1; /* of those that lose their end, the one used the longest ago */
    d = run_text(c, &o);
    CHECK(info_of(d).seq == 0 && info_of(d).n_reused == 0, "sequence %d, %zu reused",
          info_of(d).seq, info_of(d).n_reused);
    tblock_generation_close(d);
    tblock_context_free(c);
}

static void what_another_scope_holds_is_not_reused(void)
{
    static const int32_t      id[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    tblock_context           *c = context_of(plain, 4, 0, 1);
    tblock_generation_options o = { .ids = id, .n_ids = 8, .max_tokens = -1, .cache_scope = 1 };
    tblock_generation        *g[3];
    for (size_t i = 0; i < 3; i++) { /* 1, 2, 0 */
        o.cache_scope = (1 + i) % 3;
        g[i]          = run_text(c, &o);
        CHECK(info_of(g[i]).n_reused == 0, "scope %zu reused %zu", i, info_of(g[i]).n_reused);
    }
    for (size_t i = 0; i < 3; i++)
        tblock_generation_close(g[i]);
    for (size_t i = 0; i < 3; i++) {
        o.cache_scope = (1 + i) % 3;
        g[0]          = run_text(c, &o);
        CHECK(info_of(g[0]).n_reused == 7 && (size_t)info_of(g[0]).seq == i, "its own: %zu in %d",
              info_of(g[0]).n_reused, info_of(g[0]).seq);
        tblock_generation_close(g[0]);
    }
    CHECK(tblock_seq_copy(c, 0, 3, 8, &err) && tblock_seq_rewind(c, 0, 0, &err)
              && tblock_seq_rewind(c, 2, 0, &err), "%s", err.msg);
    o.cache_scope = 0; /* sequence 2 held it; what 3 holds is of scope 1 */
    g[0]          = run_text(c, &o);
    CHECK(info_of(g[0]).n_reused == 0, "of a copy: %zu", info_of(g[0]).n_reused);
    tblock_generation_close(g[0]);
    tblock_context_free(c);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void it_ends_where_it_should(void)
{
    static int32_t  id[N_CTX];
    tblock_context *c = context_of(plain, 1, 0, 1);
    static const struct {
        size_t n;
        int    max, drawn, end;
    } cases[] = {
        {5,          -1, 0,  TBLOCK_END_LENGTH },
        { 5,         1,  1,  TBLOCK_END_LENGTH },
        { 5,         30, 30, TBLOCK_END_LENGTH },
        { N_CTX,     0,  0,  TBLOCK_END_CONTEXT},
        { N_CTX,     -1, 0,  TBLOCK_END_LENGTH },
        { N_CTX - 2, 0,  2,  TBLOCK_END_CONTEXT},
        { N_CTX - 2, 2,  2,  TBLOCK_END_LENGTH },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tblock_generation *g =
            run_text(c, &(tblock_generation_options){
                        .ids = id, .n_ids = cases[i].n, .max_tokens = cases[i].max, .draft = 7 });
        tblock_generation_info f = info_of(g);
        CHECK(f.end == cases[i].end && f.n_ids - f.n_given == (size_t)cases[i].drawn && f.logits,
              "case %zu: end %d, %zu drawn", i, f.end, f.n_ids - f.n_given);
        CHECK(tblock_advance(c, &g, 1, 0, &err) && info_of(g).n_ids == f.n_ids,
              "a step after the end does nothing");
        CHECK(tblock_decode(c, NULL, 0, &err) && !info_of(g).logits,
              "logits of an earlier call are gone");
        tblock_generation_close(g);
    }
    tblock_context_free(c);
}

static tblock_generation *stopping;
static void stop_after_two(void *user, size_t index, int32_t token, const float *logits)
{
    (void)token, (void)logits;
    if (index == *(size_t *)user + 1)
        tblock_generation_stop(stopping);
}

static void it_stops_when_told(void)
{
    int32_t                   id[100] = { 1, 2, 3 };
    size_t                    n       = 3;
    tblock_context           *c       = context_of(plain, 1, 0, 1);
    tblock_generation_options o       = {
              .ids = id, .n_ids = n, .on_token = stop_after_two, .user = &n, .stop_ids = id
    };
    stopping = tblock_generation_open(c, &o, &err);
    for (int i = 0; i < 10; i++)
        CHECK(tblock_advance(c, &stopping, 1, 0, &err), "%s", err.msg);
    CHECK(info_of(stopping).end == TBLOCK_END_STOPPED && info_of(stopping).n_ids == n + 2,
          "from the callback: %zu", info_of(stopping).n_ids);
    tblock_generation_close(stopping);

    o.n_ids  = 100;
    stopping = tblock_generation_open(c, &o, &err);
    CHECK(tblock_advance(c, &stopping, 1, 10, &err) && info_of(stopping).n_held == 13,
          "%zu of the prompt read", info_of(stopping).n_held);
    tblock_generation_stop(stopping);
    CHECK(tblock_advance(c, &stopping, 1, 10, &err) && info_of(stopping).end == TBLOCK_END_STOPPED
              && tblock_seq_length(c, 0) == 13,
          "a stopped one computes nothing: %d", tblock_seq_length(c, 0));
    tblock_generation_close(stopping);
    tblock_context_free(c);
}

static void a_budget_is_dealt_out_in_order(void)
{
    static int32_t     id[100];
    tblock_context    *c = context_of(plain, 3, 0, 1);
    tblock_generation *g[3];
    for (int i = 0; i < 3; i++)
        g[i] = tblock_generation_open(
            c, &(tblock_generation_options){ .ids = id, .n_ids = 10 + (size_t)i }, &err);
    CHECK(tblock_advance(c, g, 3, 15, &err) && info_of(g[0]).n_ids == 11
              && info_of(g[1]).n_held == 5 && info_of(g[2]).n_held == 0,
          "%zu, %zu, %zu", info_of(g[0]).n_held, info_of(g[1]).n_held, info_of(g[2]).n_held);
    CHECK(tblock_advance(c, g, 3, 0, &err) && info_of(g[0]).n_ids == 12
              && info_of(g[2]).n_ids == 13,
          "the rest at once");
    for (int i = 0; i < 3; i++)
        tblock_generation_close(g[i]);
    tblock_context_free(c);
}

static void logits_of_the_prompt_are_told(void)
{
    static Story s;
    make_story(&s);
    s.o.n_ids = 40, s.o.max_tokens = 2, s.o.n_stop_ids = 0, s.stop_id = -1,
    s.o.prompt_logits = true;
    tblock_context *c = context_of(plain, 1, 16, 1);
    for (int again = 0; again < 2; again++) {
        tblock_generation *g = run_text(c, &s.o);
        CHECK(info_of(g).n_reused == 0, "what is reused has no logits");
        tblock_generation_close(g);
        for (size_t i = 1; c && i < 40; i++) {
            tblock_item item = { 0, (int32_t)i - 1, s.prompt[i - 1], true };
            CHECK(tblock_seq_rewind(c, 0, item.pos, &err) && tblock_decode(c, &item, 1, &err), "%s",
                  err.msg);
            CHECK(s.told[i] == tblock_hash_floats(tblock_logits(c, 0), VOCAB), "of token %zu", i);
        }
    }
    tblock_context_free(c);
}

static int  n_observed;
static void observe_too(void *user, const char *name, size_t first, int n_tok, const float *x,
                        size_t stride)
{
    (void)user, (void)name, (void)first, (void)n_tok, (void)x, (void)stride;
    n_observed++;
}

static void an_embedding_is_there_when_its_text_is_read(void)
{
    static int32_t     id[50];
    float              y[WIDTH];
    tblock_context    *c = context_of(plain, 1, 0, 1);
    tblock_generation *g = tblock_generation_open(
        c,
        &(tblock_generation_options){
            .ids = id, .n_ids = 50, .max_tokens = -1, .pool = TBLOCK_POOL_MEAN },
        &err);
    tblock_observe(c, observe_too, NULL);
    CHECK(tblock_advance(c, &g, 1, 49, &err), "%s", err.msg);
    expect(tblock_generation_embedding(g, true, y, &err), USAGE, "expected all 50 ids");
    CHECK(tblock_advance(c, &g, 1, 0, &err) && info_of(g).end == TBLOCK_END_LENGTH
              && tblock_generation_embedding(g, true, y, &err),
          "%s", err.msg);
    CHECK(n_observed == 2 * 6, "an observer is called as always: %d", n_observed);
    tblock_generation_close(g);
    tblock_context_free(c);
}

/* ---- Failures of one ------------------------------------------------------------------------- */

/* The embedding of token 7 becomes NaN. */
static tblock_model *poisoned_model(void)
{
    static const float nan_bits = 0.0f / 0.0f;
    TensorFile         f        = { 0 };
    FILE              *out      = NULL;
    tblock_close(model_of("poison.bin", 0));
    if (safetensors_open(&f, in_folder("poison.bin"), &err)) {
        const Tensor *t = tensor_find(&f, "embed");
        out             = t ? fopen(in_folder("poison.bin"), "r+") : NULL;
        CHECK(out && fseek(out, (long)t->offset + 7 * 36 * 4, SEEK_SET) == 0
                  && fwrite(&nan_bits, sizeof nan_bits, 1, out) == 1 && fclose(out) == 0,
              "cannot poison");
        tensor_file_close(&f);
    }
    return out ? tblock_open(in_folder("poison.bin"), NULL, &err) : NULL;
}

static void one_nan_ends_one_sequence(void)
{
    static Story       good[2];
    static int32_t     bad[90];
    tblock_model      *m = poisoned_model();
    tblock_context    *c = m ? context_of(m, 3, 0, 1) : NULL;
    tblock_generation *g[3];
    for (int i = 0; i < 90; i++)
        bad[i] = 7;
    int compared = 0;
    for (int round = 0; c && round < 4; round++) { /* later in memory that the poisoned one left */
        for (int i = 0; i < 3; i++) {
            tblock_generation_options o = { .ids = bad, .n_ids = 90, .draft = 5 };
            if (i != 1) {
                Story *s = &good[i / 2];
                make_story(s);
                s->o.n_ids = 80, s->o.max_tokens = 30, s->o.stop_ids = s->prompt,
                s->o.n_stop_ids = 0, s->stop_id = -1;
                for (int j = 0; j < 80; j++)
                    s->prompt[j] = below(7);
                o = s->o;
            }
            g[i] = tblock_generation_open(c, &o, &err);
            CHECK(g[i], "%s", err.msg);
            if (i != 1)
                good[i / 2].g = g[i];
        }
        for (int step = 0; step < 60; step++)
            CHECK(tblock_advance(c, g, 3, 50, &err), "%s", err.msg);
        tblock_generation_info f = info_of(g[1]);
        CHECK(f.end == TBLOCK_END_FAILED && f.error->status == INPUT
                  && strstr(f.error->msg, "embed") && strstr(f.error->msg, "NaN"),
              "end %d: %s", f.end, f.error->msg);
        for (int i = 0; i < 3; i += 2)
            if (info_of(g[i]).end == TBLOCK_END_LENGTH) { /* token 7 may be drawn */
                compare(&good[i / 2], m);
                compared++;
            }
        for (int i = 0; i < 3; i++)
            tblock_generation_close(g[i]);
        for (int i = 0; i < 3; i++)
            CHECK(tblock_seq_rewind(c, i, 0, &err), "%s", err.msg);
    }
    CHECK(compared > 2, "only %d neighbours to compare", compared);
    tblock_context_free(c);
    tblock_close(m);
}

static void a_state_that_is_nan_is_no_embedding(void)
{
    static const int32_t      bad[] = { 1, 7, 2 };
    tblock_model             *m     = poisoned_model();
    tblock_generation_options o     = {
            .ids = bad, .n_ids = 3, .max_tokens = -1, .pool = TBLOCK_POOL_MEAN
    };
    for (int nan = 0; m && nan < 2; nan++) {
        float           y[WIDTH];
        tblock_context *c =
            tblock_context_new(m, &(tblock_context_options){ .allow_nan = nan }, &err);
        tblock_generation     *g = c ? run_text(c, &o) : NULL;
        tblock_generation_info f = info_of(g);
        if (nan)
            CHECK(f.end == TBLOCK_END_LENGTH && tblock_generation_embedding(g, true, y, &err)
                      && y[0] != y[0],
                  "a context that allows NaN: end %d, %s", f.end, err.msg);
        else
            CHECK(f.end == TBLOCK_END_FAILED && f.error->status == INPUT
                      && strstr(f.error->msg, "the embedding became NaN"),
                  "end %d: %s", f.end, f.error->msg);
        tblock_generation_close(g);
        tblock_context_free(c);
    }
    tblock_close(m);
}

static void a_sequence_that_another_changes_fails_alone(void)
{
    static int32_t     id[10];
    tblock_context    *c = context_of(plain, 2, 0, 1);
    tblock_generation *g[2];
    for (int i = 0; i < 2; i++)
        g[i] = tblock_generation_open(
            c,
            &(tblock_generation_options){ .ids = id, .n_ids = 10, .max_tokens = 5, .stop_ids = id },
            &err);
    CHECK(tblock_advance(c, g, 2, 0, &err) && tblock_seq_rewind(c, 0, 3, &err), "%s", err.msg);
    CHECK(tblock_advance(c, g, 2, 0, &err), "%s", err.msg);
    CHECK(info_of(g[0]).end == TBLOCK_END_FAILED
              && strstr(info_of(g[0]).error->msg, "expected the 10 tokens"),
          "%s", info_of(g[0]).error->msg);
    CHECK(info_of(g[1]).n_ids == 12, "the other goes on");
    tblock_generation_close(g[0]), tblock_generation_close(g[1]);
    tblock_context_free(c);
}

/* As a batch leaves it whose second piece found no memory. */
static void what_a_failed_batch_read_of_a_prompt_is_kept(void)
{
    static Story s;
    for (int more = 0; more < 4; more++) { /* more than a tile, all of it, other tokens */
        static const int    to[] = { 90, 149, 150, 20 };
        const tblock_model *m    = more == 2 ? plain : narrow; /* where states are read again */
        tblock_context     *c    = context_of(m, 1, 4, 1);
        make_story(&s);
        s.o.pool = more == 2 ? TBLOCK_POOL_MEAN : TBLOCK_POOL_LAST;
        for (size_t i = 0; i < 150; i++)
            s.prompt[i] = below(VOCAB);
        s.o.n_ids = s.o.sampling.n_given = 150, s.o.max_tokens = 10;
        s.g = tblock_generation_open(c, &s.o, &err);
        CHECK(s.g && tblock_advance(c, &s.g, 1, 10, &err), "%s", err.msg);
        for (int pos = 10; pos < to[more]; pos++) {
            int32_t id = more == 3 && pos > 17 ? (s.prompt[pos] + 1) % VOCAB : s.prompt[pos];
            CHECK(tblock_decode(c, &(tblock_item){ 0, pos, id, false }, 1, &err), "%s", err.msg);
        }
        while (s.g && info_of(s.g).end == TBLOCK_GOES_ON)
            CHECK(tblock_advance(c, &s.g, 1, 0, &err), "%s", err.msg);
        compare(&s, m);
        tblock_generation_close(s.g);
        tblock_context_free(c);
    }
}

/* A state is what all tokens made of it: a sequence of others than the beginning is of no use. */
static void a_state_is_reused_whole_and_takes_no_draft(void)
{
    static const int32_t      id[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    tblock_context           *c = context_of(stateful, 3, 0, 1);
    tblock_generation_options o = { .ids = id, .n_ids = 5, .max_tokens = -1 };
    tblock_generation        *a = run_text(c, &o), *b;
    o.n_ids                     = 8;
    b                           = run_text(c, &o);
    CHECK(info_of(b).seq == 1 && info_of(b).n_reused == 5, "a copy of all %zu tokens in %d",
          info_of(b).n_reused, info_of(b).seq);
    o.n_ids = 3;
    tblock_generation_close(b);
    b = run_text(c, &o);
    CHECK(info_of(b).n_reused == 0, "%zu of a longer one", info_of(b).n_reused);
    tblock_generation_close(a), tblock_generation_close(b);
    o.draft = 1;
    expect(tblock_generation_open(c, &o, &err), USAGE, "draft: expected 0 with this model");
    tblock_context_free(c);
}

static void wrong_use_is_refused(void)
{
    static const int32_t      id[N_CTX + 1], high[] = { VOCAB };
    static const char *const  texts[] = { "a", "" };
    tblock_context           *c = context_of(plain, 2, 0, 1), *t = context_of(text_model, 1, 0, 1);
    tblock_generation_options good = { .ids = id, .n_ids = 2 }, o;
#define REFUSED(context, words, kind, ...)                                                         \
    (o = good, __VA_ARGS__, expect(tblock_generation_open(context, &o, &err), kind, words))
    REFUSED(c, "at least one token", USAGE, o.n_ids = 0);
    REFUSED(c, "found 201", USAGE, o.n_ids = N_CTX + 1);
    REFUSED(c, "token 0: expected 0 to 47, found 48", USAGE, (o.ids = high, o.n_ids = 1));
    REFUSED(c, "max_tokens", USAGE, o.max_tokens = -2);
    REFUSED(c, "draft: expected 0 to 63, found 64", USAGE, o.draft = 64);
    REFUSED(c, "draft: expected", USAGE, o.draft = -1);
    REFUSED(c, "draft_match", USAGE, o.draft_match = -1);
    REFUSED(c, "pool: expected 0 to 3, found 4", USAGE, o.pool = 4);
    REFUSED(c, "top-p", USAGE, o.sampling.top_p = 2);
    REFUSED(c, "no tokenizer", INPUT, (o.stop_texts = texts, o.n_stop_texts = 1));
    REFUSED(t, "stop text 1: expected a text", USAGE, (o.stop_texts = texts, o.n_stop_texts = 2));
    tblock_constraint *k = tblock_constraint_new(text_model, TBLOCK_REGEX, "a", 1, "k", &err),
                      *bytes = tblock_constraint_new(NULL, TBLOCK_REGEX, "a", 1, "k", &err);
    REFUSED(c, "one made with the model", USAGE, o.constraint = k);
    REFUSED(t, "one made with the model", USAGE, o.constraint = bytes);
    REFUSED(t, "expected none beside a constraint", USAGE,
            (o.stop_texts = texts, o.n_stop_texts = 1, o.constraint = k));
    tblock_constraint_free(k), tblock_constraint_free(bytes);
    tblock_generation *g = tblock_generation_open(c, &good, &err), *twice[] = { g, g },
                      *alien = tblock_generation_open(t, &good, &err);
    expect(tblock_advance(c, twice, 2, 0, &err), USAGE, "generation 1: expected each once");
    expect(tblock_advance(c, &alien, 1, 0, &err), USAGE, "another's");
    CHECK(info_of(g).n_held == 0 && tblock_advance(c, &g, 1, 0, &err) && info_of(g).n_ids == 3,
          "nobody moved, and it may go on: %s", err.msg);
    tblock_generation_close(g), tblock_generation_close(alien), tblock_generation_close(NULL);
    tblock_context_free(c), tblock_context_free(t);
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* A hot sampler over a vocabulary of bytes and pieces: halves of characters, in any order. */
static tblock_generation_options babble(int seed)
{
    static const int32_t bos[] = { 1, 2 };
    return (tblock_generation_options){
        .ids = bos, .n_ids = 2, .max_tokens = 25, .sampling = {.temp = 20, .seed = (uint64_t)seed}
    };
}

static size_t first_of(const char *text, size_t n, const char *what)
{
    size_t length = strlen(what);
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(text + i, what, length) == 0)
            return i;
    return n;
}

/* Every piece of a text as a stop text, beside one that never comes and one that begins like it. */
static void text_ends_before_a_stop_text(void)
{
    tblock_context *c     = context_of(text_model, 1, 0, 1);
    int             tried = 0;
    for (int seed = 0; c && seed < 12 && test_case_state == 0; seed++) {
        tblock_generation_options o = babble(seed);
        tblock_generation        *g = run_text(c, &o);
        char                      text[4000], stop[64], longer[80];
        size_t                    n = info_of(g).n_bytes;
        CHECK(n > 0 && n < sizeof text, "%zu bytes", n);
        memcpy(text, info_of(g).text, n);
        tblock_generation_close(g);
        for (size_t length = 1; length < 20; length = 2 * length + 1)
            for (size_t at = 0; at + length <= n; at += 5) {
                snprintf(stop, sizeof stop, "%.*s", (int)length, text + at);
                snprintf(longer, sizeof longer, "%s!never", stop);
                if (strlen(stop) < length)
                    continue; /* a NUL in it */
                o.stop_texts               = (const char *const[]){ "never in it", longer, stop };
                o.n_stop_texts             = 3;
                g                          = run_text(c, &o);
                tblock_generation_info i   = info_of(g);
                size_t                 end = first_of(text, n, stop);
                CHECK(i.end == TBLOCK_END_TEXT && i.n_bytes == end
                          && memcmp(i.text, text, end) == 0,
                      "seed %d, bytes %zu + %zu: end %d, %zu bytes, expected %zu", seed, at, length,
                      i.end, i.n_bytes, end);
                tblock_generation_close(g);
                tried++;
            }
    }
    CHECK(tried > 200, "only %d", tried);
    tblock_context_free(c);
}

/* From every place of a text, with or without a constraint and a stop text. */
static void a_cut_text_goes_on_as_it_would_have(void)
{
    static const char  pattern[] = "([a-z ,.]{3} ?)*";
    tblock_context    *c = context_of(text_model, 2, 0, 1);
    tblock_constraint *k =
        tblock_constraint_new(text_model, TBLOCK_REGEX, pattern, strlen(pattern), "k", &err);
    CHECK(k, "%s", err.msg);
    for (int seed = 0; seed < 6 && test_case_state == 0; seed++) {
        tblock_generation_options o = babble(seed);
        tblock_generation        *g, *cut;
        char                      stop[8] = "";
        if (seed % 3 == 0) {
            g = run_text(c, &o);
            snprintf(stop, sizeof stop, "%.5s", info_of(g).text + info_of(g).n_bytes / 2);
            tblock_generation_close(g);
        }
        o.stop_texts = (const char *const[]){ stop }, o.n_stop_texts = *stop != 0;
        o.constraint = seed % 3 == 1 ? k : NULL;
        g = run_text(c, &o);
        tblock_generation_info i = info_of(g);
        o.ids = i.ids;
        for (size_t n = i.n_given; n <= i.n_ids; n++) {
            o.n_ids = n, o.n_drawn = n - i.n_given;
            cut = run_text(c, &o);
            tblock_generation_info j = info_of(cut);
            CHECK(j.end == i.end && j.n_given == i.n_given && j.n_ids == i.n_ids
                      && memcmp(j.ids, i.ids, i.n_ids * sizeof *i.ids) == 0
                      && j.n_bytes == i.n_bytes && memcmp(j.text, i.text, i.n_bytes) == 0,
                  "seed %d, cut after %zu of %zu: end %d, not %d, %zu bytes, not %zu", seed, n,
                  i.n_ids, j.end, i.end, j.n_bytes, i.n_bytes);
            tblock_generation_close(cut);
        }
        tblock_generation_close(g);
    }
    tblock_constraint_free(k);
    tblock_context_free(c);
}

static void what_was_held_back_comes_at_the_end(void)
{
    tblock_context           *c = context_of(text_model, 1, 0, 1);
    tblock_generation_options o = babble(3);
    tblock_generation        *g = run_text(c, &o);
    char                      text[4000], stop[64];
    size_t                    n = info_of(g).n_bytes;
    memcpy(text, info_of(g).text, n);
    tblock_generation_close(g);
    snprintf(stop, sizeof stop, "%.6s!", text + n - 6);
    o.stop_texts = (const char *const[]){ stop }, o.n_stop_texts = 1;
    for (size_t i = 3; i < n; i++) { /* a third byte that does not come third, but later */
        char skip[4] = { text[0], text[1], text[i] };
        if (text[i] == text[2])
            continue;
        o.skip                   = skip;
        g                        = run_text(c, &o);
        tblock_generation_info f = info_of(g);
        CHECK(f.end == TBLOCK_END_LENGTH && f.n_bytes == n - 2
                  && memcmp(f.text, text + 2, n - 2) == 0,
              "end %d, %zu of %zu bytes", f.end, f.n_bytes, n);
        tblock_generation_close(g);
    }
    tblock_context_free(c);
}

/* ---- Texts that must fit --------------------------------------------------------------------- */

static const struct { int kind; const char *text; } all_constraints[] = {
    { TBLOCK_REGEX, "[a-z]{2,6}( [0-9]{1,3}){2}" },
    { TBLOCK_REGEX, "((yes|no), ){3}certainly" },
    { TBLOCK_REGEX, "[\\p{Greek}\\u4E00-\\u4E40]{3,9}" },
    { TBLOCK_GRAMMAR, "root ::= \"(\" root? \")\" | [a-c]{1,9}" },
    { TBLOCK_JSON_SCHEMA, "{\"type\": \"object\", \"properties\": {\"name\": {\"enum\": [\"a\", "
                          "\"bc\", null]}, \"n\": {\"type\": \"integer\", \"minimum\": 3, "
                          "\"maximum\": 12345}}, \"required\": [\"n\", \"name\"], "
                          "\"additionalProperties\": false}" },
};
enum { N_CONSTRAINTS = sizeof all_constraints / sizeof *all_constraints };

/* Every text that was not cut fits, and one that was cut at least begins so: the tokens drawn from
 * now on are within the masks. The ids are those of `alone`. */
static void check_fit(tblock_constraint *k, tblock_generation *g, tblock_generation *alone)
{
    const tblock_generation_info now = info_of(g), one = info_of(alone);
    bool                         fits = false;
    CHECK(tblock_constraint_accepts(k, now.text, now.n_bytes, &fits, &err), "%s", err.msg);
    CHECK(fits || now.end == TBLOCK_END_LENGTH, "end %d: %.*s", now.end, (int)now.n_bytes,
          now.text);
    CHECK(now.end == one.end && now.n_ids == one.n_ids
              && memcmp(now.ids, one.ids, now.n_ids * sizeof *now.ids) == 0,
          "others: %.*s and %.*s", (int)now.n_bytes, now.text, (int)one.n_bytes, one.text);
}

/* Alone on one thread without a draft; and beside another, on three, with one. Two constraints of
 * the same text have the same states, or not: no matter. */
static void constrain_text(int which, int seed)
{
    static const int32_t      bos[] = { 1, 2 };
    tblock_context           *c = context_of(text_model, 1, 0, 1),
                             *d = context_of(text_model, 2, 9, 3);
    tblock_generation_options o = {
        .ids = bos, .n_ids = 2, .max_tokens = 60,
        .sampling = { .temp = seed ? (float)seed : 0, .top_k = seed % 3 ? 0 : 5,
                      .repeat_penalty = seed % 2 ? 1.3f : 0, .seed = (uint64_t)seed }
    };
    const char *text = all_constraints[which].text;
    int         kind = all_constraints[which].kind;
    tblock_constraint *k = tblock_constraint_new(text_model, kind, text, strlen(text), "k", &err),
                      *l = tblock_constraint_new(text_model, kind, text, strlen(text), "l", &err);
    CHECK(c && d && k && l, "%s", err.msg);
    o.constraint = k;
    tblock_generation *alone = run_text(c, &o), *g[2];
    o.constraint = l, o.draft = 7, o.draft_match = 1;
    g[0] = tblock_generation_open(d, &o, &err);
    o.sampling.seed++, o.max_tokens = 9;
    g[1] = tblock_generation_open(d, &o, &err);
    CHECK(g[0] && g[1], "%s", err.msg);
    while (info_of(g[0]).end == TBLOCK_GOES_ON || info_of(g[1]).end == TBLOCK_GOES_ON)
        if (!tblock_advance(d, g, 2, 0, &err))
            break;
    check_fit(k, g[0], alone);
    CHECK(info_of(g[0]).n_steps + info_of(g[0]).n_accepted == info_of(alone).n_steps
              + info_of(alone).n_accepted, "a draft changes what is computed");
    check_fit(k, g[1], g[1]);
    tblock_generation_close(alone), tblock_generation_close(g[0]), tblock_generation_close(g[1]);
    tblock_constraint_free(k), tblock_constraint_free(l);
    tblock_context_free(c), tblock_context_free(d);
}

static void texts_fit_their_constraint(void)
{
    for (int which = 0; which < N_CONSTRAINTS; which++)
        for (int seed = 0; seed < 12; seed++)
            constrain_text(which, seed);
}

/* Bytes that are sure but may be spelled with other tokens are guessed. With one token at a time
 * there is no room for a guess: the text is the same. */
static void likely_tokens_change_no_text(void)
{
    static const char  pattern[] = "(certainly the same, ){4}or (this|that)";
    tblock_context    *c = context_of(text_model, 2, 0, 1);
    tblock_constraint *k =
        tblock_constraint_new(text_model, TBLOCK_REGEX, pattern, strlen(pattern), "k", &err);
    size_t             n_proposed = 0;
    for (int seed = 0; seed < 8 && test_case_state == 0; seed++) {
        tblock_generation_options o = babble(seed);
        o.constraint = k, o.draft = 0;
        tblock_generation           *g = run_text(c, &o);
        const tblock_generation_info whole = info_of(g);
        n_proposed += whole.n_proposed;
        check_fit(k, g, g);
        for (size_t n = whole.n_given; n < whole.n_ids; n++) {
            o.ids = whole.ids, o.n_ids = n, o.n_drawn = n - whole.n_given;
            o.max_tokens = (int32_t)o.n_drawn + 1;
            tblock_generation *one = run_text(c, &o);
            CHECK(info_of(one).n_proposed == 0 && info_of(one).n_ids == n + 1
                      && info_of(one).ids[n] == whole.ids[n],
                  "seed %d, token %zu: %d, not %d", seed, n, info_of(one).ids[n], whole.ids[n]);
            tblock_generation_close(one);
        }
        tblock_generation_close(g);
    }
    CHECK(n_proposed > 0, "none was guessed");
    tblock_constraint_free(k), tblock_context_free(c);
}

/* Where the text may end, tokens that end it may be drawn, and nowhere else. */
static void it_ends_only_where_the_text_may(void)
{
    static const char  pattern[] = "(ab)*";
    tblock_context    *c = context_of(text_model, 1, 0, 1);
    tblock_constraint *k =
        tblock_constraint_new(text_model, TBLOCK_REGEX, pattern, strlen(pattern), "k", &err);
    int32_t            ends[200];
    size_t             n_tokens = 0;
    for (int32_t i = 0; i < 200; i++)
        ends[i] = i; /* letters among them */
    for (int seed = 0; seed < 30; seed++) {
        tblock_generation_options o = babble(seed);
        o.constraint = k, o.stop_ids = ends, o.n_stop_ids = 200;
        tblock_generation *g = run_text(c, &o);
        n_tokens += info_of(g).end == TBLOCK_END_TOKEN;
        check_fit(k, g, g);
        tblock_generation_close(g);
    }
    CHECK(n_tokens > 0, "none was drawn");
    tblock_constraint_free(k), tblock_context_free(c);
}

static void a_broken_invariant_shows(void)
{
    tblock_context            *c   = context_of(plain, 2, 4, 1);
    const int32_t              ids[] = { 1, 2, 3, 4, 5, 6 };
    tblock_generation_options  o   = { .ids = ids, .n_ids = 6, .n_drawn = 2, .max_tokens = 20,
                                       .pool = TBLOCK_POOL_MEAN };
    tblock_generation         *g   = tblock_generation_open(c, &o, &err);
    CHECK(g && tblock_advance(c, &g, 1, 0, &err) && g->n_held == 4, "%s", err.msg);
    BREAKS(generation_is_sound(g), g->n_given, 0);
    BREAKS(generation_is_sound(g), g->n_given, 7);
    BREAKS(generation_is_sound(g), g->n_known, 7);
    BREAKS(generation_is_sound(g), g->cap_ids, 5);
    BREAKS(generation_is_sound(g), g->n_ids, N_CTX + 1);
    BREAKS(generation_is_sound(g), g->n_reused, 5);
    BREAKS(generation_is_sound(g), g->pool.n, 5);
    CHECK(tblock_advance(c, &g, 1, 0, &err) && g->n_ids == 7, "%s", err.msg);
    BREAKS(generation_is_sound(g), g->n_held, 7);
    BREAKS(generation_is_sound(g), g->seq, 2);
    BREAKS(generation_is_sound(g), g->seq, -1);
    BREAKS(generation_is_sound(g), c->seq_tokens[g->seq].taken, false);
    BREAKS(generation_is_sound(g), g->n_items, 1);
    BREAKS(generation_is_sound(g), g->end, TBLOCK_END_FAILED);
    BREAKS(generation_is_sound(g), g->n_accepted, 1);
    BREAKS(generation_is_sound(g), g->n_likely_right, 1);
    BREAKS(generation_is_sound(g), g->draft_length, DRAFT_MOST + 1);
    tblock_generation_close(g);
    tblock_context_free(c);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    bool made = make_folder() && (plain = model_of("plain.bin", 0))
        && (windowed = model_of("windowed.bin", 70)) && (narrow = model_of("narrow.bin", 5))
        && (stateful = model_with("stateful.bin", 0,
                                  ", \"state_layers\": [0], \"conv_taps\": 3"))
        && (quantized =
                tblock_open(in_folder("plain.bin"), &(tblock_open_options){ .type = "q4" }, &err))
        && tblock_convert("tests/data/models/llama3-e2e", in_folder("text.bin"), NULL, NULL, &err)
        && (text_model = tblock_open(in_folder("text.bin"), NULL, &err));
    if (!made) {
        printf("FAIL prepare: %s\n", err.msg);
        return 1;
    }
    TEST(company_changes_no_bit);
    TEST(threads_change_no_bit);
    TEST(small_batches_change_no_bit);
    TEST(a_window_changes_no_bit);
    TEST(a_state_changes_no_bit);
    TEST(a_state_is_reused_whole_and_takes_no_draft);
    TEST(a_wrong_draft_pushes_nothing_out_of_a_window);
    TEST(quantized_weights_change_no_bit);
    TEST(a_drafter_changes_no_bit);
    TEST(who_drafts_starves_nobody);
    TEST(what_a_sequence_holds_is_reused);
    TEST(what_another_scope_holds_is_not_reused);
    TEST(it_ends_where_it_should);
    TEST(it_stops_when_told);
    TEST(a_budget_is_dealt_out_in_order);
    TEST(logits_of_the_prompt_are_told);
    TEST(an_embedding_is_there_when_its_text_is_read);
    TEST(one_nan_ends_one_sequence);
    TEST(a_state_that_is_nan_is_no_embedding);
    TEST(a_sequence_that_another_changes_fails_alone);
    TEST(what_a_failed_batch_read_of_a_prompt_is_kept);
    TEST(wrong_use_is_refused);
    TEST(text_ends_before_a_stop_text);
    TEST(a_cut_text_goes_on_as_it_would_have);
    TEST(what_was_held_back_comes_at_the_end);
    TEST(texts_fit_their_constraint);
    TEST(likely_tokens_change_no_text);
    TEST(it_ends_only_where_the_text_may);
    TEST(a_broken_invariant_shows);
    tblock_close(plain), tblock_close(windowed), tblock_close(narrow), tblock_close(stateful),
        tblock_close(quantized), tblock_close(text_model);
    static const char *const files[] = { "config.json", "plain.bin",  "windowed.bin",
                                         "narrow.bin",  "stateful.bin", "poison.bin", "text.bin" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in_folder(files[i]));
    rmdir(folder);
    return TEST_END();
}
