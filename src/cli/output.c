/* cli/output.c: a buffer for standard output, which keeps the first write error. */
#include "command.h"


#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

enum { OUTPUT_ROOM = 1 << 16 };

/* error: errno of the first failure. */
static struct { char data[OUTPUT_ROOM]; size_t n; int error; bool to_stderr; } output;

static void write_out(const char *data, size_t n)
{
    if (n)
        cli_in_line(data[n - 1] != '\n');
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
    char    text[4096]; /* enough for every format here; use output_write for texts */
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
    return output.error == 0
        || fail(err, TBLOCK_SYSTEM, "standard %s: %s", output.to_stderr ? "error" : "output",
                strerror(output.error));
}

bool output_rows(Rows *r, tblock_error *err)
{
    bool good = !r->out.failed || no_memory(NULL, err);
    if (good)
        output_write(r->out.text, r->out.n);
    if (good && r->face == FACE_JSON && r->out.n)
        output_write("\n", 1);
    text_out_free(&r->out);
    return good;
}

void output_report(const char *text)
{
    size_t n = strlen(text);
    output_write(text, n);
    if (n == 0 || text[n - 1] != '\n')
        output_write("\n", 1);
}

void output_json_text(const char *text, size_t n)
{
    output_write("\"", 1);
    for (size_t n_read; n > 0; text += n_read, n -= n_read) {
        char   shown[JSON_CHAR_BYTES];
        size_t n_shown = json_char(shown, text, n, &n_read);
        output_write(shown, n_shown);
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

/* ---- Terminals ------------------------------------------------------------------------------- */

static int output_fd(void) { return output.to_stderr ? STDERR_FILENO : STDOUT_FILENO; }

int output_columns(void)
{
    const char *said = getenv("COLUMNS");
    long        n = said && terminal_is(output_fd()) ? strtol(said, NULL, 10) : 0;
    return n > 0 && n < INT_MAX ? (int)n : terminal_columns(output_fd());
}

bool output_is_terminal(void) { return terminal_is(STDOUT_FILENO); }
bool output_has_colour(void) { return terminal_has_colour(output_fd()); }
