/* The limits of the machine: memory bandwidth, and the multiply rate of each instruction set. */
#include "kernels/roofline.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/progress.h"
#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

enum { READ_BLOCK = 4096 };

void machine_name(char *name, size_t size)
{
    char  line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(name, size, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(name, size, "%s", colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef uint64_t WordPair __attribute__((vector_size(16), aligned(1), may_alias));

/* Reads n bytes (a multiple of READ_BLOCK); the xor and the empty asm keep the loads. Memory is the
 * limit even with 16 bytes a load: loops with loads of 32 measured the same, for one thread and for
 * all. */
static void read_all(const char *p, size_t n, size_t ahead)
{
    WordPair a[8] = { { 0 } };
    for (const char *end = p + n; p < end; p += sizeof a) {
        for (size_t i = 0; ahead && i < sizeof a; i += 64)
            __builtin_prefetch(p + ahead + i);
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
            a[i] ^= *(const WordPair *)(p + sizeof *a * (size_t)i);
    }
    _Pragma("GCC unroll 8") for (int i = 1; i < 8; i++)
        a[0] ^= a[i];
    __asm__ volatile("" : : "r"(a[0][0] ^ a[0][1]));
}

/* The data, of which each thread takes its own contiguous share. */
typedef struct Data {
    char  *data;
    int    blocks;
    size_t ahead;
} Data;

static char *share_of(const Data *d, Team team, size_t *n)
{
    int first, end;
    threads_share(team, d->blocks, &first, &end);
    *n = (size_t)(end - first) * READ_BLOCK;
    return d->data + (size_t)first * READ_BLOCK;
}

static void touch_share(void *arg, Team team)
{
    size_t n;
    char  *p = share_of(arg, team, &n);
    memset(p, 1, n);
}

void roofline_touch(void *data, size_t n_bytes, int threads)
{
    threads_run(threads, touch_share,
                &(Data){ .data = data, .blocks = (int)(n_bytes / READ_BLOCK) });
}

static void read_share(void *arg, Team team)
{
    const Data *d = arg;
    size_t      n;
    const char *p = share_of(d, team, &n);
    read_all(p, n, d->ahead);
}

double roofline_read(const void *data, size_t n_bytes, int threads, int repeats)
{
    static const size_t ahead[] = { 0, 256, 512, 1024, 2048 };
    Data                d       = { .data = (char *)data, .blocks = (int)(n_bytes / READ_BLOCK) };
    double              best    = 0;
    for (int i = 0; i < repeats; i++)
        for (size_t j = 0; j < sizeof ahead / sizeof *ahead; j++) {
            d.ahead      = ahead[j];
            double start = clock_seconds();
            threads_run(threads, read_share, &d);
            double gb = 1e-9 * (double)d.blocks * READ_BLOCK / (clock_seconds() - start);
            best      = gb > best ? gb : best;
        }
    return best;
}

/* ---- Multiplying and adding ------------------------------------------------------------------ */

enum { STEPS = 4 << 20, CHAINS = 12 }; /* 12 chains hide a latency of 4 to 6 on two units */

/* CHAINS independent sums c = step(c, x, y). The empty asm keeps the compiler from dropping
 * steps. */
#define PEAK(name, attribute, type, in_register, set, step)            \
    attribute static void name(void)                                   \
    {                                                                  \
        type x = set(1), y = set(1), c[CHAINS];                        \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)      \
            c[i] = set(0);                                             \
        for (int n = 0; n < STEPS; n++)                                \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) { \
                __asm__ volatile("" : in_register(x));                 \
                c[i] = step(c[i], x, y);                               \
                __asm__ volatile("" : in_register(c[i]));              \
            }                                                          \
    }

#define ONE(a) (a)
#define FMA_1(c, x, y) fmaf(x, y, c)

/* A row for each instruction set that is faster than those before it. products: of one step. */
typedef struct PeakLoop {
    Isa isa;
    int products;
    void (*run)(void);
} PeakLoop;

#if defined(__x86_64__)
#define TARGET(isas) __attribute__((target(isas)))
#define FMA_8(c, x, y)   _mm256_fmadd_ps(x, y, c)
#define FMA_16(c, x, y)  _mm512_fmadd_ps(x, y, c)
#define MADD_16(c, x, y) _mm256_add_epi32(c, _mm256_madd_epi16(x, y))
#define MADD_32(c, x, y) _mm512_add_epi32(c, _mm512_madd_epi16(x, y))
PEAK(f32_scalar, , float, "+x", ONE, FMA_1)
PEAK(f32_avx2, TARGET("avx2,fma"), __m256, "+x", _mm256_set1_ps, FMA_8)
PEAK(f32_avx512, TARGET("avx512f"), __m512, "+v", _mm512_set1_ps, FMA_16)
/* asm: a compiler may lack the type of the intrinsic */
TARGET("avx512f")
static inline __m512 pairs_16(__m512 c, __m512 x, __m512 y)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(x), "v"(y));
    return c;
}
PEAK(bf16_avx512bf16, TARGET("avx512f"), __m512, "+v", _mm512_set1_ps, pairs_16)
PEAK(int16_avx2, TARGET("avx2"), __m256i, "+x", _mm256_set1_epi32, MADD_16)
PEAK(int16_avxvnni, TARGET("avxvnni"), __m256i, "+x", _mm256_set1_epi32, _mm256_dpwssd_avx_epi32)
PEAK(int8_avxvnni, TARGET("avxvnni"), __m256i, "+x", _mm256_set1_epi32, _mm256_dpbusd_avx_epi32)
PEAK(int16_avx512, TARGET("avx512bw"), __m512i, "+v", _mm512_set1_epi32, MADD_32)
PEAK(int16_avx512vnni, TARGET("avx512vnni"), __m512i, "+v", _mm512_set1_epi32, _mm512_dpwssd_epi32)
PEAK(int8_avx512vnni, TARGET("avx512vnni"), __m512i, "+v", _mm512_set1_epi32, _mm512_dpbusd_epi32)
static const PeakLoop f32_peaks[] = { { ISA_SCALAR, 1, f32_scalar },
                                      { ISA_AVX2, 8, f32_avx2 },
                                      { ISA_AVX512, 16, f32_avx512 } };
static const PeakLoop bf16_peaks[] = { { ISA_SCALAR, 1, f32_scalar },
                                       { ISA_AVX2, 8, f32_avx2 },
                                       { ISA_AVX512, 16, f32_avx512 },
                                       { ISA_AVX512BF16, 32, bf16_avx512bf16 } };
static const PeakLoop int16_peaks[] = {
    { ISA_SCALAR, 0, NULL },
    { ISA_AVX2, 16, int16_avx2 },
    { ISA_AVXVNNI, 16, int16_avxvnni },
    { ISA_AVX512, 32, int16_avx512 },
    { ISA_AVX512VNNI, 32, int16_avx512vnni },
};
static const PeakLoop int8_peaks[] = {
    { ISA_SCALAR, 0, NULL },
    { ISA_AVX2, 16, int16_avx2 }, /* without VNNI, bytes are widened to 16 bits */
    { ISA_AVXVNNI, 32, int8_avxvnni },
    { ISA_AVX512, 32, int16_avx512 },
    { ISA_AVX512VNNI, 64, int8_avx512vnni },
};
#else
#define FMA_4(c, x, y) vfmaq_f32(c, x, y)
PEAK(f32_scalar, , float, "+w", ONE, FMA_1)
PEAK(f32_neon, , float32x4_t, "+w", vdupq_n_f32, FMA_4)
static const PeakLoop f32_peaks[] = { { ISA_SCALAR, 1, f32_scalar }, { ISA_NEON, 4, f32_neon } };
static const PeakLoop bf16_peaks[] = { { ISA_SCALAR, 1, f32_scalar }, { ISA_NEON, 4, f32_neon } };
static const PeakLoop int16_peaks[] = { { ISA_SCALAR, 0, NULL } },
                      int8_peaks[] = { { ISA_SCALAR, 0, NULL } };
#endif

typedef struct Multiplying {
    void (*run)(void);
    int n_threads;
} Multiplying;

static void multiply(void *arg, Team team)
{
    Multiplying *m = arg;
    m->run();
    if (team.thread == 0)
        m->n_threads = team.n_threads;
}

/* Best of several runs: 10^9 chain steps a second of all threads together. */
static double best_rate(void (*run)(void), int threads)
{
    Multiplying m    = { .run = run };
    double      best = 0, begin = clock_seconds();
    for (int n = 0; n < 30 && (n < 3 || clock_seconds() - begin < 0.25); n++) {
        double start = clock_seconds();
        threads_run(threads, multiply, &m);
        double rate = 1e-9 * STEPS * CHAINS * m.n_threads / (clock_seconds() - start);
        best        = rate > best ? rate : best;
    }
    return best;
}

double roofline_peak(Isa isa, PeakOf of, int threads)
{
    const PeakLoop *best = of == PEAK_F32   ? CPU_CHOOSE(f32_peaks, isa)
                         : of == PEAK_BF16  ? CPU_CHOOSE(bf16_peaks, isa)
                         : of == PEAK_INT16 ? CPU_CHOOSE(int16_peaks, isa)
                                            : CPU_CHOOSE(int8_peaks, isa);
    return best->run ? 2 * best->products * best_rate(best->run, threads) : 0;
}
