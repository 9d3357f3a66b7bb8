#include "output.h"

#include "message.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/printable.h"
#include "base/utf8.h"

enum { OUTPUT_ROOM = 1 << 16 };

static struct { char data[OUTPUT_ROOM]; size_t n; int error; bool to_stderr; } output; /* error: errno of the first failure */

static void write_out(const char *data, size_t n)
{
    if (!output.error && !write_all(output.to_stderr ? STDERR_FILENO : STDOUT_FILENO, -1, data, n))
        output.error = errno;
}

void output_to_stderr(void) { output.to_stderr = true; }

static void empty_buffer(void)
{
    write_out(output.data, output.n);
    output.n = 0;
}

void output_write(const char *data, size_t n)
{
    if (n > OUTPUT_ROOM - output.n)
        empty_buffer();
    if (n > OUTPUT_ROOM) {
        write_out(data, n);
        return;
    }
    if (n > 0)
        memcpy(output.data + output.n, data, n);
    output.n += n;
}

int output_format(const char *fmt, ...)
{
    char    text[4096]; /* longer than any format here makes; texts of any length go through output_write */
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    if (n < 0 || n >= (int)sizeof text)
        n = n < 0 ? 0 : (int)sizeof text - 1;
    output_write(text, (size_t)n);
    return n;
}

bool output_flush(tblock_error *err)
{
    empty_buffer();
    if (output.error == EPIPE)
        return fail(err, CLI_CLOSED, "%s", "");
    return output.error == 0 || fail(err, TBLOCK_SYSTEM, "standard %s: %s", output.to_stderr ? "error" : "output", strerror(output.error));
}

void output_json_text(const char *text, size_t n)
{
    output_write("\"", 1);
    for (size_t i = 0; i < n;) {
        uint32_t c = 0xFFFD;
        int      length = utf8_decode(text + i, n - i, &c);
        if (length > 0 && is_printable(c) && c != '"' && c != '\\')
            output_write(text + i, (size_t)length);
        else if (c == '"' || c == '\\')
            output_format("\\%c", (char)c);
        else if (c == '\n')
            output_format("\\n");
        else
            output_format("\\u%04x", (unsigned)c); /* nothing over U+FFFF is not printable */
        i += length > 0 ? (size_t)length : 1;
    }
    output_write("\"", 1);
}

void output_json_ids(const char *key, const int32_t *ids, size_t n)
{
    output_format("\"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        output_format("%s%" PRId32, i ? ", " : "", ids[i]);
    output_write("]", 1);
}

void output_json_number(const char *key, double x)
{
    if (isfinite(x))
        output_format("\"%s\": %.17g", key, x);
    else
        output_format("\"%s\": null", key);
}

/* ---- Terminals --------------------------------------------------------------------------------------------------- */

static int output_fd(void) { return output.to_stderr ? STDERR_FILENO : STDOUT_FILENO; }

int output_columns(void)
{
    const char *said = getenv("COLUMNS");
    long        n = said && isatty(output_fd()) == 1 ? strtol(said, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? (int)n : terminal_columns(output_fd());
}

bool output_is_terminal(void) { return isatty(STDOUT_FILENO) == 1; }
bool output_has_colour(void) { return terminal_has_colour(output_fd()); }

void output_toned(Tone tone, const char *text)
{
    output_format("%s%s%s", terminal_tone(output_fd(), tone), text, terminal_tone(output_fd(), TONE_OFF));
}
