/* cli/guarded.h: files of a command that enters the sandbox, where none can be opened by name: they are opened before, and the
 * library is given names such as /dev/fd/5 instead. Without the sandbox the names stay as they are. */
#ifndef CLI_GUARDED_H
#define CLI_GUARDED_H

#include "tblock.h"

/* A zeroed Guarded is closed. */
typedef struct Guarded {
    const char *path;       /* what the library is to open                                              */
    const char *shown;      /* as the user gave it                                                      */
    bool        open;       /* opened here                                                              */
    int         fd;
    bool        renamed;    /* an output that gets its name at the end, from the helper behind `to`, `from` */
    int         to, from;
    bool        copied;     /* an output that is no regular file: at the end it is copied from fd, which has no name, to `target` */
    int         target;
    char        name[32];
} Guarded;

/* open(2), for this process alone; of a name such as /dev/stdout or /dev/fd/3 another descriptor of what is open. -1: errno says why. */
int open_or_take(const char *path, int flags);

/* An input file that is mapped, so a regular one; path may be NULL. */
bool guarded_input(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* An input that is read from its beginning to its end, and may be a pipe, whose writer is waited for; path may be NULL. */
bool guarded_text(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* An output file; path may be NULL. As base/file.h has it, it appears whole or not at all: it lies under a temporary name, and since a
 * process in the sandbox cannot rename, a helper process waits outside that renames the file when told to, and else removes it. What
 * base/file.h writes in place (devices, FIFOs, open descriptors) is written at the end. That it is no file which is read is the
 * caller's to ask before (common.h): it gets a name that does not tell. */
bool guarded_output(Guarded *g, const char *path, bool sandbox, tblock_error *err);

/* Enter the sandbox (sandbox.h), if asked for: these outputs, and the descriptor `also` (-1: none), may still be written to. */
bool guarded_enter(bool sandbox, const Guarded *list, size_t n, int also, tblock_error *err);

/* The output is complete: give it its name. Closes g. */
bool guarded_commit(Guarded *g, tblock_error *err);

/* Closes g, without an output. Where err has a message that begins with the library's name for the file, it gets the user's. */
void guarded_close(Guarded *g, tblock_error *err);

#endif
