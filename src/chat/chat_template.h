/* chat/chat_template.h: conversations as a chat template writes them, as text and as tokens. Here
 * too are the templates that a model file does not bring along as they are: those built in, and the
 * one that stands for an old entry `chat`. */
#ifndef CHAT_CHAT_TEMPLATE_H
#define CHAT_CHAT_TEMPLATE_H

#include "base/error.h"
#include "chat/chat_answer.h"
#include "chat/jinja.h"
#include "tokenizer/tokenizer.h"

/* ---- chat_builtin.c -------------------------------------------------------------------------- */

/* The name of the i-th built-in template, from 0, in the order of the alphabet. NULL: past the last
 * one. */
const char *chat_builtin_name(size_t i);
/* The built-in template of that name, a text of Jinja; it sees what transformers passes: messages,
 * tools, add_generation_prompt, bos_token, eos_token. NULL: there is none. */
const char *chat_builtin_template(const char *name);

/* ---- chat_entry.c ---------------------------------------------------------------------------- */

/* A template that renders what the metadata entry `chat` of a model file says (docs/format.md,
 * "Chat"): the text of {bos} and {eos} are its variables bos_token and eos_token. It raises where
 * the entry has no place for what a conversation holds: a system text, roles in another order,
 * tools, contents that are not one text. The entry is read by chat_format_parse, which also gives
 * its name (chat_format_name) and stop texts (chat_format_stops). `what` begins each message. The
 * caller frees. NULL: what chat_format_parse refuses. */
char *chat_entry_template(const char *json, size_t n_bytes, const char *what, Error *err);

/* ---- conversation.c -------------------------------------------------------------------------- */

/* A template with all that it sees besides the messages, as transformers' apply_chat_template
 * passes it: special tokens, tools, documents, add_generation_prompt, and what the user adds. */
typedef struct ChatTemplate ChatTemplate; /* immutable */

typedef struct ChatTemplateOptions {
    const char *text, *what; /* the template; what names it in messages */
    const char *special;     /* a JSON object of special tokens (docs/format.md, "Chat"), or NULL */
    const char *bos, *eos;   /* bos_token and eos_token if special does not say them; "": none */
    const char *args;        /* more variables: a JSON object, or NULL */
    const char *tools;       /* a JSON array of objects, or NULL */
    const char *date;        /* for strftime_now, as YYYY-MM-DD; NULL: it is undefined */
} ChatTemplateOptions;

/* NULL: USAGE (args, tools or date are not that), INPUT (the template, special), SYSTEM. */
ChatTemplate *chat_template_new(const ChatTemplateOptions *o, Error *err);
void          chat_template_free(ChatTemplate *t); /* NULL is accepted */

/* How the template's answers are read; and its tools, or NULL. NULL: SYSTEM. */
AnswerForm     *chat_template_answers(const ChatTemplate *t, Error *err);
const JsonDoc  *chat_template_tools(const ChatTemplate *t);

/* A message: json, a JSON object, or NULL and then role and text. Of an answer: ids [n_ids], the
 * tokens that the model drew after the generation prompt, which spell drawn; NULL: not known. */
typedef struct ChatTurn {
    const char *role, *text; size_t n; const char *json;
    const int32_t *ids; size_t n_ids; const char *drawn; size_t n_drawn;
} ChatTurn;

/* A conversation of one template, ready to render; it borrows its n turns. Release with
 * conversation_free. most_steps: of one rendering; 0: as jinja_render. dropped: a message has keys
 * with null, which the template sees only if nulls. */
typedef struct Conversation {
    const ChatTemplate *t; const ChatTurn *turn; size_t n;
    JsonDoc data; JsonNode *answer, *messages; unsigned most_steps; bool dropped, nulls;
} Conversation;

/* INPUT: a message that is not a JSON object; there is none. `out` is zeroed on failure. */
bool conversation_new(const ChatTemplate *t, const ChatTurn *turn, size_t n, Conversation *out,
                      Error *err);
void conversation_free(Conversation *c);
/* The first n of its messages as text. answer: with the generation prompt, which opens an answer.
 * Keys of messages with null are not there, as in transformers 5.24; a template that fails so is
 * asked again with them, from then on. Errors: as jinja_render, of the first of the two. */
bool conversation_render(Conversation *c, size_t n, bool answer, JinjaText *out, Error *err);

/* ---- chat_tokens.c --------------------------------------------------------------------------- */

/* A special token that the tokenizer does not find in a text: it counts where a template spells
 * it. */
typedef struct SpelledToken { int32_t id; const char *text; } SpelledToken;
typedef struct ChatTokens {
    const Tokenizer *tokenizer; SpelledToken spelled[2]; size_t n_spelled;
} ChatTokens;

/* Append the ids of a conversation: those of the text that the template renders, tokenized as a
 * whole, but no byte of a message becomes a special token. An answer keeps its own ids if the
 * template puts its text back unchanged where the model drew it, and a special token ends it.
 * Errors: as conversation_new and tokenizer_encode. */
bool chat_tokens_encode(const ChatTokens *k, const ChatTemplate *t, const ChatTurn *turn, size_t n,
                        bool answer, Ids *out, Error *err);

/* What happens to a system text: the template raises an error, leaves it out, or writes it. */
typedef enum ChatSystemText { SYSTEM_REFUSED, SYSTEM_IGNORED, SYSTEM_TOLD } ChatSystemText;

/* What renderings of small conversations show of a template. Release with chat_habits_free. */
typedef struct ChatHabits {
    ChatSystemText system;
    int32_t stop_id;      /* the special token that follows an answer; -1: none, or not known */
    char   *stop_text;    /* without such a token: what stands between an answer and the next
                           * message; NULL: nothing, or not known */
    char   *answer_prefix; /* between the generation prompt and an answer's content; "" if the
                            * template does not write them together */
} ChatHabits;
/* Errors: SYSTEM. */
bool chat_habits_find(const ChatTokens *k, const ChatTemplate *t, ChatHabits *out, Error *err);
void chat_habits_free(ChatHabits *h);

#endif
