/* source/imatrix.h: reads importance matrices as llama.cpp's llama-imatrix writes them. */
#ifndef SOURCE_IMATRIX_H
#define SOURCE_IMATRIX_H

#include "model/importance.h"

/* The importance of the columns of a model's matrices, from the file at path: for each entry, sums
 * of squares of what multiplied the columns of one matrix, by GGUF's name of it. Two formats:
 *   legacy (.dat): i32 entries; each: i32 length and name, i32 calls, i32 values, f32 values (the
 *     mean squares times calls); then i32 chunks, i32 length and name of the text, which may be
 *     absent
 *   GGUF: general.type "imatrix"; F32 tensors NAME.in_sum2 [experts, columns], NAME.counts
 *     [experts] of tokens; NAME.in_sum is not needed
 * Only ratios within a matrix matter, so calls and counts change nothing, but an expert with the
 * count 0 saw no token: its columns are all worth the same. Matrices without an entry are unknown;
 * entries for other tensors are ignored. sha256: of the file. Errors: INPUT (the file's structure;
 * another number of values than columns; a value that is not finite or below 0; no entry for any
 * matrix), SYSTEM. Free m with importance_free in any case.
 * Source: tools/imatrix/imatrix.cpp of llama.cpp. */
bool imatrix_read(Importance *m, const Config *c, const char *path, char sha256[65], Error *err);

#endif
