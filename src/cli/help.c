/* cli/help.c: prints help from the option tables, wrapped to the width of the terminal, and finds
 * a command by its name. */
#include "help.h"

#include "command.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    OPTION_COLUMN = 28,
    COMMAND_COLUMN = 14,
    EXAMPLE_COLUMN = 6,
    CONTINUED_COLUMN = 4,
    LEAST_WIDTH = 60,
    MOST_WIDTH = 100
};

const Command *const *commands;

const char help_summary[] = "run Llama-style models on a CPU, with the same bits everywhere";

const char help_description[] =
    "A model is a model file, which tblock convert makes from published weights and which is "
    "mapped as it is; or it is the checkpoint itself, which is repacked at each start: a Hugging "
    "Face folder, one of its weight files, a .gguf, a Meta folder or a llama2.c .bin. The results "
    "do not depend on the number of threads, on how a prompt is split, or on the instruction set.\n"
    "Standard output gets only the result; notes, progress and errors go to standard error. "
    "Colours and progress bars appear only on a terminal.\nOptions may come anywhere after the "
    "command: --name VALUE, --name=VALUE, -n VALUE or -nVALUE. If an option is given twice, the "
    "last one counts, unless the option is repeatable. After --, nothing is an option.";

const Fact help_statuses[] = {
    { "0", "done" },
    { "1", "the answer is no: verify or a check found a difference or an error, or the training "
           "loss became NaN or infinite" },
    { "2", "wrong usage; also tblock alone, which prints the list of commands to standard error" },
    { "3", "bad or unsupported input file" },
    { "4", "a system error: memory, disk, input or output" },
    { "5", "the answer says nothing: random tokens might pass this audit as well" },
    { "130", "interrupted by Ctrl-C; what was generated so far is written" },
    { "141", "the reader of standard output closed it" },
    { 0 },
};
const Fact help_environment[] = {
    { "NO_COLOR", "if not empty: no colours" },
    { "TERM", "if unset or dumb: no colours and no progress bars" },
    { 0 },
};

static const Example first_steps[] = {
    { "tblock run models/shakespeare.bin 'ROMEO:'",
      "the included small model continues the text" },
    { "tblock run FOLDER 'Once upon a time'",
      "use published weights directly: a Hugging Face folder, a .gguf ..." },
    { "tblock convert FOLDER -o model.bin", "convert them to a model file, which starts at once" },
    { "tblock info model.bin", "show what is in it" },
    { 0 },
};

/* The width of the help: the terminal's, within limits; otherwise always the same. */
static int text_width(void)
{
    int columns = output_columns();
    return (columns < LEAST_WIDTH ? LEAST_WIDTH : columns > MOST_WIDTH ? MOST_WIDTH : columns) - 1;
}

/* Prints text from column `at` on, wrapped at words. Further lines are indented by `indent`; \n
 * starts a new line. */
static void print_wrapped(const char *text, int at, int indent)
{
    const int width = text_width();
    while (*text) {
        int  word = (int)strcspn(text, " \n");
        bool fresh = at <= indent; /* nothing on this line yet */
        if (!fresh && at + 1 + word > width) {
            output_format("\n");
            at = 0;
            fresh = true;
        }
        if (fresh)
            at += output_format("%*s%.*s", indent - at, "", word, text);
        else
            at += output_format(" %.*s", word, text);
        text += word;
        if (*text == '\n') {
            output_format("\n");
            at = 0;
        }
        text += *text != '\0';
    }
    output_format("\n");
}

void help_describe_value(const Option *o, char *out, size_t n_out)
{
    bool number = o->kind >= OPT_INT && o->kind <= OPT_FLOAT;
    char range[64] = "";
    if (number)
        snprintf(range, sizeof range, "%.15g to %.15g", o->min, o->max);
    const char *fallback = o->fallback ? o->fallback : "";
    const char *separator = *range && *fallback ? "; " : "";
    if (*fallback || *range)
        snprintf(out, n_out, " [%s%s%s]", fallback, separator, range);
    else
        snprintf(out, n_out, "%s",
                 o->kind == OPT_TEXTS || o->kind == OPT_BIASES ? " [repeatable]" : "");
}

/* brief: only what its help says first. */
static void print_option(const Option *o, bool brief)
{
    char value[128] = "", line[1024], letter[5] = "    ";
    if (!brief)
        help_describe_value(o, value, sizeof value);
    snprintf(line, sizeof line, "%.*s%s", brief ? (int)strcspn(o->help, ";(,") : INT_MAX, o->help,
             value);
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int at = output_format("  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
                           o->argument ? o->argument : "");
    if (at >= OPTION_COLUMN) {
        output_format("\n");
        at = 0;
    }
    print_wrapped(line, at, OPTION_COLUMN);
}

/* Does this path need no quotes in a shell? */
static bool is_plain_path(const char *path)
{
    return path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-")]
        == '\0';
}

static const char *program = "tblock";

void help_program(const char *name)
{
    if (name && strchr(name, '/') && is_plain_path(name))
        program = name;
}

/* The folder of the included models: beside an installed program, otherwise in the source tree. */
static const char *model_folder(void)
{
    static const char shared[] = "/share/tblock/models/";
    static char       folder[PATH_MAX + sizeof shared];
    ssize_t           n = readlink("/proc/self/exe", folder, PATH_MAX);
    char             *end;
    folder[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 2; i++) /* PREFIX/bin/tblock */
        if ((end = strrchr(folder, '/')))
            *end = '\0';
    strcat(folder, shared);
    return n > 0 && is_plain_path(folder) && access(folder, R_OK) == 0 ? folder : "models/";
}

/* The length of the part of a command that must stay on one line: a word, a quoted text, an option
 * with its value. */
static int command_piece(const char *line)
{
    bool quoted = false, option = line[0] == '-' || line[0] == '>';
    int  n = 0;
    for (; line[n] && (quoted || line[n] != ' ' || (option && !strchr("->|", line[n + 1]))); n++) {
        option &= line[n] != ' ';
        quoted ^= line[n] == '\'';
    }
    return n;
}

/* Replaces the start of a command's part: the program as called, or the real folder of models. */
static const char *in_its_place(const char *piece, int n, int *n_replaced)
{
    static const char ours[] = "tblock", models[] = "models/";
    if (n == sizeof ours - 1 && strncmp(piece, ours, sizeof ours - 1) == 0) {
        *n_replaced = n;
        return program;
    }
    bool model = strncmp(piece, models, sizeof models - 1) == 0;
    *n_replaced = model ? (int)sizeof models - 1 : 0;
    return model ? model_folder() : "";
}

/* Prints a command that works when copied. A long one is continued on further lines. */
static void print_example(const Example *e)
{
    int at = output_format(" ");
    for (const char *s = e->line; *s; s += *s == ' ') {
        int         skip, n = command_piece(s);
        const char *start = in_its_place(s, n, &skip);
        int         length = (int)strlen(start) + n - skip;
        if (at > EXAMPLE_COLUMN && at + 1 + length + (s[n] ? 2 : 0) > text_width()) {
            output_format(" \\\n");
            at = output_format("%*s", CONTINUED_COLUMN - 1, "");
        }
        at += output_format(" %s%.*s", start, n - skip, s + skip);
        s += n;
    }
    output_format("\n");
    print_wrapped(e->what, 0, EXAMPLE_COLUMN);
}

static void print_examples(const char *title, const Example *e, int most)
{
    output_format("\n%s:\n", title);
    for (; e->line && most > 0; e++, most--)
        print_example(e);
}

static void print_operands(const Syntax *s)
{
    output_format("Usage: tblock %s", s->command);
    for (const Operand *o = s->operands; o->name; o++)
        output_format(o->optional ? " [%s]" : " %s", o->name);
    output_format(" [options]\n");
}

void help_command(const Command *command)
{
    const Syntax *s = &command->syntax;
    char          also[1024];

    print_wrapped(command->summary, output_format("tblock %s:", s->command), EXAMPLE_COLUMN);
    output_format("\n");
    print_operands(s);
    output_format("\n");
    print_wrapped(command->text, 0, 0);
    if (s->operands->name)
        output_format("\nArguments:\n");
    for (const Operand *o = s->operands; o->name; o++)
        print_wrapped(o->help, output_format("  %s", o->name), OPTION_COLUMN);
    for (const OptionGroup *g = s->groups; g->options; g++) {
        output_format("\n%s:\n", g->title);
        for (const Option *o = g->options; o->name; o++)
            print_option(o, false);
    }
    print_examples("Examples", command->examples, INT_MAX);
    if (*alias_list(s, also, sizeof also))
        print_wrapped(also, output_format("\nAlso read:") - 1, 0);
}

void help_usage(const Command *command)
{
    enum { MOST_EXAMPLES = 2 }; /* then all fits on 20 lines */
    const Syntax *s    = &command->syntax;
    size_t        used = 0;
    char          topics[256];
    print_wrapped(command->summary, output_format("tblock %s:", s->command), EXAMPLE_COLUMN);
    print_examples("Examples", command->examples, MOST_EXAMPLES);
    output_format("\n");
    print_operands(s);
    EACH_OPTION(o, g, s)
        if (g->options != general_options && (o->letter || o->fallback == OPT_REQUIRED))
            print_option(o, true);
    output_format("All of it: tblock %s --help\n", s->command);
    for (const OptionGroup *g = s->groups; g->options && used < sizeof topics; g++)
        used += (size_t)snprintf(topics + used, sizeof topics - used, "%s%.*s", used ? ", " : "",
                                 (int)strcspn(g->title, " :"), g->title);
    print_wrapped(topics, output_format("A part of it: tblock help TOPIC, one of"), EXAMPLE_COLUMN);
}

static void print_facts(const char *title, const Fact *fact)
{
    output_format("\n%s:\n", title);
    for (; fact->name; fact++)
        print_wrapped(fact->what, output_format("  %s", fact->name), COMMAND_COLUMN);
}

void help_short(void)
{
    print_wrapped(help_summary, output_format("tblock %s:", tblock_version()), EXAMPLE_COLUMN);
    output_format("\nUsage: tblock COMMAND [arguments] [options]\n\nCommands:\n");
    for (const Command *const *c = commands; *c; c++)
        print_wrapped((*c)->summary, output_format("  %s", (*c)->syntax.command), COMMAND_COLUMN);
    output_format("\n");
    print_wrapped("tblock COMMAND -h shows examples of a command, tblock COMMAND --help explains "
                  "all of it, tblock help TOPIC a part, such as sampling; tblock --version prints "
                  "the version.", 0, 0);
}

void help_start(void)
{
    char   line[512] = "";
    size_t n = 0;
    for (const Command *const *c = commands; *c; c++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%s", n ? ", " : "",
                              (*c)->syntax.command);
    print_wrapped(help_summary, output_format("tblock %s:", tblock_version()), EXAMPLE_COLUMN);
    print_examples("To get started", first_steps, INT_MAX);
    print_wrapped(line, output_format("\nCommands:") - 1, EXAMPLE_COLUMN);
    output_format("\n");
    print_wrapped("tblock COMMAND -h shows a command and --help all of it; tblock help says what "
                  "each does.", 0, 0);
}

int help_takers(const Option *options, const Command **first)
{
    int n = 0;
    for (const Command *const *c = commands; *c; c++)
        for (const OptionGroup *g = (*c)->syntax.groups; g->options; g++)
            if (g->options == options && n++ == 0)
                *first = *c;
    return n;
}

/* "Sampling, of run, chat, audit:" */
static void print_heading(const OptionGroup *group)
{
    const char *before = "of";
    output_format("%.*s, ", (int)strcspn(group->title, ":"), group->title);
    for (const Command *const *c = commands; *c; c++)
        for (const OptionGroup *g = (*c)->syntax.groups; g->options; g++)
            if (g->options == group->options) {
                output_format("%s %s", before, (*c)->syntax.command);
                before = ",";
            }
    output_format(":\n");
}

/* Is this the first word of the title? */
static bool is_titled(const OptionGroup *g, const char *name)
{
    const size_t n = strlen(name);
    return n == strcspn(g->title, " :") && strncasecmp(g->title, name, n) == 0;
}

bool help_topic(const char *name)
{
    bool           found = false;
    const Command *first = NULL;
    for (const Command *const *c = commands; *c; c++)
        for (const OptionGroup *g = (*c)->syntax.groups; g->options; g++) {
            bool begun = help_takers(g->options, &first) == 0 || first != *c; /* printed before */
            if (begun)
                continue;
            for (const Option *o = g->options; o->name; o++) {
                if (!is_titled(g, name) && strcmp(o->name, name) != 0)
                    continue;
                if (!begun)
                    print_heading(g);
                print_option(o, false);
                begun = found = true;
            }
        }
    return found;
}

void help_all(void)
{
    help_overview();
    for (const Command *const *c = commands; *c; c++) {
        output_format("\n");
        help_command(*c);
    }
}

void help_overview(void)
{
    help_short();
    print_examples("To get started", first_steps, INT_MAX);
    print_facts("Exit status", help_statuses);
    print_facts("Environment", help_environment);
}

const Command *command_find(const char *name, tblock_error *err)
{
    Nearest near = { name, 0, 0 };
    for (const Command *const *c = commands; *c; c++) {
        if (strcmp((*c)->syntax.command, name) == 0)
            return *c;
        nearest_offer(&near, (*c)->syntax.command);
    }
    nearest_offer(&near, "--version");
    const char *meant = nearest_answer(&near);
    if (strpbrk(name, "./:") || (*name && access(name, F_OK) == 0))
        fail(err, TBLOCK_USAGE,
             "unknown command '%s'; a model comes after the command, as in tblock run %s \"text\"",
             name, name);
    else if (meant)
        fail(err, TBLOCK_USAGE, "unknown command '%s'; did you mean %s?", name, meant);
    else
        fail(err, TBLOCK_USAGE, "unknown command '%s'; tblock help lists the commands", name);
    return NULL;
}
