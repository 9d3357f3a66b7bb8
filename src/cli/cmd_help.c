#include "command.h"
#include "common.h"
#include "help.h"

typedef struct HelpArgs { const char *command; GeneralOptions general; } HelpArgs;

static bool help(void *args, tblock_error *err)
{
    const char *name = ((const HelpArgs *)args)->command;
    if (!name) {
        help_overview();
        return true;
    }
    const Command *command = command_find(name, err);
    if (!command)
        return false;
    help_command(command);
    return true;
}

static const Operand operands[] = {
    { "COMMAND", offsetof(HelpArgs, command), true, "the command to explain; without it all commands are listed" },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Options", general_options, offsetof(HelpArgs, general) },
    { 0 },
};
static const Example examples[] = {
    { "tblock help run", "the options of run, with their defaults and ranges" },
    { 0 },
};
const Command cmd_help = {
    { "help", operands, groups },
    "list the commands, or explain one",
    "Prints to standard output.",
    examples, sizeof(HelpArgs), help,
};
