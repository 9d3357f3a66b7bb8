/* cli/help.h: help texts, printed from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

/* A word and its meaning. Lists end with a zeroed entry. */
typedef struct Fact { const char *name, *what; } Fact;

extern const char help_summary[];      /* one line about the program */
extern const char help_description[];  /* paragraphs, separated by \n */
extern const Fact help_statuses[];     /* exit statuses               */
extern const Fact help_environment[];  /* variables                   */

/* What the table knows of an option's value, as " [0.8; 0 to 100]"; may be empty. */
void help_describe_value(const Option *o, char *out, size_t n_out);

/* How the program was called: examples should work as printed. */
void help_program(const char *name);
void help_short(void);                     /* the commands and where to read more */
void help_overview(void);                  /* the same, and all that commands have in common */
void help_command(const Command *command); /* one command */

#endif
