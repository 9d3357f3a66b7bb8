#include "measure/roofline.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

enum { READ_BLOCK = 4096, MAX_THREADS = 1024 };

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

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Reads n bytes (a multiple of READ_BLOCK), 256 at a time; the xor keeps the loads alive. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const char *p, size_t n, size_t ahead)
{
    __m256i a[8] = { _mm256_setzero_si256() };
    for (const char *end = p + n; p < end; p += 256) {
        if (ahead)
            for (size_t i = 0; i < 256; i += 64)
                _mm_prefetch(p + ahead + i, _MM_HINT_T0);
        for (int i = 0; i < 8; i++)
            a[i] = _mm256_xor_si256(a[i], _mm256_loadu_si256((const void *)(p + 32 * i)));
    }
    for (int i = 1; i < 8; i++)
        a[0] = _mm256_xor_si256(a[0], a[i]);
    return (uint64_t)_mm256_extract_epi64(a[0], 0) ^ (uint64_t)_mm256_extract_epi64(a[0], 2);
}
#endif

static uint64_t read_plain(const char *p, size_t n, size_t ahead)
{
    uint64_t a[8] = { 0 };
    for (const char *end = p + n; p < end; p += 64) {
        uint64_t w[8];
        if (ahead)
            __builtin_prefetch(p + ahead);
        memcpy(w, p, sizeof w);
        for (int i = 0; i < 8; i++)
            a[i] ^= w[i];
    }
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

typedef struct Reading {
    const char *data;
    int         blocks;
    size_t      ahead;
    uint64_t    sum[MAX_THREADS];
} Reading;

static void read_share(void *arg, Team team)
{
    Reading *r = arg;
    int      first, end;
    threads_share(team, r->blocks, &first, &end);
    const char *p = r->data + (size_t)first * READ_BLOCK;
    size_t      n = (size_t)(end - first) * READ_BLOCK;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        r->sum[team.thread] = read_avx2(p, n, r->ahead);
        return;
    }
#endif
    r->sum[team.thread] = read_plain(p, n, r->ahead);
}

typedef struct Touching { char *data; int blocks; } Touching;

static void touch_share(void *arg, Team team)
{
    Touching *t = arg;
    int       first, end;
    threads_share(team, t->blocks, &first, &end);
    memset(t->data + (size_t)first * READ_BLOCK, 1, (size_t)(end - first) * READ_BLOCK);
}

void roofline_touch(void *data, size_t n_bytes, int threads)
{
    Touching t = { data, (int)(n_bytes / READ_BLOCK) };
    threads_run(threads < MAX_THREADS ? threads : MAX_THREADS, touch_share, &t);
}

double roofline_read(const void *data, size_t n_bytes, int threads, int repeats, int *ahead)
{
    static const size_t distance[] = { 0, 256, 512, 1024, 2048 };
    Reading             r;
    double              best = 0;
    r.data   = data;
    r.blocks = (int)(n_bytes / READ_BLOCK);
    for (int i = 0; i < repeats; i++)
        for (int d = 0; d < (int)(sizeof distance / sizeof *distance); d++) {
            r.ahead      = distance[d];
            double start = clock_seconds();
            threads_run(threads < MAX_THREADS ? threads : MAX_THREADS, read_share, &r);
            double gb = 1e-9 * (double)r.blocks * READ_BLOCK / (clock_seconds() - start);
            if (gb > best) {
                best = gb;
                if (ahead)
                    *ahead = (int)distance[d];
            }
        }
    return best;
}

/* ---- Multiplying and adding -------------------------------------------------------------------------------------- */

enum { FMA_STEPS = 4 << 20, CHAINS = 12 }; /* 12 chains hide a latency of 4 to 6 on two units */

/* CHAINS chains of steps, `each` lanes a register; returns a number that depends on all of them. */
#define FMA_LOOP(type, set, fma)                                       \
    type x = set(1.0f), y = set(0x1p-24f), c[CHAINS];                  \
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) c[i] = set((float)i); \
    for (int n = 0; n < FMA_STEPS; n++) {                              \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {    \
            c[i] = fma(c[i], x, y);                                    \
            __asm__ volatile("" : FMA_REGISTER(c[i]));                 \
        }                                                              \
    }                                                                  \
    type s = c[0];                                                     \
    _Pragma("GCC unroll 12") for (int i = 1; i < CHAINS; i++)          \
        s = fma(s, x, c[i])

#if defined(__x86_64__)
#define FMA_REGISTER(r) "+v"(r)
#define FMA_512(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_256(a, b, c) _mm256_fmadd_ps(a, b, c)
__attribute__((target("avx512f"))) static float fma_avx512(void)
{
    FMA_LOOP(__m512, _mm512_set1_ps, FMA_512);
    return _mm512_cvtss_f32(s);
}
__attribute__((target("avx2,fma"))) static float fma_avx2(void)
{
    FMA_LOOP(__m256, _mm256_set1_ps, FMA_256);
    return _mm256_cvtss_f32(s);
}
#else
#define FMA_REGISTER(r) "+w"(r)
#define FMA_128(a, b, c) vfmaq_f32(c, a, b)
static float fma_neon(void)
{
    FMA_LOOP(float32x4_t, vdupq_n_f32, FMA_128);
    return vgetq_lane_f32(s, 0);
}
#endif
#define FMA_NUMBER(a) (a)
#if defined(__x86_64__)
#undef FMA_REGISTER
#define FMA_REGISTER(r) "+x"(r)
#endif
static float fma_scalar(void)
{
    FMA_LOOP(float, FMA_NUMBER, fmaf);
    return s;
}

static const struct {
    const char *isa;
    int         lanes;
    float (*run)(void);
} fmas[] = {
    { "scalar", 1, fma_scalar },
#if defined(__x86_64__)
    { "avx2", 8, fma_avx2 },
    { "avxvnni", 8, fma_avx2 },
    { "avx512", 16, fma_avx512 },
    { "avx512vnni", 16, fma_avx512 },
#else
    { "neon", 4, fma_neon },
    { "neondot", 4, fma_neon },
#endif
};

/* ---- Integer dot products ---------------------------------------------------------------------------------------- */

/* CHAINS chains of dot(c, x, y), as FMA_LOOP. */
#define DOT_LOOP(type, set, add, dot)                                  \
    type x = set(3), y = set(5), c[CHAINS];                            \
    _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) c[i] = set(i); \
    for (int n = 0; n < FMA_STEPS; n++) {                              \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {    \
            __asm__ volatile("" : DOT_REGISTER(x)); /* or one product would do for all chains */ \
            c[i] = dot(c[i], x, y);                                    \
            __asm__ volatile("" : DOT_REGISTER(c[i]));                 \
        }                                                              \
    }                                                                  \
    type s = c[0];                                                     \
    _Pragma("GCC unroll 12") for (int i = 1; i < CHAINS; i++)          \
        s = add(s, c[i])

#if defined(__x86_64__)
#define DOT_REGISTER(r) "+v"(r)
#define MADD_512(c, x, y) _mm512_add_epi32(c, _mm512_madd_epi16(x, y))
#define MADD_256(c, x, y) _mm256_add_epi32(c, _mm256_madd_epi16(x, y))
#define LOW_512(a)        (float)_mm_cvtsi128_si32(_mm512_castsi512_si128(a))
#define LOW_256(a)        (float)_mm_cvtsi128_si32(_mm256_castsi256_si128(a))
#define DOT(name, isas, type, set, add, dot, low)                      \
    __attribute__((target(isas))) static float name(void)              \
    {                                                                  \
        DOT_LOOP(type, set, add, dot);                                 \
        return low(s);                                                 \
    }
DOT(dot8_avx512vnni, "avx512vnni", __m512i, _mm512_set1_epi32, _mm512_add_epi32, _mm512_dpbusd_epi32, LOW_512)
DOT(dot16_avx512vnni, "avx512vnni", __m512i, _mm512_set1_epi32, _mm512_add_epi32, _mm512_dpwssd_epi32, LOW_512)
DOT(dot16_avx512, "avx512bw", __m512i, _mm512_set1_epi32, _mm512_add_epi32, MADD_512, LOW_512)
#undef DOT_REGISTER
#define DOT_REGISTER(r) "+x"(r)
DOT(dot8_avxvnni, "avxvnni", __m256i, _mm256_set1_epi32, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, LOW_256)
DOT(dot16_avxvnni, "avxvnni", __m256i, _mm256_set1_epi32, _mm256_add_epi32, _mm256_dpwssd_avx_epi32, LOW_256)
DOT(dot16_avx2, "avx2", __m256i, _mm256_set1_epi32, _mm256_add_epi32, MADD_256, LOW_256)
#endif

/* products: of one instruction (or pair) */
static const struct {
    const char *isa;
    int         bits, products;
    float (*run)(void);
} dots[] = {
#if defined(__x86_64__)
    { "avx2", 8, 16, dot16_avx2 }, /* bytes are widened to 16 bits there */
    { "avx2", 16, 16, dot16_avx2 },
    { "avxvnni", 8, 32, dot8_avxvnni },
    { "avxvnni", 16, 16, dot16_avxvnni },
    { "avx512", 8, 32, dot16_avx512 },
    { "avx512", 16, 32, dot16_avx512 },
    { "avx512vnni", 8, 64, dot8_avx512vnni },
    { "avx512vnni", 16, 32, dot16_avx512vnni },
#endif
    { "", 0, 0, NULL },
};

/* ---- Running them on all threads --------------------------------------------------------------------------------- */

typedef struct Multiplying {
    float (*run)(void);
    float result[MAX_THREADS];
    int   n_threads;
} Multiplying;

static void fma_share(void *arg, Team team)
{
    Multiplying *m         = arg;
    m->result[team.thread] = m->run();
    if (team.thread == 0)
        m->n_threads = team.n_threads;
}

/* Best of several runs: 10^9 chain steps a second of all threads together. */
static double best_rate(float (*run)(void), int threads)
{
    Multiplying m     = { .run = run };
    double      best  = 0, begin = clock_seconds();
    for (int n = 0; n < 30 && (n < 3 || clock_seconds() - begin < 0.25); n++) {
        double start = clock_seconds();
        threads_run(threads < MAX_THREADS ? threads : MAX_THREADS, fma_share, &m);
        double rate = 1e-9 * FMA_STEPS * CHAINS * m.n_threads / (clock_seconds() - start);
        best         = rate > best ? rate : best;
    }
    return best;
}

double roofline_fma(const char *isa, int threads)
{
    for (int i = 0; i < (int)(sizeof fmas / sizeof *fmas); i++)
        if (strcmp(isa, fmas[i].isa) == 0)
            return 2 * fmas[i].lanes * best_rate(fmas[i].run, threads);
    return 0;
}

double roofline_dot(const char *isa, int bits, int threads)
{
    for (int i = 0; dots[i].run; i++)
        if (strcmp(isa, dots[i].isa) == 0 && bits == dots[i].bits)
            return 2 * dots[i].products * best_rate(dots[i].run, threads);
    return 0;
}
