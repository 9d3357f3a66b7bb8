/* runtime/forward.c: the transformer, in the order of the paper. One decoder-only pass over n_tok tokens:
 *
 *   x = embedding[token]
 *   each block:  x += Wo attention(rope(Wq n), rope(Wk n), Wv n)   with n = rms_norm(x)
 *                x += W_down (silu(W_gate n) * (W_up n))           with n = rms_norm(x)
 *   logits = lm_head rms_norm(x)
 *
 * Prefill, decode and many sequences are this function with another n_tok. It is run by every thread of a team; each
 * operation (ops.c) does this thread's share and waits for the rest. Source: Touvron et al. 2023 (Llama),
 * Jiang et al. 2023 (Mistral). */
#include "runtime/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "runtime/team_size.h"

/* One decoder block, pre-norm. r->x is [n_tok, d_model], changed in place. */
static void block(Run *r, int l)
{
    const Config *c = &r->model->cfg;
    const Layer  *w = &r->model->layer[l];

    rms_norm(r, &r->xn, &r->x, w->attn_norm);
    matmul(r, &r->q, &r->xn, &w->wq);            /* [n_tok, heads * head_dim]    */
    matmul(r, &r->k, &r->xn, &w->wk);            /* [n_tok, kv_heads * head_dim] */
    matmul(r, &r->v, &r->xn, &w->wv);
    rope(r, &r->q, c->heads);
    rope(r, &r->k, c->kv_heads);
    kv_put(r, l);
    attention(r, &r->att_out, l);                /* [n_tok, heads * head_dim]    */
    attention_probs(r, l);                       /* nothing, unless watched      */
    matmul(r, &r->y, &r->att_out, &w->wo);       /* [n_tok, d_model]             */
    add(r, &r->x, &r->y);

    rms_norm(r, &r->xn, &r->x, w->ffn_norm);
    matmul(r, &r->gate, &r->xn, &w->w_gate);     /* [n_tok, d_ff]                */
    matmul(r, &r->up, &r->xn, &w->w_up);
    swiglu(r, &r->gate, &r->up);                 /* gate = silu(gate) * up       */
    matmul(r, &r->y, &r->gate, &w->w_down);      /* [n_tok, d_model]             */
    add(r, &r->x, &r->y);
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
    rms_norm(r, &r->xn, &r->x, r->model->final_norm);
    observe(r, "final_norm", -1, &r->xn);
    head(r, &r->xn);                             /* logits of the tokens that want them */
}

/* ---- Buffers and the team ------------------------------------------------------------------------------------- */

struct Forward {
    Run     run;                 /* what all threads share */
    Span   *span;
    double *inv_freq;
    int     max_tok, threads;
    bool    all_threads;         /* also where the work is too small for them */
    char   *buffer;              /* every activation and every thread's scratch */
    size_t  bytes, attn_floats;
    char   *thread_scratch;
    ThreadPool *pool;
    TeamSize    team_size;
};

/* The buffer's parts in order. Called twice: with base NULL to measure, then to place. Returns the bytes used. */
static size_t place(Forward *f, char *base)
{
    const Config *c = &f->run.model->cfg;
    size_t        at = 0, rows = (size_t)f->max_tok;
    struct { Act *act; int width; } part[] = {
        {&f->run.x, c->d_model},             {&f->run.xn, c->d_model},  {&f->run.y, c->d_model},
        {&f->run.q, c->heads * c->head_dim}, {&f->run.att_out, c->heads * c->head_dim},
        {&f->run.k, c->kv_heads * c->head_dim}, {&f->run.v, c->kv_heads * c->head_dim},
        {&f->run.gate, c->d_ff},             {&f->run.up, c->d_ff},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        part[i].act->width  = part[i].width;
        part[i].act->stride = round_up((size_t)part[i].width, LANES);
        part[i].act->data   = base ? (float *)(void *)(base + at) : NULL;
        at += rows * part[i].act->stride * sizeof(float);
    }
    size_t table = round_up(rows * ((size_t)c->head_dim / 2), LANES) * sizeof(float);
    f->run.cosine = base ? (float *)(void *)(base + at) : NULL;
    f->run.sine   = base ? (float *)(void *)(base + at + table) : NULL;
    at += 2 * table;
    f->thread_scratch = base ? base + at : NULL;
    return at + (size_t)f->threads * (KERNEL_SCRATCH + f->attn_floats * sizeof(float));
}

Forward *forward_new(const Model *model, const Kernels *kernels, int max_tok, int threads, Error *err)
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
    f->run         = (Run){.model = model, .kernels = kernels, .norm_eps = (float)c->norm_eps,
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

size_t forward_plan_bytes(const Config *c, int max_tok, int threads)
{
    Model   model = {.cfg = *c};
    Forward f     = {.run = {.model = &model}, .max_tok = max_tok, .threads = threads, .attn_floats = attention_scratch_floats(c)};
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

static void run_member(void *arg, Team team)
{
    Forward *f = arg;
    Run      r = f->run;
    char    *scratch = f->thread_scratch + (size_t)team.thread * (KERNEL_SCRATCH + f->attn_floats * sizeof(float));
    r.team         = team;
    r.scratch      = scratch;
    r.attn_scratch = (float *)(void *)(scratch + KERNEL_SCRATCH);
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

/* A thread more pays only where its share of the work is longer than the meetings it brings: about ten in a block, of a
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

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Short passes meet often for their length: there the team shrinks while the machine is busy. Long ones do not, and differ. */
static void run_team(Forward *f, int n_tok)
{
    enum { SHORT_PASS = 16 };
    int most = useful_threads(f, n_tok);
    if (most > 1 && n_tok <= SHORT_PASS) {
        int    n     = team_size(&f->team_size, most);
        double start = seconds_now(), slept = threads_pool_run(f->pool, n, run_member, f);
        team_size_note(&f->team_size, most, n, seconds_now() - start, slept);
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
