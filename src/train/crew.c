/* train/crew.c: opens threads, kernels and BLAS, and hands out pieces of work. */
#include "train/train_ops.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"

bool crew_open(Crew *c, int threads, Error *err)
{
    *c = (Crew){ .threads = threads > 0 ? threads : threads_default() };
    if (!(c->k = kernels_select(NULL, err)) || !blas_open(&c->blas, err)
        || (c->threads = blas_reserve(&c->blas, c->threads, err)) == 0)
        return false;
    c->pool = threads_pool_new(c->threads, false);
    return true;
}

void crew_close(Crew *c)
{
    threads_pool_free(c->pool);
    blas_close(&c->blas);
    free(c->scratch);
    free(c->partial);
    *c = (Crew){ 0 };
}

/* Makes *p at least `times` * want floats, without keeping its content. Each thread's part is a
 * multiple of 16 floats, so that no two threads write to one cache line. */
static bool grow(float **p, size_t *have, size_t times, size_t want, Error *err)
{
    size_t each = round_up(want, 16), n_bytes;
    if (*have >= want)
        return true;
    if (want > SIZE_MAX / 8 || !mul_size(each, times, &n_bytes)
        || !mul_size(n_bytes, sizeof(float), &n_bytes))
        return fail(err, SYSTEM, "out of memory for training: the sizes overflow");
    free(*p);
    *p    = aligned_alloc(64, n_bytes);
    *have = *p ? each : 0;
    return *p
        ? true
        : fail(err, SYSTEM, "out of memory for training: %zu MB of work space", n_bytes >> 20);
}

bool crew_reserve(Crew *c, size_t scratch_floats, size_t partial_floats, Error *err)
{
    return grow(&c->scratch, &c->scratch_floats, (size_t)c->threads, scratch_floats, err)
        && grow(&c->partial, &c->partial_floats, 1, partial_floats, err);
}

typedef struct Each {
    const Crew *crew;
    atomic_int  next;
    int         n;
    CrewTask    task;
    void       *arg;
} Each;

/* Threads take the next piece when they are free. The order does not matter: pieces are
 * independent. */
static void take_pieces(void *arg, Team team)
{
    Each  *e       = arg;
    float *scratch = e->crew->scratch + (size_t)team.thread * e->crew->scratch_floats;
    for (int i; (i = atomic_fetch_add_explicit(&e->next, 1, memory_order_relaxed)) < e->n;)
        e->task(e->arg, i, scratch);
}

void crew_each(const Crew *c, int n, CrewTask task, void *arg)
{
    Each e = { .crew = c, .n = n, .task = task, .arg = arg };
    atomic_init(&e.next, 0);
    threads_pool_run(c->pool, n < c->threads ? n : c->threads, take_pieces, &e);
}

typedef struct SharedTask {
    size_t    n, size;
    PieceTask task;
    void     *arg;
} SharedTask;

static void call_piece(void *arg, int i, float *scratch)
{
    const SharedTask *cut   = arg;
    size_t     first = (size_t)i * cut->size, rest = cut->n - first;
    (void)scratch;
    cut->task(cut->arg, first, (int)(rest < cut->size ? rest : cut->size));
}

void crew_cut(const Crew *c, size_t n, size_t size, PieceTask task, void *arg)
{
    SharedTask cut = { n, size, task, arg };
    crew_each(c, pieces(n, size), call_piece, &cut);
}
