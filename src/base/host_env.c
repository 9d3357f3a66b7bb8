/* base/host_env.c: saves the host's floating-point environment and locale, sets ours, and
 * restores them. */
#include "base/fp_env.h"

/* fenv.h too, not only the vector unit's register: on x86-64, glibc's printf and strtod read the
 * rounding mode of the x87 unit. */
static void reset(void)
{
    fesetenv(FE_DFL_ENV);
    fp_env_enter();
}

void host_env_enter(HostEnv *host)
{
    fegetenv(&host->fp);
    reset();
    host->c   = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* on failure the locale stays */
    host->old = uselocale(host->c);
}

void host_env_leave(const HostEnv *host)
{
    uselocale(host->old);
    if (host->c)
        freelocale(host->c);
    fesetenv(&host->fp);
}

void host_env_again(void) { reset(); }
