/* base/progress.h: the clock, and the progress of long work. */
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

/* Reports the progress of long work, and lets the caller stop it. */

/* The callbacks (tell reports, go_on returns false to stop), and the part of the whole that this
 * task is (from 0 to 1: all of it). A NULL struct, or tell and go_on NULL: no callbacks. */
typedef struct Progress {
    void (*tell)(void *user, double done);
    bool (*go_on)(void *user, double done);
    void *user;
    double from, to;
} Progress;

/* The whole of a task, from public options. */
#define PROGRESS_OF(o) ((Progress){ (o)->progress, (o)->go_on, (o)->user, 0, 1 })

/* Reports that `done` of `all` of this task is done. Call it on the thread that called the library,
 * at least about ten times a second. False: the caller stops the work (SYSTEM). */
bool progress_tell(const Progress *p, double done, double all, Error *err);

/* The part of p from `from` to `to`, each 0 .. 1. */
Progress progress_part(const Progress *p, double from, double to);

#endif
