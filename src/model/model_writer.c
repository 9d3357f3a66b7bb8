/* model/model_writer.c: lays out a model file, writes it in order and computes its hash along the
 * way. */
#include "model/model_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "model/tensor_list.h"

enum { ALIGN = 64, DATA_ALIGN = 4096 };

const char *const chat_meta_keys[CHAT_METAS] = { "chat_template", "chat_template_tools",
                                                 "special_tokens" };

/* One tensor of the file. data is set for padding and for the tokenizer's tensors, whose bytes the
 * writer itself writes. */
typedef struct ModelTensor { size_t n_bytes; const void *data; bool hole; } ModelTensor;

struct ModelWriter {
    TensorWriter *out;
    Sha256       *sha;
    ModelTensor        *entry;
    int           n, cap, at;      /* at: the tensor being written */
    int           n_pads;
    bool          sparse;
    size_t        done;            /* bytes of it so far */
};

bool model_contents_next(const ModelContents *what, TensorSpec *s)
{
    if (!what->config || !tensor_list_next(what->config, s))
        return false;
    s->panels = s->panels && !what->row_major;
    return true;
}

/* ---- Declaring ------------------------------------------------------------------------------- */

static const char zeros[ALIGN];

static bool add_entry(ModelWriter *w, size_t n_bytes, const void *data, Error *err)
{
    if (w->n == w->cap) {
        int    cap = w->cap ? 2 * w->cap : 256;
        ModelTensor *p   = realloc(w->entry, (size_t)cap * sizeof *p);
        if (!p)
            return fail(err, SYSTEM, "not enough memory to lay out a model file");
        w->entry = p;
        w->cap   = cap;
    }
    w->entry[w->n++] = (ModelTensor){ .n_bytes = n_bytes, .data = data };
    return true;
}

/* Every tensor starts at a multiple of 64 bytes. The padding is declared just before the next
 * tensor, so there is none after the last one. */
static bool declare_padding(ModelWriter *w, Error *err)
{
    size_t  past = w->n ? w->entry[w->n - 1].n_bytes % ALIGN : 0;
    int64_t n    = (int64_t)(ALIGN - past);
    char    name[32];
    if (past == 0)
        return true;
    snprintf(name, sizeof name, "pad.%d", w->n_pads++);
    return tensor_writer_declare(w->out, name, DT_U8, 1, &n, err)
        && add_entry(w, (size_t)n, zeros, err);
}

static bool declare(ModelWriter *w, const char *name, DType dtype, int rank, const int64_t *shape,
                    const void *data, Error *err)
{
    size_t n_elements, n_bytes;
    return declare_padding(w, err) && tensor_writer_declare(w->out, name, dtype, rank, shape, err)
        && shape_bytes(dtype, rank, shape, &n_elements, &n_bytes)
        && add_entry(w, n_bytes, data, err);
}

/* Make the tensor that was declared last a hole. */
static void make_hole(ModelWriter *w)
{
    w->entry[w->n - 1].hole = true;
    tensor_writer_hole(w->out);
}

static bool declare_weights(ModelWriter *w, const TensorSpec *s, WeightType type, bool hole,
                            Error *err)
{
    char name[sizeof s->name + 8];
    if (!tensor_spec_panels(s, type)) {
        DType dtype = s->k ? element_dtype(part_element(type, 0)) : DT_F32;
        int64_t shape[3];
        if (!declare(w, s->name, dtype, tensor_spec_shape(s, shape), shape, NULL, err))
            return false;
        if (hole)
            make_hole(w);
        return true;
    }
    for (int i = 0; i < part_count(type); i++) {
        int64_t shape[4];
        int     rank = part_shape(type, i, tensor_spec_panel_rows(s), s->k, shape);
        snprintf(name, sizeof name, "%s%s", s->name, part_suffix(type, i));
        if (!declare(w, name, element_dtype(part_element(type, i)), rank, shape, NULL, err))
            return false;
        if (hole)
            make_hole(w);
    }
    if (!weight_type_quantized(type))
        return true;
    snprintf(name, sizeof name, "type.%s", s->name);
    return tensor_writer_meta(w->out, name, weight_type_name(type), err);
}

static bool declare_all(ModelWriter *w, const ModelContents *what, Error *err)
{
    int i = 0;
    for (TensorSpec s = tensor_list_start(); model_contents_next(what, &s); i++)
        if (!declare_weights(w, &s, what->types[i], what->sparse && s.k, err))
            return false;
    for (i = 0; what->tokenizer && i < what->tokenizer->n_tensors; i++) {
        const Tensor *t = &what->tokenizer->tensors[i];
        if (strncmp(t->name, "tok.", 4) == 0
            && !declare(w, t->name, t->dtype, t->rank, t->shape, t->data, err))
            return false;
    }
    return true;
}

static bool holds_bf16(const ModelContents *what)
{
    int i = 0;
    for (TensorSpec s = tensor_list_start(); model_contents_next(what, &s); i++)
        if (s.k && what->types[i] == WT_BF16)
            return true;
    return false;
}

/* Write the tokenizer and the entries for chat to the metadata. */
static bool write_text_meta(ModelWriter *w, const ModelContents *what, Error *err)
{
    const char *tokenizer = what->tokenizer ? tensor_meta(what->tokenizer, "tokenizer") : NULL;
    const char *chat = tokenizer ? tensor_meta(what->tokenizer, "chat") : NULL;
    if (!tokenizer)
        return true;
    if (!tensor_writer_meta(w->out, "tokenizer", tokenizer, err)
        || (chat && !what->forced_template && !tensor_writer_meta(w->out, "chat", chat, err)))
        return false;
    for (int i = 0; i < CHAT_METAS; i++) {
        const char *value = tensor_meta(what->tokenizer, chat_meta_keys[i]);
        value = value ? value : what->chat_meta[i];
        if (what->forced_template && i != CHAT_SPECIAL_TOKENS)
            value = i == CHAT_TEMPLATE ? what->forced_template : NULL;
        if (value && !tensor_writer_meta(w->out, chat_meta_keys[i], value, err))
            return false;
    }
    return true;
}

static bool write_meta(ModelWriter *w, const ModelContents *what, Error *err)
{
    char *json = what->config ? config_to_json(what->config, err) : NULL;
    char  unknown_yet[65];
    memset(unknown_yet, '0', 64);
    unknown_yet[64] = '\0';
    bool ok = (json || !what->config) && tensor_writer_meta(w->out, "format", "tblock", err)
        && tensor_writer_meta(w->out, "version", "1", err)
        && (!json || tensor_writer_meta(w->out, "config", json, err))
        && tensor_writer_meta(w->out, "source", what->source, err)
        && (what->sparse || tensor_writer_meta(w->out, "sha256", unknown_yet, err));
    free(json);
    return ok && write_text_meta(w, what, err)
        && (!holds_bf16(what) || tensor_writer_meta(w->out, "bf16_min", "2^-50", err));
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool put(ModelWriter *w, const void *data, size_t n_bytes, Error *err)
{
    sha256_add(w->sha, data, n_bytes);
    if (!tensor_writer_put(w->out, w->at, w->done, data, n_bytes, err))
        return false;
    w->done += n_bytes;
    return true;
}

/* Write tensors as long as their bytes are the writer's own, and skip holes. A tensor of zero bytes
 * counts as complete at once. */
static bool write_ours(ModelWriter *w, Error *err)
{
    while (
        w->at < w->n
        && (w->entry[w->at].data || w->entry[w->at].hole || w->done == w->entry[w->at].n_bytes)) {
        const ModelTensor *e = &w->entry[w->at];
        if (e->data && e->n_bytes && !put(w, e->data, e->n_bytes, err))
            return false;
        w->at++;
        w->done = 0;
    }
    return true;
}

/* ---- The file -------------------------------------------------------------------------------- */

ModelWriter *model_writer_new(const char *path, const ModelContents *what, Error *err)
{
    ModelWriter *w = calloc(1, sizeof *w);
    if (!w || !(w->sha = sha256_new())) {
        fail(err, SYSTEM, "%s: not enough memory to write a model file", path);
        free(w);
        return NULL;
    }
    w->out    = tensor_writer_new(path, DATA_ALIGN, err);
    w->sparse = what->sparse;
    if (w->out && write_meta(w, what, err) && declare_all(w, what, err)
        && tensor_writer_begin(w->out, err) && write_ours(w, err))
        return w;
    model_writer_abort(w);
    return NULL;
}

bool model_writer_append(ModelWriter *w, const void *data, size_t n_bytes, Error *err)
{
    assert(w->at < w->n && n_bytes <= w->entry[w->at].n_bytes - w->done);
    return put(w, data, n_bytes, err) && write_ours(w, err);
}

static void release(ModelWriter *w)
{
    char hex[65];
    if (w->sha)
        sha256_end(w->sha, hex);
    free(w->entry);
    free(w);
}

bool model_writer_source(ModelWriter *w, const char *source, Error *err)
{
    return tensor_writer_patch_meta(w->out, "source", source, err);
}

bool model_writer_end(ModelWriter *w, Error *err)
{
    char hex[65];
    assert(w->at == w->n);
    sha256_end(w->sha, hex);
    w->sha  = NULL;
    bool ok = w->sparse || tensor_writer_patch_meta(w->out, "sha256", hex, err);
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
