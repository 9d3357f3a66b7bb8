/* runtime/team_size.h: fewer threads while another process has the processors. A team waits for its slowest member at every
 * operation, so on a busy machine two threads can be a hundred times slower than one. Nothing here looks at the system: the clock
 * decides between the team that was asked for and halves of it. Which threads compute what never shows in the bits. */
#ifndef RUNTIME_TEAM_SIZE_H
#define RUNTIME_TEAM_SIZE_H

/* Zeroed: start with all. Regions are measured in windows of some milliseconds; the mean of one is compared with that of another. */
typedef struct TeamSize {
    int    level, trial;   /* the team is halved `level` times; the level on trial is level + trial: 1 fewer, -1 more, 0 none */
    int    next;           /* direction that the next trial takes where both are open */
    int    n_regions;      /* of the window so far */
    double seconds, slept; /* of all of them; of the members asleep, the mean of all members */
    double mean;           /* seconds of a region in the last window without trial */
    double wait, pause;    /* seconds until the next trial; how many it was after the last one */
} TeamSize;

/* How many of `most` the next region takes. */
int team_size(const TeamSize *s, int most);

/* What a region of n members, as team_size answered, took; slept as threads_pool_run answers. */
void team_size_note(TeamSize *s, int most, int n, double seconds, double slept);

#endif
