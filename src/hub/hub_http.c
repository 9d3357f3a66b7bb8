/* hub/hub_http.c: GET by libcurl, loaded with dlopen, so that nothing but tblock pull needs it. */
#include "hub/hub.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The part of libcurl's header that is used, whose numbers never change (libcurl's ABI). */
enum {
    OPT_FOLLOWLOCATION = 52, OPT_LOW_SPEED_LIMIT = 19, OPT_LOW_SPEED_TIME = 20, OPT_MAXREDIRS = 68,
    OPT_CONNECTTIMEOUT = 78, OPT_NOSIGNAL = 99, OPT_PROTOCOLS = 181, OPT_REDIR_PROTOCOLS = 182,
    OPT_WRITEDATA = 10001, OPT_URL = 10002, OPT_RANGE = 10007, OPT_ERRORBUFFER = 10010,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023, OPT_HEADERDATA = 10029, OPT_CAINFO = 10065,
    OPT_WRITEFUNCTION = 20011, OPT_HEADERFUNCTION = 20079,
    PROTO_HTTP = 1, PROTO_HTTPS = 2, GLOBAL_ALL = 3, ERROR_BYTES = 256,
    /* errors of a connection, after which a new one may do better */
    E_RESOLVE = 6, E_CONNECT = 7, E_HTTP2 = 16, E_PARTIAL = 18, E_TIMEOUT = 28, E_TLS = 35,
    E_NOTHING = 52, E_SEND = 55, E_RECEIVE = 56, E_STREAM = 92
};
typedef struct Curl Curl;
typedef struct CurlList CurlList;

struct Http {
    Curl     *(*init)(void);
    int       (*setopt)(Curl *, int option, ...);
    int       (*perform)(Curl *);
    void      (*cleanup)(Curl *);
    const char *(*text)(int error);
    CurlList *(*append)(CurlList *, const char *);
    void      (*free_all)(CurlList *);
    Curl      *curl;
    CurlList  *headers;
    char       error[ERROR_BYTES];
    /* the transfer that runs */
    HttpTake  *take;
    void      *user;
    HttpReply *reply;
};

/* ---- Loading --------------------------------------------------------------------------------- */

#if defined(STATIC_PROGRAM)
static void *load_curl(Error *err)
{
    fail(err, SYSTEM, "pull needs libcurl, which a static program cannot load: expected the "
                      "program that make builds");
    return NULL;
}
#else
/* It stays loaded, as OpenBLAS does (train/blas.c): what it has initialized has no end. */
static void *load_curl(Error *err)
{
    static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        fail(err, SYSTEM, "pull needs libcurl, but libcurl.so.4 cannot be loaded (%s); on Debian: "
                          "apt-get install libcurl4", dlerror());
    return library;
}
#endif

static bool find_all(Http *h, void *library, int (**global)(long))
{
    const struct { const char *name; void *function; } wanted[] = {
        { "curl_easy_init", &h->init },         { "curl_easy_setopt", &h->setopt },
        { "curl_easy_perform", &h->perform },   { "curl_easy_cleanup", &h->cleanup },
        { "curl_easy_strerror", &h->text },     { "curl_slist_append", &h->append },
        { "curl_slist_free_all", &h->free_all }, { "curl_global_init", global } };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            return false;
        /* ISO C cannot convert an object pointer to one of a function; POSIX has the same bits. */
        memcpy(wanted[i].function, &symbol, sizeof symbol);
    }
    return true;
}

/* ---- A reply --------------------------------------------------------------------------------- */

/* The value of a header line; NULL: it is another header. */
static const char *value_of(const char *line, const char *name)
{
    const size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

/* Each reply of a chain of redirects starts anew. */
static void read_header(HttpReply *r, char *line)
{
    const char *value;
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        *r = (HttpReply){ .start = -1, .retry_after = -1 };
        r->status = strtol(line + strcspn(line, " "), NULL, 10);
    } else if ((value = value_of(line, "X-Error-Code")) != NULL) {
        snprintf(r->error_code, sizeof r->error_code, "%s", value);
    } else if ((value = value_of(line, "Retry-After")) != NULL && *value >= '0' && *value <= '9') {
        r->retry_after = strtol(value, NULL, 10);
    } else if ((value = value_of(line, "Content-Range")) != NULL
               && strncmp(value, "bytes ", 6) == 0) {
        r->start = strtoll(value + 6, NULL, 10);
    }
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    Http *h = user;
    char  line[512];
    snprintf(line, sizeof line, "%.*s", (int)(size * n < 500 ? size * n : 500), data);
    read_header(h->reply, line);
    return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    Http *h = user;
    if (h->reply->status != 200 && h->reply->status != 206)
        return size * n; /* the words of an error page */
    const bool taken = h->take(h->user, h->reply, data, size * n);
    h->reply->taken += size * n;
    return taken ? size * n : 0;
}

/* ---- Transfers ------------------------------------------------------------------------------- */

/* A line of its own cannot be put into a request: no character of a token ends one. */
static bool add_bearer(Http *h, const char *bearer, Error *err)
{
    char line[2100];
    if (!bearer)
        return true;
    for (const char *s = bearer; *s; s++)
        if (*s <= ' ' || *s > '~')
            return fail(err, USAGE, "HF_TOKEN: expected printable ASCII without blanks, found "
                                    "another character");
    if (snprintf(line, sizeof line, "Authorization: Bearer %s", bearer) >= (int)sizeof line)
        return fail(err, USAGE, "HF_TOKEN: expected at most 2000 characters, found more");
    h->headers = h->append(NULL, line);
    return h->headers || no_memory("libcurl", err);
}

/* What holds for every transfer. A connection that brings nothing for a minute is given up. */
static void set_up(Http *h)
{
    const char *authorities = getenv("SSL_CERT_FILE"); /* as curl itself and OpenSSL read it */
    h->setopt(h->curl, OPT_NOSIGNAL, 1L);
    h->setopt(h->curl, OPT_FOLLOWLOCATION, 1L);
    h->setopt(h->curl, OPT_MAXREDIRS, 5L);
    h->setopt(h->curl, OPT_PROTOCOLS, (long)(PROTO_HTTP | PROTO_HTTPS));
    h->setopt(h->curl, OPT_CONNECTTIMEOUT, 30L);
    h->setopt(h->curl, OPT_LOW_SPEED_LIMIT, 1L);
    h->setopt(h->curl, OPT_LOW_SPEED_TIME, 60L);
    h->setopt(h->curl, OPT_USERAGENT, "tblock/" TBLOCK_VERSION);
    h->setopt(h->curl, OPT_ERRORBUFFER, h->error);
    h->setopt(h->curl, OPT_HEADERFUNCTION, on_header);
    h->setopt(h->curl, OPT_HEADERDATA, (void *)h);
    h->setopt(h->curl, OPT_WRITEFUNCTION, on_body);
    h->setopt(h->curl, OPT_WRITEDATA, (void *)h);
    if (authorities && *authorities)
        h->setopt(h->curl, OPT_CAINFO, authorities);
    if (h->headers)
        h->setopt(h->curl, OPT_HTTPHEADER, h->headers);
}

Http *http_open(const char *bearer, Error *err)
{
    int (*global)(long) = NULL;
    void *library       = load_curl(err);
    Http *h             = library ? calloc(1, sizeof *h) : NULL;
    if (!library)
        return NULL;
    bool good = h || no_memory("libcurl", err);
    good = good && (find_all(h, library, &global)
                    || fail(err, SYSTEM, "libcurl.so.4: expected the functions of libcurl, found "
                                         "that one is missing"));
    good = good && ((global(GLOBAL_ALL) == 0 && (h->curl = h->init()) != NULL)
                    || fail(err, SYSTEM, "libcurl cannot be started"));
    if (!good || !add_bearer(h, bearer, err)) {
        http_close(h);
        return NULL;
    }
    set_up(h);
    return h;
}

void http_close(Http *h)
{
    if (h && h->curl)
        h->cleanup(h->curl);
    if (h && h->headers)
        h->free_all(h->headers);
    free(h);
}

static bool is_transient(int code)
{
    return code == E_RESOLVE || code == E_CONNECT || code == E_HTTP2 || code == E_PARTIAL
        || code == E_TIMEOUT || code == E_TLS || code == E_NOTHING || code == E_SEND
        || code == E_RECEIVE || code == E_STREAM;
}

bool http_get(Http *h, const char *url, uint64_t from, HttpTake *take, void *user,
              HttpReply *reply, bool *cut, Error *err)
{
    const bool secure = strncmp(url, "https://", 8) == 0;
    char       range[24];
    *reply            = (HttpReply){ .start = -1, .retry_after = -1 };
    h->take           = take;
    h->user           = user;
    h->reply          = reply;
    h->error[0]       = '\0';
    h->setopt(h->curl, OPT_URL, url);
    h->setopt(h->curl, OPT_REDIR_PROTOCOLS, (long)(PROTO_HTTPS | (secure ? 0 : PROTO_HTTP)));
    snprintf(range, sizeof range, "%" PRIu64 "-", from);
    h->setopt(h->curl, OPT_RANGE, from ? range : (char *)NULL);
    const int code = h->perform(h->curl);
    *cut           = is_transient(code);
    return code == 0
        || fail(err, SYSTEM, "%s: %s", url, h->error[0] ? h->error : h->text(code));
}
