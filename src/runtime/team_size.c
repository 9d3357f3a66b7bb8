/* runtime/team_size.c: trials that compare teams of different sizes by the clock. */
#include "runtime/forward.h"

#include <stdbool.h>

/* WINDOW seconds hold a few of the kernel's time slices (3 ms). After a failed trial, the next
 * one waits until the loss is at most one part in COST of the time. */
static const double WINDOW = 0.01, CLEARLY_FASTER = 0.9, MANY_ASLEEP = 0.125, COST = 32,
                    PAUSE_MOST = 1;

static int halved(int most, int level)
{
    int n = most >> level;
    return n < 1 ? 1 : n;
}

int team_size(const TeamSize *s, int most) { return halved(most, s->level + s->trial); }

/* A trial that is clearly faster is kept. After a failed one the next trial comes later, and
 * later still if it lost much: a machine that does not change pays little. */
static void end_trial(TeamSize *s, double mean)
{
    if (mean < CLEARLY_FASTER * s->mean) {
        s->level += s->trial;
        s->mean   = mean;
        s->next   = s->trial;
        s->pause  = 0;
    } else {
        s->next      = -s->trial;
        double least = COST * (s->seconds - s->n_regions * s->mean); /* of the time lost */
        s->pause = 2 * s->pause + WINDOW < PAUSE_MOST ? 2 * s->pause + WINDOW : PAUSE_MOST;
        s->pause = s->pause < least ? least : s->pause;
    }
    s->wait  = s->pause;
    s->trial = 0;
}

/* Tries fewer threads if members sleep, more if some are unused. If both apply, it continues in
 * the direction that helped last, and reverses after a failure. */
static void start_trial(TeamSize *s, int most)
{
    bool fewer = s->slept > MANY_ASLEEP * s->seconds && halved(most, s->level) > 1,
         more = s->level > 0;
    if (fewer && (!more || s->next >= 0))
        s->trial = 1;
    else if (more)
        s->trial = -1;
}

void team_size_note(TeamSize *s, int most, int n, double seconds, double slept)
{
    s->n_regions++;
    s->seconds += seconds;
    s->slept   += slept / n;
    if (s->seconds < WINDOW)
        return;
    double mean = s->seconds / s->n_regions;
    if (s->trial) {
        end_trial(s, mean);
    } else {
        s->mean  = mean;
        s->wait -= s->seconds;
        if (s->wait <= 0)
            start_trial(s, most);
    }
    s->n_regions = 0;
    s->seconds = s->slept = 0;
}
