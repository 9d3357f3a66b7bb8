/* serve/http.c: receives requests and sends responses, by libmicrohttpd, in a thread of its own.
 *
 * A request is authorized before its body is read. Rejected are: a name that is not ours in Host
 * (DNS rebinding), a page of another site in Origin, a missing key. */
#include "serve/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/progress.h"

enum {
    HEADER_BYTES   = 16 << 10, /* of a request */
    STREAM_BYTES   = 4 << 10,  /* of a response, at a time */
    MOST_BODIES    = 16        /* of the maximum size: the limit for all requests together */
};

/* ---- Authorization --------------------------------------------------------------------------- */

static const char *header(const Exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* The length of the host in "host:port" or "[address]:port". */
static size_t host_length(const char *s)
{
    const char *end = *s == '[' ? strchr(s, ']') : NULL;
    return end ? (size_t)(end - s) + 1 : strcspn(s, ":");
}

static bool is_address(const char *s, size_t n)
{
    return *s == '[' || (n && strspn(s, "0123456789.") == n);
}

/* A page of another site whose name resolves to us cannot use an address, localhost or an allowed
 * name in Host. */
static bool host_is_ours(const Exchange *x, const char *host)
{
    const ServeOptions *o = x->server->o;
    const size_t        n = host_length(host);
    if (is_address(host, n) || (n == 9 && strncasecmp(host, "localhost", 9) == 0)
        || (strlen(o->host) == n && strncasecmp(host, o->host, n) == 0))
        return true;
    for (size_t i = 0; i < o->n_allowed_hosts; i++)
        if (strlen(o->allowed_host[i]) == n && strncasecmp(host, o->allowed_host[i], n) == 0)
            return true;
    return false;
}

/* Our own pages have the host of the request as their origin. */
static bool origin_is_allowed(const Exchange *x, const char *origin, const char *host)
{
    const ServeOptions *o  = x->server->o;
    const char         *at = strstr(origin, "://");
    if (at && host && strcasecmp(at + 3, host) == 0)
        return true;
    for (size_t i = 0; i < o->n_origins; i++)
        if (strcmp(o->origin[i], "*") == 0 || strcasecmp(o->origin[i], origin) == 0)
            return true;
    return false;
}

/* In constant time: how long it takes does not depend on how much of a key is right. */
static bool same_key(const char *key, size_t n_key, const char *given, size_t n)
{
    unsigned differ = n != n_key;
    for (size_t i = 0; i < n_key && n; i++)
        differ |= (unsigned)(key[i] ^ given[i % n]);
    return differ == 0;
}

static bool has_key(Exchange *x)
{
    const Server *s     = x->server;
    const char   *given = header(x, "Authorization"), *key = s->o->keys;
    given = given && strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : header(x, "x-api-key");
    given = given ? given : "";
    for (size_t i = 0; i < s->o->n_keys; i++, key += strlen(key) + 1)
        x->key = same_key(key, strlen(key), given, strlen(given)) ? key : x->key;
    return x->key || s->o->n_keys == 0;
}

static bool who_may_ask(Exchange *x)
{
    const char *host = header(x, "Host"), *origin = header(x, "Origin");
    if (!host || !host_is_ours(x, host))
        return refuse(x, MHD_HTTP_FORBIDDEN, NULL,
                      "Host: expected an address, localhost or a name of --allow-host, found %s",
                      host ? host : "none");
    if (origin && !origin_is_allowed(x, origin, host))
        return refuse(x, MHD_HTTP_FORBIDDEN, NULL,
                      "Origin: %s is not one of --allow-origin, and not this server", origin);
    x->origin = origin;
    return (x->route && x->route->open) || strcmp(x->method, "OPTIONS") == 0 || has_key(x)
        || refuse(x, MHD_HTTP_UNAUTHORIZED, NULL,
                  "expected a key as Authorization: Bearer KEY or x-api-key: KEY");
}

/* ---- Routes ---------------------------------------------------------------------------------- */

/* HEAD is GET without the body, which libmicrohttpd omits. */
static bool same_method(const char *route, const char *method)
{
    return strcmp(route, method) == 0 || (strcmp(route, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* Is it the path of a route, whose last part may stand for a text ("{model}")? */
static bool same_path(const Route *r, const char *url, const char **rest)
{
    const size_t n = strcspn(r->path, "{");
    *rest          = r->path[n] ? url + n : "";
    return strncmp(r->path, url, n) == 0 && !r->path[n] == !url[n];
}

static bool find_route(Exchange *x, const char *url)
{
    const Route *other = NULL;
    for (const Route *r = x->server->routes; r->path; r++)
        if (same_path(r, url, &x->rest)) {
            other    = r;
            x->error = r->error;
            if (same_method(r->method, x->method)) {
                x->route = r;
                return true;
            }
        }
    if (other && strcmp(x->method, "OPTIONS") == 0)
        return true;
    return other ? refuse(x, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, "%s: expected %s, found %s",
                          x->path, other->method, x->method)
                 : refuse(x, MHD_HTTP_NOT_FOUND, NULL, "%s: there is no such path", x->path);
}

static bool takes_body(const Exchange *x)
{
    return x->route && strcmp(x->route->method, "POST") == 0;
}

static bool check_body(Exchange *x)
{
    const ServeOptions *o    = x->server->o;
    const char         *type = header(x, "Content-Type"), *length = header(x, "Content-Length");
    if (!takes_body(x))
        return true;
    if (!type || strncasecmp(type, "application/json", 16) != 0
        || (type[16] && !strchr("; \t", type[16])))
        return refuse(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL,
                      "Content-Type: expected application/json, found %s", type ? type : "none");
    if (length && strtoull(length, NULL, 10) > o->body_bytes)
        return refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, NULL,
                      "the body: expected at most %zu bytes, found %s", o->body_bytes, length);
    return true;
}

/* ---- Responses ------------------------------------------------------------------------------- */

/* A page may run only its own script, connect only to this server, and not be framed. */
static void add_policy(const Exchange *x, struct MHD_Response *r)
{
    char policy[320];
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             x->nonce, x->nonce);
    MHD_add_response_header(r, "Content-Security-Policy", policy);
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
}

static void add_headers(const Exchange *x, struct MHD_Response *r, const char *type)
{
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "X-Request-Id", x->id);
    if (x->error)
        MHD_add_response_header(r, "request-id", x->id); /* Anthropic's name */
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Cache-Control", "no-store");
    if (x->nonce[0])
        add_policy(x, r);
    if (x->status == MHD_HTTP_TOO_MANY_REQUESTS || x->status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(r, "Retry-After", "1");
    if (x->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (!x->origin)
        return;
    MHD_add_response_header(r, "Access-Control-Allow-Origin", x->origin);
    MHD_add_response_header(r, "Vary", "Origin");
    MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST");
    MHD_add_response_header(r, "Access-Control-Allow-Headers",
                            "Authorization, Content-Type, x-api-key, anthropic-version");
    MHD_add_response_header(r, "Access-Control-Expose-Headers", "X-Request-Id");
}

static enum MHD_Result send_response(Exchange *x, struct MHD_Response *r, const char *type)
{
    if (!r)
        return MHD_NO;
    add_headers(x, r, type);
    enum MHD_Result sent = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    x->told = true;
    return sent;
}

static enum MHD_Result send_whole(Exchange *x)
{
    static const char none[] = "{\"error\": {\"message\": \"out of memory\", \"type\": "
                               "\"server_error\", \"param\": null, \"code\": 500}}\n";
    TextOut           text = x->answer;
    x->answer              = (TextOut){ 0 };
    if (!text.failed && text.text)
        return send_response(
            x, MHD_create_response_from_buffer(text.n, text.text, MHD_RESPMEM_MUST_FREE),
            x->type ? x->type : "application/json");
    if (text.failed)
        x->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    text_out_free(&text);
    const size_t n = x->status == MHD_HTTP_NO_CONTENT ? 0 : sizeof none - 1;
    return send_response(
        x, MHD_create_response_from_buffer(n, (void *)(uintptr_t)none, MHD_RESPMEM_PERSISTENT),
        "application/json");
}

/* Sends new output of a stream; if there is none, the connection is suspended. */
static ssize_t read_stream(void *user, uint64_t at, char *out, size_t most)
{
    Exchange *x = user;
    Job      *j = x->job;
    ssize_t   result;
    (void)at;
    pthread_mutex_lock(&x->server->lock);
    size_t n = j->ready.n - j->n_sent;
    n        = n < most ? n : most;
    if (n) {
        memcpy(out, j->ready.text + j->n_sent, n);
        j->n_sent += n;
        if (j->n_sent == j->ready.n)
            j->n_sent = j->ready.n = 0;
        result = (ssize_t)n;
    } else if (j->ready.failed || (j->ended && j->status != MHD_HTTP_OK)) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (j->ended) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        j->asleep = true;
        MHD_suspend_connection(x->connection);
        result = 0;
    }
    pthread_mutex_unlock(&x->server->lock);
    return result;
}

static enum MHD_Result send_stream(Exchange *x)
{
    x->status = MHD_HTTP_OK;
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BYTES, read_stream, x, NULL);
    if (r)
        MHD_add_response_header(r, "X-Accel-Buffering", "no");
    return send_response(x, r, "text/event-stream; charset=utf-8");
}

/* The response of a job; suspends the connection until there is one. */
static enum MHD_Result send_job(Exchange *x)
{
    Job *j = x->job;
    if (j->stream)
        return send_stream(x);
    pthread_mutex_lock(&x->server->lock);
    const bool ended = j->ended;
    if (ended) {
        x->status     = j->status;
        x->answer     = j->ready;
        j->ready      = (TextOut){ 0 };
    } else {
        j->asleep = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->server->lock);
    return !ended ? MHD_YES : x->status ? send_whole(x) : MHD_NO;
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* libmicrohttpd closes a connection that is silent, but not one that sends a byte now and
 * then. */
struct Connection {
    Connection *next, **from;
    int         fd;
    double      since; /* when its next request could begin */
    bool        busy;  /* the request has arrived */
};

static void on_connection(void *user, struct MHD_Connection *c, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    Server     *s = user;
    Connection *k = *slot;
    pthread_mutex_lock(&s->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *slot = k = calloc(1, sizeof *k);
        if (k) {
            *k = (Connection){ s->connection, &s->connection, i ? i->connect_fd : -1,
                               clock_seconds(), false };
            if (k->next)
                k->next->from = &k->next;
            s->connection = k;
        }
    } else if (k) {
        *k->from = k->next;
        if (k->next)
            k->next->from = k->from;
        free(k);
    }
    pthread_mutex_unlock(&s->lock);
}

static void set_busy(Exchange *x, bool busy)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    Connection *k = i ? i->socket_context : NULL;
    pthread_mutex_lock(&x->server->lock);
    if (k) {
        k->busy  = busy;
        k->since = clock_seconds();
    }
    pthread_mutex_unlock(&x->server->lock);
}

/* libmicrohttpd 0.9.75 misses a close that came with the last bytes of half a request. A complete
 * one that it has not read yet may look the same, so we wait a second first. */
void http_sweep(Server *s)
{
    const double now = clock_seconds();
    if (now < s->swept + 0.5)
        return;
    s->swept = now;
    for (Connection *k = s->connection; k; k = k->next)
        if (!k->busy
            && (now - k->since > s->o->request_seconds || (now - k->since > 1 && hung_up(k->fd))))
            shutdown(k->fd, SHUT_RDWR);
}

/* ---- Exchanges ------------------------------------------------------------------------------- */

static Exchange *exchange_new(Server *s, struct MHD_Connection *c, const char *url,
                              const char *method)
{
    Exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->server     = s;
    x->connection = c;
    x->method     = method;
    x->arrived    = clock_seconds();
    x->body.most  = s->o->body_bytes + 1;
    memcpy(x->id, "req-", 4);
    random_id(x->id + 4, 17);
    printable_text(x->path, sizeof x->path, url, strlen(url));
    pthread_mutex_lock(&s->lock);
    s->n_exchanges++;
    pthread_mutex_unlock(&s->lock);
    return x;
}

static void drop_body(Exchange *x)
{
    pthread_mutex_lock(&x->server->lock);
    x->server->body_bytes -= x->body.n;
    pthread_mutex_unlock(&x->server->lock);
    text_out_free(&x->body);
}

/* A part of the body. Once there is no room for it, the rest is read and discarded. */
static void take_body(Exchange *x, const char *bytes, size_t n)
{
    Server *s = x->server;
    if (!takes_body(x) || x->crowded || x->body.failed)
        return;
    pthread_mutex_lock(&s->lock);
    x->crowded = s->body_bytes + n > MOST_BODIES * s->o->body_bytes;
    pthread_mutex_unlock(&s->lock);
    const size_t before = x->body.n;
    if (x->crowded) {
        drop_body(x);
        return;
    }
    text_out_bytes(&x->body, bytes, n);
    pthread_mutex_lock(&s->lock);
    s->body_bytes += x->body.n - before;
    pthread_mutex_unlock(&s->lock);
}

static void log_request(Exchange *x)
{
    Server  *s     = x->server;
    Job     *j     = x->job;
    TextOut  words = { 0 };
    size_t   n_prompt = 0, n_cached = 0, n_sampled = 0;
    log_text(&words, x->method, strlen(x->method));
    text_out(&words, " %s %d %.3fs", x->path, x->status, clock_seconds() - x->arrived);
    if (j) {
        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < j->n_choices; i++) {
            n_prompt += j->choice[i].prompt->n;
            n_cached += j->choice[i].n_cached;
            n_sampled += j->choice[i].n_sampled;
        }
        pthread_mutex_unlock(&s->lock);
        text_out(&words, " prompt %zu cached %zu drawn %zu", n_prompt, n_cached, n_sampled);
    }
    if (s->o->log_prompts && x->body.n) {
        text_out(&words, " body ");
        log_text(&words, x->body.text, x->body.n);
    }
    text_out_bytes(&words, "", 1);
    log_line(&s->log, x->id, "%s", words.failed ? "out of memory" : words.text);
    text_out_free(&words);
}

static void on_completed(void *user, struct MHD_Connection *c, void **slot,
                         enum MHD_RequestTerminationCode why)
{
    Server   *s = user;
    Exchange *x = *slot;
    (void)c, (void)why;
    if (!x)
        return;
    log_request(x);
    set_busy(x, false);
    if (x->job)
        job_leave(x->job);
    drop_body(x);
    text_out_free(&x->answer);
    free(x);
    *slot = NULL;
    pthread_mutex_lock(&s->lock);
    s->n_exchanges--;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* The request is complete. */
static enum MHD_Result handle(Exchange *x)
{
    const ServeOptions *o = x->server->o;
    set_busy(x, true);
    if (x->crowded)
        refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
               "the requests of all clients: expected at most %zu MB at once; try again later",
               MOST_BODIES * (o->body_bytes >> 20));
    else if (x->body.full)
        refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "the body: expected at most %zu bytes",
               o->body_bytes);
    else if (x->body.failed)
        refuse_memory(x);
    else if (!x->route)
        x->status = MHD_HTTP_NO_CONTENT; /* OPTIONS: the headers suffice */
    else if (!takes_body(x))
        exchange_answer(x);
    else if (prepare_request(x))
        return MHD_YES;
    return send_whole(x);
}

/* It was parsed: it has a response or a job, or its client has left. */
static enum MHD_Result go_on(Exchange *x)
{
    if (!x->server->o->log_prompts)
        drop_body(x);
    return x->status ? send_whole(x) : x->job ? send_job(x) : MHD_NO;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *n_upload, void **slot)
{
    Exchange *x = *slot;
    (void)version;
    if (!x) {
        x = *slot = exchange_new(user, c, url, method);
        if (!x)
            return MHD_NO;
        bool good = find_route(x, url);
        good      = who_may_ask(x) && good && check_body(x);
        return good ? MHD_YES : send_whole(x);
    }
    if (x->told)
        return MHD_YES;
    if (*n_upload) {
        take_body(x, upload, *n_upload);
        *n_upload = 0;
        return MHD_YES;
    }
    return x->read ? go_on(x) : handle(x);
}

/* ---- The daemon ------------------------------------------------------------------------------ */

/* In place; returns the new length. %00 would truncate the path: such a path is none of ours. */
static size_t unescape(void *user, struct MHD_Connection *c, char *text)
{
    (void)user, (void)c;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

bool http_start(Server *s, int listening, tblock_error *err)
{
    errno     = 0;
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, (uint16_t)s->o->port, NULL, NULL,
        on_request, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->o->request_seconds,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->o->connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_LISTEN_SOCKET,
        listening, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
    return s->daemon
        || fail(err, TBLOCK_SYSTEM, "libmicrohttpd: %s",
                errno ? strerror(errno) : "it cannot start");
}

int http_port(const Server *s)
{
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return i ? i->port : s->o->port;
}

void http_stop(Server *s)
{
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
}
