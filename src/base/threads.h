/* base/threads.h: threads: how many the machine runs, where they run, and teams of them. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stdbool.h>
#include <stddef.h>

/* ---- cpu_count.c ----------------------------------------------------------------------------- */

/* How many threads this machine allows us. Separate from affinity.c, so that
 * tests can simulate other machines. */

/* root is put before /sys and /proc in every path: "", except in tests. */

/* Counts the physical cores among the logical CPUs 0 .. n_cpus - 1 with allowed[cpu]: siblings
 * of one core count once. A CPU that sysfs does not describe counts as a core. first [n_cpus]:
 * receives the lowest CPU of each core, or NULL. */
int cpu_count_cores(const char *root, const bool *allowed, int n_cpus, int *first);

/* The number of NUMA nodes that have memory; 1 if sysfs does not say. */
int cpu_count_nodes(const char *root);

/* The CPU quota of this process's cgroup and of the groups above it (v2 cpu.max; v1
 * cpu.cfs_quota_us) in whole CPUs, at least 1. 0: no limit. Rounded down, because one more
 * thread would be throttled for part of every period, and the others would wait for it. */
int cpu_count_quota(const char *root);

/* ---- affinity.c ------------------------------------------------------------------------------ */

/* The physical cores in this process's affinity mask, and threads pinned to
 * them. */

/* The number of physical cores that this process may run on, at least 1. */
int affinity_count(void);

typedef struct Affinity Affinity; /* one CPU of each of those cores, ascending */

Affinity *affinity_new(void);     /* NULL: no memory, or the mask is not readable */
void      affinity_free(Affinity *a); /* accepts NULL */

/* Pins this thread to core number `core`. False if there is no such core or the system forbids
 * it. */
bool affinity_pin(const Affinity *a, int core);

/* Pins this thread until affinity_leave, which restores the thread's earlier mask. */
void affinity_enter(Affinity *a, int core);
void affinity_leave(Affinity *a);

/* ---- threads.c ------------------------------------------------------------------------------- */

/* Runs one function on a team of threads, which a pool keeps.
 *
 * Who creates a pool owns it; there is no global state. One thread at a time may use a pool, and
 * is a member of each team. Every member computes with round-to-nearest and subnormals kept
 * (MXCSR 0x1F80, FPCR 0); the caller's floating-point environment is restored on return. The
 * pool's own threads block every signal except faults and have stacks of 512 KB.
 *
 * If a thread cannot be created (memory, a limit on processes), the team is smaller: see
 * team.n_threads. fork: a child has no threads of its parent; the pool creates new ones in the
 * child when they are first needed. For that, only the thread that uses the pool may fork, or any
 * thread while no region runs. */

/* One for each physical core that this process may run on (affinity mask and cgroup CPU quota
 * count), at least 1. */
int threads_default(void);
/* Before a sandbox: holds what /proc and /sys say of processors and memory (file_hold_system). */
void threads_hold_system(void);

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
/* Does its invariant hold? For the thread that uses it, while no team runs. */
bool        threads_pool_is_sound(const ThreadPool *p);

/* Calls fn(arg, team) once on each of up to n_threads threads, and returns when all are done.
 * Returns the total seconds that members slept at barriers, waiting for a late one: about a
 * tenth of a member's time if the work is divided unevenly, much more if another process keeps
 * the CPU busy. */
double threads_pool_run(ThreadPool *p, int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* The same with a pool for this one call. For work that takes milliseconds. */
void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg);

/* Waits until every member of the team has arrived. Call it only inside a team, on all members. */
void threads_barrier(Team team);

/* This member's share [*first, *end) of n units: contiguous, ascending, sizes differ by at most
 * 1. */
void threads_share(Team team, int n, int *first, int *end);

#endif
