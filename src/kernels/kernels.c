#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports asks the operating system too (XGETBV), which F16C then shares with AVX. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static bool has_avx512vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

/* Leaf 7.1, which older compilers have no name for. */
static bool has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

enum { HAS_ASIMDDP = 1 << 20 }; /* of AT_HWCAP */
static bool has_dotprod(void) { return (getauxval(AT_HWCAP) & HAS_ASIMDDP) != 0; }
#else
#error "x86-64 or aarch64"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "little-endian only: model files are mapped as they are"
#endif

static bool always(void) { return true; }

/* What this build holds, weakest first. Each table starts as a copy of the one before. */
static const struct {
    const char *name;
    bool (*has)(void);
    void (*fill)(Kernels *k);
} isas[] = {
    { "scalar", always, kernels_fill_scalar },
#if defined(__x86_64__)
    { "avx2", has_avx2, kernels_fill_avx2 },
    { "avxvnni", has_avxvnni, kernels_fill_avxvnni },
    { "avx512", has_avx512, kernels_fill_avx512 },
    { "avx512vnni", has_avx512vnni, kernels_fill_avx512vnni },
#else
    { "neon", always, kernels_fill_neon },
    { "neondot", has_dotprod, kernels_fill_neondot },
#endif
};
enum { N_ISAS = sizeof isas / sizeof *isas };

static Kernels        tables[N_ISAS]; /* those that run here, weakest first */
static int            n_tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (int i = 0; i < N_ISAS; i++) {
        if (!isas[i].has())
            continue;
        if (n_tables > 0)
            tables[n_tables] = tables[n_tables - 1];
        isas[i].fill(&tables[n_tables++]);
    }
}

const Kernels *kernels_table(int i)
{
    pthread_once(&once, fill_tables);
    return i >= 0 && i < n_tables ? &tables[i] : NULL;
}

const Kernels *kernels_select(const char *isa, Error *err)
{
    const Kernels *k, *best = NULL;
    char           works[64] = "auto";
    for (int i = 0; (k = kernels_table(i)) != NULL; i++) {
        if (isa && strcmp(isa, k->isa) == 0)
            return k;
        size_t n = strlen(works);
        snprintf(works + n, sizeof works - n, ", %s", k->isa);
        best = k;
    }
    if (!isa || strcmp(isa, "auto") == 0)
        return best;
    fail(err, USAGE, "isa: expected one that this processor and this build support (%s), found '%s'", works, isa);
    return NULL;
}
