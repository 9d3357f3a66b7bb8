/* cli/terminal.h: what the terminal behind a descriptor can show. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

/* Is it a terminal that knows control sequences: TERM is neither unset nor dumb? */
bool terminal_is_capable(int fd);

/* Is it such a terminal, and NO_COLOR unset or empty? */
bool terminal_has_colour(int fd);

/* The columns of the terminal; 80 if it does not say, or if there is none. */
int terminal_columns(int fd);

/* The text that turns a colour on or off; "" if there are no colours. */
typedef enum Tone { TONE_OFF, TONE_BAD, TONE_WARNING } Tone;
const char *terminal_tone(int fd, Tone tone);

#endif
