/* bench_threads: the cost of a team: a barrier, an empty region, and an empty region after a
 * pause in which its threads fell asleep.
 *   bench_threads [--threads N] [--pin] [--repeats N]
 * Prints medians and 9th deciles in microseconds. The first region makes the threads, so it is
 * printed separately. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/threads.h"
#include "kernels/roofline.h"
#include "timing.h"

enum { BARRIERS = 1000, MAX_REPEATS = 100000 };

static double sample[MAX_REPEATS];

static void print(const char *what, int n)
{
    timing_sort(sample, n);
    printf("%-34s %8.2f us, one in ten over %.2f\n", what, 1e6 * sample[n / 2],
           1e6 * sample[n * 9 / 10]);
}

static void nothing(void *arg, Team team) { (void)arg, (void)team; }

static void meet(void *arg, Team team)
{
    (void)arg;
    for (int i = 0; i < BARRIERS; i++)
        threads_barrier(team);
}

static void pause_for(double seconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * seconds) }, NULL);
}

static double timed(ThreadPool *p, int threads, void (*fn)(void *, Team))
{
    double start = clock_seconds();
    threads_pool_run(p, threads, fn, NULL);
    return clock_seconds() - start;
}

/* Regions that follow each other after `gap` seconds. */
static void regions(ThreadPool *p, int threads, double gap, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        if (gap > 0)
            pause_for(gap);
        sample[i] = timed(p, threads, nothing);
    }
    print(what, n);
}

int main(int argc, char **argv)
{
    int  threads = threads_default(), repeats = 1000;
    bool pin = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--pin") == 0)
            pin = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc)
            repeats = atoi(argv[++i]);
        else
            threads = 0;
    }
    if (threads < 1 || threads > 1024 || repeats < 10 || repeats > MAX_REPEATS) {
        fprintf(stderr, "usage: bench_threads [--threads 1 to 1024] [--pin] [--repeats 10 to %d]\n",
                MAX_REPEATS);
        return 2;
    }
    char name[128];
    machine_name(name, sizeof name);
    printf("%s, %d threads%s, medians\n", name, threads, pin ? ", pinned" : "");
    ThreadPool *p = threads_pool_new(threads, pin);
    sample[0] = timed(p, threads, nothing);
    print("the first region", 1);
    for (int i = 0; i < repeats / 10; i++)
        sample[i] = timed(p, threads, meet) / BARRIERS;
    print("a barrier", repeats / 10);
    regions(p, threads, 0, repeats, "a region");
    regions(p, threads, 1e-3, repeats / 10, "a region after 1 ms");
    regions(p, threads, 20e-3, repeats / 50 + 1, "a region after 20 ms");
    threads_pool_free(p);
    for (int i = 0; i < repeats / 10; i++) {
        double start = clock_seconds();
        threads_run(threads, nothing, NULL);
        sample[i] = clock_seconds() - start;
    }
    print("a pool for one region", repeats / 10);
    return 0;
}
