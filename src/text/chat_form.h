/* text/chat_form.h: the insides of a chat format. Each form, a text with placeholders, is a list of
 * parts. chat_format.c reads them and chat_render.c writes them out; no other file includes
 * this. */
#ifndef TEXT_CHAT_FORM_H
#define TEXT_CHAT_FORM_H

#include "text/chat_format.h"

typedef enum FormPartKind { FORM_TEXT, FORM_CONTENT, FORM_SYSTEM, FORM_BOS, FORM_EOS, FORM_TRIM, FORM_TRIM_END } FormPartKind;
/* text is set for FORM_TEXT only. */
typedef struct FormPart { FormPartKind kind; const char *text; size_t n; } FormPart;
typedef struct ChatForm { bool given; FormPart *part; size_t n_parts; char *texts; } ChatForm;

typedef enum FormName {
    CHAT_BEGIN, CHAT_SYSTEM_TURN, CHAT_USER_TURN, CHAT_USER_FIRST, CHAT_USER_SYSTEM, CHAT_ASSISTANT_TURN, CHAT_OPEN, CHAT_CLOSE,
    CHAT_FORMS
} FormName;

struct ChatFormat {
    char       *name;
    ChatForm    form[CHAT_FORMS];
    char       *default_system; /* NULL: none */
    /* user_system is used for the last turn if that is a user's; else for the first user turn. */
    bool        system_at_last;
    bool        alternate;
    /* From an earlier answer, only what follows the last thinking_end is kept; NULL: all of it. */
    char       *thinking_end;
    bool        thinking_strip; /* also drop newlines after it */
    const char **stop;
    size_t      n_stops;
};

#endif
