/* hub/kept.c: lists and removes models in the cache. */
#include "hub/pull.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/text.h"

typedef void TakeKept(void *user, const tblock_kept *model);
typedef struct Listing { TakeKept *take; void *user; } Listing;

/* ---- Listing --------------------------------------------------------------------------------- */

/* What the files of a snapshot are: the kinds of weights and quantizations, each once. */
static void put_kinds(const HubFiles *files, TextOut *out)
{
    for (size_t i = 0; i < files->n; i++) {
        char        tag[HUB_TAG], word[HUB_TAG + 8];
        const char *path = files->file[i].path;
        if (path_ends(path, ".gguf"))
            snprintf(word, sizeof word, "GGUF%s%s", *hub_tag(path, tag) ? " " : "", tag);
        else
            snprintf(word, sizeof word, "%s", path_ends(path, ".safetensors") ? "safetensors"
                                            : path_ends(path, ".bin")       ? "pytorch"
                                                                            : "");
        if (*word && !(out->n && memmem(out->text, out->n, word, strlen(word))))
            text_out(out, "%s%s", out->n ? ", " : "", word);
    }
    if (!out->n)
        text_out(out, "no weights");
}

/* One snapshot of the folder models--ORG--NAME. Broken ones are passed over. */
static void list_snapshot(const char *folder, const char *commit, const Listing *l)
{
    char     path[PATH_BYTES], name[HUB_REPO + 4];
    HubFiles files;
    TextOut  kinds = { 0 };
    const char *id = path_name(folder) + strlen("models--"), *split = strstr(id, "--");
    if (!split || !hub_path(path, NULL, "%s/snapshots/%s", folder, commit)
        || !hub_cache_files(path, &files, NULL))
        return;
    snprintf(name, sizeof name, "%.*s/%s", (int)(split - id), id, split + 2);
    tblock_kept k = { .name = name, .commit = commit, .path = path, .n_files = files.n };
    for (size_t i = 0; i < files.n; i++)
        k.bytes += files.file[i].size == UINT64_MAX ? 0 : files.file[i].size;
    put_kinds(&files, &kinds);
    text_out_bytes(&kinds, "", 1);
    k.kinds = kinds.failed ? "" : kinds.text;
    l->take(l->user, &k);
    text_out_free(&kinds);
    hub_files_free(&files);
}

/* The names in a folder, in byte order; free each and the list. -1: there is no such folder. */
static int names_in(const char *folder, struct dirent ***names)
{
    return scandir(folder, names, NULL, alphasort);
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    if (n >= 0)
        free(names);
}

static void list_repository(const char *folder, const Listing *l)
{
    struct dirent **names;
    char            path[PATH_BYTES];
    const int       n = hub_path(path, NULL, "%s/snapshots", folder) ? names_in(path, &names) : -1;
    for (int i = 0; i < n; i++)
        if (names[i]->d_name[0] != '.' && strlen(names[i]->d_name) == HUB_COMMIT - 1)
            list_snapshot(folder, names[i]->d_name, l);
    free_names(names, n);
}

static bool list_ollama(void *user, const char *name, const char *path, uint64_t size, Error *err)
{
    const Listing *l = user;
    (void)err;
    l->take(l->user, &(tblock_kept){ .name = name, .commit = "", .kinds = "ollama", .path = path,
                                     .n_files = 1, .bytes = size });
    return true;
}

bool hub_kept_each(TakeKept *take, void *user, Error *err)
{
    char            place[PATH_BYTES], folder[PATH_BYTES];
    struct dirent **names;
    Listing         l = { take, user };
    if (!hub_cache_place(place, err))
        return false;
    const int n = names_in(place, &names);
    if (n < 0 && errno != ENOENT)
        return hub_failed(place, err);
    for (int i = 0; i < n; i++)
        if (strncmp(names[i]->d_name, "models--", 8) == 0
            && hub_path(folder, NULL, "%s/%s", place, names[i]->d_name))
            list_repository(folder, &l);
    free_names(names, n);
    return ollama_each(list_ollama, &l, err);
}

/* ---- Removing -------------------------------------------------------------------------------- */

typedef struct Removal { bool dry_run; uint64_t bytes; } Removal;

/* Removes what is in the folder, and it; never follows a link. */
static bool remove_tree(const char *path, Removal *r, Error *err)
{
    struct stat     st;
    struct dirent **names;
    char            inner[PATH_BYTES];
    if (lstat(path, &st) != 0)
        return errno == ENOENT || hub_failed(path, err);
    if (S_ISREG(st.st_mode))
        r->bytes += (uint64_t)st.st_size;
    if (!S_ISDIR(st.st_mode))
        return r->dry_run || unlink(path) == 0 || hub_failed(path, err);
    const int n    = names_in(path, &names);
    bool      good = n >= 0 || hub_failed(path, err);
    for (int i = 0; good && i < n; i++)
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
            good = hub_path(inner, err, "%s/%s", path, names[i]->d_name)
                && remove_tree(inner, r, err);
    free_names(names, n);
    return good
        && (r->dry_run || rmdir(path) == 0 || hub_failed(path, err));
}

/* Does a link in another snapshot, or of a file that stays, lead to this blob? */
static bool is_used(const char *folder, const char *commit, const HubFiles *files, const char *blob)
{
    struct dirent **names;
    struct stat     own, st;
    char            path[PATH_BYTES], snapshot[PATH_BYTES];
    bool            used = false;
    const int       n = stat(blob, &own) == 0 && hub_path(path, NULL, "%s/snapshots", folder)
        ? names_in(path, &names) : -1;
    for (int i = 0; i < n && !used; i++) {
        HubFiles    other = { 0 };
        const bool  same  = strcmp(names[i]->d_name, commit) == 0;
        if (names[i]->d_name[0] == '.'
            || !hub_path(snapshot, NULL, "%s/snapshots/%s", folder, names[i]->d_name)
            || (!same && !hub_cache_files(snapshot, &other, NULL)))
            continue;
        const HubFiles *list = same ? files : &other;
        for (size_t j = 0; j < list->n && !used; j++)
            used = !(same && list->file[j].taken)
                && hub_path(path, NULL, "%s/%s", snapshot, list->file[j].path)
                && stat(path, &st) == 0 && st.st_ino == own.st_ino && st.st_dev == own.st_dev;
        hub_files_free(&other);
    }
    free_names(names, n);
    return used;
}

/* The files of one model in a snapshot, and their blobs that no other file needs. */
static bool remove_files(const char *folder, const char *commit, const HubFiles *files, Removal *r,
                         Error *err)
{
    char link[PATH_BYTES], blob[PATH_BYTES];
    for (size_t i = 0; i < files->n; i++) {
        if (!files->file[i].taken)
            continue;
        if (!hub_path(link, err, "%s/snapshots/%s/%s", folder, commit, files->file[i].path))
            return false;
        const ssize_t n = readlink(link, blob, sizeof blob - 1);
        blob[n > 0 ? n : 0] = '\0';
        char target[PATH_BYTES];
        const bool own = n > 0 && hub_path(target, NULL, "%s/blobs/%s", folder, path_name(blob))
            && !is_used(folder, commit, files, target);
        if (!r->dry_run && unlink(link) != 0)
            return hub_failed(link, err);
        if (own && !remove_tree(target, r, err))
            return false;
    }
    return true;
}

static bool remove_some(const HubName *name, const char *shown, const char *folder, Removal *r,
                        Error *err)
{
    char           commit[HUB_COMMIT], snapshot[PATH_BYTES];
    HubFiles       files;
    const HubFile *file;
    if (!hub_cache_commit(folder, name->revision, commit))
        return fail(err, INPUT, "%s: expected it in the cache of the Hub, found no such revision "
                                "in %s", shown, folder);
    if (!hub_path(snapshot, err, "%s/snapshots/%s", folder, commit)
        || !hub_cache_files(snapshot, &files, err))
        return false;
    const bool good = hub_choose(&files, name->what, shown, &file, err)
        && remove_files(folder, commit, &files, r, err);
    hub_files_free(&files);
    return good;
}

bool hub_kept_remove(const HubName *name, const char *shown, bool dry_run, uint64_t *bytes,
                     Error *err)
{
    char    folder[PATH_BYTES];
    Removal r = { .dry_run = dry_run };
    if (!hub_cache_repo(name->repo, folder, err))
        return false;
    const bool good = !path_exists(folder)
        ? fail(err, INPUT, "%s: expected it in the cache of the Hub, found no %s", shown, folder)
        : *name->what ? remove_some(name, shown, folder, &r, err) : remove_tree(folder, &r, err);
    *bytes = r.bytes;
    return good;
}
