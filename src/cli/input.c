/* cli/input.c: reads whole inputs with a limit, and lines one at a time. */
#include "command.h"


#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { PIECE = 1 << 13 }; /* on the stack, which may be small */

int open_or_take(const char *path, int flags)
{
    int number = file_descriptor(path);
    return number >= 0 ? fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
        : flags == O_RDONLY ? file_open(path, 0)
                            : open(path, flags | O_CLOEXEC | O_NOCTTY);
}

static int open_file(const char *path, tblock_error *err)
{
    if (strcmp(path, "-") == 0) {
        if (isatty(STDIN_FILENO))
            cli_note("type the text, then press Ctrl-D on a new line");
        return STDIN_FILENO;
    }
    int fd = open_or_take(path, O_RDONLY); /* in a sandbox it is already open */
    if (fd < 0)
        fail(err, file_status(errno), "%s: cannot open: %s", path, strerror(errno));
    return fd;
}

const char *input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* Adds the result of one read to *out; sets *end at the end of the input. More than `most` bytes
 * are an error, because an endless input would take all memory. `where` completes the message. */
static bool read_piece(int fd, const char *name, size_t most, const char *where, TextOut *out,
                       bool *end, tblock_error *err)
{
    char    piece[PIECE];
    ssize_t n;
    do
        n = read(fd, piece, sizeof piece);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return fail(err, errno == EISDIR ? TBLOCK_INPUT : TBLOCK_SYSTEM, "%s: %s", name,
                    strerror(errno));
    *end = n == 0;
    if ((size_t)n > most - out->n)
        return fail(err, TBLOCK_INPUT, "%s: expected at most %zu MB%s, found more", name,
                        most / INPUT_MB, where);
    return text_out_add(out, piece, (size_t)n, err);
}

bool input_read(const char *path, size_t most, TextOut *out, tblock_error *err)
{
    int  fd = open_file(path, err);
    bool end = false, good = fd >= 0;
    while (good && !end)
        good = read_piece(fd, input_name(path), most, "", out, &end, err);
    if (fd > STDIN_FILENO)
        close(fd);
    return good;
}

static bool lines_open(Lines *l, const char *path, tblock_error *err)
{
    *l = (Lines){ .name = input_name(path), .fd = open_file(path, err) };
    return l->fd >= 0;
}

static void lines_close(Lines *l)
{
    if (l->fd > STDIN_FILENO)
        close(l->fd);
    free(l->kept.text);
    *l = (Lines){ 0 };
}

/* The next line without its '\n', valid until the next call. NULL at the end, or on an error: then
 * err->status is set. Before it waits for input it flushes standard output, so a user who types a
 * line gets its output at once, and a file still gets large writes. */
static const char *lines_next(Lines *l, size_t *n, tblock_error *err)
{
    for (;;) {
        const char *line = l->kept.text + l->at;
        const char *found = NULL;
        if (l->kept.n > l->searched)
            found = memchr(l->kept.text + l->searched, '\n', l->kept.n - l->searched);
        if (found || (l->end && l->kept.n > l->at)) {
            *n = found ? (size_t)(found - line) : l->kept.n - l->at;
            l->at = l->searched = l->at + *n + (found != NULL);
            l->number++;
            return line;
        }
        if (l->end)
            return NULL;
        if (l->at > 0) {
            memmove(l->kept.text, l->kept.text + l->at, l->kept.n - l->at);
            l->kept.n -= l->at;
            l->at = 0;
        }
        l->searched = l->kept.n;
        if (!output_flush(err)
            || !read_piece(l->fd, l->name, INPUT_LINE, " in a line", &l->kept, &l->end, err))
            return NULL;
    }
}

bool lines_ready(const Lines *l)
{
    return l->kept.n > l->at && memchr(l->kept.text + l->at, '\n', l->kept.n - l->at);
}

bool lines_each(const char *path, TakeLine *take, void *user, tblock_error *err)
{
    Lines        lines;
    tblock_error why = { 0 };
    const char  *line;
    size_t       n;
    bool         good = true;
    if (!lines_open(&lines, path, err))
        return false;
    while (good && (line = lines_next(&lines, &n, &why)) != NULL)
        good = take(user, &lines, line, n, &why);
    lines_close(&lines);
    good = good && !why.status; /* else the input or the output failed */
    if (!good)
        *err = why;
    return good;
}

bool lines_fail(const Lines *at, tblock_error *err)
{
    const tblock_error why = *err;
    return fail(err, why.status, "%s: line %zu: %s", at->name, at->number, why.msg);
}
