/* tests/unit/rank_group.h: ranks of a test. They are threads, each with a model and contexts of its
 * own; the test is rank 0. */
#ifndef RANK_GROUP_H
#define RANK_GROUP_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"

enum { MOST = 7 };

typedef struct Group {
    int       size;
    Ranks     rank[MOST];
    pthread_t thread[MOST];
    Error     error[MOST];
    bool      good[MOST];
    const char *folder;       /* NULL, or where the last rank works */
    bool      ends;           /* the last rank leaves at once */
} Group;

typedef struct Member { Group *group; int rank; } Member;

static inline void *be_rank(void *arg)
{
    Member *m    = arg;
    bool    last = m->rank == m->group->size - 1;
    if (last && m->group->folder && (unshare(CLONE_FS) != 0 || chdir(m->group->folder) != 0))
        abort();
    if (last && m->group->ends)
        ranks_free(&m->group->rank[m->rank]);
    else
        m->group->good[m->rank] = ranks_follow(&m->group->rank[m->rank], &m->group->error[m->rank]);
    free(m);
    return NULL;
}

static inline bool group_start(Group *g, int size, Error *err)
{
    g->size = size;
    if (!ranks_in_process(g->rank, size, err))
        return false;
    for (int i = 1; i < size; i++) {
        Member *m = malloc(sizeof *m);
        *m        = (Member){ g, i };
        pthread_create(&g->thread[i], NULL, be_rank, m);
    }
    return true;
}

/* Did all follow to the end? */
static inline bool group_end(Group *g)
{
    bool good = true;
    if (!g->rank[0].error.status)
        ranks_dismiss(&g->rank[0]);
    for (int i = 1; i < g->size; i++) {
        pthread_join(g->thread[i], NULL);
        good &= g->good[i];
    }
    for (int i = 0; i < g->size; i++)
        ranks_free(&g->rank[i]);
    return good;
}

#endif
