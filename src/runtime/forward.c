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

#include "base/clock.h"
#include "runtime/buffers.h"
#include "runtime/team_size.h"

/* Bits of the integers that the matrices which read one activation multiply; 0: they take floats. */
#define BITS(r, ...) \
    activation_bits((r)->numerics, (const Mat *const[]){__VA_ARGS__}, \
                    sizeof((const Mat *const[]){__VA_ARGS__}) / sizeof(const Mat *))

/* One decoder block, pre-norm. r->x is [n_tok, d_model], changed in place. */
static void block(Run *r, int l)
{
    const Layer *w = &r->model->layer[l];

    rms_norm(r, &r->xn, &r->x, w->attn_norm.w, BITS(r, &w->wq, &w->wk, &w->wv));
    qkv(r, l);                                          /* q, k, v = W xn; q, k rotated; k, v into the cache   */
    attention(r, &r->att_out, l);                       /* [n_tok, heads * head_dim]                           */
    attention_probs(r, l);                              /* nothing, unless watched                             */
    integers(r, &r->att_out, BITS(r, &w->wo));          /* nothing, unless wo is quantized                     */
    matmul_add(r, &r->x, &r->att_out, &w->wo, "wo");    /* x = x + Wo att_out                                  */

    rms_norm(r, &r->xn, &r->x, w->ffn_norm.w, BITS(r, &w->w_gate, &w->w_up));
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
    rms_norm(r, &r->xn, &r->x, r->model->final_norm.w, BITS(r, &r->model->lm_head));
    observe(r, "final_norm", -1, &r->xn);
    head(r, &r->xn);                             /* logits of the tokens that want them */
}

/* ---- What a pass needs ---------------------------------------------------------------------------------------- */

struct Forward {
    Run         run;             /* what all threads share */
    Buffers     buffers;
    Span       *span;
    double     *inv_freq;
    Profile    *profile;
    int         threads;
    bool        all_threads;     /* also where the work is too small for them */
    ThreadPool *pool;
    TeamSize    team_size;
};

Forward *forward_new(const Model *model, const Kernels *kernels, Numerics numerics, int max_tok, int threads, Error *err)
{
    const Config *c = &model->cfg;
    Forward      *f = calloc(1, sizeof *f);
    if (!f) {
        fail(err, SYSTEM, "out of memory");
        return NULL;
    }
    f->threads  = threads;
    f->pool     = threads_pool_new(threads, false);
    f->run      = (Run){.model = model, .kernels = kernels, .numerics = numerics, .norm_eps = (float)c->norm_eps,
                        .attn_scale = (float)(1 / sqrt((double)c->head_dim))};
    f->span     = calloc((size_t)max_tok, sizeof *f->span);
    f->inv_freq = calloc((size_t)c->head_dim / 2 + 1, sizeof *f->inv_freq);
    bool ok     = buffers_new(&f->buffers, &f->run, numerics_ints(numerics, model), max_tok, threads);
    if (!ok || !f->span || !f->inv_freq) {
        fail(err, SYSTEM, "out of memory for activations: %zu MB for %d tokens at once", f->buffers.bytes >> 20, max_tok);
        forward_free(f);
        return NULL;
    }
    config_inv_freq(c, false, model->rope_factors, f->inv_freq, &f->run.rope_factor);
    f->run.inv_freq = f->inv_freq;
    f->run.span     = f->span;
    return f;
}

void forward_free(Forward *f)
{
    if (!f)
        return;
    threads_pool_free(f->pool);
    buffers_free(&f->buffers);
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

size_t forward_bytes(const Forward *f) { return f->buffers.bytes; }

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

/* ---- The team ------------------------------------------------------------------------------------------------- */

static void run_member(void *arg, Team team)
{
    Forward *f = arg;
    Run      r = f->run;
    r.team     = team;
    r.profile  = team.thread == 0 ? f->profile : NULL;
    buffers_own(&f->buffers, &r);
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
