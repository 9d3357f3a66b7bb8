/* model/retype.h: converts weights from one type to another, 16 rows at a time. `quantize` writes a
 * file with it, and a model that is loaded with another type is made with it, so both hold the same
 * bits. */
#ifndef MODEL_RETYPE_H
#define MODEL_RETYPE_H

#include "model/tensor_check.h"

typedef enum RetypeFault { RETYPE_GOOD, RETYPE_NOT_FINITE, RETYPE_TOO_LARGE } RetypeFault;

/* What happened to some rows. */
typedef struct RetypeReport {
    /* If measured, sums of squares: of the differences between stored and given values; of the
     * given values. */
    double      error2, sum2;
    /* Weights; and those too small for the type, which became 0: bf16 under 2^-50, f16 under 2^-25,
     * q8 and q4 if the scale of their 256 is under 2^-25. */
    uint64_t    n, flushed;
    RetypeFault fault;            /* about the first weight that cannot be stored */
    int         row, column;      /* row: counted from the first of these rows */
    float       value;
} RetypeReport;

/* Bytes of scratch memory (64-byte aligned) that the functions below need for matrices of up to k
 * columns. */
size_t retype_scratch_bytes(int k);
size_t retype_rows_bytes(int k);   /* bytes of 16 rows of floats */

/* Read rows first .. first + n - 1 of matrix `item` of a stack (else 0) as f32 [n, k], 64-byte
 * aligned. first is a multiple of 16, n at most 16. Exact; quantized weights are rounded once. The
 * tensor may be unaligned. */
void retype_read(const TensorSpec *s, const CheckedTensor *t, int item, int first, int n, float *rows, void *scratch);

/* Store n rows as one panel, or row by row; part i goes to to[i]. Weights are rounded to nearest;
 * bf16 magnitudes under 2^-50 become 0 (docs/numerics.md, "--math bf16"). measure: also compute the
 * sums of squares. If the report has a fault, the stored bytes mean nothing. */
void retype_store(WeightType type, bool panels, void *const to[MAX_PARTS], const float *rows, int n, int k, bool measure,
                  void *scratch, RetypeReport *report);

/* Store 16 rows in the type that they have: panel number `block` of the stack, which is rows first
 * .. first + n - 1 of matrix `item`. Every bit is kept, even of NaN, but bf16 magnitudes under
 * 2^-50 become 0. rows: room for 16 rows of floats. */
void retype_copy(const TensorSpec *s, const CheckedTensor *t, bool panels, void *const to[MAX_PARTS], int block, int item, int first,
                 int n, void *rows, RetypeReport *report);

/* Write a vector as f32 [s->rows], exact, and check it as retype_store does. The report's row is
 * the index of a fault. */
void retype_vector(const TensorSpec *s, const CheckedTensor *t, float *out, RetypeReport *report);

/* Add a later report to a sum. The earlier of two faults stays. first_row: of the later report. */
void retype_sum(RetypeReport *sum, const RetypeReport *later, int first_row);

/* Fail with the message of a fault (INPUT): file, tensor, row, column. Returns false. */
bool retype_fail(const RetypeReport *report, const char *path, const TensorSpec *s, WeightType type, Error *err);

#endif
