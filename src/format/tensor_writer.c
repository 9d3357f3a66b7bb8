/* Writes a safetensors file: declare the tensors, write the header, then the data in any order and
 * from any thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/tensors.h"

typedef struct Declared {
    char          *name;
    DType          dtype;
    int            rank;
    int64_t        shape[TENSOR_MAX_RANK];
    size_t         n_bytes, begin; /* begin: offset in the data section */
    _Atomic size_t written;
} Declared;

typedef struct WriterMeta {
    char *key, *value;
} WriterMeta;

/* Bytes that are held back until they reach a multiple of PIECE in the file. The aligned part of
 * one write may become one large folio in the page cache: whole pieces become huge pages, which
 * help a process that maps the file. */
typedef struct Held {
    pthread_mutex_t lock;
    unsigned char  *data;          /* [PIECE] */
    size_t          at, n;         /* n bytes that belong at byte `at` */
} Held;

struct TensorWriter {
    OutFile   out;
    Held      held;
    size_t    data_align, data_offset, data_bytes, hole_bytes;
    Declared *tensor;
    size_t    n_tensors, cap_tensors;
    WriterMeta    *meta;
    size_t    n_meta, cap_meta;
};

enum { MAX_HEADER = 100000000, /* limit of the readers */
       PIECE = HUGE_PAGE };

TensorWriter *tensor_writer_new(const char *path, size_t data_align, Error *err)
{
    TensorWriter *w = calloc(1, sizeof *w);
    if (!w || !(w->held.data = malloc(PIECE))) {
        no_memory(path, err);
        free(w);
        return NULL;
    }
    w->data_align = data_align < 8 ? 8 : data_align;
    if (!out_file_open(&w->out, path, err)) {
        free(w->held.data);
        free(w);
        return NULL;
    }
    pthread_mutex_init(&w->held.lock, NULL);
    return w;
}

void tensor_writer_abort(TensorWriter *w)
{
    if (!w)
        return;
    out_file_abort(&w->out);
    pthread_mutex_destroy(&w->held.lock);
    free(w->held.data);
    for (size_t i = 0; i < w->n_tensors; i++)
        free(w->tensor[i].name);
    for (size_t i = 0; i < w->n_meta; i++) {
        free(w->meta[i].key);
        free(w->meta[i].value);
    }
    free(w->tensor);
    free(w->meta);
    free(w);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static bool write_held(TensorWriter *w, Error *err)
{
    size_t n = w->held.n;
    w->held.n = 0;
    return n == 0 || out_file_write_at(&w->out, w->held.at, w->held.data, n, err);
}

/* One step: whole pieces go straight to the file, other bytes wait. Returns the number of bytes; 0:
 * an error. */
static size_t write_some(TensorWriter *w, size_t offset, const unsigned char *data, size_t n,
                         Error *err)
{
    Held  *h = &w->held;
    size_t to_end = PIECE - offset % PIECE;
    if (to_end == PIECE && n >= PIECE) {
        n -= n % PIECE;
        return out_file_write_at(&w->out, offset, data, n, err) ? n : 0;
    }
    if (h->n == 0)
        h->at = offset;
    n = n < to_end ? n : to_end;
    memcpy(h->data + h->n, data, n);
    h->n += n;
    return n < to_end || write_held(w, err) ? n : 0;
}

/* out_file_write_at in pieces. Bytes that do not follow the last ones start a new piece. */
static bool write_at(TensorWriter *w, size_t offset, const void *data, size_t n_bytes, Error *err)
{
    const unsigned char *from = data;
    pthread_mutex_lock(&w->held.lock);
    bool ok = offset == w->held.at + w->held.n || write_held(w, err);
    for (size_t n; ok && n_bytes; offset += n, from += n, n_bytes -= n) {
        n = write_some(w, offset, from, n_bytes, err);
        ok = n > 0;
    }
    pthread_mutex_unlock(&w->held.lock);
    return ok;
}

/* ---- Declaring ------------------------------------------------------------------------------- */

bool tensor_writer_meta(TensorWriter *w, const char *key, const char *value, Error *err)
{
    if (!utf8_valid(key, strlen(key)) || !utf8_valid(value, strlen(value)))
        return fail(err, SYSTEM, "%s: metadata %s: expected UTF-8", w->out.path, key);
    for (size_t i = 0; i < w->n_meta; i++)
        if (strcmp(w->meta[i].key, key) == 0)
            return fail(err, SYSTEM, "%s: metadata %s: declared twice", w->out.path, key);
    if (!ARRAY_ROOM(w->meta, w->cap_meta, w->n_meta + 1))
        return no_memory(w->out.path, err);
    WriterMeta e = { strdup(key), strdup(value) };
    if (!e.key || !e.value) {
        free(e.key);
        free(e.value);
        return no_memory(w->out.path, err);
    }
    w->meta[w->n_meta++] = e;
    return true;
}

bool tensor_writer_declare(TensorWriter *w, const char *name, DType dtype, int rank,
                           const int64_t *shape, Error *err)
{
    size_t n_elements, n_bytes, end;
    if (!utf8_valid(name, strlen(name)) || strcmp(name, "__metadata__") == 0)
        return fail(err, SYSTEM, "%s: tensor %s: not a valid tensor name", w->out.path, name);
    if (rank < 0 || rank > TENSOR_MAX_RANK)
        return fail(err, SYSTEM, "%s: tensor %s: expected at most %d dimensions, found %d",
                    w->out.path, name, TENSOR_MAX_RANK, rank);
    if (dtype_blocked(dtype))
        return fail(err, SYSTEM, "%s: tensor %s: safetensors has no type %s", w->out.path, name,
                    dtype_name(dtype));
    if (!shape_bytes(dtype, rank, shape, &n_elements, &n_bytes)
        || !add_size(w->data_bytes, n_bytes, &end) || end > INT64_MAX / 2)
        return fail(err, SYSTEM, "%s: tensor %s: the size overflows", w->out.path, name);
    if (!ARRAY_ROOM(w->tensor, w->cap_tensors, w->n_tensors + 1))
        return no_memory(w->out.path, err);
    Declared *t = &w->tensor[w->n_tensors];
    *t = (Declared){ .name = strdup(name),
                     .dtype = dtype,
                     .rank = rank,
                     .n_bytes = n_bytes,
                     .begin = w->data_bytes };
    if (!t->name)
        return no_memory(w->out.path, err);
    if (rank)
        memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    w->data_bytes = end;
    w->n_tensors++;
    return true;
}

void tensor_writer_hole(TensorWriter *w)
{
    Declared *t = &w->tensor[w->n_tensors - 1];
    atomic_store(&t->written, t->n_bytes);
    w->hole_bytes += t->n_bytes;
}

/* ---- The header ------------------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool check_names(const TensorWriter *w, Error *err)
{
    const char **name = malloc((w->n_tensors + 1) * sizeof *name);
    if (!name)
        return no_memory(w->out.path, err);
    for (size_t i = 0; i < w->n_tensors; i++)
        name[i] = w->tensor[i].name;
    qsort(name, w->n_tensors, sizeof *name, by_text);
    bool ok = true;
    for (size_t i = 1; i < w->n_tensors && ok; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            ok = fail(err, SYSTEM, "%s: tensor %s: declared twice", w->out.path, name[i]);
    free(name);
    return ok;
}

/* Make the header: 8 bytes of length, the JSON and its padding. */
static bool make_header(const TensorWriter *w, char **header, size_t *n_bytes, Error *err)
{
    TextOut o = { 0 };
    text_out(&o, "........{"); /* the length is filled in below */
    for (size_t i = 0; i < w->n_meta; i++)
        json_out(&o, "%-s%s: %s", i ? "" : "\"__metadata__\": {", w->meta[i].key, w->meta[i].value);
    json_out(&o, w->n_meta ? "}" : "");
    for (size_t i = 0; i < w->n_tensors; i++) {
        const Declared *t = &w->tensor[i];
        json_out(&o, i || w->n_meta ? "\n%s: {dtype: %s, shape: [" : "%s: {dtype: %s, shape: [",
                 t->name, dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++)
            json_out(&o, "%lld", (long long)t->shape[d]);
        json_out(&o, "], data_offsets: [%zu, %zu]}", t->begin, t->begin + t->n_bytes);
    }
    text_out(&o, "}");
    if (!o.failed)
        text_out(&o, "%*s", (int)(round_up(o.n, w->data_align) - o.n), "");
    size_t n = o.n;
    if (n - 8 > MAX_HEADER && !o.failed) {
        text_out_free(&o);
        return fail(err, SYSTEM, "%s: expected a header of at most %d bytes, found %zu",
                    w->out.path, MAX_HEADER, n - 8);
    }
    *header = text_out_take(&o, err);
    if (!*header)
        return false;
    uint64_t length = n - 8;
    memcpy(*header, &length, sizeof length);
    *n_bytes = n;
    return true;
}

bool tensor_writer_begin(TensorWriter *w, Error *err)
{
    char  *header;
    size_t n_bytes;
    if (!check_names(w, err) || !make_header(w, &header, &n_bytes, err))
        return false;
    w->data_offset = n_bytes;
    bool ok = out_file_room(&w->out, n_bytes + w->data_bytes,
                            n_bytes + w->data_bytes - w->hole_bytes, err)
        && (!w->hole_bytes || out_file_extend(&w->out, n_bytes + w->data_bytes, err))
        && write_at(w, 0, header, n_bytes, err);
    free(header);
    return ok;
}

bool tensor_writer_patch_meta(TensorWriter *w, const char *key, const char *value, Error *err)
{
    size_t i = 0, n_bytes;
    while (i < w->n_meta && strcmp(w->meta[i].key, key) != 0)
        i++;
    const size_t n = strlen(value);
    if (i == w->n_meta || strlen(w->meta[i].value) != n || !utf8_valid(value, n))
        return fail(err, SYSTEM, "%s: metadata %s: a patch must replace a value of the same length",
                    w->out.path, key);
    memcpy(w->meta[i].value, value, strlen(value));
    char *header;
    if (!make_header(w, &header, &n_bytes, err))
        return false;
    bool ok = n_bytes == w->data_offset /* escapes may have another length */
                  ? write_at(w, 0, header, n_bytes, err)
                  : fail(err, SYSTEM, "%s: metadata %s: the patch does not fit", w->out.path, key);
    free(header);
    return ok;
}

/* ---- The data -------------------------------------------------------------------------------- */

bool tensor_writer_put(TensorWriter *w, int i, size_t at, const void *data, size_t n_bytes,
                       Error *err)
{
    if (i < 0 || (size_t)i >= w->n_tensors)
        return fail(err, SYSTEM, "%s: there is no tensor %d, only %zu tensors", w->out.path, i,
                    w->n_tensors);
    Declared *t = &w->tensor[i];
    if (at > t->n_bytes || n_bytes > t->n_bytes - at)
        return fail(err, SYSTEM, "%s: tensor %s: %zu bytes at %zu do not fit its %zu", w->out.path,
                    t->name, n_bytes, at, t->n_bytes);
    if (!write_at(w, w->data_offset + t->begin + at, data, n_bytes, err))
        return false;
    atomic_fetch_add(&t->written, n_bytes);
    return true;
}

bool tensor_writer_end(TensorWriter *w, Error *err)
{
    bool ok = true;
    for (size_t i = 0; i < w->n_tensors && ok; i++) {
        Declared *t = &w->tensor[i];
        if (atomic_load(&t->written) != t->n_bytes)
            ok = fail(err, SYSTEM, "%s: tensor %s: expected %zu bytes, found %zu written",
                      w->out.path, t->name, t->n_bytes, atomic_load(&t->written));
    }
    ok = ok && write_held(w, err) && out_file_commit(&w->out, err);
    tensor_writer_abort(w);
    return ok;
}
