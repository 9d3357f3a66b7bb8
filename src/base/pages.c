/* base/pages.c: maps anonymous memory. To align it to a huge page it maps one more and returns
 * the excess. */
#include "base/memory.h"

#include <stdint.h>
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

void pages_unmap(void *data, size_t n_bytes)
{
    if (data)
        munmap(data, n_bytes);
}
