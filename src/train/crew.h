/* train/crew.h: the threads, kernels and BLAS that compute. Every operation of this room cuts
 * its work into pieces whose number depends on shapes alone. One thread computes each piece, and
 * sums over pieces are added in their order: so the bits do not depend on the number of threads.
 * They may depend on the version of OpenBLAS, and on the processor for which it chose kernels. */
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
    float         *scratch;        /* that of thread i: scratch + i * scratch_floats */
    size_t         scratch_floats;
    float         *partial;        /* sums of pieces, before they are added */
    size_t         partial_floats;
} Crew;

/* threads 0: one for each physical core. Fails with SYSTEM (no memory, no OpenBLAS). */
bool crew_open(Crew *c, int threads, Error *err);
void crew_close(Crew *c);           /* accepts a zeroed Crew */

/* Makes room for at least so many floats per thread, and for partial sums. Fails with SYSTEM (no
 * memory). Earlier pointers into either become invalid. */
bool crew_reserve(Crew *c, size_t scratch_floats, size_t partial_floats, Error *err);

/* Calls task(arg, i, scratch) once for each i of 0 .. n - 1, on any thread, in any order.
 * scratch belongs to the thread. */
typedef void (*CrewTask)(void *arg, int i, float *scratch);
void crew_each(const Crew *c, int n, CrewTask task, void *arg);

/* How many pieces of at most `size` units n units are cut into. */
static inline int pieces(size_t n, size_t size) { return (int)((n + size - 1) / size); }

/* Calls task(arg, first, n) for each such piece: n units from number `first` on. */
typedef void (*PieceTask)(void *arg, size_t first, int n);
void crew_cut(const Crew *c, size_t n, size_t size, PieceTask task, void *arg);

#endif
