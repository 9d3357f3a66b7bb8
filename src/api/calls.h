/* api/calls.h: constraints for tool calls: how a chat's template writes calls (chat_calls.c), and
 * the grammar made from it (calls_constraint.c). */
#ifndef API_CALLS_H
#define API_CALLS_H

#include "api/fitting.h"

enum { MARK_NAME = 1, MARK_ID = 2 }; /* bytes that stand for a name and an id in the texts below */

/* What a template writes before the arguments of the first call and of later ones, and after the
 * last call. Optional calls begin with a marker; if the prompt opens reasoning, all calls follow
 * its end. */
typedef struct CallFrame {
    TextOut      first, next, end;
    bool         several, thinks;  /* more than one call possible; the prompt opens reasoning */
    AnswerMarker begins;           /* n = 0: calls are required */
    AnswerMarker think, think_end; /* around reasoning; n = 0: none */
} CallFrame;
void call_form_free(CallFrame *f); /* frees its texts; accepts a zeroed one */

/* A constraint to calls of the tool `name`, or of any (NULL), in an array of tools in OpenAI's
 * form; begun: as in constraint_over. It keeps a text of itself if the form is UTF-8 and the tools
 * are few enough. */
tblock_constraint *calls_constraint(const tblock_model *m, const CallFrame *form,
                                    const JsonDoc *tools, const char *name, int64_t begun,
                                    Error *err);
/* The same constraint from that text (docs/receipts.md), which is untrusted input. */
tblock_constraint *calls_constraint_read(const tblock_model *m, const char *text, size_t n,
                                         const char *what, Error *err);

#endif
