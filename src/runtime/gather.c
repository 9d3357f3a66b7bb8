/* runtime/gather.c: the exchanges between ranks, all in one place. An operation that needs a whole
 * activation declares it (ops.h, touch), and it is gathered once before. All-gather only, never a
 * sum across ranks, so their number changes no bit. */
#include "runtime/ops.h"

#include <string.h>

/* ---- Halves take turns -----------------------------------------------------------------------
 *
 * The turn passes at exchanges that both halves have in common, equally many in every block. So the
 * second half only computes what the first has just computed: the keys, values and states of the
 * first are in the cache before the second needs them. The order is the same on all ranks. */

/* Waits until it is this half's turn. */
static void take_turn(const Run *r)
{
    pthread_mutex_lock(&r->turn->lock);
    while (r->turn->whose != r->half)
        pthread_cond_wait(&r->turn->changed, &r->turn->lock);
    pthread_mutex_unlock(&r->turn->lock);
}

/* Passes the turn to the other half, if that has not ended. */
static void give_turn(const Run *r, bool ends)
{
    pthread_mutex_lock(&r->turn->lock);
    if (!r->turn->ended)
        r->turn->whose = 1 - r->half;
    r->turn->ended |= ends;
    pthread_cond_signal(&r->turn->changed);
    pthread_mutex_unlock(&r->turn->lock);
}

void run_half(Run *r, void (*pass)(Run *r))
{
    if (r->team.thread == 0)
        take_turn(r);
    threads_barrier(r->team);
    pass(r);
    threads_barrier(r->team); /* what the others wrote is in the cache, too */
    if (r->team.thread == 0)
        give_turn(r, true);
}

/* The other half computes between its start and its end. */
static void gather_in_turn(Run *r, float *data, const size_t *at, bool all)
{
    const bool passes = r->turn && !r->keeps_turn;
    ranks_start(r->ranks, r->half, data, at, all, passes);
    if (passes) {
        give_turn(r, false);
        take_turn(r);
        enter(r, "exchange", 0, 0);
    }
    ranks_finish(r->ranks, r->half, false);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The number of floats that a rank contributes to the rows of the parts. */
static size_t floats_of(const Run *r, RankCut cut, const GatherPart *part, int n_parts, int rank)
{
    size_t n = 0;
    for (int i = 0; i < n_parts; i++) {
        Range own = rank_columns(&r->model->cfg, cut, part[i].width, rank, r->ranks->size);
        n += (size_t)(own.end - own.first) * (size_t)part[i].n;
    }
    return n;
}

/* The offset of each rank's part in bytes: at [size + 1]. */
static void cut_parts(const Run *r, RankCut cut, const GatherPart *part, int n_parts, size_t *at)
{
    at[0] = 0;
    for (int i = 0; i < r->ranks->size; i++)
        at[i + 1] = at[i] + floats_of(r, cut, part, n_parts, i) * sizeof(float);
}

/* Copies one rank's columns between its rows and its part of the exchange buffer, for this member's
 * share of the rows. */
static void copy_parts(const Run *r, const Act *a, RankCut cut, const GatherPart *part, int n_parts,
                       int rank, float *room, bool in)
{
    for (int i = 0; i < n_parts; i++) {
        Range  own = rank_columns(&r->model->cfg, cut, part[i].width, rank, r->ranks->size);
        size_t n   = (size_t)(own.end - own.first);
        int    first, end;
        my_share(r, part[i].n, &first, &end);
        for (int t = first; t < end; t++) {
            float *row = act_row(a, part[i].first + t) + own.first, *at = room + (size_t)t * n;
            memcpy(in ? at : row, in ? row : at, n * sizeof *row);
        }
        room += (size_t)part[i].n * n;
    }
}

static void meet(Run *r)
{
    threads_barrier(r->team);
    r->met++;
}

/* A single row is already in the order of the ranks; several are gathered in a buffer, rank by
 * rank. */
static void exchange(Run *r, Act *a, RankCut cut, const GatherPart *part, int n_parts, bool all)
{
    bool   in_place = n_parts == 1 && part->n == 1, gets = all || r->ranks->rank == 0;
    float *to = in_place ? act_row(a, part->first) : r->exchange;
    size_t at[RANKS_MOST + 1];
    cut_parts(r, cut, part, n_parts, at);
    if (!in_place)
        copy_parts(r, a, cut, part, n_parts, r->ranks->rank,
                   to + at[r->ranks->rank] / sizeof *to, true);
    meet(r);
    if (r->team.thread == 0)
        gather_in_turn(r, to, at, all);
    meet(r);
    for (int i = 0; !in_place && gets && i < r->ranks->size; i++)
        if (i != r->ranks->rank)
            copy_parts(r, a, cut, part, n_parts, i, to + at[i] / sizeof *to, false);
    a->use = (Use){ in_place ? 0 : r->met, ANYWHERE, true };
}

void gather_parts(Run *r, Act *a, RankCut cut, const GatherPart *part, int n_parts)
{
    if (!r->ranks)
        return;
    enter(r, "exchange", 0, 0);
    meet(r); /* all members have computed their part */
    exchange(r, a, cut, part, n_parts, true);
    a->spread = RANK_ALL;
}

void gather_act(Run *r, Act *a)
{
    gather_parts(r, a, a->spread, &(GatherPart){ 0, r->n_tok, a->width }, 1);
}

/* Rows that are adjacent in memory, as many at once as the buffer holds. */
void gather_logits(Run *r, size_t stride)
{
    int width = (int)stride, most = (int)(r->exchange_floats / stride);
    enter(r, "exchange", 0, 0);
    meet(r);
    for (int t = 0, n; t < r->n_tok; t += n) {
        float *x = r->token[t].logits;
        for (n = 1; x && n < most && t + n < r->n_tok; n++)
            if (r->token[t + n].logits != x + (size_t)n * stride)
                break;
        if (!x)
            continue;
        Act rows = { .data = x, .stride = stride, .width = width };
        exchange(r, &rows, RANK_PANELS, &(GatherPart){ 0, n, width }, 1, false);
        meet(r); /* the buffer is free again */
    }
}
