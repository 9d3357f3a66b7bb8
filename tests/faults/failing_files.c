/* tests/faults/failing_files.c: preloaded into the program. open (FAIL_CALL=open) or read
 * (FAIL_CALL=read) of the file FAIL_FILE, or of standard input for "-", fails with errno
 * FAIL_ERRNO, as the kernel would answer. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

/* Looked up at the start: a sandbox looks nothing up. */
static struct stat named;
__attribute__((constructor)) static void look_up(void)
{
    const char *name = getenv("FAIL_FILE");
    if (name)
        (void)stat(name, &named);
}

static bool wanted(const char *call)
{
    const char *is = getenv("FAIL_CALL");
    return is && getenv("FAIL_FILE") && getenv("FAIL_ERRNO") && strcmp(is, call) == 0;
}

static int failure(void)
{
    errno = atoi(getenv("FAIL_ERRNO"));
    return -1;
}

static int open_it(const char *path, int flags, int mode)
{
    if (wanted("open") && strcmp(path, getenv("FAIL_FILE")) == 0)
        return failure();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    return open_it(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    return open_it(path, flags, mode);
}

static ssize_t read_it(int fd, void *to, size_t n)
{
    struct stat is;
    if (wanted("read")) {
        const char *name = getenv("FAIL_FILE");
        if (strcmp(name, "-") == 0 ? fd == STDIN_FILENO
                                   : syscall(SYS_fstat, fd, &is) == 0
                    && is.st_dev == named.st_dev && is.st_ino == named.st_ino)
            return failure();
    }
    return syscall(SYS_read, fd, to, n);
}

ssize_t read(int fd, void *to, size_t n) { return read_it(fd, to, n); }

/* What _FORTIFY_SOURCE makes of them, where it cannot see flags or length. */
int __open_2(const char *path, int flags) { return open_it(path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_it(path, flags, 0); }
ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
    (void)room;
    return read_it(fd, to, n);
}
