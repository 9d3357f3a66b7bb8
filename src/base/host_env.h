/* base/host_env.h: what a host program may have set that numbers depend on, and what tblock computes and writes in: round to nearest
 * even, subnormals kept, nothing trapped; the C locale, of this thread alone. A public function that computes, reads or spells numbers
 * outside of a parallel region (fp_env.h) runs between the two. */
#ifndef BASE_HOST_ENV_H
#define BASE_HOST_ENV_H

#include <fenv.h>
#include <locale.h>
#include "base/fp_env.h"

typedef struct HostEnv { fenv_t fp; locale_t c, old; } HostEnv;

/* Arithmetic belongs into a function called between the two, marked FP_ENV_WORK: a compiler may move an operation of the same
 * function across them. */
void host_env_enter(HostEnv *host);
void host_env_leave(const HostEnv *host);

/* All that most public functions do: return what a call of such a function gives. */
#define HOST_ENV_RETURN(type, call) \
    do { \
        HostEnv host_; \
        host_env_enter(&host_); \
        type result_ = (call); \
        host_env_leave(&host_); \
        return result_; \
    } while (0)

/* After a callback, which may have set other rounding: again as host_env_enter made it. */
void host_env_again(void);

#endif
