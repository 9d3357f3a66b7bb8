/* runtime/profile.c: adds up time, bytes and operations by the name of the operation. */
#include "runtime/forward.h"

#include <assert.h>
#include <string.h>

#include "base/progress.h"

static ProfileRow *row_of(Profile *p, const char *name)
{
    int i = 0;
    while (i < p->n && strcmp(p->row[i].name, name) != 0)
        i++;
    assert(i < PROFILE_ROWS);
    if (i == p->n)
        p->row[p->n++].name = name;
    return &p->row[i];
}

void profile_enter(Profile *p, const char *name, double bytes, double operations)
{
    double now = clock_seconds();
    if (p->running)
        p->running->seconds += now - p->since;
    p->since   = now;
    p->running = NULL;
    if (!name)
        return;
    p->running = row_of(p, name);
    p->running->calls++;
    profile_more(p, bytes, operations);
}

void profile_more(Profile *p, double bytes, double operations)
{
    p->running->bytes += bytes;
    p->running->operations += operations;
}
