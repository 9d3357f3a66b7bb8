/* runtime/profile.h: how long each operation of a forward pass takes, by the clock of the team's
 * first thread: from its start to the start of the next one, with waiting. */
#ifndef RUNTIME_PROFILE_H
#define RUNTIME_PROFILE_H

#include <stdint.h>

typedef struct ProfileRow {
    const char *name;            /* "qkv" */
    uint64_t    calls;
    double      seconds;
    double      bytes;           /* of weights or KV cache, once per call */
    double      operations;      /* multiplications and additions */
} ProfileRow;

enum { PROFILE_ROWS = 16 };

typedef struct Profile {
    ProfileRow  row[PROFILE_ROWS]; /* in the order of their first call */
    int         n;
    ProfileRow *running;
    double      since;
} Profile;

/* Ends the running operation and starts another one; name NULL starts none. name must be one of
 * at most PROFILE_ROWS constant strings. */
void profile_enter(Profile *p, const char *name, double bytes, double operations);

/* Adds to the bytes and operations of the running operation. */
void profile_more(Profile *p, double bytes, double operations);

#endif
