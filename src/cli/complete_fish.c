/* cli/complete_fish.c: prints one line for each command, option and operand. Needs fish 3.0 for
 * -F. */
#include "command.h"
#include "help.h"

static const char head[] =
    "# tblock for fish, printed by: tblock completions fish\n"
    "function __tblock_command # whether the command on the line is this one; '': none yet\n"
    "    set -l words (commandline -opc)\n"
    "    test \"$words[2]\" = \"$argv[1]\"\n"
    "end\n"
    "complete -c tblock -f\n"
    "complete -c tblock -n '__tblock_command \"\"' -s h -l help -d 'list the commands'\n"
    "complete -c tblock -n '__tblock_command \"\"' -l version -d 'print the version'\n";

static void print_about(const char *text)
{
    output_format(" -d '");
    print_quoted(text, "\\", "\\'");
    output_format("'\n");
}

static void print_list(const char *words)
{
    output_format(" -a '");
    print_words(words);
    output_format("'");
}

static void print_option(const char *command, const Option *o)
{
    output_format("complete -c tblock -n '__tblock_command %s' -l %s", command, o->name);
    if (o->letter)
        output_format(" -s %c", o->letter);
    if (o->argument)
        output_format(option_is_file(o) ? " -rF" : " -x");
    if (option_words(o))
        print_list(option_words(o));
    print_about(o->help);
}

static void print_operand(const char *command, const Operand *o)
{
    output_format("complete -c tblock -n '__tblock_command %s'", command);
    if (operand_is_file(o)) {
        output_format(" -F\n");
        return;
    }
    print_list(operand_words(o));
    print_about(o->help);
}

void completions_fish(void)
{
    output_format("%s", head);
    for (const Command *const *c = commands; *c; c++) {
        output_format("complete -c tblock -n '__tblock_command \"\"' -a %s", (*c)->syntax.command);
        print_about((*c)->summary);
    }
    for (const Command *const *c = commands; *c; c++) {
        const Syntax *s = &(*c)->syntax;
        EACH_OPTION(o, g, s)
            print_option(s->command, o);
        if (s->operands->name) /* all are of one kind */
            print_operand(s->command, s->operands);
    }
}
