/* tblock completions: scripts for bash, zsh and fish, made from the tables of options. */
#include "frame.h"
#include "help.h"

#include <stdio.h>
#include <string.h>

typedef struct CompletionsArgs { const char *shell; GeneralOptions general; } CompletionsArgs;

/* ---- What the tables know about values ------------------------------------------------------- */

static const char *command_words(void)
{
    static char words[512];
    size_t      n = 0;
    for (const Command *const *c = commands; *c; c++)
        n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", n ? "|" : "",
                              (*c)->syntax.command);
    return words;
}

const char *option_words(const Option *o)
{
    return o->kind == OPT_CHOICE ? o->argument : o->kind == OPT_SEED ? "random" : NULL;
}

const char *operand_words(const Operand *o)
{
    return strcmp(o->name, "COMMAND") == 0 ? command_words()
        : strchr(o->name, '|')             ? o->name
                                           : NULL;
}

bool option_is_file(const Option *o) { return o->argument && strcmp(o->argument, "FILE") == 0; }
bool operand_is_file(const Operand *o) { return !operand_words(o); }

void print_words(const char *words)
{
    for (; *words; words++)
        output_write(*words == '|' ? " " : words, 1);
}

void print_quoted(const char *text, const char *special, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'') {
            output_format("%s", quote);
            continue;
        }
        if (strchr(special, *text))
            output_write("\\", 1);
        output_write(text, 1);
    }
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool completions(Frame *f, tblock_error *err)
{
    const char *shell = ((const CompletionsArgs *)f->args)->shell;
    if (strcmp(shell, "bash") == 0)
        completions_bash();
    else if (strcmp(shell, "zsh") == 0)
        completions_zsh();
    else
        completions_fish();
    return output_flush(err);
}

const Command cmd_completions = {
    { "completions",
      OPERANDS({ "bash|zsh|fish", offsetof(CompletionsArgs, shell), false,
                 "the shell that is to read the script" }),
      GROUPS(GROUP_GENERAL(offsetof(CompletionsArgs, general))) },
    "print a script by which Tab completes the words of tblock",
    "Prints the script to standard output. make install puts all three where the shells look for "
    "them.",
    EXAMPLES({ "source <(tblock completions bash)",
               "in ~/.bashrc; for zsh in ~/.zshrc, after compinit" },
             { "tblock completions fish > ~/.config/fish/completions/tblock.fish",
               "for fish, once" }),
    .args_size = sizeof(CompletionsArgs), .run = completions,
};
