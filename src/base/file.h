/* base/file.h: files as mappings, and output files that appear whole or not at all. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/types.h>
#include "base/error.h"

typedef struct FileMap {
    char                *path; /* owned copy, for messages */
    const unsigned char *data; /* NULL for an empty file   */
    size_t               size;
} FileMap;

/* The descriptor that a name such as /dev/stdout or /dev/fd/3 stands for; -1: another name. Opening the name would begin
 * a second time at byte 0 of a redirected file. */
int file_descriptor(const char *path);

const char *file_kind(mode_t mode); /* "a directory", "a FIFO", ... */

/* Name number i, below FILE_TEMP_NAMES, for a temporary file in the target's folder: short, so that it fits where the target's
 * long name fits. The caller frees it; NULL: no memory. */
enum { FILE_TEMP_NAMES = 1000 };
char *file_temp_name(const char *target, int i);

/* Map a regular file read-only; a name such as /dev/fd/N is the open descriptor, without a new open. A directory, FIFO, device or missing file is an error that says so (INPUT for what is
 * there but is not a regular file or does not exist, SYSTEM for other failures). A zeroed FileMap may be closed. */
bool file_map_open(FileMap *f, const char *path, Error *err);
/* The same, but data may be written to (cast the const away): what is written stays in this process and never reaches the
 * file; pages that are only read are shared with whoever else reads it. */
bool file_map_open_private(FileMap *f, const char *path, Error *err);
void file_map_close(FileMap *f);

/* Hints. offset and n_bytes are clipped to the file. file_map_lock fails (SYSTEM) naming the limit. */
void file_map_will_need(const FileMap *f, size_t offset, size_t n_bytes);
void file_map_huge_pages(const FileMap *f);
void file_map_populate(const FileMap *f);
void file_map_release(const FileMap *f, size_t offset, size_t n_bytes); /* whole pages in it leave this process's memory */
bool file_map_lock(const FileMap *f, Error *err);
bool memory_lock(const void *data, size_t n_bytes, const char *what, Error *err); /* the same of any memory; NULL: nothing */

/* Read a whole small file (at most max_bytes, else INPUT) into *text, NUL-terminated; caller frees. It must be a regular file, as for
 * file_map_open; but "-" is standard input, and that and other open descriptors (/dev/fd/N) may be pipes, which are read to their end. */
bool file_read(const char *path, size_t max_bytes, char **text, size_t *n_bytes, Error *err);
/* The same of any file, for texts: a FIFO is waited for; an endless file stops at max_bytes. */
bool file_read_stream(const char *path, size_t max_bytes, char **text, size_t *n_bytes, Error *err);

/* write(2), or from at >= 0 on pwrite(2), until all n bytes are there; false: errno says why not. */
bool write_all(int fd, off_t at, const void *data, size_t n);

/* An output file that appears whole or not at all: until commit it has no name (O_TMPFILE), so that nothing is left behind
 * however the process ends; where the file system lacks that, it has a temporary name in the same folder, which abort
 * removes. Errors name path and the reason (SYSTEM). A symbolic link stays: the file it points to is replaced,
 * and keeps its mode; a new file gets 0666 less the umask. A character device such as /dev/null or /dev/full, a FIFO, and
 * the names /dev/stdout, /dev/stderr and /dev/fd/N are written in place; a directory, socket or block device is refused. */
typedef struct OutFile {
    char  *path, *temp; /* as given, for messages; the temporary file's name, NULL: none             */
    char  *target;      /* what is renamed over: path with symbolic links followed                          */
    int    fd;
    int    spool;       /* in place only: an unnamed file that write_at fills and commit copies; -1: none    */
    size_t written;     /* by out_file_write                                                                */
    bool   open, in_place;
    bool   direct;      /* spool is the output itself, since no temporary file is to be had (a sandbox) */
} OutFile;
bool out_file_open(OutFile *f, const char *path, Error *err);

/* An output must not replace the input it is made from: fails (USAGE, naming both) where the two paths are one file (path_same_file). */
bool file_check_apart(const char *output, const char *input, Error *err);

/* Can this be written? Opens it as out_file_open would, and leaves nothing: for commands that would find out after hours. */
bool file_check_output(const char *path, Error *err);

/* Is there room for the file: n_bytes long, n_stored of them on the disk (less than n_bytes: with holes)? Fails (SYSTEM) naming what is needed
 * and what there is: free space of the file system, the largest file allowed (ulimit -f). Where that is unknown (a pipe, a device,
 * some network file systems): true. file_check_room asks the same of a file that is not open yet. */
bool out_file_room(const OutFile *f, size_t n_bytes, size_t n_stored, Error *err);
bool file_check_room(const char *path, size_t n_bytes, size_t n_stored, Error *err);

/* May the file have holes (out_file_extend)? Fails (USAGE) for a pipe, a device or an open file, which is written in
 * place. Opens nothing: opening a FIFO waits for its reader. */
bool file_check_holes(const char *path, Error *err);

/* Make the file n_bytes long; bytes that are never written read as zeros and take no space. */
bool out_file_extend(OutFile *f, size_t n_bytes, Error *err);

bool out_file_write(OutFile *f, const void *data, size_t n_bytes, Error *err); /* append */
/* Write at an offset; any thread, once a first call has returned. A file is written by this or by out_file_write. */
bool out_file_write_at(OutFile *f, size_t offset, const void *data, size_t n_bytes, Error *err);
bool out_file_commit(OutFile *f, Error *err); /* flush, rename; releases f either way */
void out_file_abort(OutFile *f);              /* a zeroed or committed OutFile is accepted */

/* A whole output file at once. */
bool file_write(const char *path, const void *data, size_t n_bytes, Error *err);

#endif
