/* base/cpu_count.h: how many threads this machine gives us. Apart from affinity.c so that a test can show it other machines. */
#ifndef BASE_CPU_COUNT_H
#define BASE_CPU_COUNT_H

#include <stdbool.h>
#include <stddef.h>

/* root stands before /sys and /proc in every path: "" but in tests. */

/* Physical cores among the logical CPUs 0 .. n_cpus - 1 with allowed[cpu]: siblings of one core count once. A CPU
 * that sysfs does not describe counts as a core. first: the lowest of each core's goes there, [n_cpus]; or NULL. */
int cpu_count_cores(const char *root, const bool *allowed, int n_cpus, int *first);

/* NUMA nodes that have memory; 1 where sysfs does not say. */
int cpu_count_nodes(const char *root);

/* The CPU quota of this process's cgroup and of those above it (v2 cpu.max; v1 cpu.cfs_quota_us), in whole CPUs, rounded
 * down (a thread more would be stopped for part of every period, and all the others would wait for it), at least 1;
 * 0: no limit. */
int cpu_count_quota(const char *root);

#endif
