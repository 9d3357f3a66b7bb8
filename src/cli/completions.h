/* cli/completions.h: scripts that let a shell complete tblock's command lines, printed from the option tables. */
#ifndef CLI_COMPLETIONS_H
#define CLI_COMPLETIONS_H

#include "command.h"

void completions_bash(void);
void completions_zsh(void);
void completions_fish(void);

/* What a value may be: the words, separated by |, or NULL where it is no enumeration. Valid until the next call. */
const char *option_words(const Option *o);
const char *operand_words(const Operand *o);

/* Whether a value is the name of a file. */
bool option_is_file(const Option *o);
bool operand_is_file(const Operand *o);

/* Print words separated by | with spaces instead. */
void print_words(const char *words);

/* Print a text inside single quotes: characters of `special` get a backslash, and a ' is written as `quote`. */
void print_quoted(const char *text, const char *special, const char *quote);

#endif
