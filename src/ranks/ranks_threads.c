/* ranks/ranks_threads.c: ranks that are threads of one process. They count as slow, so that tests
 * exercise what ranks of several machines do. */
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What they share: on each way, `here` counts the ranks that arrived at the current barrier. */
typedef struct Room {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             size, users;
    struct { int here; unsigned met; } way[RANKS_WAYS];
    Error           stopped;   /* status 0: not */
    struct Seat    *seat;      /* [size] */
} Room;

/* A rank's arguments to the current call of each way, and when it arrived. */
typedef struct Seat {
    Room *room;
    int   rank;
    struct { void *data; const size_t *at; bool gets; unsigned now; } way[RANKS_WAYS];
} Seat;

/* Counts this rank in. The others continue once it has arrived. */
static void arrive(Seat *s, int way)
{
    Room *m = s->room;
    pthread_mutex_lock(&m->lock);
    s->way[way].now = m->way[way].met;
    if (!m->stopped.status && ++m->way[way].here == m->size) {
        m->way[way].here = 0;
        m->way[way].met++;
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
}

/* All ranks arrive before any continues. */
static bool all_came(const Seat *s, int way, Error *err)
{
    Room *m = s->room;
    pthread_mutex_lock(&m->lock);
    while (!m->stopped.status && m->way[way].met == s->way[way].now)
        pthread_cond_wait(&m->changed, &m->lock);
    bool met = m->way[way].met != s->way[way].now;
    if (!met)
        fail(err, m->stopped.status, "%s", m->stopped.msg);
    pthread_mutex_unlock(&m->lock);
    return met;
}

static bool meet(Seat *s, int way, Error *err)
{
    arrive(s, way);
    return all_came(s, way, err);
}

static bool gather(void *carrier, int way, void *data, const size_t *at, bool all, bool away,
                   Error *err)
{
    Seat *s = carrier;
    (void)away, (void)err;
    s->way[way].data = data;
    s->way[way].at   = at;
    s->way[way].gets = all || s->rank == 0;
    arrive(s, way);
    return true;
}

static bool finish(void *carrier, int way, bool patient, Error *err)
{
    Seat         *s  = carrier;
    const size_t *at = s->way[way].at;
    char         *to = s->way[way].data;
    (void)patient; /* waiting for a condition takes no CPU time */
    if (!all_came(s, way, err))
        return false;
    for (int i = 0; i < s->room->size && s->way[way].gets; i++)
        if (i != s->rank)
            memcpy(to + at[i], (const char *)s->room->seat[i].way[way].data + at[i],
                   at[i + 1] - at[i]);
    return meet(s, way, err); /* before that, others read this rank's part */
}

static bool broadcast(void *carrier, void *data, size_t n_bytes, bool patient, Error *err)
{
    Seat *s = carrier;
    (void)patient;
    s->way[0].data = data;
    if (!meet(s, 0, err))
        return false;
    if (s->rank != 0)
        memcpy(data, s->room->seat[0].way[0].data, n_bytes);
    return meet(s, 0, err);
}

static void stop(void *carrier, const char *why)
{
    Room *m = ((Seat *)carrier)->room;
    pthread_mutex_lock(&m->lock);
    if (!m->stopped.status)
        fail(&m->stopped, SYSTEM, "%s", why);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

/* A rank that leaves ends the calls of the others. The last one frees the Room. */
static void leave(void *carrier)
{
    Seat *s = carrier;
    Room *m = s->room;
    char  why[64];
    snprintf(why, sizeof why, "rank %d of %d has ended", s->rank, m->size);
    stop(carrier, why);
    pthread_mutex_lock(&m->lock);
    bool last = --m->users == 0;
    pthread_mutex_unlock(&m->lock);
    if (!last)
        return;
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m->seat);
    free(m);
}

bool ranks_in_process(Ranks *rank, int size, Error *err)
{
    static const RanksCalls calls = { gather, finish, broadcast, stop, leave };
    if (!check_range("ranks", size, 1, RANKS_MOST, err))
        return false;
    Room *m    = calloc(1, sizeof *m);
    Seat *seat = calloc((size_t)size, sizeof *seat);
    if (!m || !seat) {
        free(m);
        free(seat);
        return no_memory("ranks", err);
    }
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    m->size = m->users = size;
    m->seat = seat;
    for (int i = 0; i < size; i++) {
        seat[i] = (Seat){ .room = m, .rank = i };
        ranks_init(&rank[i], &(RanksCarrier){ i, size, size, true, &calls, &seat[i] });
    }
    return true;
}
