/* base/cpu_count.c: reads the topology of /sys and the CPU quotas of /proc and /sys/fs/cgroup. */
#include "base/threads.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* Reads the first n - 1 bytes of a small file of /sys or /proc. */
static bool read_small(const char *path, char *text, size_t n)
{
    FILE *f = file_of_system(path);
    if (!f)
        return false;
    size_t got = fread(text, 1, n - 1, f);
    fclose(f);
    text[got] = 0;
    return got > 0;
}

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
        if (read_small(path, list, sizeof list) && lower_sibling(list, cpu, allowed))
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
    if (read_small(path, list, sizeof list))
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

static void lower_by_v2(int *limit, const char *folder)
{
    char      path[PATH_MAX + 64], text[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    /* "max 100000": no limit */
    if (read_small(path, text, sizeof text) && sscanf(text, "%lld %lld", &quota, &period) == 2)
        lower(limit, (double)quota, (double)period);
}

static void lower_by_v1(int *limit, const char *folder)
{
    char path[PATH_MAX + 64], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_small(path, quota, sizeof quota)) /* "-1": no limit */
        return;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (read_small(path, period, sizeof period))
        lower(limit, (double)atoll(quota), (double)atoll(period));
}

/* Applies the limits of every group from `group` ("/a/b") up to the mount. In a container the
 * path may be one of the host, which is not visible here. Then only the mount itself is found:
 * the container's own group. */
static void lower_by_ancestors(int *limit, const char *mount, const char *group,
                               void (*lower_by)(int *, const char *))
{
    char   folder[PATH_MAX];
    size_t n_mount = strlen(mount), n_group = strlen(group);
    if (n_mount + n_group >= sizeof folder)
        return;
    memcpy(folder, mount, n_mount);
    memcpy(folder + n_mount, group, n_group + 1);
    for (;;) {
        lower_by(limit, folder);
        char *slash = strrchr(folder + n_mount, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Is "cpu" one of the names in "cpu,cpuacct"? */
static bool has_cpu(const char *controllers)
{
    for (const char *p = controllers; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == 0))
            return true;
    return false;
}

int cpu_count_quota(const char *root)
{
    char path[PATH_MAX], mount[PATH_MAX], text[8192];
    int  limit = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_small(path, text, sizeof text))
        return 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        if (!*controllers) { /* "0::/path" */
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
            lower_by_ancestors(&limit, mount, group, lower_by_v2);
        } else if (has_cpu(controllers)) { /* "4:cpu,cpuacct:/path" */
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
            lower_by_ancestors(&limit, mount, group, lower_by_v1);
        }
    }
    return limit;
}
