/* ranks/ranks.h: tensor parallelism: several processes run one model. Each ("rank", from 0) owns
 * rows of every matrix, and they exchange what they computed. Here is which rank owns which share,
 * and the interface to the transport of the exchanges. It does not know models. */
#ifndef RANKS_RANKS_H
#define RANKS_RANKS_H

#include <pthread.h>
#include <stdint.h>
#include "base/error.h"

/* ---- What carries the exchanges -------------------------------------------------------------- */

/* Two gathers may be in flight at a time, one on each of two ways (channels). */
enum { RANKS_WAYS = 2 };

/* Every rank makes the same calls in the same order, one at a time. A call that fails (a rank
 * died, or stopped all) fills *err; all later ones fail too. */
typedef struct RanksCalls {
    /* Starts a gather. Rank i has data + at[i] .. data + at[i + 1], and gets the others' parts;
     * with `all` false only rank 0 gets them. at [size + 1] ascends. Neither may change until
     * finish. away: the rank computes before it calls finish, while the gather continues. */
    bool (*gather)(void *carrier, int way, void *data, const size_t *at, bool all, bool away,
                   Error *err);
    /* Completes the gather of this way: the other parts have arrived. patient, here and below: it
     * may take hours until the others call; else they are in the same pass. */
    bool (*finish)(void *carrier, int way, bool patient, Error *err);
    /* Broadcasts rank 0's data [n_bytes]. No gather is in flight. */
    bool (*broadcast)(void *carrier, void *data, size_t n_bytes, bool patient, Error *err);
    /* Aborts the calls of all ranks, with a message for rank 0. Any thread may call it. */
    void (*stop)(void *carrier, const char *why);
    void (*leave)(void *carrier);  /* frees this rank's end */
} RanksCalls;

/* One rank's end of a carrier (transport). local: how many of the `size` ranks are on this machine.
 * slow: a gather of many bytes takes so long that this rank should compute meanwhile. */
typedef struct RanksCarrier {
    int rank, size, local; bool slow; const RanksCalls *calls; void *carrier;
} RanksCarrier;

/* Totals of the exchanges so far. bytes: of whole vectors, all ranks' parts together. */
typedef struct RanksCount { uint64_t gathers, gathered_bytes, broadcasts, broadcast_bytes; }
    RanksCount;

typedef struct tblock_ranks Ranks;
struct tblock_ranks {
    int               rank, size, local; /* local: ranks on this machine */
    bool              slow;        /* RanksCarrier, of any rank */
    const RanksCalls *calls;
    void             *carrier;
    RanksCount        count;
    Error             error;       /* of the first call that failed; status 0: none did */
    pthread_mutex_t   speaks;      /* held by the thread that talks to the other ranks */
    int               n_named;     /* objects that rank 0 has numbered, the same on all ranks */
};

/* ---- ranks.c --------------------------------------------------------------------------------- */

/* *r takes over c->carrier. */
void ranks_init(Ranks *r, const RanksCarrier *c);
void ranks_free(Ranks *r);         /* accepts a zeroed one */

/* The calls above. After a failure they do nothing and return false; r->error says why. */
bool ranks_start(Ranks *r, int way, void *data, const size_t *at, bool all, bool away);
bool ranks_finish(Ranks *r, int way, bool patient);
bool ranks_gather(Ranks *r, void *data, const size_t *at, bool all, bool patient); /* both */
bool ranks_broadcast(Ranks *r, void *data, size_t n_bytes, bool patient);
void ranks_stop(Ranks *r, const char *why);

/* Threads of one rank take turns. All other ranks join in what the thread with the turn
 * does. */
void ranks_begin(Ranks *r);
void ranks_end(Ranks *r);

/* first .. end - 1 */
typedef struct Range { int first, end; } Range;
/* A rank's share of n units, divided as among threads. */
Range ranks_share(int rank, int size, int n);

/* ---- ranks_threads.c ------------------------------------------------------------------------- */

/* Ranks in one process, each used by a thread of its own: for tests, and for programs that try how
 * a model is divided. They exchange by copying. Fills rank [size]; fails with SYSTEM. */
bool ranks_in_process(Ranks *rank, int size, Error *err);

enum { RANKS_MOST = 256 };

/* ---- ranks_plugin.c -------------------------------------------------------------------------- */

/* The plug-in libtblock-mpi.so (mpi/ranks_mpi.c) exports one function. Its name has the number of
 * this interface, so that a plug-in for another one is rejected. */
typedef bool (*RanksConnect)(RanksCarrier *out, Error *err);
#define RANKS_CONNECT ranks_carrier_2

/* Has mpirun started this process as one of several? */
bool ranks_started(void);

/* If so: loads the plug-in, joins the others. Fails with SYSTEM (no plug-in, another version). */
bool ranks_join(Ranks *r, Error *err);

#endif
