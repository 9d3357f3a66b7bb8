/* model/count.c: parameters, bytes and KV cache of a config or of a model file. */
#include "model/count.h"

#include <assert.h>
#include <string.h>

#include "model/model_writer.h"

uint64_t count_params(const Config *c)
{
    uint64_t n = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);)
        n += tensor_spec_params(&s);
    return n;
}

static CountPart *find_part(CountPart *part, int *n_parts, const TensorSpec *s)
{
    for (int i = 0; i < *n_parts; i++)
        if (strcmp(part[i].name, s->part) == 0)
            return &part[i];
    assert(*n_parts < COUNT_MAX_PARTS);
    CountPart *p = &part[(*n_parts)++];
    *p = (CountPart){ .name = s->part,
                      .role = s->role,
                      .in_layer = s->layer >= 0,
                      .bias = s->bias,
                      .rows = s->rows,
                      .k = s->k,
                      .stack = s->stack,
                      .one_params = tensor_spec_params(s) };
    return p;
}

/* Add to the numbers of the first block. */
static void add_to_block(Count *n, const TensorSpec *s, uint64_t params, uint64_t bytes)
{
    BlockPart part = tensor_row(s->role)->part;
    *(part == PART_NORMS ? &n->norm_params
          : part == PART_ATTENTION ? &n->attn_params
                                   : &n->ffn_params) += params;
    *(part == PART_NORMS ? &n->norm_bytes
          : part == PART_ATTENTION ? &n->attn_bytes
                                   : &n->ffn_bytes) += bytes;
    n->layer_params += params;
    n->layer_bytes  += bytes;
}

static void add(Count *n, const Config *c, const TensorSpec *s, WeightType type, uint64_t bytes,
                bool panels, bool made)
{
    bool       ahead  = s->layer >= c->n_layers;
    CountPart *p      = ahead ? find_part(n->ahead, &n->n_ahead, s)
                              : find_part(n->part, &n->n_parts, s);
    uint64_t   params = tensor_spec_params(s);
    bool       one_of = tensor_row(s->role)->kind == KIND_STACK;
    uint64_t   active =
        one_of ? params / (uint64_t)c->n_experts * (uint64_t)c->experts_used : params;
    n->n_row_major += s->panels && !panels;
    n->params += params;
    n->bytes  += bytes;
    n->bytes_of[type] += bytes;
    if (p->n_tensors++ == 0)
        p->one_bytes = bytes;
    p->params += params;
    p->bytes  += bytes;
    p->types  |= 1u << type;
    p->in_first    |= s->layer == 0;
    p->n_panels    += panels;
    p->made        |= made;
    if (ahead) {
        n->mtp_params += params;
        n->mtp_bytes  += bytes;
        return;
    }
    n->active_params += active;
    if (s->layer >= 0) {
        n->blocks_params += params;
        n->blocks_bytes  += bytes;
    }
    if (s->layer == 0) {
        add_to_block(n, s, params, bytes);
    } else if (tensor_spec_gathered(s)) {
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

int count_windowed(const Config *c)
{
    int n = 0;
    for (int l = 0; l < c->n_layers; l++)
        n += config_window(c, l) != 0;
    return n;
}

int count_moe(const Config *c)
{
    int n = 0;
    for (int l = 0; l < c->n_layers; l++)
        n += config_moe(c, l);
    return n;
}

int count_state(const Config *c)
{
    int n = 0;
    for (int l = 0; l < c->n_layers; l++)
        n += config_state(c, l);
    return n;
}

int count_rotated(const Config *c)
{
    int n = 0;
    for (int l = 0; l < c->n_layers; l++)
        n += config_rotates(c, l);
    return n;
}

KvCount count_kv_cache(const Config *c, int element_bytes, int scale_bytes)
{
    uint64_t head = (uint64_t)c->head_dim * (uint64_t)element_bytes + (uint64_t)scale_bytes;
    KvCount kv = { .layer_bytes = (uint64_t)config_kv_vectors(c) * (uint64_t)c->kv_heads * head,
                   .state_bytes = (uint64_t)count_state(c) * config_state_floats(c) * 4,
                   .positions   = c->n_ctx,
                   .n_windowed  = c->window < c->n_ctx ? count_windowed(c) : 0,
                   .mha_ratio   = (double)config_kv_vectors(c) * c->kv_heads * c->head_dim
                       / ((double)c->heads * (config_query_dim(c) + config_value_dim(c))) };
    int      attend = c->n_layers - count_state(c);
    uint64_t n_full = (uint64_t)(attend - kv.n_windowed);
    kv.token_bytes  = kv.layer_bytes * (uint64_t)attend;
    kv.full_bytes   = kv.layer_bytes
        * (n_full * (uint64_t)c->n_ctx + (uint64_t)kv.n_windowed * (uint64_t)c->window);
    kv.positions    = kv.n_windowed && !n_full ? c->window : c->n_ctx;
    return kv;
}

double count_score_bytes(const Config *c, int seq, int batch)
{
    return 4.0 * batch * c->heads * seq * seq;
}

static void count_kv(Count *n, const Config *c)
{
    n->kv_bytes_f32 = count_kv_cache(c, 4, 0).token_bytes;
    n->kv_bytes_f16 = count_kv_cache(c, 2, 0).token_bytes;
    n->kv_bytes_q8  = count_kv_cache(c, 1, 4).token_bytes;
}

void count_config(Count *n, const Config *c, WeightType type)
{
    *n = (Count){ 0 };
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        WeightType t = s.k ? type_plan_default(&s, type) : WT_F32;
        add(n, c, &s, t, tensor_spec_bytes(&s, t), tensor_spec_panels(&s, t), false);
    }
    count_kv(n, c);
}

void count_made(Count *n)
{
    for (int i = 0; i < n->n_parts; i++)
        n->part[i].made = n->part[i].k > 0;
}

void count_stored(Count *n, const StoredModel *c)
{
    int i = 0;
    *n = (Count){ 0 };
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c->config, &s); i++) {
        const CheckedTensor *t = &c->tensor[i];
        const bool made = s.k && !t->panels && (t->rows || tensor_spec_panels(&s, t->type));
        add(n, &c->config, &s, t->type, checked_bytes(t), t->panels, made);
        if (made)
            n->pack_bytes += tensor_spec_bytes(&s, t->type);
    }
    count_kv(n, &c->config);
}
