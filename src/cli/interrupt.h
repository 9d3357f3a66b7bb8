/* cli/interrupt.h: Ctrl-C as something to ask for between two pieces of work. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on the first Ctrl-C only sets what interrupted() tells; a second one ends the program at once. A shell that starts
 * us in the background ignores the signal, and then so do we. */
void interrupt_catch(void);
bool interrupted(void);

/* Like interrupt_catch, but every Ctrl-C only sets it, and one that comes while input is waited for ends the waiting (EINTR).
 * interrupt_forget makes ready for the next. */
void interrupt_catch_each(void);
void interrupt_forget(void);

#endif
