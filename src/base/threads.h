/* base/threads.h: run one function on a team of threads that a pool keeps for it.
 *
 * Whoever makes a pool owns it: no state is global. One thread at a time may use a pool; it is a member of each team. Every member
 * computes with round-to-nearest and subnormals kept (MXCSR 0x1F80, FPCR 0), and the caller's floating-point environment is restored
 * on return. The pool's own threads block every signal but those of faults and have stacks of 512 KB.
 *
 * Threads that the system does not give (memory, a limit on processes) are done without: team.n_threads says how many there are.
 * fork: a child has none of the threads of its parent; a pool made before makes new ones in the child when they are first needed. Only
 * the thread that uses the pool may fork for that, or any while no region runs. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stdbool.h>

/* One for each physical core that this process may run on (affinity mask and cgroup CPU quota counted), at least 1. */
int threads_default(void);

typedef struct Team {
    int             thread, n_threads; /* this member's number and the team's size; the caller is 0 */
    struct Barrier *barrier;
} Team;

typedef struct ThreadPool ThreadPool;

/* A pool for teams of up to n_threads. Its threads are created when a team first needs them. pin: member i stays on the i-th
 * physical core of the process's mask (the caller inside a team only); members past the number of cores, and all where the system
 * forbids it, go where the kernel sends them. NULL where memory is out, which threads_pool_run takes for a pool of one. */
ThreadPool *threads_pool_new(int n_threads, bool pin);
void        threads_pool_free(ThreadPool *p); /* NULL is accepted */

/* Call fn(arg, team) once on each of up to n_threads threads of the pool, and return when all have. Returns the seconds that members
 * lay asleep at barriers, waiting for another that was late, in sum: a tenth of a member's time where the work is cut unevenly,
 * much more where another process has the processors. */
double threads_pool_run(ThreadPool *p, int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* The same with a pool for this one call, for work that takes milliseconds. */
void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* Wait until every member of the team has arrived. Only inside a team, by all members. */
void threads_barrier(Team team);

/* The half-open share [*first, *end) of n units that this member owns; contiguous, ascending, sizes differ by at most 1. */
void threads_share(Team team, int n, int *first, int *end);

#endif
