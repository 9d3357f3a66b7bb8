/* base/threads.h: run one function on a team of threads (OpenMP; a single thread where built without it).
 * Every member, the caller included, computes with round-to-nearest and subnormals kept (MXCSR 0x1F80, FPCR 0); the
 * caller's floating-point environment is restored on return. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

/* One for each physical core that this process may run on (affinity mask and cgroup CPU quota counted), at least 1. */
int threads_default(void);

typedef struct Team {
    int             thread, n_threads; /* this member's number and the team's size */
    struct Barrier *barrier;
} Team;

/* Call fn(arg, team) once on each of up to n_threads threads; the system may give fewer (team.n_threads says),
 * as under a limit on memory or processes. */
void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* Wait until every member of the team has arrived. Only inside threads_run, by all members. */
void threads_barrier(Team team);

/* The half-open share [*first, *end) of n units that this member owns; contiguous, ascending, sizes differ by at most 1. */
void threads_share(Team team, int n, int *first, int *end);

#endif
