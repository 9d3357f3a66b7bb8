/* bench_sampler: the time to draw a token from a large vocabulary, for each way of choosing.
 *   bench_sampler [VOCABULARY] [REPEATS]
 * Logits are seeded normal numbers with a standard deviation of 2.5, like those of large models,
 * and a few dozen far above the rest; "flat" ones have no such head. Prints medians in
 * microseconds. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/roofline.h"
#include "tblock.h"
#include "timing.h"

enum { MAX_REPEATS = 9999, N_PREVIOUS = 512, HEAD = 40 };

static double uniform(uint64_t *s) /* 0 < u < 1 */
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*s >> 11) + 0.5) * 0x1p-53;
}

static void fill(float *logits, int n, int head)
{
    uint64_t s = 1;
    for (int i = 0; i < n; i++) {
        double u = uniform(&s), v = uniform(&s);
        logits[i] = (float)(2.5 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
    for (int i = 0; i < head; i++)
        logits[(int)(uniform(&s) * n)] = (float)(12 + 6 * uniform(&s));
}

static double microseconds(const tblock_sampler_options *o, const float *logits, int n, int repeats)
{
    static double  t[MAX_REPEATS];
    static int32_t previous[N_PREVIOUS];
    tblock_error   err;
    int32_t        token;
    for (int i = 0; i < N_PREVIOUS; i++)
        previous[i] = (int32_t)((int64_t)i * 7919 % n);
    tblock_sampler *s = tblock_sampler_new(n, o, &err);
    for (int i = -3; s && i < repeats; i++) { /* the first three warm up */
        double start = clock_seconds();
        if (!tblock_sampler_next(s, logits, previous, N_PREVIOUS, (uint32_t)(i + 3), &token, &err))
            break;
        if (i >= 0)
            t[i] = 1e6 * (clock_seconds() - start);
    }
    tblock_sampler_free(s);
    return median(t, repeats);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; tblock_sampler_options o; } way[] = {
        { "greedy", { .temp = 0 } },
        { "greedy, repeat-penalty 1.1", { .temp = 0, .repeat_penalty = 1.1f } },
        { "top-k 40", { .temp = 1, .top_k = 40 } },
        { "temp 0.8, top-k 40, top-p 0.95", { .temp = 0.8f, .top_k = 40, .top_p = 0.95 } },
        { "top-k 5000", { .temp = 1, .top_k = 5000 } },
        { "top-p 0.95", { .temp = 1, .top_p = 0.95 } },
        { "min-p 0.05", { .temp = 1, .min_p = 0.05f } },
        { "top-p 0.95, min-p 0.05", { .temp = 1, .top_p = 0.95, .min_p = 0.05f } },
        { "temp 1", { .temp = 1 } },
        { "temp 0.8", { .temp = 0.8f } },
    };
    int n = argc > 1 ? atoi(argv[1]) : 128256, repeats = argc > 2 ? atoi(argv[2]) : 101;
    if (n < HEAD || n > 1 << 24 || repeats < 1 || repeats > MAX_REPEATS) {
        fprintf(stderr, "bench_sampler: expected a vocabulary from %d up and 1 to %d repeats\n",
                HEAD, MAX_REPEATS);
        return 2;
    }
    float *logits = malloc((size_t)n * sizeof *logits), *flat = malloc((size_t)n * sizeof *flat);
    if (!logits || !flat)
        return 4;
    fill(logits, n, HEAD);
    fill(flat, n, 0);
    char cpu[128];
    machine_name(cpu, sizeof cpu);
    printf("%s, vocabulary %d, medians of %d draws, microseconds\n%-32s %10s %10s\n", cpu, n,
           repeats, "", "peaked", "flat");
    for (size_t i = 0; i < sizeof way / sizeof *way; i++)
        printf("%-32s %10.1f %10.1f\n", way[i].name, microseconds(&way[i].o, logits, n, repeats),
               microseconds(&way[i].o, flat, n, repeats));
    free(logits);
    free(flat);
    return 0;
}
