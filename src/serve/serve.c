/* serve/serve.c: starts a server from its options, and stops it. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/progress.h"

enum { FLUSH_SECONDS = 5 };

/* ---- Signals --------------------------------------------------------------------------------- */

typedef struct Signals { Server *s; sigset_t set; pthread_t thread; bool over; } Signals;

/* The first signal asks it to stop, the second not to wait. */
static void *take_signals(void *user)
{
    Signals *g = user;
    int      which, n = 0;
    while (sigwait(&g->set, &which) == 0) {
        pthread_mutex_lock(&g->s->lock);
        bool over = g->over;
        pthread_mutex_unlock(&g->s->lock);
        if (over)
            break;
        if (which == SIGHUP) {
            log_reopen(&g->s->log);
            continue;
        }
        log_line(&g->s->log, "serve", n ? "stops at once" : "stops: running requests may end");
        scheduler_stop(g->s, n++ > 0);
    }
    return NULL;
}

static bool signals_begin(Signals *g, Server *s, tblock_error *err)
{
    g->s = s;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&g->set);
    sigaddset(&g->set, SIGTERM);
    sigaddset(&g->set, SIGINT);
    if (s->o->log)
        sigaddset(&g->set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &g->set, NULL);
    int why = pthread_create(&g->thread, NULL, take_signals, g);
    return why == 0 || fail(err, TBLOCK_SYSTEM, "thread for signals: %s", strerror(why));
}

/* They stay blocked: one that comes now asks for what is under way, and changes no status. */
static void signals_end(Signals *g)
{
    pthread_mutex_lock(&g->s->lock);
    g->over = true;
    pthread_mutex_unlock(&g->s->lock);
    pthread_kill(g->thread, SIGTERM);
    pthread_join(g->thread, NULL);
}

/* ---- Routes ---------------------------------------------------------------------------------- */

const Route routes[] = {
    { "GET", "/", page_handle, true, NULL,
      "a page to talk with the model", NULL },
    { "GET", "/health", health_handle, true, NULL,
      "is the server there?", NULL },
    { "GET", "/metrics", metrics_handle, false, NULL,
      "numbers for Prometheus", NULL },
    { "GET", "/props", props_handle, false, NULL,
      "context and places, in llama-server's form", NULL },
    { "GET", "/openapi.json", openapi_handle, false, NULL,
      "this description", NULL },
    { "GET", "/v1/models", models_handle, false, NULL,
      "a list of the model", NULL },
    { "GET", "/v1/models/{model}", model_handle, false, NULL,
      "the model", NULL },
    { "POST", "/v1/completions", completions_handle, false, NULL,
      "texts that go on from prompts", &completions_body },
    { "POST", "/v1/chat/completions", chat_handle, false, NULL,
      "answers in a conversation", &chat_body },
    { "POST", "/v1/responses", responses_handle, false, NULL,
      "the same as items", &responses_body },
    { "POST", "/v1/messages", messages_handle, false, messages_error,
      "the same in Anthropic's form", &messages_body },
    { "POST", "/v1/messages/count_tokens", count_tokens_handle, false, messages_error,
      "how many tokens its prompt has", &count_tokens_body },
    { "POST", "/v1/embeddings", embeddings_handle, false, NULL,
      "texts as vectors", &embeddings_body },
    { "POST", "/v1/rerank", rerank_handle, false, NULL,
      "documents by how well they meet a query", &rerank_body },
    { "POST", "/apply-template", apply_template_handle, false, NULL,
      "a conversation as a prompt", &chat_body },
    { "POST", "/tokenize", tokenize_handle, false, NULL,
      "a text as tokens", &tokenize_body },
    { "POST", "/detokenize", detokenize_handle, false, NULL,
      "tokens as a text", &detokenize_body },
    { "GET", "/tokenizer_info", tokenizer_info_handle, false, NULL,
      "the special tokens", NULL },
    { 0 },
};

/* ---- Start and stop -------------------------------------------------------------------------- */

/* Sends what is computed, as far as clients read it. */
static void flush(Server *s)
{
    const double until = clock_seconds() + FLUSH_SECONDS;
    pthread_mutex_lock(&s->lock);
    while (s->n_exchanges && clock_seconds() < until) {
        pthread_mutex_unlock(&s->lock);
        usleep(10000);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static bool run(Server *s, tblock_error *err)
{
    const char *host = s->o->host;
    Signals     g    = { 0 };
    const int   fd   = s->o->listens ? s->o->listens : serve_listen(s->o, err);
    if (fd < 0 || !signals_begin(&g, s, err))
        return false;
    bool good = prepare_start(s, err) && http_start(s, fd, err);
    if (good) {
        printf(strchr(host, ':') ? "http://[%s]:%d\n" : "http://%s:%d\n", host, http_port(s));
        good = fflush(stdout) == 0
            || fail(err, TBLOCK_SYSTEM, "standard output: %s", strerror(errno));
    }
    if (good) {
        scheduler_run(s);
        flush(s);
    }
    prepare_stop(s);
    http_stop(s);
    signals_end(&g);
    return good;
}

void server_open(Server *s, const ServeOptions *o)
{
    *s = (Server){ .o      = o,
                   .routes = routes,
                   .lock   = PTHREAD_MUTEX_INITIALIZER,
                   .come   = PTHREAD_COND_INITIALIZER,
                   .work   = PTHREAD_COND_INITIALIZER };
    tblock_model_describe(o->model, &s->info);
    tblock_context_describe(o->context, &s->computing);
    s->chat = talk_chat(s, NULL, NULL); /* without one, each request says why */
}

void server_close(Server *s)
{
    tblock_chat_free(s->chat);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->come);
    pthread_mutex_destroy(&s->lock);
}

bool serve(const ServeOptions *o, tblock_error *err)
{
    Server s;
    server_open(&s, o);
    bool good = scheduler_check(&s, err) && log_open(&s.log, o, err);
    if (good) {
        good = run(&s, err);
        log_close(&s.log);
    }
    server_close(&s);
    return good;
}
