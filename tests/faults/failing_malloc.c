/* Replaces malloc and its kin, and mmap for what calls it by name (the C library's own calls do
 * not). glibc keeps its own functions under other names, which do the work. */
#include "failing_malloc.h"
#include "../unit/sanitized.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

/* libgfortran, which is loaded with OpenBLAS, crashes where it cannot begin, and OpenBLAS waits for
 * memory: these get theirs. */
static bool gets_always(const void *caller)
{
    static atomic_uintptr_t asked[1024]; /* callers, with the answer in the lowest bit: to find one
                                          * out takes a while */
    atomic_uintptr_t       *slot = &asked[((uintptr_t)caller >> 1) % 1024];
    uintptr_t               known = *slot;
    Dl_info                 who;
    if (known >> 1 == (uintptr_t)caller)
        return known & 1;
    bool always = dladdr(caller, &who) && who.dli_fname
        && (strstr(who.dli_fname, "/libgfortran") || strstr(who.dli_fname, "/libopenblas"));
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
void *calloc(size_t n, size_t size)
{
    return fails(CALLER) ? NULL : counted(__libc_calloc(n, size));
}
void *memalign(size_t alignment, size_t n)
{
    return fails(CALLER) ? NULL : counted(__libc_memalign(alignment, n));
}
void *aligned_alloc(size_t alignment, size_t n)
{
    return fails(CALLER) ? NULL : counted(__libc_memalign(alignment, n));
}

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

/* ---- Preloaded ------------------------------------------------------------------------------- */

/* What COUNT_ALLOCATIONS names, as a mapping: in the program's sandbox nothing can be opened at the
 * end, and a descriptor would be closed. */
static char *told;
enum { TOLD_BYTES = 64 };

static char *map_told(const char *path)
{
    int   fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void *at = fd >= 0 && ftruncate(fd, TOLD_BYTES) == 0
        ? (void *)syscall(SYS_mmap, NULL, TOLD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return NULL;
    memset(at, ' ', TOLD_BYTES);
    return at;
}

static void tell(size_t at, const char *format)
{
    char text[TOLD_BYTES / 2];
    int  n = snprintf(text, sizeof text, format, (long)count);
    if (told && n > 0 && n < (int)sizeof text)
        memcpy(told + at, text, (size_t)n);
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_ALLOCATION"), *count_path = getenv("COUNT_ALLOCATIONS");
    char       *end = NULL;
    if (!at && !count_path)
        return;
    long n = at ? strtol(at, &end, 10) : -1;
    told = count_path ? map_told(count_path) : NULL;
    failing_malloc_arm(n, end && *end == '+');
}

__attribute__((destructor)) static void end(void) { tell(0, "%ld"); }

#if !SANITIZED

/* The first call on the way into a sandbox: how many there were until then comes second. */
int prctl(int option, ...)
{
    va_list       list;
    unsigned long more[4];
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        more[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_NO_NEW_PRIVS)
        tell(TOLD_BYTES / 2, "%ld");
    return (int)syscall(SYS_prctl, (long)option, more[0], more[1], more[2], more[3]);
}

#endif
