/* cli/bench.h: what bench measures and prints. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/command.h"
#include "tblock.h"
#include "tblock_tools.h"

/* ---- bench_numbers.c ------------------------------------------------------------------------- */

/* Lists of counts, and what repeated measurements come to. */

enum { COUNTS_MOST = 16 };
typedef struct CountList { int value[COUNTS_MOST]; int n; } CountList;

/* Read "16,2048": 1 to COUNTS_MOST numbers from min to max. Fails (TBLOCK_USAGE) naming the
 * option. */
bool counts_read(CountList *c, const char *option, const char *text, int min, int max,
                 tblock_error *err);
int  counts_largest(const CountList *c); /* 0 for none */

/* Of n >= 1 seconds, which get sorted; the median of an even number is the mean of the two in the
 * middle. */
typedef struct Spread { double median, least, most; } Spread;
Spread spread_of(double *seconds, int n);

/* How often something that takes so many seconds is repeated for one reading of the clock, so that
 * it takes at least TIMING_SECONDS: 1 to 10^6. */
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

/* One length with one number of threads. A run is `tokens` tokens, in one piece (prefill) or one by
 * one (decode). */
typedef struct BenchRow {
    bool               decode;
    int                tokens, depth;   /* depth: positions in the cache before a run; 0 for
                                         * prefill */
    int                machine;         /* index of the limits it is held against */
    int                repeats;         /* timings that the spread is of */
    Spread             seconds;         /* of a run */
    double             bytes;           /* of a run: weights once a call, KV cache as far as it is
                                         * read */
    double             operations;      /* of a run's products: a multiply-add is 2 */
    size_t             n_ops;           /* --profile: of profile_runs runs */
    int                profile_runs;
    tblock_profile_row op[BENCH_OPS];
} BenchRow;

typedef struct Bench {
    const BenchArgs    *args;
    CountList           prefill, depth, threads; /* none of a kind: n 0 */
    tblock_model       *model;
    tblock_model_info   info;
    tblock_context_info computing;
    size_t              cache_bytes;             /* of the largest cache; 0: not known */
    tblock_machine      machine[COUNTS_MOST];    /* one for each number of threads */
    int                 n_machines;
    BenchRow           *row;
    int                 n_rows, step, n_steps;
    int                 csv;                     /* --csv with --sandbox, open since before; else
                                                  * -1 */
    Guarded             svg;
} Bench;

/* Measure all: limits and rows of each number of threads. On Ctrl-C (CLI_INTERRUPTED) and other
 * failures the rows that are complete stay. */
bool bench_measure(Bench *b, tblock_error *err);

/* ---- What the numbers come to ---------------------------------------------------------------- */

/* The limit that the arithmetic of a run has. */
/* 0: not known for this ISA */
typedef struct Peak { double gop_per_s; const char *name, *why; } Peak;
Peak bench_peak(const Bench *b, int machine);

/* Shares: 0: not known. in_cache: the bytes come from a cache, so read_share is not known: the
 * weights of a token fit the last-level cache, or the rate is far over what memory gives. */
typedef struct Rates {
    double tokens_per_s, least, most, gb_per_s, read_share, gop_per_s, peak_share; bool in_cache;
} Rates;
Rates bench_rates(const Bench *b, const BenchRow *r);

/* Bytes of this processor's largest cache; 0: not known. Opens files: call it before a sandbox. */
size_t bench_cache_bytes(void);

/* Of one operation of a profile: roof_share is the time that bandwidth and peak would allow / the
 * time it took; 0: nothing of it is counted, or a limit is not known. */
typedef struct OpRates { double share, seconds, gb_per_s, gop_per_s, roof_share; } OpRates;
OpRates bench_op_rates(const Bench *b, const BenchRow *r, const tblock_profile_row *op);

/* "prefill 512", "decode after 2048" */
const char *bench_row_name(const BenchRow *r, char out[48]);

/* ---- Showing them ---------------------------------------------------------------------------- */

/* The table, or JSON; nothing before a machine was measured. */
bool bench_print(const Bench *b, bool complete, tblock_error *err);

/* Fails (TBLOCK_USAGE) where the file exists and has other columns than bench_csv_append writes.
 * open_as: its descriptor; -1: not open. */
bool bench_csv_check(int open_as, const char *path, tblock_error *err);
/* Open for bench_csv_append, which closes it; -1: it cannot be. */
int  bench_csv_open(const char *path, tblock_error *err);
bool bench_csv_append(const Bench *b, int fd, const char *path, tblock_error *err);

bool bench_plot(const Bench *b, const char *path, tblock_error *err);

#endif
