/* measure/roofline.h: what this machine can do at most: the numbers that kernels and models are measured against. This room
 * knows nothing of models or kernels; its loops are its own. */
#ifndef MEASURE_ROOFLINE_H
#define MEASURE_ROOFLINE_H

#include <stdbool.h>
#include <stddef.h>

/* Read bandwidth in GB/s (10^9 bytes) of `threads` threads, each reading its own contiguous share of data (n_bytes, of
 * which whole 4 KB are read; take 1 GB or more): the best of a plain loop and loops that prefetch 256, 512, 1024 and
 * 2048 bytes ahead, `repeats` times each. *ahead (may be NULL) gets the distance that won, 0: the plain loop. */
double roofline_read(const void *data, size_t n_bytes, int threads, int repeats, int *ahead);

/* Write to data [n_bytes], each thread to the share that it reads later: its pages then lie on that thread's memory node. */
void roofline_touch(void *data, size_t n_bytes, int threads);

/* Peak of f32 fused multiply-adds in GFLOP/s (two operations each) with the instructions of one ISA, all threads
 * together: the best of several runs over independent chains in registers. 0: an ISA that is unknown here. */
double roofline_fma(const char *isa, int threads);

/* The same for integer dot products in GOP/s (a product and its addition are two): int8 (bits 8) or int16 (16) inputs, int32
 * sums, with the instructions that an ISA's kernels take. 0: it has none of its own. */
double roofline_dot(const char *isa, int bits, int threads);

/* The processor's name as the system gives it, "unknown" where it does not. */
void machine_name(char *name, size_t size);

#endif
