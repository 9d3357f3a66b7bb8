/* serve/messages.h: what /v1/messages keeps from its request (message_input.c) to its response
 * (messages.c). No other file includes this. */
#ifndef SERVE_MESSAGES_H
#define SERVE_MESSAGES_H

#include "serve/server.h"

typedef struct Messages {
    Talk   talk;
    size_t n_stops; /* the first stop strings are the request's */
} Messages;

/* Read a request, and open its chat. generates: it generates a reply. */
bool messages_read(Exchange *x, const JsonDoc *d, bool generates, Settings *s, Messages *out);

#endif
