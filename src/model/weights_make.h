/* model/weights_make.h: makes weights that a file does not hold as the kernels want them. Row-major
 * matrices are packed into panels, others get another type. The model owns the memory. Only
 * weights.c uses this. */
#ifndef MODEL_WEIGHTS_MAKE_H
#define MODEL_WEIGHTS_MAKE_H

#include "base/threads.h"
#include "model/model.h"
#include "model/tensor_check.h"

typedef struct Maker {
    Model            *m;      /* owns what is made */
    const char       *path;   /* the stored model's, for messages */
    /* Set if a function below fails: SYSTEM, or INPUT for a faulty weight. */
    Error            *err;
    ThreadPool       *pool;   /* made for the first large matrix; the caller frees it */
    int               threads;
} Maker;

/* n_bytes, 64-byte aligned, that live as long as the model. NULL: SYSTEM. */
void *weights_own(Maker *mk, size_t n_bytes);

/* Lay out a row-major matrix in its own type: as panels, or as rows one after the other if the spec
 * does not want panels. */
bool weights_pack(Maker *mk, const TensorSpec *s, const CheckedTensor *c, Panels *out);

/* Make a matrix of another type, with the bits that `quantize` writes. c then describes the new
 * matrix, and the file's pages that it was read from are given back. */
bool weights_retype(Maker *mk, const TensorSpec *s, CheckedTensor *c, WeightType type, Panels *out);

#endif
