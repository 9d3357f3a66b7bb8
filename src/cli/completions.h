/* cli/completions.h: scripts that let a shell complete tblock's command lines, printed from the
 * option tables. */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include "command.h"

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

#endif
