/* base/affinity.c: reads this process's affinity mask, finds its physical cores, pins threads to
 * them. */
#include "base/threads.h"

#include <sched.h>
#include <stdlib.h>

struct Affinity {
    size_t     bytes;            /* of a mask as large as the kernel's */
    cpu_set_t *before, *one;     /* the caller's mask; room for one CPU */
    bool       entered;
    int        n_cores;
    int       *cpu;              /* [n_cores]: one CPU of each core */
};

void affinity_free(Affinity *a)
{
    if (!a)
        return;
    free(a->before);
    free(a->cpu);
    free(a);
}

/* Reads this thread's mask. Fails if n_cpus is too small: the kernel rejects a mask smaller than
 * its own. */
static bool read_mask(Affinity *a, size_t n_cpus)
{
    a->bytes  = CPU_ALLOC_SIZE(n_cpus);
    a->before = malloc(2 * a->bytes);
    a->one    = a->before ? (cpu_set_t *)(void *)((char *)a->before + a->bytes) : NULL;
    if (a->before && sched_getaffinity(0, a->bytes, a->before) == 0)
        return true;
    free(a->before);
    a->before = NULL;
    return false;
}

static bool find_cores(Affinity *a, size_t n_cpus)
{
    bool *allowed = calloc(n_cpus, sizeof *allowed);
    a->cpu = malloc(n_cpus * sizeof *a->cpu);
    for (size_t i = 0; allowed && i < n_cpus; i++)
        allowed[i] = CPU_ISSET_S(i, a->bytes, a->before);
    if (allowed && a->cpu)
        a->n_cores = cpu_count_cores("", allowed, (int)n_cpus, a->cpu);
    free(allowed);
    return a->n_cores > 0;
}

Affinity *affinity_new(void)
{
    Affinity *a = calloc(1, sizeof *a);
    size_t    n = 1024;
    while (a && n <= 1 << 18 && !read_mask(a, n))
        n *= 2;
    if (a && a->before && find_cores(a, n))
        return a;
    affinity_free(a);
    return NULL;
}

int affinity_count(void)
{
    Affinity *a = affinity_new();
    int       n = a ? a->n_cores : 1;
    affinity_free(a);
    return n;
}

static bool pin_with(const Affinity *a, int core, cpu_set_t *one)
{
    if (core >= a->n_cores)
        return false;
    CPU_ZERO_S(a->bytes, one);
    CPU_SET_S((size_t)a->cpu[core], a->bytes, one);
    return sched_setaffinity(0, a->bytes, one) == 0;
}

bool affinity_pin(const Affinity *a, int core)
{
    cpu_set_t *one = malloc(a->bytes); /* not a->one: threads start concurrently */
    bool       ok  = one && pin_with(a, core, one);
    free(one);
    return ok;
}

void affinity_enter(Affinity *a, int core)
{
    a->entered = sched_getaffinity(0, a->bytes, a->before) == 0 && pin_with(a, core, a->one);
}

void affinity_leave(Affinity *a)
{
    if (a->entered)
        sched_setaffinity(0, a->bytes, a->before);
    a->entered = false;
}
