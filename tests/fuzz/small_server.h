/* tests/fuzz/small_server.h: a server of the included model, which listens nowhere, for fuzzers.
 * Without libmicrohttpd there is no server, and nothing to try. */
#ifndef SMALL_SERVER_H
#define SMALL_SERVER_H

#include "fuzz.h"

#if defined(HAVE_MICROHTTPD)

#include "serve/server.h"
#include "small_model.h"

static Server       small;
static ServeOptions small_options;

/* Made by the first call, for good. */
static inline Server *small_server(void)
{
    tblock_error err;
    if (small.o)
        return &small;
    small_options = (ServeOptions){
        .name = "shakespeare", .chat_format = "alpaca", .host = "127.0.0.1", .parallel = 2,
        .queue = 2,
        .connections = 1000, .body_bytes = 1 << 16, .request_seconds = 60, .quiet = true,
    };
    small_open((tblock_context_options){ .n_seqs = 4 });
    small_options.model   = small_model;
    small_options.context = small_context;
    server_open(&small, &small_options);
    claim(log_open(&small.log, &small_options, &err));
    return &small;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    touch(bytes, n);
    return 0;
}

#endif
#endif
