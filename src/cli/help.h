/* cli/help.h: help texts, printed from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "command.h"

/* A word and what it means; lists end with a zeroed entry. */
typedef struct Fact { const char *name, *what; } Fact;

extern const char help_summary[];      /* a line about the program    */
extern const char help_description[];  /* paragraphs, separated by \n */
extern const Fact help_statuses[];     /* exit statuses               */
extern const Fact help_environment[];  /* variables                   */

/* " [0.8; 0 to 100]", what the table knows about an option's value beside its name; may be empty */
void help_describe_value(const Option *o, char *out, size_t n_out);

void help_program(const char *name);       /* as the program was called: examples are to work as printed */
void help_short(void);                     /* the commands and how to go on    */
void help_overview(void);                  /* the same with all that is common */
void help_command(const Command *command); /* one command                      */

#endif
