/* serve/prepare.c: parses requests that have a body, and writes whole responses, in worker threads:
 * to parse, render a template, tokenize or make a constraint may take a second, and to write the
 * log-probabilities of a thousand tokens too. libmicrohttpd's thread and the scheduler serve all
 * streams meanwhile. The connection is suspended until its request is parsed: then it has a
 * response, or a job. */
#include "serve/server.h"

#include <errno.h>

#include "base/progress.h"

bool prepare_request(Exchange *x)
{
    Server *s = x->server;
    pthread_mutex_lock(&s->lock);
    const bool over = s->draining,
               full = s->n_unread >= (size_t)s->o->queue + (size_t)s->o->parallel;
    s->counts.refused += over || full;
    if (!over && !full) {
        *(s->last_unread ? &s->last_unread->next : &s->unread) = x;
        s->last_unread = x;
        s->n_unread++;
        MHD_suspend_connection(x->connection);
        pthread_cond_signal(&s->come);
    }
    pthread_mutex_unlock(&s->lock);
    if (over)
        return refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
                      "the server is about to stop and takes no new work");
    return !full || refuse_full(x);
}

/* No work is done for a client that has left, or whose request has timed out. */
static void read_request(Exchange *x, bool at_once)
{
    const Server *s = x->server;
    const union MHD_ConnectionInfo *c =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (at_once || hung_up(c ? c->connect_fd : -1))
        return; /* no status: the connection is closed */
    if (is_late(s, x->arrived))
        refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, LATE_WORDS, s->o->timeout_s);
    else
        exchange_answer(x);
}

void job_write(Job *j)
{
    Server *s  = j->server;
    Job   **at = &s->unwritten; /* behind the others */
    while (*at)
        at = &(*at)->next;
    *at     = j;
    j->next = NULL;
    s->n_unread++;
    pthread_cond_signal(&s->come);
}

/* With the lock held, which it releases meanwhile. */
static void write_response(Server *s)
{
    Job *j       = s->unwritten;
    s->unwritten = j->next;
    pthread_mutex_unlock(&s->lock);
    j->form->whole(j);
    pthread_mutex_lock(&s->lock);
    j->status = MHD_HTTP_OK;
    j->ended  = true;
    job_wake(j);
    if (!j->exchange)
        job_free(j);
}

/* The same for the next request. */
static void parse_request(Server *s)
{
    Exchange  *x       = s->unread;
    const bool at_once = s->at_once;
    s->unread          = x->next;
    s->last_unread     = s->unread ? s->last_unread : NULL;
    pthread_mutex_unlock(&s->lock);
    read_request(x, at_once);
    pthread_mutex_lock(&s->lock);
    x->read = true;
    MHD_resume_connection(x->connection);
}

static void *read_requests(void *user)
{
    Server *s = user;
    pthread_mutex_lock(&s->lock);
    while (s->unread || s->unwritten || !s->read_all) {
        if (!s->unread && !s->unwritten) {
            pthread_cond_wait(&s->come, &s->lock);
            continue;
        }
        (s->unwritten ? write_response : parse_request)(s);
        s->n_unread--;
        pthread_cond_signal(&s->work); /* it may be the last one before the server stops */
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool prepare_start(Server *s, tblock_error *err)
{
    for (; s->n_readers < READERS; s->n_readers++) {
        int why = pthread_create(&s->reader[s->n_readers], NULL, read_requests, s);
        if (why)
            return fail(err, TBLOCK_SYSTEM, "thread for requests: %s", strerror(why));
    }
    return true;
}

void prepare_stop(Server *s)
{
    pthread_mutex_lock(&s->lock);
    s->read_all = s->draining = true;
    pthread_cond_broadcast(&s->come);
    pthread_mutex_unlock(&s->lock);
    while (s->n_readers)
        pthread_join(s->reader[--s->n_readers], NULL);
}
