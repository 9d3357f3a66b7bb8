/* text/chat_format.h: how a conversation becomes the text that a model was trained with. A format is data (docs/format.md,
 * "Chat"): forms of the system text, of a user's and of an assistant's turn, of what opens the answer, and what ends it.
 * Knows nothing of tokens: chat_render gives a text and says which stretches of it were written by whom. */
#ifndef TEXT_CHAT_FORMAT_H
#define TEXT_CHAT_FORMAT_H

#include "base/error.h"

typedef struct ChatFormat ChatFormat; /* immutable */

/* Read the metadata entry `chat`: a JSON object of at most 64 KiB. what begins the messages ("model.bin: chat"). NULL: INPUT
 * (not JSON, an unknown key or placeholder, a form without its content, a version above 1) or SYSTEM. */
ChatFormat *chat_format_parse(const char *json, size_t n_bytes, const char *what, Error *err);
void        chat_format_free(ChatFormat *f); /* NULL is accepted */

/* The formats that have a name of their own ("llama3"), as such JSON. i counts from 0; NULL past the last one. */
const char *chat_format_known(size_t i);
/* Their names, separated by commas; the caller frees. NULL: no memory. */
char *chat_format_names(Error *err);
/* NULL: USAGE, the message lists the names. */
ChatFormat *chat_format_named(const char *name, Error *err);

/* The format that a chat template (a Jinja program, as in tokenizer_config.json or a GGUF's tokenizer.chat_template) makes, in the
 * same JSON: found by the words it consists of among the common ones, then adjusted to the variant (trimmed contents, a default
 * system text, ...). The program is not run. *json: caller frees. INPUT: not among them; `what` begins the message. */
bool chat_format_recognise(const char *program, size_t n_bytes, const char *what, char **json, Error *err);

const char *chat_format_name(const ChatFormat *f);
size_t      chat_format_stops(const ChatFormat *f, const char *const **stop); /* texts or special tokens that end an answer */

/* What a system text meets: no place (rendering it fails), one where the format drops it, or one where it is told. */
typedef enum ChatSystem { CHAT_SYSTEM_NONE, CHAT_SYSTEM_IGNORED, CHAT_SYSTEM_TOLD } ChatSystem;
ChatSystem chat_format_system(const ChatFormat *f);

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;
const char *chat_role_name(ChatRole role);                  /* "system", "user" or "assistant" */
bool        chat_role_parse(const char *name, ChatRole *out); /* false: none of these, or NULL    */

/* Not NUL-terminated, any bytes. drawn: of an answer, the text exactly as the model's tokens spelled it after the opening; NULL:
 * not known. */
typedef struct ChatMessage { ChatRole role; const char *text; size_t n; const char *drawn; size_t n_drawn; } ChatMessage;

/* What lies outside the spans is the format's own text, in which special tokens count. */
typedef enum ChatSpanKind {
    CHAT_CONTENT,    /* of a message: whatever it spells is plain text                                            */
    CHAT_DRAWN,      /* an answer that stands there as it was drawn, right after the opening: its tokens may too  */
    CHAT_BOS, CHAT_EOS
} ChatSpanKind;
typedef struct ChatSpan { ChatSpanKind kind; size_t start, end, message; } ChatSpan;
typedef struct ChatText { char *text; size_t n; ChatSpan *span; size_t n_spans; } ChatText; /* release with chat_text_free */
void chat_text_free(ChatText *t);

/* Render messages [n]: a system text first or none, then turns. open: end with what opens the assistant's answer. bos, eos: how
 * these tokens are spelled, "" for none. Errors: INPUT (a system text without place or not in front; roles that do not alternate
 * where the format wants that; no message), SYSTEM. *out is filled on success only. */
bool chat_render(const ChatFormat *f, const ChatMessage *message, size_t n, bool open, const char *bos, const char *eos, ChatText *out,
                 Error *err);

/* What an answer's text begins with between the opening and its content, such as the space of "ASSISTANT: "; "" where the turn in
 * the conversation does not begin with the opening. *out: caller frees. SYSTEM without memory. */
bool chat_answer_prefix(const ChatFormat *f, const char *bos, const char *eos, char **out, Error *err);

#endif
