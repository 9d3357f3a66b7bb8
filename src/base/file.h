/* base/file.h: paths, and files that are mapped, read or written whole. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "base/error.h"

/* ---- path.c ---------------------------------------------------------------------------------- */

/* Paths as strings, and what exists at them. */

enum { PATH_BYTES = 4096 };

/* Is there a file, a folder or a symbolic link? A link to a missing file counts too: opening it
 * is an error, which must not look like an absent file. */
bool path_exists(const char *path);
bool path_is_folder(const char *path);

/* The last part of a path; all of one that ends in a slash. */
const char *path_name(const char *path);

bool path_ends(const char *path, const char *end); /* in `end`, after at least one byte */

/* Do both names mean one regular file? If neither exists yet: are folder and name the same? "-"
 * is standard input, as for file_read. */
bool path_same_file(const char *a, const char *b);

/* NAME in the folder `place`, with one slash between. If `place` is not a folder, NAME in the
 * folder of `place`. False: too long. */
bool path_in(const char *place, const char *name, char out[PATH_BYTES]);

/* The same, and does that file exist? */
bool path_there(const char *place, const char *name, char out[PATH_BYTES]);

/* ---- hold.c ---------------------------------------------------------------------------------- */

/* Files that are opened before a sandbox forbids opening, and read later by name. */

/* HOLD_PLACE: remembers what stat says, for path_same_file; HOLD_FILE: opens a regular file too;
 * HOLD_TEXT: opens any kind, and waits for the writer of a FIFO. */
typedef enum FileHold { HOLD_PLACE, HOLD_FILE, HOLD_TEXT } FileHold;

/* Holds what is at this path until the process ends. A missing file or a failed open is remembered
 * too, and reported to its readers. Fails if memory is out. While file_hold_system is on,
 * file_of_system remembers all that it reads. Call these two while there is one thread. */
bool  file_hold(const char *path, FileHold how, Error *err);
void  file_hold_system(bool on);

/* open (for reading), stat, "does lstat find it?" and fopen for reading of a file of /proc or /sys:
 * from the held file if there is one, else by the system. Descriptors start at byte 0. */
int   file_open(const char *path, int flags);
int   file_stat(const char *path, struct stat *st);
bool  file_is_there(const char *path);
FILE *file_of_system(const char *path);

/* ---- cgroup.c -------------------------------------------------------------------------------- */

/* The first n - 1 bytes of file_of_system. False: there are none. */
bool file_of_system_text(const char *path, char *text, size_t n);

/* Calls v2 or v1, by the kind of group, with the folder of every control group of this process that
 * has this controller ("cpu"), and of its parents, up to the mount. A folder may not exist. root:
 * "", or a folder with other /proc and /sys, for tests. */
typedef void CgroupLimit(void *out, const char *folder);
void cgroup_walk(const char *root, const char *controller, CgroupLimit *v2, CgroupLimit *v1,
                 void *out);

/* The path of the open held file that is the same file, under any name. NULL: none. */
const char *file_held_like(const char *path);

/* ---- file.c ---------------------------------------------------------------------------------- */

/* Input files as mappings or texts. */

typedef struct FileMap {
    char                *path; /* of file_map_open; for messages */
    const unsigned char *data; /* NULL for an empty file */
    size_t               size;
} FileMap;

/* The descriptor that a name such as /dev/stdout or /dev/fd/3 stands for, or -1. Use it instead of
 * opening the name, which would start again at byte 0 of a redirected file. */
int file_descriptor(const char *path);

/* The status for the errno of a failed open or read: INPUT if the name leads to no file, SYSTEM
 * for any other error (EMFILE, EIO, EACCES ...). */
int file_status(int error);

int file_fstat(int fd, struct stat *st); /* fstat, also in a sandbox */

const char *file_kind(mode_t mode); /* "a directory", "a FIFO", ... */

/* Maps a regular file read-only. A name such as /dev/fd/N means the open descriptor itself.
 * Fails with INPUT if the file does not exist or is not regular (a directory, FIFO, device),
 * with SYSTEM for other reasons. A zeroed FileMap may be closed. */
bool file_map_open(FileMap *f, const char *path, Error *err);
/* The same, but data may be written (cast the const away). What is written stays in this process
 * and never reaches the file. Pages that are only read are shared with other processes that read
 * the file. */
bool file_map_open_private(FileMap *f, const char *path, Error *err);
void file_map_close(FileMap *f);

/* The path of the FileMap that holds this address, valid until that is closed. NULL: none. A
 * handler of SIGBUS may call it. */
const char *file_mapped_at(const void *address);

/* Hints to the kernel. offset and n_bytes are clipped to the file. file_map_lock fails with
 * SYSTEM and names the limit. */
void file_map_will_need(const FileMap *f, size_t offset, size_t n_bytes);
void file_map_huge_pages(const FileMap *f);
void file_map_small_pages(const FileMap *f); /* pages that are not read stay out of memory */
void file_map_populate(const FileMap *f);
/* Releases the whole pages in the range from this process's memory. */
void file_map_release(const FileMap *f, size_t offset, size_t n_bytes);
bool file_map_lock(const FileMap *f, Error *err);
/* The same for any memory. data NULL: does nothing. */
bool memory_lock(const void *data, size_t n_bytes, const char *what, Error *err);

/* Reads a whole small file (at most max_bytes, else INPUT) into *text, NUL-terminated; free()
 * it. It must be a regular file, as for file_map_open. But "-" is standard input, and standard
 * input and other open descriptors (/dev/fd/N) may be pipes, which are read to their end. */
bool file_read(const char *path, size_t max_bytes, char **text, size_t *n_bytes, Error *err);
/* The same for any kind of file. Waits for the writer of a FIFO. Stops at max_bytes of an endless
 * file. */
bool file_read_stream(const char *path, size_t max_bytes, char **text, size_t *n_bytes, Error *err);

/* ---- out_file.c ------------------------------------------------------------------------------ */

/* Name number i, below FILE_TEMP_NAMES, for a temporary file in the target's folder. It is short,
 * so that it fits if the target's name does. The caller frees it. NULL: no memory. */
enum { FILE_TEMP_NAMES = 1000 };
char *file_temp_name(const char *target, int i);

/* Calls write(2), or with at >= 0 pwrite(2) at that offset, until all n bytes are written.
 * False: see errno. */
bool write_all(int fd, off_t at, const void *data, size_t n);

/* An output file that appears complete or not at all. Until commit it has no name (O_TMPFILE),
 * so that nothing is left however the process ends. If the file system cannot do that, it
 * has a temporary name in the same folder, which abort removes. Errors name path and reason
 * (SYSTEM). A symbolic link stays: the file that it points to is replaced and keeps its mode. A
 * new file gets 0666 less the umask. A character device such as /dev/null or /dev/full, a FIFO,
 * and the names /dev/stdout, /dev/stderr and /dev/fd/N are written in place. A directory, socket
 * or block device is rejected. */
typedef struct OutFile {
    char  *path, *temp; /* path as given, for messages; temporary name or NULL */
    char  *target;      /* what the rename replaces: path, links followed */
    int    fd;
    int    spool;       /* in place: unnamed file for write_at; -1: none */
    size_t written;     /* by out_file_write */
    bool   open, in_place;
    bool   direct;      /* spool is the output itself: no temporary file (sandbox) */
} OutFile;
bool out_file_open(OutFile *f, const char *path, Error *err);

/* An output must not replace its input. Fails with USAGE, naming both, if the two paths are one
 * file (path_same_file). */
bool file_check_apart(const char *output, const char *input, Error *err);

/* Can this file be written? Opens it as out_file_open would and leaves nothing. For commands that
 * would otherwise fail after hours. */
bool file_check_output(const char *path, Error *err);

/* Is there room for a file of n_bytes, of which n_stored take space on the disk (less if it has
 * holes)? Fails with SYSTEM, naming what is needed and what is available: the free space, or the
 * largest file allowed (ulimit -f). True if that is unknown (a pipe, a device, some network file
 * systems). file_check_room checks before the file is open. */
bool out_file_room(const OutFile *f, size_t n_bytes, size_t n_stored, Error *err);
bool file_check_room(const char *path, size_t n_bytes, size_t n_stored, Error *err);

/* May the file have holes (out_file_extend)? Fails with USAGE for a pipe, a device or an open
 * file, which are written in place. Opens nothing, because opening a FIFO waits for its reader. */
bool file_check_holes(const char *path, Error *err);

/* Makes the file n_bytes long. Bytes that are never written read as zeros and take no space. */
bool out_file_extend(OutFile *f, size_t n_bytes, Error *err);

bool out_file_write(OutFile *f, const void *data, size_t n_bytes, Error *err); /* appends */
/* Writes at an offset. Any thread may call it, once a first call has returned. Use either this
 * or out_file_write for a file, not both. */
bool out_file_write_at(OutFile *f, size_t offset, const void *data, size_t n_bytes, Error *err);
/* Syncs (fsync), renames, syncs the folder; releases f even on failure. */
bool out_file_commit(OutFile *f, Error *err);
/* fsync; does nothing for kinds of file that do not support it. 0 or errno. */
int file_sync(int fd);
/* Syncs the folder that path lies in, and so the name itself. 0 or errno. */
int file_sync_folder(const char *path);
/* Renames temp, whose data are synced, to target, so that it lasts through a power cut. Returns 0,
 * errno of the rename, or -errno of the sync after it; the second function puts it in words. */
int         file_publish(const char *temp, const char *target);
const char *file_publish_failed(int error);
void out_file_abort(OutFile *f);              /* accepts a zeroed or committed OutFile */

/* Writes a whole output file at once. */
bool file_write(const char *path, const void *data, size_t n_bytes, Error *err);

#endif
