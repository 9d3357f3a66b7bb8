/* text/chat_format.h: the forms of conversations. */
#ifndef TEXT_CHAT_FORMAT_H
#define TEXT_CHAT_FORMAT_H

#include "base/error.h"

/* ---- chat_format.c --------------------------------------------------------------------------- */

/* Turns a conversation into the text that a model was trained with. A format is
 * data (docs/format.md, "Chat"): one form each for the system text, a user's turn, an assistant's
 * turn and the opening of an answer, and the texts that end an answer. Knows nothing of tokens:
 * chat_render returns a text and says who wrote which part of it. */

typedef struct ChatFormat ChatFormat; /* immutable */

/* Read the metadata entry `chat`, a JSON object of at most 64 KiB. `what` begins each message
 * ("model.bin: chat"). NULL: INPUT (not JSON, an unknown key or placeholder, a form without its
 * content, a version above 1) or SYSTEM. */
ChatFormat *chat_format_parse(const char *json, size_t n_bytes, const char *what, Error *err);
void        chat_format_free(ChatFormat *f); /* NULL is accepted */

/* The name of the i-th known format ("llama3"); i counts from 0. NULL: past the last one. */
const char *chat_format_known(size_t i);
/* The names of all known formats, separated by commas; the caller frees. NULL: no memory. */
char *chat_format_names(Error *err);
/* The known format of that name. NULL: USAGE, with a message that lists the names; or SYSTEM. */
ChatFormat *chat_format_named(const char *name, Error *err);

/* Find the format that a chat template makes: a Jinja program from tokenizer_config.json or from a
 * GGUF's tokenizer.chat_template. The program is not run. It is recognised by words that only one
 * of the common templates has; the format is then adjusted to the variant at hand (trimmed
 * contents, a default system text and so on). *json is the format as JSON; the caller frees. INPUT:
 * the template is not a known one; `what` begins the message. */
bool chat_format_recognise(const char *program, size_t n_bytes, const char *what, char **json,
                           Error *err);

/* The key "name" of the format; "custom" if it has none. */
const char *chat_format_name(const ChatFormat *f);
/* The number of texts or special tokens that end an answer; *stop points at them. */
size_t      chat_format_stops(const ChatFormat *f, const char *const **stop);

/* What happens to a system text: there is no place for it (rendering fails), the format drops it,
 * or the model is told. */
typedef enum ChatSystem { CHAT_SYSTEM_NONE, CHAT_SYSTEM_IGNORED, CHAT_SYSTEM_TOLD } ChatSystem;
ChatSystem chat_format_system(const ChatFormat *f);

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;
const char *chat_role_name(ChatRole role);                  /* "system", "user" or "assistant" */
bool        chat_role_parse(const char *name, ChatRole *out); /* false: another name, or NULL     */

/* A message: any bytes, not NUL-terminated. drawn: for an answer, the exact text that the model's
 * tokens spelled after the opening; NULL: not known. */
typedef struct ChatMessage {
    ChatRole role; const char *text; size_t n; const char *drawn; size_t n_drawn;
} ChatMessage;

/* Text outside the spans is the format's own; special tokens count there. */
typedef enum ChatSpanKind {
    CHAT_CONTENT,    /* a message's text: always plain, whatever it spells */
    /* An answer exactly as the model wrote it, right after the opening. Its own tokens may be used
     * again. */
    CHAT_DRAWN,
    CHAT_BOS, CHAT_EOS
} ChatSpanKind;
typedef struct ChatSpan { ChatSpanKind kind; size_t start, end, message; } ChatSpan;
/* Release with chat_text_free. */
typedef struct ChatText { char *text; size_t n; ChatSpan *span; size_t n_spans; } ChatText;
void chat_text_free(ChatText *t);

/* Render messages [n]: at most one system text, which comes first, then turns. open: end with the
 * opening of the assistant's answer. bos, eos: how these tokens are spelled, "" if there is none.
 * Errors: INPUT (a system text that has no place or is not first; roles that do not alternate
 * although the format demands it; no message), SYSTEM. *out is filled on success only. */
bool chat_render(const ChatFormat *f, const ChatMessage *message, size_t n, bool open,
                 const char *bos, const char *eos, ChatText *out, Error *err);

/* The text that a format puts between the opening and the content of an answer, such as the space
 * of "ASSISTANT: ". It is "" if the assistant's turn does not begin with the opening. The caller
 * frees *out. Errors: SYSTEM. */
bool chat_answer_prefix(const ChatFormat *f, const char *bos, const char *eos, char **out,
                        Error *err);

/* ---- chat form ------------------------------------------------------------------------------- */

/* The insides of a chat format. Each form, a text with placeholders, is a list of
 * parts. chat_format.c reads them and chat_render.c writes them out; no other file includes
 * this. */

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

/* ---- chat_known.c ---------------------------------------------------------------------------- */

/* The chat formats that tblock knows by name, as rows of texts. chat_known.c has
 * the table and writes a row as JSON; chat_recognise.c starts from a row and adjusts it. */

enum { CHAT_KNOWN_STOPS = 2 };

/* NULL: the key is left out. docs/format.md explains the keys. */
typedef struct ChatKnown {
    const char *name, *begin, *system, *user, *user_first, *user_system, *assistant, *open, *close,
        *default_system, *thinking_end;
    const char *stop[CHAT_KNOWN_STOPS];
    bool        system_at_last, alternate, thinking_strip;
} ChatKnown;

const ChatKnown *chat_known_find(const char *name); /* NULL: none */
/* The row as JSON; the caller frees. NULL: no memory. */
char            *chat_known_json(const ChatKnown *k, Error *err);

#endif
