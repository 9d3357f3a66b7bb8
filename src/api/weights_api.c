/* api/weights_api.c: a model's weights as floats, however they are stored: in panels, codes, or
 * another program's files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/fp_env.h"
#include "base/memory.h"

/* The spec of weight i, and where it is stored. */
static const CheckedTensor *find(const tblock_model *m, size_t i, TensorSpec *s, Error *err)
{
    const StoredModel *c = &m->source.stored;
    size_t             n = m->has_weights ? (size_t)c->n : 0;
    if (i >= n) {
        fail(err, USAGE, "%s: weight: expected a number below %zu, found %zu", m->source.path, n,
             i);
        return NULL;
    }
    *s = tensor_list_start();
    for (size_t at = 0; at <= i; at++)
        tensor_list_next(&c->config, s);
    return &c->tensor[i];
}

size_t tblock_weight_count(const tblock_model *m)
{
    NEED(0, NULL, m);
    return m->has_weights ? (size_t)m->source.stored.n : 0;
}

bool tblock_weight_describe(const tblock_model *m, size_t i, tblock_weight *out, tblock_error *err)
{
    NEED(false, err, m, out);
    TensorSpec           s;
    const CheckedTensor *t = find(m, i, &s, err);
    if (!t)
        return false;
    *out = (tblock_weight){ .type = weight_type_name(t->type) };
    snprintf(out->name, sizeof out->name, "%s", s.name);
    out->n_dims = tensor_spec_shape(&s, out->shape);
    return true;
}

FP_ENV_WORK
static bool read_weight(const tblock_model *m, size_t i, float *out, tblock_error *err)
{
    TensorSpec           s;
    const CheckedTensor *t = find(m, i, &s, err);
    if (!t)
        return false;
    if (!s.k) {
        checked_vector(&s, t, out);
        return true;
    }
    void *scratch = aligned_alloc(64, round_up(retype_scratch_bytes(s.k), 64));
    if (!scratch)
        return no_memory(s.name, err);
    for (int b = 0; b < tensor_spec_panel_count(&s); b++) {
        int first = b % panel_count(s.rows) * PANEL_ROWS;
        retype_read(&s, t, b / panel_count(s.rows), first, tensor_spec_block_rows(&s, b),
                    out + (size_t)tensor_spec_block_row(&s, b) * (size_t)s.k, scratch);
    }
    free(scratch);
    return true;
}

bool tblock_weight_read(const tblock_model *m, size_t i, float *out, tblock_error *err)
{
    NEED(false, err, m, out);
    HOST_ENV_RETURN(bool, read_weight(m, i, out, err));
}
