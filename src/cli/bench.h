/* cli/bench.h: what bench measures and prints. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/command.h"
#include "tblock.h"
#include "tblock_tools.h"

/* ---- bench_numbers.c ------------------------------------------------------------------------- */

/* Lists of counts, and summaries of repeated measurements. */

enum { COUNTS_MOST = 16 };
typedef struct CountList { int value[COUNTS_MOST]; int n; } CountList;

/* Read "16,2048": 1 to COUNTS_MOST numbers from min to max. Fails (TBLOCK_USAGE) naming the
 * option. */
bool counts_read(CountList *c, const char *option, const char *text, int min, int max,
                 tblock_error *err);
int  counts_largest(const CountList *c); /* 0 for none */

/* Of n >= 1 seconds, which it sorts; the median of an even number is the mean of the middle two. */
typedef struct Spread { double median, least, most; } Spread;
Spread spread_of(double *seconds, int n);

/* How often to repeat something that takes so many seconds, 1 to 10^6, so that one reading of the
 * clock spans at least TIMING_SECONDS. */
#define TIMING_SECONDS 0.05
int repetitions(double seconds);

/* ---- bench ----------------------------------------------------------------------------------- */

/* The parts of tblock bench: what is measured (bench_measure.c) and how it is shown (bench_rows.c,
 * bench_csv.c). */

typedef struct BenchArgs {
    const char    *model, *prefill, *depth, *threads, *csv, *svg;
    int            decode, repeats, read_mb;
    double         seconds;
    bool           json, profile;
    ComputeOptions compute;
    GeneralOptions general;
} BenchArgs;

enum { BENCH_REPEATS = 99, BENCH_OPS = 16 };

/* One length with one number of threads. A run is `tokens` tokens, in one batch (prefill) or one by
 * one (decode). */
typedef struct BenchRow {
    bool               decode;
    int                tokens, depth;   /* depth: positions in the cache before a run; 0: prefill */
    int                machine;         /* index of the machine limits it is compared with */
    int                repeats;         /* timings that `seconds` summarizes */
    Spread             seconds;         /* of a run */
    double             bytes;           /* of a run: weights once per call, the KV cache as far as
                                         * it is read */
    double             operations;      /* of a run's matrix products: a multiply-add is 2 */
    size_t             n_ops;           /* --profile: of profile_runs runs */
    int                profile_runs;
    tblock_profile_row op[BENCH_OPS];
} BenchRow;

typedef struct Bench {
    const BenchArgs    *args;
    CountList           prefill, depth, threads; /* n 0: none of that kind */
    tblock_model       *model;
    tblock_model_info   info;
    tblock_context_info computing;
    size_t              cache_bytes;             /* of the largest cache; 0: unknown */
    tblock_machine      machine[COUNTS_MOST];    /* one per number of threads */
    int                 n_machines;
    BenchRow           *row;
    int                 n_rows, step, n_steps;
} Bench;

/* Measure everything: limits and rows of each number of threads. On Ctrl-C (CLI_INTERRUPTED) and
 * other failures complete rows remain. */
bool bench_measure(Bench *b, tblock_error *err);

/* ---- What the numbers come to ---------------------------------------------------------------- */

/* The arithmetic limit of a run; gop_per_s 0: unknown for this ISA. */
typedef struct Peak { double gop_per_s; const char *name, *why; } Peak;
Peak bench_peak(const Bench *b, int machine);

/* Shares: 0: unknown. in_cache: the bytes come from a cache, so read_share is unknown: the weights
 * of a token fit the last-level cache, or the rate is far over the memory's. */
typedef struct Rates {
    double tokens_per_s, least, most, gb_per_s, read_share, gop_per_s, peak_share; bool in_cache;
} Rates;
Rates bench_rates(const Bench *b, const BenchRow *r);

/* Bytes of this processor's largest cache; 0: unknown. Opens files: call it before a sandbox. */
size_t bench_cache_bytes(void);

/* One operation of a profile. roof_share: time that bandwidth and peak would allow / time taken; 0:
 * nothing is counted for it, or a limit is unknown. */
typedef struct OpRates { double share, seconds, gb_per_s, gop_per_s, roof_share; } OpRates;
OpRates bench_op_rates(const Bench *b, const BenchRow *r, const tblock_profile_row *op);

/* "prefill 512", "decode after 2048" */
const char *bench_row_name(const BenchRow *r, char out[48]);

/* ---- Showing them ---------------------------------------------------------------------------- */

/* The table, or JSON; nothing before a machine was measured. */
bool bench_print(const Bench *b, bool complete, tblock_error *err);

/* Fails (TBLOCK_USAGE) if the file exists and its columns are not those of bench_csv_append.
 * open_as: its descriptor; -1: not open. */
bool bench_csv_check(int open_as, const char *path, tblock_error *err);
/* Open for bench_csv_append, which closes it; -1: failed. */
int  bench_csv_open(const char *path, tblock_error *err);
bool bench_csv_append(const Bench *b, int fd, const char *path, tblock_error *err);

bool bench_plot(const Bench *b, const char *path, tblock_error *err);

#endif
