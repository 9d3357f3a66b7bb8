/* base/memory.c: arrays that grow, and how much memory the machine has. */
#include "base/memory.h"

#include <limits.h>
#include <math.h>
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

/* The number after a key at the start of a line; key "": of the first line. -1: none ("max"), or
 * more than any memory. */
static double number_in(const char *text, const char *key)
{
    size_t n = strlen(key);
    while (text && strncmp(text, key, n) != 0)
        text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    text = text ? text + n + strspn(text + n, " ") : "";
    double x = *text >= '0' && *text <= '9' ? strtod(text, NULL) : -1;
    return x < 0x1p64 ? x : -1;
}

/* Room for memory.stat; this runs where the stack may be 64 KB in all. */
enum { SMALL_FILE = 4096 };

static bool read_in(const char *folder, const char *name, char *text, size_t n)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_of_system_text(path, text, n);
}

/* Lowers *left to what a group of processes may still take: the cached files that count for it,
 * which memory.stat has under two keys, are dropped when it asks for more. */
static void lower_left(double *left, const char *folder, const char *limit_name,
                       const char *used_name, const char *active, const char *inactive)
{
    char   text[SMALL_FILE];
    double limit = read_in(folder, limit_name, text, sizeof text) ? number_in(text, "") : -1,
           used  = limit >= 0 && read_in(folder, used_name, text, sizeof text)
                ? number_in(text, "") : -1;
    if (used < 0)
        return;
    if (read_in(folder, "memory.stat", text, sizeof text))
        used -= fmax(number_in(text, active), 0) + fmax(number_in(text, inactive), 0);
    double rest = limit - fmax(used, 0);
    *left       = rest < *left ? (rest < 1 ? 1 : rest) : *left;
}

static void lower_by_v2(void *left, const char *folder)
{
    lower_left(left, folder, "memory.max", "memory.current", "active_file ", "inactive_file ");
}

static void lower_by_v1(void *left, const char *folder)
{
    lower_left(left, folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
               "total_active_file ", "total_inactive_file ");
}

double memory_available(const char *root)
{
    char          text[256], path[PATH_MAX]; /* of meminfo the first lines are enough */
    struct rlimit space;
    snprintf(path, sizeof path, "%s/proc", root);
    double left = read_in(path, "meminfo", text, sizeof text)
        ? number_in(text, "MemAvailable:") * 1024 : 0;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        return 0; /* such a limit asks us to stay small */
    if (left <= 0)
        return 0;
    cgroup_walk(root, "memory", lower_by_v2, lower_by_v1, &left);
    return left;
}

bool memory_is_there(size_t n_bytes)
{
    double have = memory_available("");
    return have <= 0 || (double)n_bytes <= have;
}
