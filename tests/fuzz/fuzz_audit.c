/* tests/fuzz/fuzz_audit.c: any bytes as a line of a log to audit. The texts of one that is read are
 * computed with a small model. */
#include "small_model.h"
#include "tblock_tools.h"

/* The first few: what is said agrees with itself. */
static void compute(const tblock_audit_log *log)
{
    enum { FEW = 4 };
    Error                    e = { 0 };
    size_t                   n;
    const tblock_audit_text *text = tblock_audit_log_texts(log, &n);
    tblock_audit_row         row[FEW];
    n = n < FEW ? n : FEW;
    claim(tblock_audit(small_context, text, n, NULL, row, &e));
    for (size_t i = 0; i < n; i++) {
        claim((row[i].verdict == TBLOCK_AUDIT_FITS) == (row[i].why[0] == 0));
        claim(row[i].verdict == TBLOCK_AUDIT_FAILED || row[i].n_drawn == 0 || row[i].tokens);
        if (row[i].tokens)
            touch(row[i].tokens, row[i].n_drawn * sizeof *row[i].tokens);
        tblock_free(row[i].tokens);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error e = { 0 };
    small_open((tblock_context_options){ .n_ctx = 12, .n_seqs = 2 });
    const tblock_sampler_options claimed = { .temp = 0.8F, .top_k = 40, .top_p = 0.95 };
    char             *line = exact_copy(bytes, n);
    tblock_audit_log *log  = tblock_audit_log_new(small_model, &claimed, n & 3, &e);
    claim(log != NULL);
    if (said(tblock_audit_log_add(log, line, n, "line 1", &e), &e))
        compute(log);
    tblock_audit_log_free(log);
    free(line);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "audit"); }
#endif
