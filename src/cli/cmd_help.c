/* tblock help: all commands, one of them, or the manual page. */
#include "frame.h"
#include "help.h"

#include <string.h>

typedef struct HelpArgs { const char *command; bool man; GeneralOptions general; } HelpArgs;

static bool help(Frame *f, tblock_error *err)
{
    const HelpArgs *a = f->args;
    const char     *name = a->command;
    if (a->man) {
        if (name)
            return fail(err, TBLOCK_USAGE, "--man: expected no command, found %s: the manual "
                                               "page covers all of them", name);
        man_page_print();
        return true;
    }
    if (!name) {
        help_overview();
        return true;
    }
    if (strcmp(name, "all") == 0) {
        help_all();
        return true;
    }
    const Command *command = command_find(name, err);
    if (command)
        help_command(command);
    if (command || help_topic(name))
        return true;
    if (strstr(err->msg, "did you mean"))
        return false;
    return fail(err, TBLOCK_USAGE,
                "help: expected a command or a topic, found '%s'; topics are all, the groups of "
                "options that tblock run -h names, and each option", name);
}

static const Option options[] = {
    { "man", 0, NULL, OPT_FLAG, offsetof(HelpArgs, man), 0, 0, NULL,
      "print the manual page tblock(1), for man -l" },
    { 0 },
};
const Command cmd_help = {
    { "help",
      OPERANDS({ "COMMAND", offsetof(HelpArgs, command), true,
                 "the command to explain, or a topic: all; a group of options, such as sampling; "
                 "the name of an option; default: list all commands" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(offsetof(HelpArgs, general))) },
    "list the commands, or explain one",
    "Prints to standard output.",
    EXAMPLES({ "tblock help run", "the options of run, with their defaults and ranges" },
             { "tblock help sampling", "one group of them; tblock help temp is one option" },
             { "tblock help --man | man -l -", "read all of it as a manual page" }),
    .args_size = sizeof(HelpArgs), .run = help,
};
