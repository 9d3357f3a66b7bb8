/* base/cpu_count.h: how many threads this machine gives us. Separate from affinity.c, so that
 * tests can simulate other machines. */
#ifndef BASE_CPU_COUNT_H
#define BASE_CPU_COUNT_H

#include <stdbool.h>
#include <stddef.h>

/* root is put before /sys and /proc in every path: "", except in tests. */

/* Counts the physical cores among the logical CPUs 0 .. n_cpus - 1 with allowed[cpu]: siblings
 * of one core count once. A CPU that sysfs does not describe counts as a core. first [n_cpus]:
 * receives the lowest CPU of each core, or NULL. */
int cpu_count_cores(const char *root, const bool *allowed, int n_cpus, int *first);

/* The number of NUMA nodes that have memory; 1 if sysfs does not say. */
int cpu_count_nodes(const char *root);

/* The CPU quota of this process's cgroup and of the groups above it (v2 cpu.max; v1
 * cpu.cfs_quota_us) in whole CPUs, at least 1. 0: no limit. Rounded down, because one more
 * thread would be stopped for part of every period, and the others would wait for it. */
int cpu_count_quota(const char *root);

#endif
