/* cli/message.h: exit statuses, notes to the user, and names as they are shown. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "base/error.h"

/* Exit statuses besides enum tblock_status. Both have an empty message, so nothing is printed. */
enum {
    CLI_INTERRUPTED = 130, /* Ctrl-C                                                     */
    CLI_CLOSED      = 141  /* Ctrl-C */
};  /* the reader of standard output went away (SIGPIPE) */

/* Prints one line on standard error, "tblock: ..."; nothing if quiet. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_note(bool quiet, const char *fmt, ...);

/* A name for a table or a line of its own, escaped like a message (base/printable.h). Returns
 * out. */
enum { CLI_SHOWN = 256 };
const char *cli_shown(char out[CLI_SHOWN], const char *text);

#endif
