/* model/tensor_check.h: is a file's tensor the one that the config asks for? Makes every message about a wrong tensor. */
#ifndef MODEL_TENSOR_CHECK_H
#define MODEL_TENSOR_CHECK_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

typedef struct CheckedTensor {
    const Tensor *t;
    WeightType    type;
    bool          panels;   /* a matrix in panels; false: row-major, or a vector */
} CheckedTensor;

/* Find the tensor of a spec; its dtype (F32, F16, BF16) and shape (panels or row-major) must be as docs/format.md says. */
bool tensor_check(const TensorSpec *s, const TensorFile *f, CheckedTensor *out, Error *err);

/* Every tensor of f belongs to the config, the tokenizer (tok.*) or the padding (pad.*), and no metadata entry claims a
 * weight type that we do not know. */
bool tensor_check_unknown(const Config *c, const TensorFile *f, Error *err);

#endif
