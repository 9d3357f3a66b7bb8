/* What is refused inside the program's sandbox, tried from inside: each case is a child process
 * that enters it and tries. */
#include "cli/command.h"

#include "../faults/failing_malloc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_try.h"

static char page[1 << 14];

/* Each returns 0 where the call went wrong with EPERM, as it should, else what it did instead. */
static int refused(long result)
{
    return result == -1 && errno == EPERM ? 0 : result == -1 ? errno : 200;
}

static int opens(void) { return refused(open("/etc/passwd", O_RDONLY)); }
static int creates(void)
{
    return refused(open("/tmp/tblock-sandbox-test", O_WRONLY | O_CREAT, 0600));
}
static int opens_at(void)
{
    return refused(syscall(SYS_openat, AT_FDCWD, ".", O_RDONLY | O_DIRECTORY));
}
static int opens_anew(void)
{
    return refused(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0));
}
static int runs(void)
{
    char *args[] = { "true", NULL };
    return refused(execv("/bin/true", args));
}
static int runs_descriptor(void)
{
    char *args[] = { "true", NULL };
    return refused(syscall(SYS_execveat, STDIN_FILENO, "", args, args, AT_EMPTY_PATH));
}
static int connects(void) { return refused(socket(AF_INET, SOCK_STREAM, 0)); }
static int connects_here(void)
{
    int pair[2];
    return refused(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}
static int connects_what_is_there(void) /* on a descriptor that is no socket: ENOTSOCK outside */
{
    const struct sockaddr_in to = { .sin_family = AF_INET };
    return refused(connect(STDOUT_FILENO, (const struct sockaddr *)&to, sizeof to));
}
static int listens(void) { return refused(listen(STDOUT_FILENO, 1)); }
static int binds(void)
{
    const struct sockaddr_in at = { .sin_family = AF_INET };
    return refused(bind(STDOUT_FILENO, (const struct sockaddr *)&at, sizeof at));
}
static int forks(void) { return refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int forks_anew(void) /* ENOSYS, so that the C library uses clone */
{
    return syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS ? 0 : 201;
}
static int removes(void) { return refused(unlink("/tmp/tblock-sandbox-none")); }
static int renames(void)
{
    return refused(rename("/tmp/tblock-sandbox-none", "/tmp/tblock-sandbox-other"));
}
static int links(void) { return refused(link("/etc/passwd", "/tmp/tblock-sandbox-none")); }
static int looks(void)
{
    struct stat st;
    return refused(stat("/etc/passwd", &st));
}
#if defined(SYS_newfstatat)
static int looks_with_a_flag(void) /* AT_EMPTY_PATH, and yet a path */
{
    struct stat st;
    return refused(syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &st, AT_EMPTY_PATH));
}
#endif
static int changes_mode(void) { return refused(chmod("/tmp", 0)); }
static int signals_others(void) { return refused(kill(getppid(), SIGTERM)); }
static int traces(void) { return refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)); }
static int sets_limits(void)
{
    return refused(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 10, 10 }));
}
static int reads_limits_of_others(void)
{
    struct rlimit old;
    return refused(prlimit(getppid(), RLIMIT_NOFILE, NULL, &old));
}
static int sets_limits_of_others(void)
{
    return refused(prlimit(getppid(), RLIMIT_CORE, &(struct rlimit){ 0, RLIM_INFINITY }, NULL));
}
static cpu_set_t processors;
static int moves_others(void)
{
    return refused(sched_setaffinity(getppid(), sizeof processors, &processors));
}
static int moves_others_again(void) /* with a bit that an int has no room for */
{
    return refused(
        syscall(SYS_sched_setaffinity, (1L << 40) | getppid(), sizeof processors, &processors));
}
static int looks_where_others_run(void)
{
    return refused(sched_getaffinity(getppid(), sizeof processors, &processors));
}
static int asks_for_the_policy_of_others(void) { return refused(sched_getscheduler(getppid())); }
/* A socket that listens, or reaches it without connect: the ways of a server that was taken over.
 * `canary` is another port of this machine, where nothing must arrive. */
static int                listener = -1, canary = -1;
static struct sockaddr_in canary_at;

static int open_port(struct sockaddr_in *at)
{
    socklen_t n  = sizeof *at;
    int       fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0 && listen(fd, 5) == 0
            && getsockname(fd, (struct sockaddr *)at, &n) == 0
        ? fd
        : -1;
}

static bool arrived(void)
{
    struct pollfd p = { .fd = canary, .events = POLLIN };
    if (poll(&p, 1, 50) != 1)
        return false;
    close(accept(canary, NULL, NULL));
    return true;
}

static int sends_to_another_port(void)
{
    shutdown(listener, SHUT_RDWR);
    return refused(sendto(listener, "SECRET", 6, MSG_FASTOPEN | MSG_NOSIGNAL,
                          (struct sockaddr *)&canary_at, sizeof canary_at));
}
static int sends_with_an_address(void)
{
    shutdown(listener, SHUT_RDWR);
    return refused(sendto(listener, "SECRET", 6, MSG_NOSIGNAL, (struct sockaddr *)&canary_at,
                          sizeof canary_at));
}
static int sends_a_message_there(void)
{
    struct iovec  text    = { "SECRET", 6 };
    struct msghdr message = { .msg_name = &canary_at, .msg_namelen = sizeof canary_at,
                              .msg_iov = &text, .msg_iovlen = 1 };
    shutdown(listener, SHUT_RDWR);
    return refused(sendmsg(listener, &message, MSG_FASTOPEN | MSG_NOSIGNAL));
}
static int sets_options(void)
{
    static const int options[] = { TCP_FASTOPEN_CONNECT, TCP_FASTOPEN, TCP_ULP, TCP_CONGESTION,
                                   TCP_REPAIR, TCP_MD5SIG, TCP_DEFER_ACCEPT };
    const int on = 1;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int result = refused(setsockopt(listener, IPPROTO_TCP, options[i], &on, sizeof on));
        if (result)
            return result;
    }
    return refused(setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on));
}
static int detaches_a_thread(void) /* from whoever traces us */
{
    return refused(syscall(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND
                                          | CLONE_THREAD | CLONE_UNTRACED, 0, 0, 0, 0));
}

static int makes_code(void)
{
    void *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return refused(p == MAP_FAILED ? -1 : 0);
}
static int turns_into_code(void)
{
    uintptr_t at = ((uintptr_t)page + 4095) & ~(uintptr_t)4095;
    return refused(mprotect((void *)at, 4096, PROT_READ | PROT_EXEC));
}
static int types_for_user(void)
{
    return refused(syscall(SYS_ioctl, STDIN_FILENO, 0x5412 /* TIOCSTI */, "x"));
}
static int controls_itself(void) { return refused(prctl(PR_SET_DUMPABLE, 1)); }
static int opens_by_ring(void) { return refused(syscall(425 /* io_uring_setup */, 1, page)); }

#if defined(__x86_64__)
static int opens_as_x32(void)
{
    return refused(syscall(0x40000000L | SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
}
#endif
static int turns_into_code_again(void) /* with a bit that an int has no room for */
{
    uintptr_t at = ((uintptr_t)page + 4095) & ~(uintptr_t)4095;
    return refused(syscall(SYS_mprotect, at, 4096, (1L << 40) | PROT_EXEC | PROT_READ));
}

typedef struct Attempt { const char *what; int (*fn)(void); } Attempt;
static const Attempt attempts[] = {
    { "open", opens }, { "create", creates }, { "openat", opens_at }, { "openat2", opens_anew },
    { "execve", runs },
    { "execveat", runs_descriptor }, { "socket", connects }, { "socketpair", connects_here },
    { "connect", connects_what_is_there }, { "listen", listens }, { "bind", binds },
    { "fork", forks }, { "clone3", forks_anew },
    { "unlink", removes }, { "rename", renames }, { "link", links }, { "stat", looks },
    { "chmod", changes_mode },
    { "kill", signals_others }, { "ptrace", traces }, { "setrlimit", sets_limits },
    { "mmap executable", makes_code },
    { "mprotect executable", turns_into_code }, { "TIOCSTI", types_for_user },
    { "prctl", controls_itself },
    { "prlimit of another process", reads_limits_of_others },
    { "prlimit to another process", sets_limits_of_others },
    { "sched_setaffinity of another process", moves_others },
    { "sched_setaffinity with more bits", moves_others_again },
    { "sched_getaffinity of another process", looks_where_others_run },
    { "sched_getscheduler of another process", asks_for_the_policy_of_others },
#if defined(SYS_newfstatat)
    { "newfstatat with AT_EMPTY_PATH", looks_with_a_flag },
#endif
    { "sendto by fast open", sends_to_another_port },
    { "sendto with an address", sends_with_an_address },
    { "sendmsg by fast open", sends_a_message_there }, { "setsockopt", sets_options },
    { "clone of a thread that nobody traces", detaches_a_thread },
    { "io_uring_setup", opens_by_ring }, { "mprotect with more bits", turns_into_code_again },
#if defined(__x86_64__)
    { "openat of x32", opens_as_x32 },
#endif
};
enum { N_ATTEMPTS = sizeof attempts / sizeof *attempts };

/* Returns the exit status of a child that does fn, or 128 + signal. */
static int in_child(int (*fn)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(fn());
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 251;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int (*inside_fn)(void);
static int inside_writable;
static bool inside_serving;
static int enter_and_do(void)
{
    tblock_error err = { 0 };
    if (sandbox_enter(&inside_writable, inside_writable >= 0, inside_serving, &err))
        return inside_fn();
    fprintf(stderr, "%s\n", err.msg);
    return 250;
}

/* In a child: enter with one writable descriptor (-1: none), then fn. As in_child, or 250: the
 * sandbox could not be entered. */
static int inside(int (*fn)(void), int writable)
{
    inside_fn = fn;
    inside_writable = writable;
    return in_child(enter_and_do);
}

static void refuses_what_reaches_outside(void)
{
    if (!can_try())
        return;
    for (int serving = 0; serving < 2; serving++)
        for (int i = 0; i < N_ATTEMPTS; i++) {
            inside_serving = serving;
            int result     = inside(attempts[i].fn, listener);
            CHECK(result == 0, "%s%s: %d", attempts[i].what, serving ? ", serving" : "", result);
        }
    inside_serving = false;
    CHECK(!arrived(), "something came to another port");
}

/* What libmicrohttpd does with a connection: two options, and these flags. */
static int answers(void)
{
    const int     on      = 1;
    struct iovec  text    = { "B", 1 };
    struct msghdr message = { .msg_iov = &text, .msg_iovlen = 1 };
    int           fd      = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0
            && setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0
            && send(fd, "A", 1, MSG_NOSIGNAL | MSG_MORE) == 1
            && sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1
            && shutdown(fd, SHUT_RDWR) == 0
        ? 0
        : errno;
}

static void a_server_answers_whoever_asked(void)
{
    struct sockaddr_in at;
    socklen_t          n = sizeof at;
    char               text[4];
    if (!can_try())
        return;
    int asks = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &n) == 0
              && connect(asks, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    inside_serving = true;
    int result     = inside(answers, listener);
    inside_serving = false;
    CHECK(result == 0, "%d", result);
    CHECK(recv(asks, text, sizeof text, MSG_WAITALL) == 2 && memcmp(text, "AB", 2) == 0, "answer");
    close(asks);
}

/* The attempts are worth something: outside, several of them work. */
static void attempts_work_outside(void)
{
    CHECK(opens() == 200, "open");
    CHECK(connects_here() == 200, "socketpair");
    CHECK(makes_code() == 200, "mmap executable");
    CHECK(looks() == 200, "stat");
    CHECK(reads_limits_of_others() == 200, "prlimit");
    CHECK(in_child(sends_to_another_port) != 200 || arrived(), "fast open and no connection");
    CHECK(looks_where_others_run() == 200 && moves_others() == 200, "sched_setaffinity");
#if defined(SYS_newfstatat)
    CHECK(looks_with_a_flag() == 200, "newfstatat");
#endif
}

/* Each allocation on the way in fails, alone or with all after it: either the sandbox is not
 * entered, which is told, or it is whole. */
static int without_memory(long at, bool lasting)
{
    tblock_error err = { 0 };
    failing_malloc_arm(at, lasting);
    bool entered = sandbox_enter(NULL, 0, false, &err);
    long n = failing_malloc_disarm();
    if (!entered)
        return err.status == TBLOCK_SYSTEM && err.msg[0] && at < n ? 0 : 202;
    for (int i = 0; i < N_ATTEMPTS; i++) {
        int result = attempts[i].fn();
        if (result != 0)
            return result;
    }
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* 204: it was the last one */
    return p == MAP_FAILED || write(STDOUT_FILENO, "", 0) != 0 ? 203 : n > at ? 0 : 204;
}

static long  fail_at;
static bool  fail_all;
static int   enters_without_memory(void) { return without_memory(fail_at, fail_all); }

static void a_filter_is_whole_or_there_is_none(void)
{
    enum { MOST = 20000 };
    if (!can_try())
        return;
    for (int lasting = 0; lasting < 2; lasting++) {
        int result = 0;
        fail_all = lasting;
        for (fail_at = 0; result == 0 && fail_at < MOST; fail_at++)
            result = in_child(enters_without_memory);
        CHECK(result == 204 && fail_at > 1, "allocation %ld%s: %d", fail_at - 1,
              lasting ? " and all after it" : "", result);
    }
}

static void *add_one(void *n)
{
    void *more = malloc(300000); /* memory of its own arena */
    *(int *)n += more != NULL;
    free(more);
    return NULL;
}

static int computes(void)
{
    int       n = 0;
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, add_one, &n) != 0 || pthread_join(thread, NULL) != 0)
            return 1;
    void *large = malloc(50 << 20);
    if (large)
        memset(large, 1, 50 << 20);
    free(large);
    return n == 3 && large ? 0 : 2;
}

static void threads_and_memory_are_left(void)
{
    if (!can_try())
        return;
    int result = inside(computes, -1);
    CHECK(result == 0, "%d", result);
}

static int kept, other;
static int writes_kept(void)
{
    return write(kept, "x", 1) == 1 && pwrite(kept, "y", 1, 1) == 1 ? 0 : 1;
}
static int writes_other(void) { return write(other, "x", 1) == -1 && errno == EBADF ? 0 : 1; }

static void only_the_given_output_is_written(void)
{
    if (!can_try())
        return;
    FILE *a = tmpfile(), *b = tmpfile();
    CHECK(a && b, "tmpfile");
    if (!a || !b)
        return;
    kept = fileno(a);
    other = fileno(b);
    int to_kept = inside(writes_kept, kept), to_other = inside(writes_other, kept);
    CHECK(to_kept == 0, "the given output: %d", to_kept);
    CHECK(to_other == 0, "another file that was open: %d", to_other);
    CHECK(lseek(other, 0, SEEK_END) == 0, "something was written");
    fclose(a);
    fclose(b);
}

static int asks_about_itself(void)
{
    cpu_set_t     mine;
    struct rlimit limit;
    struct stat   st;
    return sched_getaffinity(0, sizeof mine, &mine) == 0
            && sched_setaffinity(0, sizeof mine, &mine) == 0 && getrlimit(RLIMIT_STACK, &limit) == 0
            && syscall(SYS_fstat, STDOUT_FILENO, &st) == 0
        ? 0
        : 1;
}

static void its_own_limits_and_processors_are_left(void)
{
    if (!can_try())
        return;
    int result = inside(asks_about_itself, -1);
    CHECK(result == 0, "%d", result);
}

/* Standard input is the file `kept`, open for both. */
static int reads_input(void)
{
    char text[4] = "";
    return read(STDIN_FILENO, text, 2) == 2 && memcmp(text, "cd", 2) == 0
            && read(STDIN_FILENO, text, 1) == 0
        ? 0
        : 1;
}
static int writes_input(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, STDIN_FILENO, 0);
    return p == MAP_FAILED && write(STDIN_FILENO, "x", 1) == -1
            && pwrite(STDIN_FILENO, "x", 1, 0) == -1
        ? 0
        : 1;
}
static int writes_terminal(void) { return write(STDIN_FILENO, "", 0) == 0 ? 0 : 1; }

static void standard_input_is_read_alone(void)
{
    if (!can_try())
        return;
    FILE *f = tmpfile();
    int   before = dup(STDIN_FILENO), pair[2];
    CHECK(f && before >= 0 && write(fileno(f), "abcd", 4) == 4 && lseek(fileno(f), 2,
        SEEK_SET) == 2, "tmpfile");
    if (!f || before < 0)
        return;
    CHECK(dup2(fileno(f), STDIN_FILENO) == STDIN_FILENO, "dup2");
    int reads = inside(reads_input, -1), writes;
    lseek(fileno(f), 2, SEEK_SET);
    writes = inside(writes_input, -1);
    CHECK(reads == 0, "reading on from its offset: %d", reads);
    CHECK(writes == 0, "writing: %d", writes);
    CHECK(lseek(fileno(f), 0, SEEK_END) == 4, "something was written");
    fclose(f);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) { /* cannot be opened again: refused, unless
                                                           * it is standard error too */
        int error_before = dup(STDERR_FILENO);
        dup2(pair[0], STDIN_FILENO);
        int result = inside(writes_input, -1);
        CHECK(result == 250, "a socket: %d", result);
        dup2(pair[0], STDERR_FILENO);
        result = inside(writes_terminal, -1);
        dup2(error_before, STDERR_FILENO);
        CHECK(result == 0, "a socket that is standard error too: %d", result);
        close(error_before);
        close(pair[0]);
        close(pair[1]);
    }
    dup2(before, STDIN_FILENO);
    close(before);
}

static int aborts(void) { abort(); }

static void a_crash_is_still_one(void)
{
    if (!can_try())
        return;
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    int result = inside(aborts, -1);
    CHECK(result == 128 + SIGABRT, "%d", result);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    struct sockaddr_in at;
    listener = open_port(&at);
    canary   = open_port(&canary_at);
    TEST(a_server_answers_whoever_asked); /* first: others shut the listener down, for all */
    TEST(refuses_what_reaches_outside);
    TEST(attempts_work_outside);
    TEST(threads_and_memory_are_left);
    TEST(only_the_given_output_is_written);
    TEST(its_own_limits_and_processors_are_left);
    TEST(standard_input_is_read_alone);
    TEST(a_filter_is_whole_or_there_is_none);
    TEST(a_crash_is_still_one);
    return TEST_END();
}
