/* base/cpu.h: the processor: what every file assumes of it, and which instruction sets it runs. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* ---- platform -------------------------------------------------------------------------------- */

/* What every file relies on: little-endian x86-64 or aarch64, IEEE arithmetic
 * as written. */

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "tblock runs only on x86-64 and aarch64: it uses files in place and is exact to the bit"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tblock needs a little-endian machine: it uses the weights directly from the file"
#endif
#if defined(__FAST_MATH__)
#error "build tblock without -ffast-math: it changes bits"
#endif
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8 && sizeof(void *) == 8,
               "IEEE floats and 64-bit addresses");

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/* The instruction sets that tblock has code for, which of them this processor runs, and the
 * dispatch among tables of kernels, of code searches and of roofline loops. */

/* Those of this build, weakest first: X(enumerator, name). */
#if defined(__x86_64__)
#define ISA_LIST(X)                                                                                \
    X(SCALAR, scalar) X(AVX2, avx2) X(AVXVNNI, avxvnni) X(AVX512, avx512)                          \
    X(AVX512VNNI, avx512vnni) X(AVX512BF16, avx512bf16)
#else
#define ISA_LIST(X) X(SCALAR, scalar) X(NEON, neon) X(NEONDOT, neondot)
#endif

#define ISA_ENUMERATOR(id, name) ISA_##id,
typedef enum Isa { ISA_LIST(ISA_ENUMERATOR) ISA_COUNT } Isa;
#undef ISA_ENUMERATOR

const char *isa_name(Isa isa);

/* Do the processor and the operating system run its instructions? The scalar set always runs. */
bool cpu_runs(Isa isa);

/* The dispatcher. rows: n of `size` bytes, each of which starts with the Isa that it needs,
 * weakest first; the first is scalar. Returns the last one that runs here and is no stronger
 * than `most`. */
const void *cpu_choose(const void *rows, size_t n, size_t size, Isa most);
#define CPU_CHOOSE(rows, most) cpu_choose(rows, sizeof(rows) / sizeof *(rows), sizeof *(rows), most)

#endif
