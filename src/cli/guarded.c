/* cli/guarded.c: opens files before the sandbox, and renames outputs by a helper process outside
 * it. */
#include "command.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tblock_tools.h"

/* Fills err and closes g. */
static bool failed(Guarded *g, int status, const char *what, int error, tblock_error *err)
{
    fail(err, status, "%s: %s: %s", g->shown, what, strerror(error));
    guarded_close(g, NULL);
    return false;
}

static bool cannot_write(Guarded *g, int error, tblock_error *err)
{
    return failed(g, TBLOCK_SYSTEM, "cannot write", error, err);
}

/* ---- Names that are read inside -------------------------------------------------------------- */

bool guarded_model(const char *path, const ComputeOptions *o, const DraftArgs *draft,
                   tblock_error *err)
{
    if (!o->sandbox)
        return true;
    if (o->ranks)
        return fail(err, TBLOCK_USAGE, "--sandbox: expected one process, found %d ranks",
                    tblock_ranks_size(o->ranks));
    tblock_lora_file *lora  = NULL;
    const char       *guess = draft ? guesser_path(draft) : NULL;
    bool good = sandbox_possible(err) && tblock_hold(path, TBLOCK_HOLD_MODEL, err)
        && (!guess || tblock_hold(guess, TBLOCK_HOLD_MODEL, err))
        && (lora = loras_read(&o->lora, err)) != NULL;
    for (size_t i = 0; good && i < o->lora.n; i++)
        good = tblock_hold(lora[i].path, TBLOCK_HOLD_MODEL, err);
    free(lora);
    return good;
}

/* The library must hold the file too: it has its own copy of this code and its data. It opens no
 * FIFO, since one of two readers would wait forever. */
bool guarded_hold(const char *path, int what, tblock_error *err)
{
    return !path
        || (file_hold(path, (FileHold)what, err)
            && tblock_hold(path, what == TBLOCK_HOLD_TEXT ? TBLOCK_HOLD_FILE : what, err));
}

bool guarded_named(const char *const *path, size_t n, bool sandbox, tblock_error *err)
{
    bool good = true;
    for (size_t i = 0; sandbox && good && i < n; i++)
        good = guarded_hold(path[i], TBLOCK_HOLD_TEXT, err);
    return good;
}

bool guarded_place(const char *path, bool sandbox, tblock_error *err)
{
    return !sandbox || guarded_hold(path, TBLOCK_HOLD_PLACE, err);
}

/* Gives the library a name for the descriptor. */
static bool opened(Guarded *g, int fd)
{
    g->open = true;
    g->fd = fd;
    snprintf(g->name, sizeof g->name, "/proc/self/fd/%d", fd);
    g->path = g->name;
    return true;
}

/* ---- The helper ------------------------------------------------------------------------------ */

static const char COMPLETE = 'c', FORGET = 'f';

/* The helper process. It waits for an order. COMPLETE: renames the file and answers with 0 or
 * errno. Any other order, or the end of the other process: removes the file. It ignores all signals
 * that end the other process; the pipe reports that. */
static void help(const char *temp, const char *target, int from, int to)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    char             order;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    ssize_t n;
    do
        n = read(from, &order, 1);
    while (n < 0 && errno == EINTR);
    int error = n == 1 && order == COMPLETE ? file_publish(temp, target) : ECANCELED;
    if (error)
        unlink(temp);
    ssize_t told = write(to, &error, sizeof error); /* a whole int or nothing (pipe(7)) */
    _exit(told != (ssize_t)sizeof error);
}

static bool start_helper(Guarded *g, const char *temp, const char *target, tblock_error *err)
{
    int order[2] = { -1, -1 }, answer[2] = { -1, -1 };
    int child = -1;
    if (pipe2(order, O_CLOEXEC) == 0 && pipe2(answer, O_CLOEXEC) == 0)
        child = fork();
    if (child == 0) {
        close(order[1]);
        close(answer[0]);
        close(STDIN_FILENO); /* their readers and writers need not wait for us */
        close(STDOUT_FILENO);
        help(temp, target, order[0], answer[1]);
    }
    int error = errno;
    if (order[0] >= 0)
        close(order[0]);
    if (answer[1] >= 0)
        close(answer[1]);
    g->to = order[1];
    g->from = answer[0];
    g->renamed = child > 0;
    if (child > 0)
        return true;
    if (g->to >= 0)
        close(g->to);
    if (g->from >= 0)
        close(g->from);
    unlink(temp);
    return failed(g, TBLOCK_SYSTEM, "no helper process for --sandbox", error, err);
}

/* ---- Outputs --------------------------------------------------------------------------------- */

/* Creates a temporary file beside the target, like base/out_file.c. -1: see errno. The caller frees
 * *temp. */
static int open_temp(const char *target, char **temp)
{
    for (int i = 0; i < FILE_TEMP_NAMES; i++) {
        *temp = file_temp_name(target, i);
        int fd = *temp ? open(*temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
        if (fd >= 0 || !*temp || errno != EEXIST)
            return fd;
        free(*temp);
    }
    *temp = NULL;
    errno = EEXIST;
    return -1;
}

/* Gives fd the number of a descriptor whose name stood for the old output: under that name the
 * library compares the output with its inputs. */
static int stand_for(const char *old, int fd, tblock_error *err)
{
    char name[32];
    int  at = open(old, O_PATH | O_CLOEXEC);
    snprintf(name, sizeof name, "/proc/self/fd/%d", at);
    bool good = at >= 0 && tblock_hold(name, TBLOCK_HOLD_PLACE, err)
        && dup3(fd, at, O_CLOEXEC) == at;
    close(good ? fd : at);
    return good ? at : fd;
}

static bool open_renamed(Guarded *g, const struct stat *old, tblock_error *err)
{
    char  target[PATH_MAX], *temp = NULL;
    if (old ? !realpath(g->shown, target)
            : snprintf(target, sizeof target, "%s", g->shown) >= (int)sizeof target)
        return cannot_write(g, old ? errno : ENAMETOOLONG, err);
    int  fd = open_temp(target, &temp), error = errno;
    if (fd >= 0 && old)
        fd = stand_for(target, fd, err);
    bool made = fd >= 0 && opened(g, fd);
    if (made && old && fchmod(fd, old->st_mode & 0777) != 0) {
        error = errno;
        unlink(temp);
        made = false;
    }
    bool good = made ? start_helper(g, temp, target, err) : cannot_write(g, error, err);
    free(temp);
    return good;
}

/* The library needs a seekable file, but the output may be a pipe. So it writes a temporary file,
 * which is copied at the end. */
static bool open_copied(Guarded *g, tblock_error *err)
{
    g->target = open_or_take(g->shown, O_WRONLY);
    if (g->target < 0)
        return cannot_write(g, errno, err);
    g->copied = true;
    FILE *file = tmpfile();
    int   fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1, error = errno;
    if (file)
        fclose(file);
    return fd >= 0 ? opened(g, fd) : failed(g, TBLOCK_SYSTEM,
            "cannot write: cannot make a temporary file", error, err);
}

/* Opens the output the way base/out_file.c would write it. */
bool guarded_output(Guarded *g, const char *path, bool sandbox, tblock_error *err)
{
    struct stat st, link;
    *g = (Guarded){ .path = path, .shown = path };
    if (!path || !sandbox || !*path)
        return true;
    if (!guarded_place(path, sandbox, err))
        return false;
    if (file_descriptor(path) >= 0)
        return open_copied(g, err);
    bool exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT)
        return cannot_write(g, errno, err);
    if (exists && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)))
        return open_copied(g, err);
    if (exists && !S_ISREG(st.st_mode))
        return fail(err, TBLOCK_SYSTEM, "%s: cannot write: expected a file, found %s", path,
                    file_kind(st.st_mode));
    if (exists && access(path, W_OK) != 0)
        return cannot_write(g, errno, err);
    if (!exists && lstat(path, &link) == 0)
        return fail(err, TBLOCK_SYSTEM,
                    "%s: cannot write: a symbolic link to a file that does not exist", path);
    return open_renamed(g, exists ? &st : NULL, err);
}

bool guarded_enter(bool sandbox, const Guarded *list, size_t n, int also, tblock_error *err)
{
    enum { MOST = 8 };
    int    fd[3 * MOST + 1];
    size_t n_fd = 0;
    assert(n <= MOST);
    if (!sandbox)
        return true;
    for (size_t i = 0; i < n; i++) {
        if (list[i].open)
            fd[n_fd++] = list[i].fd;
        if (list[i].renamed)
            fd[n_fd++] = list[i].to;
        if (list[i].copied)
            fd[n_fd++] = list[i].target;
    }
    if (also >= 0)
        fd[n_fd++] = also;
    return sandbox_enter(fd, n_fd, false, err);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Copies the temporary file to the output. Returns 0 or errno. */
static int copy_to_target(const Guarded *g)
{
    char    piece[1 << 13];
    off_t   at = 0;
    ssize_t got;
    while ((got = pread(g->fd, piece, sizeof piece, at)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || !write_all(g->target, -1, piece, (size_t)got))
            return errno;
        at += got;
    }
    return 0;
}

static int tell_helper(const Guarded *g, char order)
{
    int     error = 0;
    ssize_t n = write(g->to, &order, 1);
    if (n != 1)
        return EPIPE;
    do
        n = read(g->from, &error, sizeof error);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof error ? error : EPIPE;
}

static void close_pipes(Guarded *g)
{
    if (g->renamed) {
        close(g->to);
        close(g->from);
    }
    g->renamed = false;
}

bool guarded_commit(Guarded *g, tblock_error *err)
{
    int error = g->copied ? copy_to_target(g) : g->renamed ? file_sync(g->fd) : 0;
    error = g->copied && !error ? file_sync(g->target) : error;
    if (g->copied && close(g->target) != 0 && !error) /* a full disk may be reported only here */
        error = errno;
    g->copied = false;
    if (error)
        return cannot_write(g, error, err);
    error = g->renamed ? tell_helper(g, COMPLETE) : 0;
    close_pipes(g);
    if (error)
        return failed(g, TBLOCK_SYSTEM, file_publish_failed(error), abs(error), err);
    guarded_close(g, NULL);
    return true;
}

/* Changes "/proc/self/fd/5: what" into "FILE: what". */
static void rename_in_message(const Guarded *g, tblock_error *err)
{
    size_t n = strlen(g->name);
    char   rest[sizeof err->msg];
    if (strncmp(err->msg, g->name, n) != 0 || err->msg[n] != ':')
        return;
    memcpy(rest, err->msg + n, sizeof rest - n);
    fail(err, err->status, "%s%s", g->shown, rest);
}

void guarded_close(Guarded *g, tblock_error *err)
{
    if (err && g->open)
        rename_in_message(g, err);
    if (g->renamed)
        tell_helper(g, FORGET);
    close_pipes(g);
    if (g->copied)
        close(g->target);
    if (g->open)
        close(g->fd);
    *g = (Guarded){ 0 };
}
