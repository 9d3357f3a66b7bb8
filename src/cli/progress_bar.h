/* cli/progress_bar.h: what the program is doing while it prints nothing: one line on standard error, on a terminal alone. */
#ifndef CLI_PROGRESS_BAR_H
#define CLI_PROGRESS_BAR_H

#include <stdbool.h>

/* Show `what` (a few words) and how much of it is done, 0 .. 1; less than 0: not known. The line appears half a second after the
 * first call, and moves on its own. Nothing happens where standard error is no terminal that knows control sequences, after
 * progress_quiet, or where no thread can be had. */
void progress_show(const char *what, double done);

/* For the callbacks of the library: so much of what progress_show named is done. */
void progress_advance(void *unused, double done);

/* Wipe the line. Due before anything else is printed; harmless without a line. */
void progress_end(void);

/* No line from now on (--quiet). */
void progress_quiet(void);

/* Wipe the line for good, in a handler of a signal that ends the program. */
void progress_wipe(void);

#endif
