/* bench_matmul: the matrices of the llama-3.2-1b shape, as the forward pass multiplies them, against the machine's limits.
 * Decode (1 .. 4 tokens) reads the weights once and waits for memory; prefill (512 tokens) waits for the multipliers.
 *   bench_matmul [--isa NAME] [--threads N] [--type f32|f16|bf16] [--repeats N]
 * Weights are those of 4 layers and the output head, 1 GB in bf16: more than any cache. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "kernels/kernels.h"
#include "roofline.h"

enum { D_MODEL = 2048, D_FF = 8192, KV_DIM = 512, VOCAB = 128256, N_LAYERS = 4, MAX_TOK = 512, MAX_REPEATS = 99 };

/* The matrices of a layer, and after which the team waits for everyone (as the forward pass must). */
static const struct {
    int  rows, k;
    bool wait;
} shape[] = {
    { D_MODEL, D_MODEL, false }, { KV_DIM, D_MODEL, false }, { KV_DIM, D_MODEL, true }, { D_MODEL, D_MODEL, true },
    { D_FF, D_MODEL, false },    { D_FF, D_MODEL, true },    { D_MODEL, D_FF, true },
};
enum { N_SHAPES = sizeof shape / sizeof *shape };

typedef struct Bench {
    const Kernels *kernels;
    WeightType     type;
    char          *w;
    size_t         layer_bytes, head_bytes;
    float         *x, *y;
    char          *scratch;
    int            threads, n_tok;
    ThreadPool    *pool;
    bool           head;
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

/* Numbers of about 2^-7 in every type. */
static void fill_share(void *arg, Team team)
{
    Bench   *b = arg;
    size_t   n = (b->layer_bytes * N_LAYERS + b->head_bytes) / 2, share = n / (size_t)team.n_threads;
    uint16_t *h = (uint16_t *)(void *)b->w + share * (size_t)team.thread;
    uint32_t  s = 1 + (uint32_t)team.thread, base = b->type == WT_F16 ? 0x2000 : 0x3c00;
    if (team.thread == team.n_threads - 1)
        share = n - share * (size_t)team.thread;
    for (size_t i = 0; i < share; i++) {
        s    = s * 1664525u + 1013904223u;
        h[i] = (uint16_t)(base | (s >> 25) | (s & 0x8000));
    }
}

/* This member's panels of one matrix. */
static const char *multiply(const Bench *b, Team team, const char *w, int rows, int k)
{
    int first, end;
    threads_share(team, panel_count(rows), &first, &end);
    MatmulArgs a = { b->y + (size_t)first * 16,
                     (size_t)panel_count(rows) * 16,
                     b->x,
                     (size_t)k,
                     panels_from(b->type, (Panels){ { w } }, first, k),
                     end - first,
                     k,
                     b->n_tok,
                     NULL,
                     b->scratch + (size_t)team.thread * KERNEL_SCRATCH };
    b->kernels->matmul[b->type](&a);
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

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double timed_step(Bench *b, int n_tok, bool head)
{
    b->n_tok = n_tok, b->head = head;
    double start = seconds_now();
    threads_pool_run(b->pool, b->threads, step, b);
    return seconds_now() - start;
}

static double median(double *s, int n)
{
    qsort(s, (size_t)n, sizeof *s, by_value);
    return s[n / 2];
}

/* Reading and decoding take turns: the bandwidth of a shared machine changes while one looks. */
static void decode(Bench *b, size_t n, int repeats)
{
    double s[5][MAX_REPEATS], read = 0;
    for (int i = -1; i < repeats; i++) { /* the first round is not counted */
        double gb = roofline_read(b->w, n, b->threads, 1, NULL);
        read      = gb > read ? gb : read;
        for (int t = 1; t <= 4; t++)
            s[t][i < 0 ? 0 : i] = timed_step(b, t, true);
    }
    printf("read: %.1f GB/s (best of %d rounds over %.2f GB)\n", read, repeats + 1, 1e-9 * (double)n);
    for (int t = 1; t <= 4; t++) {
        double gb = 1e-9 * (double)n / median(s[t], repeats);
        printf("decode %-4s %d token%s: %6.1f GB/s, %5.1f%% of read bandwidth\n", weight_type_name(b->type), t, t > 1 ? "s" : " ", gb,
               100 * gb / read);
    }
}

static void prefill(Bench *b, int n_tok, int repeats, double peak)
{
    double s[MAX_REPEATS], flops = 2.0 * (double)(b->layer_bytes / weight_type_bytes(b->type)) * N_LAYERS * n_tok;
    for (int i = -1; i < repeats; i++)
        s[i < 0 ? 0 : i] = timed_step(b, n_tok, false);
    double gf = 1e-9 * flops / median(s, repeats);
    printf("prefill %-4s %3d tokens: %6.1f GFLOP/s, %5.1f%% of the fma peak\n", weight_type_name(b->type), n_tok, gf, 100 * gf / peak);
}

static void run_type(Bench *b, WeightType type, int repeats, double peak)
{
    b->type = type, b->layer_bytes = 0, b->head_bytes = bytes_of(type, VOCAB, D_MODEL);
    for (int i = 0; i < N_SHAPES; i++)
        b->layer_bytes += bytes_of(type, shape[i].rows, shape[i].k);
    size_t n = b->layer_bytes * N_LAYERS + b->head_bytes;
    b->w     = memory(n);
    threads_run(b->threads, fill_share, b);
    decode(b, n, repeats);
    static const int n_tok[] = { 8, 16, 64, MAX_TOK };
    for (int i = 0; i < 4; i++)
        prefill(b, n_tok[i], repeats, peak);
    fflush(stdout);
    free(b->w);
}

int main(int argc, char **argv)
{
    Error       err;
    const char *isa = NULL, *type = NULL;
    int         threads = threads_default(), repeats = 5;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--isa") == 0)
            isa = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--type") == 0)
            type = argv[i + 1];
        else if (strcmp(argv[i], "--repeats") == 0)
            repeats = atoi(argv[i + 1]);
    }
    WeightType only = WT_COUNT;
    Bench      b    = { .kernels = kernels_select(isa, &err), .threads = threads, .pool = threads_pool_new(threads, false) };
    if (!b.kernels || threads < 1 || repeats < 1 || repeats > MAX_REPEATS || (type && !weight_type_parse(type, &only))) {
        fprintf(stderr, "bench_matmul: %s\n", b.kernels ? "--threads N, --repeats 1 to 99, --type f32, f16 or bf16" : err.msg);
        return 2;
    }
    char name[128];
    machine_name(name, sizeof name);
    double peak = roofline_fma(b.kernels->isa, threads);
    printf("%s, %s, %d threads, medians of %d\nfma: %.1f GFLOP/s\n", name, b.kernels->isa, threads, repeats, peak);
    b.x       = memory((size_t)MAX_TOK * D_FF * sizeof *b.x);
    b.y       = memory((size_t)4 * VOCAB * sizeof *b.y + (size_t)MAX_TOK * D_FF * sizeof *b.y);
    b.scratch = memory((size_t)threads * KERNEL_SCRATCH);
    for (size_t i = 0; i < (size_t)MAX_TOK * D_FF; i++)
        b.x[i] = (float)(i % 17) * 0.125f - 1.0f;
    for (int t = 0; t < WT_FLOATS; t++)
        if (!type || t == (int)only)
            run_type(&b, (WeightType)t, repeats, peak);
    free(b.x), free(b.y), free(b.scratch), threads_pool_free(b.pool);
    return 0;
}
