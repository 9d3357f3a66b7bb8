/* train/blas.c: loads OpenBLAS with dlopen. Most of it is about memory: OpenBLAS maps large
 * buffers without reporting failure, so we check for room before each step that maps one. */
#include "train/train_ops.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

/* OpenBLAS maps BYTES_OF_THREAD for each thread at its first product. Newer versions (seen:
 * 0.3.29) map it for one thread when they are loaded. Without memory they retry for ever.
 * Distributions build it for 64 threads or more. The library takes 40 MB, with its dependencies
 * 45. */
enum { BYTES_OF_THREAD = 128 << 20, BYTES_OF_LIBRARY = 64 << 20, MOST_THREADS = 64 };

static bool has_room(size_t n_bytes)
{
    void *room = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, n_bytes) == 0;
}

static bool no_room(Error *err)
{
    return fail(err, SYSTEM,
                "out of memory: OpenBLAS needs %d MB of address space, more than there "
                "is (check the limit, ulimit -v)",
                (BYTES_OF_THREAD + BYTES_OF_LIBRARY) >> 20);
}

#if defined(STATIC_PROGRAM)
static void *load(Error *why)
{
    fail(why, SYSTEM, "training needs OpenBLAS, which a static program cannot load: expected the "
                      "program that make builds");
    return NULL;
}
#else
/* The library stays loaded. dlclose would run OpenBLAS's destructor under the dynamic linker's
 * lock. The destructor joins threads that may wait for the same lock (in an allocator that asks
 * which library calls it), so both would hang. */
static void *load(Error *why)
{
    const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    void     *library = dlopen("libopenblas.so.0", how | RTLD_NOLOAD);
    if (library)
        return library;
    if (!has_room(BYTES_OF_THREAD + BYTES_OF_LIBRARY)) {
        no_room(why);
        return NULL;
    }
    library = dlopen("libopenblas.so.0", how);
    if (!library)
        fail(why, SYSTEM, "training needs OpenBLAS, but libopenblas.so.0 cannot be loaded (%s); on "
                          "Debian: apt-get install libopenblas0", dlerror());
    return library ? library : dlopen("libopenblas.so", how);
}
#endif

/* ISO C cannot convert an object pointer to a function pointer. POSIX guarantees the same bits. */
static bool find(void *library, const char *name, void *function, size_t n_bytes)
{
    void *symbol = dlsym(library, name);
    if (symbol)
        memcpy(function, &symbol, n_bytes);
    return symbol != NULL;
}

bool blas_open(Blas *b, Error *err)
{
    void (*set_threads)(int)  = NULL;
    char *(*core_name)(void) = NULL;
    Error why;
    *b = (Blas){ .library = load(&why), .core = "" };
    if (!b->library)
        return fail(err, SYSTEM, "%s", why.msg);
    if (!find(b->library, "cblas_sgemm", &b->sgemm, sizeof b->sgemm)
        || !find(b->library, "openblas_set_num_threads", &set_threads, sizeof set_threads)) {
        blas_close(b);
        return fail(err, SYSTEM,
                    "libopenblas.so.0: expected cblas_sgemm and openblas_set_num_threads, found no "
                    "such function");
    }
    set_threads(1); /* callers divide the work themselves */
    if (find(b->library, "openblas_get_corename", &core_name, sizeof core_name))
        b->core = core_name();
    return true;
}

int blas_reserve(const Blas *b, int threads, Error *err)
{
    void *(*take)(int) = NULL;
    void  (*give)(void *) = NULL;
    void *taken[MOST_THREADS];
    int   n = threads < MOST_THREADS ? threads : MOST_THREADS;
    while (n > 0 && !has_room((size_t)n * BYTES_OF_THREAD))
        n--;
    if (n == 0)
        no_room(err);
    else if (find(b->library, "blas_memory_alloc", &take, sizeof take)
             && find(b->library, "blas_memory_free", &give, sizeof give)) {
        for (int i = 0; i < n; i++) /* it keeps returned buffers for later products */
            taken[i] = take(0);
        for (int i = 0; i < n; i++)
            give(taken[i]);
    }
    return n;
}

void blas_close(Blas *b)
{
    if (b->library)
        dlclose(b->library);
    *b = (Blas){ 0 };
}
