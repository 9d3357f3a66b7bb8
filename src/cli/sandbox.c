/* cli/sandbox.c: a seccomp filter. What is allowed is listed, everything else is refused: a call that a future C library makes
 * instead fails rather than being let through. */
#include "sandbox.h"

#include "message.h"

#if !defined(HAVE_SECCOMP)

bool sandbox_possible(tblock_error *err)
{
    return cli_fail(err, TBLOCK_SYSTEM, "--sandbox: this program was built without libseccomp, which it needs (Linux only)");
}

bool sandbox_enter(const int *writable, size_t n, tblock_error *err)
{
    (void)writable, (void)n;
    return sandbox_possible(err);
}

#else

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

static bool refused(int error, tblock_error *err)
{
    return cli_fail(err, TBLOCK_SYSTEM, "--sandbox: the kernel has no seccomp filters, or forbids them here: %s", strerror(error));
}

bool sandbox_possible(tblock_error *err)
{
    /* with no filter given, EFAULT says that there would be filters (seccomp(2)) */
    if (prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, NULL) != 0 && errno == EFAULT)
        return true;
    return refused(errno, err);
}

/* ---- Descriptors ------------------------------------------------------------------------------------------------ */

static bool is_kept(int fd, const int *writable, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (writable[i] == fd)
            return true;
    return fd <= STDERR_FILENO;
}

/* What else can be written to came from whoever started us: a file that a shell left open, a socket. */
static bool close_writable(const int *writable, size_t n, tblock_error *err)
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return cli_fail(err, TBLOCK_SYSTEM, "--sandbox: /proc/self/fd: %s", strerror(errno));
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        int fd = atoi(e->d_name), flags = e->d_name[0] != '.' ? fcntl(fd, F_GETFL) : -1;
        if (flags >= 0 && fd != dirfd(folder) && !is_kept(fd, writable, n) && (flags & O_ACCMODE) != O_RDONLY)
            close(fd);
    }
    closedir(folder);
    return true;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

/* With any arguments. */
static const int allowed[] = {
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(pwrite64), SCMP_SYS(lseek),
    SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(munlock),
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setaffinity), SCMP_SYS(getcpu), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(pause),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep),
    SCMP_SYS(getrusage), SCMP_SYS(sysinfo), SCMP_SYS(getrandom), SCMP_SYS(exit), SCMP_SYS(exit_group),
};

/* Only where the bits `mask` of argument `arg` are `value`. */
typedef struct Restricted { int call; unsigned arg; uint64_t mask, value; } Restricted;
static const uint64_t ALL_BITS = UINT32_MAX; /* of an int */
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

static const Restricted restricted[] = {
    { SCMP_SYS(mmap), 2, PROT_EXEC, 0 },
    { SCMP_SYS(mprotect), 2, PROT_EXEC, 0 },
    { SCMP_SYS(clone), 0, THREAD_FLAGS, THREAD_FLAGS }, /* a thread, which has this filter too, and no process */
    { SCMP_SYS(newfstatat), 3, 0x1000, 0x1000 },        /* AT_EMPTY_PATH: how the C library spells fstat */
    { SCMP_SYS(prlimit64), 2, UINT64_MAX, 0 },          /* limits are read, not set */
    { SCMP_SYS(fcntl), 1, ALL_BITS, F_GETFL },
    { SCMP_SYS(fcntl), 1, ALL_BITS, F_GETFD },
    { SCMP_SYS(fcntl), 1, ALL_BITS, F_DUPFD_CLOEXEC },
    { SCMP_SYS(ioctl), 1, ALL_BITS, TCGETS },
    { SCMP_SYS(ioctl), 1, ALL_BITS, TCSETS },
    { SCMP_SYS(ioctl), 1, ALL_BITS, TCSETSW },
    { SCMP_SYS(ioctl), 1, ALL_BITS, TCSETSF },
    { SCMP_SYS(ioctl), 1, ALL_BITS, TIOCGWINSZ },
    { SCMP_SYS(ioctl), 1, ALL_BITS, FIONREAD },
};

/* A call that a kernel of this machine does not have (-EDOM, say pause on aarch64) needs no rule. */
static bool added(int result) { return result == 0 || result == -EDOM; }

static bool add_rules(scmp_filter_ctx filter)
{
    bool good = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
    for (size_t i = 0; good && i < sizeof allowed / sizeof *allowed; i++)
        good = added(seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0));
    for (size_t i = 0; good && i < sizeof restricted / sizeof *restricted; i++) {
        const Restricted *r = &restricted[i];
        struct scmp_arg_cmp rule = { .arg = r->arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = r->mask, .datum_b = r->value };
        good = added(seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, r->call, 1, &rule));
    }
    /* its flags lie in memory, where a filter cannot look: without it the C library falls back to clone */
    good = good && added(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
    /* to itself only, as raise and abort do */
    good = good && added(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())));
    return good;
}

bool sandbox_enter(const int *writable, size_t n, tblock_error *err)
{
    if (!close_writable(writable, n, err))
        return false;
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return cli_no_memory(err);
    bool good = add_rules(filter) || cli_fail(err, TBLOCK_SYSTEM, "--sandbox: libseccomp cannot make the filter");
    int  result = good ? seccomp_load(filter) : 0;
    seccomp_release(filter);
    return good && (result == 0 || refused(-result, err));
}

#endif
