/* base/pages.c: maps anonymous memory, and finds out which pages are huge. To align memory to a
 * huge page it maps one more and unmaps the excess. */
#include "base/memory.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

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

/* Page faults of this thread so far. */
static long faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_minflt + usage.ru_majflt : 0;
}

/* /proc shows which pages are huge, but takes milliseconds and opens a file, which a sandbox
 * forbids. Faults show it too: a fault at the first byte maps all of a huge page, and at most 64 KB
 * around it of others. */
#if defined(__GNUC__)
/* a sanitizer's own memory would fault too */
__attribute__((no_sanitize_address, no_sanitize_thread))
#endif
static bool one_fault_maps_all(volatile char *data, bool write)
{
    if (write)
        data[0] = 0;
    else
        (void)data[0];
    long before = faults();
    if (write)
        data[HUGE_PAGE / 2] = 0;
    else
        (void)data[HUGE_PAGE / 2];
    return faults() == before;
}

bool pages_are_huge(const void *data)
{
    void *at = (void *)(uintptr_t)data;
    return madvise(at, HUGE_PAGE, MADV_DONTNEED) == 0 && one_fault_maps_all(at, false);
}

bool pages_collapse(void *data)
{
    enum { COLLAPSE = 25 }; /* MADV_COLLAPSE, since Linux 6.1; headers may be older */
    return madvise(data, HUGE_PAGE, COLLAPSE) == 0;
}

/* mremap is atomic for other threads: they read the file's page before it and the copy after it.
 * The copy's old address stays mapped (MREMAP_DONTUNMAP), so that neighbours come from one mapping
 * and the kernel merges them again: a mapping for every 2 MB could exceed its limit. */
bool pages_replace(void *data, void *copy)
{
#ifdef MREMAP_DONTUNMAP
    if (one_fault_maps_all(copy, true)) {
        memcpy(copy, data, HUGE_PAGE);
        if (mremap(copy, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                   data)
            == data) {
            (void)mprotect(data, HUGE_PAGE, PROT_READ);
            return true;
        }
    }
    (void)madvise(copy, HUGE_PAGE, MADV_DONTNEED);
#else
    (void)data, (void)copy;
#endif
    return false;
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

static bool in_page_cache(const char *data)
{
    unsigned char there = 0;
    return mincore((void *)(uintptr_t)data, 1, &there) == 0 && (there & 1);
}

double pages_cache_share(const void *data, size_t n_bytes)
{
    enum { SAMPLES = 64 };
    size_t before  = (HUGE_PAGE - (uintptr_t)data % HUGE_PAGE) % HUGE_PAGE,
           windows = n_bytes > before ? (n_bytes - before) / HUGE_PAGE : 0,
           n       = windows < SAMPLES ? windows : SAMPLES;
    int huge = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)data + before + i * windows / n * HUGE_PAGE;
        if (!in_page_cache(at) || !in_page_cache(at + HUGE_PAGE / 2))
            continue;
        all++;
        huge += pages_are_huge(at);
    }
    return all ? (double)huge / all : -1;
}

void pages_unmap(void *data, size_t n_bytes)
{
    if (data)
        munmap(data, n_bytes);
}
