/* chat/jinja.h: runs Jinja templates unchanged, over marked text.
 *
 * The language and its environment are those of transformers' apply_chat_template: Jinja2 in its
 * immutable sandbox with trim_blocks, lstrip_blocks, loop controls, {% generation %},
 * raise_exception and transformers' own tojson. docs/templates.md says what is supported and what
 * is rejected. Knows nothing of tokens or conversations. */
#ifndef CHAT_JINJA_H
#define CHAT_JINJA_H

#include "base/error.h"
#include "base/json.h"

typedef struct Jinja Jinja; /* a parsed template; immutable */

/* Parse a template, n_bytes of UTF-8, which need not outlive the call. `what` names it in messages;
 * it is copied. NULL: INPUT (not a template, or an unsupported part of the language; the message
 * has line and column) or SYSTEM. */
Jinja *jinja_parse(const char *text, size_t n_bytes, const char *what, Error *err);
void   jinja_free(Jinja *t); /* NULL is accepted */

/* Text that knows the source of each byte: mark[i] is 1 for a byte of the template (or of `own`),
 * and 0 for one that came from the data or that a filter made. A special token may be read only
 * where mark is 1. Release with jinja_text_free. */
typedef struct JinjaText { char *text, *mark; size_t n; } JinjaText;
void jinja_text_free(JinjaText *t);

/* What a template sees: own holds the variables that count as the template's text (bos_token),
 * given the data (messages). Both are objects or NULL; a name in both is own's. date, as
 * YYYY-MM-DD, defines strftime_now; NULL: it is undefined. A text in the data that has the key
 * `role` and is one of `roles` (a list that ends with NULL; NULL: none) also counts as the
 * template's: the caller chose that word, and templates spell special tokens with it, as in
 * '<|' + role + '|>'. */
typedef struct JinjaInput {
    const JsonNode    *own, *given;
    const char        *date;
    const char *const *roles;
} JinjaInput;

/* Renders it. At most 64 MB of memory and 20 million steps, about a second. *out is filled on
 * success only. Errors: INPUT (the template raised one, or exceeded these limits), SYSTEM. */
bool jinja_render(const Jinja *t, const JinjaInput *in, JinjaText *out, Error *err);
/* The same with fewer steps, for renderings that only probe what a template does. */
bool jinja_render_within(const Jinja *t, const JinjaInput *in, unsigned steps, JinjaText *out,
                         Error *err);

/* Calls fn with each string constant in the template's expressions. */
void jinja_constants(const Jinja *t, void (*fn)(void *, const char *, size_t), void *user);

#endif
