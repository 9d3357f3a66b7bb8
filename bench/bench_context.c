/* bench_context: decode of a whole model at the end of a long context, compared with the read
 * bandwidth; counts the bytes of weights and cache. Fills the cache with random K and V, which
 * takes seconds; a prompt of that length takes minutes.
 *   bench_context MODEL [--threads N] [--kv-type TYPE] [--positions N] [--tokens N] [--repeats N]
 * Alternates reading and decoding, because the bandwidth of a shared machine changes. Prints
 * medians of the repeats and of their ratio. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/threads.h"
#include "kernels/roofline.h"
#include "tblock.h"
#include "timing.h"

enum { MAX_REPEATS = 99, READ_BYTES = 1 << 29 };

typedef struct Args {
    const char *model, *kv_type;
    int         threads, positions, tokens, repeats;
} Args;

static _Noreturn void stop(int status, const char *why)
{
    fprintf(stderr, "bench_context: %s\n", why);
    exit(status);
}

static Args read_args(int argc, char **argv)
{
    Args a = { .positions = 8192, .tokens = 8, .repeats = 5 };
    if (argc < 2 || argc % 2 || argv[1][0] == '-')
        stop(2,
             "usage: bench_context MODEL [--threads N] [--kv-type TYPE] [--positions N] [--tokens "
             "N] [--repeats N]");
    a.model = argv[1];
    for (int i = 2; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--threads") == 0)
            a.threads = number_option(name, value, 1024);
        else if (strcmp(name, "--kv-type") == 0)
            a.kv_type = value;
        else if (strcmp(name, "--positions") == 0)
            a.positions = number_option(name, value, 1 << 20);
        else if (strcmp(name, "--tokens") == 0)
            a.tokens = number_option(name, value, 1 << 10);
        else if (strcmp(name, "--repeats") == 0)
            a.repeats = number_option(name, value, MAX_REPEATS);
        else
            stop(2, "an option that is not known");
    }
    return a;
}

typedef struct Fill {
    tblock_context *c;
    int             positions;
} Fill;

/* Positions after the first 64 reuse the numbers of an earlier one. */
static void fill_layers(void *arg, Team team)
{
    const Fill   *f = arg;
    const KvShape s = f->c->kv.shape;
    uint32_t      seed = 1 + (uint32_t)team.thread;
    float        *x = malloc((size_t)s.head_dim * 2 * sizeof *x);
    if (!x)
        stop(4, "out of memory");
    for (int l = team.thread; l < s.n_layers; l += team.n_threads)
        for (int pos = 0; pos < f->positions; pos++)
            for (int h = 0; h < s.kv_heads; h++) {
                for (int i = 0; pos < 64 && i < 2 * s.head_dim; i++)
                    x[i] = (float)(int32_t)(seed = seed * 1664525u + 1013904223u) * 0x1p-31f;
                kv_cache_put(&f->c->kv, f->c->kernels, 0, l, h, pos, x, x + s.head_dim);
            }
    free(x);
}

static void fill_cache(tblock_context *c, int positions, int threads)
{
    Error err;
    if (!kv_cache_reserve(&c->kv, 0, positions, &err))
        stop(err.status, err.msg);
    threads_run(threads, fill_layers, &(Fill){ c, positions });
    c->kv.seq[0].length = positions;
}

/* Seconds for each token. */
static double decode_seconds(tblock_context *c, const Args *a, int vocab)
{
    tblock_error err;
    double       start = clock_seconds();
    for (int i = 0; i < a->tokens; i++) {
        tblock_item item = { 0, tblock_seq_length(c, 0), (i * 7919) % vocab, true };
        if (!tblock_decode(c, &item, 1, &err))
            stop(err.status, err.msg);
    }
    double s = (clock_seconds() - start) / a->tokens;
    if (!tblock_seq_rewind(c, 0, a->positions, &err))
        stop(err.status, err.msg);
    return s;
}

static void measure(const Args *a, tblock_context *c, const tblock_model_info *m, int threads)
{
    double s[MAX_REPEATS], read[MAX_REPEATS], part[MAX_REPEATS];
    char  *plain = aligned_alloc(4096, READ_BYTES);
    if (!plain)
        stop(4, "out of memory");
    memset(plain, 1, READ_BYTES);
    double weights = (double)m->bytes_per_token;
    double cache =
        (double)c->kv.tile_bytes / KV_TILE * c->kv.shape.n_layers * (a->positions + a->tokens / 2);
    for (int i = -1; i < a->repeats; i++) { /* the first touches the pages and does not count */
        double gb = roofline_read(plain, READ_BYTES, threads, 1),
               took = decode_seconds(c, a, m->vocab_size);
        if (i >= 0)
            s[i] = took, read[i] = gb, part[i] = 1e-9 * (weights + cache) / took / gb;
    }
    double t = median(s, a->repeats);
    printf("after %d positions, %s cache: %.2f tok/s, %.2f GB of weights and %.2f of cache a "
           "token: %.1f GB/s, %.1f%% of %.1f GB/s read\n",
           a->positions, kv_type_name(c->kv.shape.type), 1 / t, 1e-9 * weights, 1e-9 * cache,
           1e-9 * (weights + cache) / t, 100 * median(part, a->repeats), median(read, a->repeats));
    free(plain);
}

int main(int argc, char **argv)
{
    Args         a = read_args(argc, argv);
    tblock_error err;
    char         cpu[128];
    machine_name(cpu, sizeof cpu);
    tblock_model *model = tblock_open(a.model, NULL, &err);
    if (!model)
        stop(err.status, err.msg);
    tblock_context_options opt = { .threads = a.threads,
                                   .n_ctx = a.positions + a.tokens,
                                   .kv_type = a.kv_type };
    tblock_context *context = tblock_context_new(model, &opt, &err);
    if (!context)
        stop(err.status, err.msg);
    tblock_model_info   m;
    tblock_context_info ci;
    tblock_model_describe(model, &m);
    tblock_context_describe(context, &ci);
    printf("%s, %s, %d threads, medians of %d, %s (%s)\n", cpu, ci.isa, ci.threads, a.repeats,
           a.model, m.weight_types);
    fill_cache(context, a.positions, ci.threads);
    measure(&a, context, &m, ci.threads);
    tblock_context_free(context);
    tblock_close(model);
    return 0;
}
