/* quant/quant.h: the layout of every weight type: how a matrix [rows, k] lies in panels of 16 rows.
 * Knows nothing of files and kernels. docs/format.md, section "Panels", is this contract byte by byte. A new type is a
 * new row in the table of quant.c. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PANEL_ROWS = 16 };

typedef enum WeightType { WT_F32, WT_F16, WT_BF16, WT_COUNT } WeightType;

const char *weight_type_name(WeightType t);                    /* "f32" ... */
bool        weight_type_parse(const char *name, WeightType *out);
size_t      weight_type_bytes(WeightType t);                   /* of one element in a row-major tensor */

static inline int panel_count(int rows) { return rows / PANEL_ROWS + (rows % PANEL_ROWS != 0); }

size_t panel_bytes(WeightType t, int k);                       /* of one panel; 0 on overflow or k < 1 */
bool   matrix_bytes(WeightType t, int rows, int k, size_t *n); /* of all panels; false on overflow */

/* The stored shape of a panelled matrix: f32, f16 [panels, k, 16]; bf16 [panels, ceil(k/2), 16, 2]. Returns the rank. */
int panel_shape(WeightType t, int rows, int k, int64_t shape[4]);

/* Pack n_rows (1..16) consecutive rows, row-major with k elements of type t each, into one panel; missing rows are 0. */
void panel_pack(WeightType t, void *panel, const void *rows, int n_rows, int k);

/* The reverse: row r (0..15) of a panel as k floats, exact. */
void panel_row_to_f32(WeightType t, float *out, const void *panel, int r, int k);

/* A row-major run of n elements to f32 (exact) and from f32 (nearest even). */
void elements_to_f32(WeightType t, float *out, const void *in, size_t n);
void elements_from_f32(WeightType t, void *out, const float *in, size_t n);

#endif
