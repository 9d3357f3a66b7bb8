/* cli/fault.c: the signal handlers. Everything in them is async-signal-safe: only system calls and
 * our own memory. */
#include "command.h"


#include "tblock_tools.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* ---- Temporary files ------------------------------------------------------------------------- */

/* Is this the path of a temporary file that this process made (base/file.h)? */
static bool is_temporary(const char *path)
{
    static const char start[] = ".tblock-", end[] = ".tmp";
    const char       *name = strrchr(path, '/');
    size_t            n = name ? strlen(name + 1) : 0;
    if (n < sizeof start + sizeof end || memcmp(name + 1, start, sizeof start - 1) != 0
        || memcmp(name + 1 + n - (sizeof end - 1), end, sizeof end - 1) != 0)
        return false;
    long pid = 0;
    for (const char *s = name + sizeof start; *s >= '0' && *s <= '9'; s++)
        pid = pid * 10 + (*s - '0');
    return pid == (long)getpid();
}

static void spell_number(char *out, int x)
{
    char digits[12];
    int  n = 0;
    do
        digits[n++] = (char)('0' + x % 10);
    while ((x /= 10) > 0);
    while (n > 0)
        *out++ = digits[--n];
    *out = '\0';
}

/* Removes the temporary files of outputs. Most have no name; for the others, the open descriptor
 * gives the name. */
static void remove_temporary_files(void)
{
    enum { MOST_FILES = 256 };
    static const char folder[] = "/proc/self/fd/";
    char              link[sizeof folder + 12], path[4096];
    memcpy(link, folder, sizeof folder);
    for (int fd = STDERR_FILENO + 1; fd < MOST_FILES; fd++) {
        spell_number(link + sizeof folder - 1, fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n <= 0)
            continue;
        path[n] = '\0';
        if (is_temporary(path))
            unlink(path);
    }
}

/* ---- Handlers -------------------------------------------------------------------------------- */

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored; /* nobody is left to report it to */
}

/* Prints a path as messages show it, but without snprintf, which is not async-signal-safe. */
static void say_path(const char *path)
{
    for (size_t n = strlen(path), length; n > 0; path += length, n -= length) {
        uint32_t code = 0;
        int      read = utf8_decode(path, n, &code);
        length = (size_t)(read > 0 ? read : -read);
        ssize_t ignored = read > 0 && is_printable(code) ? write(STDERR_FILENO, path, length)
                                                         : write(STDERR_FILENO, "?", 1);
        (void)ignored;
    }
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    static volatile sig_atomic_t told;
    (void)context;
    if (__atomic_exchange_n(&told, 1, __ATOMIC_ACQ_REL)) /* another thread reports it and ends us */
        for (;;)
            pause();
    const char *path = tblock_mapped_file(info->si_addr);
    if (!path) { /* not our file: a fault like any other, raised again on return */
        signal(signal_number, SIG_DFL);
        return;
    }
    progress_wipe();
    say("tblock: ");
    say_path(path);
    say(": cannot read the mapped file: it was cut short while it was in use, or its disk fails\n");
    remove_temporary_files();
    _exit(TBLOCK_SYSTEM);
}

void fault_end(int signal_number)
{
    int kept = errno; /* the interrupted code may continue until the signal is delivered */
    progress_wipe();
    remove_temporary_files();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    errno = kept;
}

void fault_catch(void)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction old, bus = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO },
                          end = { .sa_handler = fault_end };
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    sigfillset(&end.sa_mask);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ends[i], &end, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}
