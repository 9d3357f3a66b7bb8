#include "bench.h"
#include "output.h"
#include "tblock_tools.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_text(const char *key, const char *text)
{
    output_format("\"%s\": ", key);
    output_json_text(text, strlen(text));
    output_format(", ");
}

static void put_number(const char *key, double x)
{
    output_json_number(key, x);
    output_format(", ");
}

/* null where it is not known */
static void put_known(const char *key, double x) { put_number(key, x > 0 ? x : NAN); }

static void print_profile(const Bench *b, const BenchRow *r)
{
    output_format(", \"profile\": [");
    for (size_t i = 0; i < r->n_ops; i++) {
        const tblock_profile_row *op = &r->op[i];
        OpRates                   x  = bench_op_rates(b, r, op);
        output_format("%s{\"name\": \"%s\", \"calls\": %" PRIu64 ", ", i ? ", " : "", op->name, op->calls / (uint64_t)r->profile_runs);
        put_number("seconds", x.seconds);
        put_number("share", x.share);
        put_known("gb_per_s", x.gb_per_s);
        put_known("gop_per_s", x.gop_per_s);
        output_json_number("roof_share", x.roof_share > 0 ? x.roof_share : NAN);
        output_format("}");
    }
    output_format("]");
}

static void print_row(const Bench *b, const BenchRow *r)
{
    Rates x = bench_rates(b, r);
    output_format("{\"what\": \"%s\", \"threads\": %d, \"tokens\": %d, \"depth\": %d, \"repeats\": %d, ", r->decode ? "decode" : "prefill",
                  b->machine[r->machine].threads, r->tokens, r->depth, r->repeats);
    put_number("tokens_per_s", x.tokens_per_s);
    put_number("tokens_per_s_least", x.least);
    put_number("tokens_per_s_most", x.most);
    put_number("bytes", r->bytes);
    put_number("operations", r->operations);
    put_number("gb_per_s", x.gb_per_s);
    put_known("read_share", x.read_share);
    output_format("\"in_cache\": %s, ", x.in_cache ? "true" : "false");
    put_number("gop_per_s", x.gop_per_s);
    output_json_number("peak_share", x.peak_share > 0 ? x.peak_share : NAN);
    if (b->args->profile)
        print_profile(b, r);
    output_format("}");
}

/* "decode": the first row of the kind */
static void print_first(const Bench *b, const char *key, bool decode)
{
    const BenchRow *r = NULL;
    for (int i = 0; !r && i < b->n_rows; i++)
        if (b->row[i].decode == decode)
            r = &b->row[i];
    output_format("\"%s\": ", key);
    if (r)
        print_row(b, r);
    else
        output_format("null");
    output_format(", ");
}

static void print_machine(const Bench *b, int i)
{
    const tblock_machine *m = &b->machine[i];
    output_format("%s{\"threads\": %d, ", i ? ", " : "", m->threads);
    put_number("read_gb_per_s", m->read_gb_per_s);
    put_known("peak_gop_per_s", bench_peak(b, i).gop_per_s);
    put_number("f32_gop_per_s", m->f32_gflop_per_s);
    put_known("int8_gop_per_s", m->int8_gop_per_s);
    output_json_number("int16_gop_per_s", m->int16_gop_per_s > 0 ? m->int16_gop_per_s : NAN);
    output_format("}");
}

void bench_print_json(const Bench *b, bool complete)
{
    if (b->n_machines == 0)
        return;
    output_format("{");
    put_text("cpu", b->machine[0].cpu);
    put_text("isa", b->computing.isa);
    put_text("model", bench_model_name(b));
    put_text("types", b->info.weight_types);
    output_format("\"parameters\": %" PRIu64 ", \"bytes_per_token\": %zu, ", b->info.n_params, b->info.bytes_per_token);
    put_known("cache_bytes", (double)b->cache_bytes);
    put_text("math", b->computing.math);
    put_text("activations", b->computing.activations);
    put_text("kv_type", b->computing.kv_type);
    output_format("\"complete\": %s, \"threads\": %d, ", complete ? "true" : "false", b->machine[0].threads);
    put_number("read_gb_per_s", b->machine[0].read_gb_per_s);
    put_known("peak_gop_per_s", bench_peak(b, 0).gop_per_s);
    put_text("peak", bench_peak(b, 0).name);
    print_first(b, "prefill", false);
    print_first(b, "decode", true);
    output_format("\"machines\": [");
    for (int i = 0; i < b->n_machines; i++)
        print_machine(b, i);
    output_format("], \"rows\": [");
    for (int i = 0; i < b->n_rows; i++) {
        output_format(i ? ", " : "");
        print_row(b, &b->row[i]);
    }
    output_format("]}\n");
}
