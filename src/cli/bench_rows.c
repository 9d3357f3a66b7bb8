/* cli/bench_rows.c: what bench prints, as a table and as JSON. docs/bench.md explains the
 * numbers. */
#include "bench.h"
#include "command.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/text.h"

static const char *plural(int n) { return n == 1 ? "" : "s"; }

/* "-" and null unless it is over 0: unknown, or this ISA has none. */
static Cell known(double x) { return v_shown(v_real(x > 0 ? x : NAN), x > 0 ? NULL : "-"); }

/* null if it is below 0: unknown. */
static Cell share(double x) { return v_real(x >= 0 ? x : NAN); }

static const char *peak_text(double gop_per_s, char out[32])
{
    return gop_per_s > 0 ? real_spell(gop_per_s, UNIT_FIXED + 0, out, 32) : "-";
}

/* ---- What was measured against what ---------------------------------------------------------- */

static void header_text(Rows *r, const Bench *b)
{
    const tblock_model_info   *m = &b->info;
    const tblock_context_info *c = &b->computing;
    const Peak peak = bench_peak(b, 0);
    char cpu[160], f32[32], bf16[32], int8[32], int16[32];
    printable_text(cpu, sizeof cpu, b->machine[0].cpu, strlen(b->machine[0].cpu));
    rows_text(r, "%s, %s\n", cpu, c->isa);
    rows_pair(r, "model", "%s: %s", path_name(b->args->model), m->weight_types);
    rows_pair(r, "", "%.2f million parameters, %.2f MB of weights per token",
              1e-6 * (double)m->n_params, 1e-6 * (double)m->bytes_per_token);
    rows_pair(r, "settings", "math %s, activations %s, KV cache %s; median of %d timing%s", c->math,
              c->activations, c->kv_type, b->args->repeats,
              b->args->repeats == 1 ? "" : "s at most");
    for (int i = 0; i < b->n_machines; i++) {
        const tblock_machine *k = &b->machine[i];
        char huge[64] = "";
        if (k->huge_share >= 0)
            snprintf(huge, sizeof huge, ", %.0f%% in huge pages", 100 * k->huge_share);
        rows_pair(r, "machine", "%d thread%s: read %.1f GB/s", k->threads, plural(k->threads),
                  k->read_gb_per_s);
        if (k->weights_gb_per_s > 0)
            rows_pair(r, "", "weights where they lie: read %.1f GB/s%s", k->weights_gb_per_s,
                      huge);
        rows_pair(r, "", "GOP/s: f32 %s, bf16 %s, int8 %s, int16 %s",
                  peak_text(k->f32_gflop_per_s, f32), peak_text(k->bf16_gflop_per_s, bf16),
                  peak_text(k->int8_gop_per_s, int8), peak_text(k->int16_gop_per_s, int16));
    }
    rows_pair(r, "limits",
              "%% read: weights and KV cache against the read bandwidth: limits decode");
    rows_pair(r, "", "%% peak: operations against the %s peak: limits prefill", peak.name);
    rows_pair(r, "", "(%s)", peak.why);
    rows_text(r, "\n");
}

static void header_json(Rows *r, const Bench *b, bool complete)
{
    const tblock_model_info   *m = &b->info;
    const tblock_context_info *c = &b->computing;
    const Peak peak = bench_peak(b, 0);
    rows_members(r, { "cpu", v_text(b->machine[0].cpu) }, { "isa", v_text(c->isa) },
                 { "model", v_text(path_name(b->args->model)) },
                 { "types", v_text(m->weight_types) }, { "parameters", v_count(m->n_params) },
                 { "bytes_per_token", v_count(m->bytes_per_token) },
                 { "cache_bytes", known((double)b->cache_bytes) }, { "math", v_text(c->math) },
                 { "activations", v_text(c->activations) }, { "kv_type", v_text(c->kv_type) },
                 { "complete", v_flag(complete) }, { "threads", v_int(b->machine[0].threads) },
                 { "read_gb_per_s", v_real(b->machine[0].read_gb_per_s) },
                 { "weights_gb_per_s", known(b->machine[0].weights_gb_per_s) },
                 { "huge_share", share(b->machine[0].huge_share) },
                 { "peak_gop_per_s", known(peak.gop_per_s) }, { "peak", v_text(peak.name) });
}

static void machines_json(Rows *r, const Bench *b)
{
    rows_open(r, "machines", '[');
    for (int i = 0; i < b->n_machines; i++) {
        const tblock_machine *m = &b->machine[i];
        rows_object(r, NULL, { "threads", v_int(m->threads) },
                    { "read_gb_per_s", v_real(m->read_gb_per_s) },
                    { "weights_gb_per_s", known(m->weights_gb_per_s) },
                    { "huge_share", share(m->huge_share) },
                    { "peak_gop_per_s", known(bench_peak(b, i).gop_per_s) },
                    { "f32_gop_per_s", v_real(m->f32_gflop_per_s) },
                    { "bf16_gop_per_s", v_real(m->bf16_gflop_per_s) },
                    { "int8_gop_per_s", known(m->int8_gop_per_s) },
                    { "int16_gop_per_s", known(m->int16_gop_per_s) });
    }
    rows_close(r, ']');
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void profile_rows(Rows *r, const Bench *b, const BenchRow *row)
{
    static const Column columns[] = {
        { "name", "operation", -10, 0, UNIT_NONE, NULL },
        { "calls", "calls", 8, 0, UNIT_NONE, NULL },
        { NULL, "ms", 12, 0, UNIT_FIXED + 4, NULL },
        JSON_COLUMN("seconds"),
        { "share", "time", 7, 0, UNIT_SHARE, NULL },
        { "gb_per_s", "GB/s", 9, 0, UNIT_SPEED, NULL },
        { "gop_per_s", "GOP/s", 9, 0, UNIT_SPEED, NULL },
        { "roof_share", "% roof", 7, 0, UNIT_SHARE, NULL },
    };
    static const Table table = TABLE_OF(columns);
    char name[48];
    int  threads = b->machine[row->machine].threads;
    rows_text(r, "\n%s, %d thread%s, time per operation in a run of %d token%s:\n",
              bench_row_name(row, name), threads, plural(threads), row->tokens,
              plural(row->tokens));
    r->indent = 2;
    rows_table(r, "profile", &table);
    for (size_t i = 0; i < row->n_ops; i++) {
        const tblock_profile_row *op = &row->op[i];
        OpRates                   x  = bench_op_rates(b, row, op);
        rows_row(r, &table,
                 (Cell[]){ v_text(op->name), v_count(op->calls / (uint64_t)row->profile_runs),
                           v_real(1e3 * x.seconds), v_real(x.seconds), v_real(x.share),
                           known(x.gb_per_s), known(x.gop_per_s), known(x.roof_share) },
                 NULL);
    }
    rows_table_end(r, "profile");
}

static const Column row_columns[] = {
    { "what", "", -18, 0, UNIT_NONE, NULL },
    { "threads", "threads", 7, 0, UNIT_NONE, NULL },
    JSON_COLUMN("tokens"), JSON_COLUMN("depth"), JSON_COLUMN("repeats"),
    { "tokens_per_s", "tokens/s", 8, 0, UNIT_SPEED, NULL },
    { NULL, "least .. most", 15, 0, UNIT_NONE, NULL },
    { "tokens_per_s_least", "", 0, 0, UNIT_SPEED, NULL },
    { "tokens_per_s_most", "", 0, 0, UNIT_SPEED, NULL },
    JSON_COLUMN("bytes"), JSON_COLUMN("operations"),
    { "gb_per_s", "GB/s", 6, 0, UNIT_SPEED, NULL },
    { "read_share", "% read", 6, 0, UNIT_SHARE, NULL },
    JSON_COLUMN("in_cache"),
    { "gop_per_s", "GOP/s", 6, 0, UNIT_SPEED, NULL },
    { "peak_share", "% peak", 6, 0, UNIT_SHARE, NULL },
};
static const Table row_table = TABLE_OF(row_columns);

/* In JSON an object with its profile. */
static void bench_row(Rows *r, const char *key, const Bench *b, const BenchRow *row)
{
    const Rates x = bench_rates(b, row);
    const Cell  read = known(x.read_share);
    char        name[48], slow[32], fast[32], range[80];
    snprintf(range, sizeof range, "%s .. %s", real_spell(x.least, UNIT_SPEED, slow, sizeof slow),
             real_spell(x.most, UNIT_SPEED, fast, sizeof fast));
    const Cell cell[] = {
        v_shown(v_text(row->decode ? "decode" : "prefill"), bench_row_name(row, name)),
        v_int(b->machine[row->machine].threads),
        v_int(row->tokens),
        v_int(row->depth),
        v_int(row->repeats),
        v_real(x.tokens_per_s),
        v_text(range),
        v_real(x.least),
        v_real(x.most),
        v_real(row->bytes),
        v_real(row->operations),
        v_real(x.gb_per_s),
        x.in_cache ? v_shown(read, "cache") : read,
        v_flag(x.in_cache),
        v_real(x.gop_per_s),
        known(x.peak_share),
    };
    if (r->face == FACE_TEXT) {
        rows_row(r, &row_table, cell, NULL);
        return;
    }
    rows_open(r, key, '{');
    rows_cells(r, &row_table, cell);
    if (b->args->profile)
        profile_rows(r, b, row);
    rows_close(r, '}');
}

/* "decode": the first row of the kind */
static void first_json(Rows *r, const char *key, const Bench *b, bool decode)
{
    for (int i = 0; i < b->n_rows; i++)
        if (b->row[i].decode == decode) {
            bench_row(r, key, b, &b->row[i]);
            return;
        }
    rows_put(r, key, v_text(NULL));
}

/* Why a row says "cache". */
static void cache_text(Rows *r, const Bench *b)
{
    double weights = 1e-6 * (double)b->info.bytes_per_token, cache = 1e-6 * (double)b->cache_bytes;
    bool   any     = false;
    for (int i = 0; i < b->n_rows; i++)
        any |= bench_rates(b, &b->row[i]).in_cache;
    if (any && weights <= cache)
        rows_text(r,
                  "cache: the weights of a token (%.2f MB) fit in the last-level cache (%.1f MB),\n"
                  "so the read bandwidth of memory does not bound decode.\n",
                  weights, cache);
    else if (any)
        rows_text(
            r, "cache: faster than memory can be read, so much of the data comes from a cache.\n");
}

bool bench_print(const Bench *b, bool complete, tblock_error *err)
{
    Rows r    = OUTPUT_ROWS(b->args->json, 8);
    bool json = b->args->json;
    if (b->n_machines == 0)
        return true;
    rows_open(&r, NULL, '{');
    if (json) {
        header_json(&r, b, complete);
        first_json(&r, "prefill", b, false);
        first_json(&r, "decode", b, true);
        machines_json(&r, b);
    } else {
        header_text(&r, b);
    }
    rows_table(&r, "rows", &row_table);
    for (int i = 0; i < b->n_rows; i++)
        bench_row(&r, NULL, b, &b->row[i]);
    rows_table_end(&r, "rows");
    rows_close(&r, '}');
    if (!json)
        cache_text(&r, b);
    for (int i = 0; !json && b->args->profile && i < b->n_rows; i++)
        profile_rows(&r, b, &b->row[i]);
    return output_rows(&r, err);
}
