/* base/threads.h: runs one function on a team of threads, which a pool keeps.
 *
 * The maker of a pool owns it; there is no global state. One thread at a time may use a pool,
 * and is a member of each team. Every member computes with round-to-nearest and subnormals kept
 * (MXCSR 0x1F80, FPCR 0); the caller's floating-point environment is restored on return. The
 * pool's own threads block every signal except faults and have stacks of 512 KB.
 *
 * If the system refuses a thread (memory, a limit on processes), the team is smaller: see
 * team.n_threads. fork: a child has no threads of its parent; the pool makes new ones in the
 * child when they are first needed. Only the thread that uses the pool may fork for that, or any
 * thread while no region runs. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stdbool.h>

/* One for each physical core that this process may run on (affinity mask and cgroup CPU quota
 * count), at least 1. */
int threads_default(void);

typedef struct Team {
    int             thread, n_threads; /* this member (0: the caller), and the team's size */
    struct Barrier *barrier;
} Team;

typedef struct ThreadPool ThreadPool;

/* A pool for teams of up to n_threads. Threads are created when a team first needs them. pin:
 * member i stays on the i-th physical core of the process's mask (the caller only inside a
 * team). Members beyond the number of cores, and all if the system forbids pinning, run where
 * the kernel puts them. NULL if memory is out; threads_pool_run accepts that as a pool of one. */
ThreadPool *threads_pool_new(int n_threads, bool pin);
void        threads_pool_free(ThreadPool *p); /* accepts NULL */

/* Calls fn(arg, team) once on each of up to n_threads threads, and returns when all are done.
 * Returns the total seconds that members slept at barriers, waiting for a late one: about a
 * tenth of a member's time if the work is cut unevenly, much more if another process uses the
 * processors. */
double threads_pool_run(ThreadPool *p, int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* The same with a pool for this one call. For work that takes milliseconds. */
void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* Waits until every member of the team has arrived. Call it only inside a team, on all members. */
void threads_barrier(Team team);

/* This member's share [*first, *end) of n units: contiguous, ascending, sizes differ by at most
 * 1. */
void threads_share(Team team, int n, int *first, int *end);

#endif
