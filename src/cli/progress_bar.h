/* cli/progress_bar.h: shows what the program does while it prints nothing: one line on standard
 * error, only on a terminal. */
#ifndef CLI_PROGRESS_BAR_H
#define CLI_PROGRESS_BAR_H

#include <stdbool.h>

/* Shows `what` (a few words) and how much of it is done, 0 .. 1 (less than 0: unknown). The line
 * appears half a second after the first call and then moves by itself. Does nothing if standard
 * error is not a terminal that knows control sequences, after progress_quiet, or if no thread
 * can be made. */
void progress_show(const char *what, double done);

/* For the library's callbacks: sets how much is done of what progress_show named. */
void progress_advance(void *unused, double done);

/* Wipes the line. Call it before printing anything else. Harmless without a line. */
void progress_end(void);

/* Shows no line from now on (--quiet). */
void progress_quiet(void);

/* Wipes the line for good. For handlers of signals that end the program. */
void progress_wipe(void);

#endif
