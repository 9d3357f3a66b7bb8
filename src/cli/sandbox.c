/* cli/sandbox.c: a seccomp filter. What is allowed is listed, everything else is refused: a call that a future C library makes
 * instead fails rather than being let through. The filter is written here, into room that is there already: nothing on the way to it
 * can run out of memory and leave a part of it. */
#include "sandbox.h"

#include "message.h"

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))

bool sandbox_possible(tblock_error *err)
{
    return cli_fail(err, TBLOCK_SYSTEM, "--sandbox: expected Linux on x86-64 or aarch64, this program is for another system");
}

bool sandbox_enter(const int *writable, size_t n, tblock_error *err)
{
    (void)writable, (void)n;
    return sandbox_possible(err);
}

#else

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

static bool refused(int error, tblock_error *err)
{
    return cli_fail(err, TBLOCK_SYSTEM, "--sandbox: the kernel has no seccomp filters, or forbids them here: %s", strerror(error));
}

bool sandbox_possible(tblock_error *err)
{
    /* with no filter given, EFAULT says that there would be filters (seccomp(2)) */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != 0 && errno == EFAULT)
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
    SYS_read, SYS_write, SYS_futex, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_lseek, SYS_close, SYS_fstat, SYS_ppoll, SYS_pselect6,
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_munlock,
    SYS_set_robust_list, SYS_rseq, SYS_gettid, SYS_getpid, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_getcpu, SYS_sched_getparam, SYS_sched_getscheduler,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_clock_getres, SYS_gettimeofday, SYS_nanosleep,
    SYS_getrusage, SYS_sysinfo, SYS_getrandom, SYS_exit, SYS_exit_group,
#if defined(__x86_64__) /* which has them besides ppoll and pselect6 */
    SYS_poll, SYS_select, SYS_pause,
#endif
};

/* Only where the bits `mask` of argument `arg` are `value`. */
typedef struct Restricted { int call; unsigned arg; uint64_t mask, value; } Restricted;
static const uint64_t ALL_BITS = UINT32_MAX; /* of an int */
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

static const Restricted restricted[] = {
    { SYS_mmap, 2, PROT_EXEC, 0 },
    { SYS_mprotect, 2, PROT_EXEC, 0 },
    { SYS_clone, 0, THREAD_FLAGS, THREAD_FLAGS }, /* a thread, which has this filter too, and no process */
    { SYS_newfstatat, 3, 0x1000, 0x1000 },        /* AT_EMPTY_PATH: how the C library spells fstat */
    { SYS_prlimit64, 2, UINT64_MAX, 0 },          /* limits are read, not set */
    { SYS_fcntl, 1, ALL_BITS, F_GETFL },
    { SYS_fcntl, 1, ALL_BITS, F_GETFD },
    { SYS_fcntl, 1, ALL_BITS, F_DUPFD_CLOEXEC },
    { SYS_ioctl, 1, ALL_BITS, TCGETS },
    { SYS_ioctl, 1, ALL_BITS, TCSETS },
    { SYS_ioctl, 1, ALL_BITS, TCSETSW },
    { SYS_ioctl, 1, ALL_BITS, TCSETSF },
    { SYS_ioctl, 1, ALL_BITS, TIOCGWINSZ },
    { SYS_ioctl, 1, ALL_BITS, FIONREAD },
};

/* ---- The filter ------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define THIS_MACHINE AUDIT_ARCH_X86_64
#else
#define THIS_MACHINE AUDIT_ARCH_AARCH64
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of an argument comes first");

enum {
    N_ALLOWED = sizeof allowed / sizeof *allowed, N_RESTRICTED = sizeof restricted / sizeof *restricted,
    MOST_BEGIN = 4, MOST_PLAIN = 2, MOST_RESTRICTED = 9, MOST_END = 3,
    MOST_CODE = MOST_BEGIN + MOST_PLAIN * N_ALLOWED + MOST_RESTRICTED * (N_RESTRICTED + 1) + MOST_END
};
_Static_assert((int)MOST_CODE <= (int)BPF_MAXINSNS, "the kernel takes this much");

typedef struct Filter { struct sock_filter code[MOST_CODE]; unsigned short n; } Filter;

static void add(Filter *f, unsigned code, uint32_t k, size_t if_equal, size_t if_not)
{
    assert(f->n < MOST_CODE && if_equal <= UINT8_MAX && if_not <= UINT8_MAX);
    f->code[f->n++] = (struct sock_filter){ (unsigned short)code, (unsigned char)if_equal, (unsigned char)if_not, k };
}

static void load(Filter *f, size_t offset) { add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0); }
static void skip_unless(Filter *f, uint32_t value, size_t skipped) { add(f, BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped); }
static void answer(Filter *f, uint32_t what) { add(f, BPF_RET | BPF_K, what, 0, 0); }
static void load_call(Filter *f) { load(f, offsetof(struct seccomp_data, nr)); }

/* Between its number, which is loaded, and the next rule, which finds it loaded, one or both halves of an argument are looked at. */
static void allow_where(Filter *f, const Restricted *r)
{
    size_t   at = offsetof(struct seccomp_data, args) + r->arg * sizeof(uint64_t);
    uint32_t mask[2] = { (uint32_t)r->mask, (uint32_t)(r->mask >> 32) }, value[2] = { (uint32_t)r->value, (uint32_t)(r->value >> 32) };
    size_t   left = 1 + 3 * ((mask[0] != 0) + (size_t)(mask[1] != 0));
    skip_unless(f, (uint32_t)r->call, left);
    for (int half = 0; half < 2; half++) {
        if (mask[half] == 0)
            continue;
        left -= 3;
        load(f, at + (size_t)half * sizeof(uint32_t));
        add(f, BPF_ALU | BPF_AND | BPF_K, mask[half], 0, 0);
        skip_unless(f, value[half], left);
    }
    answer(f, SECCOMP_RET_ALLOW);
    load_call(f);
}

/* A number of another system's calls (32 bits; x32's have a bit of their own) is none of these. */
static void make_filter(Filter *f)
{
    load(f, offsetof(struct seccomp_data, arch));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, THIS_MACHINE, 1, 0);
    answer(f, SECCOMP_RET_ERRNO | EPERM);
    load_call(f);
    for (size_t i = 0; i < N_ALLOWED; i++) {
        skip_unless(f, (uint32_t)allowed[i], 1);
        answer(f, SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < N_RESTRICTED; i++)
        allow_where(f, &restricted[i]);
    /* to itself only, as raise and abort do */
    allow_where(f, &(Restricted){ SYS_tgkill, 0, ALL_BITS, (uint64_t)getpid() });
    /* its flags lie in memory, where a filter cannot look: without it the C library falls back to clone */
    skip_unless(f, SYS_clone3, 1);
    answer(f, SECCOMP_RET_ERRNO | ENOSYS);
    answer(f, SECCOMP_RET_ERRNO | EPERM);
}

bool sandbox_enter(const int *writable, size_t n, tblock_error *err)
{
    Filter            filter = { .n = 0 };
    struct sock_fprog program = { .filter = filter.code };
    if (!close_writable(writable, n, err))
        return false;
    make_filter(&filter);
    program.len = filter.n;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return refused(errno, err);
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return result == 0 || refused(result > 0 ? ESRCH : errno, err); /* over 0: a thread that cannot have it */
}

#endif
