/* cli/terminal.c: queries the system and the environment about a terminal. */
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* mpirun gives each process a terminal as its output, wherever its own output goes. */
bool terminal_is(int fd) { return isatty(fd) == 1 && !getenv("OMPI_COMM_WORLD_RANK"); }

bool terminal_is_capable(int fd)
{
    const char *term = getenv("TERM");
    return terminal_is(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool terminal_has_colour(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    return terminal_is_capable(fd) && !(no_color && *no_color);
}

int terminal_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

const char *terminal_tone(int fd, Tone tone)
{
    static const char *const tones[] = {
        [TONE_OFF] = "\033[0m", [TONE_BAD] = "\033[1;31m", [TONE_WARNING] = "\033[33m",
        [TONE_DIM] = "\033[2m",
    };
    return terminal_has_colour(fd) ? tones[tone] : "";
}
