/* model/fingerprint.h: what remains of a tensor in a golden: enough to recognize it, and to say how
 * another differs from it (docs/verify.md, "Fingerprints"). */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H

#include "base/cpu.h"
#include "model/tensor_list.h"

/* Of the values as floats, row-major in tblock's own orientation, so that all formats and all types
 * that keep the values give the same. A vector is one row; the matrices of a stack are one below
 * the other. Sums are modulo 2^64; m(x) scrambles the bits of a value, p and q are odd numbers for
 * each position. Not cryptographic: model_sha256 is. */
enum {
    PRINT_ORDER,      /* sum m p(row) q(column): of the values in order                   */
    PRINT_TRANSPOSED, /* sum m p(column) q(row): PRINT_ORDER of the transpose             */
    PRINT_VALUES,     /* sum m: of the values in any order                                */
    PRINT_ROWS,       /* of the rows' hashes, sum m q(column), in any order               */
    PRINT_COLUMNS,    /* of the columns' hashes, sum m q(row), in any order               */
    PRINT_ROW_SUM, PRINT_ROW_AT,       /* sums of the rows' hashes; times the row         */
    PRINT_COLUMN_SUM, PRINT_COLUMN_AT, /* of the columns' hashes; times the column        */
    PRINT_BITS,       /* sum of the bits as integers                                      */
    PRINT_HASHES
};
enum { PRINT_NORM, PRINT_SUM, PRINT_MOST, PRINT_SUMS }; /* sqrt(sum x^2), sum x, largest |x|; each
                                                         * row is summed first, 16 lanes wide */
typedef struct Fingerprint {
    uint64_t hash[PRINT_HASHES];
    double   sum[PRINT_SUMS];
} Fingerprint;

/* Rows and columns of a tensor, as they count above. */
static inline size_t print_rows(const TensorSpec *s)
{
    return s->k ? (size_t)s->rows * (size_t)s->stack : 1;
}
static inline size_t print_columns(const TensorSpec *s)
{
    return s->k ? (size_t)s->k : (size_t)s->rows;
}

/* out [c->n], of all tensors, computed by up to `threads` threads with instructions up to `most`:
 * one read of the weights. All give the same. Errors: SYSTEM. */
bool fingerprint_model(const StoredModel *c, int threads, Isa most, Fingerprint *out, Error *err);

/* Tensor i alone: the hashes of its rows [print_rows], from which the PRINT_ORDER of its rows in
 * another order follows. Errors: SYSTEM. */
bool fingerprint_rows(const StoredModel *c, int i, int threads, uint64_t *rows, Error *err);
uint64_t print_row_factor(size_t row); /* p */
/* One value of it. Errors: SYSTEM. */
bool fingerprint_value(const StoredModel *c, int i, size_t row, size_t column, float *out,
                       Error *err);

/* The hash of one row of any values, as above; all NaN count as one. */
uint64_t print_values(const float *x, size_t n);

/* Of one value that differs, with what the sums of the two prints say. */
typedef struct PrintDelta {
    int64_t  row, column; /* the only ones that differ; -1: several do */
    int64_t  bits;        /* ours minus the other's, of the sums of bits */
} PrintDelta;
PrintDelta print_delta(const TensorSpec *s, const Fingerprint *was, const Fingerprint *is);

#endif
