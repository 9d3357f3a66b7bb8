/* base/cpu_count.c: reads the topology of /sys and the CPU quotas of control groups. */
#include "base/threads.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

/* Takes the first range off a list such as "0-3,8,10-11". */
static bool next_range(const char **list, int *first, int *last)
{
    char *end;
    if (**list < '0' || **list > '9')
        return false;
    *first = *last = (int)strtol(*list, &end, 10);
    if (*end == '-')
        *last = (int)strtol(end + 1, &end, 10);
    *list = *end == ',' ? end + 1 : "";
    return true;
}

/* Does the list name an allowed CPU below `cpu`? */
static bool lower_sibling(const char *list, int cpu, const bool *allowed)
{
    for (int i, last; next_range(&list, &i, &last);)
        for (; i <= last && i < cpu; i++)
            if (allowed[i])
                return true;
    return false;
}

int cpu_count_cores(const char *root, const bool *allowed, int n_cpus, int *first)
{
    int n = 0;
    for (int cpu = 0; cpu < n_cpus; cpu++) {
        char path[PATH_MAX], list[4096];
        if (!allowed[cpu])
            continue;
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 root, cpu);
        if (file_of_system_text(path, list, sizeof list) && lower_sibling(list, cpu, allowed))
            continue;
        if (first)
            first[n] = cpu;
        n++;
    }
    return n;
}

int cpu_count_nodes(const char *root)
{
    char path[PATH_MAX], list[4096];
    int  n = 0, first, last;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/has_memory", root);
    if (file_of_system_text(path, list, sizeof list))
        for (const char *p = list; next_range(&p, &first, &last);)
            n += last - first + 1;
    return n < 1 ? 1 : n;
}

/* Lowers *limit (0: none) to quota / period CPUs, if that is less. */
static void lower(int *limit, double quota, double period)
{
    if (!(quota > 0) || !(period > 0) || quota / period >= INT_MAX)
        return;
    int cpus = quota < period ? 1 : (int)(quota / period);
    if (*limit == 0 || cpus < *limit)
        *limit = cpus;
}

static void lower_by_v2(void *limit, const char *folder)
{
    char      path[PATH_MAX + 64], text[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    /* "max 100000": no limit */
    if (file_of_system_text(path, text, sizeof text)
        && sscanf(text, "%lld %lld", &quota, &period) == 2)
        lower(limit, (double)quota, (double)period);
}

static void lower_by_v1(void *limit, const char *folder)
{
    char path[PATH_MAX + 64], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!file_of_system_text(path, quota, sizeof quota)) /* "-1": no limit */
        return;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (file_of_system_text(path, period, sizeof period))
        lower(limit, (double)atoll(quota), (double)atoll(period));
}

int cpu_count_quota(const char *root)
{
    int limit = 0;
    cgroup_walk(root, "cpu", lower_by_v2, lower_by_v1, &limit);
    return limit;
}
