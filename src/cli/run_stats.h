/* cli/run_stats.h: what tblock run --stats and --json tell about speed, memory and settings. */
#ifndef CLI_RUN_STATS_H
#define CLI_RUN_STATS_H

#include "tblock.h"

#include "base/report_rows.h"

typedef struct RunStats {
    double   load_s, prefill_s, decode_s;
    size_t   n_loaded;    /* tokens of a loaded state                      */
    size_t   n_prefilled; /* tokens of the prompt computed, in n_pieces calls */
    size_t   n_pieces;
    size_t   n_decoded;   /* tokens computed after it, in n_calls calls       */
    size_t   n_calls;
    bool     drafts;      /* --draft; of n_proposed tokens n_accepted were right */
    size_t   n_proposed, n_accepted;
    uint64_t seed, hash;  /* hash: of the last logits                         */
    int      memory_fd;   /* run_stats_open_memory                            */
} RunStats;

/* What run_stats_* reads of the system about this process's memory, opened before a sandbox opens nothing; -1: there is none. */
int run_stats_open_memory(void);

/* "seed": ..., "logits_hash": ..., "stats": {...} of an object that is open; as text, lines whose last one ends with the hash.
 * stopped: the reason. */
void run_stats_rows(Rows *r, const RunStats *s, const tblock_model_info *m, const tblock_context_info *c, const char *stopped);

#endif
