/* cli/command.h: what every command uses: shared options, input, output, messages, the terminal. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include "base/error.h"
#include "base/report_rows.h"
#include "tblock_tools.h"

/* ---- options.c ------------------------------------------------------------------------------- */

/* The option tables of the commands, and the reader of all.
 *
 * An option is declared once, in a table. Parsing, defaults, ranges, help and everything else that
 * prints options read that table. A table fills a struct: `where` is an offset in it. If a value is
 * given twice, the last one counts, except for OPT_TEXTS and OPT_BIASES, which collect all. Numbers
 * are read the same in every locale. */

typedef enum OptionKind {
    OPT_FLAG,   /* bool; takes no value */
    OPT_NOW,    /* bool; a flag, and reading stops (--help, --version) */
    OPT_INT,    /* int, from min to max */
    OPT_SINGLE, /* float, from min to max */
    OPT_FLOAT,  /* double, from min to max; NaN if not given, no default */
    OPT_TEXT,   /* const char *, any text; NULL if not given */
    OPT_TEXTS,  /* TextList of non-empty texts; repeatable */
    OPT_CHOICE, /* const char *, one of the words of `argument`: "f32|f16" */
    OPT_SEED,   /* Seed: 64 bits, decimal or 0x hexadecimal, or "random" */
    OPT_IDS,    /* IdList: token ids, separated by commas or spaces; may be empty */
    OPT_BIASES  /* BiasList: ID=NUMBER, from min to max; repeatable */
} OptionKind;

typedef struct TextList { const char **texts; size_t n; } TextList;
typedef struct IdList { int32_t *ids; size_t n; bool given; } IdList;
typedef struct BiasList { int32_t *ids; float *bias; size_t n; } BiasList;
typedef struct Seed { uint64_t value; bool random; } Seed; /* random: the command chooses */

/* The fallback of a required option. */
extern const char OPT_REQUIRED[];

typedef struct Option {
    const char *name;     /* without the dashes; NULL ends a table */
    char        letter;   /* short form; 0: none */
    const char *argument; /* the value's name in help, or the choices; NULL: no value */
    OptionKind  kind;
    size_t      where;    /* offset in the struct that the table fills */
    double      min, max; /* of a number */
    const char *fallback; /* the default, read like a value; NULL: none; OPT_REQUIRED */
    const char *help;
} Option;

/* A group of options in the help. Their struct is at offset `where` of the command's arguments. */
typedef struct OptionGroup { const char *title; const Option *options; size_t where; } OptionGroup;

/* An argument without a name: const char * at offset `where`; NULL if it is optional and absent.
 * Its name says what it may be: one of the words of "bash|zsh", the name of a COMMAND, or otherwise
 * a file. If the last one is "FILE...", it may be repeated, and `where` is a TextList. In the
 * zeroed entry that ends a table, help may say what one more argument was probably meant to be. */
typedef struct Operand { const char *name; size_t where; bool optional; const char *help; } Operand;
bool operand_is_list(const Operand *o);

/* What one command accepts. Groups and operands end with a zeroed entry. */
typedef struct Syntax {
    const char        *command;
    const Operand     *operands;
    const OptionGroup *groups;
} Syntax;

/* For each option o of each group g. Its struct is at GROUP_AT(args, g). */
#define EACH_OPTION(o, g, syntax)                                                                  \
    for (const OptionGroup *g = (syntax)->groups; g->options; g++)                                 \
        for (const Option *o = g->options; o->name; o++)
#define GROUP_AT(args, g) ((void *)((char *)(args) + (g)->where))

/* Reads argv[0 .. argc), without the names of program and command, into args, a zeroed struct.
 * Forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, letters without value together (-qh).
 * After -- all are operands, and so is a lone -. *now is set to the OPT_NOW option that ended
 * the reading, or NULL. Texts in args point into argv. Fails with TBLOCK_USAGE, or TBLOCK_SYSTEM
 * (no memory). Call options_free even on failure. */
bool options_read(const Syntax *syntax, int argc, char **argv, void *args, const Option **now,
                  tblock_error *err);

/* A number in decimal notation; false if it is anything else. */
bool number_read(const char *s, double *out);

/* Frees the lists in args. */
void options_free(const Syntax *syntax, void *args);

/* ---- command --------------------------------------------------------------------------------- */

/* What a command consists of. The table of commands is in main.c. */

typedef struct Example { const char *line, *what; } Example;

/* What is open when a command begins; each step needs those before it. The prompt is read between
 * model and context if the command has the options of prompts. */
typedef enum Opens { OPENS_NOTHING, OPENS_FILES, OPENS_MODEL, OPENS_CONTEXT } Opens;
enum { COMMAND_READS = 5, COMMAND_WRITES = 2 };
typedef struct Frame Frame;

typedef struct Command {
    Syntax         syntax;
    const char    *summary;   /* a few words, for the list of commands */
    const char    *text;      /* paragraphs for the help, separated by \n */
    const Example *examples;  /* ends with a zeroed entry */
    size_t         args_size; /* size of the struct that the options fill */

    /* Does the work, with what the frame has opened (frame.h). False: err has the exit status and
     * the line to print, if any. */
    bool (*run)(Frame *f, tblock_error *err);

    /* What the frame does before: */
    bool (*check)(Frame *f, tblock_error *err); /* is the command line as it should be? */
    Opens       opens;
    const char *reads[COMMAND_READS];   /* options and operands that name files but the model, */
    const char *writes[COMMAND_WRITES]; /* and those that name outputs */
    bool (*hold)(Frame *f, tblock_error *err); /* opens more that the sandbox shall have */
    const char *needs;                  /* what to do if the model has no tokenizer */
} Command;

extern const Command cmd_run, cmd_chat, cmd_info, cmd_tokenize, cmd_logits, cmd_verify, cmd_audit,
    cmd_embed, cmd_rerank, cmd_eval, cmd_attn, cmd_train, cmd_grad, cmd_block, cmd_quantize,
    cmd_convert, cmd_synth, cmd_bench, cmd_completions, cmd_constrain, cmd_serve, cmd_pull,
    cmd_list, cmd_rm, cmd_help;

extern const Command *const all_commands[]; /* in the order of the help; ends with NULL */
/* The same table, set by main: help.c, which some commands need, would otherwise need them all. */
extern const Command *const *commands;

/* Finds a command by name. NULL: err is filled and names the most similar one. */
const Command *command_find(const char *name, tblock_error *err);

/* ---- message.c ------------------------------------------------------------------------------- */

/* Exit statuses, notes to the user, and names as they are shown. */

/* Exit statuses besides enum tblock_status. Both have an empty message, so nothing is printed. */
enum {
    CLI_INTERRUPTED = 130, /* Ctrl-C                                                     */
    CLI_CLOSED      = 141  /* SIGPIPE: the reader of standard output is gone */
};

/* Prints one line on standard error, "tblock: ..."; a note is not printed with --quiet. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void cli_print(const char *fmt, ...);
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void cli_note(const char *fmt, ...);
/* The output ends within a line: where it is the file of the messages too, the next begins one. */
void cli_in_line(bool is);
void cli_set_quiet(bool quiet);
bool cli_is_quiet(void);

/* A name for a table or a line of its own, escaped like a message (base/printable.c). Returns
 * out. */
enum { CLI_SHOWN = 256 };
const char *cli_shown(char out[CLI_SHOWN], const char *text);

/* ---- terminal.c ------------------------------------------------------------------------------ */

/* What the terminal behind a descriptor can show. */

/* Is it a terminal that knows control sequences: TERM is neither unset nor dumb? */
bool terminal_is_capable(int fd);
/* Is it a terminal at all? Never under mpirun, which puts one between. */
bool terminal_is(int fd);

/* Is it such a terminal, and NO_COLOR unset or empty? */
bool terminal_has_colour(int fd);

/* The columns of the terminal; 80 if it does not say, or if there is none. */
int terminal_columns(int fd);

/* The text that turns a colour on or off; "" if there are no colours. */
typedef enum Tone { TONE_OFF, TONE_BAD, TONE_WARNING, TONE_DIM } Tone;
const char *terminal_tone(int fd, Tone tone);

/* ---- output.c -------------------------------------------------------------------------------- */

/* Standard output that keeps its first error, JSON text, terminals.
 *
 * Printed text collects in a buffer, which output_flush writes. The first error is kept, and
 * output_flush reports it, so printing itself returns nothing to check. */

void output_write(const char *data, size_t n);

/* Like printf, to standard output. Returns the number of bytes. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int output_format(const char *fmt, ...);

/* From now on everything goes to standard error: for help that the user did not ask for. */
void output_to_stderr(void);

/* Writes the buffer. Fails with TBLOCK_SYSTEM (a full disk), or with CLI_CLOSED and no message
 * if the reader went away. */
bool output_flush(tblock_error *err);

/* Rows as the commands print them: as JSON, or as text with the labels at the left edge. */
#define OUTPUT_ROWS(json, width) \
    { .face = (json) ? FACE_JSON : FACE_TEXT, .colour = output_has_colour(),                       \
      .label_width = (width), .plain = true }
bool output_rows(Rows *r, tblock_error *err); /* prints and frees them */

void output_report(const char *text); /* a report of the library; adds a newline if needed */

/* Prints a JSON string with quotes. Bytes that are not UTF-8 become U+FFFD. */
void output_json_text(const char *text, size_t n);

/* Prints "key": [1, 2, 3]. */
void output_json_ids(const char *key, const int32_t *ids, size_t n);

bool output_is_terminal(void);
bool output_has_colour(void);
int  output_columns(void); /* $COLUMNS, or those of the terminal; elsewhere 80 */

/* ---- input.c --------------------------------------------------------------------------------- */

/* Text from files and standard input. */

/* Like open(2), for this process only. For a name such as /dev/stdout or /dev/fd/3, duplicates
 * the open descriptor. -1: see errno. */
int open_or_take(const char *path, int flags);

enum {
    INPUT_MB     = 1000000,         /* a MB in messages */
    INPUT_PROMPT = 64 * INPUT_MB,   /* limits in bytes: of a prompt, */
    INPUT_LINE   = 256 * INPUT_MB,  /* of a line, */
    INPUT_TEXT   = 1000 * INPUT_MB  /* of a text to tokenize (near the tokenizer's limit) */
};

/* Appends the bytes of a file to *out, up to `most` in all. "-" is standard input. Fails with
 * TBLOCK_INPUT if the file cannot be opened or is too long. */
bool input_read(const char *path, size_t most, TextOut *out, tblock_error *err);

/* "standard input" for "-" */
const char *input_name(const char *path);

/* The lines of a file, one at a time. */
typedef struct Lines {
    const char *name; /* for messages */
    int         fd;
    bool        end;  /* no more to read */
    TextOut     kept; /* bytes read; those from `at` on are not yet returned */
    size_t      at, searched;
    size_t      number; /* of the last returned line, from 1 */
} Lines;

/* Calls `take` for each line of a file, without its '\n'; "-" is standard input. Before it waits
 * for input it flushes standard output. Fails if `take` does, or the input or the output. */
typedef bool TakeLine(void *user, const Lines *at, const char *line, size_t n, tblock_error *err);
bool lines_each(const char *path, TakeLine *take, void *user, tblock_error *err);

/* Puts the line's place before the message. Returns false. */
bool lines_fail(const Lines *at, tblock_error *err);

/* Is another whole line available without waiting? */
bool lines_ready(const Lines *l);

/* ---- progress_bar.c -------------------------------------------------------------------------- */

/* Shows what the program does while it prints nothing: one line on standard
 * error, only on a terminal. */

/* Shows `what` (a few words) and how much of it is done, 0 .. 1 (less than 0: unknown). The line
 * appears half a second after the first call and then moves by itself. Does nothing if standard
 * error is not a terminal that knows control sequences, with --quiet, or if no thread
 * can be made. */
void progress_show(const char *what, double done);

/* A progress callback for the library: sets the share done of what progress_show named. */
void progress_advance(void *unused, double done);

/* Wipes the line. Call it before printing anything else. Harmless without a line. */
void progress_end(void);

/* Wipes the line for good; for handlers of signals that end the program. */
void progress_wipe(void);

/* ---- interrupt.c ----------------------------------------------------------------------------- */

/* Ctrl-C as a flag that the program reads between two pieces of work. */

/* From now on the first Ctrl-C only sets interrupted(); a second one ends the program at once. A
 * shell that starts us in the background ignores the signal, and then so do we. */
void interrupt_catch(void);
bool interrupted(void);

/* The same, but every Ctrl-C only sets the flag, and one that comes while waiting for input ends
 * the wait (EINTR). interrupt_forget clears the flag. */
void interrupt_catch_each(void);
void interrupt_forget(void);

/* ---- fault.c --------------------------------------------------------------------------------- */

/* Signals that end the program, and what it does before. The library installs no handlers. */

/* Call it once, at the start. From then on:
 * - If a mapped file is truncated while in use, or its disk fails (SIGBUS), the program prints an
 *   error line with the file's name and ends with status 4.
 * - SIGINT, SIGTERM, SIGHUP and SIGQUIT remove the temporary files of outputs, then end the program
 *   as usual. A signal that was ignored stays ignored, as under nohup.
 * - A file size limit (SIGXFSZ) and a reader that goes away (SIGPIPE) are errors of write. */
void fault_catch(void);

/* Ends the program now by this signal; from a handler or elsewhere. Async-signal-safe. Inside a
 * handler of the same signal, the program ends when the handler returns. */
void fault_end(int signal_number);

/* ---- sandbox.c ------------------------------------------------------------------------------- */

/* --sandbox: from then on, this process only computes, and reads and writes what is open. */

/* Was the program built with libseccomp, and does the kernel support it? Fails with TBLOCK_SYSTEM,
 * saying why not. Call it before any work. */
bool sandbox_possible(tblock_error *err);

/* From now on the system rejects (EPERM) every call except for reading and writing what is open,
 * memory, time, threads of this process, and the settings of its terminal. Nothing can be opened,
 * renamed, removed or run, no socket made, no memory made executable. Writable descriptors above 2
 * are closed, except the n of `writable`. Standard input is reopened read-only, unless it is the
 * same as standard output or error. This holds for all threads, for good. Fails with TBLOCK_SYSTEM
 * as above, if standard input cannot be reopened, and without memory; then there is no filter at
 * all. serving: connections to a listening socket can be accepted and used too. */
bool sandbox_enter(const int *writable, size_t n, bool serving, tblock_error *err);

/* The second layer of sandbox_enter, if the kernel has Landlock: no file and no port, whatever
 * calls the filter would miss. It holds for this thread and those that it starts, and needs
 * PR_SET_NO_NEW_PRIVS. Errors are ignored: the filter is the promise. */
void sandbox_landlock(void);

/* ---- run_stats.c ----------------------------------------------------------------------------- */

/* What tblock run --stats and --json report about speed, memory and settings. */

typedef struct RunStats {
    double   load_s, prefill_s, decode_s;
    size_t   n_loaded;    /* tokens of a loaded state                      */
    size_t   n_prefilled; /* prompt tokens computed, in n_pieces calls */
    size_t   n_pieces;
    size_t   n_decoded;   /* tokens computed after it, in n_calls calls       */
    size_t   n_calls;
    bool     drafts;      /* --draft; n_accepted of n_proposed tokens were accepted */
    size_t   n_proposed, n_accepted;
    size_t   draft_made_bytes; /* as made_bytes, of the draft model */
    uint64_t seed, hash;  /* hash: of the last logits                         */
    double   huge_share;  /* of the weights, at the end: tblock_huge_share    */
    int      memory_fd;   /* run_stats_open_memory                            */
} RunStats;

/* Opens what run_stats_* reads about this process's memory, before a sandbox forbids it; -1: there
 * is none. */
int run_stats_open_memory(void);

/* "seed": ..., "logits_hash": ..., "stats": {...} in the open object; as text, lines of which the
 * last ends with the hash. stopped: the reason. */
void run_stats_rows(Rows *r, const RunStats *s, const tblock_model_info *m,
                    const tblock_context_info *c, const char *stopped);

/* ---- common.c -------------------------------------------------------------------------------- */

/* Options that several commands share, each declared in one table, and what they do. */

typedef struct GeneralOptions { bool quiet, usage, help, version; } GeneralOptions;
extern const Option general_options[];

/* Rows that several commands have in tables of their own. The command gives the field that a row
 * fills and its own words of the help. */
#define OPTION_JSON(at, help)         { "json", 0, NULL, OPT_FLAG, at, 0, 0, NULL, help }
#define OPTION_OUTPUT(at, need, help) { "output", 'o', "FILE", OPT_TEXT, at, 0, 0, need, help }
#define OPTION_TRUST_HASH(at)                                                                      \
    { "trust-hash", 0, NULL, OPT_FLAG, at, 0, 0, NULL,                                             \
      "do not read the model's data to check that they have the hash that the file records" }
#define OPTION_SEED(at, help)         { "seed", 's', "N|random", OPT_SEED, at, 0, 0, "0", help }
#define OPTION_IDS(at, help)          { "ids", 0, "IDS", OPT_IDS, at, 0, 0, NULL, help }
#define OPTION_NO_BOS(at, help)       { "no-bos", 0, NULL, OPT_FLAG, at, 0, 0, NULL, help }
#define OPTION_SPECIAL(at, in)                                                                     \
    { "special", 0, NULL, OPT_FLAG, at, 0, 0, NULL,                                                \
      "read special tokens in " in " as special; by default they are ordinary text" }
#define OPTION_THREADS(at, more)                                                                   \
    { "threads", 't', "N", OPT_INT, at, 0, 1024, "0",                                              \
      "number of threads; 0: one per physical core" more }
#define OPTION_KEEP(at, when, more)                                                                \
    { "keep", 'k', "PATTERN=TYPE", OPT_TEXTS, at, 0, 0, NULL,                                      \
      when "another type for matrices whose names match" more }
#define OPTION_KV_TYPE(at)                                                                         \
    { "kv-type", 0, "auto|f32|f16|q8", OPT_CHOICE, at, 0, 0, "auto",                               \
      "type of the KV cache; auto: f32 for float weights, f16 for quantized ones" }
#define OPTION_SANDBOX(at)                                                                         \
    { "sandbox", 0, NULL, OPT_FLAG, at, 0, 0, NULL,                                                \
      "after opening the files, allow only computing, reading and writing (Linux; see "            \
      "SECURITY.md)" }
#define OPERAND_OUT(at) { "OUT", at, true, "an older form of -o OUT" }

/* Groups, in the order of the help. */
#define GROUP_PROMPT(at)                                                                           \
    { "Prompt: one of --prompt, --prompt-file, --ids or standard input", prompt_options, at }
#define GROUP_COMPUTE(at) { "Computing", compute_options, at }
#define GROUP_CONSTRAINT(at) { "Constraint", constraint_options, at }
#define GROUP_DRAFT(at) { "Drafts", draft_options, at }
#define GROUP_GENERAL(at) { "General", general_options, at }

/* What every command takes. */
#define MODEL_OPERAND \
    "a model file, a Hugging Face folder, a .gguf, a Meta folder or a llama2.c .bin"
#define OPERAND_MODEL(at) { "MODEL", at, false, MODEL_OPERAND }

/* The tables in the row of a command. */
#define OPERANDS(...) (const Operand[]){ __VA_ARGS__, { 0 } }
#define GROUPS(...)   (const OptionGroup[]){ __VA_ARGS__, { 0 } }
#define EXAMPLES(...) (const Example[]){ __VA_ARGS__, { 0 } }

/* How logits are computed. */
typedef struct ComputeOptions {
    int         n_ctx, threads, rope_length;
    const char *isa, *math, *activations, *kv_type, *affinity, *pages;
    bool        mlock, allow_nan, sandbox, check;
    const char *type;
    TextList    keep, lora;
    bool        silent;         /* no option: the context has no notes */
    int         n_seqs;         /* no option: sequences of the context; 0: 1 */
    tblock_recorded recorded;   /* no option: by the golden file, state or receipts that it reads */
    struct tblock_ranks *ranks; /* no option: the ranks that share the model; NULL: none */
} ComputeOptions;
extern const Option compute_options[];

/* The first options, --ctx and --threads; a command with its own of these skips them. */
enum { COMPUTE_SIZES = 2 };

enum { CTX_MOST = 1 << 24 }; /* of --ctx */
enum { COMPUTE_BATCH = 512 }; /* maximum tokens per batch; a larger one reads the weights no
                               * faster */

/* tblock_open with these options, and the adapters of compute_context. */
tblock_model *compute_open(const char *path, const ComputeOptions *o, tblock_error *err);

/* Each "PATH:0.5" is an adapter and its scale; without a number after the last colon, 1. free the
 * result, which contains all texts. NULL: out of memory (err). */
struct tblock_lora_file; /* tblock_tools.h */
struct tblock_lora_file *loras_read(const TextList *lora, tblock_error *err);

/* tblock_context_new with these options; warns if n_ctx exceeds the model's own limit. path: for
 * messages. */
tblock_context *compute_context(const tblock_model *m, const char *path, const ComputeOptions *o,
                                tblock_error *err);

/* The drafter of speculative decoding (drafting.c). */
typedef struct DraftArgs { const char *by; int max, match; } DraftArgs;
extern const Option draft_options[];
typedef struct Drafting {
    int               most;     /* draft tokens: tblock_generation_options.draft */
    tblock_model     *model;    /* the draft model; NULL: none */
    tblock_model_info info;     /* its description */
    tblock_context   *context;
} Drafting;
const char *guesser_path(const DraftArgs *o); /* path of the draft model; NULL: none */

/* Opens the drafter of the generations of c, with the machine options of `compute` and its own
 * types. Close it after c, also if this failed. */
bool draft_open(Drafting *d, const DraftArgs *o, tblock_context *c,
                const ComputeOptions *compute, tblock_error *err);
void draft_close(Drafting *d);

/* How a token is sampled. */
typedef struct SamplingOptions {
    tblock_sampler_options numbers; /* not its bias and seed */
    BiasList bias;
    Seed   seed;
} SamplingOptions;
extern const Option sampling_options[];

tblock_sampler_options sampling_of(const SamplingOptions *o, uint64_t seed);

/* The constraint on the output (constraint_options.c). */
typedef struct ConstraintOptions {
    const char *regex, *grammar, *schema;
    bool        object, any_order;
} ConstraintOptions;
extern const Option constraint_options[];

/* At most one constraint, or exactly one if it is needed; else USAGE. */
bool constraint_check(const ConstraintOptions *o, bool needed, tblock_error *err);
bool constraint_given(const ConstraintOptions *o);
bool constraint_is_text(const char *schema); /* a JSON object itself, not the name of a file */
/* The given constraint; lists unknown formats (as a note). Free: tblock_constraint_free. */
tblock_constraint *constraint_open(const tblock_model *m, const ConstraintOptions *o,
                                   tblock_error *err);
/* Did the output end before it satisfied c: by --predict, a full context, Ctrl-C? c may be NULL. */
bool constraint_was_cut(tblock_constraint *c, const tblock_generation_info *now, bool *cut,
                        tblock_error *err);
void constraint_note_cut(void);

/* A generation that runs to its end (generate.c). */
typedef struct Generating {
    tblock_context        *context;
    tblock_generation     *generation;
    const char            *reading; /* the progress bar's text for a long prompt; NULL: no bar   */
    bool (*show)(void *user, const tblock_generation_info *now, tblock_error *err); /* every step */
    void                  *user;
    tblock_generation_info now;
    size_t                 piece, n_pieces; /* tokens of the prompt's next chunk; chunks computed */
    double                 prefill_s, decode_s; /* up to the first token; with the others         */
} Generating;

/* Start with context, generation, reading, show and user. Ctrl-C (interrupt.c) stops it, which is
 * an end like others. False: show or the generation failed. */
bool generate(Generating *g, tblock_error *err);

/* Where the tokens come from. */
typedef struct PromptOptions {
    const char *text, *file;
    TextList    words; /* no option: arguments after MODEL, which are the prompt too */
    IdList      ids;
    bool        no_bos, special;
    bool        needs_text; /* no option: an empty text is an error, which names its file */
    bool        continues; /* no option: the text continues after other tokens; none is put first,
                            * and it may be empty */
} PromptOptions;
extern const Option prompt_options[];

typedef struct PromptInput {
    char    *text;   /* as given; empty when the prompt is ids */
    size_t   n_text;
    int32_t *ids;
    size_t   n;
} PromptInput;

/* Is there at most one prompt? Else fails (TBLOCK_USAGE). */
bool prompt_check(const PromptOptions *o, tblock_error *err);

/* Read and tokenize: --ids, --prompt, --prompt-file or else standard input. An empty text is the
 * BOS alone if the tokenizer puts one first. Fails (TBLOCK_INPUT) for text and a model without
 * tokenizer, and (TBLOCK_USAGE) if there is no token at all. path: the model, for messages. */
bool prompt_read(PromptInput *p, const PromptOptions *o, const tblock_model *m, const char *path,
                 tblock_error *err);
void prompt_free(PromptInput *p);

/* Note that the tokenizer is not from the model's own file, if so (compute_context does). */
void note_tokenizer(const tblock_model_info *info, const char *path);

/* Note how many weights became 0 in a change of type, if any did (convert, quantize). */
void note_flushed(uint64_t n);

/* Fails for a model without tokenizer; says what to do instead. */
bool need_tokenizer(const tblock_model *m, const char *path, const char *instead,
                    tblock_error *err);

/* The file that the prompt is read from: its name, "-" for standard input, NULL for neither. */
const char *prompt_file(const PromptOptions *o);

/* The output of a command that takes it as -o OUT and, in an older form, as an argument: *out is
 * the given one, NULL without one. Both are an error (TBLOCK_USAGE). */
bool output_one(const char **out, const char *argument, tblock_error *err);

/* Replace a random seed by a value and note it, so that the run can be repeated. */
bool seed_choose(Seed *seed, tblock_error *err);

/* ---- verify_receipts.c ----------------------------------------------------------------------- */

/* Writes a receipt to a file, as a line of JSON. */
struct tblock_receipt;
bool receipt_write(const struct tblock_receipt *r, const char *path, tblock_error *err);

/* tblock verify with receipts (docs/receipts.md). */
typedef struct ReceiptFiles {
    const char *junit; TextList files; bool json, trust_hash, bisect;
    int         block; /* -1: all */
} ReceiptFiles;
/* Is the file a receipt, not a golden file? "-" counts as one; a pipe or a device does not. */
bool receipt_is(const char *path);
bool receipts_verify(Frame *f, const ReceiptFiles *in, tblock_error *err);
/* What a verdict says about the model's data. */
static inline const char *data_said(bool hash_checked)
{
    return hash_checked ? "data checked"
                        : "data not checked (--trust-hash)";
}

/* ---- guarded.c ------------------------------------------------------------------------------- */

/* Files of a command that enters the sandbox, where nothing can be opened by name. They are opened
 * before, and the library gets names such as /proc/self/fd/5. Without the sandbox, names stay as
 * they are. */

/* A zeroed Guarded is closed. */
typedef struct Guarded {
    const char *path;       /* what the library should open */
    const char *shown;      /* as the user gave it */
    bool        open;       /* opened here */
    int         fd;
    bool        renamed;    /* an output that the helper process at `to` and `from` renames */
    int         to, from;
    bool        copied;     /* an output that is copied from fd to `target` at the end */
    int         target;
    char        name[32];
} Guarded;

/* Call these before the sandbox, for what is read in it under its own name: the model, its adapters
 * and the draft model (NULL: none) with all their files; n other inputs (NULL: none), where a FIFO
 * waits for its writer; the place of an output, to compare it with the inputs. They fail without
 * memory; a missing file is reported when it is read. guarded_model also fails if there can be no
 * sandbox. Without `sandbox` they do nothing. */
bool guarded_model(const char *path, const ComputeOptions *o, const DraftArgs *draft,
                   tblock_error *err);
bool guarded_named(const char *const *path, size_t n, bool sandbox, tblock_error *err);
bool guarded_place(const char *path, bool sandbox, tblock_error *err);
/* tblock_hold of a file that is no model, also for the program's own readers. path may be NULL. */
bool guarded_hold(const char *path, int what, tblock_error *err);

/* Opens an output file; path may be NULL. As in base/file.h, it appears complete or not at all. It
 * gets a temporary name. A process in the sandbox cannot rename, so a helper process outside waits
 * for an order to rename the file; without one it removes it. What base/file.h writes in place
 * (devices, FIFOs, open descriptors) is written at the end. In comparisons with the inputs, the
 * library's name stands for the old file. */
bool guarded_output(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* Enters the sandbox (sandbox.c) if asked to. These outputs, and the descriptor `also` (-1: none),
 * stay writable. */
bool guarded_enter(bool sandbox, const Guarded *list, size_t n, int also, tblock_error *err);

/* Renames the complete output to its name. Closes g. */
bool guarded_commit(Guarded *g, tblock_error *err);

/* Closes g without an output. If the message of err begins with the library's name for the file,
 * replaces that by the user's. */
void guarded_close(Guarded *g, tblock_error *err);

#endif
