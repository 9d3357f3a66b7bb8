/* source/llama2c_model.c: a llama2.c checkpoint: its config and its tensors. */
#include "source/source.h"

#include <stdlib.h>
#include <string.h>

#include "format/llama2c.h"

/* run.c has these ids built in. A text also ends at BOS, which starts the next one in the training
 * data. */
enum { BOS = 1, EOS = 2 };

static bool make_config(Config *c, const Llama2cFile *f, Error *err)
{
    const Llama2cDims *d = &f->dims;
    config_defaults(c);
    c->d_model    = d->dim;
    c->d_ff       = d->hidden_dim;
    c->n_layers   = d->n_layers;
    c->heads      = d->n_heads;
    c->kv_heads   = d->n_kv_heads;
    c->head_dim   = d->dim / d->n_heads;
    c->rotary_dim = c->head_dim;
    c->vocab_size = d->vocab_size;
    c->n_ctx      = d->seq_len;
    c->norm_eps   = 1e-5;
    c->bos        = BOS;
    c->tied_embeddings = f->tied;
    for (int id = BOS; id <= EOS && id < d->vocab_size; id++)
        c->eos[c->n_eos++] = id;
    return config_check(c, f->map.path, err) && config_supported(c, f->map.path, err);
}

static void read_codes(const void *from, int part, size_t first, size_t n, void *out)
{
    (void)part;
    llama2c_read(from, first, n, out);
}

static bool bind(Source *s, const TensorSpec *spec, const Llama2cTensor *from, RowSource *r,
                 CheckedTensor *out, Error *err)
{
    Tensor     *t    = source_alloc(s, sizeof *t, err);
    SourcePart *part = source_alloc(s, sizeof *part, err);
    if (!t || !part)
        return false;
    *t = (Tensor){ .name = from->name, .dtype = from->f32 ? DT_F32 : DT_I8, .rank = from->rank,
                   .shape = { from->shape[0], from->shape[1] }, .n_elements = from->n_elements,
                   .n_bytes = from->n_bytes,
                   .offset = from->offset, .data = s->llama2c.map.data + from->offset };
    *part = (SourcePart){ t, &s->llama2c.map };
    *r    = (RowSource){ .name = from->name,
                         .part = part,
                         .n_parts = 1,
                         .type = WT_F32,
                         .stack = 1,
                         .rows = spec->rows,
                         .k = spec->k ? spec->k : 1,
                         .head_dim = s->stored.config.head_dim,
                         .pair = from->pair_heads ? s->stored.config.head_dim : 0,
                         .read = from->f32 ? NULL : read_codes,
                         .read_from = from };
    *out  = (CheckedTensor){ .rows = r, .type = WT_F32 };
    return true;
}

bool llama2c_model_open(Source *s, Error *err)
{
    StoredModel *c = &s->stored;
    int         i = 0;
    if (!llama2c_open(&s->llama2c, s->path, err) || !make_config(&c->config, &s->llama2c, err))
        return false;
    if (!source_begin(s, err))
        return false;
    for (TensorSpec spec = tensor_list_start(); tensor_list_next(&c->config, &spec); i++) {
        const Llama2cTensor *t = llama2c_find(&s->llama2c, spec.name);
        if (!t)
            return fail(err, INPUT, "%s: tensor %s: expected one, found none", s->path, spec.name);
        if (!bind(s, &spec, t, &s->rows[i], &c->tensor[i], err))
            return false;
    }
    s->has_weights = true;
    return true;
}
