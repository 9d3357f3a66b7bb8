/* tests/fuzz/memory_file.h: a file that lies in memory only, for readers that take a path. */
#ifndef MEMORY_FILE_H
#define MEMORY_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The path of the one such file of this process, after these bytes became its content. */
static inline const char *memory_file(const void *bytes, size_t n)
{
    static char path[64];
    static int  fd = -1;
    if (fd < 0) {
        fd = memfd_create("test", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, (off_t)n) != 0 || (n && pwrite(fd, bytes, n, 0) != (ssize_t)n))
        abort();
    return path;
}

#endif
