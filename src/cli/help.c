#include "help.h"

#include "output.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 79, OPTION_COLUMN = 28, COMMAND_WIDTH = 11 };

const char help_summary[] = "run Llama-style language models on a CPU, with the same bits everywhere";

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
           "loss became NaN" },
    { "2", "wrong usage; also tblock alone, which prints the list of commands to standard error" },
    { "3", "bad or unsupported input file" },
    { "4", "a system error: memory, disk, input or output" },
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
    { "tblock run models/shakespeare.bin --prompt 'ROMEO:'",
      "the included small model continues the text" },
    { "tblock run FOLDER --prompt 'Once upon a time'",
      "use published weights directly: a Hugging Face folder, a .gguf ..." },
    { "tblock convert FOLDER -o model.bin", "convert them to a model file, which starts at once" },
    { "tblock info model.bin", "show what is in it" },
    { 0 },
};

/* Print text from column `at` on, wrapped at words, further lines indented by `indent`; \n starts a new line. */
static void print_wrapped(const char *text, int at, int indent)
{
    while (*text) {
        int  word = (int)strcspn(text, " \n");
        bool fresh = at <= indent; /* nothing on this line yet */
        if (!fresh && at + 1 + word > WIDTH) {
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
    bool number = o->kind == OPT_INT || o->kind == OPT_FLOAT;
    char range[64] = "";
    if (number)
        snprintf(range, sizeof range, "%.15g to %.15g", o->min, o->max);
    const char *fallback = o->fallback ? o->fallback : "";
    const char *separator = *range && *fallback ? "; " : "";
    if (*fallback || *range)
        snprintf(out, n_out, " [%s%s%s]", fallback, separator, range);
    else
        snprintf(out, n_out, "%s", o->kind == OPT_TEXTS ? " [repeatable]" : "");
}

static void print_option(const Option *o)
{
    char value[128], line[1024], letter[5] = "    ";
    help_describe_value(o, value, sizeof value);
    snprintf(line, sizeof line, "%s%s", o->help, value);
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int at = output_format("  %s--%s%s%s", letter, o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    if (at >= OPTION_COLUMN) {
        output_format("\n");
        at = 0;
    }
    print_wrapped(line, at, OPTION_COLUMN);
}

void help_command(const Command *command)
{
    const Syntax *s = &command->syntax;

    output_format("tblock %s: %s\n\nUsage: tblock %s", s->command, command->summary, s->command);
    for (const Operand *o = s->operands; o->name; o++)
        output_format(o->optional ? " [%s]" : " %s", o->name);
    output_format(" [options]\n\n");
    print_wrapped(command->text, 0, 0);
    if (s->operands->name)
        output_format("\nArguments:\n");
    for (const Operand *o = s->operands; o->name; o++)
        print_wrapped(o->help, output_format("  %s", o->name), OPTION_COLUMN);
    for (const OptionGroup *g = s->groups; g->options; g++) {
        output_format("\n%s:\n", g->title);
        for (const Option *o = g->options; o->name; o++)
            print_option(o);
    }
    output_format("\nExamples:\n");
    for (const Example *e = command->examples; e->line; e++)
        output_format("  %s\n      %s\n", e->line, e->what);
}

static void print_facts(const char *title, const Fact *fact)
{
    output_format("\n%s:\n", title);
    for (; fact->name; fact++)
        output_format("  %-*s %s\n", COMMAND_WIDTH, fact->name, fact->what);
}

void help_short(void)
{
    output_format("tblock %s: %s\n\nUsage: tblock COMMAND [arguments] [options]\n\nCommands:\n", tblock_version(),
                  help_summary);
    for (const Command *const *c = commands; *c; c++)
        output_format("  %-*s %s\n", COMMAND_WIDTH, (*c)->syntax.command, (*c)->summary);
    output_format("\n");
    print_wrapped("tblock help COMMAND and tblock COMMAND --help explain a command; tblock "
                  "--version prints the version.",
                  0, 0);
}

void help_overview(void)
{
    help_short();
    output_format("\nTo get started:\n");
    for (const Example *e = first_steps; e->line; e++)
        output_format("  %s\n      %s\n", e->line, e->what);
    print_facts("Exit status", help_statuses);
    print_facts("Environment", help_environment);
}
