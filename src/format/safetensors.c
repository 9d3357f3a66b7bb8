/* Reads a safetensors file: a JSON header of names, types, shapes and offsets, then the data.
 * Nothing in the header is trusted. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/memory.h"
#include "format/bytes.h"
#include "format/tensors.h"

enum { MAX_HEADER = 100000000 }; /* limit of the reference reader */

static const char METADATA[] = "__metadata__";

/* ---- The header's bytes ---------------------------------------------------------------------- */

/* Find the header: *text [*n_bytes]. Sets f->data_offset and f->data_bytes. */
static bool find_header(TensorFile *f, const char **text, size_t *n_bytes, Error *err)
{
    const FileMap *m = &f->map;
    uint64_t       length;
    if (m->size < sizeof length)
        return fail(err, INPUT, "%s: expected a safetensors file, found %zu bytes", m->path,
                    m->size);
    memcpy(&length, m->data, sizeof length);
    const char *other = format_of(m->data, m->size);
    if (length > MAX_HEADER && other)
        return fail(err, INPUT, "%s: expected a safetensors file, found %s", m->path, other);
    if (length > MAX_HEADER)
        return fail(err, INPUT,
                    "%s: header length: expected at most %d, found %llu (not a safetensors file?)",
                    m->path, MAX_HEADER, (unsigned long long)length);
    if (length > m->size - sizeof length)
        return fail(err, INPUT, "%s: the header of %llu bytes does not fit into the file of %zu "
                                "bytes (cut short?)", m->path,
                    (unsigned long long)length, m->size);
    *text = (const char *)m->data + sizeof length;
    *n_bytes = (size_t)length;
    f->data_offset = sizeof length + (size_t)length;
    f->data_bytes = m->size - f->data_offset;
    if (length == 0 || **text != '{')
        return fail(err, INPUT, "%s: header: expected JSON that begins with '{'", m->path);
    return true;
}

/* ---- The header's entries -------------------------------------------------------------------- */

static const char *copy_string(char **at, const char *s, size_t n)
{
    char *copy = *at;
    memcpy(copy, s, n + 1);
    *at += n + 1;
    return copy;
}

/* Allocate memory for everything that the header names. The parsed JSON is 50 times as large as the
 * text, so strings are copied out of it and it can be freed. */
static bool allocate(TensorFile *f, const Json *header, Error *err)
{
    /* No overflow: all of it came from a header of at most 100 MB. */
    size_t n_strings = 1, n_tensors = 0, n_meta = 0;
    for (const Json *entry = json_first(header); entry; entry = json_next(entry)) {
        if (strcmp(json_key(entry), METADATA) != 0) {
            n_strings += strlen(json_key(entry)) + 1;
            n_tensors++;
            continue;
        }
        if (!json_is_object(entry))
            return fail(err, INPUT, "%s: %s: expected an object, found %s", f->map.path, METADATA,
                        json_kind(entry));
        for (const Json *m = json_first(entry); m; m = json_next(m)) {
            char        what[512];
            const char *value;
            snprintf(what, sizeof what, "%.300s: metadata %.100s", f->map.path, json_key(m));
            if (!json_read_string(m, what, &value, err))
                return false;
            n_strings += strlen(json_key(m)) + strlen(value) + 2;
            n_meta++;
        }
    }
    f->strings = malloc(n_strings);
    f->tensors = calloc(n_tensors + 1, sizeof *f->tensors);
    f->by_name = calloc(n_tensors + 1, sizeof *f->by_name);
    f->meta = calloc(n_meta + 1, sizeof *f->meta);
    if (!f->strings || !f->tensors || !f->by_name || !f->meta)
        return fail(err, SYSTEM, "%s: out of memory for %zu tensors", f->map.path, n_tensors);
    return true;
}

/* Read the integers of an array, at most max of them. */
static bool read_ints(const Json *array, const char *what, int max, int64_t *out, int *n,
                      Error *err)
{
    if (!json_is_array(array))
        return fail(err, INPUT, "%s: expected an array, found %s", what, json_kind(array));
    *n = 0;
    for (const Json *item = json_first(array); item; item = json_next(item)) {
        if (*n == max)
            return fail(err, INPUT, "%s: expected at most %d numbers, found %zu", what, max,
                        json_count(array));
        if (!json_read_int(item, what, 0, (INT64_C(1) << 53) - 1, &out[(*n)++], err))
            return false;
    }
    return true;
}

static bool read_dtype(const Json *j, const char *what, DType *out, Error *err)
{
    const char *name;
    if (!json_read_string(j, what, &name, err))
        return false;
    if (dtype_parse(name, out))
        return true;
    char   known[128] = "";
    size_t used = 0;
    for (int t = 0; t < DT_BLOCKS; t++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", t ? ", " : "",
                                 dtype_name((DType)t));
    return fail(err, INPUT, "%s: expected one of %s, found %s", what, known, name);
}

static bool read_tensor(const TensorFile *f, Tensor *t, const Json *entry, Error *err)
{
    const char *path = f->map.path;
    const Json *dtype = NULL, *shape = NULL, *offsets = NULL;
    if (!json_is_object(entry))
        return fail(err, INPUT, "%s: tensor %s: expected an object, found %s", path, t->name,
                    json_kind(entry));
    for (const Json *i = json_first(entry); i; i = json_next(i)) {
        const Json **known = strcmp(json_key(i), "dtype") == 0          ? &dtype
                             : strcmp(json_key(i), "shape") == 0        ? &shape
                             : strcmp(json_key(i), "data_offsets") == 0 ? &offsets
                                                                        : NULL;
        if (!known)
            return fail(err, INPUT, "%s: tensor %s: unknown key %s", path, t->name, json_key(i));
        *known = i;
    }

    char    what[512], shape_text[200];
    int64_t range[2];
    int     n_range;
    snprintf(what, sizeof what, "%.300s: tensor %.150s: dtype", path, t->name);
    if (!read_dtype(dtype, what, &t->dtype, err))
        return false;
    snprintf(what, sizeof what, "%.300s: tensor %.150s: shape", path, t->name);
    if (!read_ints(shape, what, TENSOR_MAX_RANK, t->shape, &t->rank, err))
        return false;
    snprintf(what, sizeof what, "%.300s: tensor %.150s: data_offsets", path, t->name);
    if (!read_ints(offsets, what, 2, range, &n_range, err))
        return false;
    if (n_range != 2 || range[0] > range[1])
        return fail(err, INPUT, "%s: expected [begin, end] in ascending order, found %s", what,
                    n_range != 2 ? "fewer than two numbers" : "begin after end");

    tensor_shape_text(t, shape_text, sizeof shape_text);
    if (!shape_bytes(t->dtype, t->rank, t->shape, &t->n_elements, &t->n_bytes))
        return fail(err, INPUT, "%s: tensor %s: the size of %s %s overflows", path, t->name,
                    dtype_name(t->dtype), shape_text);
    size_t begin = (size_t)range[0], end = (size_t)range[1];
    if (end - begin != t->n_bytes)
        return fail(err, INPUT, "%s: expected %zu bytes for %s %s, found %zu (%zu to %zu)", what,
                    t->n_bytes, dtype_name(t->dtype), shape_text, end - begin, begin, end);
    if (end > f->data_bytes)
        return fail(err, INPUT,
                    "%s: %zu to %zu: expected an end of at most %zu, the bytes after the header "
                    "(cut short?)",
                    what, begin, end, f->data_bytes);
    t->offset = f->data_offset + begin;
    t->data = f->map.data + t->offset;
    return true;
}

static bool read_entries(TensorFile *f, const Json *header, Error *err)
{
    char *at = f->strings;
    for (const Json *entry = json_first(header); entry; entry = json_next(entry)) {
        const char *key = json_key(entry);
        if (strcmp(key, METADATA) != 0) {
            if (f->n_tensors == INT_MAX)
                return fail(err, INPUT, "%s: expected at most %d tensors", f->map.path, INT_MAX);
            Tensor *t = &f->tensors[f->n_tensors++];
            t->name = copy_string(&at, key, strlen(key));
            if (!read_tensor(f, t, entry, err))
                return false;
            continue;
        }
        for (const Json *m = json_first(entry); m; m = json_next(m)) {
            MetaEntry  *meta = &f->meta[f->n_meta++];
            const char *value = NULL;
            /* allocate() has checked that it is a string. */
            (void)json_read_string(m, "", &value, NULL);
            meta->value_bytes = strlen(value);
            meta->key = copy_string(&at, json_key(m), strlen(json_key(m)));
            meta->value = copy_string(&at, value, meta->value_bytes);
        }
    }
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const Tensor *s = a, *t = b;
    if (s->offset != t->offset)
        return s->offset < t->offset ? -1 : 1;
    /* An empty tensor comes before the data that begins at the same place. */
    if ((s->n_bytes == 0) != (t->n_bytes == 0))
        return s->n_bytes == 0 ? -1 : 1;
    return s->name < t->name ? -1 : s->name > t->name; /* names are in header order */
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const MetaEntry *)a)->key, ((const MetaEntry *)b)->key);
}

/* Check that the tensors, sorted by offset, cover the data section without gap or overlap. */
static bool check_layout(const TensorFile *f, Error *err)
{
    size_t end = f->data_offset;
    for (int i = 0; i < f->n_tensors; i++) {
        const Tensor *t = &f->tensors[i];
        if (t->offset < end) {
            return fail(err, INPUT, "%s: tensor %s: expected data from byte %zu, found %zu: it "
                                    "overlaps tensor %s", f->map.path,
                        t->name, end - f->data_offset, t->offset - f->data_offset, t[-1].name);
        }
        if (t->offset > end)
            return fail(err, INPUT, "%s: tensor %s: expected data from byte %zu, found %zu: the "
                                    "bytes between belong to no tensor",
                        f->map.path, t->name, end - f->data_offset, t->offset - f->data_offset);
        end = t->offset + t->n_bytes;
    }
    if (end != f->map.size)
        return fail(err, INPUT, "%s: expected the file to end with its last tensor at byte %zu, "
                                "found %zu bytes", f->map.path, end,
                    f->map.size);
    return true;
}

static bool read_header(TensorFile *f, const Json *header, Error *err)
{
    if (!allocate(f, header, err) || !read_entries(f, header, err))
        return false;
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, by_offset);
    qsort(f->meta, (size_t)f->n_meta, sizeof *f->meta, by_key);
    for (int i = 0; i < f->n_tensors; i++)
        f->by_name[i] = &f->tensors[i];
    tensors_sort(f->by_name, (size_t)f->n_tensors);
    return check_layout(f, err);
}

static bool read_mapped(TensorFile *f, const char *path, Error *err)
{
    const char *text = NULL;
    size_t      n_bytes = 0;
    bool        ok = find_header(f, &text, &n_bytes, err);
    if (ok) {
        char what[400];
        snprintf(what, sizeof what, "%.380s: header", path);
        Json *header = json_parse(text, n_bytes, what, err);
        ok = header && read_header(f, header, err);
        json_free(header);
    }
    if (!ok)
        tensor_file_close(f);
    return ok;
}

bool safetensors_open(TensorFile *f, const char *path, Error *err)
{
    *f = (TensorFile){ 0 };
    return file_map_open(&f->map, path, err) && read_mapped(f, path, err);
}

bool safetensors_open_private(TensorFile *f, const char *path, Error *err)
{
    *f = (TensorFile){ 0 };
    return file_map_open_private(&f->map, path, err) && read_mapped(f, path, err);
}
