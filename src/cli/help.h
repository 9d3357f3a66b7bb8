/* cli/help.h: help texts, printed from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

void help_overview(void);                  /* all commands, to standard output */
void help_command(const Command *command); /* one command                      */

#endif
