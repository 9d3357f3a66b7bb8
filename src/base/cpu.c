#include "base/cpu.h"

#include <pthread.h>
#include <string.h>


#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif

#define ISA_NAME(id, name) #name,
static const char *const names[ISA_COUNT] = { ISA_LIST(ISA_NAME) };

static bool           cpu_has[ISA_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
/* __builtin_cpu_supports also asks the operating system (XGETBV). It has no name for F16C, which
 * shares its registers with AVX, and in older compilers none for AVX-VNNI and BF16 (leaf 7.1). */
static void ask_processor(void)
{
    unsigned a, b, c, d;
    bool     f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d))
        a = 0;
    cpu_has[ISA_SCALAR]  = true;
    cpu_has[ISA_AVX2]    = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
    cpu_has[ISA_AVXVNNI] = cpu_has[ISA_AVX2] && (a & 1u << 4) != 0;
    cpu_has[ISA_AVX512]  = cpu_has[ISA_AVX2] && __builtin_cpu_supports("avx512f")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512dq");
    cpu_has[ISA_AVX512VNNI] = cpu_has[ISA_AVX512] && __builtin_cpu_supports("avx512vnni");
    cpu_has[ISA_AVX512BF16] = cpu_has[ISA_AVX512VNNI] && (a & 1u << 5) != 0;
}
#else
static void ask_processor(void)
{
    cpu_has[ISA_SCALAR] = cpu_has[ISA_NEON] = true;
    cpu_has[ISA_NEONDOT] = (getauxval(AT_HWCAP) & 1 << 20) != 0; /* HWCAP_ASIMDDP */
}
#endif

const char *isa_name(Isa isa) { return names[isa]; }

bool cpu_runs(Isa isa)
{
    pthread_once(&once, ask_processor);
    return cpu_has[isa];
}

const void *cpu_choose(const void *rows, size_t n, size_t size, Isa most)
{
    const char *best = rows;
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * size;
        Isa         isa;
        memcpy(&isa, row, sizeof isa);
        best = isa <= most && cpu_runs(isa) ? row : best;
    }
    return best;
}
