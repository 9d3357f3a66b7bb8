/* base/cpu.c: which instruction sets this processor runs. Nothing else detects them. */
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
/* Which registers the operating system saves for each thread (XGETBV): bits 1 and 2 are those of
 * AVX, 5 to 7 those of AVX-512. */
static unsigned kept_registers(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool all_of(unsigned bits, unsigned of) { return (bits & of) == of; }

/* Not with __builtin_cpu_supports: zig's run-time library always returns 0, and older compilers
 * have no names for AVX-VNNI and BF16. */
static void ask_processor(void)
{
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned       a, b, c, d, one_c = 0, seven_a = 0;
    if (__get_cpuid(1, &a, &b, &c, &d))
        one_c = c;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
        seven_a = a;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        b = c = 0;
    const unsigned kept = one_c & bit_OSXSAVE ? kept_registers() : 0;
    cpu_has[ISA_SCALAR]     = true;
    cpu_has[ISA_AVX2]       = all_of(kept, 0x06) && all_of(one_c, bit_AVX | bit_FMA | bit_F16C)
        && (b & bit_AVX2) != 0;
    cpu_has[ISA_AVXVNNI]    = cpu_has[ISA_AVX2] && (seven_a & 1u << 4) != 0;
    cpu_has[ISA_AVX512]     = cpu_has[ISA_AVX2] && all_of(kept, 0xe6) && all_of(b, avx512);
    cpu_has[ISA_AVX512VNNI] = cpu_has[ISA_AVX512] && (c & bit_AVX512VNNI) != 0;
    cpu_has[ISA_AVX512BF16] = cpu_has[ISA_AVX512VNNI] && (seven_a & 1u << 5) != 0;
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
