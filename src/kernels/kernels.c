/* kernels/kernels.c: the kernel tables, one for each instruction set, and the choice among them. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/lanes/scalar.h"

#include "kernels/bodies/math.h"

/* isa*.c, compiled for each instruction set of this build, weakest first. Each table starts as a
 * copy of the one before. */
#define DECLARE(id, name) void kernels_fill_##name(Kernels *k);
#define FILL(id, name)    kernels_fill_##name,
ISA_LIST(DECLARE)
static void (*const fills[ISA_COUNT])(Kernels *k) = { ISA_LIST(FILL) };

static Kernels        tables[ISA_COUNT]; /* those that run here, weakest first */
static int            n_tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A stronger set overwrites the kernels that it improves and keeps the others. */
static void fill_tables(void)
{
    for (Isa i = 0; i < ISA_COUNT; i++) {
        if (!cpu_runs(i))
            continue;
        if (n_tables > 0)
            tables[n_tables] = tables[n_tables - 1];
        tables[n_tables].id  = i;
        tables[n_tables].isa = isa_name(i);
        fills[i](&tables[n_tables++]);
    }
}

const Kernels *kernels_table(int i)
{
    pthread_once(&once, fill_tables);
    return i >= 0 && i < n_tables ? &tables[i] : NULL;
}

const Kernels *kernels_select(const char *isa, Error *err)
{
    const Kernels *k;
    char           works[64] = "auto";
    for (int i = 0; (k = kernels_table(i)) != NULL; i++) {
        if (isa && strcmp(isa, k->isa) == 0)
            return k;
        size_t n = strlen(works);
        snprintf(works + n, sizeof works - n, ", %s", k->isa);
    }
    if (!isa || strcmp(isa, "auto") == 0)
        return cpu_choose(tables, (size_t)n_tables, sizeof *tables, ISA_COUNT);
    fail(err, USAGE,
         "isa: expected one that this processor and this build support (%s), found '%s'", works,
         isa);
    return NULL;
}

/* v_exp for one number, with the same steps. */
float kernels_expf(float x)
{
    if (x != x)
        return x;
    if (x < EXP_LOW)
        return 0.0f;
    if (x > EXP_HIGH)
        return INFINITY;
    float z = fmaf(x, LOG2E, EXP_ROUND), n = z - EXP_ROUND;
    float r = fmaf(n, -LN2_LOW, fmaf(n, -LN2_HIGH, x));
    float p = fmaf(fmaf(fmaf(fmaf(EXP_6, r, EXP_5), r, EXP_4), r, EXP_3), r, EXP_2);
    p       = fmaf(fmaf(p, r, 1.0f), r, 1.0f);
    return f32_from(f32_bits(p) + (f32_bits(z) << 23));
}
