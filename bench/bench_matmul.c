/* bench_matmul: the matrices of llama-3.2-1b, as the forward pass multiplies them, compared with
 * the machine's limits. Decode (1 .. 4 tokens) reads the weights once and waits for memory;
 * prefill (512 tokens) waits for the multipliers.
 *   bench_matmul [--isa NAME] [--threads N] [--type f32|f16|bf16|q8|q4|q8_0|...]
 *                [--math f32|bf16] [--bits 8|16] [--repeats N]
 * The weights are those of 4 layers and the output head, 1 GB in bf16: more than any cache
 * holds. It multiplies bf16 in both modes of arithmetic, and quantized weights with integers of
 * 8 and of 16 bits. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "kernels/kernels.h"
#include "kernels/roofline.h"
#include "timing.h"

enum {
    D_MODEL = 2048,
    D_FF = 8192,
    KV_DIM = 512,
    VOCAB = 128256,
    N_LAYERS = 4,
    MAX_TOK = 512,
    MAX_REPEATS = 99
};

/* The matrices of a layer. wait: the team waits for all members after it, as in the forward
 * pass. */
static const struct {
    int  rows, k;
    bool wait;
} shape[] = {
    { D_MODEL, D_MODEL, false }, { KV_DIM, D_MODEL, false }, { KV_DIM, D_MODEL, true },
    { D_MODEL, D_MODEL, true },
    { D_FF, D_MODEL, false },    { D_FF, D_MODEL, true },    { D_MODEL, D_FF, true },
};
enum { N_SHAPES = sizeof shape / sizeof *shape };

typedef struct Bench {
    const Kernels *kernels;
    WeightType     type;
    char          *w;
    size_t         layer_bytes, head_bytes;
    float         *x, *y;
    int16_t       *q;            /* x as integers, scales in d */
    float         *d;
    Integers       ints;
    char          *scratch;
    int            threads, n_tok;
    ThreadPool    *pool;
    bool           head, math_bf16;
} Bench;

static void *memory(size_t n)
{
    void *p;
    if (posix_memalign(&p, 4096, n) != 0) {
        fprintf(stderr, "bench_matmul: no memory for %zu bytes\n", n);
        exit(4);
    }
    return p;
}

static size_t bytes_of(WeightType type, int rows, int k)
{
    size_t n = 0;
    (void)matrix_bytes(type, rows, k, &n);
    return n;
}

/* Floats of about 2^-7 in every float type. Quantized types get any bits, but no NaN as a scale. */
static void fill_share(void *arg, Team team)
{
    Bench   *b = arg;
    size_t n = (b->layer_bytes * N_LAYERS + b->head_bytes) / 2, share = n / (size_t)team.n_threads;
    uint16_t *h = (uint16_t *)(void *)b->w + share * (size_t)team.thread;
    uint32_t  s = 1 + (uint32_t)team.thread,
              base = b->type == WT_BF16 || b->type == WT_F32 ? 0x3c00 : 0x2000;
    uint32_t  mask = weight_type_quantized(b->type) ? 0x1fff : 0x7f;
    if (team.thread == team.n_threads - 1)
        share = n - share * (size_t)team.thread;
    for (size_t i = 0; i < share; i++) {
        s    = s * 1664525u + 1013904223u;
        h[i] = (uint16_t)(base | (s >> 16 & mask) | (s & 0x8000));
    }
}

/* The parts of a matrix lie one after another. */
static Panels parts_of(WeightType type, const char *w, int rows, int k)
{
    Panels p = { { NULL } };
    for (int i = 0; i < part_count(type); i++) {
        p.part[i] = w;
        w += part_bytes(type, i, k) * (size_t)panel_count(rows);
    }
    return p;
}

/* Multiplies this member's panels of one matrix. Returns where the next matrix begins. */
static const char *multiply(const Bench *b, Team team, const char *w, int rows, int k)
{
    int first, end;
    threads_share(team, panel_count(rows), &first, &end);
    Panels panels  = panels_from(b->type, parts_of(b->type, w, rows, k), first, k);
    float *y       = b->y + (size_t)first * 16;
    void  *scratch = b->scratch + (size_t)team.thread * KERNEL_SCRATCH;
    size_t stride  = (size_t)panel_count(rows) * 16;
    if (b->ints) {
        IntMatmulArgs a = { y, stride, b->q,
                            (size_t)k, b->d,     (size_t)(k / int_each(b->ints)),
                            b->ints,   panels,   end - first,
                            k,         b->n_tok, NULL,
                            scratch };
        b->kernels->matmul_int[b->type](&a);
    } else {
        MatmulArgs a = {
            y, stride, b->x, (size_t)k, panels, end - first, k, b->n_tok, NULL, scratch
        };
        (b->math_bf16 ? b->kernels->matmul_bf16 : b->kernels->matmul[b->type])(&a);
    }
    return w + bytes_of(b->type, rows, k);
}

static void step(void *arg, Team team)
{
    const Bench *b = arg;
    const char  *w = b->w;
    for (int l = 0; l < N_LAYERS; l++)
        for (int i = 0; i < N_SHAPES; i++) {
            w = multiply(b, team, w, shape[i].rows, shape[i].k);
            if (shape[i].wait)
                threads_barrier(team);
        }
    if (b->head)
        multiply(b, team, w, VOCAB, D_MODEL);
}

static double timed_step(Bench *b, int n_tok, bool head)
{
    b->n_tok = n_tok, b->head = head;
    double start = clock_seconds();
    threads_pool_run(b->pool, b->threads, step, b);
    return clock_seconds() - start;
}

/* "bf16", "bf16 x bf16" (--math bf16), "q8 x 16 bits", "q8 x 8 bits by 32" */
static const char *label(const Bench *b)
{
    static char text[32];
    snprintf(text, sizeof text,
             b->ints == INT8_BY_32 ? "%s x %d bits by 32"
                 : b->ints         ? "%s x %d bits"
                 : b->math_bf16    ? "%s x bf16"
                                   : "%s",
             weight_type_name(b->type), int_bits(b->ints));
    return text;
}

/* Alternates reading and decoding, because the bandwidth of a shared machine changes over time. */
static void decode(Bench *b, size_t n, int repeats)
{
    double s[5][MAX_REPEATS], read = 0;
    for (int i = -1; i < repeats; i++) { /* the first round is not counted */
        double gb = roofline_read(b->w, n, b->threads, 1);
        read      = gb > read ? gb : read;
        for (int t = 1; t <= 4; t++)
            s[t][i < 0 ? 0 : i] = timed_step(b, t, true);
    }
    printf("read: %.1f GB/s (best of %d rounds over %.2f GB)\n", read, repeats + 1,
           1e-9 * (double)n);
    for (int t = 1; t <= 4; t++) {
        double gb = 1e-9 * (double)n / median(s[t], repeats);
        printf("decode %-12s %d token%s: %6.1f GB/s, %5.1f%% of read bandwidth\n", label(b), t,
               t > 1 ? "s" : " ", gb, 100 * gb / read);
    }
}

/* peak: of the multipliers that the type uses, in 10^9 operations a second. */
static void prefill(Bench *b, int n_tok, int repeats, double peak)
{
    double s[MAX_REPEATS], products = 0;
    for (int i = 0; i < N_SHAPES; i++)
        products += (double)shape[i].rows * shape[i].k;
    for (int i = -1; i < repeats; i++)
        s[i < 0 ? 0 : i] = timed_step(b, n_tok, false);
    double rate = 2e-9 * products * N_LAYERS * n_tok / median(s, repeats);
    printf("prefill %-12s %3d tokens: %6.1f %s/s, %5.1f%% of the peak\n", label(b), n_tok, rate,
           b->ints ? "GOP" : "GFLOP", 100 * rate / peak);
}

static double peak_of(const Bench *b)
{
    PeakOf of = b->ints == INT16 ? PEAK_INT16
                : b->ints        ? PEAK_INT8
                : b->math_bf16   ? PEAK_BF16
                                 : PEAK_F32;
    return roofline_peak(b->kernels->id, of, b->threads);
}

/* n: the bytes of the weights. */
static void measure(Bench *b, size_t n, int repeats)
{
    static const int n_tok[] = { 8, 16, 64, MAX_TOK };
    double           peak    = peak_of(b);
    printf("peak: %.1f %s/s\n", peak, b->ints ? "GOP" : "GFLOP");
    decode(b, n, repeats);
    for (int i = 0; i < 4; i++)
        prefill(b, n_tok[i], repeats, peak);
    fflush(stdout);
}

/* Is this an arithmetic of the type? */
static bool multiplies(WeightType type, Integers ints)
{
    return !weight_type_quantized(type) ? ints == INT_NONE
        : weight_type_gguf(type)        ? ints == INT8
        : ints == INT8_BY_32            ? type == WT_Q8
                                        : ints != INT_NONE;
}

/* math: one of the two modes of bf16 weights, or NULL for both. */
static void run_type(Bench *b, WeightType type, int only_bits, const char *math, int repeats)
{
    b->type = type, b->layer_bytes = 0, b->head_bytes = bytes_of(type, VOCAB, D_MODEL);
    for (int i = 0; i < N_SHAPES; i++)
        b->layer_bytes += bytes_of(type, shape[i].rows, shape[i].k);
    size_t n = b->layer_bytes * N_LAYERS + b->head_bytes;
    b->w     = memory(n);
    threads_run(b->threads, fill_share, b);
    for (int i = INT_NONE; i <= INT16; i++) {
        b->ints = (Integers)i;
        if (!multiplies(type, b->ints) || (only_bits && i && only_bits != int_bits(b->ints)))
            continue;
        int blocks = D_FF / int_each(b->ints);
        for (int t = 0; i && t < MAX_TOK; t++) /* shorter rows use the same integers */
            b->kernels->quantize(b->q + (size_t)t * D_FF, b->d + (size_t)t * (size_t)blocks,
                                 b->x + (size_t)t * D_FF, D_FF, b->ints);
        if (!math || type != WT_BF16 || strcmp(math, "f32") == 0)
            measure(b, n, repeats);
        b->math_bf16 = type == WT_BF16 && (!math || strcmp(math, "bf16") == 0);
        if (b->math_bf16)
            measure(b, n, repeats);
        b->math_bf16 = false;
    }
    free(b->w);
}

int main(int argc, char **argv)
{
    Error       err;
    const char *isa = NULL, *type = NULL, *math = NULL;
    int         threads = threads_default(), repeats = 5, bits = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--isa") == 0)
            isa = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--type") == 0)
            type = argv[i + 1];
        else if (strcmp(argv[i], "--repeats") == 0)
            repeats = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--math") == 0)
            math = argv[i + 1];
        else if (strcmp(argv[i], "--bits") == 0)
            bits = atoi(argv[i + 1]);
    }
    WeightType only = WT_COUNT;
    Bench      b    = { .kernels = kernels_select(isa, &err),
                        .threads = threads,
                        .pool = threads_pool_new(threads, false) };
    if (!b.kernels || threads < 1 || repeats < 1 || repeats > MAX_REPEATS
        || (type && !weight_type_parse(type, &only))
        || (math && strcmp(math, "f32") != 0 && strcmp(math, "bf16") != 0)) {
        fprintf(stderr, "bench_matmul: %s\n",
                b.kernels
                    ? "--threads N, --repeats 1 to 99, --type f32, f16, bf16 or " QUANTIZED_TYPES
                      ", --math f32 or bf16"
                    : err.msg);
        return 2;
    }
    char name[128];
    machine_name(name, sizeof name);
    printf("%s, %s, %d threads, medians of %d\n", name, b.kernels->isa, threads, repeats);
    b.x       = memory((size_t)MAX_TOK * D_FF * sizeof *b.x);
    b.y       = memory((size_t)4 * VOCAB * sizeof *b.y + (size_t)MAX_TOK * D_FF * sizeof *b.y);
    b.q       = memory((size_t)MAX_TOK * D_FF * sizeof *b.q);
    b.d       = memory((size_t)MAX_TOK * (D_FF / 32) * sizeof *b.d);
    b.scratch = memory((size_t)threads * KERNEL_SCRATCH);
    for (size_t i = 0; i < (size_t)MAX_TOK * D_FF; i++)
        b.x[i] = (float)(i % 17) * 0.125f - 1.0f;
    for (int t = 0; t < WT_COUNT; t++)
        if (!type || t == (int)only)
            run_type(&b, (WeightType)t, bits, math, repeats);
    free(b.x), free(b.y), free(b.q), free(b.d), free(b.scratch), threads_pool_free(b.pool);
    return 0;
}
