/* bench_draft: the cost of a draft: the lookup in texts of several lengths, and a batch of 1 ..
 * 16 tokens compared with one token.
 *   bench_draft [MODEL [THREADS]]
 * Without a model it measures only the lookup. Medians. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/roofline.h"
#include "runtime/sampler.h"
#include "tblock.h"
#include "timing.h"

enum { REPEATS = 9, MAX_TEXT = 1 << 17, MOST = 16, PROMPT = 64 };

/* Tokens with the frequencies of words: the share of rank r falls as 1 / r (Zipf). */
static void fill(int32_t *ids, size_t n, int vocab)
{
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        double u = (double)(s >> 8) * 0x1p-24, rank = 1;
        for (double k = u * 11.8; k > 0 && rank < vocab; k -= 0.6931471805599453)
            rank *= 1 + (k < 0.6931471805599453 ? k / 0.6931471805599453 : 1);
        ids[i] = (int32_t)rank;
    }
}

static void measure_lookup(void)
{
    static int32_t     ids[MAX_TEXT], out[MOST];
    const DraftOptions o = { .min_match = 2, .max_match = 16, .window = MAX_TEXT };
    fill(ids, MAX_TEXT, 128000);
    for (size_t n = 1024; n <= MAX_TEXT; n *= 8) {
        double t[REPEATS];
        size_t found = 0;
        for (int i = 0; i < REPEATS; i++) {
            double start = clock_seconds();
            for (size_t j = 0; j < 64; j++)
                found += draft_ngram(ids, n - j, &o, out, MOST) > 0;
            t[i] = (clock_seconds() - start) / 64;
        }
        printf("lookup in %6zu tokens: %8.2f us, %.0f%% found something\n", n,
               1e6 * median(t, REPEATS), 100.0 * (double)found / (64 * REPEATS));
    }
}

static void measure_batches(tblock_context *c)
{
    static const int sizes[] = { 1, 2, 3, 4, 5, 6, 8, 12, 16 };
    tblock_item      item[PROMPT];
    tblock_error     err;
    double           one = 0;
    for (int j = 0; j < PROMPT; j++)
        item[j] = (tblock_item){ .pos = j, .token = j };
    if (!tblock_decode(c, item, PROMPT, &err))
        return;
    for (int s = -1; s < (int)(sizeof sizes / sizeof *sizes); s++) {
        int    n = s < 0 ? 1 : sizes[s]; /* the first touches the pages */
        double t[REPEATS];
        for (int j = 0; j < n; j++)
            item[j] = (tblock_item){ .pos = PROMPT + j, .token = j, .want_logits = true };
        for (int i = 0; i < REPEATS; i++) {
            double start = clock_seconds();
            if (!tblock_seq_rewind(c, 0, PROMPT, &err) || !tblock_decode(c, item, (size_t)n, &err))
                return;
            t[i] = clock_seconds() - start;
        }
        double seconds = median(t, REPEATS);
        one = n == 1 ? seconds : one;
        if (s >= 0)
            printf("batch of %2d: %8.2f ms, %.2f times one\n", n, 1e3 * seconds, seconds / one);
    }
}

int main(int argc, char **argv)
{
    char cpu[128];
    machine_name(cpu, sizeof cpu);
    printf("%s, medians of %d\n", cpu, REPEATS);
    measure_lookup();
    if (argc < 2)
        return 0;
    tblock_error           err = { 0 };
    tblock_model          *m = tblock_open(argv[1], NULL, &err);
    tblock_context_options o = { .n_ctx = 256, .threads = argc > 2 ? atoi(argv[2]) : 0 };
    tblock_context        *c = m ? tblock_context_new(m, &o, &err) : NULL;
    if (c)
        measure_batches(c);
    else
        fprintf(stderr, "bench_draft: %s\n", err.msg);
    tblock_context_free(c);
    tblock_close(m);
    return c ? 0 : err.status;
}
