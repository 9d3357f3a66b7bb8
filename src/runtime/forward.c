/* runtime/forward.c: the transformer, in the order of the paper. One decoder-only pass over n_tok tokens:
 *
 *   x = embedding[token]
 *   each block:  x += Wo attention(rope(Wq n), rope(Wk n), Wv n)   with n = norm(x)
 *                x += W_down (act(W_gate n) * (W_up n))            with n = norm(x)
 *   logits = lm_head norm(x)
 *
 * That is Llama; other families put norms elsewhere, have no gate, run both halves of a block side by side, take a few of many
 * feed-forward networks, or multiply by a number: what the config says, in the same order. Prefill, decode and many sequences
 * are this function with another n_tok. It is run by every thread of a team; each operation (ops.h) does this thread's share
 * and waits where another's is needed. Source: Touvron et al. 2023 (Llama), Jiang et al. 2023 (Mistral), Wang and Komatsuzaki
 * 2021 (parallel blocks), Gemma Team 2024 (norms on both sides), OLMo Team 2025 (norms behind), Jiang et al. 2024 (Mixtral). */
#include "runtime/run.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/buffers.h"
#include "runtime/ops.h"
#include "runtime/team_size.h"

/* Bits of the integers that the matrices which read a vector multiply; 0: they take floats. */
static int bits(const Run *r, int l, Input input) { return input_bits(r->numerics, r->model, l, input); }

/* Shows the residual stream to whoever asked: "embed", "layer3.attn". */
static void observe(Run *r, const char *name, int l, const char *half, const Act *x)
{
    if (!r->observer)
        return;
    if (r->team.thread == 0) {
        char   text[32];
        fenv_t ours;
        if (l < 0)
            snprintf(text, sizeof text, "%s", name);
        else
            snprintf(text, sizeof text, "%s%d%s", name, l, half);
        fegetenv(&ours);
        r->observer(r->observer_user, text, r->first, r->n_tok, x->data, x->stride);
        fesetenv(&ours); /* whatever rounding it set */
    }
    wait_all(r);
}

/* One decoder block. r->x is [n_tok, d_model], changed in place. A norm that the model does not have is none: n = x. */
static void block(Run *r, int l)
{
    const Config *c = &r->model->cfg;
    const Layer  *w = &r->model->layer[l];
    NormPlacement place = c->norm_placement;

    norm(r, &r->xn, &r->x, w->attn_norm, bits(r, l, INPUT_QKV));
    qkv(r, l);                                          /* q, k, v = W xn; q, k rotated; k, v into the cache   */
    if (place == PLACE_PARALLEL2)
        norm(r, &r->xn, &r->x, w->ffn_norm, bits(r, l, INPUT_FFN)); /* of x before attention is added         */
    attention(r, &r->att_out, l);                       /* [n_tok, heads * head_dim]                           */
    attention_probs(r, l);                              /* nothing, unless watched                             */
    integers(r, &r->att_out, bits(r, l, INPUT_WO));     /* nothing, unless wo is quantized                     */
    add_product(r, &r->x, &r->att_out, &w->wo, w->attn_post_norm, "wo"); /* x = x + [norm] Wo att_out          */
    observe(r, "layer", l, ".attn", &r->x);

    if (place != PLACE_PARALLEL && place != PLACE_PARALLEL2)
        norm(r, &r->xn, &r->x, w->ffn_norm, bits(r, l, INPUT_FFN));
    if (config_moe(c, l)) {
        route(r, l);                                    /* the experts that each token takes                   */
        experts(r, &r->x, l);                           /* x = x + [norm] sum of p W_down act(W_gate xn) * (W_up xn) */
    } else {
        feed_forward(r, &r->gate, &r->up, &r->xn, l, bits(r, l, INPUT_DOWN)); /* act(W_gate xn) * (W_up xn): [n_tok, d_ff] */
        add_product(r, &r->x, &r->gate, &w->w_down, w->ffn_post_norm, "down"); /* x = x + [norm] W_down gate    */
    }
}

static void transformer(Run *r)
{
    rope_table(r);
    embed(r, &r->x);
    observe(r, "embed", -1, "", &r->x);
    for (int l = 0; l < r->model->cfg.n_layers; l++) {
        block(r, l);
        observe(r, "layer", l, "", &r->x);
    }
    norm(r, &r->xn, &r->x, r->model->final_norm, bits(r, 0, INPUT_HEAD));
    observe(r, "final_norm", -1, "", &r->xn);
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

/* The config's numbers, rounded once. */
static void set_numbers(Run *r, const Config *c)
{
    r->norm_eps       = (float)c->norm_eps;
    r->attn_scale     = (float)(c->attn_scale != 0 ? c->attn_scale : 1 / sqrt((double)c->head_dim));
    r->attn_softcap   = (float)c->attn_softcap;
    r->embed_scale    = (float)c->embed_scale;
    r->residual_scale = (float)c->residual_scale;
    r->logit_scale    = (float)c->logit_scale;
    r->logit_softcap  = (float)c->logit_softcap;
}

Forward *forward_new(const Model *model, const Kernels *kernels, Numerics numerics, int max_tok, int threads, Error *err)
{
    const Config *c = &model->cfg;
    Forward      *f = calloc(1, sizeof *f);
    if (!f) {
        no_memory(NULL, err);
        return NULL;
    }
    f->threads  = threads;
    f->pool     = threads_pool_new(threads, false);
    f->run      = (Run){.model = model, .kernels = kernels, .numerics = numerics};
    f->span     = calloc((size_t)max_tok, sizeof *f->span);
    f->inv_freq = calloc((size_t)c->rotary_dim + 2, sizeof *f->inv_freq);
    set_numbers(&f->run, c);
    bool ok     = buffers_new(&f->buffers, &f->run, numerics_ints(numerics, model), max_tok, threads);
    if (!ok || !f->span || !f->inv_freq) {
        fail(err, SYSTEM, "out of memory for activations: %zu MB for %d tokens at once", f->buffers.bytes >> 20, max_tok);
        forward_free(f);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        RopeTable *table = &f->run.rope[i];
        double    *freq  = f->inv_freq + i * (c->rotary_dim / 2);
        config_inv_freq(c, i == 1, model->rope_factors, freq, &table->factor);
        table->inv_freq = freq;
    }
    f->run.span = f->span;
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
