/* base/cpu.h: the instruction sets that tblock has code for, which of them this processor runs, and the choice among tables
 * of several: of kernels, of searches for codes, of roofline loops. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Those of this build, weakest first: X(enumerator, name). */
#if defined(__x86_64__)
#define ISA_LIST(X) X(SCALAR, scalar) X(AVX2, avx2) X(AVXVNNI, avxvnni) X(AVX512, avx512) X(AVX512VNNI, avx512vnni)
#else
#define ISA_LIST(X) X(SCALAR, scalar) X(NEON, neon) X(NEONDOT, neondot)
#endif

#define ISA_ENUMERATOR(id, name) ISA_##id,
typedef enum Isa { ISA_LIST(ISA_ENUMERATOR) ISA_COUNT } Isa;
#undef ISA_ENUMERATOR

const char *isa_name(Isa isa);

/* Do the processor and the operating system run its instructions? The scalar set always runs. */
bool cpu_runs(Isa isa);

/* The dispatcher. rows: n of `size` bytes, each of which begins with the Isa that it needs, weakest first; the first is
 * scalar. Returns the last one that runs here and is no stronger than `most`. */
const void *cpu_choose(const void *rows, size_t n, size_t size, Isa most);
#define CPU_CHOOSE(rows, most) cpu_choose(rows, sizeof(rows) / sizeof *(rows), sizeof *(rows), most)

#endif
