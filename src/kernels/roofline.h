/* kernels/roofline.h: the machine's peak bandwidth and arithmetic, which kernels and models are
 * measured against. It uses no kernel and no model: its loops are its own. */
#ifndef KERNELS_ROOFLINE_H
#define KERNELS_ROOFLINE_H

#include <stddef.h>

#include "base/cpu.h"

/* Read bandwidth in GB/s (10^9 bytes) of `threads` threads, each reading its own contiguous share
 * of data (n_bytes, of which whole 4 KB are read; take 1 GB or more): the best of a plain loop and
 * loops that prefetch 256, 512, 1024 and 2048 bytes ahead, `repeats` times each. */
double roofline_read(const void *data, size_t n_bytes, int threads, int repeats);

/* Writes to data [n_bytes], each thread to the share that it reads later, so that its pages lie on
 * that thread's memory node. */
void roofline_touch(void *data, size_t n_bytes, int threads);

/* Peak multiply-add rate in 10^9 operations a second (a product and its addition are two) with the
 * instructions that an ISA's kernels use, all threads together: the best of several runs over
 * independent chains in registers. Fused multiply-adds of f32, or of bf16 (those of f32 if the ISA
 * has none of its own); dot products of integers with int32 sums, 0 if it has none. */
typedef enum PeakOf { PEAK_F32, PEAK_BF16, PEAK_INT16, PEAK_INT8 } PeakOf;
double roofline_peak(Isa isa, PeakOf of, int threads);

/* The processor's name as the system reports it, else "unknown". */
void machine_name(char *name, size_t size);

#endif
