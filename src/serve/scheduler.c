/* serve/scheduler.c: continuous batching: which sequences run in a step, how many prompt tokens are
 * prefilled, which sequences wait or are preempted. No choice made here changes a bit of any
 * output: a generation computes at positions of its own sequence, and samples with its own seed. */
#include "serve/server.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/progress.h"
#include "base/sound.h"

enum {
    TILE       = 64, /* tokens of a KV tile (docs/format.md, "State") */
    MIN_CHUNK  = 16,
    MIN_SHARED = TILE,         /* tokens of a prefix that is worth waiting for */
    MAX_UNSENT = 1 << 20,      /* bytes of a stream that its client has not read */
    SLACK      = 2,            /* a prompt may be overtaken for this many times its prefill time */
    RECENT     = 3
};
/* By loads of bench/serve/compare.py, 1B q4, 2 threads of an AMD EPYC:
 * - step_seconds: "8 clients, mixed" takes 30.8 s, and 34.8 with 0.1 and prompts in order of
 *   arrival; the first token (p50) comes after 2.6 and 10.6 s. With more, streams are slower.
 * - added_seconds was not compared with another value: "8 clients, prompts of 2048 beside" has gaps
 *   of 155 ms (p50), at most 234.
 * - prefill_seconds was chosen without a bench. A new prompt may wait this long for the current
 *   step: compare first_p50 and seconds of "open, 0.5 a second" and "8 clients". */
static const double step_seconds  = 0.14; /* of a step with decode and prefill; ... */
static const double added_seconds = 0.1;  /* ... but prefill may always add this much to it */
static const double prefill_seconds = 0.4; /* of a step without decode */

/* Between steps, with the lock held (scheduler_is_sound):
 * - No job of the server's list has ended. n_open of its choices have not ended, and n_running of
 *   these have a generation; the others wait, with the ids to resume from if they were preempted. A
 *   choice that has ended has none. The server's counts are the sums.
 * - The taken sequences are those of the generations, one each: at most `parallel`.
 * - choice and batch are of the current step: after it they may point to freed memory. */
struct Scheduler {
    Server             *s;
    tblock_generation **batch; /* [parallel] */
    Choice            **choice; /* of these generations */
    size_t              n, n_prefilling;
    size_t              uncomputed; /* prompt tokens that the batch has yet to compute */
    size_t              budget;     /* prefill budget: most of them in the next step */
    double              decode_seconds; /* of the last step without prefill, ... */
    size_t              decode_n;       /* ... and how many sequences it decoded */
    double              recent[RECENT]; /* time that a prompt token added to each of the last
                                         * steps */
    double              token_seconds;  /* the median of these; 0: none was measured */
    size_t              n_measured;
    uint64_t           *used;       /* [n_seqs] when a sequence was last released */
    bool               *taken;      /* [n_seqs] */
    uint64_t            clock;
    ThreadPool         *pool;       /* for log-probabilities; NULL: this thread computes them */
    struct pollfd      *watched;    /* [cap] */
    size_t              cap;
};

/* ---- Ends ------------------------------------------------------------------------------------ */

static tblock_generation_info info_of(const Choice *c)
{
    tblock_generation_info i;
    tblock_generation_describe(c->generation, &i);
    return i;
}

static bool job_is_sound(const Scheduler *k, const Job *j)
{
    size_t n_open = 0, n_running = 0;
    bool   sound = !j->ended;
    for (size_t i = 0; sound && i < j->n_choices; i++) {
        const Choice *c = &j->choice[i];
        n_open += c->end == TBLOCK_GOES_ON;
        n_running += c->generation != NULL;
        sound = !c->generation || (c->end == TBLOCK_GOES_ON && k->taken[info_of(c).seq]);
    }
    return sound && n_open == j->n_open && n_running == j->n_running;
}

bool scheduler_is_sound(const Scheduler *k)
{
    const Server *s    = k->s;
    const Job    *last = NULL;
    size_t        n_jobs = 0, n_open = 0, n_running = 0, n_taken = 0;
    for (const Job *j = s->first; j; last = j, j = j->next) {
        if (++n_jobs > s->n_jobs || !job_is_sound(k, j))
            return false;
        n_open += j->n_open;
        n_running += j->n_running;
    }
    for (int32_t i = 0; k->taken && i < s->computing.n_seqs; i++)
        n_taken += k->taken[i];
    return n_jobs == s->n_jobs && last == s->last && n_running == s->counts.running
        && n_open - n_running == s->counts.waiting && n_taken == n_running
        && n_running <= (size_t)s->o->parallel;
}

static void release_sequence(Scheduler *k, Choice *c)
{
    const int32_t seq = info_of(c).seq;
    k->taken[seq]     = false;
    k->used[seq]      = ++k->clock;
    tblock_generation_close(c->generation);
    c->generation = NULL;
    c->job->n_running--;
    k->s->counts.running--;
}

static bool wants_deltas(const Job *j) { return j->stream || j->form->pieces; }

/* Keeps the text, without the token that ended it. */
static void end_choice(Scheduler *k, Choice *c, int end)
{
    Counts *n = &k->s->counts;
    c->end    = end;
    if (c->generation) {
        tblock_generation_info i = info_of(c);
        text_out_bytes(&c->text, i.text, i.n_bytes);
        c->stop = i.stop;
        release_sequence(k, c);
    } else {
        n->waiting--;
    }
    c->job->n_open--;
    if (wants_deltas(c->job) && end != TBLOCK_END_STOPPED && end != TBLOCK_END_FAILED) {
        pthread_mutex_unlock(&k->s->lock); /* other threads change no job, and see no `out` */
        c->job->form->ended(c);
        pthread_mutex_lock(&k->s->lock);
    }
}

static void end_job(Scheduler *k, Job *j, int status)
{
    Server *s = k->s;
    Job   **at = &s->first, *before = NULL;
    for (size_t i = 0; i < j->n_choices; i++)
        if (j->choice[i].end == TBLOCK_GOES_ON)
            end_choice(k, &j->choice[i], TBLOCK_END_STOPPED);
    j->status = status;
    if (status == MHD_HTTP_OK) {
        histogram_add(&s->counts.whole, clock_seconds() - j->arrived);
        s->counts.requests++;
    } else if (status) {
        s->counts.failed++;
        j->form->failed(j, status);
        if (j->stream)
            j->status = MHD_HTTP_OK;
    } else {
        s->counts.cancelled++;
    }
    for (; *at != j; at = &(*at)->next)
        before = *at;
    *at     = j->next;
    s->last = s->last == j ? before : s->last;
    s->n_jobs--;
    if (status == MHD_HTTP_OK) {
        job_write(j);
        return;
    }
    j->ended = true;
    job_wake(j);
    if (!j->exchange)
        job_free(j);
}

/* ---- Clients that have left ------------------------------------------------------------------ */

/* libmicrohttpd does not watch a suspended connection, so we do: a client that closed it, or its
 * writing half, cancels its request. */
static void watch(Scheduler *k)
{
    size_t n = 0;
    for (Job *j = k->s->first; j; j = j->next) {
        if (n == k->cap) {
            size_t         cap   = k->cap ? 2 * k->cap : 64;
            struct pollfd *grown = realloc(k->watched, cap * sizeof *grown);
            if (!grown)
                return;
            k->watched = grown;
            k->cap     = cap;
        }
        const union MHD_ConnectionInfo *c =
            j->exchange ? MHD_get_connection_info(j->exchange->connection,
                                                  MHD_CONNECTION_INFO_CONNECTION_FD)
                        : NULL;
        k->watched[n++] = (struct pollfd){ .fd = c ? c->connect_fd : -1, .events = POLLRDHUP };
    }
    const bool any = poll(k->watched, n, 0) > 0;
    n              = 0;
    for (Job *j = k->s->first, *next; j; j = next, n++) {
        next      = j->next;
        bool gone = !j->exchange || (any && k->watched[n].revents);
        if (gone || k->s->at_once) {
            end_job(k, j, 0);
        } else if (is_late(k->s, j->arrived)) {
            snprintf(j->why, sizeof j->why, LATE_WORDS, k->s->o->timeout_s);
            end_job(k, j, MHD_HTTP_SERVICE_UNAVAILABLE);
        }
    }
}

/* ---- Prefill budget -------------------------------------------------------------------------- */

/* One that decodes has its last token to compute; one in prefill, more. */
static size_t n_uncomputed(const tblock_generation_info *i) { return i->n_ids - i->n_held; }
static bool   is_prefilling(const tblock_generation_info *i) { return n_uncomputed(i) > 1; }

/* How many sequences decode, and the prompt tokens still to compute, also of those that wait. */
static void count_work(const Server *s, size_t *n_decoding, size_t *uncomputed)
{
    *n_decoding = *uncomputed = 0;
    for (const Job *j = s->first; j; j = j->next)
        for (size_t i = 0; i < j->n_choices; i++) {
            const Choice *c = &j->choice[i];
            if (c->generation) {
                tblock_generation_info now = info_of(c);
                *n_decoding += !is_prefilling(&now);
                *uncomputed += is_prefilling(&now) ? n_uncomputed(&now) : 0;
            } else if (c->end == TBLOCK_GOES_ON) {
                *uncomputed += c->ids ? c->n_ids : c->prompt->n;
            }
        }
}

/* What a step without prefill would take if n sequences decode. Each one more than were measured
 * costs at least as much as a prompt token. */
static double decode_seconds(const Scheduler *k, size_t n)
{
    const double more = n > k->decode_n ? (double)(n - k->decode_n) * k->token_seconds : 0;
    return n ? k->decode_seconds + more : 0;
}

/* The cost of a token is known from earlier steps, so the first chunk in a batch with decode is
 * already short enough. All of the step is one batch. */
static void plan_prefill(Scheduler *k)
{
    const size_t n_batch = (size_t)k->s->computing.n_batch;
    size_t       decoding, most;
    count_work(k->s, &decoding, &most);
    const double left  = step_seconds - decode_seconds(k, decoding);
    const double bound = !decoding ? prefill_seconds : left > added_seconds ? left : added_seconds;
    const double fits  = k->token_seconds > 0 ? bound / k->token_seconds : MIN_CHUNK;
    most = n_batch > decoding && n_batch - decoding < most ? n_batch - decoding : most;
    k->budget          = fits < (double)most ? (size_t)fits : most;
    k->budget          = k->budget < MIN_CHUNK ? MIN_CHUNK : k->budget;
}

static double middle(const double x[RECENT])
{
    const double low = fmin(x[0], x[1]), high = fmax(x[0], x[1]);
    return fmax(low, fmin(high, x[2]));
}

/* A step with few prompt tokens measures the weight reads rather than a token, and a single slow
 * step predicts nothing; hence the median. */
static void learn_from_step(Scheduler *k, double seconds)
{
    const size_t chunk    = k->uncomputed < k->budget ? k->uncomputed : k->budget;
    const size_t decoding = k->n - k->n_prefilling;
    if (!chunk) {
        k->decode_seconds = seconds;
        k->decode_n       = decoding;
    }
    if (chunk < MIN_CHUNK)
        return;
    const double found = (seconds - fmin(decode_seconds(k, decoding), seconds / 2)) / (double)chunk;
    k->recent[k->n_measured++ % RECENT] = found;
    k->token_seconds = k->n_measured < RECENT ? found : middle(k->recent);
}

/* ---- KV memory ------------------------------------------------------------------------------- */

/* Evict the least recently used idle prefix. */
static bool evict_oldest(Scheduler *k)
{
    Server *s   = k->s;
    int32_t old = -1;
    for (int32_t i = 0; i < s->computing.n_seqs; i++)
        if (!k->taken[i] && tblock_seq_length(s->o->context, i) > 0
            && (old < 0 || k->used[i] < k->used[old]))
            old = i;
    return old >= 0 && tblock_seq_rewind(s->o->context, old, 0, NULL);
}

static bool embeds(const Choice *c) { return c->job->options.pool != TBLOCK_POOL_NONE; }

/* Preempt the last in the order of form_batch, the youngest: it resumes later, from its tokens,
 * with the same bits. The first one is never preempted, so one always advances. */
static bool preempt_youngest(Scheduler *k)
{
    Server *s     = k->s;
    Choice *young = NULL;
    for (Job *j = s->first; j; j = j->next)
        for (size_t i = 0; i < j->n_choices; i++)
            if (j->choice[i].generation && (!young || embeds(&j->choice[i]) || !embeds(young)))
                young = &j->choice[i];
    if (s->counts.running < 2)
        return false;
    tblock_generation_info i   = info_of(young);
    int32_t               *ids = malloc(i.n_ids * sizeof *ids);
    if (!ids)
        return false;
    memcpy(ids, i.ids, i.n_ids * sizeof *ids);
    free(young->ids);
    young->ids   = ids;
    young->n_ids = i.n_ids;
    release_sequence(k, young);
    s->counts.waiting++;
    s->counts.preempted++;
    return true;
}

static size_t kv_bytes(const Server *s)
{
    tblock_context_info i;
    tblock_context_describe(s->o->context, &i);
    return i.kv_bytes;
}

/* Would this many more tiles fit into the memory limit of the KV cache? */
static bool tiles_fit(Scheduler *k, size_t tiles)
{
    const Server *s = k->s;
    return !s->o->kv_bytes || kv_bytes(s) + tiles * s->computing.kv_tile_bytes <= s->o->kv_bytes;
}

/* The tiles that the next step of n sequences may add: for each a new tile, and a copy of a shared
 * one that it writes to; and those of the prompt tokens. */
static size_t step_tiles(size_t n, size_t n_prefilled) { return 2 * n + n_prefilled / TILE + 2; }

static void reclaim_kv(Scheduler *k)
{
    const Counts *n = &k->s->counts;
    while (n->running && !tiles_fit(k, step_tiles(n->running, k->budget))) {
        if (evict_oldest(k) || preempt_youngest(k))
            continue;
        if (k->budget <= TILE)
            break; /* only one runs: there is room for one */
        k->budget /= 2;
    }
}

/* ---- Admission and batch --------------------------------------------------------------------- */

/* Is another sequence still prefilling a prefix that this one shares? Then wait, and share its
 * tiles when they are computed.
 *
 * This is crude: every waiting prompt is compared with every running one, up to the first
 * difference, in each step with a free slot. It stays because it is cheap beside the step: 32
 * prompts of 2,048 tokens, all alike, take 17 us on an AMD EPYC, so a full queue of 512 takes 9 ms.
 * A tree of prompts would have to be updated at each start, preemption and end. */
static bool waits_for_prefix(const Server *s, const Choice *c)
{
    const int32_t *ids = c->prompt->ids;
    if (c->job->options.prompt_logits || c->job->options.pool == TBLOCK_POOL_MEAN
        || c->job->options.pool == TBLOCK_POOL_CLS)
        return false; /* all of it is computed, whatever is cached */
    for (const Job *j = s->first; j; j = j->next)
        for (size_t i = 0; i < j->n_choices; i++) {
            const Choice *other = &j->choice[i];
            if (!other->generation || other->n_ids || j->adapter != c->job->adapter
                || j->cache_scope != c->job->cache_scope)
                continue;
            tblock_generation_info o = info_of(other);
            size_t same = 0, most = c->prompt->n < o.n_given ? c->prompt->n : o.n_given;
            while (same < most && o.ids[same] == ids[same])
                same++;
            if (same >= MIN_SHARED && o.n_held < same)
                return true;
        }
    return false;
}

static bool open_choice(Scheduler *k, Choice *c)
{
    Server                   *s   = k->s;
    const Job                *j   = c->job;
    tblock_generation_options o   = j->options;
    tblock_error              err = { 0 };
    o.ids           = c->ids ? c->ids : c->prompt->ids;
    o.n_ids         = c->ids ? c->n_ids : c->prompt->n;
    o.n_drawn       = c->ids ? c->n_ids - c->prompt->n : 0;
    o.sampling.seed = c->seed;
    o.cache_scope   = j->cache_scope;
    o.on_token      = choice_on_token;
    o.user          = c;
    o.draft         = s->o->draft;
    o.draft_match   = s->o->draft_match;
    c->n_proposed = c->n_accepted = 0;
    if (tblock_lora_choose(s->o->context, -1, adapter_use(j), j->adapter > 0, &err))
        c->generation = tblock_generation_open(s->o->context, &o, &err);
    if (!c->generation) {
        snprintf(c->job->why, sizeof c->job->why, "%s", err.msg);
        return false;
    }
    tblock_generation_info i = info_of(c);
    k->taken[i.seq]          = true;
    s->counts.waiting--;
    s->counts.running++;
    c->job->n_running++;
    if (!c->ids) {
        c->n_cached = i.n_reused;
        s->counts.prompt_tokens += i.n_given;
        s->counts.cached_tokens += i.n_reused;
    }
    return true;
}

/* The next slot goes to the request that has the fewest, so that one with a thousand choices blocks
 * no other; of equal ones to the oldest. NULL: none can start now. */
static Choice *next_waiting(const Server *s)
{
    Job *best = NULL;
    for (Job *j = s->first; j; j = j->next)
        if (j->n_open > j->n_running && !j->passed && (!best || j->n_running < best->n_running))
            best = j;
    for (size_t i = 0; best && i < best->n_choices; i++)
        if (!best->choice[i].generation && best->choice[i].end == TBLOCK_GOES_ON)
            return &best->choice[i];
    return NULL;
}

static void admit(Scheduler *k)
{
    Server *s = k->s;
    for (Job *j = s->first; j; j = j->next)
        j->passed = false;
    while (s->counts.running < (size_t)s->o->parallel) {
        Choice *c = next_waiting(s);
        if (!c)
            return;
        const size_t n_ids = c->ids ? c->n_ids : c->prompt->n;
        const size_t most  = n_ids > k->budget ? n_ids : k->budget;
        const size_t tiles = step_tiles(s->counts.running + 1, most) + 1;
        while (!tiles_fit(k, tiles) && evict_oldest(k))
            ;
        if (s->counts.running && !tiles_fit(k, tiles))
            return;
        if (waits_for_prefix(s, c))
            c->job->passed = true;
        else if (!open_choice(k, c))
            end_job(k, c->job, MHD_HTTP_INTERNAL_SERVER_ERROR);
    }
}

enum { DECODE, PREFILL, PREFILL_TO_EMBED, N_PHASES };

static int phase_of(const Choice *c, const tblock_generation_info *now)
{
    return !is_prefilling(now) ? DECODE : embeds(c) ? PREFILL_TO_EMBED : PREFILL;
}

/* Prefill order: a short prompt overtakes a long one that came a little earlier, so that it can
 * decode meanwhile; but the longer a prompt waits, the fewer overtake it. */
static double due(const Scheduler *k, const Choice *c)
{
    const tblock_generation_info now = info_of(c);
    return c->job->arrived + SLACK * k->token_seconds * (double)n_uncomputed(&now);
}

/* Add it to the batch, after those from `first` on that are due no later. */
static void put_in_order(Scheduler *k, Choice *c, size_t first)
{
    const double when = due(k, c);
    size_t       at   = k->n++;
    for (; at > first && due(k, k->choice[at - 1]) > when; at--) {
        k->choice[at] = k->choice[at - 1];
        k->batch[at] = k->batch[at - 1];
    }
    k->choice[at] = c;
    k->batch[at] = c->generation;
}

/* Form the batch: decode first; then prompts share the prefill budget in the order in which they
 * are due; then embeddings. */
static void form_batch(Scheduler *k)
{
    k->n = k->n_prefilling = k->uncomputed = 0;
    for (int phase = DECODE; phase < N_PHASES; phase++) {
        const size_t first = k->n;
        for (Job *j = k->s->first; j; j = j->next)
            for (size_t i = 0; i < j->n_choices; i++) {
                Choice *c = &j->choice[i];
                if (!c->generation || (j->stream && j->ready.n - j->n_sent > MAX_UNSENT))
                    continue;
                tblock_generation_info now = info_of(c);
                if (phase_of(c, &now) != phase)
                    continue;
                k->n_prefilling += phase != DECODE;
                k->uncomputed += phase != DECODE ? n_uncomputed(&now) : 0;
                put_in_order(k, c, phase == DECODE ? k->n : first);
            }
    }
}

/* ---- Results of a step ----------------------------------------------------------------------- */

/* Emit what is new. Without the lock: no other thread changes the job or sees its `out`. */
static bool emit_delta(Choice *c, const tblock_generation_info *i, tblock_error *err)
{
    const size_t sent = c->told_text;
    if (wants_deltas(c->job) && (i->n_bytes > sent || c->n_tokens > c->told_tokens)) {
        c->job->form->piece(c, i->text + sent, i->n_bytes - sent, c->told_tokens);
        c->told_text   = i->n_bytes;
        c->told_tokens = c->n_tokens;
    }
    return i->end == TBLOCK_GOES_ON || !c->job->computed || c->job->computed(c, err);
}

static void take_results(Scheduler *k, Choice *c, double now)
{
    Job                   *j = c->job;
    Counts                *n = &k->s->counts;
    tblock_generation_info i = info_of(c);
    tblock_error           err;
    const size_t           sampled = i.n_ids - i.n_given + (i.end == TBLOCK_END_TOKEN);
    if (sampled > c->n_sampled) {
        if (!c->n_sampled)
            histogram_add(&n->first_token, now - j->arrived);
        else
            histogram_add(&n->next_token, now - c->last_token);
        c->last_token  = now;
        n->sampled_tokens += sampled - c->n_sampled;
        c->n_sampled = sampled;
    }
    n->draft_tokens += i.n_proposed - c->n_proposed;
    n->accepted_tokens += i.n_accepted - c->n_accepted;
    c->n_proposed = i.n_proposed;
    c->n_accepted = i.n_accepted;
    if (i.end == TBLOCK_END_TOKEN && c->n_tokens)
        c->token[c->n_tokens - 1].ends = true;
    if (i.end == TBLOCK_END_FAILED || c->failed_memory) {
        snprintf(j->why, sizeof j->why, "%s", c->failed_memory ? "out of memory" : i.error->msg);
        c->end = TBLOCK_END_FAILED;
        return;
    }
    pthread_mutex_unlock(&k->s->lock);
    const bool good = emit_delta(c, &i, &err);
    pthread_mutex_lock(&k->s->lock);
    if (!good) {
        snprintf(j->why, sizeof j->why, "%s", err.msg);
        c->end = TBLOCK_END_FAILED;
    } else if (i.end != TBLOCK_GOES_ON) {
        end_choice(k, c, i.end);
    }
}

static void after_step(Scheduler *k)
{
    const double now = clock_seconds();
    Server      *s   = k->s;
    s->counts.steps++;
    for (size_t i = 0; i < k->n; i++)
        take_results(k, k->choice[i], now);
    for (Job *j = s->first, *next; j; j = next) {
        next      = j->next;
        bool fail = false;
        for (size_t i = 0; i < j->n_choices; i++)
            fail |= j->choice[i].generation && j->choice[i].end == TBLOCK_END_FAILED;
        for (size_t i = 0; fail && i < j->n_choices; i++)
            if (j->choice[i].generation)
                end_choice(k, &j->choice[i], TBLOCK_END_FAILED);
        if (fail)
            end_job(k, j, MHD_HTTP_INTERNAL_SERVER_ERROR);
        else if (!j->n_open)
            end_job(k, j, MHD_HTTP_OK);
        else if (j->stream && j->out.n)
            job_wake(j);
    }
}

static void step(Scheduler *k)
{
    Server      *s     = k->s;
    tblock_error err   = { 0 };
    const double begun = clock_seconds();
    bool         good  = true;
    form_batch(k);
    if (!k->n)
        return;
    pthread_mutex_unlock(&s->lock);
    good = tblock_advance(s->o->context, k->batch, k->n, k->budget, &err);
    find_asked(s, k->pool);
    pthread_mutex_lock(&s->lock);
    s->counts.kv_bytes = kv_bytes(s);
    learn_from_step(k, clock_seconds() - begun);
    for (size_t i = 0; !good && i < k->n; i++) { /* no memory: none advanced */
        snprintf(k->choice[i]->job->why, sizeof err.msg, "%s", err.msg);
        k->choice[i]->end = TBLOCK_END_FAILED;
    }
    after_step(k);
}

/* ---- The loop -------------------------------------------------------------------------------- */

void scheduler_stop(Server *s, bool at_once)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    s->at_once  = s->at_once || at_once;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void wait_for_work(Server *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_cond_timedwait(&s->work, &s->lock, &until);
}

size_t serve_text_tiles(int n_ctx) { return (size_t)n_ctx / TILE + 8; }

bool scheduler_check(const Server *s, tblock_error *err)
{
    const tblock_context_info *c = &s->computing;
    const size_t tiles = serve_text_tiles(c->n_ctx);
    return !s->o->kv_bytes || tiles * c->kv_tile_bytes <= s->o->kv_bytes
        || fail(err, TBLOCK_USAGE,
                "--kv-memory: expected at least %zu MB, which one text of %d tokens takes, found "
                "%zu; a smaller --ctx takes less",
                (tiles * c->kv_tile_bytes >> 20) + 1, c->n_ctx, s->o->kv_bytes >> 20);
}

void scheduler_run(Server *s)
{
    const size_t n_seqs = (size_t)s->computing.n_seqs, parallel = (size_t)s->o->parallel;
    Scheduler    k      = { .s      = s,
                            .batch  = calloc(parallel, sizeof *k.batch),
                            .choice = calloc(parallel, sizeof *k.choice),
                            .used   = calloc(n_seqs, sizeof *k.used),
                            .taken  = calloc(n_seqs, sizeof *k.taken),
                            .pool   = threads_pool_new(s->computing.threads, false) };
    pthread_mutex_lock(&s->lock);
    if (!k.batch || !k.choice || !k.used || !k.taken)
        s->draining = s->at_once = true; /* each job ends before it starts */
    while (s->first || s->n_unread || !s->draining) {
        http_sweep(s);
        if (!s->first) {
            wait_for_work(s);
            continue;
        }
        watch(&k);
        ASSERT_SOUND(scheduler_is_sound(&k));
        plan_prefill(&k);
        reclaim_kv(&k);
        admit(&k);
        ASSERT_SOUND(scheduler_is_sound(&k));
        step(&k);
        ASSERT_SOUND(scheduler_is_sound(&k));
        if (s->first && !k.n) /* every stream waits for its client */
            wait_for_work(s);
    }
    pthread_mutex_unlock(&s->lock);
    free(k.batch);
    free(k.choice);
    free(k.used);
    free(k.taken);
    free(k.watched);
    free(s->asked);
    s->asked     = NULL;
    s->cap_asked = 0;
    threads_pool_free(k.pool);
}
