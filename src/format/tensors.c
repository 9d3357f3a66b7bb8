#include "format/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"

static const struct {
    const char *name;
    size_t      bytes;
} dtypes[DT_COUNT] = {
    [DT_BOOL] = { "BOOL", 1 }, [DT_U8] = { "U8", 1 },   [DT_I8] = { "I8", 1 },   [DT_I16] = { "I16", 2 },
    [DT_U16] = { "U16", 2 },   [DT_F16] = { "F16", 2 }, [DT_BF16] = { "BF16", 2 }, [DT_I32] = { "I32", 4 },
    [DT_U32] = { "U32", 4 },   [DT_F32] = { "F32", 4 }, [DT_F64] = { "F64", 8 }, [DT_I64] = { "I64", 8 },
    [DT_U64] = { "U64", 8 },
};

const char *dtype_name(DType t) { return dtypes[t].name; }

size_t dtype_bytes(DType t) { return dtypes[t].bytes; }

bool dtype_parse(const char *name, DType *out)
{
    for (int t = 0; t < DT_COUNT; t++) {
        if (strcmp(dtypes[t].name, name) == 0) {
            *out = (DType)t;
            return true;
        }
    }
    return false;
}

bool shape_bytes(DType dtype, int rank, const int64_t *shape, size_t *n_elements, size_t *n_bytes)
{
    *n_elements = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || !mul_size(*n_elements, (size_t)shape[i], n_elements))
            return false;
    return mul_size(*n_elements, dtype_bytes(dtype), n_bytes);
}

const char *tensor_shape_text(const Tensor *t, char *buf, size_t n)
{
    size_t used = 0;
    for (int i = 0; i < t->rank && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%s%lld", i ? ", " : "[", (long long)t->shape[i]);
    if (used < n)
        snprintf(buf + used, n - used, "%s", t->rank ? "]" : "[]");
    return buf;
}

static int find_name(const void *name, const void *tensor) { return strcmp(name, (*(const Tensor *const *)tensor)->name); }

const Tensor *tensor_find(const TensorFile *f, const char *name)
{
    if (f->n_tensors == 0)
        return NULL;
    const Tensor *const *t = bsearch(name, f->by_name, (size_t)f->n_tensors, sizeof *f->by_name, find_name);
    return t ? *t : NULL;
}

static int find_key(const void *key, const void *entry) { return strcmp(key, ((const MetaEntry *)entry)->key); }

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
