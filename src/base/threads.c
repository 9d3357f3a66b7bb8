#include "base/threads.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/cpu_count.h"
#include "base/fp_env.h"
#include "base/platform.h"
#if defined(_OPENMP)
#include <omp.h>
#include <pthread.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- The team --------------------------------------------------------------------------------------------------- */

static void run_member(void (*fn)(void *arg, Team team), void *arg, Team team)
{
    FpEnv old = fp_env_enter();
    fn(arg, team); /* a call through a pointer: no arithmetic moves across the two switches */
    fp_env_leave(old);
}

/* A barrier of our own: libgomp's spins for milliseconds, which on a busy machine starves the very thread it waits for.
 * This one spins for some microseconds, what the stragglers of an operation need, and then sleeps. */
typedef struct Barrier {
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_int generation, sleepers;
} Barrier;

enum { SPINS_BEFORE_SLEEP = 2000 };

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#else
    __asm__ volatile("yield");
#endif
}

static void sleep_until_changed(Barrier *b, int generation)
{
#if defined(__linux__)
    atomic_fetch_add(&b->sleepers, 1);
    while (atomic_load(&b->generation) == generation) /* the kernel compares once more before it sleeps */
        syscall(SYS_futex, &b->generation, FUTEX_WAIT_PRIVATE, generation, NULL, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
#else
    while (atomic_load(&b->generation) == generation)
        sched_yield();
#endif
}

static void wake_sleepers(Barrier *b)
{
#if defined(__linux__)
    if (atomic_load(&b->sleepers) > 0)
        syscall(SYS_futex, &b->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)b;
#endif
}

void threads_barrier(Team team)
{
    if (team.n_threads == 1)
        return;
    Barrier *b          = team.barrier;
    int      generation = atomic_load(&b->generation);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == team.n_threads) {
        atomic_store(&b->arrived, 0);
        atomic_store(&b->generation, generation + 1);
        wake_sleepers(b);
        return;
    }
    for (int spin = 0; atomic_load(&b->generation) == generation; spin++) {
        if (spin == SPINS_BEFORE_SLEEP) {
            sleep_until_changed(b, generation);
            return;
        }
        relax();
    }
}

#if defined(_OPENMP)
static void *wait_for_gate(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* How many of n threads this process can have. OpenMP ends the process where it cannot create a thread (a limit on
 * processes or memory), which a library must not do to its caller: so they are created by hand once before. That is
 * sure enough with GNU's OpenMP; LLVM's reserves memory that cannot be foreseen. OpenMP keeps its threads for each
 * calling thread, and so does this its answer. */
static int possible_threads(int n)
{
    static _Thread_local int proven = 1, most = INT_MAX;
    n = n < most ? n : most;
    if (n <= proven)
        return n;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t      *thread = malloc((size_t)n * sizeof *thread);
    int             created = 0;
    pthread_mutex_lock(&gate);
    while (thread && created < n - 1 && pthread_create(&thread[created], NULL, wait_for_gate, &gate) == 0)
        created++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < created; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    if (created == n - 1)
        return proven = n;
    return most = created / 2 + 1; /* room is left for OpenMP's own tables, which may be as large as the stacks */
}
#endif

void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg)
{
#if defined(_OPENMP)
    n_threads = possible_threads(n_threads);
    if (n_threads > 1) {
        Barrier barrier = { 0 };
#pragma omp parallel num_threads(n_threads)
        run_member(fn, arg, (Team){ omp_get_thread_num(), omp_get_num_threads(), &barrier });
        return;
    }
#else
    (void)n_threads;
#endif
    run_member(fn, arg, (Team){ 0, 1, NULL });
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
