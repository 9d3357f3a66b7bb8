/* serve/messages.h: what /v1/messages keeps from its request (message_input.c) to its response
 * (messages.c). No other file includes this. */
#ifndef SERVE_MESSAGES_H
#define SERVE_MESSAGES_H

#include "serve/server.h"

enum { NO_BLOCK = -1 };

typedef struct Messages {
    Talk    talk;
    size_t  n_stops;  /* the first stop strings are the request's */
    int     open;     /* the block being written: TBLOCK_ANSWER_CONTENT, REASONING, CALL, or
                       * none */
    bool    begun;    /* its start was emitted */
    size_t  n_blocks; /* before it */
    size_t  call;     /* its number */
    TextOut text;     /* of it, if blocks are not streamed */
} Messages;

/* Read a request, and open its chat. generates: it generates a reply. */
bool messages_read(Exchange *x, const JsonDoc *d, bool generates, Settings *s, Messages *out);

#endif
