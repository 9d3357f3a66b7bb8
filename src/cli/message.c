/* cli/message.c: prints notes, with control characters escaped and warnings coloured. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

const char *cli_shown(char out[CLI_SHOWN], const char *text)
{
    printable_text(out, CLI_SHOWN, text, strlen(text));
    return out;
}

static bool is_quiet;

void cli_set_quiet(bool quiet) { is_quiet = quiet; }
bool cli_is_quiet(void) { return is_quiet; }

static bool in_line; /* the output's last line has not ended */

void cli_in_line(bool is) { in_line = is; }

/* Does a message need a new line, as it goes to the file of the output? A terminal's lines are
 * ended where they are printed. */
static bool breaks_line(void)
{
    struct stat out, errors;
    const bool  breaks = in_line && !terminal_is(STDOUT_FILENO)
        && fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &errors) == 0
        && out.st_dev == errors.st_dev && out.st_ino == errors.st_ino;
    in_line = in_line && !breaks;
    return breaks;
}

static void print_line(const char *fmt, va_list list)
{
    char raw[1024], line[1024];
    vsnprintf(raw, sizeof raw, fmt, list);
    printable_text(line, sizeof line, raw, strlen(raw));
    const char warning[] = "warning:";
    size_t     n = strncmp(line, warning, sizeof warning - 1) == 0 ? sizeof warning - 1 : 0;
    fprintf(stderr, "%stblock: %s%.*s%s%s\n", breaks_line() ? "\n" : "",
            n ? terminal_tone(STDERR_FILENO, TONE_WARNING) : "", (int)n, line,
            n ? terminal_tone(STDERR_FILENO, TONE_OFF) : "", line + n);
}

void cli_print(const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    print_line(fmt, list);
    va_end(list);
}

void cli_note(const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    if (!is_quiet)
        print_line(fmt, list);
    va_end(list);
}
