/* api/calls.h: constraints under which an answer calls tools: how a chat's template writes calls
 * (chat_calls.c), and what may be drawn then (calls_constraint.c). */
#ifndef API_CALLS_H
#define API_CALLS_H

#include "api/fitting.h"

enum { MARK_NAME = 1, MARK_ID = 2 }; /* bytes that stand for them in these texts */

/* What is written before the arguments of the first call and of a later one, and after the last.
 * Calls that need not come begin behind a marker, and where the prompt opens reasoning, all come
 * behind its end. */
typedef struct CallFrame {
    TextOut      first, next, end;
    bool         several, thinks;  /* may there be more than one? does the prompt open reasoning? */
    AnswerMarker begins;           /* n = 0: the answer is calls */
    AnswerMarker think, think_end; /* around reasoning; n = 0: there is none */
} CallFrame;
void call_form_free(CallFrame *f); /* its texts; a zeroed one is accepted */

/* The calls of this tool of an array in OpenAI's form, or of any (NULL); begun: as in
 * constraint_over. The constraint has a text if the form is UTF-8 and the tools are not too many
 * for one. */
tblock_constraint *calls_constraint(const tblock_model *m, const CallFrame *form,
                                    const JsonDoc *tools, const char *name, int64_t begun,
                                    Error *err);
/* The same constraint by its text (docs/receipts.md), which may be anybody's. */
tblock_constraint *calls_constraint_read(const tblock_model *m, const char *text, size_t n,
                                         const char *what, Error *err);

#endif
