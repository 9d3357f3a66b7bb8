/* cli/terminal.h: what a terminal behind a descriptor can show. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

/* A terminal that knows control sequences: TERM is neither unset nor dumb. */
bool terminal_is_capable(int fd);

/* Such a terminal, and NO_COLOR is unset or empty. */
bool terminal_has_colour(int fd);

/* As the terminal says; 80 where it does not, or where there is none. */
int terminal_columns(int fd);

/* What turns a colour on or off there; "" where there are no colours. */
typedef enum Tone { TONE_OFF, TONE_BAD, TONE_WARNING } Tone;
const char *terminal_tone(int fd, Tone tone);

#endif
