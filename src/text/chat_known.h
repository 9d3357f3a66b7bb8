/* text/chat_known.h: the chat formats that tblock knows by name, as rows of texts. chat_known.c has
 * the table and writes a row as JSON; chat_recognise.c starts from a row and adjusts it. */
#ifndef TEXT_CHAT_KNOWN_H
#define TEXT_CHAT_KNOWN_H

#include "text/chat_format.h"

enum { CHAT_KNOWN_STOPS = 2 };

/* NULL: the key is left out. docs/format.md explains the keys. */
typedef struct ChatKnown {
    const char *name, *begin, *system, *user, *user_first, *user_system, *assistant, *open, *close, *default_system, *thinking_end;
    const char *stop[CHAT_KNOWN_STOPS];
    bool        system_at_last, alternate, thinking_strip;
} ChatKnown;

const ChatKnown *chat_known_find(const char *name); /* NULL: none */
/* The row as JSON; the caller frees. NULL: no memory. */
char            *chat_known_json(const ChatKnown *k, Error *err);

#endif
