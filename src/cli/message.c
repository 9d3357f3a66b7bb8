/* cli/message.c: prints notes, with control characters escaped and warnings coloured. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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

static void print_line(const char *fmt, va_list list)
{
    char raw[1024], line[1024];
    vsnprintf(raw, sizeof raw, fmt, list);
    printable_text(line, sizeof line, raw, strlen(raw));
    const char warning[] = "warning:";
    size_t     n = strncmp(line, warning, sizeof warning - 1) == 0 ? sizeof warning - 1 : 0;
    fprintf(stderr, "tblock: %s%.*s%s%s\n", n ? terminal_tone(STDERR_FILENO, TONE_WARNING) : "",
            (int)n, line, n ? terminal_tone(STDERR_FILENO, TONE_OFF) : "", line + n);
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
