#include "runtime/buffers.h"

#include <stdlib.h>

#include "base/checked.h"

/* Parts are cut off a buffer one after the other; with base NULL they are only measured. */
typedef struct Cut { char *base; size_t at; } Cut;

static void *cut(Cut *c, size_t n_bytes)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += round_up(n_bytes, 64);
    return p;
}

static void cut_floats(Cut *c, Act *a, int rows, int width)
{
    a->width  = width;
    a->stride = round_up((size_t)width, LANES);
    a->data   = cut(c, (size_t)rows * a->stride * sizeof(float));
}

static void cut_ints(Cut *c, Act *a, int rows, bool wanted)
{
    a->q_stride = wanted ? round_up((size_t)a->width, 64) : 0;
    a->d_stride = wanted ? ((size_t)a->width + SUPERBLOCK - 1) / SUPERBLOCK : 0;
    a->q        = cut(c, (size_t)rows * a->q_stride * sizeof *a->q);
    a->d        = cut(c, (size_t)rows * a->d_stride * sizeof *a->d);
}

/* What a thread has of the routing: its own groups, and where few tokens are own, the choice too. */
static void cut_routing(Cut *c, const Config *cfg, Run *r, int max_tok, int own)
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

/* What one thread has for itself. Fills in r; returns the bytes. */
static size_t place_own(const Buffers *b, Run *r, char *base)
{
    Cut c     = {base, 0};
    int rows  = b->max_tok < OWN_ROWS ? b->max_tok : OWN_ROWS;
    Act xn    = r->xn, att_out = r->att_out;
    r->scratch      = cut(&c, KERNEL_SCRATCH);
    r->attn_scratch = cut(&c, attention_scratch_floats(&r->model->cfg) * sizeof(float));
    cut_floats(&c, &xn, rows, xn.width);
    cut_ints(&c, &xn, rows, b->ints & INTS_XN);
    cut_ints(&c, &att_out, rows, b->ints & INTS_ATT_OUT);
    r->own_rows = r->n_tok <= rows;
    if (r->own_rows) {
        r->xn      = xn;
        r->att_out = att_out;
    }
    cut_routing(&c, &r->model->cfg, r, b->max_tok, rows);
    return c.at;
}

/* Hidden values: the widest of any layer. Every layer has experts where no dense one is left. */
static int hidden_width(const Config *c)
{
    int width = 0;
    for (int l = 0; l < c->n_layers && width == 0; l++)
        width = config_moe(c, l) ? 0 : c->d_ff;
    width = width > c->expert_d_ff ? width : c->expert_d_ff;
    return width > c->shared_d_ff ? width : c->shared_d_ff;
}

static void place_experts(const Buffers *b, Run *r, const Config *c, Cut *at)
{
    int rows = b->max_tok;
    if (c->n_experts == 0)
        return;
    cut_floats(at, &r->expert_in, rows > 1 ? r->expert_rows : 0, c->d_model);
    cut_ints(at, &r->expert_in, rows > 1 ? r->expert_rows : 0, b->ints & INTS_XN);
    cut_floats(at, &r->mix, rows, c->d_model);
    cut_floats(at, &r->routing.logits, rows, c->n_experts);
    cut_floats(at, &r->routing.shared, rows, 1);
    r->routing.expert = cut(at, (size_t)rows * (size_t)c->experts_used * sizeof *r->routing.expert);
    r->routing.weight = cut(at, (size_t)rows * (size_t)c->experts_used * sizeof *r->routing.weight);
}

static void place_rope(Run *r, const Config *c, int rows, Cut *at)
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

/* All parts in order. Called twice: with base NULL to measure, then to place. Returns the bytes used. */
static size_t place(Buffers *b, Run *r, char *base)
{
    const Config *c    = &r->model->cfg;
    Run           own;
    int           rows = b->max_tok, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, ff = hidden_width(c);
    Cut           at   = {base, 0};
    r->expert_rows     = c->n_experts ? expert_rows(c, rows) : rows;
    struct { Act *act; int rows, width; } part[] = {
        {&r->x, rows, c->d_model}, {&r->xn, rows, c->d_model}, {&r->y, rows, c->d_model}, {&r->q, rows, q}, {&r->att_out, rows, q},
        {&r->k, rows, kv},         {&r->v, rows, kv},          {&r->gate, r->expert_rows, ff},
        {&r->up, config_gated(c) ? r->expert_rows : 0, ff},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cut_floats(&at, part[i].act, part[i].rows, part[i].width);
    cut_ints(&at, &r->xn, rows, b->ints & INTS_XN);
    cut_ints(&at, &r->att_out, rows, b->ints & INTS_ATT_OUT);
    cut_ints(&at, &r->gate, r->expert_rows, b->ints & INTS_HIDDEN);
    place_experts(b, r, c, &at);
    place_rope(r, c, rows, &at);
    own              = *r;
    b->thread_bytes  = place_own(b, &own, NULL);
    b->thread_memory = cut(&at, (size_t)b->threads * b->thread_bytes);
    return at.at;
}

bool buffers_new(Buffers *b, Run *r, unsigned ints, int max_tok, int threads)
{
    *b       = (Buffers){.ints = ints, .max_tok = max_tok, .threads = threads};
    b->bytes = place(b, r, NULL);
    b->block = aligned_alloc(64, b->bytes);
    if (b->block)
        place(b, r, b->block);
    return b->block != NULL;
}

void buffers_free(Buffers *b) { free(b->block); }

void buffers_own(const Buffers *b, Run *r)
{
    r->thread_bytes = b->thread_bytes;
    place_own(b, r, b->thread_memory + (size_t)r->team.thread * b->thread_bytes);
}

size_t forward_plan_bytes(const Config *c, unsigned ints, int max_tok, int threads)
{
    Model   model = {.cfg = *c};
    Run     r     = {.model = &model};
    Buffers b     = {.ints = ints, .max_tok = max_tok, .threads = threads};
    return place(&b, &r, NULL);
}

size_t forward_attention_bytes(const Config *c) { return attention_scratch_floats(c) * sizeof(float); }
