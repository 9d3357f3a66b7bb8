/* api/chat.h: the chat format that a model's source brings along. */
#ifndef API_CHAT_H
#define API_CHAT_H

#include "text/chat_format.h"

enum { CHAT_MOST_MESSAGES = 1 << 20 }; /* in a conversation */

/* Finds the chat format of a source. chat: the metadata entry `chat` (docs/format.md, "Chat"),
 * or NULL. Without it, program: a chat template as its author wrote it (a GGUF's
 * tokenizer.chat_template, tokenizer_config.json), which is recognised, or NULL. *out is NULL if
 * both are. path begins the messages. Fails with INPUT (bad JSON, an unknown template) or
 * SYSTEM. */
bool chat_source_format(const char *path, const char *chat, const char *program, ChatFormat **out, Error *err);

#endif
