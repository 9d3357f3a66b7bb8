/* bench_attention: attention over a KV cache, in the shape of llama-3.2-1b, as the forward pass
 * runs it, compared with the machine's limits. Decode (one token) reads K and V of all positions
 * once and waits for memory; prefill multiplies.
 *   bench_attention [--isa NAME] [--threads N] [--type f32|f16|q8] [--heads N] [--kv-heads N]
 *                   [--head-dim N] [--repeats N] [--only decode|prefill] [--positions N]
 * Decode uses so many layers that no cache holds their K and V (512 MB). Bytes are those of the
 * type, with scales. FLOP are 2 x 2 x head_dim for each head and visible position. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/roofline.h"
#include "runtime/ops.h"
#include "timing.h"

enum { MAX_REPEATS = 99, PIECE = 512 };
static const size_t CACHE_BYTES = (size_t)512 << 20;

static const char *const type_names[KV_COUNT] = {
    [KV_F32] = "f32", [KV_F16] = "f16", [KV_Q8] = "q8"
};

typedef struct Bench {
    Run    run;
    Model  model;
    KvCache kv;
    Span   span;
    float *data;                     /* queries and results */
    char  *scratch;
    size_t thread_bytes;
    int    threads, n_layers, repeats;
} Bench;

static _Noreturn void stop(int status, const char *why)
{
    fprintf(stderr, "bench_attention: %s\n", why);
    exit(status);
}

static void *memory(size_t n)
{
    void *p = aligned_alloc(64, round_up(n, 64));
    if (!p)
        stop(4, "out of memory");
    return p;
}

static float number(uint32_t *s) /* -1 to 1 */
{
    *s = *s * 1664525u + 1013904223u;
    return (float)(int32_t)*s * 0x1p-31f;
}

/* Fills each layer on the thread that will read most of it. */
static void fill_layers(void *arg, Team team)
{
    Bench        *b = arg;
    const Config *c = &b->model.cfg;
    uint32_t      s = 1 + (uint32_t)team.thread;
    float        *x = memory((size_t)c->head_dim * 2 * sizeof *x);
    for (int l = team.thread; l < b->n_layers; l += team.n_threads)
        for (int pos = 0; pos < b->kv.seq[0].length; pos++)
            for (int h = 0; h < c->kv_heads; h++) {
                if (pos < 64) /* later positions reuse earlier numbers */
                    for (int i = 0; i < 2 * c->head_dim; i++)
                        x[i] = number(&s);
                kv_cache_put(&b->kv, b->run.kernels, 0, l, h, pos, x, x + c->head_dim);
            }
    free(x);
}

static void open_cache(Bench *b, KvType type, int n_layers, int length)
{
    Error         err;
    const Config *c     = &b->model.cfg;
    KvShape       shape = {
        .n_layers = n_layers, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .type = type
    };
    if (!kv_cache_init(&b->kv, &shape, 1, &err) || !kv_cache_reserve(&b->kv, 0, length, &err))
        stop(err.status, err.msg);
    b->kv.seq[0].length = length;
    b->n_layers         = n_layers;
    threads_run(b->threads, fill_layers, b);
}

static void attend_layers(void *arg, Team team)
{
    Bench *b = arg;
    Run    r = b->run;
    r.team         = team;
    r.thread_bytes = b->thread_bytes;
    r.scratch      = b->scratch + (size_t)team.thread * b->thread_bytes;
    r.attn_scratch = (float *)(void *)((char *)r.scratch + KERNEL_SCRATCH);
    for (int l = 0; l < b->n_layers; l++)
        attention(&r, &r.att_out, l);
}

/* Seconds of attention for n_tok tokens from pos on, in all layers. */
static double seconds_of(Bench *b, int pos, int n_tok)
{
    b->span        = (Span){ 0, pos, 0, n_tok };
    b->run.n_tok   = n_tok;
    double start = clock_seconds();
    threads_run(b->threads, attend_layers, b);
    return clock_seconds() - start;
}

/* Alternates reading and decoding, because the bandwidth of a shared machine changes over time. */
static void decode(Bench *b, KvType type, int length, const char *plain, size_t plain_bytes)
{
    const Config *c = &b->model.cfg;
    double s[MAX_REPEATS], read = 0;
    size_t layer = 2 * (size_t)c->kv_heads * (size_t)length
        * ((size_t)c->head_dim * kv_element_bytes(type) + kv_scale_bytes(type));
    int    n_layers = (int)(CACHE_BYTES / layer) + 1;
    open_cache(b, type, n_layers < MAX_LAYERS ? n_layers : MAX_LAYERS, length);
    for (int i = -1; i < b->repeats; i++) { /* the first round is not counted */
        double gb = roofline_read(plain, plain_bytes, b->threads, 1);
        read      = gb > read ? gb : read;
        s[i < 0 ? 0 : i] = seconds_of(b, length - 1, 1);
    }
    double gb = 1e-9 * (double)layer * b->n_layers / median(s, b->repeats);
    printf("decode  %-3s at %5d positions: %6.1f GB/s, %5.1f%% of %.1f GB/s read\n",
           type_names[type], length, gb, 100 * gb / read, read);
    kv_cache_free(&b->kv);
    fflush(stdout);
}

static void prefill(Bench *b, KvType type, int length, double peak)
{
    const Config *c = &b->model.cfg;
    double        s[MAX_REPEATS], seen = 0;
    int           pos = length - PIECE;
    for (int i = pos; i < length; i++)
        seen += i + 1;
    open_cache(b, type, 1, length);
    for (int i = -1; i < b->repeats; i++)
        s[i < 0 ? 0 : i] = seconds_of(b, pos, PIECE);
    double gf = 1e-9 * 4 * c->heads * c->head_dim * seen / median(s, b->repeats);
    printf("prefill %-3s tokens %d to %d: %6.1f GFLOP/s, %5.1f%% of the fma peak\n",
           type_names[type], pos, length - 1, gf, 100 * gf / peak);
    kv_cache_free(&b->kv);
    fflush(stdout);
}

typedef struct Choice {
    const char *isa;
    int         type;               /* -1: all    */
    int         positions;          /* 0: several */
    bool        decode, prefill;
} Choice;

static void read_options(Bench *b, int argc, char **argv, Choice *choice)
{
    Config *c = &b->model.cfg;
    *c = (Config){ .heads = 32, .kv_heads = 8, .head_dim = 64 };
    b->threads = threads_default(), b->repeats = 5;
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--isa") == 0)
            choice->isa = value;
        else if (strcmp(name, "--threads") == 0)
            b->threads = number_option(name, value, 1024);
        else if (strcmp(name, "--heads") == 0)
            c->heads = number_option(name, value, 1024);
        else if (strcmp(name, "--kv-heads") == 0)
            c->kv_heads = number_option(name, value, 1024);
        else if (strcmp(name, "--head-dim") == 0)
            c->head_dim = number_option(name, value, 1024);
        else if (strcmp(name, "--repeats") == 0)
            b->repeats = number_option(name, value, MAX_REPEATS);
        else if (strcmp(name, "--type") == 0)
            for (choice->type = 0;
                 choice->type < KV_COUNT && strcmp(value, type_names[choice->type]) != 0;
                 choice->type++)
                ;
        else if (strcmp(name, "--positions") == 0)
            choice->positions = number_option(name, value, 1 << 20);
        else if (strcmp(name, "--only") == 0)
            choice->decode = strcmp(value, "prefill") != 0,
            choice->prefill = strcmp(value, "decode") != 0;
        else
            stop(2,
                 "usage: bench_attention [--isa NAME] [--threads N] [--type f32|f16|q8] [--heads "
                 "N] [--kv-heads N] [--head-dim N] "
                 "[--repeats N] [--only decode|prefill] [--positions N]");
    }
    if (choice->type == KV_COUNT)
        stop(2, "--type: expected f32, f16 or q8");
    if (c->heads % c->kv_heads)
        stop(2, "--heads: expected a multiple of --kv-heads");
}

int main(int argc, char **argv)
{
    static Bench b;
    static const int lengths[] = { 2048, 8192 };
    Error  err;
    Choice choice = { .type = -1, .decode = true, .prefill = true };
    read_options(&b, argc, argv, &choice);
    const Config *c = &b.model.cfg;
    if (!(b.run.kernels = kernels_select(choice.isa, &err)))
        stop(err.status, err.msg);
    char name[128];
    machine_name(name, sizeof name);
    double peak = roofline_peak(b.run.kernels->id, PEAK_F32, b.threads);
    printf("%s, %s, %d threads, %d heads, %d KV heads, head_dim %d, medians of %d\nfma: %.1f "
           "GFLOP/s\n",
           name, b.run.kernels->isa, b.threads, c->heads, c->kv_heads, c->head_dim, b.repeats,
           peak);

    size_t stride  = round_up((size_t)c->heads * (size_t)c->head_dim, LANES),
           floats = PIECE * stride;
    b.thread_bytes = round_up(KERNEL_SCRATCH + attention_scratch_floats(c) * sizeof(float), 64);
    b.scratch      = memory((size_t)b.threads * b.thread_bytes);
    b.data         = memory(2 * floats * sizeof *b.data);
    uint32_t s     = 7;
    for (size_t i = 0; i < floats; i++)
        b.data[i] = number(&s);
    char *plain = memory(CACHE_BYTES);
    memset(plain, 1, CACHE_BYTES);
    b.run.model = &b.model, b.run.kv_cache = &b.kv, b.run.span = &b.span, b.run.n_spans = 1;
    b.run.attn_scale = (float)(1 / sqrt((double)c->head_dim));
    b.run.q          = (Act){ .data = b.data, .stride = stride, .width = c->heads * c->head_dim };
    b.run.att_out    =
        (Act){ .data = b.data + floats, .stride = stride, .width = c->heads * c->head_dim };
    for (int t = 0; t < KV_COUNT; t++)
        for (int i = 0; i < (choice.positions ? 1 : 2) && (choice.type < 0 || choice.type == t);
             i++) {
            int n = choice.positions ? choice.positions : lengths[i];
            if (choice.decode)
                decode(&b, (KvType)t, n, plain, CACHE_BYTES);
            if (choice.prefill && n >= PIECE)
                prefill(&b, (KvType)t, n, peak);
        }
    free(b.scratch), free(b.data), free(plain);
    return 0;
}
