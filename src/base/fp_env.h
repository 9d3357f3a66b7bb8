/* base/fp_env.h: the floating-point environment that every result is computed in: round to nearest even, subnormals kept,
 * nothing trapped (MXCSR 0x1F80, FPCR 0). A host program may have set another one. */
#ifndef BASE_FP_ENV_H
#define BASE_FP_ENV_H

#include <stdint.h>

typedef uint64_t FpEnv;

/* Set it for this thread; returns the caller's, to be given back to fp_env_leave. Arithmetic belongs into a function called
 * between the two: a compiler may move an operation of the same function across them. */
FpEnv fp_env_enter(void);
void  fp_env_leave(FpEnv caller);

/* Goes before a static function that computes between the two (or between host_env_enter and host_env_leave), so that it stays
 * a call: inlined, its arithmetic would be that of the same function. tests/project/framed.sh looks at the objects. */
#ifdef __has_attribute
#if __has_attribute(noipa)
#define FP_ENV_WORK __attribute__((noipa))
#endif
#endif
#ifndef FP_ENV_WORK
#define FP_ENV_WORK __attribute__((noinline))
#endif

#endif
