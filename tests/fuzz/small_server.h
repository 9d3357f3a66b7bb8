/* tests/fuzz/small_server.h: a server of the included model, which listens nowhere, for fuzzers.
 * Without libmicrohttpd there is no server, and nothing to try. */
#ifndef SMALL_SERVER_H
#define SMALL_SERVER_H

#include "fuzz.h"

#if defined(HAVE_MICROHTTPD)

#include "serve/server.h"

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
    small_options.model = tblock_open("models/shakespeare.bin", NULL, &err);
    claim(small_options.model != NULL);
    small_options.context = tblock_context_new(
        small_options.model, &(tblock_context_options){ .n_seqs = 4, .threads = 1 }, &err);
    claim(small_options.context != NULL);
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
