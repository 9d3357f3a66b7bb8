/* cli/message.h: exit statuses, notes to the user, names as they are shown. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "base/error.h"

/* Exit statuses beside enum tblock_status. Both come with an empty message: nothing is printed. */
enum {
    CLI_INTERRUPTED = 130, /* Ctrl-C                                                     */
    CLI_CLOSED      = 141  /* the reader of standard output went away, as after SIGPIPE  */
};

/* One line on standard error, "tblock: ..."; nothing when quiet. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_note(bool quiet, const char *fmt, ...);

/* A name for a table or a line of its own, escaped like a message (base/printable.h); returns out. */
enum { CLI_SHOWN = 256 };
const char *cli_shown(char out[CLI_SHOWN], const char *text);

#endif
