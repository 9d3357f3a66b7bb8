/* Reads rows of weights from other programs' files, following the steps in tensor_list.h. */
#include "model/tensor_list.h"

#include <assert.h>
#include <string.h>

#include "base/number.h"

bool row_source_type(DType t, WeightType *type)
{
    switch (t) {
#define SAME(ID, ...) case DT_##ID: *type = WT_##ID; return true;
        FLOAT_TYPES(SAME)
    default: break;
    }
    *type = WT_F32;
    if (dtype_blocked(t))
        gguf_type_of(dtype_block_type(t), type);
    return dtype_blocked(t);
}

size_t row_source_row_bytes(const RowSource *s)
{
    return weight_type_gguf(s->type) ? gguf_row_bytes(s->type, s->k)
                                     : weight_type_bytes(s->type) * (size_t)s->k;
}

/* ---- Finding a row --------------------------------------------------------------------------- */

size_t row_source_file_row(const RowSource *s, int r)
{
    if (s->pair || s->last) {
        int head = r / s->head_dim, i = r % s->head_dim, half = s->pair / 2;
        if (i < s->pair)
            i = i < half ? 2 * i : 2 * (i - half) + 1;
        if (s->last)
            i = i < s->last ? i + s->head_dim - s->last : i - s->last;
        r = head * s->head_dim + i;
    }
    if (s->groups) {
        const int keys = s->groups * s->group_k, v = r - 2 * keys;
        const int each = v < 0 ? s->group_k : s->group_v, i = v < 0 ? r % keys : v;
        const int at   = v < 0 ? r / keys * s->group_k : 2 * s->group_k;
        return (size_t)(i / each) * (size_t)s->stride + (size_t)(at + i % each);
    }
    return s->unit
        ? (size_t)s->base + (size_t)(r / s->unit) * (size_t)s->stride + (size_t)(r % s->unit)
        : (size_t)s->base + (size_t)r;
}

/* Columns and rows of one part's matrix before transposition. */
static size_t part_columns(const RowSource *s)
{
    int parts = s->by_columns ? s->shards : 1;
    assert(parts > 0);
    return (size_t)(s->k / parts);
}

static size_t part_rows(const RowSource *s, const Tensor *t)
{
    return t->n_elements / part_columns(s);
}

/* Steps 3 and 4: the part that holds a row (by columns: the first part), and the row's number in
 * it. */
static const SourcePart *find_part(const RowSource *s, int item, size_t *row)
{
    int per_item = s->shards ? s->shards : 1;
    if (s->item_rows && !s->transposed)
        *row += (size_t)item * (size_t)s->item_rows;
    const SourcePart *part = &s->part[s->item_rows ? 0 : item * per_item];
    if (s->shards && !s->by_columns) {
        size_t each = part_rows(s, part->t);
        part += *row / each;
        *row %= each;
    }
    return part;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Are blocks decoded to floats? If not, they are returned as stored, or as their twins. */
static bool decoded(const RowSource *s)
{
    return dtype_blocked(s->part[0].t->dtype) && !weight_type_quantized(s->type);
}

static bool as_they_are(const RowSource *s)
{
    return !dtype_blocked(s->part[0].t->dtype)
        || (!decoded(s) && gguf_block(s->type) == dtype_block_type(s->part[0].t->dtype));
}

/* Read n elements of a tensor from number `first` on as elements of s->type. Blocks are read
 * whole. */
static void read_elements(const RowSource *s, const SourcePart *part, size_t first, size_t n,
                          void *out)
{
    const Tensor *t = part->t;
    if (s->read) {
        s->read(s->read_from, (int)(part - s->part), first, n, out);
        return;
    }
    if (dtype_blocked(t->dtype)) {
        const char *from = (const char *)t->data
            + first / dtype_block_elements(t->dtype) * dtype_block_bytes(t->dtype);
        BlockType type = dtype_block_type(t->dtype);
        if (decoded(s))
            blocks_to_f32(type, out, from, n);
        else if (block_twin(type) != type)
            blocks_to_twin(type, out, from, n);
        else
            memcpy(out, from, n / dtype_block_elements(t->dtype) * dtype_block_bytes(t->dtype));
        return;
    }
    size_t element = weight_type_bytes(s->type);
    memcpy(out, (const char *)t->data + first * element, n * element);
}

/* Of matrices stored as columns: how many each row of the file has. *first: the tensor's element at
 * which matrix `item` starts. */
static size_t column_count(const RowSource *s, const Tensor *t, int item, size_t *first)
{
    size_t n = s->item_rows ? (size_t)s->item_rows : part_rows(s, t);
    *first   = s->item_rows ? (size_t)item * (size_t)(s->item_k ? s->item_k : s->k) * n : 0;
    return n;
}

/* Read a row that is stored as a column: one element from each of the tensor's rows. */
static void read_column(const RowSource *s, const SourcePart *part, int item, size_t row, size_t n,
                        char *out)
{
    size_t first, rows = column_count(s, part->t, item, &first),
           element = weight_type_bytes(s->type);
    for (size_t c = 0; c < n; c++)
        read_elements(s, part, first + c * rows + row, 1, out + c * element);
}

static void add_one(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] + 1;
}

static void read_row(const RowSource *s, int item, int r, char *out)
{
    size_t            row = row_source_file_row(s, r), columns = part_columns(s);
    const SourcePart *part = find_part(s, item, &row);
    int               n = s->by_columns ? s->shards : 1;
    for (int i = 0; i < n; i++) {
        char *to = i == 0 ? out : out + (size_t)i * columns * weight_type_bytes(s->type);
        if (s->transposed)
            read_column(s, &part[i], item, row, columns, to);
        else
            read_elements(s, &part[i], row * columns, columns, to);
    }
    if (s->plus_one)
        add_one((float *)(void *)out, (size_t)s->k);
}

/* Are our rows exactly consecutive rows of the file? */
static bool plain(const RowSource *s)
{
    return !s->pair && !s->last && !s->unit && !s->groups && !s->by_columns && !s->shards
        && !s->transposed && !s->plus_one && !s->read && as_they_are(s);
}

const void *row_source_in_place(const RowSource *s, int item, int first)
{
    if (!plain(s))
        return NULL;
    size_t            row  = row_source_file_row(s, first);
    const SourcePart *part = find_part(s, item, &row);
    const char       *data = (const char *)part->t->data + row * row_source_row_bytes(s);
    return weight_type_gguf(s->type) || (uintptr_t)data % weight_type_bytes(s->type) == 0 ? data
                                                                                          : NULL;
}

/* Read n rows that are stored as columns of one tensor of floats, all at once. The tensor's rows
 * are visited in order, and each gives a few neighbouring elements: fewer cache misses than column
 * by column. */
static void read_columns(const RowSource *s, int item, int first, int n, char *out)
{
    size_t            size = weight_type_bytes(s->type), column[PANEL_ROWS];
    const SourcePart *part = NULL;
    assert(n > 0);
    for (int r = 0; r < n; r++) {
        column[r] = row_source_file_row(s, first + r);
        part      = find_part(s, item, &column[r]);
    }
    size_t begin, width = column_count(s, part->t, item, &begin), k = (size_t)s->k;
    for (size_t c = 0; c < k; c++) {
        const char *from = (const char *)part->t->data + (begin + c * width) * size;
        char       *to   = out + c * size;
        for (int r = 0; r < n; r++, to += k * size)
            if (size == 4)
                memcpy(to, from + column[r] * 4, 4);
            else
                memcpy(to, from + column[r] * 2, 2);
    }
}

void row_source_read(const RowSource *s, int item, int first, int n, void *out)
{
    size_t bytes = row_source_row_bytes(s);
    if (s->transposed && !s->shards && !s->by_columns && !s->read && !s->plus_one
        && !dtype_blocked(s->part[0].t->dtype) && n <= PANEL_ROWS) {
        read_columns(s, item, first, n, out);
        return;
    }
    for (int r = 0; r < n; r++)
        read_row(s, item, first + r, (char *)out + (size_t)r * bytes);
}

void row_source_read_f32(const RowSource *s, int item, int first, int n, float *out, void *scratch)
{
    const void *rows = row_source_in_place(s, item, first);
    if (!rows) {
        row_source_read(s, item, first, n, scratch);
        rows = scratch;
    }
    if (weight_type_gguf(s->type))
        blocks_to_f32(gguf_block(s->type), out, rows, (size_t)n * (size_t)s->k);
    else
        elements_to_f32(s->type, out, rows, (size_t)n * (size_t)s->k);
}

void row_source_release(const RowSource *s)
{
    for (int i = 0; i < s->n_parts; i++)
        if (s->part[i].map)
            file_map_release(s->part[i].map, s->part[i].t->offset, s->part[i].t->n_bytes);
}
