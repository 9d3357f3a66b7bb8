/* runtime/buffers.c: the memory of a pass: one block for the activations of all threads, then each
 * thread's private part. */
#include <stdlib.h>

#include "base/memory.h"
#include "runtime/ops.h"

/* Cuts parts off a slab, one after another. With base NULL it only measures. */
typedef struct Slab { char *base; size_t at; } Slab;

static void *cut(Slab *c, size_t n_bytes)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += round_up(n_bytes, 64);
    return p;
}

static void cut_floats(Slab *c, Act *a, int rows, int width)
{
    a->width  = width;
    a->stride = round_up((size_t)width, LANES);
    a->data   = cut(c, (size_t)rows * a->stride * sizeof(float));
}

static void cut_ints(Slab *c, Act *a, int rows, unsigned ints, unsigned which)
{
    bool   wanted = ints & which;
    size_t each   = (size_t)int_each(ints & INTS_BY_32 ? INT8_BY_32 : INT8);
    a->q_stride = wanted ? round_up((size_t)a->width, 64) : 0;
    a->d_stride = wanted ? ((size_t)a->width + each - 1) / each : 0;
    a->q        = cut(c, (size_t)rows * a->q_stride * sizeof *a->q);
    a->d        = cut(c, (size_t)rows * a->d_stride * sizeof *a->d);
}

/* A thread's part of the routing: its own groups and, if rows are private, the choice of
 * experts. */
static void cut_routing(Slab *c, const Config *cfg, Run *r, int max_tok, int own)
{
    size_t used = (size_t)cfg->experts_used, all = (size_t)max_tok * used;
    if (cfg->n_experts == 0)
        return;
    r->routing.first = cut(c, ((size_t)cfg->n_experts + 1) * sizeof(int));
    r->routing.token = cut(c, all * sizeof(int));
    r->routing.share = cut(c, all * sizeof(float));
    int   *expert    = cut(c, (size_t)own * used * sizeof(int));
    float *weight    = cut(c, (size_t)own * used * sizeof(float));
    if (r->own_rows) {
        r->routing.expert = expert;
        r->routing.weight = weight;
    }
}

/* Rows of one head, of latent attention. */
static void cut_heads(Slab *c, const Config *cfg, Run *r, const Buffers *b)
{
    int rows = b->max_tok < HEAD_ROWS ? b->max_tok : HEAD_ROWS, most = cfg->kv_lora;
    if (most == 0)
        return;
    cut_floats(c, &r->head_in, rows, most > cfg->nope_dim ? most : cfg->nope_dim);
    cut_ints(c, &r->head_in, rows, b->ints, INTS_XN);
    cut_floats(c, &r->head_out, rows, most > cfg->v_dim ? most : cfg->v_dim);
}

size_t buffers_place_own(const Buffers *b, Run *r, char *base)
{
    Slab c     = {base, 0};
    int rows  = b->max_tok < OWN_ROWS ? b->max_tok : OWN_ROWS;
    Act xn    = r->xn, att_out = r->att_out;
    r->scratch      = cut(&c, KERNEL_SCRATCH);
    r->attn_scratch = cut(&c, attention_scratch_floats(&r->model->cfg) * sizeof(float));
    r->delta_scratch = cut(&c, delta_scratch_floats(&r->model->cfg) * sizeof(float));
    cut_floats(&c, &xn, rows, xn.width);
    cut_ints(&c, &xn, rows, b->ints, INTS_XN);
    cut_ints(&c, &att_out, rows, b->ints, INTS_ATT_OUT);
    xn.own = xn.own_ints = att_out.own_ints = true;
    r->own_rows = r->n_tok <= rows;
    if (r->own_rows) {
        r->xn      = xn;
        r->att_out = att_out;
    }
    cut_routing(&c, &r->model->cfg, r, b->max_tok, rows);
    cut_heads(&c, &r->model->cfg, r, b);
    return c.at;
}

/* The widest hidden values of any layer. If no layer is dense, every layer has experts. */
static int hidden_width(const Config *c)
{
    int width = 0;
    for (int l = 0; l < c->n_layers && width == 0; l++)
        width = config_moe(c, l) ? 0 : c->d_ff;
    width = width > c->expert_d_ff ? width : c->expert_d_ff;
    return width > c->shared_d_ff ? width : c->shared_d_ff;
}

static void place_experts(const Buffers *b, Run *r, const Config *c, Slab *at)
{
    int rows = b->max_tok, copied = rows > 1 || c->expert_input_scaled ? r->expert_rows : 0;
    if (c->n_experts == 0)
        return;
    cut_floats(at, &r->expert_in, copied, c->d_model);
    cut_ints(at, &r->expert_in, copied, b->ints, INTS_XN);
    cut_floats(at, &r->mix, rows, c->d_model);
    cut_floats(at, &r->routing.logits, rows, c->n_experts);
    cut_floats(at, &r->routing.shared, rows, 1);
    r->routing.expert = cut(at, (size_t)rows * (size_t)c->experts_used * sizeof *r->routing.expert);
    r->routing.weight = cut(at, (size_t)rows * (size_t)c->experts_used * sizeof *r->routing.weight);
}

/* The most values that one exchange gathers: any activation's rows, or one token's logits. */
static void place_exchange(Run *r, const Config *c, int rows, Slab *at)
{
    if (!r->ranks)
        return;
    int    of[] = { c->heads * config_value_dim(c), c->kv_heads * c->head_dim, c->q_lora,
                    config_has_state(c) ? config_state_width(c) : 0 }, width = c->d_model;
    size_t hidden      = (size_t)r->expert_rows * (size_t)hidden_width(c),
           logits      = round_up((size_t)c->vocab_size, LANES);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        width = of[i] > width ? of[i] : width;
    r->exchange_floats = (size_t)rows * (size_t)width;
    r->exchange_floats = r->exchange_floats > hidden ? r->exchange_floats : hidden;
    r->exchange_floats = r->exchange_floats > logits ? r->exchange_floats : logits;
    r->exchange        = cut(at, r->exchange_floats * sizeof *r->exchange);
}

static void place_rope(Run *r, const Config *c, int rows, Slab *at)
{
    size_t n = (size_t)rows * ((size_t)c->rotary_dim / 2);
    for (int i = 0; i < 2; i++)
        if (i == 0 || c->theta_window != 0) {
            r->rope[i].cosine = cut(at, n * sizeof(float));
            r->rope[i].sine   = cut(at, n * sizeof(float));
        } else {
            r->rope[i].cosine = r->rope[0].cosine;
            r->rope[i].sine   = r->rope[0].sine;
        }
}

size_t buffers_place(Buffers *b, Run *r, char *base)
{
    const Config *c    = &r->model->cfg;
    Run           own;
    int           rows = b->max_tok, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim,
        ff = hidden_width(c);
    Slab           at   = {base, 0};
    r->expert_rows     = c->n_experts ? expert_rows(c, rows) : rows;
    int            state = config_has_state(c) ? rows : 0, delta = c->delta_heads ? state : 0;
    struct { Act *act; int rows, width; } part[] = {
        {&r->x, rows, c->d_model}, {&r->xn, rows, c->d_model}, {&r->y, rows, c->d_model},
        {&r->q, rows, q}, {&r->att_out, rows, c->heads * config_value_dim(c)},
        {&r->q_a, c->kv_lora ? rows : 0, c->q_lora},
        {&r->q_heads, c->kv_lora ? rows : 0, c->heads * config_query_dim(c)},
        {&r->att_latent, c->kv_lora ? rows : 0, q},
        {&r->gate_att, c->attn_gate ? rows : 0, q},
        {&r->pair, r->model->is_mtp ? rows : 0, 2 * c->d_model},
        {&r->conv_b, delta ? 0 : state, c->d_model}, {&r->conv_c, state, config_conv_width(c)},
        {&r->conv_x, state, config_conv_width(c)}, {&r->delta_z, delta, config_state_width(c)},
        {&r->delta_b, delta, c->delta_heads}, {&r->delta_a, delta, c->delta_heads},
        {&r->k, rows, kv}, {&r->v, c->kv_lora ? 0 : rows, kv}, {&r->gate, r->expert_rows, ff},
        {&r->up, config_gated(c) ? r->expert_rows : 0, ff},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cut_floats(&at, part[i].act, part[i].rows, part[i].width);
    cut_ints(&at, &r->xn, rows, b->ints, INTS_XN);
    cut_ints(&at, &r->att_out, rows, b->ints, INTS_ATT_OUT);
    cut_ints(&at, &r->pair, r->model->is_mtp ? rows : 0, b->ints, INTS_XN);
    cut_ints(&at, &r->q_a, c->kv_lora ? rows : 0, b->ints, INTS_XN);
    cut_ints(&at, delta ? &r->delta_z : &r->conv_c, state, b->ints, INTS_ATT_OUT);
    cut_ints(&at, &r->gate, r->expert_rows, b->ints, INTS_HIDDEN);
    place_experts(b, r, c, &at);
    place_exchange(r, c, rows, &at);
    place_rope(r, c, rows, &at);
    own              = *r;
    b->thread_bytes  = buffers_place_own(b, &own, NULL);
    b->thread_memory = cut(&at, (size_t)b->threads * b->thread_bytes);
    return at.at;
}

bool buffers_new(Buffers *b, Run *r, unsigned ints, int max_tok, int threads)
{
    *b       = (Buffers){.ints = ints, .max_tok = max_tok, .threads = threads};
    b->bytes = buffers_place(b, r, NULL);
    b->block = aligned_alloc(64, b->bytes);
    if (b->block)
        buffers_place(b, r, b->block);
    return b->block != NULL;
}

size_t forward_plan_bytes(const Config *c, unsigned ints, int max_tok, int threads)
{
    Model   model = {.cfg = *c};
    Run     r     = {.model = &model};
    Buffers b     = {.ints = ints, .max_tok = max_tok, .threads = threads};
    return buffers_place(&b, &r, NULL);
}

size_t forward_attention_bytes(const Config *c)
{
    return attention_scratch_floats(c) * sizeof(float);
}
