#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t signalled;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    signalled = 1;
}

static void catch(int flags)
{
    struct sigaction old, action = { .sa_handler = on_interrupt, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void interrupt_catch(void) { catch((int)(SA_RESTART | SA_RESETHAND)); }
void interrupt_catch_each(void) { catch(0); }
void interrupt_forget(void) { signalled = 0; }
bool interrupted(void) { return signalled != 0; }
