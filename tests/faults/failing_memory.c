/* tests/faults/failing_memory.c: preloaded into the program. /proc/meminfo says that
 * FAIL_AVAILABLE_KB are available. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

FILE *fopen(const char *path, const char *mode)
{
    static char  text[64];
    const char  *kb = getenv("FAIL_AVAILABLE_KB");
    FILE      *(*next)(const char *, const char *);
    void        *symbol = dlsym(RTLD_NEXT, "fopen");
    memcpy(&next, &symbol, sizeof next);
    if (!kb || strcmp(path, "/proc/meminfo") != 0)
        return next(path, mode);
    int n = snprintf(text, sizeof text, "MemAvailable: %s kB\n", kb);
    return fmemopen(text, (size_t)n, "r");
}
