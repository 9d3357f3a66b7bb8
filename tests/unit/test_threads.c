#include "base/threads.c" /* what is inside a pool */

#include <fenv.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sanitized.h"
#include "test.h"

static void shares_tile_the_units_in_order(void)
{
    for (int n_threads = 1; n_threads <= 9; n_threads++)
        for (int n = 0; n <= 40; n++) {
            int at = 0, smallest = INT_MAX, largest = 0;
            for (int t = 0; t < n_threads; t++) {
                int first, end;
                threads_share((Team){ .thread = t, .n_threads = n_threads }, n, &first, &end);
                CHECK(first == at && end >= first, "%d units, member %d of %d: %d to %d", n, t,
                      n_threads, first, end);
                at = end;
                smallest = end - first < smallest ? end - first : smallest;
                largest = end - first > largest ? end - first : largest;
            }
            CHECK(at == n && largest - smallest <= 1, "%d units over %d: %d to %d", n, n_threads,
                  smallest, largest);
        }
    int first, end;
    threads_share((Team){ .thread = 6, .n_threads = 7 }, INT_MAX, &first, &end);
    CHECK(end == INT_MAX && first == INT_MAX / 7 * 6 + INT_MAX % 7, "%d to %d", first, end);
}

typedef struct Seen {
    _Atomic int calls[64], n_threads, before, wrong;
} Seen;

static void see(void *arg, Team team)
{
    Seen *s = arg;
    s->calls[team.thread]++;
    s->n_threads = team.n_threads;
    for (int round = 1; round <= 50; round++) {
        s->before++;
        threads_barrier(team);
        if (s->before != round * team.n_threads)
            s->wrong++;
        threads_barrier(team);
    }
}

static void every_member_runs_once_and_waits_at_barriers(void)
{
    for (int n = -1; n <= 7; n++) {
        Seen s = { 0 };
        threads_run(n, see, &s);
        CHECK(s.n_threads >= 1 && s.n_threads <= (n < 1 ? 1 : n), "asked %d, got %d", n,
              s.n_threads);
        for (int t = 0; t < 64; t++)
            CHECK(s.calls[t] == (t < s.n_threads), "member %d of %d ran %d times", t, s.n_threads,
                  s.calls[t]);
        CHECK(s.wrong == 0, "%d members passed a barrier early", s.wrong);
    }
}

static void count_calls(void *arg, Team team)
{
    (void)team;
    ++*(_Atomic int *)arg;
}

static void nest(void *arg, Team team)
{
    (void)team;
    threads_run(1, count_calls, arg);
}

static void a_team_of_one_may_run_inside_a_team(void)
{
    _Atomic int calls = 0;
    threads_run(3, nest, &calls);
    CHECK(calls >= 1 && calls <= 3, "%d calls", calls);
}

static void arithmetic(void *arg, Team team)
{
    (void)team;
    volatile float one = 1, tiny = 0x1p-24f, small = 0x1p-140f, up = one + tiny;
    if (up != 1.0f || small * 0.5f != 0x1p-141f)
        ++*(_Atomic int *)arg;
}

static void members_round_to_nearest_and_keep_subnormals(void)
{
    _Atomic int wrong = 0;
    threads_run(3, arithmetic, &wrong);
    CHECK(wrong == 0, "%d members", wrong);
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    unsigned csr = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(csr | 0x8040); /* flush to zero, denormals are zero */
#endif
    threads_run(1, arithmetic, &wrong);
    threads_run(3, arithmetic, &wrong);
#if defined(__x86_64__)
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(csr);
    CHECK((after & 0xE040) == (0xC040 & 0xE040), "the caller's MXCSR became %x", after);
#endif
    CHECK(fegetround() == FE_UPWARD, "the caller's rounding was not restored");
    fesetround(FE_TONEAREST);
    CHECK(wrong == 0, "%d members after the caller changed its environment", wrong);
}

static void the_default_is_between_one_and_the_allowed_cpus(void)
{
    int       n = threads_default();
    cpu_set_t set, one;
    CHECK(n >= 1, "%d", n);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    CHECK(n <= CPU_COUNT(&set), "%d of %d", n, CPU_COUNT(&set));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) {
            CPU_SET(i, &one);
            break;
        }
    if (sched_setaffinity(0, sizeof one, &one) == 0) {
        CHECK(threads_default() == 1, "%d with one CPU allowed", threads_default());
        sched_setaffinity(0, sizeof set, &set);
    }
}

static void a_pool_serves_teams_of_any_size(void)
{
    static const int size[] = { 5, 2, 1, 3, 5, 9, -1, 4 };
    ThreadPool      *p = threads_pool_new(5, false);
    for (int i = 0; i < 300; i++) {
        int  n = size[i % 8], most = n < 1 ? 1 : n > 5 ? 5 : n;
        Seen s = { 0 };
        threads_pool_run(p, n, see, &s);
        CHECK(s.n_threads >= 1 && s.n_threads <= most, "asked %d, got %d", n, s.n_threads);
        for (int t = 0; t < 64; t++)
            CHECK(s.calls[t] == (t < s.n_threads), "member %d of %d ran %d times", t, s.n_threads,
                  s.calls[t]);
        CHECK(s.wrong == 0, "%d members passed a barrier early", s.wrong);
    }
    threads_pool_free(p);
    threads_pool_free(threads_pool_new(7, true)); /* never used */
    threads_pool_free(NULL);
    Seen s = { 0 };
    threads_pool_run(NULL, 3, see, &s);
    CHECK(s.n_threads == 1 && s.calls[0] == 1, "no pool: %d members", s.n_threads);
}

static void sleep_at_one(void *arg, Team team)
{
    (void)arg;
    if (team.thread == 1)
        usleep(50000);
    threads_barrier(team);
}

static void members_fall_asleep_at_a_late_barrier_and_between_teams(void)
{
    ThreadPool *p = threads_pool_new(2, false);
    Seen        s = { 0 };
    for (int i = 0; i < 5; i++) {
        threads_pool_run(p, 2, see, &s);
        usleep(5000); /* long enough for a worker to sleep: it must be woken */
    }
    double slept = 0;
    for (int i = 0; i < 10 && slept <= 0.02; i++) /* less where another program had this member's
                                                   * processor meanwhile */
        slept = threads_pool_run(p, 2, sleep_at_one, NULL);
    CHECK(s.calls[0] == 5 && (s.n_threads < 2 || s.calls[1] == 5), "%d and %d", s.calls[0],
          s.calls[1]);
    CHECK(s.n_threads < 2 || (slept > 0.02 && slept < 60), "slept %g s of 0.05", slept);
    threads_pool_free(p);
}

static void look_at_signals(void *arg, Team team)
{
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    bool blocked =
        sigismember(&set, SIGINT) && sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1);
    bool faults = sigismember(&set, SIGSEGV) || sigismember(&set, SIGBUS);
    if (blocked != (team.thread > 0) || faults)
        ++*(_Atomic int *)arg;
}

static void workers_leave_signals_to_the_host(void)
{
    _Atomic int wrong = 0;
    threads_run(4, look_at_signals, &wrong);
    CHECK(wrong == 0, "%d members", wrong);
}

static void count_masks(void *arg, Team team)
{
    cpu_set_t   set;
    _Atomic int *cpus = arg;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1)
        for (int i = 0; i < CPU_SETSIZE; i++)
            cpus[i] += CPU_ISSET((size_t)i, &set) != 0;
    threads_barrier(team);
}

static void pinned_members_have_cores_of_their_own(void)
{
    cpu_set_t before, after;
    if (sched_getaffinity(0, sizeof before, &before) != 0) {
        SKIP("more processors than a cpu_set_t names");
        return;
    }
    int         cores = affinity_count(), n = cores < 4 ? cores : 4, named = 0;
    ThreadPool *p = threads_pool_new(n, true);
    for (int round = 0; round < 3; round++) {
        _Atomic int cpus[CPU_SETSIZE] = { 0 };
        threads_pool_run(p, n, count_masks, cpus);
        named = 0;
        for (int i = 0; i < CPU_SETSIZE; i++) {
            CHECK(cpus[i] <= 1, "%d members on CPU %d", cpus[i], i);
            named += cpus[i];
        }
    }
    threads_pool_free(p);
    CHECK(n == 1 || named == 0 || named == n, "%d of %d pinned", named, n); /* 0: forbidden */
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after),
          "the caller's mask was not restored");
}

/* How a child that forked after a team ran ends: 0 where its own teams work. */
static int run_in_child(ThreadPool *p)
{
    pid_t child = fork();
    if (child == 0) {
        bool ok = true;
        alarm(600); /* a child that waits for threads it does not have is killed */
        for (int i = 0; i < 3; i++) {
            Seen s = { 0 };
            threads_pool_run(p, 3, see, &s);
            ok = ok && s.n_threads == 3 && s.calls[0] == 1 && s.calls[2] == 1 && s.wrong == 0;
        }
        threads_pool_free(p);
        _exit(ok ? 0 : 5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

static void a_forked_child_makes_threads_of_its_own(void)
{
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    SKIP("ThreadSanitizer ends a child that makes threads");
    return;
#endif
#endif
    ThreadPool *p = threads_pool_new(3, false);
    Seen        s = { 0 };
    threads_pool_run(p, 3, see, &s);
    int status = run_in_child(p);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || s.n_threads < 3),
          "the child ended with %x", (unsigned)status);
    pid_t child = fork();
    if (child == 0) {
        threads_pool_free(p); /* unused in the child */
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child that only frees ended with %x",
          (unsigned)status);
    threads_pool_run(p, 3, see, &s); /* the parent's are as they were */
    CHECK(s.calls[0] == 2 && s.calls[s.n_threads - 1] == 2, "%d calls", s.calls[0]);
    threads_pool_free(p);
}

/* In a child process, whose limits are its own. */
static void a_limit_on_memory_gives_fewer_threads(void)
{
#if SANITIZED
    SKIP("the sanitizer needs the whole address space");
    return;
#endif
    char self[512], command[600];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = 0;
    snprintf(command, sizeof command, "ulimit -v 25000; '%s' --crowd", self);
    int status = system(command);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
}

static int crowd(void)
{
    ThreadPool *p = threads_pool_new(60, false);
    bool        ok = true;
    for (int i = 0; i < 3; i++) {
        Seen s = { 0 };
        threads_pool_run(p, 60, see, &s);
        ok = ok && s.n_threads > 1 && s.n_threads < 60 && s.calls[s.n_threads - 1] == 1
            && s.wrong == 0;
    }
    threads_pool_free(p);
    return ok ? 0 : 5;
}

/* ---- Other machines, as folders with /sys and /proc in them ---------------------------------- */

static char root[64];

static void new_root(void)
{
    snprintf(root, sizeof root, "/tmp/tblock-test-XXXXXX");
    if (!mkdtemp(root))
        abort();
}

static void put_file(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static void remove_root(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0)
        abort();
}

static void siblings_count_as_one_core(void)
{
    new_root();
    bool allowed[8] = { true, true, true, true, true, true, true, true };
    for (int cpu = 0; cpu < 8; cpu++) { /* CPUs 0-3 have 4-7 as siblings; 3 and 7 are not
                                         * described */
        char path[100], list[20];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        snprintf(list, sizeof list, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        if (cpu % 4 != 3)
            put_file(path, list);
    }
    CHECK(cpu_count_cores(root, allowed, 8, NULL) == 5, "%d",
          cpu_count_cores(root, allowed, 8, NULL));
    allowed[0] = allowed[1] = false; /* their siblings now stand alone */
    CHECK(cpu_count_cores(root, allowed, 8, NULL) == 5, "%d",
          cpu_count_cores(root, allowed, 8, NULL));
    allowed[4] = false;
    CHECK(cpu_count_cores(root, allowed, 8, NULL) == 4, "%d",
          cpu_count_cores(root, allowed, 8, NULL));
    put_file("/sys/devices/system/cpu/cpu6/topology/thread_siblings_list", "2-3,6-7\n");
    put_file("/sys/devices/system/cpu/cpu7/topology/thread_siblings_list", "2-3,6-7\n");
    int first[8] = { 0 }, n = cpu_count_cores(root, allowed, 8, first);
    CHECK(n == 3 && first[0] == 2 && first[1] == 3 && first[2] == 5, "%d cores: %d %d %d", n,
          first[0], first[1], first[2]);
    remove_root();
}

static void memory_nodes_are_counted(void)
{
    new_root();
    CHECK(cpu_count_nodes(root) == 1, "not told: %d", cpu_count_nodes(root));
    put_file("/sys/devices/system/node/has_memory", "0\n");
    CHECK(cpu_count_nodes(root) == 1, "one: %d", cpu_count_nodes(root));
    put_file("/sys/devices/system/node/has_memory", "0-1,4\n");
    CHECK(cpu_count_nodes(root) == 3, "three: %d", cpu_count_nodes(root));
    remove_root();
}

#define MEMORY(expected, what)                                                                     \
    CHECK(memory_available(root) == (expected), what ": %.0f", memory_available(root))

static void memory_is_what_groups_leave(void)
{
    new_root();
    MEMORY(0, "not told");
    put_file("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 7 kB\nMemAvailable:    1000 kB\n");
    MEMORY(1024000, "no group");
    put_file("/proc/self/cgroup", "0::/a/b\n");
    put_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file("/sys/fs/cgroup/a/b/memory.current", "5000\n");
    MEMORY(1024000, "no limit");
    put_file("/sys/fs/cgroup/a/b/memory.max", "100000\n");
    MEMORY(95000, "a limit");
    put_file("/sys/fs/cgroup/a/b/memory.stat", "anon 9\ninactive_file 1000\nactive_file 3000\n");
    MEMORY(99000, "cached files");
    put_file("/sys/fs/cgroup/a/memory.max", "50000\n");
    put_file("/sys/fs/cgroup/a/memory.current", "49000\n");
    MEMORY(1000, "a group above");
    put_file("/sys/fs/cgroup/memory.max", "50\n");
    put_file("/sys/fs/cgroup/memory.current", "60\n");
    MEMORY(1, "nothing left");
    put_file("/proc/self/cgroup", "4:cpu:/x\n3:memory:/c\n");
    put_file("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
    put_file("/sys/fs/cgroup/memory/c/memory.usage_in_bytes", "4096\n");
    MEMORY(1024000, "version 1 without limit");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
    put_file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
    put_file("/sys/fs/cgroup/memory/memory.stat", "active_file 7\ntotal_active_file 20000\n");
    MEMORY(420000, "version 1");
    put_file("/proc/self/cgroup", "0::/d\n");
    put_file("/sys/fs/cgroup/memory.max", "max\n");
    put_file("/sys/fs/cgroup/d/memory.current", "5000\n");
    const char *const nonsense[] = { "", "\n", "much\n", "-7\n", "99999999999999999999\n",
                                     "nan\n" };
    for (int i = 0; i < (int)(sizeof nonsense / sizeof *nonsense); i++) {
        put_file("/sys/fs/cgroup/d/memory.max", nonsense[i]);
        MEMORY(1024000, "a limit of nonsense");
    }
    put_file("/sys/fs/cgroup/d/memory.max", "6000\n");
    put_file("/sys/fs/cgroup/d/memory.current", "some\n");
    MEMORY(1024000, "use of nonsense");
    put_file("/sys/fs/cgroup/d/memory.current", "5000\n");
    put_file("/sys/fs/cgroup/d/memory.stat", "inactive_file all\nactive_file 77777\nactive_file");
    MEMORY(6000, "more cached than used");
    remove_root();
}

static void cgroup_quotas_are_counted(void)
{
    new_root();
    CHECK(cpu_count_quota(root) == 0, "no cgroup: %d", cpu_count_quota(root));
    put_file("/proc/self/cgroup", "0::/a/b\n");
    CHECK(cpu_count_quota(root) == 0, "no file: %d", cpu_count_quota(root));
    put_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(cpu_count_quota(root) == 0, "max: %d", cpu_count_quota(root));
    put_file("/sys/fs/cgroup/a/b/cpu.max", "450000 100000\n");
    CHECK(cpu_count_quota(root) == 4, "4.5 CPUs: %d", cpu_count_quota(root));
    put_file("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    CHECK(cpu_count_quota(root) == 3, "a group above: %d", cpu_count_quota(root));
    put_file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    CHECK(cpu_count_quota(root) == 1, "half a CPU: %d", cpu_count_quota(root));
    put_file("/proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/x\n");
    put_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(cpu_count_quota(root) == 0, "version 1 without limit: %d", cpu_count_quota(root));
    put_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    CHECK(cpu_count_quota(root) == 2, "version 1: %d", cpu_count_quota(root));
    put_file("/proc/self/cgroup", "nonsense\n::\n0\n");
    put_file("/sys/fs/cgroup/cpu.max", "5 0\n");
    CHECK(cpu_count_quota(root) == 0, "nonsense: %d", cpu_count_quota(root));
    remove_root();
}

static void a_broken_invariant_shows(void)
{
    Seen        s = { 0 };
    ThreadPool *p = threads_pool_new(3, false);
    CHECK(p && threads_pool_is_sound(p), "a new pool");
    threads_pool_run(p, 2, see, &s);
    CHECK(s.n_threads == 2 && p->n_made == 1, "%d threads", s.n_threads);
    BREAKS(threads_pool_is_sound(p), p->n_made, 3);
    BREAKS(threads_pool_is_sound(p), p->barrier.member, NULL);
    BREAKS(threads_pool_is_sound(p), p->barrier.arrived, 1);
    BREAKS(threads_pool_is_sound(p), p->member[1].number, 2);
    BREAKS(threads_pool_is_sound(p), p->member[2].pool, NULL);
    BREAKS(threads_pool_is_sound(p), p->member[0].at_barrier.spin_ns, SPIN_MOST + 1);
    BREAKS(threads_pool_is_sound(p), p->member[2].idle.spin_ns, 0);
    threads_pool_free(p);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--crowd") == 0)
        return crowd();
    TEST_MAIN_ARGS(argc, argv);
    TEST(shares_tile_the_units_in_order);
    TEST(every_member_runs_once_and_waits_at_barriers);
    TEST(a_team_of_one_may_run_inside_a_team);
    TEST(members_round_to_nearest_and_keep_subnormals);
    TEST(a_pool_serves_teams_of_any_size);
    TEST(members_fall_asleep_at_a_late_barrier_and_between_teams);
    TEST(workers_leave_signals_to_the_host);
    TEST(pinned_members_have_cores_of_their_own);
    TEST(a_forked_child_makes_threads_of_its_own);
    TEST(a_limit_on_memory_gives_fewer_threads);
    TEST(a_broken_invariant_shows);
    TEST(the_default_is_between_one_and_the_allowed_cpus);
    TEST(siblings_count_as_one_core);
    TEST(memory_nodes_are_counted);
    TEST(cgroup_quotas_are_counted);
    TEST(memory_is_what_groups_leave);
    return TEST_END();
}
