#include "train/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS chooses its kernels while it is loaded. Those before 0.3.22 know no AMD processor with AVX-512 and take kernels of
 * half the speed there (measured with 0.3.21 on Zen 5, [512, 192] x [192, 192]: Haswell 118, SkylakeX 223 GFLOP/s on one
 * core); the later ones take what we name. */
static const char *better_core(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
#endif
    return NULL;
}

/* Set a variable unless the user has; *set: it has to be removed again. */
static void offer(const char *name, const char *value, bool *set)
{
    *set = value && !getenv(name) && setenv(name, value, 1) == 0;
}

/* Threads of its own would only be made to be asleep: the work is cut by whoever calls. */
static void *load(void)
{
    static const char *const names[] = { "libopenblas.so.0", "libopenblas.so" };
    bool  core, threads;
    void *library = NULL;
    offer("OPENBLAS_CORETYPE", better_core(), &core);
    offer("OPENBLAS_NUM_THREADS", "1", &threads);
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (core)
        unsetenv("OPENBLAS_CORETYPE");
    if (threads)
        unsetenv("OPENBLAS_NUM_THREADS");
    return library;
}

/* ISO C has no conversion from an object pointer to a function pointer; POSIX guarantees that the bits are the same. */
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
    *b = (Blas){ .library = load(), .core = "" };
    if (!b->library)
        return fail(err, SYSTEM, "training multiplies matrices with OpenBLAS, and libopenblas.so.0 cannot be loaded (%s); on Debian: "
                    "apt-get install libopenblas0", dlerror());
    if (!find(b->library, "cblas_sgemm", &b->sgemm, sizeof b->sgemm)
        || !find(b->library, "openblas_set_num_threads", &set_threads, sizeof set_threads)) {
        blas_close(b);
        return fail(err, SYSTEM, "libopenblas.so.0: expected cblas_sgemm and openblas_set_num_threads, found no such function");
    }
    set_threads(1);
    if (find(b->library, "openblas_get_corename", &core_name, sizeof core_name))
        b->core = core_name();
    return true;
}

void blas_close(Blas *b)
{
    if (b->library)
        dlclose(b->library);
    *b = (Blas){ 0 };
}
