/* cli/help.h: help, manual page and completions, all from the option tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "base/nearest.h"
#include "cli/command.h"

/* ---- help.c ---------------------------------------------------------------------------------- */

/* Help texts, printed from the tables. */

/* A word and its meaning. Lists end with a zeroed entry. */
typedef struct Fact { const char *name, *what; } Fact;

extern const char help_summary[];      /* one line about the program */
extern const char help_description[];  /* paragraphs, separated by \n */
extern const Fact help_statuses[];     /* exit statuses               */
extern const Fact help_environment[];  /* variables                   */

/* A description of an option's value, as " [0.8; 0 to 100]"; may be empty. */
void help_describe_value(const Option *o, char *out, size_t n_out);

/* Sets how the program was called: examples should work as printed. */
void help_program(const char *name);
void help_short(void);                     /* the commands, and where to read more */
void help_overview(void);                  /* the same, and what all commands share */
void help_command(const Command *command); /* one command */
void help_all(void);                       /* all of these */
void help_start(void);                     /* examples and the names of commands, on a screen */
void help_usage(const Command *command);   /* examples and main options of one, on a screen */

/* The groups of options whose title begins with this word, such as "sampling", or the options of
 * this name, with the commands that have them. False: there are none. */
bool help_topic(const char *name);

/* How many commands have these options; *first: the first of them. */
int help_takers(const Option *options, const Command **first);

/* ---- man_page.c ------------------------------------------------------------------------------ */

/* The manual page tblock(1), printed from the tables. */

void man_page_print(void); /* roff with the man(7) macros, to standard output */

/* ---- completions ----------------------------------------------------------------------------- */

/* Scripts that let a shell complete tblock's command lines, printed from the option tables. */

void completions_bash(void);
void completions_zsh(void);
void completions_fish(void);

/* The words that a value may be, separated by |, or NULL if it is not a choice. Valid until the
 * next call. */
const char *option_words(const Option *o);
const char *operand_words(const Operand *o);

/* Is a value the name of a file? */
bool option_is_file(const Option *o);
bool operand_is_file(const Operand *o);

/* Prints words separated by | with spaces instead. */
void print_words(const char *words);

/* Prints a text inside single quotes. Characters of `special` get a backslash; a ' is written as
 * `quote`. */
void print_quoted(const char *text, const char *special, const char *quote);

/* ---- aliases.c ------------------------------------------------------------------------------- */

/* Names of options that users of other programs know. */

typedef struct Alias {
    const char *of;     /* our name; MODEL: the operand */
    const char *name;   /* without the dashes */
    char        letter; /* 0: none */
} Alias;

/* The aliases that a command reads (NULL: all), after `last` (NULL: from the first). NULL: no more.
 * A command reads those of its options, except names that are options of its own. */
const Alias *alias_next(const Syntax *s, const Alias *last);

/* Our name of an option as typed (n bytes, without the dashes): an alias is resolved, and _ counts
 * as -. An unknown name is returned as it is, in out. */
enum { ALIAS_BYTES = 64 }; /* no option is that long */
const char *alias_read(const Syntax *s, const char *typed, size_t n, char out[ALIAS_BYTES]);

/* "--temperature for --temp; ...", into out, which is returned; "" without any. */
const char *alias_list(const Syntax *s, char *out, size_t n_out);

/* What to do instead, for an option (n bytes, without the dashes) that only other programs have.
 * NULL: not one of these. */
const char *alias_hint(const char *typed, size_t n);

#endif
