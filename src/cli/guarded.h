/* cli/guarded.h: files of a command that enters the sandbox, where nothing can be opened by
 * name. They are opened before, and the library gets names such as /dev/fd/5. Without the
 * sandbox, names stay as they are. */
#ifndef CLI_GUARDED_H
#define CLI_GUARDED_H

#include "tblock.h"

/* A zeroed Guarded is closed. */
typedef struct Guarded {
    const char *path;       /* what the library should open */
    const char *shown;      /* as the user gave it */
    bool        open;       /* opened here */
    int         fd;
    bool        renamed;    /* an output that the helper behind `to` and `from` renames */
    int         to, from;
    bool        copied;     /* an output that is copied from fd to `target` at the end */
    int         target;
    char        name[32];
} Guarded;

/* Like open(2), for this process only. For a name such as /dev/stdout or /dev/fd/3, duplicates
 * the open descriptor. -1: see errno. */
int open_or_take(const char *path, int flags);

/* Opens an input file that is mapped, so it must be a regular file. path may be NULL. */
bool guarded_input(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* Opens an input that is read from beginning to end. It may be a pipe, whose writer is waited
 * for. path may be NULL. */
bool guarded_text(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* Opens an output file; path may be NULL. As in base/file.h, it appears complete or not at all.
 * It gets a temporary name. A process in the sandbox cannot rename, so a helper process outside
 * waits for an order to rename the file; without one it removes it. What base/file.h writes in
 * place (devices, FIFOs, open descriptors) is written at the end. The caller must check before
 * that the output is not one of the inputs (common.h): the name that the library gets does not
 * show it. */
bool guarded_output(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* Enters the sandbox (sandbox.h) if asked for. These outputs, and the descriptor `also` (-1:
 * none), stay writable. */
bool guarded_enter(bool sandbox, const Guarded *list, size_t n, int also, tblock_error *err);

/* The output is complete: gives it its name. Closes g. */
bool guarded_commit(Guarded *g, tblock_error *err);

/* Closes g without an output. If err has a message that begins with the library's name for the
 * file, puts the user's there. */
void guarded_close(Guarded *g, tblock_error *err);

#endif
