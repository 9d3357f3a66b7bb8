/* base/host_env.h: replaces what a host program may have set that changes numbers, and restores
 * it. Inside: round to nearest even, keep subnormals, trap nothing, and use the C locale (this
 * thread only). Public functions that compute, read or write numbers outside a parallel region
 * (fp_env.h) run between the two. */
#ifndef BASE_HOST_ENV_H
#define BASE_HOST_ENV_H

#include <fenv.h>
#include <locale.h>
#include "base/fp_env.h"

typedef struct HostEnv { fenv_t fp; locale_t c, old; } HostEnv;

/* Compute in a function that is called between the two and marked FP_ENV_WORK: a compiler may
 * move an operation of the same function across them. */
void host_env_enter(HostEnv *host);
void host_env_leave(const HostEnv *host);

/* The body of most public functions: returns the result of `call`, made in our environment. */
#define HOST_ENV_RETURN(type, call) \
    do { \
        HostEnv host_; \
        host_env_enter(&host_); \
        type result_ = (call); \
        host_env_leave(&host_); \
        return result_; \
    } while (0)

/* Call after a callback, which may have changed the rounding: sets what host_env_enter set. */
void host_env_again(void);

#endif
