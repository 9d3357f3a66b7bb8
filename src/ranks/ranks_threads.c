/* ranks/ranks_threads.c: ranks that are threads of one process. */
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What they share. `here` counts the ranks that arrived at the present meeting. */
typedef struct Room {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             size, here, users;
    unsigned        met;
    Error           stopped;   /* status 0: not */
    struct Seat    *seat;      /* [size] */
    void           *data[];    /* [size]: of the present call */
} Room;

typedef struct Seat { Room *room; int rank; } Seat;

/* All ranks arrive before any goes on. */
static bool meet(Room *m, Error *err)
{
    pthread_mutex_lock(&m->lock);
    unsigned now = m->met;
    if (!m->stopped.status && ++m->here == m->size) {
        m->here = 0;
        m->met++;
        pthread_cond_broadcast(&m->changed);
    }
    while (!m->stopped.status && m->met == now)
        pthread_cond_wait(&m->changed, &m->lock);
    bool met = m->met != now;
    if (!met)
        fail(err, m->stopped.status, "%s", m->stopped.msg);
    pthread_mutex_unlock(&m->lock);
    return met;
}

static bool gather(void *carrier, void *data, const size_t *at, bool all, bool patient, Error *err)
{
    const Seat *s = carrier;
    Room       *m = s->room;
    (void)patient; /* a thread that waits for a condition takes no time */
    m->data[s->rank] = data;
    if (!meet(m, err))
        return false;
    for (int i = 0; i < m->size && (all || s->rank == 0); i++)
        if (i != s->rank)
            memcpy((char *)data + at[i], (const char *)m->data[i] + at[i], at[i + 1] - at[i]);
    return meet(m, err); /* before that, others read this rank's part */
}

static bool broadcast(void *carrier, void *data, size_t n_bytes, bool patient, Error *err)
{
    const Seat *s = carrier;
    Room       *m = s->room;
    (void)patient;
    m->data[s->rank] = data;
    if (!meet(m, err))
        return false;
    if (s->rank != 0)
        memcpy(data, m->data[0], n_bytes);
    return meet(m, err);
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

/* Who leaves ends the calls of those that stay. The last one frees the room. */
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
    static const RanksCalls calls = { gather, broadcast, stop, leave };
    if (!check_range("ranks", size, 1, RANKS_MOST, err))
        return false;
    Room *m    = calloc(1, sizeof *m + (size_t)size * sizeof *m->data);
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
        seat[i] = (Seat){ m, i };
        ranks_init(&rank[i], &(RanksCarrier){ i, size, size, &calls, &seat[i] });
    }
    return true;
}
