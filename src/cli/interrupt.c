/* cli/interrupt.c: handlers of SIGINT that set a flag. */
#include "command.h"


#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t signalled;

static void note_interrupt(int signal_number)
{
    (void)signal_number;
    signalled = 1;
}

static void note_or_end(int signal_number)
{
    if (signalled)
        fault_end(signal_number);
    signalled = 1;
}

static void catch(void (*handler)(int), int flags)
{
    struct sigaction old, action = { .sa_handler = handler, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void interrupt_catch(void) { catch(note_or_end, SA_RESTART); }
void interrupt_catch_each(void) { catch(note_interrupt, 0); }
void interrupt_forget(void) { signalled = 0; }
bool interrupted(void) { return signalled != 0; }
