/* model/weights_make.h: weights that a file does not hold as the kernels want them, in memory that
 * the model owns: row-major matrices are packed into panels, others become another type. For
 * weights.c alone. */
#ifndef MODEL_WEIGHTS_MAKE_H
#define MODEL_WEIGHTS_MAKE_H

#include "base/threads.h"
#include "model/model.h"
#include "model/tensor_check.h"

typedef struct Maker {
    Model            *m;      /* owns what is made */
    const char       *path;   /* of the stored model, for messages */
    /* filled where a function below fails: SYSTEM, or INPUT for a faulty weight */
    Error            *err;
    ThreadPool       *pool;   /* made for the first large matrix; the caller frees it */
    int               threads;
} Maker;

/* n_bytes that live as long as the model, 64-byte aligned. NULL: no memory. */
void *weights_own(Maker *mk, size_t n_bytes);

/* A row-major matrix in its own type: as panels, or where the spec does not want them as rows one
 * after the other. */
bool weights_pack(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out);

/* A matrix as another type, with the bits that `quantize` writes; c is changed to what it is now,
 * and the pages of the file that it was read from are given back. */
bool weights_retype(Maker *mk, const TensorSpec *s, CheckedTensor *c, WeightType type, Panels *out);

#endif
