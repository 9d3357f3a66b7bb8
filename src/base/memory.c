/* base/memory.c: asks the system how much memory the machine has. */
#include "base/memory.h"

#include <unistd.h>

bool memory_fits(double n_bytes, const char *what, Error *err)
{
    double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return have <= 0 || n_bytes <= have
        || fail(err, SYSTEM, "out of memory: %s %.1f GB, but this machine has %.1f GB", what,
                n_bytes / 1e9, have / 1e9);
}
