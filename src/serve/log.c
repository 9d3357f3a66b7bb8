/* serve/log.c: a line for each request, to standard error or a file. No line delays a response: one
 * that cannot be written (a full disk, a pipe without a reader) is lost, and the next one counts
 * it. */
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A FIFO without a reader is an error, not a wait. */
static int open_log(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

bool log_open(Log *l, const ServeOptions *o, tblock_error *err)
{
    *l = (Log){ .path = o->log, .wanted = o->log || !o->quiet, .fd = STDERR_FILENO };
    if (l->path)
        l->fd = open_log(l->path);
    if (l->path && l->fd < 0)
        return fail(err, TBLOCK_SYSTEM, "--log %s: cannot write: %s", l->path, strerror(errno));
    pthread_mutex_init(&l->lock, NULL);
    return true;
}

void log_close(Log *l)
{
    if (l->path)
        close(l->fd);
    pthread_mutex_destroy(&l->lock);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A write of at most PIPE_BUF bytes does not block if the pipe is ready. */
static bool put(int fd, const char *text, size_t n)
{
    while (n) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        const ssize_t done = poll(&ready, 1, 0) > 0 && (ready.revents & POLLOUT)
                                 ? write(fd, text, n < PIPE_BUF ? n : PIPE_BUF)
                                 : -1;
        if (done <= 0)
            return false;
        text += done;
        n -= (size_t)done;
    }
    return true;
}

static void write_line(Log *l, const TextOut *line)
{
    char lost[64];
    int  n = l->n_lost ? snprintf(lost, sizeof lost, "\n%zu lines of the log are lost\n", l->n_lost)
                       : 0;
    const bool good = !line->failed && put(l->fd, lost, (size_t)n);
    if (good)
        l->n_lost = 0;
    l->n_lost += !good || !put(l->fd, line->text, line->n);
}

void log_line(Log *l, const char *id, const char *fmt, ...)
{
    TextOut         line = { 0 };
    struct timespec now;
    struct tm       utc;
    va_list         args;
    if (!l->wanted)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    text_out(&line, "%s %04d-%02d-%02dT%02d:%02d:%02dZ ", id, utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
    va_start(args, fmt);
    text_out_list(&line, fmt, args);
    va_end(args);
    text_out(&line, "\n");
    pthread_mutex_lock(&l->lock);
    write_line(l, &line);
    pthread_mutex_unlock(&l->lock);
    text_out_free(&line);
}

void log_text(TextOut *o, const char *text, size_t n)
{
    char shown[PRINTABLE_BYTES];
    for (size_t i = 0, n_read; i < n; i += n_read) {
        size_t n_shown = printable(shown, text + i, n - i, &n_read);
        text_out_bytes(o, shown, n_shown);
    }
}

void log_reopen(Log *l)
{
    const int fd    = l->path ? open_log(l->path) : -1;
    const int error = errno;
    pthread_mutex_lock(&l->lock);
    if (fd >= 0) {
        close(l->fd);
        l->fd     = fd;
        l->n_lost = 0;
    }
    pthread_mutex_unlock(&l->lock);
    if (l->path && fd < 0)
        log_line(l, "serve", "--log: cannot be opened again: %s", strerror(error));
}
