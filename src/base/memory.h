/* base/memory.h: checked sizes, memory, sorted arrays, pages. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* ---- checked --------------------------------------------------------------------------------- */

/* Multiply and add sizes that come from a file. False if the result overflows. */

static inline bool mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
/* n far from SIZE_MAX */
static inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- sorted ---------------------------------------------------------------------------------- */

/* Sets i, a size_t, to the first of i .. end for which `before`, which is about i, is false. It
 * must be true up to there and false from there on. */
#define BISECT(i, end, before)                                                                     \
    for (size_t low_ = (i), high_ = (end); (i) = low_ + (high_ - low_) / 2, low_ < high_;)         \
        if (before)                                                                                \
            low_ = (i) + 1;                                                                        \
        else                                                                                       \
            high_ = (i)

/* For qsort. */
static inline int compare_u32(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Room for n elements in all in an array of cap (a size_t) that grows by doubling: a pointer and
 * its capacity, both zero at first; free it as usual. False: no memory, and nothing changed. */
#define ARRAY_ROOM(array, cap, n)                                                                  \
    ((n) <= (cap) || array_grow(&(array), &(cap), n, sizeof *(array)))
bool array_grow(void *array, size_t *cap, size_t n, size_t size); /* array: where the pointer is */

/* Is there enough memory for something large? */

/* Linux overcommits memory, and later kills a process that uses it. So check first. what:
 * "activations take", for example. Fails with SYSTEM if n_bytes exceed the machine's memory, naming
 * both. Memory that other processes use does not count. */
bool memory_fits(double n_bytes, const char *what, Error *err);

/* Bytes that are free to use without hurting other processes, as the kernel estimates it, at most
 * what the limits of this process's control groups (v1 and v2) and their parents leave. Swap does
 * not count. 0: not known, or this process has a limit on its address space. root: "", or a folder
 * with other /proc and /sys, for tests. */
double memory_available(const char *root);

/* Is there as much, as far as that is known? */
bool memory_is_there(size_t n_bytes);

/* ---- pages.c --------------------------------------------------------------------------------- */

/* Large memory straight from the system: zeroed, and on the node of the thread
 * that first writes to a page. */

enum { HUGE_PAGE = 2 << 20 };

/* n_bytes > 0 of zeros, aligned to a page; from HUGE_PAGE on aligned to HUGE_PAGE. Then it asks
 * for huge pages, because a stream through 4 KB pages waits for a page walk at each of them.
 * Pages take memory when they are first written. NULL: no memory. Release with pages_unmap. */
void *pages_map(size_t n_bytes);
void pages_unmap(void *data, size_t n_bytes); /* accepts NULL */

/* The next three take HUGE_PAGE bytes, aligned to that, of a file that is mapped for reading and
 * not locked. Other threads may read them meanwhile. */

/* Do they lie in one huge page? (Maybe not if another thread asks at the same time.) */
bool pages_are_huge(const void *data);
/* Makes the page cache hold them in one huge page. False: it cannot. */
bool pages_collapse(void *data);
/* Replaces them by a copy in a huge page at the same address, for reading. copy: HUGE_PAGE bytes
 * of pages_map, aligned too, never written to; they stay mapped. False: there is no huge page, and
 * nothing changed. */
bool pages_replace(void *data, void *copy);

/* Of the mappings that hold data [n_bytes]: the share of the pages in this process's memory that
 * are huge, 0 to 1. Below 0: not known (no page is in memory; /proc cannot be read). */
double pages_huge_share(const void *data, size_t n_bytes);

/* For a mapped file that was not read yet: of the part of data [n_bytes] in the page cache, the
 * share in huge pages, 0 to 1, from a sample of it. Below 0: not known (none of it is in the page
 * cache). */
double pages_cache_share(const void *data, size_t n_bytes);

#endif
