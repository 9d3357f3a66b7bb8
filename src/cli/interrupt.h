/* cli/interrupt.h: Ctrl-C as a flag that the program reads between two pieces of work. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the first Ctrl-C only sets interrupted(); a second one ends the program at once. A
 * shell that starts us in the background ignores the signal, and then so do we. */
void interrupt_catch(void);
bool interrupted(void);

/* The same, but every Ctrl-C only sets the flag, and one that comes while waiting for input ends
 * the wait (EINTR). interrupt_forget clears the flag for the next one. */
void interrupt_catch_each(void);
void interrupt_forget(void);

#endif
