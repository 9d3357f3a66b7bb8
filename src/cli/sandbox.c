/* cli/sandbox.c: a seccomp filter. tools/sandbox_filter.c has its rules and compiles it with
 * libseccomp when tblock is built. So entering the sandbox needs no memory, and cannot stop
 * halfway. */
#include "command.h"


#if !defined(HAVE_SECCOMP)

bool sandbox_possible(tblock_error *err)
{
    return fail(err, TBLOCK_SYSTEM, "--sandbox: this tblock was built without libseccomp, "
                                        "which the sandbox needs (Linux only)");
}

bool sandbox_enter(const int *writable, size_t n, bool serving, tblock_error *err)
{
    (void)writable, (void)n, (void)serving;
    return sandbox_possible(err);
}

#else

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool refused(int error, tblock_error *err)
{
    return fail(err, TBLOCK_SYSTEM, "--sandbox: the kernel has no seccomp filters or does not "
                                        "allow them here: %s", strerror(error));
}

static bool entered;

bool sandbox_possible(tblock_error *err)
{
    if (entered)
        return true;
    /* Without a filter as argument, EFAULT means that filters would be allowed (seccomp(2)). */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != 0 && errno == EFAULT)
        return true;
    return refused(errno, err);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static bool is_kept(int fd, const int *writable, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (writable[i] == fd)
            return true;
    return fd <= STDERR_FILENO;
}

/* Closes all other writable descriptors, which are inherited: a shell's open file, a socket. */
static bool close_writable(const int *writable, size_t n, tblock_error *err)
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return fail(err, TBLOCK_SYSTEM, "--sandbox: /proc/self/fd: %s", strerror(errno));
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        int fd = atoi(e->d_name), flags = e->d_name[0] != '.' ? fcntl(fd, F_GETFL) : -1;
        if (flags >= 0 && fd != dirfd(folder) && !is_kept(fd, writable, n)
            && (flags & O_ACCMODE) != O_RDONLY)
            close(fd);
    }
    closedir(folder);
    return true;
}

static bool same_file(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev
        && one.st_ino == other.st_ino;
}

/* Makes standard input read-only if it was opened for both, as by `0<>FILE`, by opening it
 * again. If it is also standard output or error (a terminal usually is), it may be written to
 * anyway. */
static bool make_input_readonly(tblock_error *err)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || same_file(STDIN_FILENO, STDOUT_FILENO)
        || same_file(STDIN_FILENO, STDERR_FILENO))
        return true;
    off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    /* Opening a FIFO without another writer must not wait here; later reads wait as before. */
    int   fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool  good = fd >= 0 && fcntl(fd, F_SETFL, flags & ~O_ACCMODE) == 0
        && (at < 0 || lseek(fd, at, SEEK_SET) == at) && dup2(fd, STDIN_FILENO) == STDIN_FILENO;
    int   error = errno;
    if (fd >= 0)
        close(fd);
    return good
        || fail(err, TBLOCK_SYSTEM,
                "--sandbox: standard input is open for writing too, and cannot be opened for "
                "reading alone: %s; give it as < FILE, from a pipe, or as < /dev/null",
                strerror(error));
}

/* ---- Landlock -------------------------------------------------------------------------------- */

/* The numbers are landlock(7)'s, which the headers of older systems lack. */
void sandbox_landlock(void)
{
    enum { CREATE = 444, RESTRICT = 446, ASK_VERSION = 1 };
    struct { uint64_t files, network, scopes; } handled = { (UINT64_C(1) << 13) - 1, 0, 0 };
    long abi = syscall(CREATE, NULL, 0, ASK_VERSION);
    if (abi < 1)
        return;
    if (abi > 1)
        handled.files = (UINT64_C(1) << (abi < 3 ? 14 : abi < 5 ? 15 : 16)) - 1;
    if (abi >= 4)
        handled.network = 3; /* bind, connect */
    if (abi >= 6)
        handled.scopes = 3; /* abstract sockets, signals */
    int fd = (int)syscall(CREATE, &handled, abi < 4 ? 8 : abi < 6 ? 16 : 24, 0);
    if (fd < 0)
        return;
    (void)syscall(RESTRICT, fd, 0);
    close(fd);
}

/* ---- The filter ------------------------------------------------------------------------------ */

bool sandbox_enter(const int *writable, size_t n, bool serving, tblock_error *err)
{
    struct sock_filter compute[] = {
#include "cli/sandbox_compute.inc"
    };
    struct sock_filter serve[] = {
#include "cli/sandbox_serve.inc"
    };
    struct sock_fprog program =
        serving ? (struct sock_fprog){ sizeof serve / sizeof *serve, serve }
                : (struct sock_fprog){ sizeof compute / sizeof *compute, compute };
    if (!make_input_readonly(err) || !close_writable(writable, n, err))
        return false;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return refused(errno, err);
    sandbox_landlock();
    long result =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    /* over 0: a thread that cannot have it */
    entered = result == 0;
    return entered || refused(result > 0 ? ESRCH : errno, err);
}

#endif
