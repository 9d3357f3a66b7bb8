/* cli/progress_bar.c: prints the line in its own thread, so that it moves during a long call. */
#include "command.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/progress.h"

enum { MOST_CELLS = 40, LEAST_CELLS = 5, WHAT_ROOM = 256, LINE_ROOM = 512 };
static const double FIRST_AFTER = 0.5, EVERY = 0.2; /* seconds */
static const char   WIPE[] = "\r\033[K";             /* to the first column, and clear the line */

static struct {
    bool            running; /* used by the calling thread only */
    pthread_t       thread;
    pthread_mutex_t lock;           /* of all fields below */
    pthread_cond_t  wake;
    bool            stop;
    char            what[WHAT_ROOM];
    double          done, start;
} bar = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Handlers read and set these too. */
static atomic_bool drawing, visible, wiped;

/* ---- The line -------------------------------------------------------------------------------- */

/* Composes "computing logits [#####     ]  50%  0m12s", or without the bar if it does not fit.
 * Leaves one column free, so that no terminal wraps. */
static void compose(char line[LINE_ROOM], const char *what, double done, double seconds)
{
    static const char full[MOST_CELLS + 1] = "########################################";
    char      time[24] = "";
    const int room = terminal_columns(STDERR_FILENO) - 1;
    if (seconds >= 1)
        snprintf(time, sizeof time, "  %.0fm%02.0fs", floor(seconds / 60),
                 floor(fmod(seconds, 60)));
    int cells = room - (int)(strlen(what) + strlen(time) + sizeof " [] 100%" - 1);
    if (done < 0 || cells < LEAST_CELLS) {
        snprintf(line, LINE_ROOM, "%s%s", what, time);
        line[room < LINE_ROOM ? room : LINE_ROOM - 1] = '\0';
        return;
    }
    cells = cells > MOST_CELLS ? MOST_CELLS : cells;
    done = done < 1 ? done : 1;
    int filled = (int)(done * cells);
    snprintf(line, LINE_ROOM, "%s [%.*s%*s] %3d%%%s", what, filled, full, cells - filled, "",
             (int)(done * 100), time);
}

static void draw(const char *line)
{
    char text[LINE_ROOM + 8];
    int  n = snprintf(text, sizeof text, "\r%s\033[K", line); /* clears the rest of a longer line */
    atomic_store(&drawing, true);
    if (!atomic_load(&wiped)) {
        atomic_store(&visible, true);
        write_all(STDERR_FILENO, -1, text, (size_t)n);
    }
    atomic_store(&drawing, false);
}

/* Sleeps until the clock is at `at`, or until woken to stop. False: stop. The caller holds the
 * lock. */
static bool sleep_until(double at)
{
    struct timespec t = { .tv_sec = (time_t)at,
                          .tv_nsec = (long)((at - (double)(time_t)at) * 1e9) };
    while (!bar.stop && clock_seconds() < at)
        pthread_cond_timedwait(&bar.wake, &bar.lock, &t);
    return !bar.stop;
}

static void *draw_lines(void *unused)
{
    char line[LINE_ROOM], drawn[LINE_ROOM] = "";
    pthread_mutex_lock(&bar.lock);
    for (double at = bar.start + FIRST_AFTER; sleep_until(at); at = clock_seconds() + EVERY) {
        compose(line, bar.what, bar.done, clock_seconds() - bar.start);
        if (strcmp(line, drawn) == 0)
            continue;
        pthread_mutex_unlock(&bar.lock); /* a terminal may be slow */
        draw(line);
        memcpy(drawn, line, sizeof drawn);
        pthread_mutex_lock(&bar.lock);
    }
    pthread_mutex_unlock(&bar.lock);
    return unused;
}

/* ---- From outside ---------------------------------------------------------------------------- */

/* Starts the thread that prints the bar. It takes no signals: handlers run in the other threads. */
static void start_thread(void)
{
    sigset_t           all, old;
    pthread_condattr_t clock;
    if (pthread_condattr_init(&clock) != 0)
        return;
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    bool ready = pthread_cond_init(&bar.wake, &clock) == 0;
    pthread_condattr_destroy(&clock);
    if (!ready)
        return;
    bar.start = clock_seconds();
    bar.stop  = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bar.running = pthread_create(&bar.thread, NULL, draw_lines, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!bar.running)
        pthread_cond_destroy(&bar.wake);
}

void progress_show(const char *what, double done)
{
    if (cli_is_quiet() || (!bar.running && !terminal_is_capable(STDERR_FILENO)))
        return;
    pthread_mutex_lock(&bar.lock);
    snprintf(bar.what, sizeof bar.what, "%s", what);
    bar.done = done;
    if (!bar.running)
        start_thread();
    pthread_mutex_unlock(&bar.lock);
}

void progress_advance(void *unused, double done)
{
    (void)unused;
    if (!bar.running)
        return;
    pthread_mutex_lock(&bar.lock);
    bar.done = done;
    pthread_mutex_unlock(&bar.lock);
}

void progress_end(void)
{
    if (!bar.running)
        return;
    pthread_mutex_lock(&bar.lock);
    bar.stop = true;
    pthread_cond_signal(&bar.wake);
    pthread_mutex_unlock(&bar.lock);
    pthread_join(bar.thread, NULL);
    pthread_cond_destroy(&bar.wake);
    bar.running = false;
    if (atomic_exchange(&visible, false))
        write_all(STDERR_FILENO, -1, WIPE, sizeof WIPE - 1);
}

void progress_wipe(void)
{
    const struct timespec moment = { .tv_nsec = 100000 };
    atomic_store(&wiped, true);
    /* Else a line being printed would remain. */
    for (int i = 0; i < 1000 && atomic_load(&drawing); i++)
        nanosleep(&moment, NULL);
    if (atomic_exchange(&visible, false))
        write_all(STDERR_FILENO, -1, WIPE, sizeof WIPE - 1);
}
