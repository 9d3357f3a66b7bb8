/* base/affinity.h: the physical cores in this process's affinity mask, and threads pinned to
 * them. */
#ifndef BASE_AFFINITY_H
#define BASE_AFFINITY_H

#include <stdbool.h>

/* The number of physical cores that this process may run on, at least 1. */
int affinity_count(void);

typedef struct Affinity Affinity; /* one CPU of each of those cores, ascending */

Affinity *affinity_new(void);     /* NULL: no memory, or the mask is not readable */
void      affinity_free(Affinity *a); /* accepts NULL */

/* Pins this thread to core number `core`. False if there is no such core or the system forbids
 * it. */
bool affinity_pin(const Affinity *a, int core);

/* Pins this thread until affinity_leave, which restores the thread's earlier mask. */
void affinity_enter(Affinity *a, int core);
void affinity_leave(Affinity *a);

#endif
