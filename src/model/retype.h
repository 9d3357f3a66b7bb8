/* model/retype.h: weights from one type to another, 16 rows at a time: what `quantize` writes and
 * what a model is loaded with under another type are made here, so both hold the same bits. */
#ifndef MODEL_RETYPE_H
#define MODEL_RETYPE_H

#include "model/tensor_check.h"

typedef enum RetypeFault { RETYPE_GOOD, RETYPE_NOT_FINITE, RETYPE_TOO_LARGE } RetypeFault;

/* What became of some rows. */
typedef struct RetypeReport {
    /* if measured, sums of squares: of what was stored less what was given; of what was given */
    double      error2, sum2;
    /* weights; those too small for the type, which became 0: bf16 under 2^-50, f16 under 2^-25, q8
     * and q4 where the scale of their 256 is under 2^-25 */
    uint64_t    n, flushed;
    RetypeFault fault;            /* the first weight that cannot be stored */
    int         row, column;      /* row: from the first of these rows */
    float       value;
} RetypeReport;

/* Bytes that the functions below need to work in (64-byte aligned), for matrices of up to k
 * columns. */
size_t retype_scratch_bytes(int k);
size_t retype_rows_bytes(int k);   /* and 16 rows of floats */

/* Rows first .. first + n - 1 (first a multiple of 16, n at most 16) of matrix `item` of a stack
 * (else 0) as f32 [n, k], 64-byte aligned: exact, of a quantized one rounded once. The tensor may
 * start at any byte. */
void retype_read(const TensorSpec *s, const CheckedTensor *t, int item, int first, int n, float *rows, void *scratch);

/* Store n rows as one panel, or row by row: to[part] is where each part of it begins. Weights are
 * rounded to nearest; bf16 magnitudes under 2^-50 become 0 (docs/numerics.md, "--math bf16").
 * measure: also the sums of squares. Where the report has a fault, what is stored has no
 * meaning. */
void retype_store(WeightType type, bool panels, void *const to[MAX_PARTS], const float *rows, int n, int k, bool measure,
                  void *scratch, RetypeReport *report);

/* Store 16 rows (a panel: number `block` of the stack, rows first .. first + n - 1 of matrix
 * `item`) in the type that they have, to the bit, NaN too; but bf16 magnitudes under 2^-50 become
 * 0. rows: room for 16 rows of floats. */
void retype_copy(const TensorSpec *s, const CheckedTensor *t, bool panels, void *const to[MAX_PARTS], int block, int item, int first,
                 int n, void *rows, RetypeReport *report);

/* A vector as f32 [s->rows], exact, checked as retype_store does; its place is the report's row. */
void retype_vector(const TensorSpec *s, const CheckedTensor *t, float *out, RetypeReport *report);

/* Add a later report to a sum; of two faults the earlier stays. first_row: of the later one. */
void retype_sum(RetypeReport *sum, const RetypeReport *later, int first_row);

/* The message of a fault (INPUT): file, tensor, row, column. Returns false. */
bool retype_fail(const RetypeReport *report, const char *path, const TensorSpec *s, WeightType type, Error *err);

#endif
