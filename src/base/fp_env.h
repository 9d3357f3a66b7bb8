/* base/fp_env.h: sets rounding and subnormals for the library, and restores the caller's. */
#ifndef BASE_FP_ENV_H
#define BASE_FP_ENV_H

#include <fenv.h>
#include <locale.h>
#include <stdint.h>

/* ---- fp_env.c -------------------------------------------------------------------------------- */

/* The floating-point environment of every computation: round to nearest even,
 * keep subnormals, trap nothing (MXCSR 0x1F80, FPCR 0). Another one, which a host program may have
 * set, would change bits. */

typedef uint64_t FpEnv;

/* Sets it for this thread. Returns the caller's environment, for fp_env_leave. Compute in a
 * separate function, called between the two: a compiler may move operations of one function across
 * them. */
FpEnv fp_env_enter(void);
void  fp_env_leave(FpEnv caller);

/* Mark such a function with this, so that it stays a call. Inlined, its arithmetic would belong
 * to the caller and could move. The same holds for host_env_enter and host_env_leave.
 * tests/project/framed.sh checks the objects. */
#ifdef __has_attribute
#if __has_attribute(noipa)
#define FP_ENV_WORK __attribute__((noipa))
#endif
#endif
#ifndef FP_ENV_WORK
#define FP_ENV_WORK __attribute__((noinline))
#endif

/* ---- host_env.c ------------------------------------------------------------------------------ */

/* Replaces the host program's settings that change numbers, and restores them. Inside: round to
 * nearest even, keep subnormals, trap nothing, and use the C locale (this thread only). Public
 * functions that compute, read or write numbers outside a parallel region (fp_env.h) run between
 * the two. */

typedef struct HostEnv { fenv_t fp; locale_t c, old; } HostEnv;

/* Compute in a separate function, called between the two and marked FP_ENV_WORK: a compiler may
 * move operations of one function across them. */
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
