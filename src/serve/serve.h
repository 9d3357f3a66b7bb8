/* serve/serve.h: one model for many users, over HTTP. A client of the public headers. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "tblock.h"

/* An adapter of the model, which requests may name instead of the model. */
typedef struct ServeAdapter { const char *name; const struct tblock_lora *use; } ServeAdapter;

typedef struct ServeOptions {
    tblock_model   *model;
    tblock_context *context;      /* its n_seqs: slots and cached prefixes */
    const char     *name;         /* of the model in responses */
    const ServeAdapter *adapter;  /* [n_adapters] */
    size_t          n_adapters;
    const char     *chat_format, *date; /* as in tblock_chat_options */
    const char     *host;         /* an address or "localhost" */
    int             port;         /* 0: a free one */
    const char     *keys;         /* [n_keys] API keys, each with its NUL; none: none is required */
    size_t          n_keys;
    const char    **origin;       /* [n_origins] origins that may send requests (CORS); "*": any */
    size_t          n_origins;
    const char    **allowed_host; /* [n_allowed_hosts] names accepted in the Host header */
    size_t          n_allowed_hosts;
    int             draft, draft_match; /* of each generation: as in tblock_generation_options */
    int             parallel;     /* most generations at once (slots) */
    int             queue;        /* most waiting requests */
    int             connections;  /* most open connections */
    size_t          body_bytes;   /* most bytes of a request */
    size_t          kv_bytes;     /* most bytes of KV cache; 0: no limit of its own */
    int             request_seconds; /* that a client may take to send one */
    double          timeout_s;    /* of a request, from its arrival; 0: none */
    int             listens;      /* serve_listen's, if it was called before; else 0 */
    bool            share_cache;  /* keys share cached prefixes */
    bool            lenient;      /* unknown parameters are no error */
    const char     *log;          /* the log file; NULL: standard error */
    bool            log_prompts;
    bool            quiet;
} ServeOptions;

/* The listening socket for these options, of which host, port and keys count; clients wait. For a
 * process that enters a sandbox before it reads the model. -1: fails as serve does. */
int serve_listen(const ServeOptions *o, tblock_error *err);

/* Serve until SIGTERM or SIGINT: then accept no new work and finish what runs; a second signal ends
 * it at once. Prints the address to standard output when it listens, and a line for each request to
 * the log, which SIGHUP reopens. Fails with TBLOCK_USAGE (an address that cannot be used, no key
 * for an open address) and TBLOCK_SYSTEM. */
bool serve(const ServeOptions *o, tblock_error *err);

/* The tiles of KV cache that one text of n_ctx tokens may take: the least of a server. */
size_t serve_text_tiles(int n_ctx);

/* Queries /health of the server at an address (check.c). Fails with TBLOCK_NO unless it responds
 * within seconds that it is healthy, and TBLOCK_USAGE (no address). */
bool serve_check(const char *host, int port, tblock_error *err);

#endif
