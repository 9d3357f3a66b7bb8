/* text/chat_form.h: one form of a chat format, a text with placeholders, as a list of parts. Shared by chat_format.c, which
 * reads it, and chat_render.c, which writes it out. */
#ifndef TEXT_CHAT_FORM_H
#define TEXT_CHAT_FORM_H

#include "text/chat_format.h"

typedef enum FormPartKind { FORM_TEXT, FORM_CONTENT, FORM_SYSTEM, FORM_BOS, FORM_EOS, FORM_TRIM, FORM_TRIM_END } FormPartKind;
typedef struct FormPart { FormPartKind kind; const char *text; size_t n; } FormPart; /* text: of FORM_TEXT */
typedef struct ChatForm { bool given; FormPart *part; size_t n_parts; char *texts; } ChatForm;

typedef enum FormName {
    CHAT_BEGIN, CHAT_SYSTEM_TURN, CHAT_USER_TURN, CHAT_USER_FIRST, CHAT_USER_SYSTEM, CHAT_ASSISTANT_TURN, CHAT_OPEN, CHAT_CLOSE,
    CHAT_FORMS
} FormName;

struct ChatFormat {
    char       *name;
    ChatForm    form[CHAT_FORMS];
    char       *default_system; /* NULL: none */
    bool        system_at_last; /* user_system is the form of the last turn, if that is a user's; else of the first user turn */
    bool        alternate;
    char       *thinking_end;   /* of an earlier answer only what follows the last one counts; NULL: all of it */
    bool        thinking_strip; /* newlines after it go too                                                    */
    const char **stop;
    size_t      n_stops;
};

#endif
