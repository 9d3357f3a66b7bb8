/* train/blas.h: matrix products by OpenBLAS. It is loaded when training begins, so a program
 * that only runs models neither needs it nor waits for it. */
#ifndef TRAIN_BLAS_H
#define TRAIN_BLAS_H

#include "base/error.h"

/* Arguments as in cblas_sgemm, row-major: C = alpha op(A) op(B) + beta C, op(A) [m, k], op(B)
 * [k, n]. ta and tb are CBLAS_PLAIN or CBLAS_TURNED (transposed). The calling thread computes
 * the product; several threads may call at the same time. */
enum { CBLAS_ROWS = 101, CBLAS_PLAIN = 111, CBLAS_TURNED = 112 };
typedef void (*BlasSgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                          int ldb, float beta, float *c, int ldc);

typedef struct Blas {
    void       *library;
    BlasSgemm   sgemm;
    const char *core;      /* kernels it chose ("SkylakeX"); "" if unknown */
} Blas;

/* Loads libopenblas.so.0, which stays loaded until the process ends. Loading starts threads of
 * OpenBLAS's own, which sleep; OPENBLAS_NUM_THREADS=1 in the environment prevents them. Fails
 * with SYSTEM if the library or a function is missing. */
bool blas_open(Blas *b, Error *err);
/* Maps the buffers for the products of `threads` threads now, while we can still report an
 * error. Returns for how many threads there was room, at most `threads`. On 0 it fails with
 * SYSTEM. */
int blas_reserve(const Blas *b, int threads, Error *err);

void blas_close(Blas *b);  /* accepts a zeroed Blas */

#endif
