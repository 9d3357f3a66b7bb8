/* tblock bench: measures the limits of the machine and every row. */
#include "bench.h"
#include "command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"
#include "tblock_tools.h"

#define FAR_OVER 1.2 /* limits measured at a worse time differ by less */

typedef struct Measuring {
    Bench          *b;
    tblock_context *context;
    tblock_item     item[COMPUTE_BATCH];
    char            what[80]; /* for the progress bar */
} Measuring;

static void show(const Measuring *m)
{
    const Bench *b = m->b;
    progress_show(m->what, b->step < b->n_steps ? (double)b->step / b->n_steps : 1);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Decodes the next n tokens of sequence 0, `piece` at a time, with logits for the last, or for each
 * if they come one at a time. */
static bool feed(Measuring *m, int n, int piece, bool logits, tblock_error *err)
{
    int vocab = m->b->info.vocab_size;
    for (int at = 0, k; at < n; at += k) {
        if (interrupted())
            return fail(err, CLI_INTERRUPTED, "%s", "");
        k = n - at < piece ? n - at : piece;
        int pos = tblock_seq_length(m->context, 0);
        for (int i = 0; i < k; i++)
            m->item[i] = (tblock_item){ 0, pos + i, (int32_t)((pos + i) * 7919LL % vocab), false };
        m->item[k - 1].want_logits = logits && (piece == 1 || at + k == n);
        if (!tblock_decode(m->context, m->item, (size_t)k, err))
            return false;
    }
    return true;
}

/* Bring the cache to the state that a run starts from. Rewinding costs nothing, except for a
 * sliding window that has moved on. */
static bool prepare(Measuring *m, const BenchRow *r, tblock_error *err)
{
    int have = tblock_seq_length(m->context, 0);
    if (have > r->depth && !tblock_seq_rewind(m->context, 0, r->depth, NULL)
        && !tblock_seq_rewind(m->context, 0, 0, err))
        return false;
    return feed(m, r->depth - tblock_seq_length(m->context, 0), COMPUTE_BATCH, false, err);
}

static bool run_once(Measuring *m, const BenchRow *r, double *seconds, tblock_error *err)
{
    if (!prepare(m, r, err))
        return false;
    double start = clock_seconds();
    bool   good  = feed(m, r->tokens, r->decode ? 1 : COMPUTE_BATCH, true, err);
    *seconds += clock_seconds() - start;
    return good;
}

static void add_ops(BenchRow *r, const tblock_profile_row *op, size_t n)
{
    for (size_t i = 0, at; i < n; i++) {
        for (at = 0; at < r->n_ops && strcmp(r->op[at].name, op[i].name) != 0;)
            at++;
        if (at == BENCH_OPS)
            continue;
        if (at == r->n_ops)
            r->op[r->n_ops++] = (tblock_profile_row){ .name = op[i].name };
        r->op[at].calls += op[i].calls;
        r->op[at].seconds += op[i].seconds;
        r->op[at].bytes += op[i].bytes;
        r->op[at].operations += op[i].operations;
    }
}

/* A run with each operation timed, added to r. */
static bool profile_once(Measuring *m, BenchRow *r, double *seconds, tblock_error *err)
{
    tblock_profile_row op[BENCH_OPS];
    /* the preparation does not count */
    if (!prepare(m, r, err) || !tblock_profile(m->context, true, err))
        return false;
    bool good = run_once(m, r, seconds, err);
    tblock_profile(m->context, false, NULL);
    size_t n = tblock_profile_read(m->context, op, BENCH_OPS);
    add_ops(r, op, n < BENCH_OPS ? n : BENCH_OPS);
    r->profile_runs++;
    return good;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* As many tokens as fit in the time that a row may take. */
static bool fit_decode(Measuring *m, BenchRow *r, tblock_error *err)
{
    if (!prepare(m, r, err))
        return false;
    double start = clock_seconds();
    for (int n = 0; n < r->tokens; n++) {
        if (n > 0 && clock_seconds() - start > m->b->args->seconds) {
            r->tokens = n;
            break;
        }
        if (!feed(m, 1, 1, true, err))
            return false;
    }
    return true;
}

/* Touch the pages, measure how long a run takes, and count what it reads and computes. */
static bool warm_up(Measuring *m, BenchRow *r, double *seconds, tblock_error *err)
{
    *seconds = 0;
    if ((r->decode && !fit_decode(m, r, err)) || !profile_once(m, r, seconds, err))
        return false;
    for (size_t i = 0; i < r->n_ops; i++) {
        r->bytes += r->op[i].bytes;
        r->operations += r->op[i].operations;
    }
    r->n_ops        = 0;
    r->profile_runs = 0;
    if (*seconds >= TIMING_SECONDS)
        return true;
    *seconds = 0;
    return run_once(m, r, seconds, err);
}

static bool measure_row(Measuring *m, BenchRow *r, tblock_error *err)
{
    const BenchArgs *a = m->b->args;
    double           timing[BENCH_REPEATS], once, all = 0;
    if (!warm_up(m, r, &once, err))
        return false;
    int inner = repetitions(once), end = m->b->step + a->repeats + 1;
    m->b->step++;
    while (r->repeats < a->repeats && (r->repeats == 0 || all < a->seconds)) {
        double seconds = 0;
        show(m);
        for (int i = 0; i < inner; i++)
            if (!run_once(m, r, &seconds, err))
                return false;
        timing[r->repeats++] = seconds / inner;
        all += seconds;
        m->b->step++;
    }
    r->seconds   = spread_of(timing, r->repeats);
    m->b->step   = end;
    double spent = 0;
    for (int i = 0; a->profile && i < inner; i++)
        if (!profile_once(m, r, &spent, err))
            return false;
    return true;
}

static bool add_row(Measuring *m, BenchRow row, tblock_error *err)
{
    Bench *b = m->b;
    char   name[48];
    snprintf(m->what, sizeof m->what, "%s, %d thread%s", bench_row_name(&row, name),
             b->machine[row.machine].threads, b->machine[row.machine].threads == 1 ? "" : "s");
    show(m);
    if (!measure_row(m, &row, err))
        return false;
    b->row[b->n_rows++] = row;
    return true;
}

/* ---- Numbers of threads ---------------------------------------------------------------------- */

static double larger(double a, double b) { return a > b ? a : b; }

/* Measures the machine's limits, before and after the rows: the best values count. */
static bool measure_machine(Measuring *m, tblock_machine *best, tblock_error *err)
{
    Bench         *b = m->b;
    tblock_machine now;
    if (interrupted())
        return fail(err, CLI_INTERRUPTED, "%s", "");
    snprintf(m->what, sizeof m->what, "the machine's limits");
    show(m);
    if (!tblock_measure_machine(
            &(tblock_measure_options){ .threads = b->computing.threads,
                                       .isa = b->computing.isa,
                                       .model = b->model,
                                       .read_bytes = (size_t)b->args->read_mb * 1000000 },
            &now, err))
        return false;
    now.read_gb_per_s   = larger(now.read_gb_per_s, best->read_gb_per_s);
    now.weights_gb_per_s = larger(now.weights_gb_per_s, best->weights_gb_per_s);
    now.f32_gflop_per_s = larger(now.f32_gflop_per_s, best->f32_gflop_per_s);
    now.int8_gop_per_s  = larger(now.int8_gop_per_s, best->int8_gop_per_s);
    now.int16_gop_per_s = larger(now.int16_gop_per_s, best->int16_gop_per_s);
    *best = now;
    b->step++;
    return true;
}

static bool measure_threads(Measuring *m, int i, tblock_error *err)
{
    Bench          *b = m->b;
    ComputeOptions  o = b->args->compute;
    int             longest = counts_largest(&b->prefill),
        deepest = counts_largest(&b->depth) + b->args->decode;
    tblock_machine *machine = &b->machine[i];

    o.threads  = b->threads.value[i];
    o.pages    = strcmp(o.pages, "auto") == 0 ? "huge" : o.pages; /* what a long run would have */
    o.n_ctx    = longest > deepest ? longest : deepest;
    o.silent   = i > 0;
    m->context = compute_context(b->model, b->args->model, &o, err);
    if (!m->context)
        return false;
    tblock_context_describe(m->context, &b->computing);
    bool good = measure_machine(m, machine, err);
    b->n_machines += good;
    for (int k = 0; good && k < b->prefill.n; k++)
        good = add_row(m, (BenchRow){ .tokens = b->prefill.value[k], .machine = i }, err);
    for (int k = 0; good && k < b->depth.n; k++)
        good = add_row(m,
                       (BenchRow){ .decode = true,
                                   .tokens = b->args->decode,
                                   .depth = b->depth.value[k],
                                   .machine = i },
                       err);
    good = good && measure_machine(m, machine, err);
    tblock_context_free(m->context);
    m->context = NULL;
    return good;
}

bool bench_measure(Bench *b, tblock_error *err)
{
    Measuring m    = { .b = b };
    bool      good = true;
    b->n_steps     = b->threads.n * (2 + (b->prefill.n + b->depth.n) * (b->args->repeats + 1));
    for (int i = 0; good && i < b->threads.n; i++)
        good = measure_threads(&m, i, err);
    progress_end();
    return good;
}

/* ---- What the numbers come to ---------------------------------------------------------------- */

Peak bench_peak(const Bench *b, int machine)
{
    const tblock_machine *m = &b->machine[machine];
    if (strcmp(b->computing.math, "bf16") == 0)
        return (Peak){ m->bf16_gflop_per_s, "bf16", "bf16 multiply-adds with sums of f32" };
    if (strcmp(b->computing.math, "int8") != 0)
        return (Peak){ m->f32_gflop_per_s, "f32", "f32 multiply-adds, which this math uses" };
    if (strcmp(b->computing.activations, "16") == 0)
        return (Peak){ larger(m->int16_gop_per_s, m->int8_gop_per_s / 2), "int16",
                       "int16 dot products, or int8 at half its rate: two digits each" };
    return (Peak){ m->int8_gop_per_s, "int8", "int8 dot products of weights and activations" };
}

size_t bench_cache_bytes(void)
{
    size_t most = 0;
    for (int index = 0; index < 8; index++) {
        char     path[64];
        unsigned kb = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%7uK", &kb) == 1 && (size_t)kb << 10 > most)
            most = (size_t)kb << 10;
        if (f)
            fclose(f);
    }
    /* of cpuid; glibc before 2.37 is wrong on AMD */
    long told = most ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE);
    return told > 0 ? (size_t)told : most;
}

Rates bench_rates(const Bench *b, const BenchRow *r)
{
    double read = b->machine[r->machine].read_gb_per_s, peak = bench_peak(b, r->machine).gop_per_s;
    Rates  x = { .tokens_per_s = r->tokens / r->seconds.median,
                 .least = r->tokens / r->seconds.most,
                 .most = r->tokens / r->seconds.least,
                 .gb_per_s = 1e-9 * r->bytes / r->seconds.median,
                 .gop_per_s = 1e-9 * r->operations / r->seconds.median };
    /* a machine may have several such caches, of which the system describes one */
    x.in_cache   = b->info.bytes_per_token <= b->cache_bytes || x.gb_per_s > FAR_OVER * read;
    x.read_share = x.in_cache ? 0 : x.gb_per_s / read;
    x.peak_share = peak > 0 ? x.gop_per_s / peak : 0;
    return x;
}

OpRates bench_op_rates(const Bench *b, const BenchRow *r, const tblock_profile_row *op)
{
    const tblock_machine *m = &b->machine[r->machine];
    /* scores and weighted sums are floats, whatever the type of the weights */
    double  peak = strcmp(op->name, "attention") == 0 ? m->f32_gflop_per_s
                                                      : bench_peak(b, r->machine).gop_per_s,
           all = 0;
    double  took = larger(op->seconds, 1e-9); /* at least a clock's step */
    OpRates x    = { .seconds = op->seconds / r->profile_runs, .gb_per_s = 1e-9 * op->bytes / took,
                     .gop_per_s = 1e-9 * op->operations / took };
    for (size_t i = 0; i < r->n_ops; i++)
        all += r->op[i].seconds;
    x.share = op->seconds / larger(all, 1e-9);
    if (op->operations > 0 && peak > 0)
        x.roof_share = larger(bench_rates(b, r).in_cache ? 0 : x.gb_per_s / m->read_gb_per_s,
                              x.gop_per_s / peak);
    return x;
}

const char *bench_row_name(const BenchRow *r, char out[48])
{
    snprintf(out, 48, r->decode ? "decode after %d" : "prefill %d",
             r->decode ? r->depth : r->tokens);
    return out;
}
