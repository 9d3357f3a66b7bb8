/* base/hold.c: what a process that may no longer open files reads by name: files opened before,
 * what stat said of them, and what /proc and /sys said. Lasts until the process ends. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

typedef struct HeldFile {
    struct HeldFile *next;
    struct stat      st;
    int              fd, error; /* fd -1: not open; error: of stat or open */
    bool             exists;    /* also for a broken link */
    char            *text;      /* of file_of_system; NULL: none */
    char             path[];
} HeldFile;
static HeldFile *held;
static bool  holds_system;

/* path_in writes ./NAME for a file in the folder "." */
static const char *plain(const char *path)
{
    return path[0] == '.' && path[1] == '/' && path[2] ? path + 2 : path;
}

static HeldFile *find(const char *path)
{
    HeldFile *h = held;
    while (h && strcmp(h->path, plain(path)) != 0)
        h = h->next;
    return h;
}

static HeldFile *add(const char *path, Error *err)
{
    size_t    n = strlen(plain(path)) + 1;
    HeldFile *h = calloc(1, sizeof *h + n);
    if (!h) {
        no_memory(path, err);
        return NULL;
    }
    memcpy(h->path, plain(path), n);
    h->fd   = -1;
    h->next = held;
    held    = h;
    return h;
}

bool file_hold(const char *path, FileHold how, Error *err)
{
    struct stat link;
    HeldFile   *h = find(path);
    if (!h && !(h = add(path, err)))
        return false;
    if (h->fd >= 0)
        return true;
    h->exists = lstat(path, &link) == 0;
    h->error  = stat(path, &h->st) == 0 ? 0 : errno;
    bool opens = how == HOLD_TEXT ? !S_ISDIR(h->st.st_mode)
                                  : how == HOLD_FILE && S_ISREG(h->st.st_mode);
    if (!h->error && opens && file_descriptor(path) < 0) {
        int wait = how == HOLD_FILE ? O_NONBLOCK : 0;
        h->fd    = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | wait);
        h->error = h->fd < 0 ? errno : 0;
    }
    return true;
}

int file_open(const char *path, int flags)
{
    const HeldFile *h  = find(path);
    int             fd = -1;
    if (h && h->error)
        errno = h->error;
    else if (h && h->fd >= 0 && (fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 3)) >= 0)
        (void)lseek(fd, 0, SEEK_SET); /* a pipe has no offset */
    else if (!h || h->fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
    if (fd < 0 && held && errno == EPERM) /* from the sandbox: not held, since it did not exist */
        errno = ENOENT;
    return fd;
}

int file_stat(const char *path, struct stat *st)
{
    const HeldFile *h = find(path);
    if (!h)
        return stat(path, st);
    *st   = h->st;
    errno = h->error;
    return h->error && h->st.st_mode == 0 ? -1 : 0;
}

bool file_is_there(const char *path)
{
    struct stat     st;
    const HeldFile *h = find(path);
    return h ? h->exists : lstat(path, &st) == 0;
}

const char *file_held_like(const char *path)
{
    struct stat     st;
    const HeldFile *h = file_stat(path, &st) == 0 ? held : NULL;
    while (h && (h->fd < 0 || h->st.st_dev != st.st_dev || h->st.st_ino != st.st_ino))
        h = h->next;
    return h ? h->path : NULL;
}

FILE *file_of_system(const char *path)
{
    const size_t MOST = 1 << 20;
    HeldFile    *h    = find(path);
    size_t       n;
    if (!h && holds_system && (h = add(path, NULL)) != NULL
        && !file_read_stream(path, MOST, &h->text, &n, NULL))
        h->text = NULL;
    return h ? (h->text && *h->text ? fmemopen(h->text, strlen(h->text), "r") : NULL)
             : fopen(path, "re");
}

void file_hold_system(bool on) { holds_system = on; }
