/* model/tensor_check.h: checks that a file's tensor is the one that the config asks for, and makes
 * every message about a wrong tensor. */
#ifndef MODEL_TENSOR_CHECK_H
#define MODEL_TENSOR_CHECK_H

#include "format/tensors.h"
#include "model/row_source.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

/* A tensor that passed the check, with all parts of a quantized matrix in panels. */
typedef struct CheckedTensor {
    const Tensor    *part[MAX_PARTS];
    const FileMap   *map;    /* the mapping that the parts are in */
    /* NULL: part[0] is row-major, as wanted, or panels. Otherwise rows says where the data is, and
     * part and map are not set. */
    const RowSource *rows;
    WeightType       type;
    bool             panels; /* false: row-major, or a vector */
} CheckedTensor;

/* Find the tensor of a spec, with its parts. Its type is the metadata entry type.NAME (q8, q4, q8_0
 * ...), or else its dtype (F32, F16, BF16). Its shape (panels, or row-major for float types) must
 * be as in docs/format.md. Errors: INPUT. */
bool tensor_check(const TensorSpec *s, const TensorFile *f, CheckedTensor *out, Error *err);

/* Check that every tensor of f belongs to the config, to the tokenizer (tok.*) or to the padding
 * (pad.*), and every metadata entry type.NAME to a matrix of the config. Errors: INPUT. */
bool tensor_check_unknown(const Config *c, const TensorFile *f, Error *err);

/* Bytes of all parts, as stored; for a RowSource, of the rows that it returns. */
size_t checked_bytes(const CheckedTensor *c);
void   checked_release(const CheckedTensor *c); /* give back the pages of all parts */

/* Rows first .. first + n - 1 of matrix `item` of a stack that is not in panels, one after the
 * other in the tensor's own type. They are returned in place or read into scratch, which has room
 * for n rows. */
size_t      checked_row_bytes(const TensorSpec *s, const CheckedTensor *c);
const void *checked_rows(const TensorSpec *s, const CheckedTensor *c, int item, int first, int n, void *scratch);

/* Read a vector of a float type as f32 [s->rows]. */
void   checked_vector(const TensorSpec *s, const CheckedTensor *c, float *out);

Panels checked_panels(const CheckedTensor *c);  /* pointers to the parts' data */
DType  element_dtype(ElementType t);

#endif
