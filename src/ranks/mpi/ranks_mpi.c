/* ranks/mpi/ranks_mpi.c: ranks that are processes of mpirun (Open MPI). A plug-in: the library
 * loads it when mpirun has started the program, so that nothing else needs MPI. It uses nothing of
 * the library but the interface in ranks.h.
 *
 * A rank that cannot go on says why in one line and ends all of them (MPI_Abort); so no call
 * returns after a failure. mpirun itself ends the others when a process dies. */
#include "ranks/ranks.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct Carrier {
    int      rank, size;
    double   patience;      /* seconds to wait for others in a pass */
    double   delay;         /* seconds that an exchange takes at least: a slow network, to try */
    MPI_Comm comm;
    int     *count, *first; /* [size] */
} Carrier;

static void stop(void *carrier, const char *why)
{
    (void)carrier;
    fflush(stdout);
    fprintf(stderr, "tblock: %s\n", why);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, SYSTEM);
}

/* Waits for an exchange: with a processor for some milliseconds, because the next token hangs on
 * it, and asleep after that. */
static void wait_for(Carrier *c, MPI_Request *request, bool patient)
{
    enum { SPINS = 256 };
    double start = MPI_Wtime();
    int    done  = 0;
    for (unsigned i = 0;; i++) {
        if (!done)
            MPI_Test(request, &done, MPI_STATUS_IGNORE);
        double waited = c->delay > 0 || i >= SPINS ? MPI_Wtime() - start : 0;
        if (done && waited >= c->delay)
            return;
        if (done || i < SPINS)
            continue;
        if (waited < 0.005)
            sched_yield();
        else
            nanosleep(&(struct timespec){ 0, waited < 1 ? 50000 : 1000000 }, NULL);
        /* rank 0 is the first to lose patience, and its line the only one */
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

static bool gather(void *carrier, void *data, const size_t *at, bool all, bool patient, Error *err)
{
    Carrier    *c = carrier;
    MPI_Request request;
    (void)err;
    check_size(c, at[c->size]);
    for (int i = 0; i < c->size; i++) {
        c->first[i] = (int)at[i];
        c->count[i] = (int)(at[i + 1] - at[i]);
    }
    if (all)
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, c->count, c->first, MPI_BYTE, c->comm,
                        &request);
    else if (c->rank == 0)
        MPI_Igatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, c->count, c->first, MPI_BYTE, 0, c->comm,
                     &request);
    else
        MPI_Igatherv((char *)data + at[c->rank], c->count[c->rank], MPI_BYTE, NULL, NULL, NULL,
                     MPI_BYTE, 0, c->comm, &request);
    wait_for(c, &request, patient);
    return true;
}

static bool broadcast(void *carrier, void *data, size_t n_bytes, bool patient, Error *err)
{
    Carrier    *c = carrier;
    MPI_Request request;
    (void)err;
    check_size(c, n_bytes);
    MPI_Ibcast(data, (int)n_bytes, MPI_BYTE, 0, c->comm, &request);
    wait_for(c, &request, patient && c->rank > 0); /* those that wait for rank 0 are there */
    return true;
}

static void leave(void *carrier)
{
    Carrier *c = carrier;
    MPI_Comm_free(&c->comm);
    MPI_Finalize();
    free(c->count);
    free(c->first);
    free(c);
}

static bool failed(Error *err, const char *why)
{
    err->status = SYSTEM;
    snprintf(err->msg, sizeof err->msg, "%s", why);
    return false;
}

/* The threads that MPI starts take no signals: they are the program's, which may wait for them. */
static bool start_mpi(void)
{
    sigset_t all, before;
    int      has;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &has) == MPI_SUCCESS
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
bool ranks_carrier(RanksCarrier *out, Error *err)
{
    static const RanksCalls calls = { gather, broadcast, stop, leave };
    const char *patience = getenv("TBLOCK_RANKS_TIMEOUT"), *delay = getenv("TBLOCK_RANKS_DELAY");
    Carrier    *c = calloc(1, sizeof *c);
    if (!c)
        return failed(err, "mpi: out of memory");
    c->patience = patience ? atof(patience) : 60;
    c->delay    = delay ? atof(delay) / 1e6 : 0;
    if (!start_mpi()) {
        free(c);
        return failed(err, "mpi: expected an MPI that several threads may call in turn");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &c->comm); /* errors end all: the default of MPI */
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->size);
    c->count = calloc((size_t)c->size, sizeof *c->count);
    c->first = calloc((size_t)c->size, sizeof *c->first);
    if (!c->count || !c->first) {
        leave(c);
        return failed(err, "mpi: out of memory");
    }
    *out = (RanksCarrier){ c->rank, c->size, on_this_machine(c->comm), &calls, c };
    return true;
}
