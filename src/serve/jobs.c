/* serve/jobs.c: requests that need computing, from their exchange to the scheduler and back. */
#include "serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/progress.h"

Job *job_new(Exchange *x, const char *prefix, const JobForm *form)
{
    Job *j = calloc(1, sizeof *j);
    if (!j) {
        refuse_memory(x);
        return NULL;
    }
    size_t n    = strlen(prefix);
    j->server   = x->server;
    j->exchange = x;
    j->form     = form;
    j->arrived  = x->arrived;
    j->created  = (long long)time(NULL);
    memcpy(j->id, prefix, n);
    random_id(j->id + n, sizeof j->id - n);
    if (job_scope(j, NULL))
        return j;
    job_free(j);
    return NULL;
}

/* A part of a SHA-256, so that nobody finds a salt with which he has the scope of another key. */
bool job_scope(Job *j, const JsonNode *salt)
{
    const Exchange *x   = j->exchange;
    const char     *key = x->key && !j->server->o->share_cache ? x->key : "";
    uint8_t         digest[SHA256_BYTES];
    Sha256         *h = *key || salt ? sha256_new() : NULL;
    if (!*key && !salt)
        return true; /* 0: all that have neither */
    if (!h)
        return refuse_memory(j->exchange);
    sha256_add(h, key, strlen(key) + 1);
    if (salt)
        sha256_add(h, salt->text, salt->n);
    sha256_take(h, digest);
    sha256_free(h);
    memcpy(&j->cache_scope, digest, sizeof j->cache_scope);
    return true;
}

bool job_choices(Job *j, size_t n_prompts, size_t per_prompt)
{
    j->prompt = calloc(n_prompts, sizeof *j->prompt);
    j->choice = calloc(n_prompts * per_prompt, sizeof *j->choice);
    if (!j->prompt || !j->choice)
        return refuse_memory(j->exchange);
    j->n_prompts = n_prompts;
    j->n_choices = j->n_open = n_prompts * per_prompt;
    for (size_t i = 0; i < j->n_choices; i++)
        j->choice[i] = (Choice){ .job    = j,
                                 .index  = (int)i,
                                 .prompt = &j->prompt[i / per_prompt] };
    return true;
}

static void choice_free(Choice *c)
{
    for (size_t i = 0; i < c->n_tokens; i++)
        free(c->token[i].top);
    free(c->token);
    free(c->ids);
    tblock_receipt_free(c->receipt);
    text_out_free(&c->text);
}

void job_free(Job *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->n_choices; i++)
        choice_free(&j->choice[i]);
    for (size_t i = 0; i < j->n_prompts; i++) {
        tblock_free(j->prompt[i].ids);
        free(j->prompt[i].text);
    }
    for (size_t i = 0; j->stop_texts && i < j->options.n_stop_texts; i++)
        free(j->stop_texts[i]);
    if (j->free_request)
        j->free_request(j->request);
    tblock_constraint_free(j->constraint);
    free(j->stop_texts);
    free(j->stop_ids);
    free(j->bias_ids);
    free(j->bias);
    free(j->choice);
    free(j->prompt);
    text_out_free(&j->out);
    text_out_free(&j->ready);
    free(j);
}

/* ---- Between the threads --------------------------------------------------------------------- */

bool refuse_full(Exchange *x)
{
    return refuse(x, MHD_HTTP_TOO_MANY_REQUESTS, NULL,
                  "the queue of %d requests is full; try again later", x->server->o->queue);
}

bool is_late(const Server *s, double arrived)
{
    return s->o->timeout_s > 0 && clock_seconds() - arrived > s->o->timeout_s;
}

/* Would too many sequences wait with these? The request with the most counts as one, so that a huge
 * one is accepted, and blocks no other. */
static bool is_full(const Server *s, const Job *j)
{
    size_t all = j->n_choices, most = j->n_choices;
    for (const Job *other = s->first; other; other = other->next) {
        size_t n = other->n_open - other->n_running;
        all += n;
        most = n > most ? n : most;
    }
    return all - most + 1 > (size_t)s->o->queue + (size_t)s->o->parallel;
}

bool job_submit(Exchange *x, Job *j)
{
    Server *s = x->server;
    pthread_mutex_lock(&s->lock);
    const bool full = is_full(s, j);
    s->counts.refused += full;
    if (!full) {
        *(s->last ? &s->last->next : &s->first) = j;
        s->last = j;
        s->n_jobs++;
        s->counts.waiting += j->n_choices;
        x->job = j;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return !full || refuse_full(x);
}

void job_leave(Job *j)
{
    Server *s = j->server;
    pthread_mutex_lock(&s->lock);
    const bool ended = j->ended;
    j->exchange      = NULL;
    if (!ended)
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (ended)
        job_free(j); /* the scheduler has released it */
}

void job_wake(Job *j)
{
    if (j->ready.n) {
        text_out_bytes(&j->ready, j->out.text, j->out.n);
        j->out.n = 0;
    } else {
        const TextOut read = j->ready;
        j->ready           = j->out;
        j->out             = read;
    }
    j->ready.failed |= j->out.failed;
    if (!j->asleep || !j->exchange || !(j->ended || (j->stream && j->ready.n)))
        return;
    j->asleep = false;
    MHD_resume_connection(j->exchange->connection);
}

const char *finish_reason(const Choice *c)
{
    switch (c->end) {
    case TBLOCK_GOES_ON: return NULL;
    case TBLOCK_END_LENGTH:
    case TBLOCK_END_CONTEXT: return "length";
    case TBLOCK_END_FAILED: return "error";
    case TBLOCK_END_STOPPED: return "abort";
    default: return "stop";
    }
}

void event_begin(Job *j, const char *name)
{
    if (name)
        text_out(&j->out, "event: %s\n", name);
    text_out(&j->out, "data: ");
}

void event_end(Job *j) { text_out(&j->out, "\n\n"); }

void job_failed(Job *j, int status)
{
    if (j->stream)
        event_begin(j, NULL);
    error_json(&j->out, j->id, status, NULL, j->why);
    if (j->stream)
        event_end(j);
}

/* ---- Log-probabilities of tokens ------------------------------------------------------------- */

/* A token whose log-probabilities are requested. */
typedef struct Asked {
    Choice      *c;
    size_t       token;  /* of c->token */
    const float *logits; /* valid until the context computes again */
    bool         failed;
} Asked;

/* Runs in the thread that computes, within tblock_advance. */
void choice_on_token(void *user, size_t index, int32_t token, const float *logits)
{
    Choice    *c     = user;
    const Job *j     = c->job;
    Server    *s     = j->server;
    bool       given = index < c->prompt->n;
    if (c->receipt)
        tblock_receipt_token(c->receipt, index, token, logits);
    if (j->options.prompt_logits && !c->n_tokens && ARRAY_ROOM(c->token, c->cap_tokens, 1))
        c->token[c->n_tokens++] =
            (SampledToken){ .id = c->prompt->ids[0], .given = true, .log_prob = (double)NAN };
    if (j->options.prompt_logits
        && index < c->n_tokens + (c->n_tokens < c->prompt->n ? 0 : c->n_resumed))
        return; /* recomputed after a preemption, or emitted by another server */
    if (!ARRAY_ROOM(c->token, c->cap_tokens, c->n_tokens + 1)
        || (j->want_probs && !ARRAY_ROOM(s->asked, s->cap_asked, s->n_asked + 1))) {
        c->failed_memory = true;
        return;
    }
    if (j->want_probs)
        s->asked[s->n_asked++] = (Asked){ c, c->n_tokens, logits, false };
    c->token[c->n_tokens++] =
        (SampledToken){ .id = token, .given = given, .log_prob = (double)NAN };
}

static bool find_probs(const Asked *a)
{
    const Job    *j    = a->c->job;
    SampledToken *t    = &a->c->token[a->token];
    const size_t  most = (size_t)j->server->info.vocab_size,
                 n_top = j->n_top < most ? j->n_top : most;
    int32_t      id[MOST_TOP];
    double       p[MOST_TOP];
    t->top = n_top ? malloc(n_top * sizeof *t->top) : NULL;
    if ((n_top && !t->top)
        || !tblock_log_probs(a->logits, (int)most, t->id, &t->log_prob, id, p, n_top, NULL))
        return false;
    for (t->n_top = 0; t->n_top < n_top; t->n_top++)
        t->top[t->n_top] = (TokenProb){ id[t->n_top], p[t->n_top] };
    return true;
}

static void find_share(void *user, Team team)
{
    const Server *s = user;
    int           i, end;
    threads_share(team, (int)s->n_asked, &i, &end);
    for (; i < end; i++)
        s->asked[i].failed = !find_probs(&s->asked[i]);
}

void find_asked(Server *s, ThreadPool *pool)
{
    const size_t most = (size_t)s->computing.threads;
    if (!s->n_asked)
        return;
    threads_pool_run(pool, (int)(s->n_asked < most ? s->n_asked : most), find_share, s);
    for (const Asked *a = s->asked; a < s->asked + s->n_asked; a++) {
        const SampledToken *t = &a->c->token[a->token];
        a->c->failed_memory |= a->failed;
        a->c->log_prob_sum += t->given ? 0 : t->log_prob;
    }
    s->n_asked = 0;
}
