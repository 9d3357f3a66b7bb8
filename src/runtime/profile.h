/* runtime/profile.h: how long each operation of a forward pass takes, by the clock of the team's first thread: from its
 * entry to the entry of the next, waiting included. */
#ifndef RUNTIME_PROFILE_H
#define RUNTIME_PROFILE_H

#include <stdint.h>

typedef struct ProfileRow {
    const char *name;            /* "qkv" */
    uint64_t    calls;
    double      seconds;
    double      bytes;           /* of weights, or of the KV cache, read once in each call */
    double      operations;      /* multiplications and additions of the products          */
} ProfileRow;

enum { PROFILE_ROWS = 16 };

typedef struct Profile {
    ProfileRow  row[PROFILE_ROWS]; /* in the order of their first call */
    int         n;
    ProfileRow *running;
    double      since;
} Profile;

/* An operation begins, and what ran before ends; NULL: nothing begins. name: one of at most PROFILE_ROWS constants. */
void profile_enter(Profile *p, const char *name, double bytes, double operations);

/* What runs also reads and computes this. */
void profile_more(Profile *p, double bytes, double operations);

#endif
