/* tests/unit/test_ranks.c: a model that several ranks share gives the bits of one process: for
 * every number of ranks, threads of each, cut of the prompt, batch and weight type. The ranks are
 * threads here, each with a model and contexts of its own. */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "api/mtp.h"
#include "base/memory.h"
#include "model/count.h"
#include "rank_group.h"
#include "tblock_tools.h"
#include "test_data.h"
#include "temp_folder.h"
#include "rank_shapes.h"

enum { N_TOK = 70, N_SEQS = 3, KEPT = 37 };

static Error err;

/* ---- What is computed ------------------------------------------------------------------------ */

typedef struct Case {
    const char *path, *type;
    int         vocab;
    float      *want, *got;   /* [2, N_TOK, vocab] */
    int         rope_length;
} Case;

static int32_t token_at(int seq, int pos, int vocab)
{
    uint32_t h = (uint32_t)(seq * 1000 + pos + 1) * 2654435761u;
    return (int32_t)((h ^ h >> 15) % (uint32_t)vocab);
}

/* Positions from .. to - 1 of sequences 0 and 1, `piece` of each at a time, in one batch: a few of
 * sequence 1, all of 0, the rest of 1. So where ranks halve a long batch, they cut a sequence. */
static bool decode(const Case *c, tblock_context *x, int from, int to, int piece, float *out)
{
    tblock_item item[2 * N_TOK];
    for (int at = from; at < to; at += piece) {
        int n = 0, end = at + piece < to ? at + piece : to, few = at + (end - at) / 7;
        struct { int seq, from, to; } part[] = { { 1, at, few }, { 0, at, end }, { 1, few, end } };
        for (int i = 0; i < 3; i++)
            for (int s = part[i].seq, pos = part[i].from; pos < part[i].to; pos++)
                item[n++] = (tblock_item){ s, pos, token_at(s, pos, c->vocab), true };
        if (!tblock_decode(x, item, (size_t)n, &err))
            return false;
        for (int i = 0; i < n; i++)
            memcpy(out + (size_t)(item[i].seq * N_TOK + item[i].pos) * (size_t)c->vocab,
                   tblock_logits(x, (size_t)i), (size_t)c->vocab * sizeof *out);
    }
    return true;
}

/* The last positions once more, in a copy of the first KEPT ones and in sequence 0 itself. */
static bool decode_again(const Case *c, tblock_context *x, float *out)
{
    tblock_item item[2 * N_TOK];
    int         n = 0;
    if (!tblock_seq_copy(x, 0, 2, KEPT, &err) || !tblock_seq_rewind(x, 0, KEPT, &err))
        return false;
    for (int pos = KEPT; pos < N_TOK; pos++) {
        item[n++] = (tblock_item){ 2, pos, token_at(0, pos, c->vocab), true };
        item[n++] = (tblock_item){ 0, pos, token_at(0, pos, c->vocab), true };
    }
    if (!tblock_decode(x, item, (size_t)n, &err))
        return false;
    for (int i = 0; i < n; i++)
        memcpy(out + (size_t)((item[i].seq ? N_TOK : 0) + item[i].pos) * (size_t)c->vocab,
               tblock_logits(x, (size_t)i), (size_t)c->vocab * sizeof *out);
    return true;
}

static void compare(const Case *c, const float *want, const char *what, int ranks, int threads)
{
    for (int i = 0; i < 2 * N_TOK; i++)
        CHECK(memcmp(c->got + (size_t)i * (size_t)c->vocab, want + (size_t)i * (size_t)c->vocab,
                     (size_t)c->vocab * sizeof *want)
                  == 0,
              "%s (%s): %s, %d ranks x %d threads: other logits at sequence %d position %d",
              c->path, c->type ? c->type : "as stored", what, ranks, threads, i / N_TOK, i % N_TOK);
}

/* From the first KEPT positions on, in two sequences: the logits of one. Where a window or states
 * forbid going back, both begin anew. */
static void check_again(const Case *c, tblock_context *x, int size, bool back)
{
    CHECK(back
              || (tblock_seq_rewind(x, 0, 0, &err) && tblock_seq_rewind(x, 1, 0, &err)
                  && decode(c, x, 0, KEPT, KEPT, c->got)),
          "%s: %s", c->path, err.msg);
    CHECK(decode_again(c, x, c->got), "%s: %s", c->path, err.msg);
    for (int pos = KEPT; pos < N_TOK; pos++)
        for (int s = 0; s < 2; s++)
            CHECK(memcmp(c->got + (size_t)(s * N_TOK + pos) * (size_t)c->vocab,
                         c->want + (size_t)pos * (size_t)c->vocab,
                         (size_t)c->vocab * sizeof *c->want)
                      == 0,
                  "%s: %d ranks: other logits in a copy, position %d", c->path, size, pos);
}

/* All variants on one group of ranks. back: sequences can forget their last tokens. */
static void check_group(const Case *c, int size, const char *kv, bool back)
{
    static const struct { int threads, piece, n_batch; } run[] = {
        { 1, N_TOK, 0 }, { 2, N_TOK, 48 }, { 1, 16, 0 }, { 2, 1, 0 }, { 2, N_TOK, 0 }
    };
    Group g = { 0 };
    if (!group_start(&g, size, &err)) {
        CHECK(false, "%s", err.msg);
        return;
    }
    tblock_model *m = ranks_open(&g.rank[0], c->path, &(tblock_open_options){ .type = c->type },
                                 &err);
    CHECK(m, "%s: %d ranks: %s", c->path, size, err.msg);
    for (size_t i = 0; m && i < sizeof run / sizeof *run; i++) {
        tblock_context *x = tblock_context_new(
            m, &(tblock_context_options){ .n_ctx = N_TOK, .n_seqs = N_SEQS,
                                          .threads = run[i].threads,
                                          .n_batch = run[i].n_batch,
                                          .rope_length = c->rope_length, .kv_type = kv }, &err);
        CHECK(x && decode(c, x, 0, N_TOK, run[i].piece, c->got), "%s: %d ranks: %s", c->path, size,
              err.msg);
        compare(c, c->want, run[i].piece == 1 ? "token by token" : "a prompt", size,
                run[i].threads);
        if (x && i == 1)
            check_again(c, x, size, back);
        tblock_context_free(x);
    }
    tblock_close(m);
    CHECK(group_end(&g), "%s: %d ranks: %s", c->path, size, g.error[size - 1].msg);
}

/* False: the model does not open, so there is nothing to compare. */
static bool check_model(const char *path, const char *type, const char *kv, int rope_length)
{
    static const int sizes[] = { 1, 2, 3, 4, 7 };
    Case          c = { .path = path, .type = type, .rope_length = rope_length };
    tblock_model *m = tblock_open(path, &(tblock_open_options){ .type = type }, &err);
    if (!m)
        return false;
    tblock_model_info info;
    tblock_model_describe(m, &info);
    c.vocab  = info.vocab_size;
    bool back = !info.window && !config_has_state(&m->weights.cfg);
    size_t n = (size_t)2 * N_TOK * (size_t)c.vocab;
    c.want   = calloc(n, sizeof *c.want);
    c.got    = calloc(n, sizeof *c.got);
    tblock_context *x = tblock_context_new(
        m, &(tblock_context_options){ .n_ctx = N_TOK, .n_seqs = N_SEQS, .threads = 1,
                                      .rope_length = rope_length, .kv_type = kv }, &err);
    CHECK(x && decode(&c, x, 0, N_TOK, N_TOK, c.want), "%s: %s", path, err.msg);
    tblock_context_free(x);
    tblock_close(m);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && test_case_state == 0; i++)
        check_group(&c, sizes[i], kv, back);
    free(c.want);
    free(c.got);
    return true;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Every published family that we have a small model of: grouped and single KV heads, biases,
 * windows, parallel blocks, norms in all places, experts, learned positions. */
static void every_family_has_the_bits_of_one_process(void)
{
    char models[512], path[1024];
    int  n = 0;
    if (!test_data(models, "fixtures/models")) {
        SKIP("no data");
        return;
    }
    DIR *d = opendir(models);
    for (struct dirent *e; d && (e = readdir(d)) && test_case_state == 0;) {
        snprintf(path, sizeof path, "%s/%s/config.json", models, e->d_name);
        if (access(path, R_OK) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", models, e->d_name);
        n += check_model(path, NULL, NULL, 0); /* data may have families that are not ours yet */
    }
    if (d)
        closedir(d);
    CHECK(n > 15, "%d models", n);
}

static void every_weight_type_has_the_bits_of_one_process(void)
{
    static const char *const type[] = { "q8", "q4", "bf16", "f16" };
    static const char *const kv[]   = { "q8", "f16", "f32", NULL };
    static const char *const name[] = { "llama-gqa", "qwen2-moe", "llama-tied" };
    char path[512], file[64];
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 4 && test_case_state == 0; t++) {
            snprintf(file, sizeof file, "fixtures/models/%s", name[i]);
            if (!test_data(path, file)) {
                SKIP("no data");
                return;
            }
            CHECK(check_model(path, type[t], kv[t], 0), "%s", err.msg);
        }
}

/* Not that of the context, which the other ranks would take by themselves. */
static void every_rank_rotates_for_the_same_length(void)
{
    static const char *const name[]   = { "phi3-longrope", "llama-dynamic-ntk" };
    static const int         length[] = { 40, 190 };
    char                     path[512], file[64];
    for (int i = 0; i < 2 && test_case_state == 0; i++) {
        snprintf(file, sizeof file, "fixtures/models/%s", name[i]);
        if (!test_data(path, file)) {
            SKIP("no data");
            return;
        }
        CHECK(check_model(path, NULL, NULL, length[i]), "%s", err.msg);
    }
}

static void gguf_weights_have_the_bits_of_one_process(void)
{
    char path[512];
    if (!test_data(path, "fixtures/gguf/llama-kquants/model.gguf")) {
        SKIP("no data");
        return;
    }
    CHECK(check_model(path, NULL, NULL, 0), "%s", err.msg);
}

static void the_shipped_model_has_the_bits_of_one_process(void)
{
    CHECK(check_model("models/shakespeare.bin", NULL, NULL, 0), "%s", err.msg);
}

/* A short convolution, of widths that are no multiple of 16 too; experts; the gated delta rule. */
static void models_with_states_have_the_bits_of_one_process(void)
{
    static const char *const name[] = { "lfm2", "lfm2-odd", "lfm2-moe", "qwen3-next", "qwen3-5" };
    char path[128];
    for (size_t i = 0; i < sizeof name / sizeof *name && test_case_state == 0; i++) {
        snprintf(path, sizeof path, "tests/data/models/%s", name[i]);
        CHECK(check_model(path, NULL, NULL, 0), "%s", err.msg);
        CHECK(check_model(path, "q8", "q8", 0), "%s", err.msg);
    }
}

/* ---- Halves ---------------------------------------------------------------------------------- */

enum { LONG = 512 };

/* The last logits [SHAPE_VOCAB] of a long prompt, of which these halves have one token again and
 * again. Returns how often rank 0 gathered. */
static int long_prompt(tblock_model *m, bool first, bool second, float *logits)
{
    tblock_item     item[LONG];
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    for (int i = 0; i < LONG; i++)
        item[i] = (tblock_item){ 0, i,
                                 (i < LONG / 2 ? first : second) ? 7 : token_at(0, i, SHAPE_VOCAB),
                                 i == LONG - 1 };
    uint64_t before = m && m->ranks ? m->ranks->count.gathers : 0;
    bool     ok     = c && tblock_decode(c, item, LONG, &err);
    CHECK(ok, "%s", err.msg);
    if (ok)
        memcpy(logits, tblock_logits(c, LONG - 1), SHAPE_VOCAB * sizeof *logits);
    tblock_context_free(c);
    return m && m->ranks ? (int)(m->ranks->count.gathers - before) : 0;
}

/* Experts come in waves, as many as the tokens of a half need: here three, or four. */
static void halves_of_other_waves_have_the_bits_of_one_process(void)
{
    static const char shape[] =
        "{\"vocab_size\": 50, \"n_ctx\": 512, \"d_model\": 48, \"n_layers\": 4, \"heads\": 4, "
        "\"kv_heads\": 2, \"d_ff\": 48, \"n_experts\": 4, \"experts_used\": 3, "
        "\"expert_d_ff\": 32, \"state_layers\": [2], \"conv_taps\": 4}";
    float want[3][SHAPE_VOCAB], got[SHAPE_VOCAB];
    int   gathers[3];
    Group g = { 0 };
    CHECK(write_config(shape)
              && tblock_synth(in_folder("config.json"), in_folder("m.bin"),
                              &(tblock_synth_options){ .type = "f32", .seed = 3 }, &err),
          "%s", err.msg);
    tblock_model *m = tblock_open(in_folder("m.bin"), NULL, &err);
    for (int i = 0; i < 3; i++)
        long_prompt(m, i == 1, i == 2, want[i]);
    tblock_close(m);
    CHECK(group_start(&g, 3, &err), "%s", err.msg);
    m = ranks_open(&g.rank[0], in_folder("m.bin"), NULL, &err);
    for (int i = 0; i < 3; i++) {
        gathers[i] = long_prompt(m, i == 1, i == 2, got);
        CHECK(memcmp(got, want[i], sizeof got) == 0, "prompt %d: other logits", i);
        CHECK(i == 0 || gathers[i] < gathers[0], "prompt %d: %d exchanges as of others", i,
              gathers[i]);
    }
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
    remove(in_folder("m.bin"));
}

/* ---- Adapters -------------------------------------------------------------------------------- */

static const char adapted[] = "tests/data/models/llama3-e2e",
                  adapter[] = "tests/data/adapters/trained";

/* Two sequences in one batch, of which the other has an adapter, once or twice; then both change.
 * out [2, 2, N_TOK, vocab]. */
static bool decode_adapted(Case *c, tblock_model *m, int threads, float *out)
{
    static const tblock_lora twice[] = { { 0, 0.5 }, { 0, -1.25 } };
    const size_t    half = (size_t)2 * N_TOK * (size_t)c->vocab;
    tblock_context *x    = tblock_context_new(
        m, &(tblock_context_options){ .n_ctx = N_TOK, .n_seqs = 2, .threads = threads }, &err);
    bool ok = x && tblock_lora_choose(x, 1, twice, (size_t)threads, &err)
        && decode(c, x, 0, KEPT, KEPT, out) && decode(c, x, KEPT, N_TOK, 1, out)
        && tblock_seq_rewind(x, 0, 0, &err) && tblock_seq_rewind(x, 1, 0, &err)
        && tblock_lora_choose(x, 0, twice + 1, 1, &err) && tblock_lora_choose(x, 1, NULL, 0, &err)
        && decode(c, x, 0, N_TOK, N_TOK, out + half);
    tblock_context_free(x);
    return ok;
}

/* Any number of ranks; an adapter that cannot be loaded is one that nobody has. */
static void adapters_have_the_bits_of_one_process(void)
{
    tblock_model_info info;
    tblock_model     *m = tblock_open(adapted, NULL, &err);
    int               number;
    CHECK(m && tblock_lora_load(m, adapter, &number, &err), "%s", err.msg);
    tblock_model_describe(m, &info);
    Case   c = { .path = adapted, .vocab = info.vocab_size };
    size_t n = (size_t)4 * N_TOK * (size_t)c.vocab;
    float *want = calloc(2 * n, sizeof *want), *got = calloc(n, sizeof *got);
    CHECK(decode_adapted(&c, m, 1, want) && decode_adapted(&c, m, 2, want + n), "%s", err.msg);
    tblock_close(m);
    for (int size = 2; size <= MOST && test_case_state == 0; size += size < 4 ? 1 : 3) {
        Group g = { 0 };
        CHECK(group_start(&g, size, &err), "%s", err.msg);
        m = ranks_open(&g.rank[0], adapted, NULL, &err);
        CHECK(m && !tblock_lora_load(m, "no/such", &number, &err) && number == -1
                  && tblock_lora_load(m, adapter, &number, &err) && number == 0,
              "%s", err.msg);
        for (int threads = 1; m && threads <= 2; threads++)
            CHECK(decode_adapted(&c, m, threads, got)
                      && memcmp(got, want + (size_t)(threads - 1) * n, n * sizeof *got) == 0,
                  "%d ranks x %d threads: %s", size, threads, err.msg);
        tblock_close(m);
        CHECK(group_end(&g), "%s", g.error[1].msg);
    }
    free(want);
    free(got);
}

/* ---- Exchanges ------------------------------------------------------------------------------- */

/* A prompt takes as many exchanges as a token, or each half of a long one. Of its last block only
 * the rows go on whose logits are wanted; nothing is gathered that a token alone would not. */
static void check_prompt(tblock_context *c, const Ranks *r, int first, int n, int expected)
{
    tblock_item item[2 * N_TOK] = { { 0 } };
    for (int i = 0; i < n; i++)
        item[i] = (tblock_item){ 0, first + i, 1, i == n - 1 || i == 0 };
    RanksCount before = r->count;
    CHECK(tblock_decode(c, item, (size_t)n, &err), "%s", err.msg);
    CHECK((int)(r->count.gathers - before.gathers) == expected,
          "%d exchanges of a prompt of %d tokens, not %d", (int)(r->count.gathers - before.gathers),
          n, expected);
}

/* A token that is decoded alone exchanges what rank_exchange says, to the byte. */
static void check_exchanges(const char *path)
{
    Group g = { 0 };
    CHECK(group_start(&g, 3, &err), "%s", err.msg);
    tblock_model   *m = ranks_open(&g.rank[0], path, NULL, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    CHECK(c, "%s", err.msg);
    RanksCount before = g.rank[0].count;
    CHECK(c && tblock_decode(c, &(tblock_item){ 0, 0, 1, true }, 1, &err), "%s", err.msg);
    if (c) {
        RanksCount   after = g.rank[0].count;
        RankExchange x     = rank_exchange(&m->weights.cfg);
        CHECK((int)(after.gathers - before.gathers) == x.gathers
                  && after.gathered_bytes - before.gathered_bytes == x.bytes
                  && after.broadcasts - before.broadcasts == 1
                  && after.broadcast_bytes - before.broadcast_bytes == 512,
              "%s: %d exchanges of %d, %d bytes of %d", path,
              (int)(after.gathers - before.gathers), x.gathers,
              (int)(after.gathered_bytes - before.gathered_bytes), (int)x.bytes);
        check_prompt(c, &g.rank[0], 1, 8, x.gathers);
        /* experts come in waves */
        if (c->n_ctx >= 1 + 8 + 2 * N_TOK && m->weights.cfg.n_experts == 0)
            check_prompt(c, &g.rank[0], 9, 2 * N_TOK, 2 * x.gathers);
    }
    tblock_context_free(c);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
}

static void a_token_exchanges_what_is_predicted(void)
{
    char models[512], path[1024];
    if (!test_data(models, "fixtures/models")) {
        SKIP("no data");
        return;
    }
    static const char *const name[] = { "llama-gqa", "cohere", "gpt-neox", "gemma2", "gemma3",
                                        "qwen2-moe", "qwen3-moe", "olmo2", "stablelm", "gpt2",
                                        "deepseek-v3" };
    for (size_t i = 0; i < sizeof name / sizeof *name && test_case_state == 0; i++) {
        snprintf(path, sizeof path, "%s/%s/config.json", models, name[i]);
        if (access(path, R_OK) == 0) {
            snprintf(path, sizeof path, "%s/%s", models, name[i]);
            check_exchanges(path);
        }
    }
    RankExchange shipped = { 0 };
    tblock_model *m = tblock_open("models/shakespeare.bin", NULL, &err);
    CHECK(m, "%s", err.msg);
    if (m)
        shipped = rank_exchange(&m->weights.cfg);
    CHECK(m && shipped.gathers == 4 * m->weights.cfg.n_layers + 1, "%d exchanges", shipped.gathers);
    tblock_close(m);
    check_exchanges("models/shakespeare.bin");
    char *report, line[64];
    CHECK(tblock_report("models/shakespeare.bin",
                        &(tblock_report_options){ .json = true, .ranks = 3, .memory = 10 }, &report,
                        &err),
          "%s", err.msg);
    snprintf(line, sizeof line, "\"exchanges_per_token\": %d", shipped.gathers);
    CHECK(report && strstr(report, line), "no %s", line);
    snprintf(line, sizeof line, "\"bytes_per_token\": %d", (int)shipped.bytes);
    CHECK(report && strstr(report, line) && strstr(report, "\"tokens_per_s\": "), "no %s", line);
    tblock_free(report);
}

/* ---- Observers ------------------------------------------------------------------------------- */

/* What an observer sees of POOLED_STATE, row by row. */
typedef struct Seen {
    pthread_t thread;
    bool      any_thread, good;
    int       width;
    float    *row;
    size_t    n, cap;
} Seen;

static void see(void *user, const char *name, size_t first, int n_tok, const float *x,
                size_t stride)
{
    Seen  *s = user;
    size_t d = (size_t)s->width, at = s->n;
    if (strcmp(name, POOLED_STATE) != 0)
        return;
    s->n    += (size_t)n_tok * d;
    s->good &= (s->any_thread || pthread_equal(s->thread, pthread_self())) && at == first * d
        && ARRAY_ROOM(s->row, s->cap, s->n);
    for (size_t t = 0; t < (size_t)n_tok && s->good; t++)
        memcpy(s->row + at + t * d, x + t * stride, d * sizeof *x);
}

/* A prompt that ranks halve. only: the context shows nothing else. */
static void watch(tblock_model *m, bool only, Seen *s)
{
    tblock_item     item[2 * N_TOK];
    tblock_context *c = m ? tblock_context_new(m, &(tblock_context_options){ .n_ctx = 2 * N_TOK },
                                               &err)
                          : NULL;
    *s = (Seen){ .thread = pthread_self(), .any_thread = only, .good = true };
    for (int i = 0; i < 2 * N_TOK; i++)
        item[i] = (tblock_item){ 0, i, token_at(0, i, 60), false };
    if (c) {
        s->width = m->weights.cfg.d_model;
        tblock_observe(c, see, s);
        c->only_last = only;
    }
    CHECK(c && tblock_decode(c, item, 2 * N_TOK, &err) && s->good, "%s", err.msg);
    tblock_context_free(c);
}

/* In the order of the tokens, and a user's by the caller's thread, as in one process: also where a
 * block has its halves side by side, and where all the rest is not shown. */
static void an_observer_sees_what_it_sees_of_one_process(void)
{
    static const char *const path[] = { "models/shakespeare.bin", "tests/data/models/gpt-neox" };
    for (int i = 0; i < 4 && test_case_state == 0; i++) {
        Seen          alone, shared;
        Group         g = { 0 };
        tblock_model *m = tblock_open(path[i / 2], NULL, &err);
        watch(m, i % 2, &alone);
        tblock_close(m);
        CHECK(group_start(&g, 3, &err), "%s", err.msg);
        watch(m = ranks_open(&g.rank[0], path[i / 2], NULL, &err), i % 2, &shared);
        tblock_close(m);
        CHECK(group_end(&g), "%s", g.error[1].msg);
        CHECK(shared.n == alone.n && shared.n > 0
                  && memcmp(shared.row, alone.row, alone.n * sizeof *alone.row) == 0,
              "%s, %s: other values of %zu, expected %zu", path[i / 2], i % 2 ? "one name" : "all",
              shared.n, alone.n);
        free(alone.row);
        free(shared.row);
    }
}

/* As stored, and made of another type by each rank for itself. */
static void uneven_shapes_have_the_bits_of_one_process(void)
{
    static const char *const type[] = { "f32", "q8", "bf16" }, *const made[] = { "q4", NULL, "q8" };
    for (int i = 0; i < N_SHAPES && test_case_state == 0; i++) {
        CHECK(make_shape(i, type[i % 3], &err) && check_model(in_folder("m.bin"), NULL, NULL, 0)
                  && check_model(in_folder("m.bin"), made[i % 3], "q8", 0),
              "shape %d: %s", i, err.msg);
        check_exchanges(in_folder("m.bin"));
    }
    remove(in_folder("m.bin"));
}

/* ---- The layer that predicts the token after the next ---- */

/* Tokens with any states before them, or with that of the last item of the last batch: the states
 * of every third are wanted. logits [N_TOK, vocab], states [N_TOK, d_model]. */
static bool decode_ahead(tblock_context *c, int piece, float *logits, float *states)
{
    const Config *cfg = &c->model->weights.cfg;
    const size_t  d = (size_t)cfg->d_model, vocab = (size_t)cfg->vocab_size;
    float         any[N_TOK * 64];
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        any[i] = (float)token_at(1, (int)i, 2001) / 1000 - 1;
    for (int at = 0; at < N_TOK; at += piece) {
        tblock_item  item[N_TOK];
        const float *before[N_TOK];
        float       *after[N_TOK];
        int          n = 0;
        for (int pos = at; pos < N_TOK && pos < at + piece; pos++, n++) {
            before[n] = n == 0 && pos % 3 == 1 ? states + (size_t)(pos - 1) * d
                                               : any + (size_t)pos * d;
            after[n]  = pos % 3 == 0 ? states + (size_t)pos * d : NULL;
            item[n]   = (tblock_item){ 0, pos, token_at(0, pos, cfg->vocab_size), true };
        }
        c->before = before;
        c->after  = after;
        if (!tblock_decode(c, item, (size_t)n, &err))
            return false;
        for (int i = 0; i < n; i++)
            memcpy(logits + (size_t)(at + i) * vocab, tblock_logits(c, (size_t)i),
                   vocab * sizeof *logits);
    }
    return true;
}

/* A guess alone exchanges what is predicted, and its state is part of the order. */
static void check_ahead(tblock_context *c, const Ranks *r, int piece, float *logits, float *states)
{
    RanksCount before = r->count;
    CHECK(decode_ahead(c, piece, logits, states), "%s", err.msg);
    RanksCount   after = r->count;
    RankExchange x     = rank_exchange_ahead(&c->model->weights.cfg);
    if (piece == 1)
        CHECK(after.gathers - before.gathers == N_TOK * (uint64_t)x.gathers
                  && after.gathered_bytes - before.gathered_bytes == N_TOK * x.bytes
                  && after.broadcasts - before.broadcasts == N_TOK
                  && after.broadcast_bytes - before.broadcast_bytes == N_TOK * 512,
              "%d exchanges of %d, %d bytes of %d, %d broadcasts of %d bytes",
              (int)(after.gathers - before.gathers), N_TOK * x.gathers,
              (int)(after.gathered_bytes - before.gathered_bytes), N_TOK * (int)x.bytes,
              (int)(after.broadcasts - before.broadcasts),
              (int)(after.broadcast_bytes - before.broadcast_bytes));
}

static void check_layer_ahead(const char *path, const char *type)
{
    static const int sizes[] = { 1, 2, 3, 4, 7 }, pieces[] = { N_TOK, 1, 16 };
    const size_t     n       = N_TOK * (SHAPE_VOCAB + 64);
    float           *want    = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
    tblock_model    *m       = tblock_open(path, &(tblock_open_options){ .type = type }, &err);
    tblock_context  *whole   = m ? tblock_context_new(m, NULL, &err) : NULL;
    for (int p = 0; p < 3 && test_case_state == 0; p++) {
        tblock_context *c = whole ? mtp_context_new(whole, &err) : NULL;
        CHECK(c && decode_ahead(c, pieces[p], want, want + N_TOK * SHAPE_VOCAB), "%s", err.msg);
        tblock_context_free(c);
        for (int i = 0; i < 5 && test_case_state == 0; i++) {
            Group g = { 0 };
            CHECK(group_start(&g, sizes[i], &err), "%s", err.msg);
            tblock_model   *shared = ranks_open(&g.rank[0], path,
                                                &(tblock_open_options){ .type = type }, &err);
            tblock_context *of = shared ? tblock_context_new(shared, NULL, &err) : NULL;
            c = of ? mtp_context_new(of, &err) : NULL;
            CHECK(c, "%d ranks: %s", sizes[i], err.msg);
            memset(got, 0, n * sizeof *got);
            if (c)
                check_ahead(c, &g.rank[0], pieces[p], got, got + N_TOK * SHAPE_VOCAB);
            CHECK(memcmp(got, want, n * sizeof *got) == 0, "%s as %s: %d ranks, pieces of %d: "
                                                           "other logits or states",
                  path, type, sizes[i], pieces[p]);
            tblock_context_free(c);
            tblock_context_free(of);
            tblock_close(shared);
            CHECK(group_end(&g), "%s", g.error[sizes[i] - 1].msg);
        }
    }
    tblock_context_free(whole);
    tblock_close(m);
    free(want);
    free(got);
}

static void the_layer_ahead_has_the_bits_of_one_process(void)
{
    int n = 0;
    for (int i = 0; i < N_SHAPES && test_case_state == 0; i++)
        if (strstr(rank_shape[i], "mtp_layers")) {
            CHECK(make_shape(i, "f32", &err), "%s", err.msg);
            check_layer_ahead(in_folder("m.bin"), NULL);
            check_layer_ahead(in_folder("m.bin"), "q8");
            n++;
        }
    CHECK(n == 2, "%d shapes", n);
    remove(in_folder("m.bin"));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A model of 60 MB in bf16, and a table of 32 MB, in a file of ours. */
static bool make_large(const char *name, int seed, bool tied)
{
    char config[256];
    snprintf(config, sizeof config,
             "{\"d_model\": 1024, \"n_layers\": 2, \"heads\": 16, \"kv_heads\": 4, \"d_ff\": 4096, "
             "\"vocab_size\": 16000, \"n_ctx\": 128, \"tied_embeddings\": %s}",
             tied ? "true" : "false");
    return write_config(config)
        && tblock_synth(in_folder("config.json"), in_folder(name),
                        &(tblock_synth_options){ .type = "bf16", .seed = (uint64_t)seed }, &err);
}

/* Bytes of this process's pages in data [n_bytes]. */
static size_t resident(const void *data, size_t n_bytes)
{
    enum { PAGE = 4096 };
    uintptr_t first = (uintptr_t)data / PAGE, end = ((uintptr_t)data + n_bytes + PAGE - 1) / PAGE;
    uint64_t  entry[512];
    size_t    n  = 0;
    int       fd = open("/proc/self/pagemap", O_RDONLY);
    for (uintptr_t at = first; fd >= 0 && at < end; at += 512) {
        size_t want = end - at < 512 ? end - at : 512;
        if (pread(fd, entry, want * sizeof *entry, (off_t)(at * sizeof *entry))
            != (ssize_t)(want * sizeof *entry))
            break;
        for (size_t i = 0; i < want; i++)
            n += entry[i] >> 63;
    }
    if (fd >= 0)
        close(fd);
    return n * PAGE;
}

/* In the file, and in memory of its own. */
static size_t resident_weights(const tblock_model *m)
{
    size_t n = resident(m->source.file.map.data, m->source.file.map.size);
    n += m->weights.region.data ? resident(m->weights.region.data, m->weights.region.n_bytes) : 0;
    for (int i = 0; i < m->weights.n_owned; i++)
        n += m->weights.owned[i].n_bytes;
    return n;
}

/* The page cache holds what was just written in pages of 2 MB, which are mapped as they are. Even
 * of what it has just read, some pages are as large, and reach into a neighbour's rows. */
enum { LARGE_PAGES = 2 * (2 << 20) };
static void forget_file(const char *path)
{
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0,
          "cannot drop %s from the page cache", path);
    if (fd >= 0)
        close(fd);
}

static void check_memory(const char *path, const char *type, const char *pages, int size)
{
    forget_file(path);
    Group g = { 0 };
    CHECK(group_start(&g, size, &err), "%s", err.msg);
    tblock_model *m = ranks_open(&g.rank[0], path, &(tblock_open_options){ .type = type }, &err);
    tblock_context *c =
        m ? tblock_context_new(m, &(tblock_context_options){ .pages = pages }, &err) : NULL;
    CHECK(c, "%s", err.msg);
    tblock_item item[4] = { { 0, 0, 1, false }, { 0, 1, 2, false }, { 0, 2, 1, false },
                            { 0, 3, 2, true } };
    CHECK(c && tblock_decode(c, item, 4, &err), "%s", err.msg);
    item[0] = (tblock_item){ 0, 4, 1, true };
    CHECK(c && tblock_decode(c, item, 1, &err), "%s", err.msg);
    if (m) {
        size_t all = 0, found = resident_weights(m);
        for (int t = 0; t < WT_COUNT; t++)
            all += m->weights.matrix_bytes[t];
        double share = (double)all / size;
        double least = m->weights.cfg.tied_embeddings ? 0.9 : 0.5; /* rows of a table are read */
        CHECK((double)found > least * share && (double)found < 1.05 * share + LARGE_PAGES,
              "%s as %s, %s: rank 0 of %d holds %zu KB, its share is %.0f KB", path,
              type ? type : "stored", pages, size, found >> 10, share / 1024);
    }
    tblock_context_free(c);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
}

static void a_rank_holds_its_share_of_the_weights(void)
{
    for (int tied = 0; tied < 2; tied++) {
        CHECK(make_large("large.bin", 1, tied), "%s", err.msg);
        check_memory(in_folder("large.bin"), NULL, "file", 2);
        check_memory(in_folder("large.bin"), NULL, "huge", 2);
        check_memory(in_folder("large.bin"), NULL, "auto", 4);
        check_memory(in_folder("large.bin"), "q4", "auto", 4);
        remove(in_folder("large.bin"));
    }
}

/* What info --ranks says of it: tiles and states to the byte, and panels that are made at load or
 * copied. type: q8, or NULL. */
static void check_predicted_memory(const char *path, const char *type, int size)
{
    Count n;
    Group g = { 0 };
    CHECK(group_start(&g, size, &err), "%s", err.msg);
    tblock_model *m = ranks_open(&g.rank[0], path, &(tblock_open_options){ .type = type }, &err);
    tblock_context *c =
        m ? tblock_context_new(m, &(tblock_context_options){ .pages = "huge" }, &err) : NULL;
    tblock_item     item[4] = { { 0, 0, 1, false }, { 0, 1, 2, false }, { 0, 2, 1, false },
                                { 0, 3, 2, true } };
    CHECK(c && tblock_decode(c, item, 4, &err), "%s", err.msg);
    if (c) {
        const Config *cfg    = &m->weights.cfg;
        KvShape       shape  = kv_shape(cfg, c->kv.shape.type);
        if (type)
            count_config(&n, cfg, WT_Q8), count_made(&n);
        else
            count_stored(&n, &m->source.stored);
        RankShare     s      = rank_share(cfg, &n, 0, size), all = rank_share(cfg, &n, 0, 1);
        double        tiles = (double)kv_cache_plan_bytes(&shape, 4, 4) - all.state,
                      made  = (double)m->weights.owned_bytes
            + (double)late_weights_packed(m->weights.late);
        double        vectors = 0; /* used where they lie, if they are aligned there */
        for (int i = 0; i < n.n_parts; i++)
            vectors += n.part[i].k == 0 ? (double)n.part[i].bytes : 0;
        for (int i = 0; i < n.n_ahead; i++)
            vectors += n.ahead[i].k == 0 ? (double)n.ahead[i].bytes : 0;
        CHECK((double)c->kv.bytes == s.kv * tiles + s.state,
              "%d ranks: a cache of %zu bytes, predicted %.0f", size, c->kv.bytes,
              s.kv * tiles + s.state);
        const double starts = 64 * MAX_PARTS; /* the parts of a matrix start on 64 bytes */
        CHECK(made > 0.999 * (s.weights - vectors) && made < 1.001 * s.weights + starts,
              "%d ranks: rank 0 made %.0f bytes, predicted %.0f", size, made, s.weights);
    }
    tblock_context_free(c);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
}

static void a_rank_holds_what_is_predicted_of_heads_and_states(void)
{
    static const char *const of[] = {
        "\"kv_heads\": 1, \"head_dim\": 144, \"rotary_dim\": 16, \"kv_lora\": 128, "
        "\"q_lora\": 128, \"nope_dim\": 32, \"v_dim\": 32",
        "\"kv_heads\": 4, \"state_layers\": [0], \"conv_taps\": 3",
        "\"kv_heads\": 4, \"state_layers\": [0], \"conv_taps\": 4, \"delta_heads\": 8, "
        "\"delta_key_heads\": 4, \"delta_key_dim\": 64, \"delta_value_dim\": 64, "
        "\"attn_gate\": true",
        "\"positions\": \"learned\"", "\"mtp_layers\": 1", "\"tied_embeddings\": true",
    };
    char json[512];
    for (size_t i = 0; i < sizeof of / sizeof *of && test_case_state == 0; i++) {
        snprintf(json, sizeof json, "{\"d_model\": 512, \"n_layers\": 2, \"heads\": 16, "
                 "\"d_ff\": 1024, \"vocab_size\": 500, \"n_ctx\": 128, %s}", of[i]);
        CHECK(write_config(json)
                  && tblock_synth(in_folder("config.json"), in_folder("m.bin"),
                                  &(tblock_synth_options){ .type = "bf16" }, &err), "%s", err.msg);
        for (int size = 2; size <= 7 && test_case_state == 0; size++) {
            check_predicted_memory(in_folder("m.bin"), "q8", size);
            check_predicted_memory(in_folder("m.bin"), NULL, size);
        }
    }
    remove(in_folder("m.bin"));
}

static void a_rank_holds_what_is_predicted_of_a_table(void)
{
    char path[512];
    if (!test_data(path, "fixtures/gguf/llama-kquants/model.gguf")) {
        SKIP("no data");
        return;
    }
    for (int size = 2; size <= 7 && test_case_state == 0; size++) /* its table is Q2_K */
        check_predicted_memory(path, NULL, size);
}

/* The shape of Llama 2 70B, 138 GB, in a file without its zeros. */
static void ranks_share_a_model_that_no_machine_holds(void)
{
    char  *report = NULL;
    double all = 0, n;
    int    found = 0;
    if (!tblock_synth("models/llama-2-70b.json", in_folder("70b.bin"),
                      &(tblock_synth_options){ .type = "bf16", .sparse = true }, &err)) {
        SKIP("%s", err.msg); /* a limit of the file system */
        return;
    }
    CHECK(tblock_report(in_folder("70b.bin"),
                        &(tblock_report_options){ .json = true, .ranks = 4, .bandwidth = 10,
                                                  .memory = 40 }, &report, &err), "%s", err.msg);
    remove(in_folder("70b.bin"));
    CHECK(report && strstr(report, "\"exchanges_per_token\": 321")
              && strstr(report, "\"bytes_per_token\": 17167360,"), "%s", report);
    for (const char *at = report ? strstr(report, "{\"rank\": 0") : NULL;
         at && (at = strstr(at, "\"weights\": ")); at++, found++) {
        CHECK(sscanf(at, "\"weights\": %lf", &n) == 1 && n > 34.3e9 && n < 34.7e9,
              "rank %d holds %.0f", found, n);
        all += n;
    }
    /* of 69 billion parameters, all but the embedding, of which rows are looked up */
    CHECK(found == 4 && all > 137.4e9 && all < 137.6e9, "%d ranks hold %.0f", found, all);
    tblock_free(report);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Opens m.bin on two ranks, of which the other works in `folder`, or leaves at once. */
static void check_refused(const char *other, bool ends, const char *expected)
{
    char  here[512];
    Group g = { .folder = other, .ends = ends };
    CHECK(getcwd(here, sizeof here) && chdir(in_folder("")) == 0, "cannot work in the folder");
    CHECK(group_start(&g, 2, &err), "%s", err.msg);
    tblock_model *m = ranks_open(&g.rank[0], "m.bin", NULL, &err);
    CHECK(!m && strstr(err.msg, expected), "found '%s'", m ? "a model" : err.msg);
    tblock_close(m);
    group_end(&g);
    CHECK(chdir(here) == 0, "cannot go back");
}

static void an_error_of_one_rank_is_rank_0s(void)
{
    CHECK(make_large("m.bin", 1, true) && mkdir(in_folder("other"), 0700) == 0
              && make_large("other/m.bin", 2, true) && mkdir(in_folder("empty"), 0700) == 0,
          "%s", err.msg);
    check_refused(in_folder("empty"), false, "m.bin: cannot open");
    check_refused(in_folder("other"), false, ": expected what rank 0 has opened (");
    check_refused(NULL, true, "rank 1 of 2 has ended");
    remove(in_folder("other/m.bin"));
    remove(in_folder("m.bin"));
    rmdir(in_folder("other"));
    rmdir(in_folder("empty"));
}

/* Opens m.bin on two ranks, of which the other has a copy with one wrong byte, and asks for a
 * receipt: is that refused? */
static void check_damaged(const char *other, bool check)
{
    static const int32_t ids[] = { 1, 2 };
    static const tblock_generation_options o = { .ids = ids, .n_ids = 2, .max_tokens = 1 };
    char            here[512];
    Group           g = { .folder = other };
    CHECK(getcwd(here, sizeof here) && chdir(in_folder("")) == 0, "cannot work in the folder");
    CHECK(group_start(&g, 2, &err), "%s", err.msg);
    tblock_model   *m = ranks_open(&g.rank[0], "m.bin", &(tblock_open_options){ .check = check },
                                   &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    CHECK(!check == !!c, "%s", err.msg);
    for (int i = 0; c && i < 2; i++) { /* what was found wrong once stays so */
        CHECK(!tblock_receipt_new(c, &o, NULL, &err) && err.status == INPUT, "a receipt");
        tblock_receipt_options trust = { .trust_hash = true };
        tblock_receipt        *r     = tblock_receipt_new(c, &o, &trust, &(Error){ 0 });
        CHECK(r, "no receipt of who trusts the hash");
        tblock_receipt_free(r);
    }
    CHECK(strncmp(err.msg, "rank 1 on ", 10) == 0
              && strstr(err.msg, ": m.bin: sha256 of the data: expected "), "found '%s'", err.msg);
    tblock_context_free(c);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
    CHECK(chdir(here) == 0, "cannot go back");
}

static void a_damaged_copy_of_one_rank_gives_no_receipt(void)
{
    CHECK(make_large("m.bin", 1, true) && mkdir(in_folder("other"), 0700) == 0
              && make_large("other/m.bin", 1, true), "%s", err.msg);
    FILE *f    = fopen(in_folder("other/m.bin"), "r+b");
    int   byte = f && fseek(f, 30000001, SEEK_SET) == 0 ? getc(f) : EOF;
    CHECK(byte != EOF && fseek(f, -1, SEEK_CUR) == 0 && putc(byte ^ 1, f) != EOF, "no byte");
    CHECK(f && fclose(f) == 0, "cannot write");
    check_damaged(in_folder("other"), false);
    check_damaged(in_folder("other"), true);
    remove(in_folder("other/m.bin"));
    remove(in_folder("m.bin"));
    rmdir(in_folder("other"));
}

/* Its path is that of rank 0; the other rank works elsewhere. */
static void an_adapter_that_one_rank_lacks_is_nobodys(void)
{
    char            path[PATH_MAX];
    int             number;
    Group           g = { .folder = in_folder("") };
    tblock_model   *m = NULL;
    tblock_context *x = NULL;
    CHECK(realpath(adapted, path) && group_start(&g, 2, &err), "%s", err.msg);
    m = ranks_open(&g.rank[0], path, NULL, &err);
    x = m ? tblock_context_new(m, NULL, &err) : NULL;
    CHECK(x && !tblock_lora_load(m, adapter, &number, &err)
              && strncmp(err.msg, "rank 1 on ", 10) == 0
              && strstr(err.msg, ": tests/data/adapters/trained"),
          "found '%s'", err.msg);
    CHECK(x && !tblock_lora_choose(x, 0, &(tblock_lora){ 0, 1 }, 1, &err), "chosen");
    CHECK(realpath(adapter, path) && x && tblock_lora_load(m, path, &number, &err) && number == 0
              && tblock_lora_choose(x, 0, &(tblock_lora){ 0, 1 }, 1, &err)
              && tblock_decode(x, &(tblock_item){ 0, 0, 1, true }, 1, &err),
          "%s", err.msg);
    tblock_context_free(x);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
}

static void what_ranks_cannot_do_is_refused_by_name(void)
{
    static const char shipped[] = "models/shakespeare.bin";
    Group g = { 0 };
    CHECK(group_start(&g, 2, &err), "%s", err.msg);
    CHECK(!ranks_open(&g.rank[0], shipped, &(tblock_open_options){ .mlock = true }, &err)
              && strcmp(err.msg, "mlock: expected one process, found 2 ranks: each reads only its "
                                 "part") == 0,
          "%s", err.msg);
    tblock_model   *m     = ranks_open(&g.rank[0], shipped, NULL, &err);
    tblock_context *c     = m ? tblock_context_new(m, NULL, &err) : NULL;
    int32_t         token = 1;
    CHECK(c && !tblock_attention_new(c, &token, 1, NULL, &err)
              && strcmp(err.msg, "attention probabilities: expected one process, found 2 ranks")
                  == 0,
          "%s", err.msg);
    tblock_context_free(c);
    tblock_close(m);
    CHECK(group_end(&g), "%s", g.error[1].msg);
}

static void catch_fire(void *rank, const char *name, size_t first, int n_tok, const float *x,
                       size_t stride)
{
    (void)name, (void)first, (void)n_tok, (void)x, (void)stride;
    ranks_stop(rank, "rank 2: its disk is on fire");
}

/* In the middle of a pass in halves: when the first has ended, and the second waits or computes. */
static void a_rank_that_stops_ends_both_halves(void)
{
    tblock_item item[2 * N_TOK];
    Group       g = { 0 };
    CHECK(group_start(&g, 3, &err), "%s", err.msg);
    tblock_model   *m = ranks_open(&g.rank[0], "models/shakespeare.bin", NULL, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    CHECK(c, "%s", err.msg);
    for (int i = 0; i < 2 * N_TOK; i++)
        item[i] = (tblock_item){ 0, i, 1, true };
    if (c) {
        tblock_observe(c, catch_fire, &g.rank[2]);
        c->only_last = true;
        CHECK(!tblock_decode(c, item, 2 * N_TOK, &err) && err.status == SYSTEM
                  && strcmp(err.msg, "rank 2: its disk is on fire") == 0,
              "found '%s'", err.msg);
    }
    tblock_context_free(c);
    tblock_close(m);
    CHECK(!group_end(&g), "all followed to the end");
}

/* A rank that fails in the middle ends the pass of all, and rank 0 gets its message. */
static void a_rank_that_stops_ends_the_pass_of_all(void)
{
    Group g = { 0 };
    CHECK(group_start(&g, 3, &err), "%s", err.msg);
    tblock_model   *m = ranks_open(&g.rank[0], "models/shakespeare.bin", NULL, &err);
    tblock_context *c = m ? tblock_context_new(m, NULL, &err) : NULL;
    CHECK(c, "%s", err.msg);
    ranks_stop(&g.rank[2], "rank 2: its disk is on fire");
    CHECK(c && !tblock_decode(c, &(tblock_item){ 0, 0, 1, true }, 1, &err) && err.status == SYSTEM
              && strcmp(err.msg, "rank 2: its disk is on fire") == 0,
          "found '%s'", err.msg);
    tblock_context_free(c);
    tblock_close(m);
    CHECK(!group_end(&g) && strcmp(g.error[1].msg, "rank 2: its disk is on fire") == 0, "%s",
          g.error[1].msg);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder()) {
        puts("FAIL test_ranks: cannot make a folder");
        return 1;
    }
    TEST(the_shipped_model_has_the_bits_of_one_process);
    TEST(models_with_states_have_the_bits_of_one_process);
    TEST(uneven_shapes_have_the_bits_of_one_process);
    TEST(the_layer_ahead_has_the_bits_of_one_process);
    TEST(halves_of_other_waves_have_the_bits_of_one_process);
    TEST(adapters_have_the_bits_of_one_process);
    TEST(every_family_has_the_bits_of_one_process);
    TEST(every_weight_type_has_the_bits_of_one_process);
    TEST(every_rank_rotates_for_the_same_length);
    TEST(gguf_weights_have_the_bits_of_one_process);
    TEST(a_token_exchanges_what_is_predicted);
    TEST(an_observer_sees_what_it_sees_of_one_process);
    TEST(a_rank_holds_its_share_of_the_weights);
    TEST(a_rank_holds_what_is_predicted_of_heads_and_states);
    TEST(a_rank_holds_what_is_predicted_of_a_table);
    TEST(ranks_share_a_model_that_no_machine_holds);
    TEST(an_error_of_one_rank_is_rank_0s);
    TEST(a_damaged_copy_of_one_rank_gives_no_receipt);
    TEST(an_adapter_that_one_rank_lacks_is_nobodys);
    TEST(a_rank_that_stops_ends_the_pass_of_all);
    TEST(a_rank_that_stops_ends_both_halves);
    TEST(what_ranks_cannot_do_is_refused_by_name);
    remove(in_folder("config.json"));
    rmdir(in_folder(""));
    return TEST_END();
}
