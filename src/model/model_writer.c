/* model/model_writer.c: lays out a model file and writes it in order, hashing on the way. */
#include "model/model_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { ALIGN = 64, DATA_ALIGN = 4096 };

/* One tensor of the file; a padding tensor is one whose bytes we write ourselves. */
typedef struct Entry { size_t n_bytes; bool padding; } Entry;

struct ModelWriter {
    TensorWriter *out;
    Sha256       *sha;
    Entry        *entry;
    int           n, cap, at;      /* at: the tensor being written */
    size_t        done;            /* bytes of it                  */
};

/* ---- Declaring ---- */

static bool add_entry(ModelWriter *w, size_t n_bytes, bool padding, Error *err)
{
    if (w->n == w->cap) {
        int    cap = w->cap ? 2 * w->cap : 256;
        Entry *p   = realloc(w->entry, (size_t)cap * sizeof *p);
        if (!p)
            return fail(err, SYSTEM, "no memory to lay out a model file");
        w->entry = p;
        w->cap   = cap;
    }
    w->entry[w->n++] = (Entry){ n_bytes, padding };
    return true;
}

static bool declare(ModelWriter *w, const TensorSpec *s, WeightType type, Error *err)
{
    static const DType dtypes[WT_FLOATS] = { [WT_F32] = DT_F32, [WT_F16] = DT_F16, [WT_BF16] = DT_BF16 };
    int64_t shape[4] = { s->rows, s->k };
    int     rank     = s->panels ? part_shape(type, 0, s->rows, s->k, shape) : s->k ? 2 : 1;
    return tensor_writer_declare(w->out, s->name, s->k ? dtypes[type] : DT_F32, rank, shape, err)
        && add_entry(w, tensor_spec_bytes(s, type), false, err);
}

/* Every tensor starts on 64 bytes: padding goes before the next one, so nothing stands after the last. */
static bool declare_padding(ModelWriter *w, int number, Error *err)
{
    size_t  past = w->n ? w->entry[w->n - 1].n_bytes % ALIGN : 0;
    int64_t n    = (int64_t)(ALIGN - past);
    char    name[32];
    if (past == 0)
        return true;
    snprintf(name, sizeof name, "pad.%d", number);
    return tensor_writer_declare(w->out, name, DT_U8, 1, &n, err) && add_entry(w, (size_t)n, true, err);
}

static bool declare_all(ModelWriter *w, const Config *c, WeightType type, Error *err)
{
    int n_pads = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        int before = w->n;
        if (!declare_padding(w, n_pads, err))
            return false;
        n_pads += w->n - before;
        if (!declare(w, &s, type, err))
            return false;
    }
    return true;
}

static bool write_meta(ModelWriter *w, const Config *c, const char *source, Error *err)
{
    char *json = config_to_json(c, err);
    char  unknown_yet[65];
    memset(unknown_yet, '0', 64);
    unknown_yet[64] = '\0';
    bool ok = json && tensor_writer_meta(w->out, "format", "tblock", err) && tensor_writer_meta(w->out, "version", "1", err)
           && tensor_writer_meta(w->out, "config", json, err) && tensor_writer_meta(w->out, "source", source, err)
           && tensor_writer_meta(w->out, "sha256", unknown_yet, err);
    free(json);
    return ok;
}

ModelWriter *model_writer_new(const char *path, const Config *c, WeightType type, const char *source, Error *err)
{
    ModelWriter *w = calloc(1, sizeof *w);
    if (!w || !(w->sha = sha256_new())) {
        fail(err, SYSTEM, "%s: no memory to write a model file", path);
        free(w);
        return NULL;
    }
    w->out = tensor_writer_new(path, DATA_ALIGN, err);
    if (w->out && write_meta(w, c, source, err) && declare_all(w, c, type, err) && tensor_writer_begin(w->out, err))
        return w;
    model_writer_abort(w);
    return NULL;
}

/* ---- Writing ---- */

static bool put(ModelWriter *w, const void *data, size_t n_bytes, Error *err)
{
    sha256_add(w->sha, data, n_bytes);
    if (!tensor_writer_put(w->out, w->at, w->done, data, n_bytes, err))
        return false;
    w->done += n_bytes;
    return true;
}

bool model_writer_append(ModelWriter *w, const void *data, size_t n_bytes, Error *err)
{
    assert(w->at < w->n && n_bytes <= w->entry[w->at].n_bytes - w->done);
    if (!put(w, data, n_bytes, err))
        return false;
    while (w->at < w->n && w->done == w->entry[w->at].n_bytes) {
        w->at++;
        w->done = 0;
        static const char zeros[ALIGN];
        if (w->at < w->n && w->entry[w->at].padding && !put(w, zeros, w->entry[w->at].n_bytes, err))
            return false;
    }
    return true;
}

static void release(ModelWriter *w)
{
    char hex[65];
    if (w->sha)
        sha256_end(w->sha, hex);
    free(w->entry);
    free(w);
}

bool model_writer_end(ModelWriter *w, Error *err)
{
    char hex[65];
    assert(w->at == w->n);
    sha256_end(w->sha, hex);
    w->sha  = NULL;
    bool ok = tensor_writer_patch_meta(w->out, "sha256", hex, err);
    if (ok)
        ok = tensor_writer_end(w->out, err);
    else
        tensor_writer_abort(w->out);
    release(w);
    return ok;
}

void model_writer_abort(ModelWriter *w)
{
    if (!w)
        return;
    tensor_writer_abort(w->out);
    release(w);
}
