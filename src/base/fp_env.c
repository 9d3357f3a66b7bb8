/* base/fp_env.c: sets the control register of the vector unit: MXCSR on x86-64, FPCR on aarch64. */
#include "base/fp_env.h"

#include "base/cpu.h"
#if defined(__x86_64__)
#include <xmmintrin.h>

FpEnv fp_env_enter(void)
{
    FpEnv caller = _mm_getcsr();
    _mm_setcsr(0x1F80);
    return caller;
}

void fp_env_leave(FpEnv caller) { _mm_setcsr((uint32_t)caller); }
#else
FpEnv fp_env_enter(void)
{
    FpEnv caller;
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return caller;
}

void fp_env_leave(FpEnv caller) { __asm__ volatile("msr fpcr, %0" : : "r"(caller) : "memory"); }
#endif
