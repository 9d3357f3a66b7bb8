/* Names and sizes of the data types, and lookup by name in lists of tensors and metadata. */
#include "format/tensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

static const struct {
    const char *name;
    size_t      bytes;
} dtypes[DT_BLOCKS] = {
    [DT_BOOL] = { "BOOL", 1 }, [DT_U8] = { "U8", 1 },   [DT_I8] = { "I8", 1 },
      [DT_I16] = { "I16", 2 },
    [DT_U16] = { "U16", 2 },   [DT_F16] = { "F16", 2 }, [DT_BF16] = { "BF16", 2 },
    [DT_I32] = { "I32", 4 },
    [DT_F8_E4M3] = { "F8_E4M3", 1 }, [DT_F8_E5M2] = { "F8_E5M2", 1 },
    [DT_F8_E8M0] = { "F8_E8M0", 1 },
    [DT_U32] = { "U32", 4 },   [DT_F32] = { "F32", 4 }, [DT_F64] = { "F64", 8 },
    [DT_I64] = { "I64", 8 },
    [DT_U64] = { "U64", 8 },
};

const char *dtype_name(DType t)
{
    return dtype_blocked(t) ? block_type_name(dtype_block_type(t)) : dtypes[t].name;
}

size_t dtype_block_elements(DType t)
{
    return dtype_blocked(t) ? block_elements(dtype_block_type(t)) : 1;
}

size_t dtype_block_bytes(DType t)
{
    return dtype_blocked(t) ? block_bytes(dtype_block_type(t)) : dtypes[t].bytes;
}

size_t dtype_bytes(DType t)
{
    assert(!dtype_blocked(t));
    return dtype_block_bytes(t);
}

bool dtype_parse(const char *name, DType *out)
{
    for (int t = 0; t < DT_BLOCKS; t++) {
        if (strcmp(dtypes[t].name, name) == 0) {
            *out = (DType)t;
            return true;
        }
    }
    return false;
}

bool shape_bytes(DType dtype, int rank, const int64_t *shape, size_t *n_elements, size_t *n_bytes)
{
    size_t per_block = dtype_block_elements(dtype);
    *n_elements = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || !mul_size(*n_elements, (size_t)shape[i], n_elements))
            return false;
    if (per_block > 1 && (rank == 0 || (size_t)shape[rank - 1] % per_block != 0))
        return false;
    return mul_size(*n_elements / per_block, dtype_block_bytes(dtype), n_bytes);
}

const char *tensor_shape_text(const Tensor *t, char *buf, size_t n)
{
    size_t used = 0;
    for (int i = 0; i < t->rank && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%s%lld", i ? ", " : "[",
                                 (long long)t->shape[i]);
    if (used < n)
        snprintf(buf + used, n - used, "%s", t->rank ? "]" : "[]");
    return buf;
}

static int find_name(const void *name, const void *tensor)
{
    return strcmp(name, (*(const Tensor *const *)tensor)->name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name);
}

void tensors_sort(const Tensor **by_name, size_t n)
{
    if (n)
        qsort(by_name, n, sizeof *by_name, compare_names);
}

const Tensor *tensors_find(const Tensor *const *by_name, size_t n, const char *name)
{
    const Tensor *const *t = n ? bsearch(name, by_name, n, sizeof *by_name, find_name) : NULL;
    return t ? *t : NULL;
}

const Tensor *tensor_find(const TensorFile *f, const char *name)
{
    return tensors_find(f->by_name, (size_t)f->n_tensors, name);
}

static int find_key(const void *key, const void *entry)
{
    return strcmp(key, ((const MetaEntry *)entry)->key);
}

const char *tensor_meta(const TensorFile *f, const char *key)
{
    if (f->n_meta == 0)
        return NULL;
    const MetaEntry *entry = bsearch(key, f->meta, (size_t)f->n_meta, sizeof *f->meta, find_key);
    return entry ? entry->value : NULL;
}

void tensor_file_close(TensorFile *f)
{
    free(f->tensors);
    free(f->meta);
    free(f->by_name);
    free(f->strings);
    free(f->copies);
    file_map_close(&f->map);
    *f = (TensorFile){ 0 };
}
