/* bench_model: prefill and decode of a whole model through tblock.h, against the machine's limits, measured in the same run.
 *   bench_model MODEL [--threads N] [--isa NAME] [--prefill N] [--decode N] [--repeats N] [--csv FILE]
 * Decode reads all weights for each token: GB/s against the read bandwidth. Prefill multiplies: GFLOP/s (two operations for
 * each weight and token, and the visible part of attention) against the FMA peak. Medians; --csv appends a row. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/roofline.h"
#include "tblock.h"

enum { MAX_REPEATS = 99, MAX_TOKENS = 1 << 16 };

typedef struct Args {
    const char *model, *isa, *csv;
    int         threads, prefill, decode, repeats;
} Args;

typedef struct Result {
    double read_gb_per_s, peak_gflop_per_s;
    double decode_tok_per_s, decode_gb_per_s, prefill_tok_per_s, prefill_gflop_per_s;
} Result;

static _Noreturn void stop(int status, const char *why)
{
    fprintf(stderr, "bench_model: %s\n", why);
    exit(status);
}

static int number(const char *option, const char *text, int max)
{
    char *end;
    long  n = strtol(text, &end, 10);
    if (*end || end == text || n < 1 || n > max) {
        fprintf(stderr, "bench_model: %s: expected 1 to %d, found '%s'\n", option, max, text);
        exit(2);
    }
    return (int)n;
}

static Args read_args(int argc, char **argv)
{
    Args a = { .prefill = 512, .decode = 32, .repeats = 5 };
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-' && !a.model) {
            a.model = argv[i];
            continue;
        }
        if (!value)
            stop(2, "an option without a value");
        if (strcmp(argv[i], "--threads") == 0)
            a.threads = number(argv[i], value, 1024);
        else if (strcmp(argv[i], "--prefill") == 0)
            a.prefill = number(argv[i], value, MAX_TOKENS);
        else if (strcmp(argv[i], "--decode") == 0)
            a.decode = number(argv[i], value, MAX_TOKENS);
        else if (strcmp(argv[i], "--repeats") == 0)
            a.repeats = number(argv[i], value, MAX_REPEATS);
        else if (strcmp(argv[i], "--isa") == 0)
            a.isa = value;
        else if (strcmp(argv[i], "--csv") == 0)
            a.csv = value;
        else
            stop(2, "usage: bench_model MODEL [--threads N] [--isa NAME] [--prefill N] [--decode N] [--repeats N] [--csv FILE]");
        i++;
    }
    if (!a.model)
        stop(2, "expected a model file");
    return a;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *s, int n)
{
    qsort(s, (size_t)n, sizeof *s, by_value);
    return s[n / 2];
}

/* Bandwidth over as many bytes as the model reads, but from memory of our own, so that the page cache plays no part. */
static double read_bandwidth(int threads)
{
    size_t n = (size_t)3 << 29; /* 1.6 GB */
    char  *data = aligned_alloc(4096, n);
    if (!data)
        stop(4, "out of memory");
    memset(data, 1, n);
    double best = roofline_read(data, n, threads, 3, NULL);
    free(data);
    return best;
}

static double prefill_seconds(tblock_context *c, const tblock_item *item, int n, tblock_error *err)
{
    double start = seconds_now();
    if (!tblock_seq_rewind(c, 0, 0, err) || !tblock_decode(c, item, (size_t)n, err))
        stop(err->status, err->msg);
    return seconds_now() - start;
}

static double decode_seconds(tblock_context *c, int n, int vocab, tblock_error *err)
{
    double start = seconds_now();
    for (int i = 0; i < n; i++) {
        tblock_item item = { 0, tblock_seq_length(c, 0), (i * 7919) % vocab, true };
        if (!tblock_decode(c, &item, 1, err))
            stop(err->status, err->msg);
    }
    return (seconds_now() - start) / n;
}

/* Operations of prefill: every weight of the blocks meets every token, the head only the last; QK^T and AV of what is seen. */
static double prefill_flop(const tblock_model_info *m, int n)
{
    double d = m->d_model, q = (double)m->heads * m->head_dim, kv = (double)m->kv_heads * m->head_dim;
    double block = 2 * d * q + 2 * d * kv + 3 * d * m->d_ff;
    double attention = 4.0 * q * n * (n + 1) / 2;
    return m->n_layers * (2 * block * n + attention) + 2 * d * m->vocab_size;
}

static void measure(const Args *a, tblock_context *c, const tblock_model_info *m, Result *r)
{
    static tblock_item item[MAX_TOKENS];
    tblock_error err;
    double       prefill[MAX_REPEATS], decode[MAX_REPEATS];
    for (int i = 0; i < a->prefill; i++)
        item[i] = (tblock_item){ 0, i, (i * 7919) % m->vocab_size, i == a->prefill - 1 };
    for (int i = -1; i < a->repeats; i++) { /* the first touches the pages and is not counted */
        double p = prefill_seconds(c, item, a->prefill, &err), d = decode_seconds(c, a->decode, m->vocab_size, &err);
        if (i >= 0)
            prefill[i] = p, decode[i] = d;
    }
    double p = median(prefill, a->repeats), d = median(decode, a->repeats);
    r->prefill_tok_per_s   = a->prefill / p;
    r->prefill_gflop_per_s = 1e-9 * prefill_flop(m, a->prefill) / p;
    r->decode_tok_per_s    = 1 / d;
    r->decode_gb_per_s     = 1e-9 * (double)m->bytes_per_token / d;
}

static void append_csv(const Args *a, const char *cpu, const tblock_model_info *m, const tblock_context_info *ci, const Result *r)
{
    FILE *f = fopen(a->csv, "a");
    if (!f)
        stop(4, "cannot write the CSV file");
    if (ftell(f) == 0)
        fprintf(f, "cpu,isa,threads,model,types,parameters,read_gb_per_s,peak_gflop_per_s,prefill_tokens,prefill_tok_per_s,"
                   "prefill_gflop_per_s,decode_tokens,decode_tok_per_s,decode_gb_per_s\n");
    const char *name = strrchr(a->model, '/');
    fprintf(f, "\"%s\",%s,%d,%s,\"%s\",%llu,%.1f,%.1f,%d,%.2f,%.1f,%d,%.2f,%.2f\n", cpu, ci->isa, ci->threads,
            name ? name + 1 : a->model, m->weight_types, (unsigned long long)m->n_params, r->read_gb_per_s, r->peak_gflop_per_s,
            a->prefill, r->prefill_tok_per_s, r->prefill_gflop_per_s, a->decode, r->decode_tok_per_s, r->decode_gb_per_s);
    if (fclose(f) != 0)
        stop(4, "cannot write the CSV file");
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
    tblock_context_options opt = { .threads = a.threads, .isa = a.isa, .n_ctx = a.prefill + a.decode };
    tblock_context *context = tblock_context_new(model, &opt, &err);
    if (!context)
        stop(err.status, err.msg);
    tblock_model_info   m;
    tblock_context_info ci;
    tblock_model_describe(model, &m);
    tblock_context_describe(context, &ci);

    Result r = { .read_gb_per_s = read_bandwidth(ci.threads), .peak_gflop_per_s = roofline_fma(ci.isa, ci.threads) };
    measure(&a, context, &m, &r);
    printf("%s, %s, %d threads, medians of %d\n", cpu, ci.isa, ci.threads, a.repeats);
    printf("model    %s: %s, %.0f million parameters, %.2f GB a token\n", a.model, m.weight_types, 1e-6 * (double)m.n_params,
           1e-9 * (double)m.bytes_per_token);
    printf("machine  read %.1f GB/s, f32 fma peak %.1f GFLOP/s\n", r.read_gb_per_s, r.peak_gflop_per_s);
    printf("prefill  %d tokens: %.1f tok/s, %.1f GFLOP/s, %.1f%% of the peak\n", a.prefill, r.prefill_tok_per_s,
           r.prefill_gflop_per_s, 100 * r.prefill_gflop_per_s / r.peak_gflop_per_s);
    printf("decode   after %d: %.2f tok/s, %.1f GB/s, %.1f%% of the read bandwidth\n", a.prefill, r.decode_tok_per_s,
           r.decode_gb_per_s, 100 * r.decode_gb_per_s / r.read_gb_per_s);
    if (a.csv)
        append_csv(&a, cpu, &m, &ci, &r);
    tblock_context_free(context);
    tblock_close(model);
    return 0;
}
