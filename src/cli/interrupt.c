#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t signalled;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    signalled = 1;
}

void interrupt_catch(void)
{
    struct sigaction old, action = { .sa_handler = on_interrupt, .sa_flags = (int)(SA_RESTART | SA_RESETHAND) };
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

bool interrupted(void) { return signalled != 0; }
