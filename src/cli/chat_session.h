/* cli/chat_session.h: a conversation at the terminal. */
#ifndef CLI_CHAT_SESSION_H
#define CLI_CHAT_SESSION_H

#include "cli/command.h"
#include "tblock.h"

/* ---- chat_file.c ----------------------------------------------------------------------------- */

/* Conversations and templates in files. */

/* Reads the messages of a file; release them with tblock_free. */
bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err);

/* The format of conversations: the options of the template. */
typedef struct TemplateOptions { const char *format, *args, *tools, *date; } TemplateOptions;
extern const Option template_options[];
/* Resolves --chat-format for the library: a name, or the text of a file, in *text. */
bool template_read(const char *format, TextOut *text, const char **out, tblock_error *err);
/* The chat of a model with these options, whose files it reads. */
tblock_chat *template_open(const tblock_model *m, const TemplateOptions *o, tblock_error *err);

/* Writes the model's prompt as one JSON object, {"text": ..., "ids": [...]}. */
bool prompt_show(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                 tblock_error *err);

/* ---- chat_line.c ----------------------------------------------------------------------------- */

/* Messages that a user types, with editing and history on terminals that support it. */

typedef struct ChatLines ChatLines;

typedef enum LineResult { LINE_READ, LINE_END, LINE_INTERRUPT, LINE_FAILED } LineResult;

/* Opens standard input for messages; prompts and typed text go to standard error. history: keep one
 * in the user's state folder ($XDG_STATE_HOME/tblock/history, else ~/.local/state/tblock/history),
 * if it can be written. A terminal without control sequences (TERM=dumb or unset), or a program
 * built without libedit, gets plain lines. NULL: no memory. */
ChatLines *chat_lines_open(bool history, tblock_error *err);
void       chat_lines_close(ChatLines *l); /* accepts NULL */

/* Reads the next message into *out, replacing its content, without the last newline. A message
 * is one line; or several lines, each but the last ending with a backslash; or all lines between
 * two lines of """. LINE_INTERRUPT: Ctrl-C; what was typed is dropped. */
LineResult chat_lines_read(ChatLines *l, TextOut *out, tblock_error *err);

/* ---- answer_view.c --------------------------------------------------------------------------- */

/* A reply on standard output, as it is generated. On a terminal its reasoning is shown too, dim;
 * elsewhere it is left out. A tool call is a line of JSON. */
typedef struct AnswerView {
    tblock_answer *answer;  /* NULL: all is shown as it is generated */
    size_t         n_read;  /* bytes of the text so far */
    int            last;    /* the kind shown last; -1: none */
    bool           calls_or_reasons; /* it has more than content */
} AnswerView;

bool answer_view_open(AnswerView *v, const tblock_chat *c, bool raw, tblock_error *err);
/* Shows the new bytes of text, which only grows; ended: the text is complete. */
bool answer_view_text(AnswerView *v, const char *text, size_t n, bool ended, tblock_error *err);

/* ---- chat_session.c -------------------------------------------------------------------------- */

/* A conversation with a model: its messages, their KV cache, and replies. */

typedef struct SessionOptions {
    const TemplateOptions *chat;        /* the template options */
    int                    n_predict;   /* maximum tokens of a reply; 0: as many as fit */
    bool                   raw;         /* show replies as they are generated */
    const SamplingOptions *sampling;
    const ConstraintOptions *constraint; /* of each reply */
} SessionOptions;

/* As tblock_chat_message, but the session owns all of it. */
typedef struct SessionMessage {
    char *role, *text, *json; size_t n; int32_t *ids; size_t n_ids;
} SessionMessage;

typedef struct Session {
    Frame              *f;          /* with model, context and drafter */
    SessionOptions      o;
    tblock_context_info computing;
    tblock_constraint  *constraint; /* NULL: none */
    tblock_chat        *chat;
    tblock_chat_info    format;
    SessionMessage     *message;         /* [n]; the first may be a system message */
    size_t              n, cap;
    size_t              n_left_out;      /* oldest messages after the system one that the model no
                                          * longer sees */
    size_t              n_ids;           /* of the sequence: the conversation as the model saw it */
    uint64_t            seed;            /* of the current or last reply */
    int                 end;             /* of the last reply: enum tblock_end */
    bool                cut;             /* it ended before it satisfied the constraint */
    size_t              n_reused, n_prefilled, n_sampled; /* of the last reply: cached,
                                                             * computed, generated */
    size_t              n_proposed, n_accepted; /* of its drafts */
    double              prefill_s, decode_s;
    size_t              n_answers, all_sampled;
    double              all_decode_s;
    char               *receipt;         /* file for each reply's receipt; NULL: none */
} Session;

/* Opens the model, and a conversation with it. */
bool session_open(Session *s, Frame *f, const SessionOptions *o, tblock_error *err);
void session_close(Session *s); /* accepts a zeroed one */

/* Replace the system message. Fails (TBLOCK_USAGE) if the format has none. */
bool session_system(Session *s, const char *text, tblock_error *err);
/* Write the receipt of each reply to this file from now on; NULL: to none. Fails (TBLOCK_USAGE) if
 * it is a file of the model. */
bool session_receipt(Session *s, const char *path, tblock_error *err);
void session_reset(Session *s); /* drop all turns but the system message */

/* Add the user's message and stream the reply to standard output. On failure the message is
 * removed. Ctrl-C (interrupt.c) ends the reply, which is kept as far as it came; before its first
 * token, the message is removed. */
bool session_say(Session *s, const char *text, size_t n, tblock_error *err);

/* Generates the last reply anew, with the next seed. Fails (TBLOCK_USAGE) without one. */
bool session_again(Session *s, tblock_error *err);

bool session_save(const Session *s, const char *path, tblock_error *err);
/* On failure the conversation is unchanged. *waits: the last message is no reply, so session_reply
 * is due. */
bool session_load(Session *s, const char *path, bool *waits, tblock_error *err);

/* Reply to the last message, like session_say. */
bool session_reply(Session *s, tblock_error *err);

void session_stats(const Session *s); /* lines on standard error */

#endif
