/* model/row_source.h: the rows of one of our tensors in another program's file: fused with others,
 * permuted, transposed, cut over shards, in blocks. A description is filled in once; then rows are
 * read from any thread. */
#ifndef MODEL_ROW_SOURCE_H
#define MODEL_ROW_SOURCE_H

#include "format/tensors.h"
#include "model/tensor_list.h"
#include "quant/quant.h"

/* A tensor of a file, and the mapping it lies in: pages that were read are given back. */
typedef struct SourcePart { const Tensor *t; const FileMap *map; } SourcePart;

/* n elements from number `first` on as floats, for what no dtype says (codes with scales in another
 * place). */
typedef void (*ReadElements)(const void *from, size_t first, size_t n, float *out);

/* Row r of matrix e of a stack is found by steps that are the identity where their fields are 0:
 *  1. pairs:   r = h * head_dim + i; of the first `pair` dimensions of a head, ours are halves
 *              (i, i + pair/2), the file's neighbours (2i, 2i + 1);
 *  2. unit:    row base + r / unit * stride + r % unit of the file's matrix (unit 0: base + r):
 *              fused matrices;
 *  3. stack:   of tensor number e, or row + e * item_rows of one tensor (item_rows 0: a tensor for
 *              each);
 *  4. shards:  a matrix's `shards` tensors hold its rows, or where by_columns is set its columns,
 *              one after the other, as many each. */
typedef struct RowSource {
    const char  *name;           /* of the (first) tensor as the file calls it, for messages */
    SourcePart  *part;           /* [n_parts]: shards of the first matrix, of the second ... */
    int          n_parts;
    /* of the rows that are given: a float type, or blocks that panel_from_blocks knows */
    WeightType   type;
    int          stack, rows, k; /* of our tensor; a vector is a matrix with k 1 */
    int          head_dim, pair;
    int          base, unit, stride, item_rows;
    int          shards;
    /* transposed: stored [k, rows of the file's matrix] */
    bool         by_columns, transposed;
    bool         plus_one;       /* f32: the value plus 1, rounded */
    ReadElements read;           /* NULL: part's dtype says */
    const void  *read_from;
} RowSource;

/* Bytes of one row as row_source_read gives it. */
size_t row_source_row_bytes(const RowSource *s);

/* Rows first .. first + n - 1 of matrix number `item` of the stack, one after the other. */
void row_source_read(const RowSource *s, int item, int first, int n, void *out);

/* The same as floats; blocks by the arithmetic of their definition (quant/ggml_blocks.h). scratch:
 * room for the rows as given. */
void row_source_read_f32(const RowSource *s, int item, int first, int n, float *out, void *scratch);

/* The bytes as they lie, where the rows are there one after the other as they are given, aligned to
 * an element; else NULL. */
const void *row_source_in_place(const RowSource *s, int item, int first);

/* The type that rows of a tensor are given in: its own float type; its block type, or its twin
 * (ggml_blocks.h), where that has kernels of its own (quant.h); of other blocks f32. False:
 * integers and doubles, which are no weights. */
bool row_source_type(DType t, WeightType *type);

/* Give back the pages of all parts. */
void row_source_release(const RowSource *s);

#endif
