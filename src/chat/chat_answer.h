/* chat/chat_answer.h: parses a model's answer: content, reasoning, tool calls.
 *
 * The markup of a model is found by rendering probe messages through its own chat template
 * (chat_probe.c; docs/templates.md, "Answers"), never by searching the template for words. What is
 * not found, or only ambiguously, stays content. Knows nothing of tokens. */
#ifndef CHAT_CHAT_ANSWER_H
#define CHAT_CHAT_ANSWER_H

#include "chat/jinja.h"

typedef struct AnswerForm AnswerForm; /* how a template writes answers; immutable */

/* What the template is rendered with besides the probes. */
typedef struct AnswerInput {
    const JsonNode    *own;    /* as in JinjaInput */
    const char        *args;   /* further variables, a JSON object; NULL: none */
    const char        *date;
    const char *const *roles;
    bool               tools;  /* the conversation has tools */
    /* The length of the special token of the vocabulary that s[0 .. n) begins with, or 0. NULL:
     * there is no vocabulary, and any text can be a marker. */
    size_t (*special)(const void *user, const char *s, size_t n);
    const void *user;
} AnswerInput;

/* NULL only with SYSTEM: no memory. If a template cannot render the probes, all text is content. */
AnswerForm *answer_form_new(const Jinja *t, const AnswerInput *in, Error *err);
void        answer_form_free(AnswerForm *f); /* NULL is accepted */

/* A marker as the template writes it, without the white space around it; n = 0: there is none. It
 * lives as long as the form. */
typedef struct AnswerMarker { const char *s; size_t n; } AnswerMarker;

typedef struct AnswerFacts {
    bool        reasoning, calls; /* calls: only if the conversation has tools */
    const char *reasoning_key;  /* the key of a message whose text the template renders as
                                 * reasoning; NULL: none */
    bool        text_arguments; /* it wants a call's arguments as a string, ... */
    bool        object_arguments; /* ... as an object; neither: unknown */
    bool        no_content;     /* with calls, it wants no content rather than an empty one */
    AnswerMarker primed;        /* what of the answer the prompt already has, with white space */
    AnswerMarker think, think_end, think_gap; /* around reasoning; white space after it */
    AnswerMarker call;          /* every call begins with it, anywhere in an answer, and
                                 * nothing else does */
} AnswerFacts;
AnswerFacts answer_form_facts(const AnswerForm *f);

/* May an answer continue after this text, which follows one of its parts? */
bool answer_goes_on(const AnswerForm *f, const char *text);

/* Content and reasoning; a call begins (its name), the id that the model wrote, a delta of its
 * arguments (the deltas make a JSON object), its end. */
typedef enum AnswerKind {
    ANSWER_CONTENT   = TBLOCK_ANSWER_CONTENT,
    ANSWER_REASONING = TBLOCK_ANSWER_REASONING,
    ANSWER_CALL      = TBLOCK_ANSWER_CALL,
    ANSWER_CALL_ID   = TBLOCK_ANSWER_CALL_ID,
    ANSWER_ARGUMENTS = TBLOCK_ANSWER_ARGUMENTS,
    ANSWER_CALL_END  = TBLOCK_ANSWER_CALL_END,
} AnswerKind;
typedef tblock_answer_part AnswerPart;

typedef struct Answer Answer; /* one answer, as it streams */

/* tools: the array that the template was given, or NULL; only read if a model writes arguments
 * without marking which are strings. Both must outlive the answer. NULL: no memory. */
Answer *answer_new(const AnswerForm *f, const JsonNode *tools, Error *err);
void    answer_free(Answer *a); /* NULL is accepted */
/* Does its invariant hold (chat_answer.c)? */
bool    answer_is_sound(const Answer *a);

/* Parse the next n bytes of the answer; special: they are the text of one special token. The
 * results are then in answer_parts. Bytes that may begin a marker are held back until that is
 * known. Special tokens that are no marker are dropped. Fails with SYSTEM. */
bool answer_put(Answer *a, const char *s, size_t n, bool special, Error *err);
/* The answer ended or was cut: emits what is held back, and closes what is open as it is. */
bool answer_end(Answer *a, Error *err);
/* The parts of the last call of these; valid until the next call. */
const AnswerPart *answer_parts(const Answer *a, size_t *n);

#endif
