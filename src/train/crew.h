/* train/crew.h: whoever computes: threads, kernels and BLAS. Every operation of this room cuts its work into pieces whose number
 * depends on shapes alone, each piece is computed by one thread, and sums over pieces are taken in their order: so the bits do
 * not depend on the number of threads. They may depend on the version of OpenBLAS and on the processor, for which it
 * chooses kernels. */
#ifndef TRAIN_CREW_H
#define TRAIN_CREW_H

#include "base/threads.h"
#include "kernels/kernels.h"
#include "train/blas.h"

typedef struct Crew {
    ThreadPool    *pool;
    int            threads;
    const Kernels *k;
    Blas           blas;
    float         *scratch;        /* thread i's begins at scratch + i * scratch_floats              */
    size_t         scratch_floats;
    float         *partial;        /* sums of pieces, before they are added up                       */
    size_t         partial_floats;
} Crew;

/* threads 0: one for each physical core. Fails with SYSTEM (memory, no OpenBLAS). */
bool crew_open(Crew *c, int threads, Error *err);
void crew_close(Crew *c);           /* a zeroed Crew is accepted */

/* At least so many floats for each thread, and for partial sums. SYSTEM: no memory. Pointers into either are lost. */
bool crew_reserve(Crew *c, size_t scratch_floats, size_t partial_floats, Error *err);

/* Call task(arg, i, scratch) once for every i of 0 .. n - 1, by any thread and in any order; scratch is the thread's own. */
typedef void (*CrewTask)(void *arg, int i, float *scratch);
void crew_each(const Crew *c, int n, CrewTask task, void *arg);

/* Pieces of at most `size` units that n units are cut into; where piece i begins, how long it is. */
static inline int    pieces(size_t n, size_t size) { return (int)((n + size - 1) / size); }
static inline size_t piece_at(int i, size_t size) { return (size_t)i * size; }
static inline int    piece_length(int i, size_t n, size_t size)
{
    size_t rest = n - piece_at(i, size);
    return (int)(rest < size ? rest : size);
}

#endif
