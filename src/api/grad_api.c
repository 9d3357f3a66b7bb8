/* api/grad_api.c: loss and gradients of a model on given tokens, as a safetensors file. */
#include "tblock_tools.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/training.h"
#include "base/fp_env.h"
#include "base/progress.h"
#include "train/net.h"

typedef struct Grad {
    const tblock_grad_options *opt;
    tblock_adamw   adamw;
    Source         source;
    TensorFile     tokens;
    const int32_t *token;              /* [n_seqs, seq_len] */
    int32_t       *copy, *target;
    int            n_seqs, seq_len;
    int            n_out;              /* gradient tensors written */
    Crew           crew;
    Params         params;
    float         *w, *g, *m, *v;
    Net           *net;
    double        *losses;             /* [adamw_steps + 1] */
    double         grad_norm;
    int64_t        n_done;             /* sequences done in all passes, for progress */
    TensorWriter  *out;
} Grad;

/* ---- Input ----------------------------------------------------------------------------------- */

static bool read_tokens(Grad *g, const char *path, Error *err)
{
    char shape[64];
    if (!safetensors_open(&g->tokens, path, err))
        return false;
    const Tensor *t = tensor_find(&g->tokens, "tokens");
    if (!t)
        return fail(err, INPUT, "%s: tensor tokens: expected I32 [B, T], found no such tensor",
                    path);
    if (t->dtype != DT_I32 || t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 2
        || t->n_elements > INT_MAX)
        return fail(err, INPUT,
                    "%s: tensor tokens: expected I32 [B, T] with T at least 2, found %s %s", path,
                    dtype_name(t->dtype), tensor_shape_text(t, shape, sizeof shape));
    g->n_seqs  = (int)t->shape[0];
    g->seq_len = (int)t->shape[1];
    g->copy    = malloc(t->n_bytes);
    g->target  = malloc(t->n_bytes);
    if (!g->copy || !g->target)
        return no_memory(path, err);
    g->token = memcpy(g->copy, t->data, t->n_bytes);
    return true;
}

static bool check_tokens(Grad *g, const char *path, Error *err)
{
    const Config *c = &g->params.config;
    if (g->seq_len > c->n_ctx)
        return fail(err, INPUT,
                    "%s: tensor tokens: expected sequences of at most %d tokens (n_ctx of the "
                    "model), found %d",
                    path, c->n_ctx, g->seq_len);
    for (int i = 0; i < g->n_seqs * g->seq_len; i++) {
        if (g->token[i] < 0 || g->token[i] >= c->vocab_size)
            return fail(err, INPUT,
                        "%s: tensor tokens: sequence %d, position %d: expected 0 to %d, found %d",
                        path, i / g->seq_len, i % g->seq_len, c->vocab_size - 1, g->token[i]);
        g->target[i] = i % g->seq_len + 1 < g->seq_len ? g->token[i + 1] : IGNORE_TARGET;
    }
    return true;
}

static bool check_options(const tblock_grad_options *opt, const tblock_adamw *a, Error *err)
{
    return check_range("adamw_steps", opt->adamw_steps, 0, 1 << 20, err)
        && check_range("threads", opt->threads, 0, 1024, err) && adamw_check(a, err);
}

static bool prepare(Grad *g, const char *model, const char *tokens, const char *out, Error *err)
{
    const Config *c = &g->source.stored.config;
    if (!source_open(&g->source, model, err) || !source_need_weights(&g->source, err)
        || !source_check_apart(&g->source, out, err) || !train_supported(c, model, err)
        || !params_layout(&g->params, c, err) || !read_tokens(g, tokens, err)
        || !check_tokens(g, tokens, err) || !crew_open(&g->crew, g->opt->threads, err))
        return false;
    bool steps = g->opt->adamw_steps > 0;
    if (!net_fits(&g->params, 1, steps ? 3 : 1, micro_batch(g->n_seqs, g->seq_len), g->seq_len,
                  err))
        return false;
    g->losses = calloc((size_t)g->opt->adamw_steps + 1, sizeof *g->losses);
    return (g->losses || no_memory(NULL, err)) && (g->w = params_array(&g->params, err))
        && (g->g = params_array(&g->params, err))
        && (!steps || (g->m = params_array(&g->params, err)))
        && (!steps || (g->v = params_array(&g->params, err)))
        && params_load(&g->params, g->w, &g->source.stored, err)
        && (g->net =
                net_new(&g->params, &g->crew, micro_batch(g->n_seqs, g->seq_len), g->seq_len, err));
}

/* ---- Computing ------------------------------------------------------------------------------- */

/* The mean loss; with grads also computes its gradients. */
static bool batch_loss(Grad *g, float *grads, double *loss, Error *err)
{
    int    micro = micro_batch(g->n_seqs, g->seq_len), targets = g->n_seqs * (g->seq_len - 1);
    double sum = 0;
    if (grads)
        memset(grads, 0, g->params.n_floats * sizeof *grads);
    for (int s = 0; s < g->n_seqs; s += micro) {
        size_t   at = (size_t)s * (size_t)g->seq_len;
        NetBatch b  = { .token = g->token + at,
                        .target = g->target + at,
                        .n_seqs = g->n_seqs - s < micro ? g->n_seqs - s : micro };
        sum += net_loss(g->net, g->w, grads, &b, (float)(1.0 / targets));
        g->n_done += b.n_seqs;
        if (!progress_tell(&PROGRESS_OF(g->opt), (double)g->n_done,
                           g->n_seqs * (g->opt->adamw_steps + 1.0), err))
            return false;
    }
    *loss = sum / targets;
    return true;
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* Declares a set of tensors; prefix: "grad." or "after3.". Counts them. */
static bool declare_set(Grad *g, const char *prefix, Error *err)
{
    g->n_out = 0;
    for (int i = 0; i < g->params.n; i++) {
        char        name[512];
        int64_t     shape[3], rows;
        const char *source = source_tensor(&g->source, &g->params, i, &rows);
        int         rank   = tensor_spec_shape(&g->params.spec[i], shape);
        if (!source)
            continue;
        shape[0] = rows;
        snprintf(name, sizeof name, "%s%s", prefix, source);
        if (!tensor_writer_declare(g->out, name, DT_F32, rank, shape, err))
            return false;
        g->n_out++;
    }
    return true;
}

static bool put_set(Grad *g, int first, const float *array, Error *err)
{
    int64_t rows;
    for (int i = 0; i < g->params.n; i++)
        if (source_tensor(&g->source, &g->params, i, &rows)
            && !source_tensor_put(&g->source, &g->params, i, g->out, first++, array, err))
            return false;
    return true;
}

static bool put_floats(Grad *g, int tensor, const double *x, int n, Error *err)
{
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        float f = (float)x[i];
        ok = tensor_writer_put(g->out, tensor, (size_t)i * sizeof f, &f, sizeof f, err);
    }
    return ok;
}

/* Declares everything and writes the gradients, before the steps change them. */
static bool begin_output(Grad *g, const char *path, Error *err)
{
    char after[32];
    int  steps = g->opt->adamw_steps;
    snprintf(after, sizeof after, "after%d.", steps);
    return (g->out = tensor_writer_new(path, 64, err))
        && tensor_writer_meta(g->out, "format", "tblock-grad", err)
        && tensor_writer_meta(g->out, "tblock", TBLOCK_VERSION, err)
        && tensor_writer_declare(g->out, "loss", DT_F32, 0, NULL, err)
        && declare_set(g, "grad.", err)
        && (steps == 0
            || (tensor_writer_declare(g->out, "losses", DT_F32, 1, (int64_t[]){ steps + 1 }, err)
                && declare_set(g, after, err)))
        && tensor_writer_begin(g->out, err) && put_floats(g, 0, g->losses, 1, err)
        && put_set(g, 1, g->g, err);
}

static bool take_steps(Grad *g, Error *err)
{
    const tblock_adamw *a = &g->adamw;
    int       steps = g->opt->adamw_steps, losses = 1 + g->n_out;
    Optimizer o = { .p = &g->params, .crew = &g->crew, .m = g->m, .v = g->v,
                    .opt = { a->beta1, a->beta2, a->eps, a->weight_decay, a->decay_all } };
    for (int i = 1; i <= steps; i++) {
        optimizer_step(&o, g->w, g->g, i, a->lr, 1);
        if (!batch_loss(g, i < steps ? g->g : NULL, &g->losses[i], err))
            return false;
        if (!isfinite(g->losses[i]))
            return fail(err, NO, "step %d: expected a finite loss, found %g: try a smaller --lr", i,
                        fabs(g->losses[i]));
    }
    return steps == 0
        || (put_floats(g, losses, g->losses, steps + 1, err) && put_set(g, losses + 1, g->w, err));
}

static bool compute(Grad *g, const char *out, Error *err)
{
    if (!batch_loss(g, g->g, &g->losses[0], err))
        return false;
    g->grad_norm = grads_norm(&g->params, &g->crew, g->g);
    if (!isfinite(g->losses[0]) || !isfinite(g->grad_norm))
        return fail(err, NO,
                    "%s: expected a finite loss and gradient, found loss %g, gradient norm %g",
                    g->source.path, fabs(g->losses[0]), fabs(g->grad_norm));
    if (!begin_output(g, out, err) || !take_steps(g, err))
        return false;
    TensorWriter *w = g->out;
    g->out = NULL;
    return tensor_writer_end(w, err);
}

static void release(Grad *g)
{
    tensor_writer_abort(g->out);
    net_free(g->net);
    crew_close(&g->crew);
    params_free(&g->params);
    tensor_file_close(&g->tokens);
    source_close(&g->source);
    free(g->copy);
    free(g->target);
    free(g->w);
    free(g->g);
    free(g->m);
    free(g->v);
    free(g->losses);
}

FP_ENV_WORK
static bool run(const char *model_path, const char *tokens_path, const char *out_path,
                const tblock_grad_options *opt, tblock_grad_report *report, Error *err)
{
    static const tblock_grad_options none = { 0 };
    static const tblock_adamw        usual = { 1e-3, 0.9, 0.95, 1e-8, 0.1, true };
    Grad g = { .opt = opt ? opt : &none, .adamw = opt && opt->adamw ? *opt->adamw : usual };
    bool ok = check_options(g.opt, &g.adamw, err) && file_check_apart(out_path, tokens_path, err)
        && file_check_output(out_path, err) && prepare(&g, model_path, tokens_path, out_path, err)
        && compute(&g, out_path, err);
    if (ok && report) {
        *report = (tblock_grad_report){ .loss = g.losses[0],
                                        .loss_after = g.losses[g.opt->adamw_steps],
                                        .grad_norm = g.grad_norm,
                                        .n_tensors = g.n_out };
        for (int i = 0; i < g.params.n; i++)
            report->n_params += params_length(&g.params, i);
    }
    release(&g);
    return ok;
}

bool tblock_grad(const char *model_path, const char *tokens_path, const char *out_path,
                 const tblock_grad_options *opt, tblock_grad_report *report, tblock_error *err)
{
    NEED(false, err, model_path, tokens_path, out_path);
    /* Losses, rotary angles and the optimizer's scalars are computed in this thread. */
    HOST_ENV_RETURN(bool, run(model_path, tokens_path, out_path, opt, report, err));
}
