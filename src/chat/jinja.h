/* chat/jinja.h: Jinja templates, run as they are, over marked text.
 *
 * The language and its environment are those of transformers' apply_chat_template: Jinja2 in its
 * immutable sandbox with trim_blocks, lstrip_blocks, loop controls, {% generation %},
 * raise_exception and transformers' own tojson. docs/templates.md says what is kept and what is
 * refused. Knows nothing of tokens or conversations. */
#ifndef CHAT_JINJA_H
#define CHAT_JINJA_H

#include "base/error.h"
#include "base/json.h"

typedef struct Jinja Jinja; /* a template that was read; immutable */

/* Read a template, n_bytes of UTF-8, which need not outlive the call. `what` names it in each
 * message; it is copied. NULL: INPUT (no template, or a part of the language that is refused; the
 * message has line and column) or SYSTEM. */
Jinja *jinja_parse(const char *text, size_t n_bytes, const char *what, Error *err);
void   jinja_free(Jinja *t); /* NULL is accepted */

/* Text whose every byte knows where it comes from: mark[i] is 1 for a byte that stood in the
 * template (or in `own`), and 0 for one that came from the data or was made by a filter. Only
 * where mark is 1 may a special token be read. Release with jinja_text_free. */
typedef struct JinjaText { char *text, *mark; size_t n; } JinjaText;
void jinja_text_free(JinjaText *t);

/* What a template sees: own holds the variables that count as the template's text (bos_token),
 * given the data (messages). Both are objects or NULL; a name in both is own's. date, as
 * YYYY-MM-DD, defines strftime_now; NULL: it is undefined. A text in the data that has the key
 * `role` and is one of `roles` (a list that ends with NULL; NULL: none) counts as the template's
 * too: it is a word of the caller's, and templates spell special tokens with it, as in
 * '<|' + role + '|>'. */
typedef struct JinjaInput {
    const JsonNode    *own, *given;
    const char        *date;
    const char *const *roles;
} JinjaInput;

/* Run it. At most 64 MB of memory and 20 million steps, about a second. *out is filled on success
 * only. Errors: INPUT (the template raised one, or asked for more than that), SYSTEM. */
bool jinja_render(const Jinja *t, const JinjaInput *in, JinjaText *out, Error *err);
/* The same with fewer steps, for renderings that only find out what a template does. */
bool jinja_render_within(const Jinja *t, const JinjaInput *in, unsigned steps, JinjaText *out,
                         Error *err);

/* Calls fn with each text that stands in the template's expressions. */
void jinja_constants(const Jinja *t, void (*fn)(void *, const char *, size_t), void *user);

#endif
