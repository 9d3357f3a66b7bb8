/* cli/now.h: time that passes, for what the program tells of its own speed. */
#ifndef CLI_NOW_H
#define CLI_NOW_H

#include <time.h>

/* Seconds on a clock that never jumps; its zero means nothing. */
static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
