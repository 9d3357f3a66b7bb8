/* cli/message.h: error values, notes to the user, UTF-8 checks for what is shown. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "tblock.h"

/* Exit statuses beside enum tblock_status. Both come with an empty message: nothing is printed. */
enum {
    CLI_INTERRUPTED = 130, /* Ctrl-C                                                     */
    CLI_CLOSED      = 141  /* the reader of standard output went away, as after SIGPIPE  */
};

/* Fill *err; what a terminal should not be shown is escaped (base/printable.h), so the message is one clean line. Returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
bool cli_fail(tblock_error *err, int status, const char *fmt, ...);

/* Without memory: fills *err, returns false. */
bool cli_no_memory(tblock_error *err);

/* One line on standard error, "tblock: ..."; nothing when quiet. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void cli_note(bool quiet, const char *fmt, ...);

/* Bytes of the UTF-8 character at text (1 to 4), or 0 when none of n bytes starts with a valid one. */
size_t cli_utf8_length(const char *text, size_t n);

/* Copy text to out (room for n_out bytes, at least 8), escaped like a message; cut with "..." when it does not fit. */
void cli_escape(char *out, size_t n_out, const char *text, size_t n);

/* A name for a table or a line of its own, escaped alike; returns out. */
enum { CLI_SHOWN = 256 };
const char *cli_shown(char out[CLI_SHOWN], const char *text);

#endif
