/* runtime/team_size.h: uses fewer threads while other processes use the processors. A team waits
 * for its slowest member at every operation, so on a busy machine two threads can be a hundred
 * times slower than one. It does not ask the system for its load: it measures whether half the
 * team is faster, and uses that many. The number of threads never changes the bits. */
#ifndef RUNTIME_TEAM_SIZE_H
#define RUNTIME_TEAM_SIZE_H

/* Zeroed: starts with all threads. Regions (parallel sections) are measured in windows of some
 * milliseconds; the mean time of a region is compared between windows. */
typedef struct TeamSize {
    int    level, trial;   /* team = most >> (level + trial); trial 1: fewer, -1: more, 0: none */
    int    next;           /* the next trial's direction if both are open */
    int    n_regions;      /* in the window so far */
    double seconds, slept; /* of these regions; asleep, mean of the members */
    double mean;           /* of a region, in the last window without trial */
    double wait, pause;    /* seconds until the next trial; the last such wait */
} TeamSize;

/* How many of `most` threads the next region should use. */
int team_size(const TeamSize *s, int most);

/* Records a region of n threads (as team_size answered). slept: as threads_pool_run returns it. */
void team_size_note(TeamSize *s, int most, int n, double seconds, double slept);

#endif
