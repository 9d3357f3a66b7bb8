/* base/file.c: opens, maps and reads files. Most of the care is for special files: FIFOs, devices,
 * open descriptors. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/text.h"

const char *file_kind(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISSOCK(mode) ? "a socket"
                            : "a regular file";
}

int file_status(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ELOOP
            || error == ENXIO || error == EISDIR || error == EBADF
        ? INPUT
        : SYSTEM;
}

int file_descriptor(const char *path)
{
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) == 0 && path[n] >= '0' && path[n] <= '9'
            && strlen(path + n) <= 6) {
            char *end;
            long  fd = strtol(path + n, &end, 10);
            if (*end == 0)
                return (int)fd;
        }
    }
    return -1;
}

/* fstat by its own system call. Some C libraries use newfstatat with an empty path, which our
 * sandbox forbids: a seccomp filter cannot see that the path is empty. */
int file_fstat(int fd, struct stat *st)
{
#if defined(__LP64__) && defined(SYS_fstat)
    *st = (struct stat){ 0 };
    return (int)syscall(SYS_fstat, fd, st);
#else
    return fstat(fd, st);
#endif
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Explains the errno of a failed open. Names the target of a broken link: "no such file" alone
 * would deny a name that does exist. */
static bool cannot_open(const char *path, Error *err)
{
    int     error = errno;
    char    target[256];
    ssize_t n = error == ENOENT || error == ELOOP ? readlink(path, target, sizeof target) : -1;
    if (n > 0)
        return fail(err, INPUT, "%s: cannot open: a symbolic link to %.*s, which %s", path, (int)n,
                    target, error == ELOOP ? "leads in a circle" : "does not exist");
    return fail(err, file_status(error), "%s: cannot open: %s", path, strerror(error));
}

static int open_any(const char *path, int flags, Error *err)
{
    int fd = file_open(path, flags);
    if (fd < 0)
        cannot_open(path, err);
    return fd;
}

static int take_descriptor(int number, const char *path, Error *err)
{
    int fd = fcntl(number, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        cannot_open(path, err);
    return fd;
}

static bool check_regular(const struct stat *st, const char *path, Error *err)
{
    return S_ISREG(st->st_mode)
        || fail(err, INPUT, "%s: expected a regular file, found %s", path, file_kind(st->st_mode));
}

/* Opens what should be a regular file, without waiting for the writer of a FIFO. Returns -1 on
 * failure. Checks before opening, because opening a FIFO would wake its writer and opening a
 * device may act on it. The file may change in between, so the open must not wait, and the
 * caller checks again (is_regular). */
static int open_regular(const char *path, Error *err)
{
    struct stat st;
    if (file_stat(path, &st) == 0 && !check_regular(&st, path, err))
        return -1;
    return open_any(path, O_NONBLOCK, err);
}

static bool is_regular(int fd, const char *path, struct stat *st, Error *err)
{
    if (file_fstat(fd, st) != 0)
        return fail(err, SYSTEM, "%s: cannot read: %s", path, strerror(errno));
    return check_regular(st, path, err);
}

/* The current mappings. A SIGBUS handler may wait for the lock: no thread reads a mapped file while
 * holding it, so its holder is another thread, which keeps running. */
typedef struct Mapped {
    struct Mapped       *next;
    const unsigned char *data;
    size_t               size;
    char                 path[];
} Mapped;
static Mapped     *mapped;
static atomic_flag mapped_held = ATOMIC_FLAG_INIT;

static void hold_mapped(void)
{
    while (atomic_flag_test_and_set(&mapped_held))
        ;
}

/* Frees the path too. */
static void unlist_mapped(const char *path)
{
    hold_mapped();
    Mapped **at = &mapped, *m;
    while (*at && (*at)->path != path)
        at = &(*at)->next;
    if ((m = *at) != NULL)
        *at = m->next;
    atomic_flag_clear(&mapped_held);
    free(m);
}

const char *file_mapped_at(const void *address)
{
    const char *path = NULL;
    hold_mapped();
    for (const Mapped *m = mapped; m && !path; m = m->next)
        if ((uintptr_t)address - (uintptr_t)m->data < m->size)
            path = m->path;
    atomic_flag_clear(&mapped_held);
    return path;
}

static bool map_fd(FileMap *f, int fd, const char *path, bool writable, Error *err)
{
    struct stat st;
    if (!is_regular(fd, path, &st, err))
        return false;
    size_t  n    = strlen(path) + 1;
    Mapped *list = malloc(sizeof *list + n);
    if (!list)
        return no_memory(path, err);
    FileMap m = { .path = memcpy(list->path, path, n), .size = (size_t)st.st_size };
    if (m.size) {
        void *data = writable
            ? mmap(NULL, m.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0)
            : mmap(NULL, m.size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            fail(err, SYSTEM, "%s: cannot map %zu bytes: %s", path, m.size, strerror(errno));
            free(list);
            return false;
        }
        m.data = data;
    }
    list->data = m.data;
    list->size = m.size;
    hold_mapped();
    list->next = mapped;
    mapped     = list;
    atomic_flag_clear(&mapped_held);
    *f = m;
    return true;
}

static bool open_map(FileMap *f, const char *path, bool writable, Error *err)
{
    int number = file_descriptor(path);
    int fd = number >= 0 ? take_descriptor(number, path, err) : open_regular(path, err);
    *f = (FileMap){ 0 };
    bool ok = fd >= 0 && map_fd(f, fd, path, writable, err);
    if (fd >= 0)
        close(fd);
    return ok;
}

bool file_map_open(FileMap *f, const char *path, Error *err)
{
    return open_map(f, path, false, err);
}
bool file_map_open_private(FileMap *f, const char *path, Error *err)
{
    return open_map(f, path, true, err);
}

void file_map_close(FileMap *f)
{
    if (f->data)
        munmap((void *)(uintptr_t)f->data, f->size);
    unlist_mapped(f->path);
    *f = (FileMap){ 0 };
}

/* The pages that hold [offset, offset + n_bytes) of the file. False if there are none. */
static bool pages_of(const FileMap *f, size_t offset, size_t n_bytes, void **start, size_t *length)
{
    if (!f->data || offset >= f->size || n_bytes == 0)
        return false;
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           end = n_bytes < f->size - offset ? offset + n_bytes : f->size;
    offset -= offset % page;
    *start = (void *)((uintptr_t)f->data + offset);
    *length = end - offset;
    return true;
}

static void advise(const FileMap *f, size_t offset, size_t n_bytes, int advice)
{
    void  *start;
    size_t length;
    if (pages_of(f, offset, n_bytes, &start, &length))
        (void)madvise(start, length, advice); /* a hint: failure does not matter */
}

void file_map_will_need(const FileMap *f, size_t offset, size_t n_bytes)
{
    advise(f, offset, n_bytes, MADV_WILLNEED);
}

void file_map_release(const FileMap *f, size_t offset, size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (offset + page - 1) / page * page;
    if (offset < f->size && n_bytes <= f->size - offset && first < offset + n_bytes)
        advise(f, first, (offset + n_bytes - first) / page * page, MADV_DONTNEED);
}

void file_map_huge_pages(const FileMap *f) { advise(f, 0, f->size, MADV_HUGEPAGE); }
void file_map_small_pages(const FileMap *f) { advise(f, 0, f->size, MADV_NOHUGEPAGE); }

void file_map_populate(const FileMap *f)
{
#ifdef MADV_POPULATE_READ
    if (f->data && madvise((void *)(uintptr_t)f->data, f->size, MADV_POPULATE_READ) == 0)
        return;
#endif
    advise(f, 0, f->size, MADV_WILLNEED); /* before Linux 5.14 */
}

bool memory_lock(const void *data, size_t n_bytes, const char *what, Error *err)
{
    if (!data || mlock(data, n_bytes) == 0)
        return true;
    int           error = errno;
    struct rlimit limit;
    if (error != EPERM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < n_bytes)
        return fail(err, SYSTEM,
                    "%s: cannot lock %zu bytes in memory: the limit is %llu bytes (ulimit -l)",
                    what, n_bytes, (unsigned long long)limit.rlim_cur);
    return fail(err, SYSTEM, "%s: cannot lock %zu bytes in memory: %s", what, n_bytes,
                strerror(error));
}

bool file_map_lock(const FileMap *f, Error *err)
{
    return memory_lock(f->data, f->size, f->path, err);
}

/* Reads fd to its end, at most max_bytes. */
static bool read_all(int fd, const char *path, size_t max_bytes, char **text, size_t *n_bytes,
                     Error *err)
{
    size_t n = 0, cap = 0;
    char  *buffer = NULL;
    for (;;) {
        if (n + 1 >= cap) { /* room for a NUL and for a byte past the limit */
            size_t want = cap ? cap * 2 : 1 << 16;
            if (want / 2 > max_bytes)
                want = max_bytes + 2;
            char *grown = realloc(buffer, want);
            if (!grown) {
                free(buffer);
                return fail(err, SYSTEM, "%s: out of memory for %zu bytes", path, want);
            }
            buffer = grown;
            cap = want;
        }
        ssize_t got = read(fd, buffer + n, cap - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int error = errno;
            free(buffer);
            return fail(err, file_status(error), "%s: cannot read: %s", path, strerror(error));
        }
        n += (size_t)got;
        if (n > max_bytes) {
            free(buffer);
            return fail(err, INPUT, "%s: expected at most %zu bytes, found more", path, max_bytes);
        }
        if (got == 0)
            break;
    }
    buffer[n] = 0;
    *text = buffer;
    *n_bytes = n;
    return true;
}

static bool read_path(const char *path, bool regular, size_t max_bytes, char **text,
                      size_t *n_bytes, Error *err)
{
    if (max_bytes > SIZE_MAX / 4)
        max_bytes = SIZE_MAX / 4;
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", max_bytes, text, n_bytes, err);
    struct stat st;
    int         number = strcmp(path, "/dev/stdin") == 0 ? STDIN_FILENO : file_descriptor(path);
    regular = regular && number < 0;
    int fd  = number >= 0 ? take_descriptor(number, path, err)
        : regular        ? open_regular(path, err)
                          : open_any(path, 0, err);
    if (fd < 0)
        return false;
    bool ok = (!regular || is_regular(fd, path, &st, err))
        && read_all(fd, path, max_bytes, text, n_bytes, err);
    close(fd);
    return ok;
}

bool file_read(const char *path, size_t max_bytes, char **text, size_t *n_bytes, Error *err)
{
    return read_path(path, true, max_bytes, text, n_bytes, err);
}

bool file_read_stream(const char *path, size_t max_bytes, char **text, size_t *n_bytes, Error *err)
{
    return read_path(path, false, max_bytes, text, n_bytes, err);
}
