/* base/out_file.c: writes files, so that an output is complete or absent. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/text.h"

bool file_check_apart(const char *output, const char *input, Error *err)
{
    return !path_same_file(output, input)
        || fail(err, USAGE, "%s: expected an output file other than the input %s, found the same "
                            "file", output, input);
}

static bool open_failed(OutFile *f, const char *why, Error *err)
{
    fail(err, SYSTEM, "%s: cannot write: %s", f->path, why);
    out_file_abort(f);
    return false;
}

static bool open_in_place(OutFile *f, int fd, Error *err)
{
    f->in_place = true;
    f->fd =
        fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return f->fd >= 0 || open_failed(f, strerror(errno), err);
}

char *file_temp_name(const char *target, int i)
{
    const char *slash = strrchr(target, '/');
    int         folder = slash ? (int)(slash - target) + 1 : 0;
    char       *name;
    return asprintf(&name, "%.*s.tblock-%ld-%d.tmp", folder, target, (long)getpid(), i) < 0 ? NULL
                                                                                            : name;
}

/* Gives the file a temporary name: creates it under that name or, if it exists without a name,
 * links it. */
static bool name_temp(OutFile *f, bool unnamed, Error *err)
{
    char from[32];
    snprintf(from, sizeof from, "/proc/self/fd/%d", f->fd);
    for (int i = 0; i < FILE_TEMP_NAMES; i++) {
        f->temp = file_temp_name(f->target, i);
        if (!f->temp)
            return fail(err, SYSTEM, "%s: cannot write: out of memory", f->path);
        int got = unnamed ? linkat(AT_FDCWD, from, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW)
                          : open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (got >= 0) {
            f->fd = unnamed ? f->fd : got;
            return true;
        }
        int error = errno;
        free(f->temp);
        f->temp = NULL; /* not ours: abort must not remove it */
        if (error != EEXIST)
            return fail(err, SYSTEM, "%s: cannot write: %s", f->path, strerror(error));
    }
    return fail(err, SYSTEM, "%s: cannot write: too many temporary files of earlier runs in its "
                             "folder (.tblock-*.tmp)", f->path);
}

/* Opens the temporary file, if possible without a name, so that nothing is left however the
 * process ends. */
static bool open_temp(OutFile *f, Error *err)
{
#if defined(O_TMPFILE)
    char *folder = strdup(f->target), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[slash == folder] = 0;
    if (folder && access("/proc/self/fd", X_OK) == 0)
        f->fd = open(slash ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    free(folder);
    if (f->fd >= 0)
        return true;
#endif
    if (name_temp(f, false, err))
        return true;
    out_file_abort(f);
    return false;
}

bool out_file_open(OutFile *f, const char *path, Error *err)
{
    *f = (OutFile){ .fd = -1, .spool = -1 };
    if (!*path)
        return fail(err, USAGE, "expected the name of an output file, found an empty one");
    f->open = true;
    f->path = strdup(path);
    if (!f->path) {
        f->open = false;
        return no_memory(path, err);
    }
    if (file_descriptor(path) >= 0)
        return open_in_place(f, file_descriptor(path), err);

    struct stat st;
    bool        exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT)
        return open_failed(f, strerror(errno), err);
    if (exists && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)))
        return open_in_place(f, -1, err);
    if (exists && !S_ISREG(st.st_mode)) {
        fail(err, SYSTEM, "%s: cannot write: expected a file, found %s", path,
             file_kind(st.st_mode));
        out_file_abort(f);
        return false;
    }
    /* A rename needs no permission on the old file, but it was made read-only on purpose. */
    if (exists && access(path, W_OK) != 0)
        return open_failed(f, strerror(errno), err);
    if (!exists && lstat(path, &st) == 0)
        return open_failed(f, "a symbolic link to a file that does not exist", err);

    f->target = exists ? realpath(path, NULL) : strdup(path);
    if (!f->target)
        return open_failed(f, strerror(errno), err);
    if (!open_temp(f, err))
        return false;
    if (exists && fchmod(f->fd, st.st_mode & 0777) != 0)
        return open_failed(f, strerror(errno), err);
    return true;
}

bool write_all(int fd, off_t at, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        const char *from = (const char *)data + done;
        ssize_t     put =
                at < 0 ? write(fd, from, n - done) : pwrite(fd, from, n - done, at + (off_t)done);
        if (put > 0) {
            done += (size_t)put;
        } else if (put == 0 || errno != EINTR) {
            errno = put == 0 ? EIO : errno;
            return false;
        }
    }
    return true;
}

static bool write_out(const OutFile *f, int fd, off_t at, const void *data, size_t n, Error *err)
{
    return write_all(fd, at, data, n)
        || fail(err, SYSTEM, "%s: cannot write: %s", f->path,
                errno != EFAULT ? strerror(errno) /* else data lies in a mapped file */
                                : "its source file was cut short in the meantime");
}

/* Is the output written in place? Does not open it: a FIFO's reader would see the end of file. */
static bool is_in_place(const char *path)
{
    struct stat st;
    return file_descriptor(path) >= 0
        || (stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)));
}

bool file_check_output(const char *path, Error *err)
{
    OutFile f;
    if (is_in_place(path))
        return true;
    if (!out_file_open(&f, path, err))
        return false;
    out_file_abort(&f);
    return true;
}

bool file_check_holes(const char *path, Error *err)
{
    return !is_in_place(path)
        || fail(err, USAGE, "%s: expected a regular file, because a sparse file has holes, found "
                            "a pipe, a device or an open file", path);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static bool check_room(const char *path, const struct statvfs *fs, size_t n_bytes, size_t n_stored,
                       Error *err)
{
    struct rlimit limit;
    char          needed[24], there[24];
    double        n_free = (double)fs->f_bavail * (double)fs->f_frsize; /* as df says */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
        && limit.rlim_cur < n_bytes)
        return fail(err, SYSTEM,
                    "%s: cannot write: needs a file of %s, but the limit is %s (ulimit -f)", path,
                    form_bytes((double)n_bytes, needed, sizeof needed),
                    form_bytes((double)limit.rlim_cur, there, sizeof there));
    if (fs->f_blocks != 0 && (double)n_stored > n_free)
        return fail(err, SYSTEM,
                    "%s: cannot write: needs %s, but only %s are free: free some space, or write "
                    "to another disk",
                    path, form_bytes((double)n_stored, needed, sizeof needed),
                    form_bytes(n_free, there, sizeof there));
    return true;
}

bool out_file_room(const OutFile *f, size_t n_bytes, size_t n_stored, Error *err)
{
    struct stat    st;
    struct statvfs fs;
    bool known = file_fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && fstatvfs(f->fd, &fs) == 0;
    return !known || check_room(f->path, &fs, n_bytes, n_stored, err);
}

bool file_check_room(const char *path, size_t n_bytes, size_t n_stored, Error *err)
{
    struct stat    st;
    struct statvfs fs;
    char           folder[PATH_BYTES];
    bool           exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode))
        return true;
    return !path_in(path, ".", folder) || statvfs(exists ? path : folder, &fs) != 0
        || check_room(path, &fs, n_bytes, n_stored, err);
}

bool out_file_extend(OutFile *f, size_t n_bytes, Error *err)
{
    if (n_bytes > INT64_MAX || ftruncate(f->fd, (off_t)n_bytes) != 0)
        return fail(err, SYSTEM, "%s: cannot write: a file of %zu bytes: %s", f->path, n_bytes,
                    n_bytes > INT64_MAX ? "too large" : strerror(errno));
    return true;
}

bool out_file_write(OutFile *f, const void *data, size_t n_bytes, Error *err)
{
    if (!write_out(f, f->fd, -1, data, n_bytes, err))
        return false;
    f->written += n_bytes;
    return true;
}

/* Is fd a regular file at byte 0, without O_APPEND? Then offsets in it are offsets in the
 * output. */
static bool is_fresh(int fd)
{
    struct stat st;
    int         flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_APPEND) && file_fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
        && lseek(fd, 0, SEEK_CUR) == 0;
}

bool out_file_write_at(OutFile *f, size_t offset, const void *data, size_t n_bytes, Error *err)
{
    if (offset > INT64_MAX || n_bytes > INT64_MAX - offset)
        return fail(err, SYSTEM, "%s: cannot write: the file would be too large (%zu + %zu bytes)",
                    f->path, offset, n_bytes);
    if (f->in_place && f->spool < 0) {
        FILE *spool = tmpfile();
        if (spool) {
            f->spool = fcntl(fileno(spool), F_DUPFD_CLOEXEC, 3);
            fclose(spool);
        } else if (is_fresh(f->fd)) {
            f->spool = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
            f->direct = true;
        }
        if (f->spool < 0)
            return fail(err, SYSTEM, "%s: cannot write: cannot make a temporary file: %s", f->path,
                        strerror(errno));
    }
    return write_out(f, f->in_place ? f->spool : f->fd, (off_t)offset, data, n_bytes, err);
}

static bool copy_spool(OutFile *f, Error *err)
{
    char  buffer[1 << 13]; /* small: the stack may be small */
    off_t at = 0;
    for (;;) {
        ssize_t got = pread(f->spool, buffer, sizeof buffer, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(err, SYSTEM, "%s: cannot read the temporary file: %s", f->path,
                        strerror(errno));
        if (got == 0)
            return true;
        if (!write_out(f, f->fd, -1, buffer, (size_t)got, err))
            return false;
        at += got;
    }
}

int file_sync(int fd)
{
    int done;
    do
        done = fsync(fd);
    while (done != 0 && errno == EINTR);
    return done == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS ? 0 : errno;
}

int file_sync_folder(const char *path)
{
    char folder[PATH_BYTES];
    if (!path_in(path, ".", folder))
        return ENAMETOOLONG;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) { /* write-only for us */
        sync();
        return 0;
    }
    int error = fd < 0 ? errno : file_sync(fd);
    if (fd >= 0)
        close(fd);
    return error;
}

int file_publish(const char *temp, const char *target)
{
    return rename(temp, target) == 0 ? -file_sync_folder(target) : errno;
}

const char *file_publish_failed(int error)
{
    return error < 0 ? "cannot sync the folder of the finished file"
                     : "cannot rename the finished file";
}

static bool commit(OutFile *f, Error *err)
{
    bool ok = f->spool < 0 || f->direct || copy_spool(f, err);
    if (ok && !f->in_place && !f->temp)
        ok = name_temp(f, true, err);
    int fd = f->fd;
    f->fd = -1;
    if (close(fd) != 0 && ok) /* a full disk may be reported only here */
        ok = fail(err, SYSTEM, "%s: cannot write: %s", f->path, strerror(errno));
    if (ok && !f->in_place) {
        int error = file_publish(f->temp, f->target);
        ok = !error
            || fail(err, SYSTEM, "%s: %s: %s", f->path, file_publish_failed(error),
                    strerror(abs(error)));
        if (ok) {
            free(f->temp);
            f->temp = NULL;
        }
    }
    out_file_abort(f);
    return ok;
}

/* The data are on the disk before the file gets its name: after a power cut it is the old file or
 * the new one, whole. Then blocks signals: one that ends the process between the temporary name
 * and the rename would leave that name. Not for output in place: a FIFO or terminal may make us
 * wait, and has no temporary name. */
bool out_file_commit(OutFile *f, Error *err)
{
    sigset_t all, before;
    int      error = f->in_place ? 0 : file_sync(f->fd);
    if (error) {
        fail(err, SYSTEM, "%s: cannot write: %s", f->path, strerror(error));
        out_file_abort(f);
        return false;
    }
    bool     hold =
        !f->in_place && sigfillset(&all) == 0 && pthread_sigmask(SIG_BLOCK, &all, &before) == 0;
    bool     ok = commit(f, err);
    if (hold)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

void out_file_abort(OutFile *f)
{
    if (!f->open)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->spool >= 0)
        close(f->spool);
    if (f->temp)
        unlink(f->temp);
    free(f->path);
    free(f->temp);
    free(f->target);
    *f = (OutFile){ 0 };
}

bool file_write(const char *path, const void *data, size_t n_bytes, Error *err)
{
    OutFile f = { 0 };
    if (out_file_open(&f, path, err) && out_file_write(&f, data, n_bytes, err)
        && out_file_commit(&f, err))
        return true;
    out_file_abort(&f);
    return false;
}
