/* api/hub_api.c: names of published models, and the cache that keeps them. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "hub/pull.h"
#include "source/source.h"

/* Where an existing path leads to. */
static bool find_inside(const char *name, char path[PATH_BYTES], bool *found, Error *err)
{
    return path_is_folder(name) ? source_inside(name, path, found, err)
                                : ollama_manifest(name, path, found, err);
}

char *tblock_model_path(const char *name, tblock_error *err)
{
    NEED(NULL, err, name);
    char       path[PATH_BYTES];
    HubName    hub;
    const bool there = path_exists(name);
    bool       found = false;
    if (there ? !find_inside(name, path, &found, err)
              : ((hub_name_read(name, &hub) && !hub_cache_find(&hub, name, path, &found, err))
                 || (!found && !ollama_find(name, path, &found, err))))
        return NULL;
    char *copy = strdup(found ? path : name);
    if (!copy)
        no_memory(name, err);
    return copy;
}

static bool read_name(const char *name, HubName *out, tblock_error *err)
{
    return hub_name_read(name, out)
        || fail(err, TBLOCK_USAGE, "%s: expected ORG/NAME, ORG/NAME:FILE or ORG/NAME:QUANTIZATION, "
                                   "as bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M", name);
}

bool tblock_pull(const char *name, const tblock_pull_options *opt, tblock_pulled *out,
                 tblock_error *err)
{
    NEED(false, err, name, out);
    HubName hub;
    opt = opt ? opt : &(tblock_pull_options){ 0 };
    if (opt->revision && !hub_is_revision(opt->revision))
        return fail(err, USAGE, "revision: expected a branch, a tag or a commit, found '%s'",
                    opt->revision);
    return read_name(name, &hub, err) && hub_pull(&hub, name, opt, out, err);
}

bool tblock_kept_each(void (*take)(void *user, const tblock_kept *model), void *user,
                      tblock_error *err)
{
    NEED(false, err, take != NULL);
    return hub_kept_each(take, user, err);
}

bool tblock_kept_remove(const char *name, bool dry_run, uint64_t *bytes, tblock_error *err)
{
    NEED(false, err, name, bytes);
    HubName hub;
    return read_name(name, &hub, err) && hub_kept_remove(&hub, name, dry_run, bytes, err);
}
