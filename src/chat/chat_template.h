/* chat/chat_template.h: renders conversations with a chat template, as text and as tokens. Also the
 * templates that a model file does not contain as such: the built-in ones, and the one made from an
 * old entry `chat`. */
#ifndef CHAT_CHAT_TEMPLATE_H
#define CHAT_CHAT_TEMPLATE_H

#include "base/error.h"
#include "chat/chat_answer.h"
#include "chat/jinja.h"
#include "tokenizer/tokenizer.h"

/* ---- chat_builtin.c -------------------------------------------------------------------------- */

/* The name of the i-th built-in template, from 0, in alphabetical order. NULL: past the last
 * one. */
const char *chat_builtin_name(size_t i);
/* The built-in Jinja template of that name; it sees what transformers passes: messages, tools,
 * add_generation_prompt, bos_token, eos_token. NULL: there is none. */
const char *chat_builtin_template(const char *name);

/* ---- chat_entry.c ---------------------------------------------------------------------------- */

/* A template that renders what the metadata entry `chat` of a model file describes (docs/format.md,
 * "Chat"): {bos} and {eos} become its variables bos_token and eos_token. It raises an error if the
 * entry does not support what a conversation has: a system message, roles in another order, tools,
 * contents that are not one text. chat_format_parse reads the entry, also for its name
 * (chat_format_name) and stop strings (chat_format_stops). `what` begins each message. The caller
 * frees the result. NULL: chat_format_parse rejects the entry. */
char *chat_entry_template(const char *json, size_t n_bytes, const char *what, Error *err);

/* ---- conversation.c -------------------------------------------------------------------------- */

/* A template with all that it sees besides the messages, as transformers' apply_chat_template
 * passes it: special tokens, tools, documents, add_generation_prompt, and the user's variables. */
typedef struct ChatTemplate ChatTemplate; /* immutable */

typedef struct ChatTemplateOptions {
    const char *text, *what; /* the template; what names it in messages */
    const char *special;     /* a JSON object of special tokens (docs/format.md, "Chat"), or NULL */
    const char *bos, *eos;   /* bos_token and eos_token if special does not have them; "": none */
    const char *args;        /* more variables: a JSON object, or NULL */
    const char *tools;       /* a JSON array of objects, or NULL */
    const char *date;        /* for strftime_now, as YYYY-MM-DD; NULL: it is undefined */
} ChatTemplateOptions;

/* NULL: USAGE (args, tools or date are malformed), INPUT (the template, special), SYSTEM. */
ChatTemplate *chat_template_new(const ChatTemplateOptions *o, Error *err);
void          chat_template_free(ChatTemplate *t); /* NULL is accepted */

/* How to parse the template's answers (NULL: SYSTEM); and its tools, or NULL. */
AnswerForm     *chat_template_answers(const ChatTemplate *t, Error *err);
const JsonDoc  *chat_template_tools(const ChatTemplate *t);

/* A message: json, a JSON object; if NULL, role and text. Of an answer: ids [n_ids], the tokens
 * that the model sampled after the generation prompt; sampled, their text. NULL: unknown. */
typedef struct ChatTurn {
    const char *role, *text; size_t n; const char *json;
    const int32_t *ids; size_t n_ids; const char *sampled; size_t n_sampled;
} ChatTurn;

/* What a template sees of the keys with null values: none, all, or a null content as "". */
typedef enum NullKeys { NULLS_DROPPED, NULLS_KEPT, NULLS_EMPTY } NullKeys;

/* A conversation of one template, ready to render; it borrows its n turns. Release with
 * conversation_free. most_steps: per rendering; 0: as jinja_render. dropped: a message has null
 * values. */
typedef struct Conversation {
    const ChatTemplate *t; const ChatTurn *turn; size_t n;
    JsonDoc data; JsonNode *answer, *messages; unsigned most_steps; bool dropped;
    NullKeys nulls;
} Conversation;

/* INPUT: a message is not a JSON object, or there is none. `out` is zeroed on failure. */
bool conversation_new(const ChatTemplate *t, const ChatTurn *turn, size_t n, Conversation *out,
                      Error *err);
void conversation_free(Conversation *c);
/* Renders the first n messages. answer: with the generation prompt. Keys with null values are left
 * out, as in transformers 5.24; if the template then fails, it is run again with them, then with ""
 * for a null content, and so is every later rendering. Errors: as jinja_render, of the first. */
bool conversation_render(Conversation *c, size_t n, bool answer, JinjaText *out, Error *err);

/* ---- chat_tokens.c --------------------------------------------------------------------------- */

/* A special token that the tokenizer does not find in text: it counts if a template spells it. */
typedef struct SpelledToken { int32_t id; const char *text; } SpelledToken;
typedef struct ChatTokens {
    const Tokenizer *tokenizer; SpelledToken spelled[2]; size_t n_spelled;
} ChatTokens;

/* Append the ids of a conversation: the rendered text, tokenized as a whole, except that no byte of
 * a message becomes a special token. An answer keeps its own ids if the template renders its text
 * unchanged in the place where the model sampled it, and a special token ends it. Errors: as
 * conversation_new and tokenizer_encode. */
bool chat_tokens_encode(const ChatTokens *k, const ChatTemplate *t, const ChatTurn *turn, size_t n,
                        bool answer, Ids *out, Error *err);

/* What happens to a system message: the template raises an error, drops it, or renders it. */
typedef enum ChatSystemText { SYSTEM_REFUSED, SYSTEM_IGNORED, SYSTEM_TOLD } ChatSystemText;

/* What rendering small conversations shows of a template. Release with chat_habits_free. */
typedef struct ChatHabits {
    ChatSystemText system;
    int32_t stop_id;      /* the special token that follows an answer; -1: none, or unknown */
    char   *stop_text;    /* without such a token: the text between an answer and the next
                           * message; NULL: none, or unknown */
    char   *answer_prefix; /* between the generation prompt and an answer's content; "" if the
                            * template does not write them together */
} ChatHabits;
/* Errors: SYSTEM. */
bool chat_habits_find(const ChatTokens *k, const ChatTemplate *t, ChatHabits *out, Error *err);
void chat_habits_free(ChatHabits *h);

#endif
