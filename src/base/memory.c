/* base/memory.c: arrays that grow, and how much memory the machine has. */
#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"

bool array_grow(void *array, size_t *cap, size_t n, size_t size)
{
    void  *old, *grown;
    size_t bytes, more = *cap < 8 ? 16 : 2 * *cap;
    more = more < n ? n : more;
    memcpy(&old, array, sizeof old); /* of any type */
    grown = mul_size(more, size, &bytes) ? realloc(old, bytes) : NULL;
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof grown);
    *cap = more;
    return true;
}

bool memory_fits(double n_bytes, const char *what, Error *err)
{
    double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return have <= 0 || n_bytes <= have
        || fail(err, SYSTEM, "out of memory: %s %.1f GB, but this machine has %.1f GB", what,
                n_bytes / 1e9, have / 1e9);
}

/* The number after a key in a file of lines, or in a file of one number; -1: none ("max"). */
static double number_in(const char *folder, const char *name, const char *format)
{
    char     path[PATH_MAX + 64], line[256];
    uint64_t x     = 0;
    bool     found = false;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = file_of_system(path);
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, format, &x) == 1;
    if (f)
        fclose(f);
    return found ? (double)x : -1;
}

/* Lowers *left to what a group of processes may still take: the cached files that count for it are
 * dropped when it asks for more. */
static void lower_left(double *left, double limit, double used, double active, double inactive)
{
    if (limit < 0 || used < 0)
        return;
    double rest = limit - used + (active > 0 ? active : 0) + (inactive > 0 ? inactive : 0);
    *left       = rest < *left ? (rest < 1 ? 1 : rest) : *left;
}

static void lower_by_v2(void *left, const char *folder)
{
    lower_left(left, number_in(folder, "memory.max", "%" SCNu64),
               number_in(folder, "memory.current", "%" SCNu64),
               number_in(folder, "memory.stat", "active_file %" SCNu64),
               number_in(folder, "memory.stat", "inactive_file %" SCNu64));
}

static void lower_by_v1(void *left, const char *folder)
{
    lower_left(left, number_in(folder, "memory.limit_in_bytes", "%" SCNu64),
               number_in(folder, "memory.usage_in_bytes", "%" SCNu64),
               number_in(folder, "memory.stat", "total_active_file %" SCNu64),
               number_in(folder, "memory.stat", "total_inactive_file %" SCNu64));
}

double memory_available(const char *root)
{
    char          path[PATH_MAX];
    struct rlimit space;
    snprintf(path, sizeof path, "%s/proc", root);
    double left = number_in(path, "meminfo", "MemAvailable: %" SCNu64) * 1024;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        return 0; /* such a limit asks us to stay small */
    if (left <= 0)
        return 0;
    cgroup_walk(root, "memory", lower_by_v2, lower_by_v1, &left);
    return left;
}
