/* base/progress.h: the clock, and how far a long piece of work has come. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdint.h>
#include <time.h>

#include "base/error.h"

/* ---- clock ----------------------------------------------------------------------------------- */

/* Elapsed time, for measuring. The clock never jumps; its zero has no meaning. */

static inline int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double clock_seconds(void) { return 1e-9 * (double)clock_ns(); }

/* ---- progress.c ------------------------------------------------------------------------------ */

/* Reports how far a long piece of work is, and lets the caller stop it. */

/* Whom to tell and to ask, and which part of the whole this piece of work is (from 0 to 1: all of
 * it). A NULL struct, or tell and go_on NULL: nobody asked. */
typedef struct Progress {
    void (*tell)(void *user, double done);
    bool (*go_on)(void *user, double done);
    void *user;
    double from, to;
} Progress;

/* The whole of a piece of work, of public options. */
#define PROGRESS_OF(o) ((Progress){ (o)->progress, (o)->go_on, (o)->user, 0, 1 })

/* Tells that `done` of `all` of this piece is done. Call it on the thread that called the library,
 * about ten times a second at least. False: the caller stops the work (SYSTEM). */
bool progress_tell(const Progress *p, double done, double all, Error *err);

/* The part of p from `from` to `to`, each 0 .. 1. */
Progress progress_part(const Progress *p, double from, double to);

#endif
