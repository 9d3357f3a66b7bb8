/* runtime/pass.c: everything around forward.c: the object that a context keeps, the thread team
 * that runs a pass, and observers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/progress.h"
#include "runtime/forward.h"
#include "runtime/ops.h"

/* ---- The object ------------------------------------------------------------------------------ */

/* What runs the tokens of a pass, or half of them. */
typedef struct Half {
    Run         run;             /* shared by all threads of its team */
    Buffers     buffers;
    Span       *span;
    LastRows    last;
    ThreadPool *pool;
} Half;

struct Forward {
    Half        half[HALVES];    /* the second one for long passes of ranks; else empty */
    ThreadPool *both;            /* one thread for each half; NULL: there is no second */
    Plan        plan;
    double     *inv_freq;
    Profile    *profile;
    int         threads;
    bool        all_threads;     /* even if the work is too small for them */
    TeamSize    team_size;
    Pages       pages;
    char       *late_memory;     /* [members, late_bytes] for weights that are packed later */
    size_t      late_bytes;
    float      *lora_memory;     /* for Run.low, then each thread's scratch; NULL: none yet */
    long        n_short, expected; /* short passes so far; expected from now on, or below 0 */
};

enum { SHORT_PASS = 16 }; /* tokens: such a pass takes as long as reading its weights */

/* The config's numbers, rounded to float once. */
static void set_numbers(Run *r, const Config *c)
{
    r->norm_eps       = (float)c->norm_eps;
    r->latent_norm_eps = c->latent_norm_eps != 0 ? (float)c->latent_norm_eps : r->norm_eps;
    r->attn_scale     = (float)config_attn_scale(c);
    r->attn_softcap   = (float)c->attn_softcap;
    r->qkv_clip       = (float)c->qkv_clip;
    r->gate_limit     = (float)c->gate_limit;
    r->gate_alpha     = (float)c->gate_alpha;
    r->embed_scale    = (float)c->embed_scale;
    r->residual_scale = (float)c->residual_scale;
    r->renormalize_min = (float)c->renormalize_min;
    r->renormalize_add = (float)c->renormalize_add;
    r->expert_scale   = (float)c->expert_scale;
    r->logit_scale    = (float)c->logit_scale;
    r->logit_softcap  = (float)c->logit_softcap;
}

static void half_free(Half *h)
{
    threads_pool_free(h->pool);
    free(h->buffers.block);
    free(h->span);
    free(h->last.token);
    free(h->last.span);
    free(h->last.row);
}

/* Buffers for max_tok tokens, to which the activations of r point. */
static bool half_new(Half *h, Run *r, unsigned ints, int max_tok, int threads)
{
    size_t n = (size_t)max_tok;
    h->span  = calloc(n, sizeof *h->span);
    h->last  = (LastRows){ .token = calloc(n, sizeof *h->last.token),
                           .span  = calloc(n, sizeof *h->last.span),
                           .row   = calloc(n, sizeof *h->last.row) };
    h->pool  = threads_pool_new(threads, false);
    return buffers_new(&h->buffers, r, ints, max_tok, threads) && h->span && h->last.token
        && h->last.span && h->last.row;
}

/* Ranks on several machines run passes of so many tokens in halves: one half computes while the
 * values of the other travel. Shorter passes would lose more by reading the weights twice
 * (docs/ranks.md). Bidirectional attention needs the whole sequence at once. */
enum { LONG_PASS = 128 };
static bool in_halves(const Model *m, int max_tok)
{
    return m->ranks && m->ranks->slow && max_tok >= LONG_PASS && !m->cfg.bidirectional;
}

static void count_members(void *n, Team team)
{
    if (team.thread == 0)
        *(int *)n = team.n_threads;
}

/* A thread for each half, created now because a pass cannot fail. */
static bool make_both(Forward *f)
{
    int n   = 0;
    f->both = threads_pool_new(HALVES, false);
    threads_pool_run(f->both, HALVES, count_members, &n);
    return n == HALVES;
}

static bool halves_new(Forward *f, int max_tok)
{
    Run *r    = &f->half[0].run;
    int  each = (max_tok + 1) / 2;
    if (!in_halves(r->model, max_tok))
        return half_new(&f->half[0], r, f->plan.ints, max_tok, f->threads);
    return make_both(f) && half_new(&f->half[1], &(Run){ .model = r->model, .ranks = r->ranks },
                               f->plan.ints, each, f->threads)
        && half_new(&f->half[0], r, f->plan.ints, each > LONG_PASS ? each : LONG_PASS, f->threads);
}

/* All threads that may run at once. */
static size_t members(const Forward *f) { return (size_t)f->threads * (f->both ? HALVES : 1); }

Forward *forward_new(const Model *model, const Kernels *kernels, Numerics numerics, int max_tok,
                     int threads, int rope_length, Error *err)
{
    const Config *c = &model->cfg;
    Forward      *f = calloc(1, sizeof *f);
    if (!f) {
        no_memory(NULL, err);
        return NULL;
    }
    Run *r      = &f->half[0].run;
    f->threads  = threads;
    f->expected = -1;
    *r = (Run){.model = model, .kernels = kernels, .met = 1, .ranks = model->ranks};
    r->heads       = (Range){ 0, c->heads };
    r->kv_heads    = (Range){ 0, c->kv_heads };
    r->delta_heads = (Range){ 0, c->delta_heads };
    if (model->ranks) {
        r->heads       = rank_heads(c, model->ranks->rank, model->ranks->size);
        r->kv_heads    = rank_kv_heads(c, model->ranks->rank, model->ranks->size);
        r->delta_heads = rank_delta_heads(c, model->ranks->rank, model->ranks->size);
    }
    f->inv_freq = calloc((size_t)c->rotary_dim + 2, sizeof *f->inv_freq);
    set_numbers(r, c);
    bool planned  = plan_make(&f->plan, model, numerics);
    bool ok       = halves_new(f, max_tok);
    f->late_bytes = late_weights_room(model->late);
    if (f->late_bytes)
        f->late_memory = aligned_alloc(64, members(f) * f->late_bytes);
    if (!planned || !ok || !f->inv_freq || (f->late_bytes && !f->late_memory)) {
        fail(err, SYSTEM, "out of memory for activations: %zu MB for %d tokens at once",
             forward_plan_bytes(c, f->plan.ints, max_tok, threads) >> 20, max_tok);
        forward_free(f);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        RopeTable *table = &r->rope[i];
        double    *freq  = f->inv_freq + i * (c->rotary_dim / 2);
        config_inv_freq(c, i == 1, model->rope_factors, rope_length, freq, &table->factor);
        table->inv_freq = freq;
    }
    r->layer   = f->plan.layer;
    r->lm_head = &f->plan.lm_head;
    return f;
}

void forward_free(Forward *f)
{
    if (!f)
        return;
    for (int i = 0; i < HALVES; i++)
        half_free(&f->half[i]);
    threads_pool_free(f->both);
    plan_free(&f->plan);
    free(f->late_memory);
    free(f->lora_memory);
    free(f->inv_freq);
    free(f);
}

void forward_all_threads(Forward *f) { f->all_threads = true; }

void forward_pin_threads(Forward *f)
{
    for (int i = 0; i < (f->both ? HALVES : 1); i++) {
        threads_pool_free(f->half[i].pool);
        f->half[i].pool = threads_pool_new(f->threads, true);
    }
}

static size_t lora_rows(const Forward *f)
{
    return (size_t)f->half[0].buffers.max_tok + (size_t)f->half[1].buffers.max_tok;
}

/* Bytes for products with adapters; 0 without columns. */
static size_t lora_bytes(const Forward *f, size_t columns)
{
    return columns ? lora_rows(f) * columns * sizeof(float) + members(f) * lora_scratch_bytes() : 0;
}

bool forward_lora(Forward *f, const LoraSet *const *of_seq, const LoraSet *widest, Error *err)
{
    Run   *r       = &f->half[0].run;
    size_t columns = r->low.stride;
    for (int i = 0; widest && i < (r->model->cfg.n_layers + 1) * INPUT_COUNT; i++) {
        size_t n = (size_t)lora_columns(widest, i);
        columns  = n > columns ? n : columns;
    }
    if (columns > r->low.stride) {
        float *memory = aligned_alloc(64, lora_bytes(f, columns));
        if (!memory)
            return fail(err, SYSTEM, "out of memory for adapters: %zu MB",
                        lora_bytes(f, columns) >> 20);
        free(f->lora_memory);
        f->lora_memory  = memory;
        r->low          = (Act){ .data = memory, .stride = columns, .width = (int)columns };
        r->lora_scratch = memory + lora_rows(f) * columns;
    }
    r->lora = of_seq;
    return true;
}

size_t forward_bytes(const Forward *f)
{
    return f->half[0].buffers.bytes + f->half[1].buffers.bytes + members(f) * f->late_bytes
        + lora_bytes(f, f->half[0].run.low.stride);
}

void forward_observe(Forward *f, ForwardObserver observer, void *user, const char *only)
{
    f->half[0].run.observed      = only;
    f->half[0].run.observer      = observer;
    f->half[0].run.observer_user = user;
}

void forward_watch_attention(Forward *f, AttentionRow row, void *user)
{
    f->half[0].run.attention_row  = row;
    f->half[0].run.attention_user = user;
}

void forward_importance(Forward *f, Importance *m) { f->half[0].run.importance = m; }
void forward_profile(Forward *f, Profile *p) { f->profile = p; }

/* ---- The team -------------------------------------------------------------------------------- */

static void *late_scratch(const Forward *f, size_t member)
{
    return f->late_memory ? f->late_memory + member * f->late_bytes : NULL;
}

/* One thread's pass: its own copy of the Run, with its private memory. */
static void run_member(Forward *f, const Half *h, Team team)
{
    Run    r      = h->run;
    size_t member = (size_t)(r.half * f->threads + team.thread);
    r.team         = team;
    r.profile      = team.thread == 0 ? f->profile : NULL;
    r.thread_bytes = h->buffers.thread_bytes;
    r.late_scratch = late_scratch(f, member);
    r.low_input    = -1;
    if (r.lora)
        r.lora_scratch += member * lora_scratch_bytes() / sizeof(float);
    buffers_place_own(&h->buffers, &r,
                      h->buffers.thread_memory + (size_t)team.thread * r.thread_bytes);
    if (r.turn)
        run_half(&r, transformer);
    else
        transformer(&r);
}

static void run_first(void *f, Team team) { run_member(f, &((Forward *)f)->half[0], team); }
static void run_second(void *f, Team team) { run_member(f, &((Forward *)f)->half[1], team); }

/* Joins tokens that follow each other in the same sequence into spans. */
static int cut_into_spans(Span *span, const BatchToken *token, int n_tok)
{
    int n = 0;
    for (int t = 0; t < n_tok; t++) {
        const Span *s = n > 0 ? &span[n - 1] : NULL;
        if (s && token[t].seq == s->seq && token[t].pos == s->pos + s->n_tok)
            span[n - 1].n_tok++;
        else
            span[n++] = (Span){token[t].seq, token[t].pos, t, 1};
    }
    return n;
}

/* Tokens without requested logits end after the K and V of the last block, unless they are
 * observed. Rows that each member has for itself stay: they are few. */
static void choose_last_rows(Half *h, const BatchToken *token, int n_tok)
{
    LastRows *w = &h->last;
    h->run.last = NULL;
    if (h->run.observer || h->run.attention_row || h->run.importance || n_tok <= OWN_ROWS)
        return;
    w->n_tok = 0;
    for (int t = 0; t < n_tok; t++)
        if (token[t].logits || token[t].state) {
            w->token[w->n_tok] = token[t];
            w->row[w->n_tok++] = t;
        }
    w->n_spans = cut_into_spans(w->span, w->token, w->n_tok);
    h->run.last = w->n_tok < n_tok ? w : NULL;
}

/* Another thread pays only if its share of the work takes longer than the barriers that it adds:
 * about five in a block, a microsecond each on an idle machine and much more on a busy one. The
 * number of threads never changes the bits. */
static int useful_threads(const Forward *f, int n_tok)
{
    if (f->all_threads)
        return f->threads;
    enum { BYTES_PER_THREAD = 16 << 20 }; /* weights times tokens; 16 MB take about 300 us */
    const Model *m     = f->half[0].run.model;
    size_t       bytes = m->bytes_per_token / (m->ranks ? (size_t)m->ranks->size : 1),
           work        = bytes / BYTES_PER_THREAD * (size_t)n_tok
        + bytes % BYTES_PER_THREAD * (size_t)n_tok / BYTES_PER_THREAD;
    return work < 1 ? 1 : work < (size_t)f->threads ? (int)work : f->threads;
}

/* Short passes have many barriers for their length, so their team shrinks while the machine is
 * busy. Long ones have few, and their times vary too much to compare. */
static void run_team(Forward *f, int n_tok)
{
    int most = useful_threads(f, n_tok);
    if (most > 1 && n_tok <= SHORT_PASS) {
        int    n     = team_size(&f->team_size, most);
        double start = clock_seconds(), slept = threads_pool_run(f->half[0].pool, n, run_first, f);
        team_size_note(&f->team_size, most, n, clock_seconds() - start, slept);
    } else {
        threads_pool_run(f->half[0].pool, most, run_first, f);
    }
}

static void run_one(void *arg, Team team)
{
    Forward *f    = arg;
    Half    *h    = &f->half[team.thread];
    int      most = useful_threads(f, h->run.n_tok);
    threads_pool_run(h->pool, most, team.thread ? run_second : run_first, f);
}

/* ---- Weights that are packed later ----------------------------------------------------------- */

static void pack_share(void *arg, Team team)
{
    const Forward *f = arg;
    late_weights_pack(f->half[0].run.model->late, team, late_scratch(f, (size_t)team.thread));
}

static void pack_late_weights(Forward *f, bool now)
{
    LateWeights *late = f->half[0].run.model->late;
    if (late_weights_optional(late)
        && (f->pages == PAGES_FILE || (f->pages == PAGES_AUTO && !late_weights_roomy(late))))
        return;
    if (late_weights_due(late, now))
        threads_pool_run(f->half[0].pool, useful_threads(f, 1), pack_share, f);
}

/* ---- Huge pages for weights in a mapped file ------------------------------------------------- */

typedef struct MoveJob { WeightPages *pages; size_t each; } MoveJob;

static void move_share(void *arg, Team team)
{
    const MoveJob *j = arg;
    (void)team; /* members take the next windows from a shared counter */
    weight_pages_move(j->pages, j->each);
}

/* Moves about n times 2 MB, with all threads. */
static void move_weights(Forward *f, size_t n)
{
    size_t  threads = (size_t)f->threads;
    MoveJob job     = { f->half[0].run.model->pages, (n + threads - 1) / threads };
    threads_pool_run(f->half[0].pool, f->threads, move_share, &job);
}

void forward_pages(Forward *f, Pages pages)
{
    f->pages = pages;
    if (pages != PAGES_AUTO)
        pack_late_weights(f, true);
    if (pages == PAGES_HUGE && f->half[0].run.model->pages)
        move_weights(f, SIZE_MAX / 2);
}

void forward_expect(Forward *f, long n_passes) { f->expected = n_passes; }

/* A copy takes as long as some ten passes, and saves a tenth to a third of each later one. If the
 * number of later passes is unknown, as many are assumed as there were. With experts, a pass reads
 * less than a copy moves. */
static bool moving_pays(const Forward *f)
{
    enum { PASSES = 96 };
    const Model *m     = f->half[0].run.model;
    double       whole = (double)weight_pages_bytes(m->pages) / (double)m->bytes_per_token;
    long         more  = f->expected >= 0 ? f->expected : f->n_short;
    return weight_pages_roomy(m->pages) && (double)more >= PASSES * (whole > 1 ? whole : 1);
}

/* After a pass, so that the first token is not delayed; a part of the weights after each, so that
 * no token takes more than about twice its time. */
static void move_some_weights(Forward *f)
{
    enum { STEPS = 16 };
    WeightPages *p = f->half[0].run.model->pages;
    if (!p || f->pages != PAGES_AUTO || weight_pages_done(p))
        return;
    if (weight_pages_begun(p) || moving_pays(f))
        move_weights(f, weight_pages_bytes(p) / HUGE_PAGE / STEPS + 1);
}

static void set_tokens(Half *h, KvCache *kv, const BatchToken *token, int n_tok, size_t first)
{
    h->run.kv_cache = kv;
    h->run.token    = token;
    h->run.n_tok    = n_tok;
    h->run.first    = first;
    h->run.span     = h->span;
    h->run.n_spans  = cut_into_spans(h->span, token, n_tok);
    choose_last_rows(h, token, n_tok);
}

/* The second half has the settings of the first, and its own memory. */
static void run_halves(Forward *f, KvCache *kv, const BatchToken *token, int n_tok, size_t first)
{
    Half      *one = &f->half[0], *two = &f->half[1];
    int        n   = (n_tok + 1) / 2;
    HalvesTurn turn = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false };
    set_tokens(one, kv, token, n, first);
    if (one->run.observer && !one->run.observed) { /* a program's: only this thread calls it */
        run_team(f, n);
        set_tokens(one, kv, token + n, n_tok - n, first + (size_t)n);
        run_team(f, n_tok - n);
        return;
    }
    one->run.turn = &turn;
    two->run      = one->run;
    two->run.half = 1;
    if (two->run.low.data)
        two->run.low.data += (size_t)n * two->run.low.stride;
    buffers_place(&two->buffers, &two->run, two->buffers.block);
    set_tokens(two, kv, token + n, n_tok - n, first + (size_t)n);
    threads_pool_run(f->both, HALVES, run_one, f);
    one->run.turn = NULL;
}

void forward(Forward *f, KvCache *kv, const BatchToken *token, int n_tok, size_t first)
{
    pack_late_weights(f, false);
    if (f->both && n_tok >= LONG_PASS) {
        run_halves(f, kv, token, n_tok, first);
    } else {
        set_tokens(&f->half[0], kv, token, n_tok, first);
        run_team(f, n_tok);
    }
    if (f->profile)
        profile_enter(f->profile, NULL, 0, 0);
    for (int t = 0; t < n_tok; t++)
        kv->seq[token[t].seq].length++;
    if (n_tok <= SHORT_PASS) {
        f->n_short++;
        move_some_weights(f);
    }
}
