/* base/threads.c: a pool of POSIX threads, and a barrier that spins for a short time and then
 * sleeps on a futex. docs/engine.md ("Threads") says why we have our own. */
#include "base/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/cpu.h"
#include "base/file.h"
#include "base/fp_env.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/sound.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- Waiting --------------------------------------------------------------------------------- */

enum {
    LINE        = 64,            /* distance between data that two threads write */
    SPIN_MOST   = 50000,         /* ns; the cost of sleeping and waking (bench_threads.c) */
    SPIN_LEAST  = 1000,          /* ns; covers most operations of a tiny model */
    SPIN_LOST   = 200000,        /* ns between two clock reads: we lost the processor */
    STACK_BYTES = 512 << 10      /* for callbacks; our own data are in scratch memory */
};

/* How one member waits at one kind of gate. Spinning is for short waits: its time doubles after
 * a short wait and halves after a long one. So on a busy machine it becomes very short. */
typedef struct Patience {
    int64_t spin_ns, slept_ns;
} Patience;

/* A number that one thread increases and others wait for. */
typedef struct Gate {
    _Alignas(LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} Gate;

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#else
    __asm__ volatile("yield");
#endif
}

static bool opened(Gate *g, uint32_t old)
{
    return atomic_load_explicit(&g->value, memory_order_acquire) != old;
}

/* Spins for at most spin_ns. Did the gate open? *waited: ns since start. */
static bool spin(Gate *g, uint32_t old, int64_t spin_ns, int64_t start, int64_t *waited)
{
    for (int64_t last = 0;; last = *waited) {
        for (int i = 0; i < 16; i++) {
            if (opened(g, old))
                return true;
            relax();
        }
        *waited = clock_ns() - start;
        if (*waited >= spin_ns || *waited - last > SPIN_LOST)
            return false;
    }
}

/* Sequentially consistent, here and in gate_open: either the opener sees the sleeper, or the
 * sleeper sees that the gate is open. */
static void sleep_until_open(Gate *g, uint32_t old)
{
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) == old) /* the kernel compares again before sleeping */
        syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

/* hurry: sleep at once. Spinning would only keep the processor from the member we wait for. */
static void gate_wait(Gate *g, uint32_t old, Patience *p, bool hurry)
{
    if (opened(g, old))
        return;
    int64_t start = clock_ns(), waited = 0;
    if (hurry || !spin(g, old, p->spin_ns, start, &waited)) {
        sleep_until_open(g, old);
        waited = clock_ns() - start;
        p->slept_ns += waited;
    }
    int64_t next = waited <= 2 * SPIN_MOST ? 2 * p->spin_ns : p->spin_ns / 2;
    p->spin_ns   = next > SPIN_MOST ? SPIN_MOST : next < SPIN_LEAST ? SPIN_LEAST : next;
}

static void gate_open(Gate *g, uint32_t value)
{
    atomic_store(&g->value, value);
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- The barrier ----------------------------------------------------------------------------- */

typedef struct TeamMember {
    Gate        go;              /* opened for each team with this member */
    Patience    idle, at_barrier;
    ThreadPool *pool;
    pthread_t   thread;
    uint32_t    seen;            /* value of `go` when the thread was made */
    int         number;
    _Atomic int cpu;             /* its processor at its last barrier */
} TeamMember;

typedef struct Barrier {
    _Alignas(LINE) _Atomic int arrived;
    Gate    all;
    TeamMember *member;
} Barrier;

/* Counts one member in. The last one opens the gate. `round` is the gate's value before. */
static bool arrive(Barrier *b, int n_threads, uint32_t round)
{
    if (atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel) + 1 < n_threads)
        return false;
    atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
    gate_open(&b->all, round + 1);
    return true;
}

/* Does this member keep another from running? Yes, if that one was on the same processor when it
 * last arrived. */
static bool in_the_way(const Barrier *b, Team team, int cpu)
{
    for (int i = 0; i < team.n_threads; i++)
        if (i != team.thread
            && atomic_load_explicit(&b->member[i].cpu, memory_order_relaxed) == cpu)
            return true;
    return false;
}

void threads_barrier(Team team)
{
    if (team.n_threads == 1)
        return;
    Barrier *b     = team.barrier;
    int      cpu   = sched_getcpu();
    atomic_store_explicit(&b->member[team.thread].cpu, cpu, memory_order_relaxed);
    /* Fixed until this member arrives. */
    uint32_t round = atomic_load_explicit(&b->all.value, memory_order_relaxed);
    if (!arrive(b, team.n_threads, round))
        gate_wait(&b->all, round, &b->member[team.thread].at_barrier, in_the_way(b, team, cpu));
}

void threads_share(Team team, int n, int *first, int *end)
{
    /* the first `more` members own one unit more */
    int each = n / team.n_threads, more = n % team.n_threads;
    *first = each * team.thread + (team.thread < more ? team.thread : more);
    *end = *first + each + (team.thread < more);
}

/* ---- The pool -------------------------------------------------------------------------------- */

/* While no team runs (threads_pool_is_sound): member 0 is the thread that uses the pool, members 1
 * .. n_made have threads, of process `pid`; so n_made < most. Each waits at its own gate `go` and
 * writes nothing until that opens. All that arrived at the barrier have left it, and every patience
 * is within its limits. */
struct ThreadPool {
    Barrier  barrier;
    void   (*fn)(void *arg, Team team); /* the current team's task; NULL: end */
    void    *arg;
    int      n_members;
    int      most, n_made;       /* possible members; threads made (1 .. n_made) */
    pid_t    pid;                /* of the process that has the threads */
    Affinity *cores;             /* where threads are pinned; NULL: nowhere */
    TeamMember   member[];
};

bool threads_pool_is_sound(const ThreadPool *p)
{
    bool sound = p->n_made >= 0 && p->n_made < p->most && p->barrier.member == p->member
        && atomic_load(&p->barrier.arrived) == 0;
    for (int i = 0; sound && i < p->most; i++) {
        const TeamMember *m = &p->member[i];
        sound = m->pool == p && m->number == i && m->idle.spin_ns >= SPIN_LEAST
            && m->idle.spin_ns <= SPIN_MOST && m->at_barrier.spin_ns >= SPIN_LEAST
            && m->at_barrier.spin_ns <= SPIN_MOST;
    }
    return sound;
}

FP_ENV_WORK
static void run_member(void (*fn)(void *arg, Team team), void *arg, Team team)
{
    FpEnv old = fp_env_enter();
    fn(arg, team);
    fp_env_leave(old);
}

static void *serve(void *arg)
{
    TeamMember     *m = arg;
    ThreadPool *p = m->pool;
    if (p->cores)
        affinity_pin(p->cores, m->number);
    for (uint32_t seen = m->seen;; seen++) {
        gate_wait(&m->go, seen, &m->idle, false);
        if (!p->fn)
            return NULL;
        int n = p->n_members; /* may change once this member has arrived */
        run_member(p->fn, p->arg, (Team){ m->number, n, &p->barrier });
        arrive(&p->barrier, n, atomic_load_explicit(&p->barrier.all.value, memory_order_relaxed));
    }
}

/* A new thread inherits its creator's mask. Block all signals but faults, whose handlers run on
 * the faulting thread. */
static void block_signals(sigset_t *before)
{
    static const int fault[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
    sigset_t         set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++)
        sigdelset(&set, fault[i]);
    pthread_sigmask(SIG_SETMASK, &set, before);
}

/* Creates threads for a team of n, or as many as the system allows. */
static void make_threads(ThreadPool *p, int n)
{
    pthread_attr_t attr;
    sigset_t       before;
    if (pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    block_signals(&before);
    while (p->n_made + 1 < n) {
        TeamMember *m = &p->member[p->n_made + 1];
        m->seen   = atomic_load_explicit(&m->go.value, memory_order_relaxed);
        if (pthread_create(&m->thread, &attr, serve, m) != 0) {
            p->most = p->n_made + 1; /* do not try again for each team */
            break;
        }
        p->n_made++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

static void reset(ThreadPool *p, int most)
{
    p->most = most;
    p->n_made = 0;
    p->pid = getpid();
    atomic_init(&p->barrier.arrived, 0);
    p->barrier.all = (Gate){ 0 };
    p->barrier.member = p->member;
    for (int i = 0; i < most; i++)
        p->member[i] = (TeamMember){ .pool = p,
                                     .number = i,
                                     .idle = { .spin_ns = SPIN_MOST },
                                     .at_barrier = { .spin_ns = SPIN_MOST } };
}

ThreadPool *threads_pool_new(int n_threads, bool pin)
{
    int         n = n_threads < 1 ? 1 : n_threads;
    ThreadPool *p = aligned_alloc(LINE, sizeof *p + (size_t)n * sizeof *p->member);
    if (!p)
        return NULL;
    reset(p, n);
    p->cores = pin && n > 1 ? affinity_new() : NULL;
    ASSERT_SOUND(threads_pool_is_sound(p));
    return p;
}

void threads_pool_free(ThreadPool *p)
{
    if (!p)
        return;
    p->fn = NULL;
    for (int i = 1; p->pid == getpid() && i <= p->n_made; i++) {
        gate_open(&p->member[i].go,
                  atomic_load_explicit(&p->member[i].go.value, memory_order_relaxed) + 1);
        pthread_join(p->member[i].thread, NULL);
    }
    affinity_free(p->cores);
    free(p);
}

static double take_slept(ThreadPool *p, int n)
{
    int64_t ns = 0;
    for (int i = 0; i < n; i++) {
        ns += p->member[i].at_barrier.slept_ns;
        p->member[i].at_barrier.slept_ns = 0;
    }
    return 1e-9 * (double)ns;
}

double threads_pool_run(ThreadPool *p, int n_threads, void (*fn)(void *arg, Team team), void *arg)
{
    int n = p && n_threads > 1 ? n_threads : 1;
    if (n > 1 && p->pid != getpid())
        reset(p, p->most);
    if (n > 1 && (n = n < p->most ? n : p->most) > p->n_made + 1) {
        make_threads(p, n);
        n = p->n_made + 1 < n ? p->n_made + 1 : n;
    }
    if (n <= 1) {
        run_member(fn, arg, (Team){ 0, 1, NULL });
        return 0;
    }
    p->fn = fn;
    p->arg = arg;
    p->n_members = n;
    if (p->cores)
        affinity_enter(p->cores, 0);
    for (int i = 1; i < n; i++)
        gate_open(&p->member[i].go,
                  atomic_load_explicit(&p->member[i].go.value, memory_order_relaxed) + 1);
    Team team = { 0, n, &p->barrier };
    run_member(fn, arg, team);
    threads_barrier(team);
    if (p->cores)
        affinity_leave(p->cores);
    ASSERT_SOUND(threads_pool_is_sound(p));
    return take_slept(p, n);
}

void threads_run(int n_threads, void (*fn)(void *arg, Team team), void *arg)
{
    ThreadPool *p = n_threads > 1 ? threads_pool_new(n_threads, false) : NULL;
    threads_pool_run(p, n_threads, fn, arg);
    threads_pool_free(p);
}

int threads_default(void)
{
    int n = affinity_count(), quota = cpu_count_quota("");
    return quota && quota < n ? quota : n;
}

/* Runs everything that reads them. */
void threads_hold_system(void)
{
    file_hold_system(true);
    affinity_free(affinity_new());
    (void)threads_default(), (void)cpu_count_nodes(""), (void)memory_available("");
    file_hold_system(false);
}
