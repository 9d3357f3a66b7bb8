/* chat/chat_format.h: chat formats, as old model files describe them. */
#ifndef CHAT_CHAT_FORMAT_H
#define CHAT_CHAT_FORMAT_H

#include "base/error.h"

/* Reads the metadata entry `chat` (docs/format.md, "The entry chat"): one form each for the system
 * message, a user's turn, an assistant's turn and the generation prompt, and the stop strings.
 * chat_entry.c makes a template of it. */

typedef struct ChatFormat ChatFormat; /* immutable */

/* Read the entry, a JSON object of at most 64 KiB. `what` begins each message ("model.bin: chat").
 * NULL: INPUT (not JSON, an unknown key or placeholder, a form without its content, a version above
 * 1) or SYSTEM. */
ChatFormat *chat_format_parse(const char *json, size_t n_bytes, const char *what, Error *err);
void        chat_format_free(ChatFormat *f); /* NULL is accepted */

/* The key "name" of the format; "custom" if it has none. */
const char *chat_format_name(const ChatFormat *f);
/* The number of stop strings or special tokens that end an answer; *stop points at them. */
size_t      chat_format_stops(const ChatFormat *f, const char *const **stop);

/* What happens to a system message: the format has none (rendering fails), drops it, or renders
 * it. */
typedef enum ChatSystem { CHAT_SYSTEM_NONE, CHAT_SYSTEM_IGNORED, CHAT_SYSTEM_TOLD } ChatSystem;
ChatSystem chat_format_system(const ChatFormat *f);

/* ---- Internals, for chat_entry.c ------------------------------------------------------------- */

/* Each form, a text with placeholders, is a list of parts. */

typedef enum FormPartKind {
    FORM_TEXT,
    FORM_CONTENT,
    FORM_SYSTEM,
    FORM_BOS,
    FORM_EOS,
    FORM_TRIM,
    FORM_TRIM_END
} FormPartKind;
/* text is set for FORM_TEXT only. */
typedef struct FormPart { FormPartKind kind; const char *text; size_t n; } FormPart;
typedef struct ChatForm { bool given; FormPart *part; size_t n_parts; char *texts; } ChatForm;

typedef enum FormName {
    CHAT_BEGIN, CHAT_SYSTEM_TURN, CHAT_USER_TURN, CHAT_USER_FIRST, CHAT_USER_SYSTEM,
    CHAT_ASSISTANT_TURN, CHAT_OPEN, CHAT_CLOSE,
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
