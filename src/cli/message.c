#include "message.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "terminal.h"

size_t cli_utf8_length(const char *text, size_t n)
{
    uint32_t code;
    int      length = n ? utf8_decode(text, n, &code) : 0;
    return length > 0 ? (size_t)length : 0;
}

void cli_escape(char *out, size_t n_out, const char *text, size_t n)
{
    assert(n_out >= 8);
    size_t used = 0, n_read;
    for (size_t i = 0; i < n; i += n_read) {
        char   shown[PRINTABLE_BYTES];
        size_t n_shown = printable(shown, text + i, n - i, &n_read);
        if (used + n_shown + (i + n_read >= n ? 1 : 4) > n_out) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        memcpy(out + used, shown, n_shown);
        used += n_shown;
    }
    out[used] = '\0';
}

const char *cli_shown(char out[CLI_SHOWN], const char *text)
{
    cli_escape(out, CLI_SHOWN, text, strlen(text));
    return out;
}

bool cli_fail(tblock_error *err, int status, const char *fmt, ...)
{
    if (!err)
        return false;
    char    raw[2 * sizeof err->msg];
    va_list list;
    va_start(list, fmt);
    vsnprintf(raw, sizeof raw, fmt, list);
    va_end(list);
    err->status = status;
    cli_escape(err->msg, sizeof err->msg, raw, strlen(raw));
    return false;
}

bool cli_no_memory(tblock_error *err) { return cli_fail(err, TBLOCK_SYSTEM, "out of memory"); }

void cli_note(bool quiet, const char *fmt, ...)
{
    if (quiet)
        return;
    char    raw[1024], line[1024];
    va_list list;
    va_start(list, fmt);
    vsnprintf(raw, sizeof raw, fmt, list);
    va_end(list);
    cli_escape(line, sizeof line, raw, strlen(raw));
    const char warning[] = "warning:";
    size_t     n = strncmp(line, warning, sizeof warning - 1) == 0 ? sizeof warning - 1 : 0;
    fprintf(stderr, "tblock: %s%.*s%s%s\n", n ? terminal_tone(STDERR_FILENO, TONE_WARNING) : "", (int)n, line,
            n ? terminal_tone(STDERR_FILENO, TONE_OFF) : "", line + n);
}
