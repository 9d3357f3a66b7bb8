/* Tries to reach something from inside the filters of --sandbox: a file outside, a port of this
 * machine, another process. Children have the filter and make random calls that it lets through,
 * with arguments that mean something; a supervisor watches what must not be reached. No list of
 * forbidden calls: what counts is whether anything arrives. That the supervisor sees it is shown
 * by filters that let one call more through.
 *
 * The calls follow from the seed, which is printed where something was reached. They are bounded: a
 * child has limits and is killed after a while. No process but the victim is ever named. */
#include "cli/command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "sandbox_try.h"

#if defined(HAVE_SECCOMP)

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#else
#define MACHINE AUDIT_ARCH_AARCH64
#endif

enum { CALLS = 3000, CALLS_OF_CHILD = 40, N_NUMBERS = 470, CHILD_MS = 300, SEED = 34 };

static uint64_t random_state;
static uint64_t random_below(uint64_t n)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t x = random_state;
    x          = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x          = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % n;
}

/* ---- The filters ----------------------------------------------------------------------------- */

/* One call more that a filter lets through, where argument `arg` is `value` (arg -1: always). */
typedef struct Hole { const char *name; int call, arg; uint32_t value; } Hole;

enum { MOST_OPS = 1024, OF_HOLE = 5 };
typedef struct Filter { struct sock_filter op[MOST_OPS]; size_t n; } Filter;

/* In the process that gets it, whose number it knows. */
static void filter_make(Filter *f, bool serving, const Hole *hole)
{
    const struct sock_filter compute[] = {
#include "cli/sandbox_compute.inc"
    };
    const struct sock_filter serve[] = {
#include "cli/sandbox_serve.inc"
    };
    f->n = 0;
    if (hole) {
        const size_t   args  = offsetof(struct seccomp_data, args) + 8 * (size_t)hole->arg;
        const uint32_t at    = hole->arg < 0 ? offsetof(struct seccomp_data, nr) : (uint32_t)args;
        const uint32_t value = hole->arg < 0 ? (uint32_t)hole->call : hole->value;
        const struct sock_filter first[OF_HOLE] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)hole->call, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        memcpy(f->op, first, sizeof first);
        f->n = OF_HOLE;
    }
    memcpy(f->op + f->n, serving ? serve : compute, serving ? sizeof serve : sizeof compute);
    f->n += serving ? sizeof serve / sizeof *serve : sizeof compute / sizeof *compute;
}

/* What the kernel would say, as far as libseccomp's programs go. */
static bool lets_through(const Filter *f, const struct seccomp_data *d)
{
    uint32_t a = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct sock_filter *o = &f->op[i];
        bool                      yes;
        switch (o->code) {
        case BPF_LD | BPF_W | BPF_ABS: memcpy(&a, (const char *)d + o->k, 4); continue;
        case BPF_ALU | BPF_AND | BPF_K: a &= o->k; continue;
        case BPF_RET | BPF_K: return o->k == SECCOMP_RET_ALLOW;
        case BPF_JMP | BPF_JA: i += o->k; continue;
        case BPF_JMP | BPF_JEQ | BPF_K: yes = a == o->k; break;
        case BPF_JMP | BPF_JGE | BPF_K: yes = a >= o->k; break;
        case BPF_JMP | BPF_JGT | BPF_K: yes = a > o->k; break;
        case BPF_JMP | BPF_JSET | BPF_K: yes = (a & o->k) != 0; break;
        default: abort(); /* unknown here: teach it */
        }
        i += yes ? o->jt : o->jf;
    }
    abort();
}

/* ---- What must not be reached ---------------------------------------------------------------- */

typedef struct Record { int call; uint64_t arg[6]; } Record;
/* Shared with the children. secret, inode: of the victim and the file, XOR MASK. */
typedef struct Shared {
    volatile int      n_calls;
    volatile bool     found;
    volatile uint64_t secret, inode, secret_at;
    Record            record[CALLS_OF_CHILD];
} Shared;
static const uint64_t MASK = UINT64_C(0x5a5aa5a53c3cc3c3);

typedef struct World {
    char                folder[64], file[80], unix_path[80];
    int                 watch, tcp, local;
    struct sockaddr_in  tcp_at;
    struct sockaddr_un  local_at;
    pid_t               victim;
    cpu_set_t           victim_runs;
    struct rlimit       victim_limit;
    Shared             *shared;
} World;

static void be_victim(Shared *s)
{
    static volatile uint64_t secret;
    sigset_t                 all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* as any process of root may be reached */
    secret       = ((uint64_t)(uintptr_t)&all << 20) ^ (uint64_t)getpid() ^ UINT64_C(0x1234567);
    s->secret    = secret ^ MASK;
    s->secret_at = (uintptr_t)&secret;
    for (;;)
        sleep(1000);
}

static bool world_open(World *w)
{
    struct stat st;
    const int   events = IN_ALL_EVENTS;
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/tblock-reach-XXXXXX");
    bool good = mkdtemp(w->folder) != NULL;
    snprintf(w->file, sizeof w->file, "%s/canary", w->folder);
    snprintf(w->unix_path, sizeof w->unix_path, "%s/port", w->folder);
    int fd = good ? open(w->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    good   = fd >= 0 && write(fd, "SECRET of a file", 16) == 16 && fstat(fd, &st) == 0;
    close(fd);
    w->tcp_at = (struct sockaddr_in){ .sin_family      = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    w->local_at = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(w->local_at.sun_path, w->unix_path, strlen(w->unix_path));
    w->tcp      = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    w->local    = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n = sizeof w->tcp_at;
    good        = good && bind(w->tcp, (struct sockaddr *)&w->tcp_at, n) == 0
        && listen(w->tcp, 9) == 0 && getsockname(w->tcp, (struct sockaddr *)&w->tcp_at, &n) == 0
        && bind(w->local, (struct sockaddr *)&w->local_at, sizeof w->local_at) == 0
        && listen(w->local, 9) == 0;
    w->shared = mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
    good = good && w->shared != MAP_FAILED;
    if (!good)
        return false;
    w->shared->inode = (uint64_t)st.st_ino ^ MASK;
    w->victim        = fork();
    if (w->victim == 0)
        be_victim(w->shared);
    for (int i = 0; i < 2000 && !w->shared->secret_at; i++)
        usleep(1000);
    w->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return w->victim > 0 && w->shared->secret_at && w->watch >= 0
        && inotify_add_watch(w->watch, w->folder, events) >= 0
        && sched_getaffinity(w->victim, sizeof w->victim_runs, &w->victim_runs) == 0
        && prlimit(w->victim, RLIMIT_NOFILE, NULL, &w->victim_limit) == 0;
}

static void world_close(World *w)
{
    if (w->victim > 0) {
        kill(w->victim, SIGKILL);
        waitpid(w->victim, NULL, 0);
    }
    close(w->watch), close(w->tcp), close(w->local);
    char text[300];
    snprintf(text, sizeof text, "rm -rf '%s'", w->folder);
    if (strncmp(w->folder, "/tmp/tblock-reach-", 18) == 0 && system(text) != 0)
        fprintf(stderr, "%s stays\n", w->folder);
    if (w->shared && w->shared != MAP_FAILED)
        munmap(w->shared, sizeof *w->shared);
}

static bool has_signals(pid_t victim)
{
    char path[64], line[256];
    bool some = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)victim);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "SigPnd:", 7) == 0 || strncmp(line, "ShdPnd:", 7) == 0)
            some |= strtoull(line + 7, NULL, 16) != 0;
    if (f)
        fclose(f);
    return !f || some;
}

/* What was reached, or NULL. */
static const char *reached(World *w)
{
    char          events[4096];
    struct pollfd p[2] = { { w->tcp, POLLIN, 0 }, { w->local, POLLIN, 0 } };
    cpu_set_t     runs;
    struct rlimit limit;
    siginfo_t     info = { 0 };
    if (w->shared->found)
        return "what only the file or the other process knows";
    if (read(w->watch, events, sizeof events) > 0)
        return "the file or its folder";
    if (poll(p, 2, 0) != 0)
        return "another port";
    if (waitid(P_PID, (id_t)w->victim, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0
        || info.si_pid || has_signals(w->victim))
        return "the other process, by a signal";
    if (sched_getaffinity(w->victim, sizeof runs, &runs) != 0
        || memcmp(&runs, &w->victim_runs, sizeof runs) != 0
        || prlimit(w->victim, RLIMIT_NOFILE, NULL, &limit) != 0
        || memcmp(&limit, &w->victim_limit, sizeof limit) != 0)
        return "the other process, by its settings";
    return NULL;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What arguments point to. */
typedef struct Arena {
    char            scratch[4096];
    struct iovec    here, there;
    struct msghdr   to_port, to_nobody;
    struct timespec soon;
} Arena;
static Arena arena;

/* The kinds of arguments, by call: f descriptor, k socket, d folder, p path, b buffer, z size,
 * m flags of send, A address, L its length, M message, o flags of open, w process, s signal, v and
 * V buffers here and in the victim, l level of an option, i number, t time, 0, 1. */
typedef struct Shape { int call; const char *kinds; } Shape;
static const Shape shapes[] = {
    { SYS_openat, "dpoi" }, { SYS_newfstatat, "dpbi" }, { SYS_statx, "dpizb" },
    { SYS_readlinkat, "dpbz" }, { SYS_unlinkat, "dpi" }, { SYS_fchmodat, "dpi" },
    { SYS_sendto, "kbzmAL" }, { SYS_sendmsg, "kMm" }, { SYS_connect, "kAL" },
    { SYS_bind, "kAL" }, { SYS_setsockopt, "klibz" }, { SYS_shutdown, "ki" },
    { SYS_accept4, "kbbi" }, { SYS_recvfrom, "kbzmbb" },
    { SYS_kill, "ws" }, { SYS_tkill, "ws" }, { SYS_tgkill, "wws" },
    { SYS_rt_sigqueueinfo, "wsb" }, { SYS_process_vm_readv, "wv1V10" },
    { SYS_prlimit64, "wibb" }, { SYS_sched_setaffinity, "wzb" }, { SYS_sched_getaffinity, "wzb" },
    { SYS_sched_getparam, "wb" }, { SYS_sched_getscheduler, "w" },
    { SYS_fcntl, "fiw" }, { SYS_ioctl, "fib" }, { SYS_write, "fbz" }, { SYS_writev, "fvi" },
    { SYS_read, "fbz" }, { SYS_pread64, "fbzz" }, { SYS_pwrite64, "fbzz" },
    { SYS_readv, "fvi" }, { SYS_fstat, "fb" }, { SYS_nanosleep, "tb" },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

#define PICK(...)                                                                                  \
    (((const uint64_t[]){ __VA_ARGS__ })[random_below(                                             \
        sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))])
#define AT(x) ((uint64_t)(uintptr_t)(x))

enum { READS = 3, WRITES, LISTENS, SHUT, TALKS, N_OPEN };

static uint64_t argument(char kind, const World *w)
{
    static const char kinds[] = "fkdpbzmALMowsvVlit";
    switch (kind) {
    case 'f': return PICK(0, 1, 2, READS, WRITES, LISTENS, SHUT, TALKS, (uint64_t)-1);
    case 'k': return PICK(LISTENS, SHUT, SHUT, TALKS);
    case 'd': return PICK((uint64_t)AT_FDCWD, READS);
    case 'p': return PICK(AT(w->file), AT("../canary"), AT("../new"), AT(w->unix_path), AT(".."));
    case 'b': return AT(arena.scratch);
    case 'z': return PICK(0, 1, 6, 8, 128, 4096);
    case 'm': return PICK(0, MSG_NOSIGNAL, MSG_FASTOPEN, MSG_FASTOPEN | MSG_NOSIGNAL, MSG_DONTWAIT);
    case 'A': return PICK(0, AT(&w->tcp_at), AT(&w->tcp_at), AT(&w->local_at));
    case 'L': return PICK(0, sizeof w->tcp_at, sizeof w->local_at);
    case 'M': return PICK(AT(&arena.to_port), AT(&arena.to_nobody));
    case 'o': return PICK(O_RDONLY, O_RDWR, O_CREAT | O_RDWR, O_DIRECTORY, O_PATH);
    case 'w': return PICK(0, (uint64_t)getpid(), (uint64_t)w->victim, (uint64_t)w->victim);
    case 's': return PICK(0, SIGUSR1, SIGTERM, SIGWINCH);
    case 'v': return AT(&arena.here);
    case 'V': return AT(&arena.there);
    case 'l': return PICK(IPPROTO_TCP, IPPROTO_TCP, SOL_SOCKET, IPPROTO_IP);
    case 'i': return random_below(4) ? random_below(32) : PICK(TCGETS, TIOCSTI, FIONREAD,
                       0x5452 /* FIOASYNC */,
                       0x8901 /* FIOSETOWN */, F_DUPFD_CLOEXEC, F_SETLEASE, O_NONBLOCK, O_ASYNC);
    case 't': return AT(&arena.soon);
    case '0': return 0;
    case '1': return 1;
    }
    return argument(kinds[random_below(sizeof kinds - 1)], w);
}

/* A call that the filter lets through; half of them such as have a shape. */
static bool make_call(struct seccomp_data *d, const Filter *f, const World *w)
{
    for (int i = 0; i < 100000; i++) {
        const Shape *s = random_below(2) ? &shapes[random_below(N_SHAPES)] : NULL;
        int          call = s ? s->call : (int)random_below(N_NUMBERS);
        if (call == SYS_exit || call == SYS_exit_group)
            continue; /* reaches nobody, and ends the child */
        for (int times = 0; times < 20; times++) {
            size_t n = s ? strlen(s->kinds) : 0;
            *d       = (struct seccomp_data){ .nr = call, .arch = MACHINE };
            for (size_t j = 0; j < 6; j++)
                d->args[j] = argument(j < n ? s->kinds[j] : '?', w);
            if (lets_through(f, d))
                return true;
        }
    }
    return false;
}

/* Does the buffer hold what is known outside only? */
static bool holds_secret(const Shared *s)
{
    for (size_t i = 0; i + 8 <= sizeof arena.scratch; i += 4) {
        uint64_t x;
        memcpy(&x, arena.scratch + i, 8);
        if ((x ^ MASK) == s->secret || (x ^ MASK) == s->inode)
            return true;
    }
    return false;
}

static void on_alarm(int signal_number) { (void)signal_number; }

/* Limits, what a sandbox has open (a model, an output, a server's sockets), nothing else. */
static bool child_ready(bool serving)
{
    struct sockaddr_in at = { .sin_family      = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          n  = sizeof at;
    int                null = open("/dev/null", O_RDWR);
    int                reads = open("/proc/self/cmdline", O_RDONLY);
    FILE              *out = tmpfile();
    int                fd[N_OPEN] = { null, null, null, reads, out ? fileno(out) : -1 };
    if (serving) {
        int asks    = socket(AF_INET, SOCK_STREAM, 0);
        fd[LISTENS] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        fd[SHUT]    = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (bind(fd[LISTENS], (struct sockaddr *)&at, n) != 0 || listen(fd[LISTENS], 5) != 0
            || getsockname(fd[LISTENS], (struct sockaddr *)&at, &n) != 0
            || connect(asks, (struct sockaddr *)&at, n) != 0
            || (fd[TALKS] = accept(fd[LISTENS], NULL, NULL)) < 0 || listen(fd[SHUT], 5) != 0
            || shutdown(fd[SHUT], SHUT_RDWR) != 0)
            return false;
    }
    int n_open = serving ? N_OPEN : WRITES + 1;
    for (int i = 0; i < n_open; i++)
        if ((fd[i] = fcntl(fd[i], F_DUPFD, 40)) < 0)
            return false;
    for (int i = 0; i < n_open; i++)
        dup2(fd[i], i);
    for (int i = n_open; i < 1024; i++)
        close(i);
    return true;
}

static void child(const World *w, bool serving, const Hole *hole, uint64_t seed)
{
    static Filter       f;
    struct seccomp_data d;
    struct itimerval    timer = { { 0, 3000 }, { 0, 3000 } };
    struct sigaction    wake  = { .sa_handler = on_alarm };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    arena.here      = (struct iovec){ arena.scratch, 64 };
    arena.there     = (struct iovec){ (void *)(uintptr_t)w->shared->secret_at, 8 };
    arena.to_port   = (struct msghdr){ .msg_name = (void *)(uintptr_t)&w->tcp_at,
                                       .msg_namelen = sizeof w->tcp_at, .msg_iov = &arena.here,
                                       .msg_iovlen  = 1 };
    arena.to_nobody = (struct msghdr){ .msg_iov = &arena.here, .msg_iovlen = 1 };
    arena.soon      = (struct timespec){ 0, 1000 };
    if (!child_ready(serving))
        _exit(3);
    setrlimit(RLIMIT_AS, &(struct rlimit){ 1 << 29, 1 << 29 });
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1 << 20, 1 << 20 });
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    setrlimit(RLIMIT_CPU, &(struct rlimit){ 2, 2 });
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 });
    sigaction(SIGALRM, &wake, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    filter_make(&f, serving, hole);
    struct sock_fprog program = { (unsigned short)f.n, f.op };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(4);
    random_state = seed;
    for (int i = 0; i < CALLS_OF_CHILD && make_call(&d, &f, w); i++) {
        Record *r = &w->shared->record[i];
        r->call   = d.nr;
        memcpy(r->arg, d.args, sizeof r->arg);
        w->shared->n_calls = i + 1;
        syscall(d.nr, d.args[0], d.args[1], d.args[2], d.args[3], d.args[4], d.args[5]);
        if (holds_secret(w->shared))
            w->shared->found = true;
        memset(arena.scratch, 0, 512);
    }
    _exit(0);
}

/* The status of a child that is killed after a while. */
static int end_of(pid_t pid)
{
    int status = 0;
    for (int ms = 0; ms < CHILD_MS; ms++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return status;
}

static void tell_calls(const Shared *s, const char *what, uint64_t seed)
{
    fprintf(stderr, "reached %s; the child of seed %" PRIu64 " called:\n", what, seed);
    for (int i = 0; i < s->n_calls; i++) {
        const Record *r = &s->record[i];
        fprintf(stderr, "  %d(%#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64
                ", %#" PRIx64 ")\n", r->call, r->arg[0], r->arg[1], r->arg[2], r->arg[3], r->arg[4],
                r->arg[5]);
    }
}

/* True where CALLS calls reached nothing, or with a hole where one did. */
static bool try_filter(bool serving, Hole *hole, char *why, size_t n_why)
{
    World       w;
    int         n = 0, i = 0;
    const char *what = NULL;
    *why = 0;
    if (!world_open(&w))
        snprintf(why, n_why, "nothing to reach: %s", strerror(errno));
    if (hole && hole->arg >= 0)
        hole->value = (uint32_t)w.victim;
    for (; !*why && !what && n < CALLS && i < CALLS; i++) {
        w.shared->n_calls = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            child(&w, serving, hole, SEED * 100000 + (uint64_t)i);
        int status = pid > 0 ? end_of(pid) : -1;
        if (pid < 0 || (WIFEXITED(status) && WEXITSTATUS(status)))
            snprintf(why, n_why, "child %d: status %d", i, status);
        n += w.shared->n_calls;
        what = reached(&w);
    }
    if (!*why && n < (what ? 1 : CALLS))
        snprintf(why, n_why, "only %d calls in %d children", n, i);
    if (!*why && (what != NULL) != (hole != NULL)) {
        snprintf(why, n_why, "%s%s: %s", serving ? "serving" : "computing",
                 hole ? hole->name : "", what ? what : "nothing was reached");
        if (what)
            tell_calls(w.shared, what, SEED * 100000 + (uint64_t)i - 1);
    }
    world_close(&w);
    return !*why;
}

static void random_calls_reach_nothing(void)
{
    char why[300];
    for (int serving = 0; can_try() && serving < 2; serving++)
        CHECK(try_filter(serving, NULL, why, sizeof why), "%s", why);
}

/* Systems differ in what they let a process do without any filter. */
static bool works_here(int call)
{
    char  text[16] = "";
    FILE *f = call == SYS_sendto || call == SYS_sendmsg
        ? fopen("/proc/sys/net/ipv4/tcp_fastopen", "re") : NULL;
    if (f) {
        text[0] = fgets(text, sizeof text, f) ? text[0] : '0';
        fclose(f);
        return (text[0] - '0') & 1;
    }
    return call != SYS_process_vm_readv
        || syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0) == 0;
}

static void a_filter_with_a_hole_is_found_out(void)
{
    Hole holes[] = {
        { " and openat", SYS_openat, -1, 0 }, { " and newfstatat", SYS_newfstatat, -1, 0 },
        { " and sendto", SYS_sendto, -1, 0 }, { " and sendmsg", SYS_sendmsg, -1, 0 },
        { " and connect", SYS_connect, -1, 0 }, { " and kill", SYS_kill, 0, 0 },
        { " and prlimit64", SYS_prlimit64, 0, 0 },
        { " and process_vm_readv", SYS_process_vm_readv, 0, 0 },
    };
    char why[300];
    for (size_t i = 0; can_try() && i < sizeof holes / sizeof *holes; i++)
        if (works_here(holes[i].call))
            CHECK(try_filter(true, &holes[i], why, sizeof why), "%s", why);
}

/* Without a filter, and of a kernel that has it. */
static void landlock_alone_stops_files_and_ports(void)
{
    long  abi = syscall(444, NULL, 0, 1);
    World w;
    if (!can_try())
        return;
    if (abi < 4) {
        SKIP("no Landlock for ports in this kernel");
        return;
    }
    CHECK(world_open(&w), "nothing to reach");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        sandbox_landlock();
        _exit((open(w.file, O_RDONLY) >= 0) | (open("/tmp/tblock-new", O_CREAT, 0600) >= 0) << 1
              | (connect(s, (struct sockaddr *)&w.tcp_at, sizeof w.tcp_at) == 0) << 2
              | (abi >= 6 && kill(w.victim, SIGUSR1) == 0) << 3);
    }
    int         status = pid > 0 ? end_of(pid) : -1;
    const char *what   = reached(&w);
    CHECK(status == 0 && !what, "status %d, %s", status, what ? what : "nothing was reached");
    world_close(&w);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(random_calls_reach_nothing);
    TEST(a_filter_with_a_hole_is_found_out);
    TEST(landlock_alone_stops_files_and_ports);
    return TEST_END();
}

#else

static void random_calls_reach_nothing(void) { SKIP("built without libseccomp"); }

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(random_calls_reach_nothing);
    return TEST_END();
}

#endif
