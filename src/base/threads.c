#include "base/threads.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/cpu_count.h"
#include "base/platform.h"
#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- The floating-point environment: nearest even, subnormals kept, no trap ------------------------------------- */

#if defined(__x86_64__)
typedef uint32_t FpEnv;
static FpEnv fp_env_enter(void)
{
    FpEnv old = _mm_getcsr();
    _mm_setcsr(0x1F80);
    return old;
}
static void fp_env_leave(FpEnv old) { _mm_setcsr(old); }
#else
typedef uint64_t FpEnv;
static FpEnv fp_env_enter(void)
{
    FpEnv old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return old;
}
static void fp_env_leave(FpEnv old) { __asm__ volatile("msr fpcr, %0" : : "r"(old) : "memory"); }
#endif

/* ---- The team --------------------------------------------------------------------------------------------------- */

static void run_member(void (*fn)(void *arg, Team team), void *arg, Team team)
{
    FpEnv old = fp_env_enter();
    fn(arg, team); /* a call through a pointer: no arithmetic moves across the two switches */
    fp_env_leave(old);
}

void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg)
{
#if defined(_OPENMP)
    if (n_threads > 1) {
#pragma omp parallel num_threads(n_threads)
        run_member(fn, arg, (Team){ omp_get_thread_num(), omp_get_num_threads() });
        return;
    }
#else
    (void)n_threads;
#endif
    run_member(fn, arg, (Team){ 0, 1 });
}

void threads_barrier(Team team)
{
    if (team.n_threads == 1) /* it may run inside somebody else's parallel region, which is not ours to wait for */
        return;
#if defined(_OPENMP)
#pragma omp barrier
#endif
}

void threads_share(Team team, int n, int *first, int *end)
{
    int each = n / team.n_threads, more = n % team.n_threads; /* the first `more` members own one unit more */
    *first = each * team.thread + (team.thread < more ? team.thread : more);
    *end = *first + each + (team.thread < more);
}

/* ---- How many --------------------------------------------------------------------------------------------------- */

/* The affinity mask as flags, caller frees; NULL where it cannot be read. */
static bool *allowed_cpus(int *n_cpus)
{
    for (size_t n = 1024; n <= 1 << 18; n *= 2) { /* the kernel refuses a mask smaller than its own */
        size_t     bytes = CPU_ALLOC_SIZE(n);
        cpu_set_t *set = CPU_ALLOC(n);
        bool      *allowed = set && sched_getaffinity(0, bytes, set) == 0 ? calloc(n, sizeof *allowed) : NULL;
        for (size_t i = 0; allowed && i < n; i++)
            allowed[i] = CPU_ISSET_S(i, bytes, set);
        CPU_FREE(set);
        if (allowed) {
            *n_cpus = (int)n;
            return allowed;
        }
    }
    return NULL;
}

int threads_default(void)
{
    int   n_cpus;
    bool *allowed = allowed_cpus(&n_cpus);
    int   n = allowed ? cpu_count_cores("", allowed, n_cpus) : 1;
    int   quota = cpu_count_quota("");
    free(allowed);
    if (quota && quota < n)
        n = quota;
    return n < 1 ? 1 : n;
}
