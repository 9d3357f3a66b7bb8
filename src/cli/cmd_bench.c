/* tblock bench: plan, measure, show. */
#include "bench.h"
#include "frame.h"
#include "tblock_tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { USUAL_PREFILL = 512, SHORT = 16, LONG = 2048, MOST_TOKENS = 1 << 20 };

/* ---- Plan ------------------------------------------------------------------------------------ */

/* A list of numbers from 0 on; 0 alone means none. */
static bool read_prefill(CountList *c, const char *text, tblock_error *err)
{
    if (strcmp(text, "0") == 0)
        return true;
    return counts_read(c, "prefill", text, 1, MOST_TOKENS, err);
}

/* The default of each list: as far as the model's context goes. */
static void fill_in(Bench *b)
{
    int n_ctx = b->info.n_ctx, room = n_ctx - b->args->decode;
    if (!b->args->prefill)
        b->prefill = (CountList){ { n_ctx < USUAL_PREFILL ? n_ctx : USUAL_PREFILL }, 1 };
    if (!b->args->depth && b->args->decode > 0) {
        b->depth = (CountList){ { room < SHORT ? 0 : SHORT }, 1 };
        if (room >= LONG)
            b->depth.value[b->depth.n++] = LONG;
    }
}

static bool read_lists(Bench *b, tblock_error *err)
{
    const BenchArgs *a = b->args;
    if (a->depth && a->decode == 0)
        return fail(err, TBLOCK_USAGE, "--depth: expected decode to be measured, found --decode 0");
    if (a->decode == 0 && a->prefill && strcmp(a->prefill, "0") == 0)
        return fail(err, TBLOCK_USAGE, "--prefill 0 and --decode 0: expected at most one of "
                                           "them, since both leave nothing to measure");
    return (!a->prefill || read_prefill(&b->prefill, a->prefill, err))
        && (!a->depth || counts_read(&b->depth, "depth", a->depth, 0, MOST_TOKENS, err))
        && counts_read(&b->threads, "threads", a->threads, 0, 1024, err);
}

/* A measurement takes minutes: report an output that cannot be written before it. */
static bool check_output(const char *option, const char *path, tblock_error *err)
{
    struct stat a;
    if (!path)
        return true;
    if (stat(path, &a) == 0) {
        if (S_ISDIR(a.st_mode))
            return fail(err, TBLOCK_SYSTEM, "--%s: %s: expected a file, found a folder", option,
                        path);
        return true;
    }
    const char *slash = strrchr(path, '/');
    char        folder[4096];
    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
                 slash ? path : ".")
        >= (int)sizeof folder)
        return fail(err, TBLOCK_SYSTEM, "--%s: %s: %s", option, path, strerror(ENAMETOOLONG));
    if (stat(folder, &a) != 0)
        return fail(err, TBLOCK_SYSTEM, "--%s: %s: %s", option, path, strerror(errno));
    return S_ISDIR(a.st_mode)
        || fail(err, TBLOCK_SYSTEM, "--%s: %s: %s", option, path, strerror(ENOTDIR));
}

/* The file of --csv is opened before the sandbox. */
static bool bench_hold(Frame *f, tblock_error *err)
{
    const BenchArgs *a       = f->args;
    const bool       sandbox = f->compute.sandbox;
    return guarded_place(a->csv, sandbox, err)
        && (!sandbox || !a->csv || (f->writable = bench_csv_open(a->csv, err)) >= 0);
}

static bool plan(Bench *b, Frame *f, tblock_error *err)
{
    const BenchArgs *a = b->args;
    if (a->csv && a->svg && (strcmp(a->csv, a->svg) == 0 || path_same_file(a->csv, a->svg)))
        return fail(err, TBLOCK_USAGE, "--csv and --svg: expected two files, found %s for both",
                    a->csv);
    b->cache_bytes = bench_cache_bytes();
    if (!read_lists(b, err) || !check_output("csv", a->csv, err)
        || !check_output("svg", a->svg, err) || !frame_files(f, err) || !frame_model(f, err)
        || !frame_apart(f, a->csv, NULL, err) || !frame_apart(f, a->svg, NULL, err)
        || (a->csv && !bench_csv_check(f->writable, a->csv, err)))
        return false;
    b->model = f->model;
    b->info  = f->info;
    fill_in(b);
    b->row = calloc((size_t)b->threads.n * (size_t)(b->prefill.n + b->depth.n), sizeof *b->row);
    return b->row || no_memory(NULL, err);
}

/* ---- Show ------------------------------------------------------------------------------------ */

bool bench_plot(const Bench *b, const char *path, tblock_error *err)
{
    char               title[512], roof_name[COUNTS_MOST][32],
        (*point_name)[48] = calloc((size_t)b->n_rows + 1, sizeof *point_name);
    tblock_roof        roof[COUNTS_MOST];
    tblock_roof_point *point = calloc((size_t)b->n_rows + 1, sizeof *point);
    size_t             n = 0;
    bool               good = point && point_name ? true : no_memory(NULL, err);
    for (int i = 0; good && i < b->n_machines; i++) {
        const tblock_machine *m = &b->machine[i];
        snprintf(roof_name[i], sizeof roof_name[i], "%d thread%s, %s", m->threads,
                 m->threads == 1 ? "" : "s", bench_peak(b, i).name);
        roof[i] = (tblock_roof){ roof_name[i], m->read_gb_per_s, bench_peak(b, i).gop_per_s };
    }
    for (int i = 0; good && i < b->n_rows; i++) {
        const BenchRow *r = &b->row[i];
        Rates rates = bench_rates(b, r);
        char  name[48];
        snprintf(point_name[i], sizeof point_name[i], "%.36s%s", bench_row_name(r, name),
                 r->decode && rates.in_cache ? " (cache)" : "");
        if (r->bytes > 0 && r->operations > 0)
            point[n++] = (tblock_roof_point){ point_name[i], (size_t)r->machine,
                                              r->operations / r->bytes, rates.gop_per_s };
    }
    snprintf(title, sizeof title, "%.200s (%s) on %s, %s", path_name(b->args->model),
             b->info.weight_types, b->machine[0].cpu, b->computing.isa);
    good = good && tblock_roofline_plot(path, title, roof, (size_t)b->n_machines, point, n, err);
    free(point);
    free(point_name);
    return good;
}

/* The numbers first: they remain if a file cannot be written. */
static bool show(Bench *b, Frame *f, tblock_error *err)
{
    const BenchArgs *a = b->args;
    int              fd = f->writable;
    if (!bench_print(b, true, err) || !output_flush(err))
        return false;
    f->writable = -1;
    if (a->csv && ((fd < 0 && (fd = bench_csv_open(a->csv, err)) < 0)
                   || !bench_csv_append(b, fd, a->csv, err)))
        return false;
    return !a->svg || bench_plot(b, f->out[0].path, err);
}

static bool bench(Frame *f, tblock_error *err)
{
    Bench b    = { .args = f->args };
    bool  good = plan(&b, f, err);
    if (good) {
        interrupt_catch();
        good = bench_measure(&b, err);
        if (good)
            good = show(&b, f, err);
        else if (err->status == CLI_INTERRUPTED)
            bench_print(&b, false, err);
    }
    if (f->writable >= 0)
        close(f->writable);
    free(b.row);
    return good;
}

#define AT(field) offsetof(BenchArgs, field)
static const Option options[] = {
    { "prefill", 0, "LIST", OPT_TEXT, AT(prefill), 0, 0, NULL,
      "prompt lengths, such as 128,512; 0: none; default: 512, or the model's context if that is "
      "less" },
    { "decode",  'n', "N", OPT_INT, AT(decode), 0, MOST_TOKENS, "32",
      "tokens decoded one by one in a run; 0: none" },
    { "depth",   'd', "LIST", OPT_TEXT, AT(depth), 0, 0, NULL,
      "positions in the KV cache before them, such as 0,8192; default: 16 and 2048 if the context "
      "is long enough" },
    { "threads", 't', "LIST", OPT_TEXT, AT(threads), 0, 0, "0",
      "numbers of threads, such as 1,2,4; 0: one per physical core, fewer for a tiny model" },
    { "repeats", 'r', "N", OPT_INT, AT(repeats), 1, BENCH_REPEATS, "5",
      "timings of each row; the median is reported" },
    { "seconds",  0,  "X", OPT_FLOAT, AT(seconds), 0, 1e6, "20",
      "time limit of a row: no new timing starts after it, and slow decoding uses fewer tokens" },
    { "read-mb",  0,  "N", OPT_INT, AT(read_mb), 1, 1 << 20, "1610",
      "amount of memory for measuring the read bandwidth" },
    { "profile",  0,  NULL, OPT_FLAG, AT(profile), 0, 0, NULL,
      "also print the time of each operation of the block" },
    OPTION_JSON(AT(json), "print one JSON object instead of the table"),
    { "csv",      0,  "FILE", OPT_TEXT, AT(csv), 0, 0, NULL, "append the rows to this file" },
    { "svg",      0,  "FILE", OPT_TEXT, AT(svg), 0, 0, NULL, "write a roofline plot" },
    { 0 },
};
const Command cmd_bench = {
    { "bench", OPERANDS(OPERAND_MODEL(AT(model))),
      GROUPS({ "Options", options, 0 },
             { "Computing", compute_options + COMPUTE_SIZES, AT(compute) },
             GROUP_GENERAL(AT(general))) },
    "measure a model's speed and compare it with the limits of the machine",
    "Measures prefill and decode, and in the same run what the machine can do: its read bandwidth, "
    "which limits decode, and the peak of the arithmetic in use, which limits prefill. Reports "
    "medians, with the slowest and the fastest timing. Decode counts the bytes of weights and KV "
    "cache. Ctrl-C ends it, prints the rows that are complete and writes no file. docs/bench.md "
    "explains each number.",
    EXAMPLES({ "tblock bench model.bin", "prefill of 512 tokens, decode after 16 and after 2048" },
             { "tblock bench model.bin --threads 1,2,4 --prefill 128,512,2048 --svg roof.svg",
               "compare lengths and threads in a plot" },
             { "tblock bench model.bin --profile --depth 8192",
               "see where the time goes in a long context" }),
    .args_size = sizeof(BenchArgs), .run = bench, .writes = { "svg" }, .hold = bench_hold,
};
