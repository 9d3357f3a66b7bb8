/* ranks/mpi/ranks_mpi.c: ranks that are processes of mpirun (Open MPI). A plug-in: the library
 * loads it if mpirun has started the program, so that nothing else needs MPI. It uses nothing of
 * the library but the interface in ranks.h.
 *
 * A rank that fails prints why in one line and ends all of them (MPI_Abort), so no call returns
 * after a failure. mpirun itself ends the others when a process dies. */
#include "ranks/ranks.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One exchange in flight. */
typedef struct Way {
    MPI_Request request;
    int         done;
    double      due;             /* it takes at least until then: a simulated slow network */
    bool        away;
    int        *count, *first;   /* [size] */
} Way;

/* MPI sends and receives only while one of its functions runs. So while this rank computes, a
 * helper thread calls one. */
typedef struct Carrier {
    int      rank, size;
    double   patience;      /* seconds to wait for others in a pass */
    double   delay, per_byte; /* of the simulated network: seconds of a message, and of a byte */
    double   free;          /* when its line has sent all earlier messages */
    MPI_Comm comm;
    Way      way[RANKS_WAYS];
    pthread_mutex_t lock;   /* of calls of MPI, and all below */
    pthread_cond_t  changed;
    pthread_t       helper;
    bool            has_helper, waits, end; /* waits: another thread is calling MPI */
    int             away;   /* exchanges that it progresses */
} Carrier;

static void stop(void *carrier, const char *why)
{
    (void)carrier;
    fflush(stdout);
    fprintf(stderr, "tblock: %s\n", why);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, SYSTEM);
}

static void nap(long us) { nanosleep(&(struct timespec){ 0, us * 1000 }, NULL); }

/* Is this exchange over? Any thread may ask. */
static bool done(Carrier *c, Way *w)
{
    pthread_mutex_lock(&c->lock);
    if (!w->done)
        MPI_Test(&w->request, &w->done, MPI_STATUS_IGNORE);
    bool is = w->done;
    pthread_mutex_unlock(&c->lock);
    return is;
}

/* bytes: what this rank receives. */
static void begin(Carrier *c, Way *w, size_t bytes)
{
    w->done = 0;
    w->due  = 0;
    if (c->delay > 0 || c->per_byte > 0) {
        double now = MPI_Wtime();
        c->free    = (c->free > now ? c->free : now) + (double)bytes * c->per_byte;
        w->due     = c->free + c->delay;
    }
}

/* Waits for an exchange: spins for some milliseconds, because the next token depends on it, then
 * sleeps. */
static void wait_for(Carrier *c, Way *w, bool patient)
{
    enum { SPINS = 256 };
    double start = MPI_Wtime();
    for (unsigned i = 0;; i++) {
        bool   is     = done(c, w);
        double waited = i >= SPINS ? MPI_Wtime() - start : 0;
        if (is && (w->due == 0 || MPI_Wtime() >= w->due))
            return;
        if (is || i < SPINS)
            continue;
        if (waited < 0.005)
            sched_yield();
        else
            nap(waited < 1 ? 50 : 1000);
        /* rank 0 times out first, so that only its line is printed */
        if (!patient && waited > c->patience + (c->rank ? 10 : 0)) {
            char why[128];
            snprintf(why, sizeof why, "rank %d of %d: no answer from the other ranks for %.0f s",
                     c->rank, c->size, c->patience);
            stop(c, why);
        }
    }
}

/* Counts of MPI are ints. */
static void check_size(Carrier *c, size_t n_bytes)
{
    if (n_bytes > INT_MAX)
        stop(c, "an exchange between ranks: expected at most 2 GB, found more");
}

static sigset_t no_signals(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

/* The helper thread: progresses exchanges that no thread waits for yet. */
static void *help(void *carrier)
{
    enum { PAUSE_US = 500 }; /* at 10 Gbit/s, 600 kB: less than a socket holds */
    Carrier *c = carrier;
    pthread_mutex_lock(&c->lock);
    while (!c->end) {
        if (c->away == 0)
            pthread_cond_wait(&c->changed, &c->lock);
        for (int i = 0; i < RANKS_WAYS && c->away; i++)
            if (!c->way[i].done && !c->waits)
                MPI_Test(&c->way[i].request, &c->way[i].done, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&c->lock);
        nap(PAUSE_US);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Without a helper an exchange progresses only while this rank waits for it. */
static void start_helper(Carrier *c)
{
    sigset_t before = no_signals();
    c->has_helper   = pthread_create(&c->helper, NULL, help, c) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool gather(void *carrier, int way, void *data, const size_t *at, bool all, bool away,
                   Error *err)
{
    Carrier *c = carrier;
    Way     *w = &c->way[way];
    (void)err;
    check_size(c, at[c->size]);
    for (int i = 0; i < c->size; i++) {
        w->first[i] = (int)at[i];
        w->count[i] = (int)(at[i + 1] - at[i]);
    }
    pthread_mutex_lock(&c->lock);
    begin(c, w, at[c->size] - (size_t)w->count[c->rank]);
    if (all)
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, w->count, w->first, MPI_BYTE, c->comm,
                        &w->request);
    else if (c->rank == 0)
        MPI_Igatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, w->count, w->first, MPI_BYTE, 0, c->comm,
                     &w->request);
    else
        MPI_Igatherv((char *)data + at[c->rank], w->count[c->rank], MPI_BYTE, NULL, NULL, NULL,
                     MPI_BYTE, 0, c->comm, &w->request);
    w->away = away;
    c->away += away;
    if (away)
        pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return true;
}

static void set_waits(Carrier *c, bool waits, int away)
{
    pthread_mutex_lock(&c->lock);
    c->waits = waits;
    c->away -= away;
    pthread_mutex_unlock(&c->lock);
}

static bool finish(void *carrier, int way, bool patient, Error *err)
{
    Carrier *c = carrier;
    Way     *w = &c->way[way];
    (void)err;
    set_waits(c, true, w->away);
    wait_for(c, w, patient);
    set_waits(c, false, 0);
    return true;
}

static bool broadcast(void *carrier, void *data, size_t n_bytes, bool patient, Error *err)
{
    Carrier *c = carrier;
    Way     *w = &c->way[0];
    (void)err;
    check_size(c, n_bytes);
    pthread_mutex_lock(&c->lock);
    begin(c, w, n_bytes);
    MPI_Ibcast(data, (int)n_bytes, MPI_BYTE, 0, c->comm, &w->request);
    pthread_mutex_unlock(&c->lock);
    wait_for(c, w, patient && c->rank > 0); /* ranks that wait for rank 0 have arrived */
    return true;
}

static void leave(void *carrier)
{
    Carrier *c = carrier;
    pthread_mutex_lock(&c->lock);
    c->end = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->has_helper)
        pthread_join(c->helper, NULL);
    MPI_Comm_free(&c->comm);
    MPI_Finalize();
    for (int i = 0; i < RANKS_WAYS; i++) {
        free(c->way[i].count);
        free(c->way[i].first);
    }
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}

static bool failed(Error *err, const char *why)
{
    err->status = SYSTEM;
    snprintf(err->msg, sizeof err->msg, "%s", why);
    return false;
}

/* Sets *value to the number in that variable, if it is set: decimal, 0 or more. */
static bool read_variable(const char *name, double *value, Error *err)
{
    const char *text = getenv(name);
    if (!text)
        return true;
    char *end;
    *value = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && strspn(text, "0123456789.") == (size_t)(end - text)
        && *end == '\0')
        return true;
    err->status = USAGE;
    snprintf(err->msg, sizeof err->msg, "%s: expected a number, 0 or more, found %.40s", name,
             *text ? text : "nothing");
    return false;
}

/* The threads that MPI starts block all signals, which the program may wait for. */
static bool start_mpi(void)
{
    int      has;
    sigset_t before = no_signals();
    bool     ok     = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &has) == MPI_SUCCESS
        && has >= MPI_THREAD_SERIALIZED;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static int on_this_machine(MPI_Comm all)
{
    MPI_Comm local;
    int      n;
    MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_size(local, &n);
    MPI_Comm_free(&local);
    return n;
}

__attribute__((visibility("default")))
bool RANKS_CONNECT(RanksCarrier *out, Error *err)
{
    static const RanksCalls calls = { gather, finish, broadcast, stop, leave };
    double patience = 60, delay = 0, rate = 0; /* s, us, Gbit/s */
    if (!read_variable("TBLOCK_RANKS_TIMEOUT", &patience, err)
        || !read_variable("TBLOCK_RANKS_DELAY", &delay, err)
        || !read_variable("TBLOCK_RANKS_RATE", &rate, err))
        return false;
    Carrier *c = calloc(1, sizeof *c);
    if (!c)
        return failed(err, "mpi: out of memory");
    c->patience = patience;
    c->delay    = delay / 1e6;
    c->per_byte = rate > 0 ? 8e-9 / rate : 0;
    if (!start_mpi()) {
        free(c);
        return failed(err, "mpi: expected an MPI that several threads may call in turn");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &c->comm); /* errors end all: the default of MPI */
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->size);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    bool roomy = true;
    for (int i = 0; i < RANKS_WAYS; i++) {
        Way *w   = &c->way[i];
        w->done  = true;
        w->count = calloc((size_t)c->size, sizeof *w->count);
        w->first = calloc((size_t)c->size, sizeof *w->first);
        roomy    = roomy && w->count && w->first;
    }
    if (!roomy) {
        leave(c);
        return failed(err, "mpi: out of memory");
    }
    int  local = on_this_machine(c->comm);
    bool slow  = local < c->size || c->delay > 0 || c->per_byte > 0;
    if (c->size > 1)
        start_helper(c); /* now, because threads of a pass may be pinned */
    *out = (RanksCarrier){ c->rank, c->size, local, slow, &calls, c };
    return true;
}
