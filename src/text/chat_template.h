/* text/chat_template.h: the templates of conversations that a model file does not bring along as
 * they are: those built in, and the one that stands for an old entry `chat`. */
#ifndef TEXT_CHAT_TEMPLATE_H
#define TEXT_CHAT_TEMPLATE_H

#include "base/error.h"

/* ---- chat_builtin.c -------------------------------------------------------------------------- */

/* The name of the i-th built-in template, from 0, in the order of the alphabet. NULL: past the last
 * one. */
const char *chat_builtin_name(size_t i);
/* The built-in template of that name, a text of Jinja; it sees what transformers passes: messages,
 * tools, add_generation_prompt, bos_token, eos_token. NULL: there is none. */
const char *chat_builtin_template(const char *name);

/* ---- chat_entry.c ---------------------------------------------------------------------------- */

/* A template that renders what the metadata entry `chat` of a model file says (docs/format.md,
 * "Chat"): the text of {bos} and {eos} are its variables bos_token and eos_token. It raises where
 * the entry has no place for what a conversation holds: a system text, roles in another order,
 * tools, contents that are not one text. The entry is read by chat_format_parse, which also gives
 * its name (chat_format_name) and stop texts (chat_format_stops). `what` begins each message. The
 * caller frees. NULL: what chat_format_parse refuses. */
char *chat_entry_template(const char *json, size_t n_bytes, const char *what, Error *err);

#endif
