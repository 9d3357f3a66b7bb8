/* tests/faults/failing_malloc.h: the allocator of the whole process, C library and other libraries
 * included, with one allocation (or all from one on) that fails. Linked into a test, or preloaded
 * into the program: then the environment arms it, FAIL_ALLOCATION=N or N+ (N and all after), and
 * COUNT_ALLOCATIONS=FILE gets the number of allocations at the end and, after spaces, those before
 * a sandbox was entered. A sanitizer's allocator stays (sanitized.h): then nothing here counts or
 * fails. */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <stdbool.h>

/* Count from 0 from here on; number `at` fails (-1: none), and with `lasting` all after it. */
void failing_malloc_arm(long at, bool lasting);

/* Stop; returns how many allocations there were. */
long failing_malloc_disarm(void);

/* Allocated and not freed, of this process. Mappings are not counted: they are given back in
 * pieces. */
long failing_malloc_live(void);

#endif
