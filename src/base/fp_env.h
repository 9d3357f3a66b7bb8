/* base/fp_env.h: the floating-point environment of every computation: round to nearest even,
 * keep subnormals, trap nothing (MXCSR 0x1F80, FPCR 0). A host program may have set another one,
 * which would change bits. */
#ifndef BASE_FP_ENV_H
#define BASE_FP_ENV_H

#include <stdint.h>

typedef uint64_t FpEnv;

/* Sets it for this thread. Returns the caller's environment, for fp_env_leave. Compute in a
 * function that is called between the two: a compiler may move an operation of the same function
 * across them. */
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

#endif
