/* hub/pull.h: downloads from the Hub into its cache, and what the cache holds. */
#ifndef HUB_PULL_H
#define HUB_PULL_H

#include "hub/hub.h"
#include "tblock_tools.h"

/* ---- repository.c ---------------------------------------------------------------------------- */

/* What the Hub says about a repository at a revision. */
typedef struct Repository {
    const HubName *name;
    const char    *shown;              /* the name as it was given, for messages */
    char           endpoint[PATH_BYTES];
    char           revision[HUB_REVISION];
    char           commit[HUB_COMMIT];
    HubFiles       files;
    Http          *http;
} Repository;

/* Asks HF_ENDPOINT, or https://huggingface.co, with the token of HF_TOKEN or of the file that
 * `hf auth login` writes, if there is one. Fails with USAGE (a wrong variable), INPUT (no such
 * repository or revision, a reply that cannot be right) or SYSTEM (the network). */
bool repository_open(Repository *r, const HubName *name, const char *shown, const char *revision,
                     Error *err);
void repository_close(Repository *r); /* accepts a zeroed one */

/* One address, tried again as long as that may help: after a connection that broke, and when the
 * Hub asks to wait, a minute at most. reached(user): the bytes that are there, from which the next
 * try goes on. */
typedef uint64_t HubReached(const void *user);
bool repository_get(Repository *r, const char *url, HubReached *reached, HttpTake *take, void *user,
                    Error *err);

/* The address of a file at the commit. */
bool repository_url(const Repository *r, const char *file, char out[PATH_BYTES * 2], Error *err);

/* ---- pull.c ---------------------------------------------------------------------------------- */

/* tblock_pull of tblock_tools.h. */
bool hub_pull(const HubName *name, const char *shown, const tblock_pull_options *o,
              tblock_pulled *out, Error *err);

/* ---- kept.c ---------------------------------------------------------------------------------- */

/* tblock_kept_each and tblock_kept_remove of tblock_tools.h. */
bool hub_kept_each(void (*take)(void *user, const tblock_kept *model), void *user, Error *err);
bool hub_kept_remove(const HubName *name, const char *shown, bool dry_run, uint64_t *bytes,
                     Error *err);

#endif
