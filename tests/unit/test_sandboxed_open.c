/* With --sandbox a model is parsed behind the filter. The program runs under a tracer, with each
 * kind of source: no byte of the model is read or mapped before the filter stands, and no call that
 * opens, looks up or connects succeeds after it. What it prints is what it prints
 * without the sandbox. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"
#include "test.h"

static char program[PATH_MAX], folder[] = "/tmp/tblock-opened-XXXXXX";
static bool prepared;

enum { MOST_ARGS = 16, MOST_OUTPUT = 8 << 20 };

/* {D}: our folder. What is watched: files whose path has this in it. */
typedef struct Case { const char *what, *watched, *args; } Case;
#define TEXT " -p ROMEO: -n 6 --temp 0 --threads 2"
#define IDS  " --ids 1,2,3 -n 6 --temp 0 --threads 2"
static const Case cases[] = {
    { "a model file", "{D}/text.bin", "run {D}/text.bin" TEXT },
    { "a folder", "llama3-e2e/", "run tests/data/models/llama3-e2e" TEXT },
    { "a folder of shards", "llama-sharded/", "run tests/data/models/llama-sharded" IDS },
    { "a file of a folder", "gpt2/", "run tests/data/models/gpt2/model.safetensors" IDS },
    { "a GGUF", "{D}/small.gguf", "run {D}/small.gguf" IDS },
    { "an adapter", "trained/",
      "run tests/data/models/llama3-e2e" TEXT " --lora tests/data/adapters/trained" },
    { "a model that guesses", "{D}/text.bin",
      "run models/shakespeare.bin" TEXT " --draft {D}/text.bin" },
    { "logits", "{D}/text.bin", "logits {D}/text.bin -p ROMEO: -o {D}/out" },
    { "convert", "llama-sharded/", "convert tests/data/models/llama-sharded -o {D}/out" },
    { "a merged adapter", "trained/",
      "convert tests/data/models/llama3-e2e -o {D}/out --merge-lora tests/data/adapters/trained" },
    { "quantize", "{D}/text.bin", "quantize {D}/text.bin -o {D}/out --type q8" },
    { "info", "{D}/text.bin", "info {D}/text.bin --check" },
    { "info of a config", "gpt2/",
      "info tests/data/models/gpt2/config.json --html {D}/out --json" },
    { "attention", "{D}/text.bin", "attn {D}/text.bin -p ROMEO: --json" },
    { "a text", "{D}/text.bin", "eval {D}/text.bin models/README.md --ctx 32" },
    { "a text against another model", "{D}/text.bin",
      "eval models/shakespeare.bin models/README.md --against {D}/text.bin" },
    { "questions", "questions", "eval {D}/text.bin --choices tests/data/questions.jsonl" },
    { "tokens", "llama3-e2e/", "tokenize tests/data/models/llama3-e2e -f README.md" },
    { "a golden", "{D}/golden", "verify {D}/text.bin {D}/golden --exact" },
    { "a receipt", "{D}/receipt", "verify {D}/text.bin {D}/receipt" },
    { "a conversation", "{D}/text.bin", "chat {D}/text.bin --chat-format alpaca -n 6 --temp 0" },
    { "a grammar", "{D}/yes.gbnf", "run {D}/text.bin" TEXT " --grammar {D}/yes.gbnf" },
    { "a measurement", "{D}/text.bin", "bench {D}/text.bin --prefill 4 -n 0 -r 1 --read-mb 1 "
                                       "--csv {D}/rows.csv" },
    { "a state", "{D}/state", "run {D}/text.bin" TEXT " --load-state {D}/state" },
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void put(char *out, size_t n, const char *text)
{
    size_t at = 0;
    for (; *text && at + sizeof folder < n; text++)
        if (strncmp(text, "{D}", 3) == 0) {
            at += (size_t)snprintf(out + at, n - at, "%s", folder);
            text += 2;
        } else {
            out[at++] = *text;
        }
    out[at] = '\0';
}

/* A child with this command line, whose output goes to `out`; input "Hello". */
static pid_t start(const char *args, const char *more, int out, bool traced)
{
    char  line[1024], *argv[MOST_ARGS] = { program }, *next = NULL;
    int   n = 1, in[2];
    char  all[1024];
    snprintf(all, sizeof all, "%s%s", args, more);
    put(line, sizeof line, all);
    for (char *a = strtok_r(line, " ", &next); a && n < MOST_ARGS - 1;
         a       = strtok_r(NULL, " ", &next))
        argv[n++] = a;
    if (pipe(in) != 0 || write(in[1], "Hello\n", 6) != 6)
        return -1;
    close(in[1]);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        dup2(in[0], STDIN_FILENO);
        close(in[0]);
        dup2(out, STDOUT_FILENO);
        if (!traced || ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            execv(program, argv);
        _exit(99);
    }
    close(in[0]);
    return pid;
}

static int plain_status(const char *args, const char *more, int out)
{
    int   status = 0;
    pid_t pid    = start(args, more, out, false);
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

typedef struct Trace {
    bool     entered, setting; /* the filter stands; the call that sets it is under way */
    pid_t    opening;          /* the thread that is in a call that opens */
    unsigned read_before, read_after, opened;
    int      status;
    bool     impossible;
} Trace;

static bool opens(uint64_t call)
{
    static const int calls[] = {
        SYS_openat, SYS_openat2, SYS_newfstatat, SYS_statx, SYS_readlinkat, SYS_faccessat,
        SYS_socket,
        SYS_connect, SYS_execve, SYS_getdents64, SYS_unlinkat, SYS_renameat2,
#if defined(SYS_open)
        SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink,
#endif
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (call == (uint64_t)calls[i])
            return true;
    return false;
}

static bool reads_watched(pid_t pid, uint64_t call, const __uint64_t *arg, const char *watched)
{
    char    link[64], path[PATH_MAX];
    int64_t fd = call == SYS_mmap                                                      ? (int)arg[4]
              : call == SYS_read || call == SYS_readv || call == SYS_pread64 ? (int)arg[0]
                                                                             : -1;
    if (fd < 0)
        return false;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, (int)fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, watched) != NULL;
}

static void see_call(Trace *t, pid_t pid, const char *watched)
{
    struct __ptrace_syscall_info i = { 0 };
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof i, &i) <= 0) {
        t->impossible = true;
        return;
    }
    if (i.op == PTRACE_SYSCALL_INFO_EXIT) {
        t->entered |= t->setting && i.exit.rval == 0;
        t->opened += t->entered && t->opening == pid && i.exit.rval >= 0;
        t->setting = false;
    } else if (i.op == PTRACE_SYSCALL_INFO_ENTRY) {
        t->setting = i.entry.nr == SYS_seccomp && i.entry.args[0] == 1; /* SET_MODE_FILTER */
        t->opening = opens(i.entry.nr) ? pid : t->opening == pid ? 0 : t->opening;
        if (reads_watched(pid, i.entry.nr, i.entry.args, watched))
            ++*(t->entered ? &t->read_after : &t->read_before);
    }
}

/* The program and its threads; the process that renames its outputs is not traced. stops: at the
 * first byte that is read behind the filter, for a program that does not end. */
static Trace trace(const char *args, const char *watched, int out, bool stops)
{
    Trace t   = { .status = -1 };
    pid_t pid = start(args, " --sandbox", out, true), who;
    int   status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)
        || ptrace(PTRACE_SETOPTIONS, pid, NULL,
                  PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0) {
        t.impossible = true;
        return t;
    }
    ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
    while ((who = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (who != pid)
                continue;
            t.status = status;
            break;
        }
        int signal_number = WSTOPSIG(status);
        if (signal_number == (SIGTRAP | 0x80))
            see_call(&t, who, watched);
        if (stops && t.read_after)
            kill(pid, SIGKILL);
        bool own = signal_number == (SIGTRAP | 0x80) || signal_number == SIGTRAP
            || signal_number == SIGSTOP;
        ptrace(PTRACE_SYSCALL, who, NULL, (void *)(uintptr_t)(own ? 0 : signal_number));
    }
    return t;
}

static int output(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static bool same_bytes(int a, int b)
{
    static char one[MOST_OUTPUT], other[MOST_OUTPUT];
    ssize_t     n = pread(a, one, sizeof one, 0);
    return n > 0 && n == pread(b, other, sizeof other, 0) && memcmp(one, other, (size_t)n) == 0;
}

/* What was written to {D}/out, and is now called otherwise. -1: nothing. */
static int written(const char *args, const char *name)
{
    char from[64], to[64];
    snprintf(from, sizeof from, "%s/out", folder);
    snprintf(to, sizeof to, "%s/%s", folder, name);
    return strstr(args, "{D}/out") && rename(from, to) == 0 ? open(to, O_RDONLY | O_CLOEXEC) : -1;
}

/* Is there a program with a sandbox? Makes what the cases read. */
static bool prepare(const char *self)
{
    static const char *const made[] = {
        "convert models/shakespeare.bin -o {D}/text.bin",
        "logits models/shakespeare.bin -p ROMEO: -o {D}/golden",
        "run models/shakespeare.bin" TEXT " --receipt {D}/receipt",
        "run models/shakespeare.bin" TEXT " --save-state {D}/state",
    };
    char        real[PATH_MAX], text[PATH_MAX + 200];
    const char *unit = realpath(self, real) ? strstr(real, "/tests/unit/") : NULL;
    if (SANITIZED || !unit || !mkdtemp(folder))
        return false;
    snprintf(program, sizeof program, "%.*s/tblock", (int)(unit - real), real);
    int  out  = output("made");
    bool good = true;
    for (size_t i = 0; good && i < sizeof made / sizeof *made; i++)
        good = plain_status(made[i], "", out) == 0;
    snprintf(text, sizeof text, "cp tests/data/gguf/llama-kquants/*.gguf %s/small.gguf && printf "
             "'root ::= \"yes\" | \"no\"' > %s/yes.gbnf", folder, folder);
    good = good && system(text) == 0 && plain_status(cases[0].args, " --sandbox", out) == 0;
    close(out);
    return good;
}

static bool can_try(void)
{
    if (!prepared)
        SKIP("no program with a sandbox, or a sanitizer's, which makes calls of its own");
    return prepared;
}

static void what_is_parsed_is_behind_the_filter(void)
{
    for (int i = 0; can_try() && i < N_CASES; i++) {
        char watched[100];
        put(watched, sizeof watched, cases[i].watched);
        int   plain = output("plain"), inside = output("inside");
        int   status = plain_status(cases[i].args, "", plain);
        int   file   = written(cases[i].args, "plain.out");
        Trace t      = trace(cases[i].args, watched, inside, false);
        if (t.impossible) {
            SKIP("no tracing here");
            return;
        }
        CHECK(status == 0 && t.status == 0, "%s: status %d, %d", cases[i].what, status, t.status);
        bool shows_time = strstr(cases[i].args, "logits ") || strstr(cases[i].args, "bench ");
        CHECK(shows_time || same_bytes(plain, inside), "%s: other output", cases[i].what);
        int other = written(cases[i].args, "inside.out");
        CHECK(file < 0 || (other >= 0 && same_bytes(file, other)), "%s: another file",
              cases[i].what);
        close(file), close(other);
        CHECK(t.entered && t.read_before == 0 && t.read_after > 0 && t.opened == 0,
              "%s: %u reads before the filter, %u behind it, %u calls that open", cases[i].what,
              t.read_before, t.read_after, t.opened);
        close(plain), close(inside);
    }
}

static void a_server_reads_its_model_behind_the_filter(void)
{
    char watched[100];
    put(watched, sizeof watched, "{D}/text.bin");
    if (!can_try())
        return;
    int   out = output("inside");
    Trace t   = trace("serve {D}/text.bin --port 0", watched, out, true);
    close(out);
    if (t.impossible || (WIFEXITED(t.status) && !t.entered)) {
        SKIP("no tracing here, or no libmicrohttpd");
        return;
    }
    CHECK(t.entered && t.read_before == 0 && t.read_after > 0 && t.opened == 0,
          "%u reads before the filter, %u behind it, %u calls that open", t.read_before,
          t.read_after, t.opened);
}

int main(int argc, char **argv)
{
    char text[100];
    TEST_MAIN_ARGS(argc, argv);
    prepared = prepare(argv[0]);
    TEST(what_is_parsed_is_behind_the_filter);
    TEST(a_server_reads_its_model_behind_the_filter);
    snprintf(text, sizeof text, "rm -rf '%s'", folder);
    if (!strstr(folder, "XXXXXX") && system(text) != 0)
        fprintf(stderr, "%s stays\n", folder);
    return TEST_END();
}
