/* runtime/forward.c: the transformer, in the order of the paper. One decoder-only pass over n_tok tokens:
 *
 *   x = embedding[token]
 *   each block:  x += Wo attention(rope(Wq n), rope(Wk n), Wv n)   with n = rms_norm(x)
 *                x += W_down (silu(W_gate n) * (W_up n))           with n = rms_norm(x)
 *   logits = lm_head rms_norm(x)
 *
 * Prefill, decode and many sequences are this function with another n_tok. It is run by every thread of a team; each
 * operation (ops.c) does this thread's share and waits where another's is needed. Source: Touvron et al. 2023 (Llama),
 * Jiang et al. 2023 (Mistral). */
#include "runtime/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "runtime/team_size.h"

/* Bits of the integers that the matrices which read one activation multiply; 0: they take floats. */
#define BITS(r, ...) \
    activation_bits((r)->numerics, (const Mat *const[]){__VA_ARGS__}, \
                    sizeof((const Mat *const[]){__VA_ARGS__}) / sizeof(const Mat *))

/* One decoder block, pre-norm. r->x is [n_tok, d_model], changed in place. */
static void block(Run *r, int l)
{
    const Layer *w = &r->model->layer[l];

    rms_norm(r, &r->xn, &r->x, w->attn_norm, BITS(r, &w->wq, &w->wk, &w->wv));
    qkv(r, l);                                          /* q, k, v = W xn; q, k rotated; k, v into the cache   */
    attention(r, &r->att_out, l);                       /* [n_tok, heads * head_dim]                           */
    attention_probs(r, l);                              /* nothing, unless watched                             */
    integers(r, &r->att_out, BITS(r, &w->wo));          /* nothing, unless wo is quantized                     */
    matmul_add(r, &r->x, &r->att_out, &w->wo, "wo");    /* x = x + Wo att_out                                  */

    rms_norm(r, &r->xn, &r->x, w->ffn_norm, BITS(r, &w->w_gate, &w->w_up));
    swiglu(r, &r->gate, &r->up, &r->xn, w, BITS(r, &w->w_down)); /* gate = silu(W_gate xn) * (W_up xn): [n_tok, d_ff] */
    matmul_add(r, &r->x, &r->gate, &w->w_down, "down"); /* x = x + W_down gate                                 */
}

static void transformer(Run *r)
{
    rope_table(r);
    embed(r, &r->x);
    observe(r, "embed", -1, &r->x);
    for (int l = 0; l < r->model->cfg.n_layers; l++) {
        block(r, l);
        observe(r, "layer", l, &r->x);
    }
    rms_norm(r, &r->xn, &r->x, r->model->final_norm, BITS(r, &r->model->lm_head));
    observe(r, "final_norm", -1, &r->xn);
    head(r, &r->xn);                             /* logits of the tokens that want them */
}

/* ---- Buffers and the team ------------------------------------------------------------------------------------- */

struct Forward {
    Run      run;                /* what all threads share */
    Span    *span;
    double  *inv_freq;
    Profile *profile;
    unsigned ints;               /* activations that integers are made of */
    int      max_tok, threads;
    bool     all_threads;        /* also where the work is too small for them */
    char    *buffer;             /* every activation and every thread's own */
    size_t   bytes, thread_bytes, attn_floats;
    char    *thread_memory;
    ThreadPool *pool;
    TeamSize team_size;
};

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
static size_t place_own(const Forward *f, Run *r, char *base)
{
    Cut c     = {base, 0};
    int rows  = f->max_tok < OWN_ROWS ? f->max_tok : OWN_ROWS;
    Act xn    = r->xn, att_out = r->att_out;
    r->scratch      = cut(&c, KERNEL_SCRATCH);
    r->attn_scratch = cut(&c, f->attn_floats * sizeof(float));
    cut_floats(&c, &xn, rows, xn.width);
    cut_ints(&c, &xn, rows, f->ints & INTS_XN);
    cut_ints(&c, &att_out, rows, f->ints & INTS_ATT_OUT);
    r->own_rows = r->n_tok <= rows;
    if (r->own_rows) {
        r->xn      = xn;
        r->att_out = att_out;
    }
    return c.at;
}

/* All parts in order. Called twice: with base NULL to measure, then to place. Returns the bytes used. */
static size_t place(Forward *f, char *base)
{
    const Config *c    = &f->run.model->cfg;
    Run          *r    = &f->run, own;
    int           rows = f->max_tok, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    size_t        half = (size_t)c->head_dim / 2;
    Cut           at   = {base, 0};
    struct { Act *act; int width; } part[] = {
        {&r->x, c->d_model}, {&r->xn, c->d_model}, {&r->y, c->d_model}, {&r->q, q}, {&r->att_out, q},
        {&r->k, kv},         {&r->v, kv},          {&r->gate, c->d_ff}, {&r->up, c->d_ff},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        cut_floats(&at, part[i].act, rows, part[i].width);
    cut_ints(&at, &r->xn, rows, f->ints & INTS_XN);
    cut_ints(&at, &r->att_out, rows, f->ints & INTS_ATT_OUT);
    cut_ints(&at, &r->gate, rows, f->ints & INTS_HIDDEN);
    r->cosine        = cut(&at, (size_t)rows * half * sizeof *r->cosine);
    r->sine          = cut(&at, (size_t)rows * half * sizeof *r->sine);
    own              = *r;
    f->thread_bytes  = place_own(f, &own, NULL);
    f->thread_memory = cut(&at, (size_t)f->threads * f->thread_bytes);
    return at.at;
}

Forward *forward_new(const Model *model, const Kernels *kernels, Numerics numerics, int max_tok, int threads, Error *err)
{
    const Config *c = &model->cfg;
    Forward      *f = calloc(1, sizeof *f);
    if (!f) {
        fail(err, SYSTEM, "out of memory");
        return NULL;
    }
    f->max_tok     = max_tok;
    f->threads     = threads;
    f->pool        = threads_pool_new(threads, false);
    f->attn_floats = attention_scratch_floats(c);
    f->ints        = numerics_ints(numerics, model);
    f->run         = (Run){.model = model, .kernels = kernels, .numerics = numerics, .norm_eps = (float)c->norm_eps,
                           .attn_scale = (float)(1 / sqrt((double)c->head_dim))};
    f->bytes       = place(f, NULL);
    f->buffer      = aligned_alloc(64, f->bytes);
    f->span        = calloc((size_t)max_tok, sizeof *f->span);
    f->inv_freq    = calloc((size_t)c->head_dim / 2 + 1, sizeof *f->inv_freq);
    if (!f->buffer || !f->span || !f->inv_freq) {
        fail(err, SYSTEM, "out of memory for activations: %zu MB for %d tokens at once", f->bytes >> 20, max_tok);
        forward_free(f);
        return NULL;
    }
    place(f, f->buffer);
    config_inv_freq(c, f->inv_freq, &f->run.rope_factor);
    f->run.inv_freq = f->inv_freq;
    f->run.span     = f->span;
    return f;
}

void forward_free(Forward *f)
{
    if (!f)
        return;
    threads_pool_free(f->pool);
    free(f->buffer);
    free(f->span);
    free(f->inv_freq);
    free(f);
}

void forward_all_threads(Forward *f) { f->all_threads = true; }

void forward_pin_threads(Forward *f)
{
    threads_pool_free(f->pool);
    f->pool = threads_pool_new(f->threads, true);
}

size_t forward_bytes(const Forward *f) { return f->bytes; }

size_t forward_plan_bytes(const Config *c, unsigned ints, int max_tok, int threads)
{
    Model   model = {.cfg = *c};
    Forward f     = {.run = {.model = &model}, .ints = ints, .max_tok = max_tok, .threads = threads,
                     .attn_floats = attention_scratch_floats(c)};
    return place(&f, NULL);
}

size_t forward_attention_bytes(const Config *c) { return attention_scratch_floats(c) * sizeof(float); }

void forward_observe(Forward *f, ForwardObserver observer, void *user)
{
    f->run.observer      = observer;
    f->run.observer_user = user;
}

void forward_watch_attention(Forward *f, AttentionRow row, void *user)
{
    f->run.attention_row  = row;
    f->run.attention_user = user;
}

void forward_profile(Forward *f, Profile *p) { f->profile = p; }

static void run_member(void *arg, Team team)
{
    Forward *f = arg;
    Run      r = f->run;
    r.team     = team;
    r.profile  = team.thread == 0 ? f->profile : NULL;
    r.thread_bytes = f->thread_bytes;
    place_own(f, &r, f->thread_memory + (size_t)team.thread * f->thread_bytes);
    transformer(&r);
}

static int cut_into_spans(Span *span, const BatchToken *token, int n_tok)
{
    int n = 0;
    for (int t = 0; t < n_tok; t++) {
        if (n > 0 && token[t].seq == span[n - 1].seq)
            span[n - 1].n_tok++;
        else
            span[n++] = (Span){token[t].seq, token[t].pos, t, 1};
    }
    return n;
}

/* A thread more pays only where its share of the work is longer than the meetings it brings: about five in a block, of a
 * microsecond on an idle machine and of much more on a busy one. Which threads compute what never shows in the bits. */
static int useful_threads(const Forward *f, int n_tok)
{
    if (f->all_threads)
        return f->threads;
    enum { BYTES_PER_THREAD = 16 << 20 }; /* weights times tokens; 16 MB take some 300 us */
    size_t work = f->run.model->bytes_per_token / BYTES_PER_THREAD * (size_t)n_tok
                  + f->run.model->bytes_per_token % BYTES_PER_THREAD * (size_t)n_tok / BYTES_PER_THREAD;
    return work < 1 ? 1 : work < (size_t)f->threads ? (int)work : f->threads;
}

/* Short passes meet often for their length: there the team shrinks while the machine is busy. Long ones do not, and differ. */
static void run_team(Forward *f, int n_tok)
{
    enum { SHORT_PASS = 16 };
    int most = useful_threads(f, n_tok);
    if (most > 1 && n_tok <= SHORT_PASS) {
        int    n     = team_size(&f->team_size, most);
        double start = clock_seconds(), slept = threads_pool_run(f->pool, n, run_member, f);
        team_size_note(&f->team_size, most, n, clock_seconds() - start, slept);
    } else {
        threads_pool_run(f->pool, most, run_member, f);
    }
}

void forward(Forward *f, KvCache *kv, const BatchToken *token, int n_tok, size_t first)
{
    f->run.kv_cache = kv;
    f->run.token    = token;
    f->run.n_tok    = n_tok;
    f->run.first    = first;
    f->run.n_spans  = cut_into_spans(f->span, token, n_tok);
    run_team(f, n_tok);
    for (int t = 0; t < n_tok; t++)
        kv->seq[token[t].seq].length++;
}
