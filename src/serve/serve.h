/* serve/serve.h: one model for many users, over HTTP. A client of the public headers. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "tblock.h"

/* An adapter of the model, which requests name in its place. */
typedef struct ServeAdapter { const char *name; const struct tblock_lora *use; } ServeAdapter;

typedef struct ServeOptions {
    tblock_model   *model;
    tblock_context *context;      /* of as many sequences as it should remember */
    const char     *name;         /* of the model in answers */
    const ServeAdapter *adapter;  /* [n_adapters] */
    size_t          n_adapters;
    const char     *chat_format, *date; /* as in tblock_chat_options */
    const char     *host;         /* an address or "localhost" */
    int             port;         /* 0: a free one */
    const char     *keys;         /* [n_keys] texts, each with its NUL; none: no key is asked for */
    size_t          n_keys;
    const char    **origin;       /* [n_origins] pages of which other sites may ask; "*": any */
    size_t          n_origins;
    const char    **allowed_host; /* [n_allowed_hosts] names under which it may be asked */
    size_t          n_allowed_hosts;
    int             draft, draft_match; /* of each text: as in tblock_generation_options */
    int             parallel;     /* most generations at once */
    int             queue;        /* most requests that wait */
    int             connections;  /* most of them */
    size_t          body_bytes;   /* most bytes of a request */
    size_t          kv_bytes;     /* most bytes of KV cache; 0: no limit of its own */
    int             request_seconds; /* that a client may take to send one */
    double          timeout_s;    /* of a request, from its arrival; 0: none */
    int             listens;      /* serve_listen's, where it was called before; else 0 */
    bool            lenient;      /* unknown parameters are no error */
    const char     *log;          /* a file for the lines of the log; NULL: standard error */
    bool            log_prompts;
    bool            quiet;
} ServeOptions;

/* The socket of these options, of which host, port and keys count; who comes waits. For a process
 * that enters a sandbox before the model is read. -1: as serve fails. */
int serve_listen(const ServeOptions *o, tblock_error *err);

/* Serve until SIGTERM or SIGINT: then no new work, and what runs may end; the second one ends it at
 * once. Prints the address to standard output when it listens, a line for each request to the log,
 * which SIGHUP opens again. Fails with TBLOCK_USAGE (an address that cannot be had, no key for an
 * open address) and TBLOCK_SYSTEM. */
bool serve(const ServeOptions *o, tblock_error *err);

/* Asks the server at an address for /health (check.c). Fails with TBLOCK_NO where it does not
 * answer that it is well, within seconds, and TBLOCK_USAGE (no address). */
bool serve_check(const char *host, int port, tblock_error *err);

#endif
