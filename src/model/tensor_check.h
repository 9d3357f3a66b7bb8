/* model/tensor_check.h: is a file's tensor the one that the config asks for? Makes every message
 * about a wrong tensor. */
#ifndef MODEL_TENSOR_CHECK_H
#define MODEL_TENSOR_CHECK_H

#include "format/tensors.h"
#include "model/row_source.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

/* A tensor that passed the check: of a quantized matrix in panels all its parts. */
typedef struct CheckedTensor {
    const Tensor    *part[MAX_PARTS];
    const FileMap   *map;    /* that they lie in */
    /* NULL: part[0] is row-major as it is wanted, or panels; else part and map are not set */
    const RowSource *rows;
    WeightType       type;
    bool             panels; /* a matrix in panels; false: row-major, or a vector */
} CheckedTensor;

/* Find the tensor of a spec with its parts: its type is the metadata entry type.NAME (q8, q4, q8_0
 * ...) or else its dtype (F32, F16, BF16), its shape (panels, or row-major of a float type) must be
 * as docs/format.md says. */
bool tensor_check(const TensorSpec *s, const TensorFile *f, CheckedTensor *out, Error *err);

/* Every tensor of f belongs to the config, the tokenizer (tok.*) or the padding (pad.*), and every
 * metadata entry type.NAME to a matrix of the config. */
bool tensor_check_unknown(const Config *c, const TensorFile *f, Error *err);

/* of all parts, as stored; rows of a RowSource as they are given */
size_t checked_bytes(const CheckedTensor *c);
void   checked_release(const CheckedTensor *c); /* give back the pages of all parts */

/* Rows first .. first + n - 1 of matrix `item` of a stack that is not in panels, one after the
 * other in the tensor's own type: where they lie, or read into scratch (n rows). */
size_t      checked_row_bytes(const TensorSpec *s, const CheckedTensor *c);
const void *checked_rows(const TensorSpec *s, const CheckedTensor *c, int item, int first, int n, void *scratch);

/* A vector of a float type as f32 [s->rows]. */
void   checked_vector(const TensorSpec *s, const CheckedTensor *c, float *out);

Panels checked_panels(const CheckedTensor *c);  /* where the parts' data lies */
DType  element_dtype(ElementType t);

#endif
