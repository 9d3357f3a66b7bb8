/* chat/chat_probe.h: the internals of probing a template. Only chat/chat_probe*.c include it.
 *
 * chat_probe.c finds how reasoning is written, chat_probe_calls.c how calls are; both use what
 * chat_probe_text.c does with probes and literals. */
#ifndef CHAT_CHAT_PROBE_H
#define CHAT_CHAT_PROBE_H

#include "chat/chat_answer_parts.h"

#define USER      "{\"role\": \"user\", \"content\": \"q\"}"
#define LATER     ", " USER ", {\"role\": \"assistant\", \"content\": \"b\"}, " USER
#define CONTENT   "Wqcontent"
#define REASONING "Wqreason"
#define NAME_1    "qzfirst"
#define NAME_2    "xwsecond"
#define ID_1      "q1w2e3r4t" /* nine letters and digits, as some templates require */
#define ID_2      "z9x8c7v6b"
#define KEY_1     "karg1"
#define KEY_2     "karg2"
#define TEXT_1    "vala1"
#define TEXT_2    "valb2"
#define NUMBER_1  "50171"
#define NUMBER_2  "50282"
#define TEXTS     "{\"" KEY_1 "\": \"" TEXT_1 "\", \"" KEY_2 "\": \"" TEXT_2 "\"}"
#define NUMBERS   "{\"" KEY_1 "\": " NUMBER_1 ", \"" KEY_2 "\": " NUMBER_2 "}"
#define ONE_TEXT  "{\"" KEY_2 "\": \"" TEXT_2 "\"}"
#define ONE_NUMBER "{\"" KEY_2 "\": " NUMBER_2 "}"

#define PROPERTY(key) "\"" key "\": {\"type\": \"string\", \"description\": \"d\"}"
#define TOOL(name)                                                                                 \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"description\": \"d\", "     \
    "\"parameters\": {\"type\": \"object\", \"properties\": {" PROPERTY(KEY_1) ", "               \
    PROPERTY(KEY_2) "}, \"required\": [\"" KEY_1 "\"]}}}"
#define TOOLS "[" TOOL(NAME_1) ", " TOOL(NAME_2) "]"

/* With tools or without: the end of the prompt, a last answer, and an answer with a turn after it;
 * where the answer begins in each, and the text before and after its content. */
typedef struct ProbePlace {
    bool  tools;
    char *prompt, *plain, *earlier;
    size_t begins;
} ProbePlace;

typedef struct Probing {
    const Jinja       *t;
    const AnswerInput *in;
    Error             *err;
    bool               no_memory;
    AnswerForm        *f;
    ProbePlace         here, with_tools;
    const char        *content;     /* of a message with calls, with its key */
    bool               as_text;     /* arguments as a string */
    bool               thinking_off;
} Probing;

/* ---- chat_probe_text.c: renderings ----------------------------------------------------------- */

/* NULL: it fails, as all of these. messages: what follows the user's first, or "". */
char *probe_render(Probing *p, const char *messages, bool tools, bool prompt);
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
char *probe_answer(Probing *p, bool tools, const char *fmt, ...);
/* An answer with one call, or with two if args_2 is not NULL. content: as it is in the message. */
char *probe_calls(Probing *p, const char *content, const char *args_1, const char *args_2);
char *probe_taken(Probing *p, TextOut *o); /* text_out_take; NULL: no memory, which p notes */
/* Does parsing the text give this content, reasoning and so on? NULL: anything. */
bool  probe_reads(Probing *p, const char *text, const char *content, const char *reasoning,
                  const char *calls);

/* Renders what w holds. False: the template writes no content. */
bool  place_find(Probing *p, ProbePlace *w, bool tools);
void  place_narrow(ProbePlace *w, const char *text); /* the answer begins where text differs */

static inline const char *after_word(const char *s, const char *word)
{
    return s ? s + strlen(word) : NULL;
}

/* ---- chat_probe_text.c: literals, by their cores, which have no white space around ----------- */

/* False: too long, or absent (to is before from). */
bool  literal_set(const Probing *p, Literal *l, const char *from, const char *to);
void  literal_set_range(Literal *l); /* of the core, after s and n changed */
bool  literal_same(const Literal *a, const Literal *b);
bool  literal_begins(const Literal *a, const Literal *b); /* does a begin with b? */
bool  literal_ends(const Literal *a, const Literal *b);
void  literal_drop_front(Literal *l, size_t n);
void  literal_drop_back(Literal *l, size_t n);
bool  literal_drop(Literal *l, const Literal *front); /* false: it does not begin with front */
/* Some templates put empty reasoning before everything else: remove it from what follows it. */
void  literal_drop_reasoning(const AnswerForm *f, Literal *l);

/* ---- chat_probe_calls.c ---------------------------------------------------------------------- */

void  probe_find_calls(Probing *p); /* fills the form's calls */
/* Where the first call begins in a rendering: its JSON value, or its first word. */
const char *call_start(const CallForm *c, const char *from, const char *name, const char *id,
                       const char **end);
bool  calls_are_read(Probing *p); /* does the form parse the probes that it was made from? */

#endif
