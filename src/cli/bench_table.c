#include "bench.h"
#include "message.h"
#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "tblock_tools.h"

static const char *spell_share(double share, char out[16])
{
    snprintf(out, 16, share > 0 ? "%.1f%%" : "-", 100 * share);
    return out;
}

/* Four digits, also of slow and of very fast things. */
static const char *spell_rate(double x, char out[24])
{
    snprintf(out, 24, "%.*f", x < 10 ? 3 : x < 100 ? 2 : x < 1000 ? 1 : 0, x);
    return out;
}

/* "-": this ISA has no such dot products, or none that is known */
static const char *spell_peak(double gop, char out[24])
{
    snprintf(out, 24, gop > 0 ? "%.0f" : "-", gop);
    return out;
}

/* ---- What was measured against what ------------------------------------------------------------------------------ */

static void print_header(const Bench *b)
{
    const tblock_model_info   *m = &b->info;
    const tblock_context_info *c = &b->computing;
    char cpu[160], model[256], f32[24], int8[24], int16[24];
    printable_text(cpu, sizeof cpu, b->machine[0].cpu, strlen(b->machine[0].cpu));
    printable_text(model, sizeof model, bench_model_name(b), strlen(bench_model_name(b)));
    output_format("%s, %s\n", cpu, c->isa);
    output_format("model     %s: %s\n", model, m->weight_types);
    output_format("          %.2f million parameters, %.2f MB of weights per token\n",
                  1e-6 * (double)m->n_params, 1e-6 * (double)m->bytes_per_token);
    output_format("settings  math %s, activations %s, KV cache %s; median of %d timing%s\n", c->math, c->activations, c->kv_type,
                  b->args->repeats, b->args->repeats == 1 ? "" : "s at most");
    for (int i = 0; i < b->n_machines; i++) {
        const tblock_machine *k = &b->machine[i];
        output_format("machine   %d thread%s: read %.1f GB/s; GOP/s: f32 %s, int8 %s, int16 %s\n", k->threads, k->threads == 1 ? "" : "s",
                      k->read_gb_per_s, spell_peak(k->f32_gflop_per_s, f32), spell_peak(k->int8_gop_per_s, int8),
                      spell_peak(k->int16_gop_per_s, int16));
    }
    Peak peak = bench_peak(b, 0);
    output_format("limits    %% read: weights and KV cache against the read bandwidth: limits decode\n"
                  "          %% peak: operations against the %s peak: limits prefill\n"
                  "          (%s)\n", peak.name, peak.why);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void print_row(const Bench *b, const BenchRow *r)
{
    Rates x = bench_rates(b, r);
    char  name[48], rate[24], least[24], most[24], gb[24], gop[24], read[16], peak[16], range[56];
    snprintf(range, sizeof range, "%s .. %s", spell_rate(x.least, least), spell_rate(x.most, most));
    output_format("%-19s %7d %8s %15s %6s %6s %6s %6s\n", bench_row_name(r, name), b->machine[r->machine].threads,
                  spell_rate(x.tokens_per_s, rate), range, spell_rate(x.gb_per_s, gb), x.in_cache ? "cache" : spell_share(x.read_share, read),
                  spell_rate(x.gop_per_s, gop), spell_share(x.peak_share, peak));
}

static void print_op(const Bench *b, const BenchRow *r, const tblock_profile_row *op)
{
    OpRates x = bench_op_rates(b, r, op);
    char    gb[24], gop[24], share[16], roof[16];
    output_format("  %-10s %8" PRIu64 " %12.4f %7s %9s %9s %7s\n", op->name, op->calls / (uint64_t)r->profile_runs, 1e3 * x.seconds,
                  spell_share(x.share, share), op->bytes > 0 ? spell_rate(x.gb_per_s, gb) : "-",
                  op->operations > 0 ? spell_rate(x.gop_per_s, gop) : "-", spell_share(x.roof_share, roof));
}

static void print_profile(const Bench *b, const BenchRow *r)
{
    char name[48];
    int  threads = b->machine[r->machine].threads;
    output_format("\n%s, %d thread%s, time per operation in a run of %d token%s:\n", bench_row_name(r, name), threads, threads == 1 ? "" : "s", r->tokens,
                  r->tokens == 1 ? "" : "s");
    output_format("  %-10s %8s %12s %7s %9s %9s %7s\n", "operation", "calls", "ms", "time", "GB/s", "GOP/s", "% roof");
    for (size_t i = 0; i < r->n_ops; i++)
        print_op(b, r, &r->op[i]);
}

/* Why a row says "cache". */
static void print_cache(const Bench *b)
{
    double weights = 1e-6 * (double)b->info.bytes_per_token, cache = 1e-6 * (double)b->cache_bytes;
    bool   any     = false;
    for (int i = 0; i < b->n_rows; i++)
        any |= bench_rates(b, &b->row[i]).in_cache;
    if (any && weights <= cache)
        output_format("cache: the weights of a token (%.2f MB) fit in the last-level cache (%.1f MB),\n"
                      "so the read bandwidth of memory does not bound decode.\n", weights, cache);
    else if (any)
        output_format("cache: faster than memory can be read, so much of the data comes from a cache.\n");
}

void bench_print_table(const Bench *b)
{
    if (b->n_machines == 0)
        return;
    print_header(b);
    output_format("\n%-19s %7s %8s %15s %6s %6s %6s %6s\n", "", "threads", "tokens/s", "least .. most", "GB/s", "% read",
                  "GOP/s", "% peak");
    for (int i = 0; i < b->n_rows; i++)
        print_row(b, &b->row[i]);
    print_cache(b);
    for (int i = 0; b->args->profile && i < b->n_rows; i++)
        print_profile(b, &b->row[i]);
}
