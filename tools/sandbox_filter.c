/* tools/sandbox_filter.c: the filter of --sandbox, made by libseccomp when tblock is built: one
 * line for each instruction, to be included into an array of struct sock_filter
 * (src/cli/sandbox.c).
 *   sandbox_filter x86_64|aarch64 compute|serve
 * What is allowed is listed, everything else is refused: a call that a future C library makes
 * instead fails rather than being let through.
 *
 * Not at run time: where an allocation fails in it, libseccomp 2.5.4 may load a part of the filter
 * and say that all is well (59 instructions of 106, by strace), or crash. Here that ends the build,
 * and the program allocates nothing for its filter. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

/* With any arguments. */
static const int allowed[] = {
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(write), SCMP_SYS(writev),
    SCMP_SYS(pwrite64), SCMP_SYS(lseek), SCMP_SYS(fsync), SCMP_SYS(fdatasync),
    SCMP_SYS(ftruncate),
    SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
    SCMP_SYS(mlock), SCMP_SYS(munlock),
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(gettid), SCMP_SYS(getpid),
    SCMP_SYS(sched_yield),
    SCMP_SYS(getcpu),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(pause),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep),
    SCMP_SYS(getrusage), SCMP_SYS(sysinfo), SCMP_SYS(getrandom), SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

/* Only where the bits `mask` of argument `arg` are `value`, and for a second argument alike where a
 * mask is given. */
typedef struct Argument { unsigned arg; uint64_t mask, value; } Argument;
typedef struct Restricted { int call; Argument first, second; } Restricted;
static const uint64_t ALL_BITS = UINT32_MAX; /* of an int */
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
/* none of these: whoever traces us sees the thread, and it is where we are */
#define OTHER_PLACE                                                                                \
    (CLONE_UNTRACED | CLONE_PTRACE | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER     \
     | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_IO)

/* Stands for the number of the process that enters, which is filled in then: in no other rule. */
enum { PROCESS = 0x7e57ab1e };

/* fstat is allowed and newfstatat is not, by which some C libraries spell it: its path lies in
 * memory, where a filter cannot look. */
static const Restricted restricted[] = {
    { SCMP_SYS(mmap), { 2, PROT_EXEC, 0 }, { 0 } },
    { SCMP_SYS(mprotect), { 2, PROT_EXEC, 0 }, { 0 } },
    /* a thread, which has this filter too, and no process */
    { SCMP_SYS(clone), { 0, THREAD_FLAGS | OTHER_PLACE, THREAD_FLAGS }, { 0 } },
    /* its own limits are read, not set */
    { SCMP_SYS(prlimit64), { 0, ALL_BITS, 0 }, { 2, UINT64_MAX, 0 } },
    /* 0: the thread that calls */
    { SCMP_SYS(sched_getaffinity), { 0, ALL_BITS, 0 }, { 0 } },
    { SCMP_SYS(sched_setaffinity), { 0, ALL_BITS, 0 }, { 0 } },
    { SCMP_SYS(sched_getparam), { 0, ALL_BITS, 0 }, { 0 } },
    { SCMP_SYS(sched_getscheduler), { 0, ALL_BITS, 0 }, { 0 } },
    { SCMP_SYS(fcntl), { 1, ALL_BITS, F_GETFL }, { 0 } },
    { SCMP_SYS(fcntl), { 1, ALL_BITS, F_GETFD }, { 0 } },
    { SCMP_SYS(fcntl), { 1, ALL_BITS, F_DUPFD_CLOEXEC }, { 0 } },
    { SCMP_SYS(ioctl), { 1, ALL_BITS, TCGETS }, { 0 } },
    { SCMP_SYS(ioctl), { 1, ALL_BITS, TCSETS }, { 0 } },
    { SCMP_SYS(ioctl), { 1, ALL_BITS, TCSETSW }, { 0 } },
    { SCMP_SYS(ioctl), { 1, ALL_BITS, TCSETSF }, { 0 } },
    { SCMP_SYS(ioctl), { 1, ALL_BITS, TIOCGWINSZ }, { 0 } },
    { SCMP_SYS(ioctl), { 1, ALL_BITS, FIONREAD }, { 0 } },
    /* to itself only, as raise and abort do */
    { SCMP_SYS(tgkill), { 0, ALL_BITS, PROCESS }, { 0 } },
};

/* What `serve` does besides, with a socket that listens already: no other can be made. That one
 * could connect, once it is shut down: by MSG_FASTOPEN and an address, where the filter sees the
 * flags alone of sendmsg. So of flags and options, those that libmicrohttpd uses. */
static const int serving[] = {
    SCMP_SYS(accept4), SCMP_SYS(recvfrom), SCMP_SYS(shutdown), SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
    SCMP_SYS(eventfd2), SCMP_SYS(rt_sigtimedwait),
};
#define NO_SEND_FLAGS (ALL_BITS & ~(uint64_t)(MSG_NOSIGNAL | MSG_MORE | MSG_DONTWAIT))
static const Restricted serving_restricted[] = {
    { SCMP_SYS(sendto), { 3, NO_SEND_FLAGS, 0 }, { 4, UINT64_MAX, 0 } },
    { SCMP_SYS(sendmsg), { 2, NO_SEND_FLAGS, 0 }, { 0 } },
    { SCMP_SYS(setsockopt), { 1, ALL_BITS, IPPROTO_TCP }, { 2, ALL_BITS, TCP_NODELAY } },
    { SCMP_SYS(setsockopt), { 1, ALL_BITS, IPPROTO_TCP }, { 2, ALL_BITS, TCP_CORK } },
    { SCMP_SYS(fcntl), { 1, ALL_BITS, F_SETFL }, { 0 } },
};

/* A call that a kernel of this machine does not have (-EDOM, say pause on aarch64) needs no
 * rule. */
static bool added(int result) { return result == 0 || result == -EDOM; }

static struct scmp_arg_cmp masked_equal(const Argument *a)
{
    return (struct scmp_arg_cmp){
        .arg = a->arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = a->mask, .datum_b = a->value
    };
}

static bool add_lists(scmp_filter_ctx filter, const int *call, size_t n_calls,
                      const Restricted *list, size_t n)
{
    bool good = true;
    for (size_t i = 0; good && i < n_calls; i++)
        good = added(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call[i], 0));
    for (size_t i = 0; good && i < n; i++) {
        const Restricted   *r       = &list[i];
        struct scmp_arg_cmp rule[2] = { masked_equal(&r->first), masked_equal(&r->second) };
        good = added(
            seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, r->call, r->second.mask ? 2 : 1, rule));
    }
    return good;
}

#define COUNT(list) (sizeof(list) / sizeof *(list))
static bool add_rules(scmp_filter_ctx filter, uint32_t machine, bool serve)
{
    /* other systems' calls are refused like others, instead of ending the program */
    bool good = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)) == 0;
    if (machine != seccomp_arch_native())
        good = good && seccomp_arch_add(filter, machine) == 0
            && seccomp_arch_remove(filter, seccomp_arch_native()) == 0;
    good = good && add_lists(filter, allowed, COUNT(allowed), restricted, COUNT(restricted))
        && (!serve
            || add_lists(filter, serving, COUNT(serving), serving_restricted,
                         COUNT(serving_restricted)));
    /* its flags lie in memory, where a filter cannot look: without it the C library falls back to
     * clone */
    return good && added(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
}

static bool print_filter(FILE *f)
{
    struct sock_filter op;
    int                n_process = 0;
    rewind(f);
    while (fread(&op, sizeof op, 1, f) == 1) {
        bool process = op.k == PROCESS;
        n_process += process;
        printf("{ 0x%02x, %u, %u, ", (unsigned)op.code, (unsigned)op.jt, (unsigned)op.jf);
        printf(process ? "(uint32_t)getpid() },\n" : "0x%08x },\n", (unsigned)op.k);
    }
    return n_process == 1 && !ferror(f) && fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    bool     serve   = argc == 3 && strcmp(argv[2], "serve") == 0;
    uint32_t machine = argc == 3 ? seccomp_arch_resolve_name(argv[1]) : 0;
    FILE    *f       = tmpfile();
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool good = machine && f && filter && add_rules(filter, machine, serve)
        && seccomp_export_bpf(filter, fileno(f)) == 0 && print_filter(f);
    if (!good)
        fprintf(stderr, "sandbox_filter: cannot make a filter for %s\n",
                argc == 3 ? argv[1] : "no machine");
    seccomp_release(filter);
    return good ? 0 : 1;
}
