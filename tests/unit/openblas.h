/* tests/unit/openblas.h: cases that train, which needs OpenBLAS: TEST_TRAINING(fn) in place of
 * TEST(fn) skips them where it is absent. */
#ifndef OPENBLAS_H
#define OPENBLAS_H

#include "test.h"
#include "train/train_ops.h"

static void without_openblas(void) { SKIP("no OpenBLAS"); }

static inline bool openblas_is_there(void)
{
    Blas  b;
    Error err  = { 0 };
    bool  good = blas_open(&b, &err);
    if (good)
        blas_close(&b);
    return good;
}

#define TEST_TRAINING(fn) test_run(#fn, openblas_is_there() ? (fn) : without_openblas)

#endif
