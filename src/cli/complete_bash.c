/* cli/complete_bash.c: prints completions for plain bash, without the package bash-completion.
 * Readline completes file names, because it knows about quotes and ~. */
#include "command.h"
#include "help.h"

static const char head[] = "# tblock for bash, printed by: tblock completions bash\n"
                           "_tblock() {\n"
                           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - "
                           "1]} command=${COMP_WORDS[1]} words= files=\n"
                           "    COMPREPLY=()\n"
                           "    if [[ $cur == = ]]; then # --name=VALUE comes as three words\n"
                           "        cur=\n"
                           "    elif [[ $prev == = ]]; then\n"
                           "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
                           "    fi\n"
                           "    if ((COMP_CWORD == 1)); then\n"
                           "        command=\n"
                           "    fi\n"
                           "    case $command in\n";
static const char tail[] =
    "    esac\n"
    "    if [[ $files ]]; then\n"
    "        compopt -o default 2> /dev/null\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "}\n"
    "complete -F _tblock tblock\n";

/* Prints "--name | -n". */
static void print_pattern(const Option *o)
{
    output_format("--%s", o->name);
    if (o->letter)
        output_format(" | -%c", o->letter);
}

/* Prints what may follow each option that takes a value. */
static void print_values(const Command *c)
{
    EACH_OPTION(o, g, &c->syntax) {
        if (!o->argument)
            continue;
        output_format("        ");
        print_pattern(o);
        output_format(")");
        if (option_is_file(o)) {
            output_format(" files=1");
        } else if (option_words(o)) {
            output_format(" words='");
            print_words(option_words(o));
            output_format("'");
        }
        output_format(" ;;\n");
    }
}

static void print_names(const Command *c)
{
    EACH_OPTION(o, g, &c->syntax)
        output_format("--%s ", o->name);
}

/* Prints the operands. A command's operands are all of one kind. */
static void print_operand(const Command *c)
{
    const Operand *o = c->syntax.operands;
    if (!o->name) {
        output_format(":");
        return;
    }
    if (operand_is_file(o)) {
        output_format("files=1");
        return;
    }
    output_format("words='");
    print_words(operand_words(o));
    output_format("'");
}

void completions_bash(void)
{
    output_format("%s    '') words='", head);
    for (const Command *const *c = commands; *c; c++)
        output_format("%s ", (*c)->syntax.command);
    output_format("--help --version' ;;\n");
    for (const Command *const *c = commands; *c; c++) {
        output_format("    %s)\n        case $prev in\n", (*c)->syntax.command);
        print_values(*c);
        output_format("        *) if [[ $cur == -* ]]; then words='");
        print_names(*c);
        output_format("'; else ");
        print_operand(*c);
        output_format("; fi ;;\n        esac\n        ;;\n");
    }
    output_format("%s", tail);
}
