/* cli/complete_zsh.c: prints an _arguments specification for each command; see zshcompsys(1). */
#include "command.h"
#include "help.h"

static const char head[] = "#compdef tblock\n"
                           "# tblock for zsh, printed by: tblock completions zsh\n"
                           "_tblock() {\n"
                           "    local curcontext=$curcontext state line\n"
                           "    typeset -A opt_args\n"
                           "    _arguments -C '(- *)'{-h,--help}'[list the commands]' '(- "
                           "*)--version[print the version]' \\\n"
                           "        '1:command:->command' '*::argument:->argument'\n"
                           "    case $state in\n"
                           "    command)\n"
                           "        local -a list=(\n";
static const char middle[] =
    "        )\n"
    "        _describe command list\n"
    "        ;;\n"
    "    argument)\n"
    "        case $words[1] in\n";
static const char tail[] =
    "        esac\n"
    "        ;;\n"
    "    esac\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _tblock ]; then # found in fpath\n"
    "    _tblock \"$@\"\n"
    "else\n"
    "    compdef _tblock tblock\n"
    "fi\n";

static void print_escaped(const char *text, const char *special)
{
    print_quoted(text, special, "'\\''");
}

/* Prints ":FILE:_files", the part about a value. */
static void print_action(const char *name, bool file, const char *words)
{
    output_format(":");
    print_escaped(name, ":\\");
    output_format(":");
    if (file) {
        output_format("_files");
    } else if (words) {
        output_format("(");
        print_words(words);
        output_format(")");
    } else {
        output_format(" "); /* nothing to offer: zsh shows the name */
    }
}

static void print_option(const Option *o)
{
    const char *value = o->argument ? "=" : "";
    output_format(" \\\n            ");
    if (o->letter)
        output_format("'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter,
                      o->argument ? "+" : "", o->name, value);
    else
        output_format("'%s--%s%s[", o->kind == OPT_TEXTS || o->kind == OPT_BIASES ? "*" : "",
                      o->name, value);
    print_escaped(o->help, "[]\\");
    output_format("]");
    if (o->argument)
        print_action(o->argument, option_is_file(o), option_words(o));
    output_format("'");
}

static void print_command(const Command *c)
{
    int n = 0;
    output_format("        %s)\n            _arguments -s -S", c->syntax.command);
    EACH_OPTION(o, g, &c->syntax)
        print_option(o);
    for (const Operand *o = c->syntax.operands; o->name; o++) {
        output_format(" \\\n            '");
        if (operand_is_list(o))
            output_format("*");
        else
            output_format("%d%s", ++n, o->optional ? ":" : "");
        print_action(o->name, operand_is_file(o), operand_words(o));
        output_format("'");
    }
    output_format("\n            ;;\n");
}

void completions_zsh(void)
{
    output_format("%s", head);
    for (const Command *const *c = commands; *c; c++) {
        output_format("            '%s:", (*c)->syntax.command);
        print_escaped((*c)->summary, ":\\");
        output_format("'\n");
    }
    output_format("%s", middle);
    for (const Command *const *c = commands; *c; c++)
        print_command(*c);
    output_format("%s", tail);
}
