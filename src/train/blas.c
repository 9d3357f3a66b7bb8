#include "train/blas.h"

#include <dlfcn.h>
#include <string.h>

static void *load(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
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
    set_threads(1); /* the work is cut by whoever calls */
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
