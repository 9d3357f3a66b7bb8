/* base/pages.c: maps anonymous memory, and tells where huge pages are. To align memory to a huge
 * page it maps one more and returns the excess. */
#include "base/memory.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void *map(size_t n_bytes)
{
    void *data = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

void *pages_map(size_t n_bytes)
{
    size_t more;
    if (n_bytes < HUGE_PAGE)
        return map(n_bytes);
    if (!add_size(n_bytes, HUGE_PAGE, &more))
        return NULL;
    char *data = map(more);
    if (!data)
        return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)data % HUGE_PAGE) % HUGE_PAGE,
           behind = HUGE_PAGE - before;
    if (before > 0)
        munmap(data, before);
    munmap(data + before + n_bytes, behind);
    (void)madvise(data + before, n_bytes, MADV_HUGEPAGE); /* a hint: failure does not matter */
    return data + before;
}

double pages_huge_share(const void *data, size_t n_bytes)
{
    uintptr_t first = (uintptr_t)data, from, to;
    bool      ours  = false;
    uint64_t  huge = 0, all = 0, kb;
    char      line[512], key[32];
    FILE     *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            ours = from < first + n_bytes && to > first;
        else if (ours && sscanf(line, "%31[^:]: %" SCNu64 " kB", key, &kb) == 2) {
            all += strcmp(key, "Rss") == 0 ? kb : 0;
            huge += strcmp(key, "AnonHugePages") == 0 || strcmp(key, "FilePmdMapped") == 0
                    || strcmp(key, "ShmemPmdMapped") == 0
                ? kb
                : 0;
        }
    }
    if (f)
        fclose(f);
    return all ? (double)huge / (double)all : -1;
}

void pages_unmap(void *data, size_t n_bytes)
{
    if (data)
        munmap(data, n_bytes);
}
