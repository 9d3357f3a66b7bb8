/* Reads a safetensors file: a JSON header of names, types, shapes and offsets, then the data.
 * Nothing in the header is trusted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/bytes.h"
#include "format/tensors.h"

enum {
    MAX_HEADER = 100000000, /* limit of the reference reader */
    MOST_VALUES = 1 << 22,  /* of JSON, in 32 bytes each: half a million tensors of 8 */
};

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
    if (!other && text_begins((const char *)m->data, m->size))
        other = "a text";
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

static bool read_metadata(TensorFile *f, const JsonNode *entry, Error *err)
{
    char found[NODE_TEXT];
    if (entry->kind != NODE_OBJECT)
        return fail(err, INPUT, "%s: %s: expected an object, found %s", f->map.path, METADATA,
                    node_text(entry, found));
    f->meta = calloc((size_t)entry->n + 1, sizeof *f->meta);
    if (!f->meta)
        return no_memory(f->map.path, err);
    JSON_NODES (m, entry) {
        if (m->kind != NODE_STRING)
            return fail(err, INPUT, "%s: metadata %s: expected a string, found %s", f->map.path,
                        m->key, node_text(m, found));
        f->meta[f->n_meta++] = (MetaEntry){ .key = m->key, .value = m->text, .value_bytes = m->n };
    }
    return true;
}

/* Read the integers of an array, at most max of them. */
static bool read_ints(const JsonNode *array, const char *what, int max, int64_t *out, int *n,
                      Error *err)
{
    const int64_t most = (INT64_C(1) << 53) - 1; /* what a JSON reader with doubles holds exactly */
    char          found[NODE_TEXT];
    if (!array || array->kind != NODE_ARRAY)
        return fail(err, INPUT, "%s: expected an array, found %s", what, node_text(array, found));
    if (array->n > (uint32_t)max)
        return fail(err, INPUT, "%s: expected at most %d numbers, found %u", what, max, array->n);
    *n = 0;
    JSON_NODES (i, array) {
        if (i->kind != NODE_INT || i->integer < 0 || i->integer > most)
            return fail(err, INPUT, "%s: expected an integer from 0 to %lld, found %s", what,
                        (long long)most, node_text(i, found));
        out[(*n)++] = i->integer;
    }
    return true;
}

static bool read_dtype(const JsonNode *j, const char *what, DType *out, Error *err)
{
    char found[NODE_TEXT], known[128] = "";
    if (!j || j->kind != NODE_STRING)
        return fail(err, INPUT, "%s: expected a string, found %s", what, node_text(j, found));
    if (dtype_parse(j->text, out))
        return true;
    size_t used = 0;
    for (int t = 0; t < DT_BLOCKS; t++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", t ? ", " : "",
                                 dtype_name((DType)t));
    return fail(err, INPUT, "%s: expected one of %s, found %s", what, known, j->text);
}

static bool read_tensor(const TensorFile *f, Tensor *t, const JsonNode *entry, Error *err)
{
    const char     *path = f->map.path;
    const JsonNode *dtype = NULL, *shape = NULL, *offsets = NULL;
    char            what[512], shape_text[200];
    if (entry->kind != NODE_OBJECT)
        return fail(err, INPUT, "%s: tensor %s: expected an object, found %s", path, t->name,
                    node_text(entry, what));
    JSON_NODES (i, entry) {
        const JsonNode **known = strcmp(i->key, "dtype") == 0          ? &dtype
                                 : strcmp(i->key, "shape") == 0        ? &shape
                                 : strcmp(i->key, "data_offsets") == 0 ? &offsets
                                                                       : NULL;
        if (!known)
            return fail(err, INPUT, "%s: tensor %s: unknown key %s", path, t->name, i->key);
        *known = i;
    }

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

static bool read_entries(TensorFile *f, const JsonNode *header, Error *err)
{
    f->tensors = calloc((size_t)header->n + 1, sizeof *f->tensors);
    f->by_name = calloc((size_t)header->n + 1, sizeof *f->by_name);
    if (!f->tensors || !f->by_name)
        return fail(err, SYSTEM, "%s: out of memory for %u tensors", f->map.path, header->n);
    JSON_NODES (entry, header) {
        if (strcmp(entry->key, METADATA) == 0) {
            if (!read_metadata(f, entry, err))
                return false;
            continue;
        }
        Tensor *t = &f->tensors[f->n_tensors++];
        t->name = entry->key;
        if (!read_tensor(f, t, entry, err))
            return false;
    }
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const Tensor *s = a, *t = b;
    if (s->offset != t->offset)
        return s->offset < t->offset ? -1 : 1;
    /* An empty tensor comes before the data that starts at the same offset. */
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

static bool read_header(TensorFile *f, const JsonNode *header, Error *err)
{
    if (!read_entries(f, header, err))
        return false;
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, by_offset);
    if (f->meta)
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
        char    what[400];
        JsonDoc d;
        snprintf(what, sizeof what, "%.380s: header", path);
        ok = json_doc_read_within(&d, text, n_bytes, JSON_NO_NUL | JSON_FINITE, MOST_VALUES, what,
                                  err);
        f->strings = d.text; /* names and metadata stay in the parsed text */
        ok = ok && read_header(f, d.node, err);
        free(d.node);
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
