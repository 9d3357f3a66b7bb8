/* model/row_source.h: finds the rows of one of our tensors in another program's file, where they
 * may be fused with others, permuted, transposed, split over shards, or in blocks. A description is
 * filled in once; then any thread can read rows. */
#ifndef MODEL_ROW_SOURCE_H
#define MODEL_ROW_SOURCE_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

/* A tensor of a file and the mapping that it is in, so that pages can be given back after
 * reading. */
typedef struct SourcePart { const Tensor *t; const FileMap *map; } SourcePart;

/* Reads n elements from number `first` on as floats. For storage that no dtype describes (codes
 * with their scales elsewhere). */
typedef void (*ReadElements)(const void *from, size_t first, size_t n, float *out);

/* Row r of matrix e of a stack is found in four steps. A step changes nothing if its fields are 0.
 *  1. pairs:   r = h * head_dim + i. In the first `pair` dimensions of a head, our rotary pairs are
 *              (i, i + pair/2) and the file's are neighbours (2i, 2i + 1).
 *  2. unit:    row base + r / unit * stride + r % unit of the file's matrix (unit 0: base + r).
 *              This serves fused matrices.
 *  3. stack:   that row of tensor number e; or, if item_rows is set, row + e * item_rows of the
 *              only tensor.
 *  4. shards:  a matrix is split over `shards` tensors, by rows or (by_columns) by columns, each
 *              with an equal share. */
typedef struct RowSource {
    const char  *name;           /* name of the first tensor in the file, for messages */
    /* [n_parts]: the shards of the first matrix, then of the second ... */
    SourcePart  *part;
    int          n_parts;
    /* The type of the rows that are returned: a float type, or blocks that panel_from_blocks
     * knows. */
    WeightType   type;
    int          stack, rows, k; /* of our tensor; a vector is a matrix with k 1 */
    int          head_dim, pair;
    int          base, unit, stride, item_rows;
    int          shards;
    /* transposed: stored as [k, rows of the file's matrix]. */
    bool         by_columns, transposed;
    bool         plus_one;       /* f32 only: add 1 to each value, rounded */
    ReadElements read;           /* NULL: the part's dtype says how to read */
    const void  *read_from;
} RowSource;

/* Bytes of one row that row_source_read returns. */
size_t row_source_row_bytes(const RowSource *s);

/* Read rows first .. first + n - 1 of matrix `item` of the stack, one after the other. */
void row_source_read(const RowSource *s, int item, int first, int n, void *out);

/* The same as floats; blocks are decoded as their definition says (quant/ggml_blocks.h). scratch:
 * room for the rows in their own type. */
void row_source_read_f32(const RowSource *s, int item, int first, int n, float *out, void *scratch);

/* A pointer to the rows in the file, if they are there one after the other in the right form and
 * aligned to an element; else NULL. */
const void *row_source_in_place(const RowSource *s, int item, int first);

/* The type in which rows of a tensor are returned: its own float type; its block type, or the twin
 * of that (ggml_blocks.h), if kernels exist for it (quant.h); f32 for other blocks. False: integers
 * and doubles, which are not weights. */
bool row_source_type(DType t, WeightType *type);

/* Give the pages of all parts back to the system. */
void row_source_release(const RowSource *s);

#endif
