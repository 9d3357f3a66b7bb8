/* ranks/ranks.c: calls to the other ranks, with totals; keeps the first failure. */
#include "ranks/ranks.h"

#include "base/threads.h"

void ranks_init(Ranks *r, const RanksCarrier *c)
{
    *r = (Ranks){ .rank = c->rank, .size = c->size, .local = c->local, .slow = c->slow,
                  .calls = c->calls, .carrier = c->carrier };
    pthread_mutex_init(&r->speaks, NULL); /* a default mutex cannot fail */
}

void ranks_free(Ranks *r)
{
    if (!r->calls)
        return;
    r->calls->leave(r->carrier);
    pthread_mutex_destroy(&r->speaks);
    *r = (Ranks){ 0 };
}

bool ranks_start(Ranks *r, int way, void *data, const size_t *at, bool all, bool away)
{
    if (r->error.status || !r->calls->gather(r->carrier, way, data, at, all, away, &r->error))
        return false;
    r->count.gathers++;
    r->count.gathered_bytes += at[r->size] - at[0];
    return true;
}

bool ranks_finish(Ranks *r, int way, bool patient)
{
    return !r->error.status && r->calls->finish(r->carrier, way, patient, &r->error);
}

bool ranks_gather(Ranks *r, void *data, const size_t *at, bool all, bool patient)
{
    return ranks_start(r, 0, data, at, all, false) && ranks_finish(r, 0, patient);
}

bool ranks_broadcast(Ranks *r, void *data, size_t n_bytes, bool patient)
{
    if (r->error.status || !r->calls->broadcast(r->carrier, data, n_bytes, patient, &r->error))
        return false;
    r->count.broadcasts++;
    r->count.broadcast_bytes += n_bytes;
    return true;
}

void ranks_stop(Ranks *r, const char *why) { r->calls->stop(r->carrier, why); }

void ranks_begin(Ranks *r) { pthread_mutex_lock(&r->speaks); }
void ranks_end(Ranks *r) { pthread_mutex_unlock(&r->speaks); }

Range ranks_share(int rank, int size, int n)
{
    Range share;
    threads_share((Team){ .thread = rank, .n_threads = size }, n, &share.first, &share.end);
    return share;
}
