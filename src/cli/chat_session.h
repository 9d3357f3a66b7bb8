/* cli/chat_session.h: a conversation at the terminal. */
#ifndef CLI_CHAT_SESSION_H
#define CLI_CHAT_SESSION_H

#include "cli/command.h"
#include "tblock.h"

/* ---- chat_file.c ----------------------------------------------------------------------------- */

/* Conversations and templates in files. */

/* Reads the messages of a file; release them with tblock_free. */
bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err);

/* How conversations are written: the options of the template. */
typedef struct TemplateOptions { const char *format, *args, *tools, *date; } TemplateOptions;
extern const Option template_options[];
/* What --chat-format says, as the library takes it: a name, or the text of a file, in *text. */
bool template_read(const char *format, TextOut *text, const char **out, tblock_error *err);
/* The chat of a model with these options, whose files are read. */
tblock_chat *template_open(const tblock_model *m, const TemplateOptions *o, tblock_error *err);

/* Writes what the model would read as one JSON object, {"text": ..., "ids": [...]}. */
bool prompt_show(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                 tblock_error *err);

/* ---- chat_line.c ----------------------------------------------------------------------------- */

/* Messages that someone types, with editing and history on terminals that allow
 * it. */

typedef struct ChatLines ChatLines;

typedef enum LineResult { LINE_READ, LINE_END, LINE_INTERRUPT, LINE_FAILED } LineResult;

/* Opens standard input for messages; prompts and typed text go to standard error. history: keep
 * one in the user's state folder ($XDG_STATE_HOME/tblock/history, else
 * ~/.local/state/tblock/history), if it can be written. A terminal without control sequences
 * (TERM=dumb or unset), or a program built without libedit, gets plain lines. NULL: no memory. */
ChatLines *chat_lines_open(bool history, tblock_error *err);
void       chat_lines_close(ChatLines *l); /* accepts NULL */

/* Reads the next message into *out, replacing its content, without the last newline. A message
 * is one line; or several lines, each but the last ending with a backslash; or all lines between
 * two lines of """. LINE_INTERRUPT: Ctrl-C; what was typed is dropped. */
LineResult chat_lines_read(ChatLines *l, TextOut *out, tblock_error *err);

/* ---- answer_view.c --------------------------------------------------------------------------- */

/* An answer on standard output, as it is drawn. On a terminal its reasoning is shown too, dim;
 * elsewhere it is left out. A call of a tool is a line of JSON. */
typedef struct AnswerView {
    tblock_answer *answer;  /* NULL: all is shown as it is drawn */
    size_t         n_read;  /* bytes of the text so far */
    int            last;    /* which kind was shown last; -1: none */
    bool           calls_or_reasons; /* it holds more than content */
} AnswerView;

bool answer_view_open(AnswerView *v, const tblock_chat *c, bool raw, tblock_error *err);
/* Shows what is new of text, which only grows; ended: that was all. */
bool answer_view_text(AnswerView *v, const char *text, size_t n, bool ended, tblock_error *err);

/* ---- chat_session.c -------------------------------------------------------------------------- */

/* A conversation with a model: its messages, the KV cache that follows them, and answers. */

typedef struct SessionOptions {
    const char            *path;        /* of the model, for messages */
    const TemplateOptions *chat;        /* how it is written */
    int                    n_predict;   /* most tokens of an answer; 0: as many as fit */
    bool                   quiet, raw;  /* raw: show answers as they are drawn */
    const SamplingOptions *sampling;
    const ConstraintOptions *constraint; /* of each answer */
    const DraftArgs       *draft;
    const ComputeOptions  *compute;
} SessionOptions;

/* As tblock_chat_message, but all of it belongs to the session. */
typedef struct SessionMessage {
    char *role, *text, *json; size_t n; int32_t *ids; size_t n_ids;
} SessionMessage;

typedef struct Session {
    SessionOptions      o;
    tblock_model       *model;
    tblock_model_info   info;
    tblock_context     *context;
    tblock_context_info computing;
    Drafting            drafting;
    tblock_constraint  *constraint; /* NULL: none */
    tblock_chat        *chat;
    tblock_chat_info    format;
    SessionMessage     *message;         /* [n]; the first may be a system text */
    size_t              n, cap;
    size_t              n_left_out;      /* oldest messages after the system text that the model no
                                          * longer sees */
    size_t              n_ids;           /* of the sequence: the conversation as the model saw it */
    uint64_t            seed;            /* of the answer now or before */
    int                 end;             /* of the last answer: enum tblock_end */
    bool                cut;             /* it ended before it fits the constraint */
    size_t              n_reused, n_read, n_drawn; /* of the last answer: tokens found in the cache,
                                                    * read, drawn */
    size_t              n_proposed, n_accepted; /* of its drafts */
    double              read_s, draw_s;
    size_t              n_answers, all_drawn;
    double              all_draw_s;
    char               *receipt;         /* the file of each answer's receipt; NULL: none */
} Session;

bool session_open(Session *s, const SessionOptions *o, tblock_error *err);
void session_close(Session *s); /* a zeroed one is accepted */

/* Replace the system text. Fails (TBLOCK_USAGE) where the format has no place for one. */
bool session_system(Session *s, const char *text, tblock_error *err);
/* Write the receipt of each answer to this file from now on; NULL: to none. Fails (TBLOCK_USAGE)
 * where it is one of the model. */
bool session_receipt(Session *s, const char *path, tblock_error *err);
void session_reset(Session *s); /* forget all turns; the system text stays */

/* Add what the user says and write the answer to standard output as it comes. On failure the
 * message is taken back. Ctrl-C (interrupt.c) ends the answer, which stays as far as it came;
 * before its first token the message is taken back. */
bool session_say(Session *s, const char *text, size_t n, tblock_error *err);

/* Writes the last answer again, with the next seed. Fails (TBLOCK_USAGE) without one. */
bool session_again(Session *s, tblock_error *err);

bool session_save(const Session *s, const char *path, tblock_error *err);
/* Fails with the conversation as it was. *waits: the last message is no answer, and session_reply
 * is due. */
bool session_load(Session *s, const char *path, bool *waits, tblock_error *err);

/* Answer the last message, as session_say. */
bool session_reply(Session *s, tblock_error *err);

void session_stats(const Session *s); /* lines on standard error */

#endif
