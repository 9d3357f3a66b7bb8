/* Replaces malloc and its kin, and mmap for what calls it by name (the C library's own calls do not). glibc keeps its
 * own functions under other names, which do the work. */
#include "failing_malloc.h"
#include "../unit/sanitized.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default) /* what libraries call too */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void  __libc_free(void *p);

static atomic_long live, count;
static atomic_bool armed, fail_lasting;
static long        fail_at = -1;

void failing_malloc_arm(long at, bool lasting)
{
    fail_at = at;
    fail_lasting = lasting;
    count = 0;
    armed = true;
}

long failing_malloc_disarm(void)
{
    armed = false;
    return count;
}

long failing_malloc_live(void) { return live; }

#if !SANITIZED

/* libgfortran, which is loaded with OpenBLAS, crashes where it cannot begin, and OpenBLAS waits for memory: these get theirs. */
static bool gets_always(const void *caller)
{
    static atomic_uintptr_t asked[1024]; /* callers, with the answer in the lowest bit: to find one out takes a while */
    atomic_uintptr_t       *slot = &asked[((uintptr_t)caller >> 1) % 1024];
    uintptr_t               known = *slot;
    Dl_info                 who;
    if (known >> 1 == (uintptr_t)caller)
        return known & 1;
    bool always = dladdr(caller, &who) && who.dli_fname && (strstr(who.dli_fname, "/libgfortran") || strstr(who.dli_fname, "/libopenblas"));
    *slot = (uintptr_t)caller << 1 | always;
    return always;
}

/* Whether this allocation is to fail; counts it. */
static bool fails(const void *caller)
{
    if (!armed || gets_always(caller))
        return false;
    long n = count++;
    bool now = fail_at >= 0 && (n == fail_at || (fail_lasting && n > fail_at));
    if (now)
        errno = ENOMEM;
    return now;
}

static void *counted(void *p)
{
    live += p != NULL;
    return p;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n) { return fails(CALLER) ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return fails(CALLER) ? NULL : counted(__libc_calloc(n, size)); }
void *memalign(size_t alignment, size_t n) { return fails(CALLER) ? NULL : counted(__libc_memalign(alignment, n)); }
void *aligned_alloc(size_t alignment, size_t n) { return fails(CALLER) ? NULL : counted(__libc_memalign(alignment, n)); }

int posix_memalign(void **out, size_t alignment, size_t n)
{
    *out = fails(CALLER) ? NULL : counted(__libc_memalign(alignment, n));
    return *out ? 0 : ENOMEM;
}

void *realloc(void *p, size_t n)
{
    if (fails(CALLER))
        return NULL;
    void *q = __libc_realloc(p, n);
    live += !p && q;
    live -= p && n == 0 && !q;
    return q;
}

void free(void *p)
{
    live -= p != NULL;
    __libc_free(p);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (fails(CALLER))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

#endif

/* ---- Preloaded -------------------------------------------------------------------------------------------------- */

static const char *count_path;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_ALLOCATION");
    char       *end = NULL;
    count_path = getenv("COUNT_ALLOCATIONS");
    if (!at && !count_path)
        return;
    long n = at ? strtol(at, &end, 10) : -1;
    failing_malloc_arm(n, end && *end == '+');
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    if (!count_path)
        return;
    int n = snprintf(text, sizeof text, "%ld\n", (long)count), fd = open(count_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0) {
        ssize_t ignored = write(fd, text, (size_t)n);
        (void)ignored;
        close(fd);
    }
}
