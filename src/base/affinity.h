/* base/affinity.h: the physical cores of this process's affinity mask, and threads pinned to them. */
#ifndef BASE_AFFINITY_H
#define BASE_AFFINITY_H

#include <stdbool.h>

/* Physical cores that this process may run on, at least 1. */
int affinity_count(void);

typedef struct Affinity Affinity; /* one CPU of each of those cores, ascending */

Affinity *affinity_new(void);     /* NULL: no memory, or the mask cannot be read */
void      affinity_free(Affinity *a); /* NULL is accepted */

/* Keep this thread on the core with that number; false where there is none or the system forbids it. */
bool affinity_pin(const Affinity *a, int core);

/* The same until affinity_leave, which gives this thread the mask back that it had. */
void affinity_enter(Affinity *a, int core);
void affinity_leave(Affinity *a);

#endif
