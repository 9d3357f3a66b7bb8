/* model/count.c: parameters, bytes and KV cache of a config or of a model file. */
#include "model/count.h"

#include <assert.h>
#include <string.h>

#include "model/tensor_check.h"

uint64_t count_params(const Config *c)
{
    uint64_t n = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);)
        n += tensor_spec_params(&s);
    return n;
}

static CountPart *find_part(Count *n, const TensorSpec *s)
{
    for (int i = 0; i < n->n_parts; i++)
        if (strcmp(n->part[i].name, s->part) == 0)
            return &n->part[i];
    assert(n->n_parts < COUNT_MAX_PARTS);
    CountPart *p = &n->part[n->n_parts++];
    *p = (CountPart){ .name = s->part, .in_layer = s->layer >= 0, .bias = s->bias, .rows = s->rows, .k = s->k };
    return p;
}

static void add(Count *n, const TensorSpec *s, DType dtype, uint64_t bytes, bool panels)
{
    uint64_t   params = tensor_spec_params(s);
    CountPart *p      = find_part(n, s);
    p->n_tensors++;
    p->params += params;
    p->bytes  += bytes;
    p->dtypes |= 1u << dtype;
    p->n_panels    += panels;
    n->n_row_major += s->panels && !panels;
    n->params += params;
    n->bytes  += bytes;
    n->bytes_of[dtype] += bytes;
    if (s->layer >= 0) {
        n->blocks_params += params;
        n->blocks_bytes  += bytes;
    }
    if (s->layer == 0) {
        n->layer_params += params;
        n->layer_bytes  += bytes;
    } else if (s->role == ROLE_EMBED) {
        n->embed_params += params;
        n->embed_bytes  += bytes;
    } else if (s->role == ROLE_FINAL_NORM) {
        n->final_norm_params += params;
        n->final_norm_bytes  += bytes;
    } else if (s->role == ROLE_LM_HEAD) {
        n->head_params += params;
        n->head_bytes  += bytes;
    }
}

static void count_kv(Count *n, const Config *c)
{
    uint64_t values = 2 * (uint64_t)c->n_layers * (uint64_t)c->kv_heads * (uint64_t)c->head_dim; /* K and V */
    n->kv_bytes_f32 = 4 * values;
    n->kv_bytes_f16 = 2 * values;
}

void count_config(Count *n, const Config *c, WeightType type)
{
    static const DType dtypes[WT_COUNT] = { [WT_F32] = DT_F32, [WT_F16] = DT_F16, [WT_BF16] = DT_BF16 };
    *n = (Count){ 0 };
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        add(n, &s, s.k ? dtypes[type] : DT_F32, tensor_spec_bytes(&s, type), s.panels);
    }
    count_kv(n, c);
}

bool count_file(Count *n, const Config *c, const TensorFile *f, Error *err)
{
    *n = (Count){ 0 };
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        CheckedTensor t;
        if (!tensor_check(&s, f, &t, err))
            return false;
        add(n, &s, t.t->dtype, t.t->n_bytes, t.panels);
    }
    count_kv(n, c);
    return tensor_check_unknown(c, f, err);
}
