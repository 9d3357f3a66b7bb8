/* train/blas.h: matrix products by OpenBLAS, found when training begins: programs that only run models neither need it nor
 * spend the time of loading it. */
#ifndef TRAIN_BLAS_H
#define TRAIN_BLAS_H

#include "base/error.h"

/* Row-major, as cblas_sgemm and cblas_dgemm: C = alpha op(A) op(B) + beta C with op(A) [m, k], op(B) [k, n]; ta, tb: CBLAS_PLAIN
 * or CBLAS_TURNED. Every call is computed by the thread that makes it; threads may call at the same time. */
enum { CBLAS_ROWS = 101, CBLAS_PLAIN = 111, CBLAS_TURNED = 112 };
typedef void (*BlasSgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                          int ldb, float beta, float *c, int ldc);

typedef struct Blas {
    void       *library;
    BlasSgemm   sgemm;
    const char *core;      /* "SkylakeX": the processor whose kernels it took; "" where it does not say */
} Blas;

/* Loads libopenblas.so.0, which stays until the process ends. It makes threads of its own then, which sleep; OPENBLAS_NUM_THREADS=1
 * in the environment prevents that. Fails with SYSTEM where there is no such library, or a function is missing. */
bool blas_open(Blas *b, Error *err);
/* Memory for the products of so many threads, now, while an error can be told; or for fewer: returns for how many. 0: SYSTEM. */
int blas_reserve(const Blas *b, int threads, Error *err);

void blas_close(Blas *b);  /* a zeroed Blas is accepted */

#endif
