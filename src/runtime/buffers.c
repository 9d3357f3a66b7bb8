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
    return c.at;
}

/* All parts in order. Called twice: with base NULL to measure, then to place. Returns the bytes used. */
static size_t place(Buffers *b, Run *r, char *base)
{
    const Config *c    = &r->model->cfg;
    Run           own;
    int           rows = b->max_tok, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    size_t        half = (size_t)c->head_dim / 2;
    Cut           at   = {base, 0};
    struct { Act *act; int width; } part[] = {
        {&r->x, c->d_model}, {&r->xn, c->d_model}, {&r->y, c->d_model}, {&r->q, q}, {&r->att_out, q},
        {&r->k, kv},         {&r->v, kv},          {&r->gate, c->d_ff}, {&r->up, c->d_ff},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cut_floats(&at, part[i].act, rows, part[i].width);
    cut_ints(&at, &r->xn, rows, b->ints & INTS_XN);
    cut_ints(&at, &r->att_out, rows, b->ints & INTS_ATT_OUT);
    cut_ints(&at, &r->gate, rows, b->ints & INTS_HIDDEN);
    r->cosine        = cut(&at, (size_t)rows * half * sizeof *r->cosine);
    r->sine          = cut(&at, (size_t)rows * half * sizeof *r->sine);
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
