/* tblock chat: a conversation at a terminal, or one question from a pipe. */
#include "chat_session.h"
#include "frame.h"
#include "help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

typedef struct ChatArgs {
    const char     *model, *system, *messages;
    int             n_predict;
    bool            no_history, show_prompt, raw;
    bool            once;  /* no option: one message is answered, and no other follows */
    ChatLines      *lines; /* no option: the terminal; NULL if once */
    TemplateOptions chat;
    SamplingOptions sampling;
    ConstraintOptions constraint;
    DraftArgs       draft;
    ComputeOptions  compute;
    GeneralOptions  general;
} ChatArgs;

typedef struct Chat {
    const ChatArgs *args;
    Session         session;
    bool            quit;
} Chat;

/* ---- Replies --------------------------------------------------------------------------------- */

/* A line end after the reply, and why it ended if that is not obvious. */
static bool close_answer(const Chat *c, tblock_error *err)
{
    const Session *s = &c->session;
    output_write("\n", 1);
    if (!output_flush(err))
        return false;
    if (s->end == TBLOCK_END_LENGTH)
        cli_note("the answer was cut after --predict %d tokens", s->o.n_predict);
    if (s->end == TBLOCK_END_CONTEXT)
        cli_note("the answer was cut: the context of %d tokens is full; the next message "
                        "will drop the oldest turns",
                 s->computing.n_ctx);
    if (s->cut)
        constraint_note_cut();
    if (s->end == TBLOCK_END_STOPPED)
        cli_note("stopped; the conversation keeps the answer so far");
    return true;
}

/* After an attempt to reply: prints an error of this message alone; the conversation goes on. */
static bool after_answer(Chat *c, bool good, tblock_error *err)
{
    interrupt_forget();
    if (good)
        return close_answer(c, err);
    if (err->status == CLI_INTERRUPTED)
        cli_note("stopped before the answer began; the message was removed from the conversation");
    else if (err->status == TBLOCK_USAGE || err->status == TBLOCK_INPUT)
        fprintf(stderr, "tblock: %s\n", err->msg);
    else
        return false;
    *err = (tblock_error){ 0 };
    return true;
}

/* ---- Commands -------------------------------------------------------------------------------- */

typedef struct ChatCommand {
    const char *name, *argument, *help; /* argument: NULL if it takes none */
    bool (*run)(Chat *c, const char *argument, tblock_error *err); /* false: as session functions */
} ChatCommand;
enum { N_COMMANDS = 10 }; /* the last one is empty */
static const ChatCommand chat_commands[N_COMMANDS];

static bool run_reset(Chat *c, const char *argument, tblock_error *err)
{
    (void)argument, (void)err;
    session_reset(&c->session);
    cli_note("started a new conversation");
    return true;
}

/* A text of many lines, otherwise escaped like a message. */
static void print_text(const char *text)
{
    for (size_t n = strlen(text), n_read; n > 0; text += n_read, n -= n_read) {
        char   shown[PRINTABLE_BYTES];
        size_t n_shown = printable(shown, text, n, &n_read);
        fwrite(*text == '\n' ? text : shown, 1, *text == '\n' ? 1 : n_shown, stderr);
    }
    fputc('\n', stderr);
}

static bool run_system(Chat *c, const char *argument, tblock_error *err)
{
    const Session *s = &c->session;
    bool told = s->n && strcmp(s->message[0].role, "system") == 0;
    if (*argument)
        return session_system(&c->session, argument, err);
    print_text(told ? s->message[0].text : "(no system text)");
    return true;
}

static bool need_file(const Chat *c, const char *name, const char *argument, tblock_error *err)
{
    if (c->args->compute.sandbox)
        return fail(err, TBLOCK_USAGE, "/%s: not available with --sandbox, which opens no "
                                           "files once it has started", name);
    return *argument || fail(err, TBLOCK_USAGE, "/%s: expected a file name", name);
}

static bool run_save(Chat *c, const char *argument, tblock_error *err)
{
    if (!need_file(c, "save", argument, err) || !session_save(&c->session, argument, err))
        return false;
    cli_note("saved %zu messages to %s", c->session.n, argument);
    return true;
}

static bool run_load(Chat *c, const char *argument, tblock_error *err)
{
    bool waits;
    if (!need_file(c, "load", argument, err) || !session_load(&c->session, argument, &waits, err))
        return false;
    cli_note("loaded %zu messages from %s", c->session.n, argument);
    return !waits || after_answer(c, session_reply(&c->session, err), err);
}

static bool run_receipt(Chat *c, const char *argument, tblock_error *err)
{
    const bool wanted = *argument;
    if ((wanted && !need_file(c, "receipt", argument, err))
        || !session_receipt(&c->session, wanted ? argument : NULL, err))
        return false;
    if (wanted)
        cli_note("the receipt of each answer will be in %s", argument);
    else
        cli_note("no more receipts");
    return true;
}

static bool run_regen(Chat *c, const char *argument, tblock_error *err)
{
    (void)argument;
    if (session_again(&c->session, err))
        return close_answer(c, err);
    if (err->status != CLI_INTERRUPTED)
        return false;
    interrupt_forget();
    cli_note("stopped before the new answer began; the old answer is kept");
    *err = (tblock_error){ 0 };
    return true;
}

static bool run_stats(Chat *c, const char *argument, tblock_error *err)
{
    (void)argument, (void)err;
    session_stats(&c->session);
    return true;
}

static bool run_quit(Chat *c, const char *argument, tblock_error *err)
{
    (void)argument, (void)err;
    c->quit = true;
    return true;
}

static bool run_help(Chat *c, const char *argument, tblock_error *err)
{
    (void)c, (void)argument, (void)err;
    for (const ChatCommand *i = chat_commands; i->name; i++) {
        char left[32];
        snprintf(left, sizeof left, "/%s%s%s", i->name, i->argument ? " " : "",
                 i->argument ? i->argument : "");
        fprintf(stderr, "  %-14s %s\n", left, i->help);
    }
    fprintf(stderr, "A line that ends with \\ continues on the next line. \"\"\" begins and ends a "
                    "message of several lines.\nBegin a message with // to send a /. Ctrl-C stops "
                    "an answer, Ctrl-D at the prompt ends the program.\n");
    return true;
}

static const ChatCommand chat_commands[N_COMMANDS] = {
    { "reset",  NULL,   "forget the conversation, but keep the system text",       run_reset },
    { "system", "TEXT", "set the system text; without TEXT, print it",             run_system },
    { "save",   "FILE", "save the conversation as JSON",                           run_save },
    { "load",   "FILE", "continue a saved conversation",                           run_load },
    { "receipt", "FILE", "write the receipt of each answer to FILE; without FILE, no more",
      run_receipt },
    { "regen",  NULL,   "generate the last answer again, with the next seed",      run_regen },
    { "stats",  NULL,   "print tokens, speed and seed",                            run_stats },
    { "help",   NULL,   "print this list",                                         run_help },
    { "quit",   NULL,   "end the program, as Ctrl-D does",                         run_quit },
    { 0 },
};

/* text: a line without its first '/'. */
static bool run_command(Chat *c, const char *text, tblock_error *err)
{
    size_t      n = strcspn(text, " \t");
    const char *argument = text + n + strspn(text + n, " \t");
    char        name[32];
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    Nearest near = { name, 0, 0 };
    for (const ChatCommand *i = chat_commands; i->name; i++) {
        nearest_offer(&near, i->name);
        if (strcmp(name, i->name) != 0)
            continue;
        if (*argument && !i->argument)
            return fail(err, TBLOCK_USAGE, "/%s: expected nothing after it", name);
        return i->run(c, argument, err);
    }
    const char *meant = nearest_answer(&near);
    return fail(err, TBLOCK_USAGE, "unknown command /%s; %s%s%s", name,
                meant ? "did you mean /" : "/help lists them", meant ? meant : "",
                meant ? "?" : "");
}

/* ---- The conversation ------------------------------------------------------------------------ */

/* Handles one message or command. */
static bool take(Chat *c, TextOut *typed, tblock_error *err)
{
    if (!text_out_add(typed, "", 1, err))
        return false;
    const char *text = typed->text;
    size_t      n = typed->n - 1;
    bool        command = text[0] == '/' && text[1] != '/';
    if (n == 0)
        return true;
    if (command && !memchr(text, '\n', n)) {
        if (run_command(c, text + 1, err)) {
            interrupt_forget();
            return true;
        }
        if (err->status != TBLOCK_SYSTEM)
            return after_answer(c, false, err);
        fprintf(stderr, "tblock: %s\n", err->msg); /* an output error does not end the
                                                    * conversation */
        *err = (tblock_error){ 0 };
        return true;
    }
    size_t skip = text[0] == '/' && text[1] == '/';
    return after_answer(c, session_say(&c->session, text + skip, n - skip, err), err);
}

static bool converse(Chat *c, tblock_error *err)
{
    TextOut typed = { 0 };
    bool    good  = true;
    interrupt_catch_each();
    cli_note("chat template: %s; context of %d tokens; /help lists commands, Ctrl-D ends",
             c->session.format.name, c->session.computing.n_ctx);
    while (good && !c->quit) {
        LineResult result = chat_lines_read(c->args->lines, &typed, err);
        if (result == LINE_INTERRUPT) {
            interrupt_forget();
            fputc('\n', stderr);
            cli_note("Ctrl-D or /quit ends the program");
        } else if (result == LINE_END) {
            fputc('\n', stderr);
            break;
        } else if (result == LINE_FAILED && err->status == TBLOCK_USAGE) {
            good = after_answer(c, false, err);
        } else {
            good = result == LINE_READ && take(c, &typed, err);
        }
    }
    free(typed.text);
    return good;
}

/* All of standard input is one message. */
static bool read_message(TextOut *text, tblock_error *err)
{
    if (!input_read("-", INPUT_PROMPT, text, err))
        return false;
    if (text->n && text->text[text->n - 1] == '\n')
        text->n--;
    return text->n || fail(err, TBLOCK_USAGE, "standard input: expected a message to answer, found "
                                              "an empty input");
}

/* Reply to the last message of the file, or to the one on standard input. */
static bool answer_message(Chat *c, tblock_error *err)
{
    TextOut text = { 0 };
    bool    file = c->args->messages != NULL, good = file || read_message(&text, err);
    interrupt_catch();
    if (file)
        good = session_reply(&c->session, err);
    else
        good = good && session_say(&c->session, text.text, text.n, err);
    text_out_free(&text);
    return good;
}

/* Replies once; only the reply goes to standard output. */
static bool answer_once(Chat *c, tblock_error *err)
{
    if (!answer_message(c, err))
        return false;
    if (output_is_terminal())
        output_write("\n", 1);
    if (!output_flush(err))
        return false;
    const Session *s = &c->session;
    if (s->end == TBLOCK_END_CONTEXT)
        cli_note("stopped: the context of %d tokens is full",
                 s->computing.n_ctx);
    if (s->cut)
        constraint_note_cut();
    return s->end != TBLOCK_END_STOPPED || fail(err, CLI_INTERRUPTED, "%s", "");
}

/* The conversation of --messages, which must end with a message to reply to. */
static bool load_messages(Chat *c, tblock_error *err)
{
    bool waits;
    return !c->args->messages
        || (session_load(&c->session, c->args->messages, &waits, err)
            && (waits || fail(err, TBLOCK_INPUT, "%s: expected a last message to answer, found an "
                                                 "answer or none", c->args->messages)));
}

/* The terminal is opened before the sandbox. */
static bool chat_hold(Frame *f, tblock_error *err)
{
    ChatArgs *a = f->args;
    if (!a->once && !a->show_prompt)
        a->lines = chat_lines_open(!a->no_history && !f->compute.sandbox, err);
    return a->once || a->show_prompt || a->lines;
}

static bool converse_with(Chat *c, Frame *f, tblock_error *err)
{
    const ChatArgs *a = c->args;
    SessionOptions  o = { .chat = &a->chat,
                          .n_predict = a->n_predict < 0 ? 0 : a->n_predict,
                          .raw = a->raw,
                          .sampling = &a->sampling,
                          .constraint = &a->constraint };
    bool good = session_open(&c->session, f, &o, err) && load_messages(c, err)
        && (!a->system || session_system(&c->session, a->system, err));
    good = good && (a->once ? answer_once(c, err) : converse(c, err));
    session_close(&c->session);
    return good;
}

/* Prints the model's prompt: the messages of the file, or the one on standard input, after the
 * system message. */
static bool show_messages(const ChatArgs *a, const tblock_chat *c, tblock_error *err)
{
    tblock_chat_message *file = NULL, said = { .role = "user" };
    TextOut              text = { 0 };
    size_t               n = 1;
    bool                 good =
        a->messages ? chat_file_read(a->messages, &file, &n, err) : read_message(&text, err);
    said.text = text.text, said.n_bytes = text.n;
    const tblock_chat_message *from = file ? file : &said;
    size_t replaced = good && a->system && n && strcmp(from->role, "system") == 0;
    tblock_chat_message *m = good ? calloc(n + 1, sizeof *m) : NULL;
    if (good && !m)
        good = no_memory(NULL, err);
    if (good) {
        m[0] = (tblock_chat_message){ .role = "system", .text = a->system,
                                      .n_bytes = a->system ? strlen(a->system) : 0 };
        memcpy(m + 1, from + replaced, (n - replaced) * sizeof *m);
        good = prompt_show(c, m + !a->system, n - replaced + (a->system != NULL), err);
    }
    free(m);
    text_out_free(&text);
    tblock_free(file);
    return good;
}

static bool show_prompt(Frame *f, tblock_error *err)
{
    const ChatArgs *a = f->args;
    f->model          = tblock_open(a->model, NULL, err);
    tblock_chat *c    = f->model ? template_open(f->model, &a->chat, err) : NULL;
    bool         good = c && show_messages(a, c, err);
    tblock_chat_free(c);
    return good;
}

static bool chat_check(Frame *f, tblock_error *err)
{
    ChatArgs *a = f->args;
    a->once     = a->messages || isatty(STDIN_FILENO) != 1;
    return a->show_prompt
        || (constraint_check(&a->constraint, false, err)
            && seed_choose(&a->sampling.seed, err));
}

static bool chat(Frame *f, tblock_error *err)
{
    const ChatArgs *a = f->args;
    bool good = frame_files(f, err)
        && (a->show_prompt ? show_prompt(f, err) : converse_with(&(Chat){ .args = a }, f, err));
    chat_lines_close(a->lines);
    return good;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(ChatArgs, field)
static const Option chat_options[] = {
    { "system",      0,  "TEXT", OPT_TEXT, AT(system),      0, 0, NULL,
      "instructions for the model, before the conversation" },
    { "messages",    0,  "FILE", OPT_TEXT, AT(messages),    0, 0, NULL,
      "answer the last message of this conversation, JSON as /save writes it, and end; -: standard "
      "input" },
    { "show-prompt", 0,  NULL,   OPT_FLAG, AT(show_prompt), 0, 0, NULL,
      "print what the model would read, as JSON with text and ids, and end" },
    { "predict",    'n', "N",    OPT_INT,  AT(n_predict),   -1, 1 << 20, "0",
      "at most N tokens in an answer; 0 or -1: as many as fit" },
    { "raw",         0,  NULL,   OPT_FLAG, AT(raw),         0, 0, NULL,
      "print replies as they are generated, with what marks reasoning and calls" },
    { "no-history",  0,  NULL,   OPT_FLAG, AT(no_history),  0, 0, NULL,
      "do not read or write the history of typed lines" },
    { 0 },
};
const Command cmd_chat = {
    { "chat",
      OPERANDS(OPERAND_MODEL(AT(model)),
               { .help = "a message comes from standard input, as in echo TEXT | tblock chat "
                         "MODEL" }),
      GROUPS({ "Chat", chat_options, 0 }, { "Template", template_options, AT(chat) },
             { "Sampling", sampling_options, AT(sampling) }, GROUP_CONSTRAINT(AT(constraint)),
             GROUP_DRAFT(AT(draft)), GROUP_COMPUTE(AT(compute)), GROUP_GENERAL(AT(general))) },
    "hold a conversation",
    "On a terminal, each line is a message, and the answer is printed to standard output as it is "
    "generated. Prompts and notes go to standard error. Ctrl-C stops the answer, not the program; "
    "Ctrl-D ends the program. Lines that begin with / are commands; /help lists them. Typed lines "
    "are kept in $XDG_STATE_HOME/tblock/history. If standard input is not a terminal, all of it is "
    "one message, and only the answer is printed.\nTurns are written by the model's chat template. "
    "Special tokens in a message are ordinary text. The KV cache of earlier turns is kept, so only "
    "new tokens are computed. When less than a quarter of the context is left for the answer (or "
    "less than --predict, if that is smaller), the oldest turns after the system text are dropped "
    "until half of the context is free, and a note says so. /regen uses the next seed. With a "
    "constraint each answer fits it (docs/constraints.md). An answer's reasoning is shown dim on a "
    "terminal and left out elsewhere, and with --tools a call is a line of JSON; /save keeps both "
    "as reasoning_content and tool_calls. The same "
    "options and messages give the same answers, and tblock run gives the same for the same ids.",
    EXAMPLES({ "tblock chat model.bin --system 'Answer in one sentence.'",
               "a conversation; /help lists its commands" },
             { "echo 'What is a rotary embedding?' | tblock chat model.bin > answer.txt",
               "one question; prints only the answer" },
             { "tblock chat models/shakespeare.bin --chat-format alpaca -n 60",
               "works with any model that has a tokenizer, even if it was not trained to chat" }),
    .args_size = sizeof(ChatArgs), .run = chat, .check = chat_check,
    .reads = { "messages", "chat-format", "tools", "json-schema", "grammar" }, .hold = chat_hold,
};
