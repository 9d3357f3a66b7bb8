/* hub/repository.c: what the Hub says about a repository. */
#include "hub/pull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"

enum { MOST_REPLY = 32 << 20, MOST_VALUES = 1 << 20, MOST_FILES = 100000,
       TRIES = 5,          /* that bring nothing, */
       ALL_TRIES = 100,    /* and of all kinds */
       LONGEST_WAIT = 60   /* seconds */ };

/* ---- Settings -------------------------------------------------------------------------------- */

static bool is_on(const char *name)
{
    const char *value = getenv(name);
    return value && (strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0
                     || strcasecmp(value, "on") == 0 || strcasecmp(value, "yes") == 0);
}

static bool take_endpoint(Repository *r, Error *err)
{
    const char *given = getenv("HF_ENDPOINT");
    if (is_on("HF_HUB_OFFLINE"))
        return fail(err, USAGE, "HF_HUB_OFFLINE is set, and pull needs the network: unset it");
    given = given && *given ? given : "https://huggingface.co";
    if ((strncmp(given, "https://", 8) != 0 && strncmp(given, "http://", 7) != 0)
        || strpbrk(given, " \t\r\n?#") || strlen(given) > 1000)
        return fail(err, USAGE, "HF_ENDPOINT: expected an address as https://huggingface.co, found "
                                "%s", given);
    snprintf(r->endpoint, sizeof r->endpoint, "%s", given);
    for (size_t n = strlen(given); n && r->endpoint[n - 1] == '/'; n--)
        r->endpoint[n - 1] = '\0';
    return true;
}

/* A token is not sent where anyone on the way can read it. */
static bool is_private(const char *endpoint)
{
    static const char *const here[] = { "http://127.0.0.1", "http://localhost", "http://[::1]" };
    bool good = strncmp(endpoint, "https://", 8) == 0;
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        const size_t n = strlen(here[i]);
        good |= strncmp(endpoint, here[i], n) == 0 && (!endpoint[n] || strchr(":/", endpoint[n]));
    }
    return good;
}

/* Allocated; NULL: there is none, or it must not be sent. */
static char *read_token(const char *endpoint)
{
    const char *token = getenv("HF_TOKEN"), *file = getenv("HF_TOKEN_PATH");
    char        home[PATH_BYTES], path[PATH_BYTES], *text = NULL;
    size_t      n;
    if (!is_private(endpoint))
        return NULL;
    if (token && *token)
        return strdup(token);
    const bool there = file && *file
        ? hub_path(path, NULL, "%s", file)
        : hub_home(home, NULL) && hub_path(path, NULL, "%s/token", home);
    if (!there || !path_exists(path) || !file_read(path, 4096, &text, &n, NULL))
        return NULL;
    text[strcspn(text, "\r\n \t")] = '\0';
    if (!*text) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void wait_for(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds };
    t.tv_nsec         = (long)(1e9 * (seconds - (double)t.tv_sec));
    nanosleep(&t, NULL);
}

static bool refused(const Repository *r, const char *url, const HttpReply *reply, Error *err)
{
    const char *code = reply->error_code;
    if (strcmp(code, "GatedRepo") == 0)
        return fail(err, INPUT, "%s: its owner asks for an account: accept the terms at %s/%s, "
                                "then set HF_TOKEN to a token of that account", r->shown,
                    r->endpoint, r->name->repo);
    if (strcmp(code, "RevisionNotFound") == 0)
        return fail(err, INPUT, "%s: expected a branch, a tag or a commit, found no revision '%s' "
                                "in the repository", r->shown, r->revision);
    if (strcmp(code, "EntryNotFound") == 0)
        return fail(err, INPUT, "%s: the Hub lists a file and does not have it: %s", r->shown, url);
    if (strcmp(code, "RepoNotFound") == 0 || reply->status == 401 || reply->status == 403
        || reply->status == 404)
        return fail(err, INPUT, "%s: %s has no such repository, or it is private (status %ld): "
                                "check the name, or set HF_TOKEN to the token of an account that "
                                "may read it", r->shown, r->endpoint, reply->status);
    if (reply->status == 429 && reply->retry_after >= 0)
        return fail(err, SYSTEM, "%s: too many requests: %s asks to wait %lld s", r->shown,
                    r->endpoint, (long long)reply->retry_after);
    return fail(err, SYSTEM, "%s: expected status 200, found %ld: %s", r->shown, reply->status,
                url);
}

/* Seconds to wait before the next try; below 0: trying again does not help. */
static double patience(const HttpReply *reply, bool came, bool cut, int tries)
{
    const double usual = 0.2 * (double)(1 << (tries < 8 ? tries : 8));
    if (!came)
        return cut ? usual : -1;
    if (reply->status != 429 && reply->status != 408 && reply->status / 100 != 5)
        return -1;
    return reply->retry_after < 0 ? usual
           : reply->retry_after <= LONGEST_WAIT ? (double)reply->retry_after : -1;
}

bool repository_get(Repository *r, const char *url, HubReached *reached, HttpTake *take, void *user,
                    Error *err)
{
    HttpReply reply;
    for (int tries = 0, all = 0;; all++) {
        bool           cut;
        const uint64_t before = reached(user);
        const bool     came   = http_get(r->http, url, before, take, user, &reply, &cut, err);
        if (came && (reply.status == 200 || reply.status == 206))
            return true;
        tries             = reached(user) > before ? 0 : tries + 1;
        const double wait = patience(&reply, came, cut, tries);
        if (wait < 0 || tries >= TRIES || all >= ALL_TRIES)
            return came ? refused(r, url, &reply, err) : false;
        wait_for(wait);
    }
}

/* ---- The list of files ----------------------------------------------------------------------- */

static uint64_t from_start(const void *user)
{
    TextOut *text = (TextOut *)user;
    text->n       = 0; /* a reply that broke off begins again */
    return 0;
}

static bool take_text(void *user, const HttpReply *reply, const void *data, size_t n)
{
    (void)reply;
    return text_out_bytes(user, data, n);
}

static bool is_hex(const JsonNode *j, size_t n)
{
    return j && j->kind == NODE_STRING && hub_is_hex(j->text, n);
}

/* One of "siblings". A name that leads out of the folder is the server's lie. */
static bool add_file(Repository *r, const JsonNode *item, Error *err)
{
    const JsonNode *path = node_get(item, "rfilename"), *lfs = node_get(item, "lfs");
    const JsonNode *size = node_get(item, "size"), *id = node_get(item, "blobId");
    const bool      large = lfs && lfs->kind == NODE_OBJECT;
    char            buf[NODE_TEXT];
    if (large)
        id = node_get(lfs, "sha256"), size = node_get(lfs, "size");
    if (!path || path->kind != NODE_STRING || !hub_is_file_path(path->text))
        return fail(err, INPUT, "%s: %s: expected a path of a file in the repository, found %s",
                    r->shown, r->endpoint, node_text(path, buf));
    if (!size || size->kind != NODE_INT || size->integer < 0 || !is_hex(id, large ? 64 : 40))
        return fail(err, INPUT, "%s: %s: %.200s: expected its size and its hash, found others",
                    r->shown, r->endpoint, path->text);
    HubFile *file = r->files.n < MOST_FILES ? hub_files_add(&r->files, path->text, err) : NULL;
    if (!file)
        return r->files.n < MOST_FILES
            || fail(err, INPUT, "%s: expected at most %d files, found more", r->shown, MOST_FILES);
    file->size = (uint64_t)size->integer;
    memcpy(file->id, id->text, id->n + 1);
    return true;
}

static bool read_siblings(Repository *r, TextOut *text, Error *err)
{
    char    what[HUB_REPO + 32];
    JsonDoc d = { 0 };
    snprintf(what, sizeof what, "%s: the Hub's reply", r->name->repo);
    bool good = json_doc_read_within(&d, text->text ? text->text : "", text->n, JSON_NO_NUL,
                                     MOST_VALUES, what, err);
    const JsonNode *commit = good ? node_get(d.node, "sha") : NULL;
    if (good && !is_hex(commit, HUB_COMMIT - 1))
        good = fail(err, INPUT, "%s: expected \"sha\" with a commit, found another value", what);
    if (good)
        memcpy(r->commit, commit->text, HUB_COMMIT);
    if (good)
        JSON_NODES (item, node_get(d.node, "siblings"))
            if (!add_file(r, item, err)) {
                good = false;
                break;
            }
    json_doc_free(&d);
    hub_files_sort(&r->files);
    return good;
}

/* Bytes other than letters, digits and "-._~/" as %XX. */
static bool percent_encode(const char *text, bool keep_slash, char *out, size_t n_out)
{
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s && n + 4 < n_out; s++) {
        const bool plain = (*s >= '0' && *s <= '9') || (*s >= 'A' && *s <= 'Z')
            || (*s >= 'a' && *s <= 'z') || strchr("-._~", *s) || (keep_slash && *s == '/');
        n += (size_t)snprintf(out + n, n_out - n, plain ? "%c" : "%%%02X", *s);
    }
    out[n] = '\0';
    return n + 4 < n_out;
}

bool repository_url(const Repository *r, const char *file, char out[PATH_BYTES * 2], Error *err)
{
    char      name[PATH_BYTES * 3 / 2];
    const int n = !percent_encode(file, true, name, sizeof name)
        ? PATH_BYTES * 2
        : snprintf(out, PATH_BYTES * 2, "%s/%s/resolve/%s/%s", r->endpoint, r->name->repo,
                   r->commit, name);
    return n < PATH_BYTES * 2 || fail(err, INPUT, "%.200s: its address is too long", file);
}

bool repository_open(Repository *r, const HubName *name, const char *shown, const char *revision,
                     Error *err)
{
    char    url[PATH_BYTES * 2], escaped[3 * HUB_REVISION + 8];
    TextOut text = { .most = MOST_REPLY };
    *r           = (Repository){ .name = name, .shown = shown };
    snprintf(r->revision, sizeof r->revision, "%s", *revision ? revision : "main");
    if (!take_endpoint(r, err))
        return false;
    char *token = read_token(r->endpoint);
    r->http     = http_open(token, err);
    free(token);
    percent_encode(r->revision, false, escaped, sizeof escaped);
    snprintf(url, sizeof url, "%s/api/models/%s/revision/%s?blobs=true", r->endpoint, name->repo,
             escaped);
    const bool good = r->http && repository_get(r, url, from_start, take_text, &text, err)
        && read_siblings(r, &text, err);
    if (text.full)
        fail(err, INPUT, "%s: expected a list of at most %d MB, found more", shown,
             MOST_REPLY >> 20);
    text_out_free(&text);
    return good;
}

void repository_close(Repository *r)
{
    http_close(r->http);
    hub_files_free(&r->files);
    *r = (Repository){ 0 };
}
