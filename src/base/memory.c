/* base/memory.c: arrays that grow, and how much memory the machine has. */
#include "base/memory.h"

#include <inttypes.h>
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

/* The number after a key in /proc/meminfo or in a file of one number; 0: none. */
static double number_in(const char *path, const char *format)
{
    char     line[256];
    uint64_t x = 0;
    FILE    *f = file_of_system(path);
    while (f && fgets(line, sizeof line, f) && sscanf(line, format, &x) != 1)
        x = 0;
    if (f)
        fclose(f);
    return (double)x;
}

double memory_available(void)
{
    /* where a container sees its own group; "max": no limit */
    double all   = number_in("/proc/meminfo", "MemAvailable: %" SCNu64) * 1024,
           limit = number_in("/sys/fs/cgroup/memory.max", "%" SCNu64),
           cache = number_in("/sys/fs/cgroup/memory.stat", "file %" SCNu64),
           used  = number_in("/sys/fs/cgroup/memory.current", "%" SCNu64) - cache;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        return 0; /* such a limit asks us to stay small */
    return limit > 0 && limit - used < all ? limit - used : all;
}
