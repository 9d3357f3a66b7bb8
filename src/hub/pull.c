/* hub/pull.c: downloads a model into the Hub's cache.
 *
 * Each file comes as blobs/ID.incomplete, is compared with its hash, and then gets its name. What
 * was cut off is continued by the next pull. The reference (refs/main) is written last, so that no
 * reader finds half a model under the name. */
#include "hub/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"

typedef struct Pull {
    Repository                 from;
    const tblock_pull_options *options;
    char                       folder[PATH_BYTES]; /* models--ORG--NAME */
    uint64_t                   done, todo;         /* bytes, of those that are not there */
} Pull;

/* Makes the folder of this path, and those above it. */
static bool make_folder_of(const char *path, Error *err)
{
    char part[PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return hub_failed(part, err);
    }
    return true;
}

static bool blob_path(const Pull *p, const HubFile *f, const char *end, char out[PATH_BYTES],
                      Error *err)
{
    return hub_path(out, err, "%s/blobs/%s%s", p->folder, f->id, end);
}

static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : UINT64_MAX;
}

static bool is_there(const Pull *p, const HubFile *f)
{
    char path[PATH_BYTES];
    return blob_path(p, f, "", path, NULL) && size_of(path) == f->size;
}

/* ---- One file -------------------------------------------------------------------------------- */

typedef struct Transfer {
    Pull          *pull;
    const HubFile *file;
    char           path[PATH_BYTES]; /* blobs/ID.incomplete */
    int            fd, lock;
    uint64_t       at;               /* bytes that are there */
    const char    *wrong;            /* why the transfer was ended here; NULL: it was not */
    int            error;            /* errno of a failed write */
} Transfer;

static uint64_t reached(const void *user) { return ((const Transfer *)user)->at; }

static bool start_again(Transfer *t, Error *err)
{
    t->pull->done -= t->at;
    t->at = 0;
    return ftruncate(t->fd, 0) == 0 || hub_failed(t->path, err);
}

static bool take_bytes(void *user, const HttpReply *reply, const void *data, size_t n)
{
    Transfer *t = user;
    Pull     *p = t->pull;
    if (reply->status == 200 && !reply->taken && t->at && !start_again(t, NULL)) {
        t->error = errno; /* a server without ranges begins at the start */
        return false;
    }
    if (reply->status == 206 && reply->start >= 0 && (uint64_t)reply->start > t->at) {
        t->wrong = "another range of bytes than it was asked for";
        return false;
    }
    if (n > t->file->size - t->at) {
        t->wrong = "more bytes than the Hub said";
        return false;
    }
    if (!write_all(t->fd, (off_t)t->at, data, n)) {
        t->error = errno;
        return false;
    }
    t->at += n;
    p->done += n;
    if (p->options->progress)
        p->options->progress(p->options->user,
                             p->todo ? (double)p->done / (double)p->todo : 1);
    return true;
}

/* The hash of what was downloaded: sha256, or the id that git gives a small file: sha1 of "blob
 * SIZE", a NUL and the bytes. */
static bool hash_file(const Transfer *t, char hex[65], Error *err)
{
    FileMap map;
    if (!file_map_open(&map, t->path, err))
        return false;
    bool good = true;
    if (strlen(t->file->id) == 64) {
        good = sha256_hex(map.data ? (const void *)map.data : "", map.size, hex)
            || no_memory(t->path, err);
    } else {
        struct sha1_ctx ctx;
        char            head[40];
        uint8_t         digest[SHA1_DIGEST_SIZE];
        const int       n = snprintf(head, sizeof head, "blob %zu", map.size) + 1;
        sha1_init(&ctx);
        sha1_update(&ctx, (size_t)n, (const uint8_t *)head);
        if (map.size)
            sha1_update(&ctx, map.size, map.data);
        sha1_digest(&ctx, sizeof digest, digest);
        for (size_t i = 0; i < sizeof digest; i++)
            snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    file_map_close(&map);
    return good;
}

/* Nobody else may write the same file: neither tblock nor Python, whose lock this is. */
static bool lock_file(Transfer *t, Error *err)
{
    char        path[PATH_BYTES];
    const char *repo = path_name(t->pull->folder);
    if (!hub_path(path, err, "%.*s.locks/%s/%s.lock", (int)(repo - t->pull->folder),
                  t->pull->folder, repo, t->file->id) || !make_folder_of(path, err))
        return false;
    t->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (t->lock < 0)
        return hub_failed(path, err);
    return flock(t->lock, LOCK_EX | LOCK_NB) == 0
        || fail(err, SYSTEM, "%s: another program downloads this file: wait for it and try again "
                             "(%s is locked)", t->file->path, path);
}

static bool open_transfer(Transfer *t, Error *err)
{
    if (!blob_path(t->pull, t->file, ".incomplete", t->path, err) || !make_folder_of(t->path, err)
        || !lock_file(t, err))
        return false;
    t->fd = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct stat st;
    if (t->fd < 0 || fstat(t->fd, &st) != 0)
        return hub_failed(t->path, err);
    t->at = (uint64_t)st.st_size <= t->file->size ? (uint64_t)st.st_size : 0;
    t->pull->done += t->at;
    return ftruncate(t->fd, (off_t)t->at) == 0 || hub_failed(t->path, err);
}

/* Gets the bytes that are missing. */
static bool get_rest(Transfer *t, Error *err)
{
    char url[PATH_BYTES * 2];
    if (!repository_url(&t->pull->from, t->file->path, url, err))
        return false;
    if (t->at == t->file->size && t->at > 0)
        return true;
    if (!repository_get(&t->pull->from, url, reached, take_bytes, t, err)) {
        errno = t->error;
        return t->error   ? hub_failed(t->path, err)
            : t->wrong ? fail(err, INPUT, "%s: %s sent %s", t->file->path, t->pull->from.endpoint,
                              t->wrong)
                       : false;
    }
    return t->at == t->file->size
        || fail(err, INPUT, "%s: expected %llu bytes, found %llu", t->file->path,
                (unsigned long long)t->file->size, (unsigned long long)t->at);
}

/* What was continued and has a wrong hash was of another file: it is fetched once more. A wrong
 * file is removed, or every later pull would end with it. */
static bool get_right(Transfer *t, Error *err)
{
    char hex[65];
    for (bool continued = t->at > 0;; continued = false) {
        if (!get_rest(t, err) || !hash_file(t, hex, err))
            return false;
        if (strcmp(hex, t->file->id) == 0)
            return true;
        if (!continued) {
            unlink(t->path);
            return fail(err, INPUT, "%s: expected the hash %s, found %s: what was sent is not the "
                                    "file that the Hub lists, and was removed", t->file->path,
                        t->file->id, hex);
        }
        if (!start_again(t, err))
            return false;
    }
}

static bool fetch(Pull *p, const HubFile *file, Error *err)
{
    char     path[PATH_BYTES];
    Transfer t    = { .pull = p, .file = file, .fd = -1, .lock = -1 };
    bool     good = blob_path(p, file, "", path, err) && open_transfer(&t, err);
    /* another program may have ended it before it gave us the lock */
    if (good && !is_there(p, file)) {
        good = get_right(&t, err) && (file_sync(t.fd) == 0 || hub_failed(t.path, err));
        const int failed = good ? file_publish(t.path, path) : 0;
        if (failed)
            good = fail(err, SYSTEM, "%s: %s", path, file_publish_failed(failed));
    } else if (good) {
        unlink(t.path);
    }
    if (t.fd >= 0)
        close(t.fd);
    if (t.lock >= 0)
        close(t.lock);
    return good;
}

/* ---- The snapshot ---------------------------------------------------------------------------- */

/* Links the file's name in the snapshot to its blob. A new link replaces the old one at once. */
static bool link_file(const Pull *p, const HubFile *f, Error *err)
{
    char to[PATH_BYTES], path[PATH_BYTES], temp[PATH_BYTES], up[PATH_BYTES] = "../../", old[256];
    for (const char *s = f->path; (s = strchr(s, '/')) != NULL && strlen(up) < 3000; s++)
        strcat(up, "../");
    if (!hub_path(to, err, "%sblobs/%s", up, f->id)
        || !hub_path(path, err, "%s/snapshots/%s/%s", p->folder, p->from.commit, f->path)
        || !hub_path(temp, err, "%s.new", path) || !make_folder_of(path, err))
        return false;
    const ssize_t n = readlink(path, old, sizeof old);
    if (n > 0 && (size_t)n == strlen(to) && memcmp(old, to, (size_t)n) == 0)
        return true;
    unlink(temp);
    return (symlink(to, temp) == 0 && rename(temp, path) == 0) || hub_failed(path, err);
}

/* Which commit the branch or the tag is now. A commit has no reference. */
static bool write_ref(const Pull *p, Error *err)
{
    char path[PATH_BYTES];
    return strcmp(p->from.revision, p->from.commit) == 0
        || (hub_path(path, err, "%s/refs/%s", p->folder, p->from.revision)
            && make_folder_of(path, err)
            && file_write(path, p->from.commit, HUB_COMMIT - 1, err));
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Is there room for what is missing, but for what an earlier pull has begun? */
static bool has_room(Pull *p, Error *err)
{
    char     path[PATH_BYTES], begun[PATH_BYTES];
    uint64_t need = 0;
    for (size_t i = 0; i < p->from.files.n; i++) {
        const HubFile *f = &p->from.files.file[i];
        if (!f->taken || is_there(p, f))
            continue;
        const uint64_t part = blob_path(p, f, ".incomplete", begun, NULL) ? size_of(begun) : 0;
        if (f->size > SIZE_MAX / 4 - p->todo)
            return fail(err, INPUT, "%s: %s: expected the size of a file, found %llu",
                        p->from.shown, f->path, (unsigned long long)f->size);
        p->todo += f->size;
        need += f->size - (part <= f->size ? part : 0);
    }
    if (p->options->dry_run)
        return true;
    return hub_path(path, err, "%s/blobs/%s", p->folder, p->from.commit)
        && make_folder_of(path, err) && file_check_room(path, need, need, err);
}

static bool fetch_all(Pull *p, tblock_pulled *out, Error *err)
{
    for (size_t i = 0; i < p->from.files.n; i++) {
        const HubFile *f = &p->from.files.file[i];
        if (!f->taken)
            continue;
        const bool there = is_there(p, f);
        out->n_files++;
        out->bytes += f->size;
        out->fetched += there ? 0 : f->size;
        if (p->options->file)
            p->options->file(p->options->user, f->path, f->size, there);
        if (!p->options->dry_run && !((there || fetch(p, f, err)) && link_file(p, f, err)))
            return false;
    }
    return p->options->dry_run || write_ref(p, err);
}

bool hub_pull(const HubName *name, const char *shown, const tblock_pull_options *o,
              tblock_pulled *out, Error *err)
{
    Pull           p = { .options = o };
    const HubFile *file;
    *out      = (tblock_pulled){ 0 };
    bool good = hub_cache_repo(name->repo, p.folder, err)
        && repository_open(&p.from, name, shown, o->revision ? o->revision : name->revision, err)
        && hub_choose(&p.from.files, name->what, shown, &file, err) && has_room(&p, err);
    if (good) {
        snprintf(out->commit, sizeof out->commit, "%s", p.from.commit);
        good = hub_path(out->path, err, "%s/snapshots/%s%s%s", p.folder, p.from.commit,
                        file ? "/" : "", file ? file->path : "") && fetch_all(&p, out, err);
    }
    repository_close(&p.from);
    return good;
}
