/* hub/hub_cache.c: the cache of the Hub on this machine. */
#include "hub/hub.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Places ---------------------------------------------------------------------------------- */

bool hub_path(char out[PATH_BYTES], Error *err, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    const int n = vsnprintf(out, PATH_BYTES, fmt, list);
    va_end(list);
    return (n > 0 && n < PATH_BYTES)
        || fail(err, INPUT, "%.100s...: expected a path of at most %d bytes, found a longer one",
                out, PATH_BYTES - 1);
}

bool hub_failed(const char *path, Error *err)
{
    return fail(err, SYSTEM, "%s: %s", path, strerror(errno));
}

/* A variable that is set and not empty; "~/" at its start is the home. NULL: there is none. */
static const char *variable(const char *name, char out[PATH_BYTES])
{
    const char *value = getenv(name), *home = getenv("HOME");
    if (!value || !*value)
        return NULL;
    if (strncmp(value, "~/", 2) != 0 || !home)
        return value;
    return hub_path(out, NULL, "%s%s", home, value + 1) ? out : NULL;
}

bool hub_home(char out[PATH_BYTES], Error *err)
{
    char        buf[PATH_BYTES];
    const char *home = variable("HF_HOME", buf);
    if (home)
        return hub_path(out, err, "%s", home);
    if ((home = variable("XDG_CACHE_HOME", buf)) != NULL)
        return hub_path(out, err, "%s/huggingface", home);
    if ((home = variable("HOME", buf)) != NULL)
        return hub_path(out, err, "%s/.cache/huggingface", home);
    return fail(err, USAGE, "the cache of the Hub: expected HF_HOME or HOME in the environment, "
                            "found neither");
}

bool hub_cache_place(char out[PATH_BYTES], Error *err)
{
    char        buf[PATH_BYTES];
    const char *place = variable("HF_HUB_CACHE", buf);
    place             = place ? place : variable("HUGGINGFACE_HUB_CACHE", buf);
    if (place)
        return hub_path(out, err, "%s", place);
    return hub_home(buf, err) && hub_path(out, err, "%s/hub", buf);
}

bool hub_cache_repo(const char *repo, char out[PATH_BYTES], Error *err)
{
    char         place[PATH_BYTES];
    const size_t n_org = strcspn(repo, "/");
    return hub_cache_place(place, err)
        && hub_path(out, err, "%s/models--%.*s--%s", place, (int)n_org, repo, repo + n_org + 1);
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

static bool is_commit(const char *text) { return hub_is_hex(text, HUB_COMMIT - 1); }

static bool read_ref(const char *folder, const char *revision, char commit[HUB_COMMIT])
{
    char   path[PATH_BYTES], *text = NULL;
    size_t n;
    if (!hub_path(path, NULL, "%s/refs/%s", folder, revision)
        || !file_read(path, 256, &text, &n, NULL))
        return false;
    text[strcspn(text, "\r\n")] = '\0';
    const bool good = is_commit(text);
    if (good)
        memcpy(commit, text, HUB_COMMIT);
    free(text);
    return good;
}

/* The only snapshot; false: there are none or several. */
static bool only_snapshot(const char *folder, char commit[HUB_COMMIT])
{
    char   path[PATH_BYTES];
    size_t n = 0;
    DIR   *d = hub_path(path, NULL, "%s/snapshots", folder) ? opendir(path) : NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (is_commit(e->d_name) && n++ == 0)
            memcpy(commit, e->d_name, HUB_COMMIT);
    if (d)
        closedir(d);
    return n == 1;
}

bool hub_cache_commit(const char *folder, const char *revision, char commit[HUB_COMMIT])
{
    char path[PATH_BYTES];
    if (*revision && is_commit(revision))
        memcpy(commit, revision, HUB_COMMIT);
    else if (!read_ref(folder, *revision ? revision : "main", commit)
             && (*revision || !only_snapshot(folder, commit)))
        return false;
    return hub_path(path, NULL, "%s/snapshots/%s", folder, commit) && path_is_folder(path);
}

/* Adds the files in `under` (ends with a slash, or ""), and of its folders, `depth` of them. */
static bool add_files(const char *snapshot, const char *under, int depth, HubFiles *out, Error *err)
{
    enum { MOST = 20000 };
    char place[PATH_BYTES], name[PATH_BYTES];
    bool good = hub_path(place, err, "%s/%s", snapshot, under);
    DIR *d    = good ? opendir(place) : NULL;
    if (good && !d)
        return fail(err, file_status(errno), "%s: %s", place, strerror(errno));
    for (struct dirent *e; good && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        good = hub_path(name, err, "%s%s", under, e->d_name)
            && hub_path(place, err, "%s/%s", snapshot, name);
        const bool there = good && stat(place, &st) == 0;
        if (there && S_ISDIR(st.st_mode)) {
            good = depth == 0 || (hub_path(place, err, "%s/", name)
                                  && add_files(snapshot, place, depth - 1, out, err));
        } else if (good) {
            HubFile *file = hub_files_add(out, name, err);
            good          = file != NULL
                && (out->n < MOST || fail(err, INPUT, "%s: expected fewer than %d files, found "
                                                      "more", snapshot, MOST));
            if (file)
                file->size = there ? (uint64_t)st.st_size : UINT64_MAX;
        }
    }
    if (d)
        closedir(d);
    return good;
}

bool hub_cache_files(const char *snapshot, HubFiles *out, Error *err)
{
    *out = (HubFiles){ 0 };
    if (!add_files(snapshot, "", 4, out, err)) {
        hub_files_free(out);
        return false;
    }
    hub_files_sort(out);
    return true;
}

bool hub_cache_snapshot(const char *folder, char snapshot[PATH_BYTES])
{
    char        cut[PATH_BYTES], inner[PATH_BYTES], commit[HUB_COMMIT];
    const char *last;
    if (!hub_path(cut, NULL, "%s", folder))
        return false;
    for (size_t n = strlen(cut); n > 1 && cut[n - 1] == '/';)
        cut[--n] = '\0';
    last = path_name(cut);
    if (!path_there(cut, "snapshots", inner)) {
        if (strcmp(last, "snapshots") != 0)
            return false;
        snprintf(cut + (last - cut), sizeof cut - (size_t)(last - cut), ".");
    }
    return hub_cache_commit(cut, "", commit)
        && hub_path(snapshot, NULL, "%s/snapshots/%s", cut, commit);
}

void hub_folder_models(const char *folder, HubModels *out)
{
    HubFiles       files = { 0 };
    const HubFile *first = NULL;
    *out = (HubModels){ 0 };
    if (add_files(folder, "", 0, &files, NULL)) {
        hub_files_sort(&files);
        first = hub_models(&files, &out->n, out->names, sizeof out->names);
    }
    if (first && !path_in(folder, first->path, out->first))
        *out = (HubModels){ 0 };
    hub_files_free(&files);
}

/* Are the files that the model is made of there? */
static bool is_whole(const HubFiles *files, const char *snapshot, const char *shown, Error *err)
{
    for (size_t i = 0; i < files->n; i++)
        if (files->file[i].taken && files->file[i].size == UINT64_MAX)
            return fail(err, INPUT, "%s: %s/%s: expected a link to a file, found one to nothing; "
                                    "tblock pull %s downloads it again",
                        shown, snapshot, files->file[i].path, shown);
    return true;
}

bool hub_cache_find(const HubName *name, const char *shown, char path[PATH_BYTES], bool *found,
                    Error *err)
{
    char           folder[PATH_BYTES], snapshot[PATH_BYTES], commit[HUB_COMMIT];
    HubFiles       files;
    const HubFile *file;
    Error          why;
    *found = false;
    if (!hub_cache_repo(name->repo, folder, NULL)
        || !hub_cache_commit(folder, name->revision, commit))
        return true;
    if (!hub_path(snapshot, err, "%s/snapshots/%s", folder, commit)
        || !hub_cache_files(snapshot, &files, err))
        return false;
    const bool chosen = hub_choose(&files, name->what, shown, &file, &why);
    /* a snapshot without weights may hold what `tokenize` and `info` read */
    bool good = chosen || (!*name->what && path_there(snapshot, "config.json", path));
    if (!good)
        fail(err, why.status, "%s; tblock pull %s adds what is missing in the cache", why.msg,
             shown);
    good = good && is_whole(&files, snapshot, shown, err)
        && hub_path(path, err, "%s%s%s", snapshot, chosen && file ? "/" : "",
                    chosen && file ? file->path : "");
    hub_files_free(&files);
    return *found = good;
}
