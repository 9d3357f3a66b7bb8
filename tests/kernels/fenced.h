/* tests/kernels/fenced.h: memory that ends at a page which faults. */
#ifndef TESTS_FENCED_H
#define TESTS_FENCED_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Fenced {
    char  *p; /* n bytes */
    char  *map;
    size_t map_bytes;
} Fenced;

static Fenced fenced(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (n + page - 1) / page * page;
    Fenced f    = { .map_bytes = body + page };
    f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.map == MAP_FAILED || mprotect(f.map + body, page, PROT_NONE) != 0) {
        fprintf(stderr, "check: no memory for %zu bytes\n", n);
        exit(4);
    }
    f.p = f.map + body - n;
    return f;
}

static void fenced_free(Fenced f) { munmap(f.map, f.map_bytes); }

#endif
