/* tests/kernels/check.h: what the kernel tests share: the tables, outcomes, memory with guard
 * words, numbers. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "kernels/kernels.h"

enum { MAX_TABLES = 8, GUARD = 16 };

static bool quick;
static const Kernels *table[MAX_TABLES];
static int            n_tables, failures;

static void find_tables(void)
{
    for (const Kernels *k; n_tables < MAX_TABLES && (k = kernels_table(n_tables)) != NULL;)
        table[n_tables++] = k;
}

/* ---- Outcomes: the first failure of a kernel on each ISA ------------------------------------- */

static const char *current;
static char        why[MAX_TABLES][256];

static void bad(int isa, const char *fmt, ...)
{
    va_list ap;
    if (why[isa][0])
        return;
    va_start(ap, fmt);
    vsnprintf(why[isa], sizeof why[isa], fmt, ap);
    va_end(ap);
}

static void report(void)
{
    for (int i = 0; i < n_tables; i++) {
        if (why[i][0])
            printf("FAIL %s %s: %s\n", current, table[i]->isa, why[i]);
        else
            printf("ok %s %s\n", current, table[i]->isa);
        failures += why[i][0] != 0;
        why[i][0] = 0;
    }
    fflush(stdout);
}

static uint32_t canonical(float f) { return f != f ? 0x7fc00000u : f32_bits(f); }

static bool same(int isa, const char *what, int n, const float *got, const float *want,
                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (canonical(got[i]) != canonical(want[i])) {
            bad(isa, "%s, n %d: element %zu is %a, expected %a", what, n, i, (double)got[i],
                (double)want[i]);
            return false;
        }
    return true;
}

/* ---- Memory with guard words ----------------------------------------------------------------- */

static void *memory(size_t n_bytes)
{
    void *p;
    if (posix_memalign(&p, 64, n_bytes ? n_bytes : 1) != 0) {
        fprintf(stderr, "check_kernels: no memory for %zu bytes\n", n_bytes);
        exit(4);
    }
    return p;
}

static const uint32_t guard_word = 0xfee1deadu;

/* n floats that start `skew` floats behind an aligned address, all guard words, with more before
 * and after. */
static float *guarded(size_t n, size_t skew)
{
    uint32_t *p = memory((2 * GUARD + n + skew) * sizeof *p);
    for (size_t i = 0; i < 2 * GUARD + n + skew; i++)
        p[i] = guard_word;
    return (float *)(void *)p + GUARD + skew;
}
static bool untouched(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (f32_bits(p[i]) != guard_word)
            return false;
    return true;
}
static void release(int isa, const char *what, int size, float *p, size_t n, size_t skew)
{
    if (!untouched(p - GUARD - skew, GUARD + skew) || !untouched(p + n, GUARD))
        bad(isa, "%s, n %d: wrote outside its output", what, size);
    free(p - GUARD - skew);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static uint64_t seed = 1;
static uint32_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}
static int below(int n) { return (int)(draw() % (uint32_t)n); }

#endif
