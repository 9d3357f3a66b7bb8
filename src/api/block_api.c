/* api/block_api.c: tblock_block: runs one decoder block, checks it and reports all its values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/block_report.h"
#include "base/fp_env.h"
#include "base/memory.h"
#include "tblock_tools.h"

/* Relative to a tensor's largest gradient: f32 against double. The tests find at most 1.7e-5
 * over all kinds of blocks. */
static const double check_limit = 1e-4;

/* Bytes of probabilities kept for display, or for writing; FLOP of a check in double that takes
 * minutes. */
static const double usual_probs = 64e6, most_probs = 4e9, most_check_flops = 2e11;

typedef struct BlockRun {
    const tblock_block_options *opt;
    BlockInput input;
    BlockLab   lab;
    BlockPage  page;
    char       weights[640], values[640];
    double    *stack;              /* four arrays of [n_stack + 1] */
    LabCheck   check[BLOCK_PAGE_PARTS];
} BlockRun;

/* The shares of the work, roughly, for progress: all passes over a block take about the same time,
 * those in double far longer. */
static Progress progress_of(const BlockRun *b, double from, double to)
{
    return progress_part(&PROGRESS_OF(b->opt), from, to);
}
static const double share_opened = 0.05, share_run = 0.25, share_checked = 0.9;
static double checked_end(const BlockRun *b) { return b->opt->check ? share_checked : share_run; }

/* ---- Opening --------------------------------------------------------------------------------- */

static bool keep_probs(const BlockRun *b, bool *keep, Error *err)
{
    const BlockInput *in = &b->input;
    double bytes = count_score_bytes(&in->config, in->seq_len, in->n_seqs);
    *keep = b->opt->output || bytes <= usual_probs;
    return !b->opt->output || bytes <= most_probs
        || fail(err, USAGE, "output: attn [%d, %d, %d, %d] would take %.0f GB; expected at most 4",
                in->n_seqs, in->config.heads, in->seq_len, in->seq_len, bytes / 1e9);
}

/* Rejects a check that would take too long, before anything is computed. */
static bool check_work(const BlockRun *b, Error *err)
{
    double flops = b->opt->check ? lab_check_flops(&b->lab, b->opt->check) : 0;
    return flops <= most_check_flops
        || fail(err, USAGE, "check: expected at most %.0e FLOP in double precision, found %.2g for "
                            "%d elements of each tensor: choose fewer elements or a smaller batch, "
                            "length or block", most_check_flops, flops,
                b->opt->check);
}

static void say_origin(BlockRun *b, const char *path)
{
    const BlockInput *in = &b->input;
    unsigned long long seed = b->opt->seed;
    if (in->origin == BLOCK_SEEDED)
        snprintf(b->weights, sizeof b->weights, "random, seed %llu", seed);
    else if (in->origin == BLOCK_GIVEN)
        snprintf(b->weights, sizeof b->weights, "%s", b->opt->tensors);
    else
        snprintf(b->weights, sizeof b->weights, "%s, layer %d", path, b->opt->layer);
    if (in->input_given)
        snprintf(b->values, sizeof b->values, "%s", b->opt->tensors);
    else
        snprintf(b->values, sizeof b->values, "random, seed %llu", seed);
}

static bool open_block(BlockRun *b, const char *path, Error *err)
{
    const tblock_block_options *o = b->opt;
    bool probs;
    if (o->output
        && ((o->tensors && !file_check_apart(o->output, o->tensors, err))
            || (path && !file_check_apart(o->output, path, err))
            || !file_check_output(o->output, err)))
        return false;
    return block_input_open(&b->input, path, o, err)
        && (!o->output || b->input.origin != BLOCK_OF_MODEL
            || source_check_apart(&b->input.source, o->output, err))
        && keep_probs(b, &probs, err)
        && lab_open(&b->lab, &b->input.config, b->input.causal, b->input.n_seqs, b->input.seq_len,
                    probs, o->threads, err)
        && check_work(b, err) && block_input_weights(&b->input, &b->lab, 0, err)
        && block_input_values(&b->input, &b->lab, err);
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* Declares or writes grad.NAME for every tensor of the block. They follow y, attn and dx. */
static bool each_gradient(BlockRun *b, TensorWriter *w, bool write, Error *err)
{
    const Params *p = &b->lab.params;
    int           tensor = 3;
    for (int i = 0; i < p->n; i++) {
        const TensorSpec *s = &p->spec[i];
        char    name[64];
        int64_t shape[3];
        if (s->layer != 0)
            continue;
        snprintf(name, sizeof name, "grad.%s", block_tensor_name(s->role, s->bias));
        if (write
                ? !tensor_writer_put(w, tensor++, 0, b->lab.d_w + p->at[i],
                                     params_length(p, i) * sizeof(float), err)
                : !tensor_writer_declare(w, name, DT_F32, tensor_spec_shape(s, shape), shape, err))
            return false;
    }
    return true;
}

static bool write_output(BlockRun *b, Error *err)
{
    const BlockLab *lab = &b->lab;
    size_t          size = (size_t)lab->n_tok * (size_t)lab->config.d_model * sizeof(float);
    size_t          probs =
        (size_t)lab->n_tok * (size_t)lab->config.heads * (size_t)lab->seq_len * sizeof(float);
    int64_t stream[3] = { lab->n_seqs, lab->seq_len, lab->config.d_model };
    int64_t attn[4] = { lab->n_seqs, lab->config.heads, lab->seq_len, lab->seq_len };
    TensorWriter *w = tensor_writer_new(b->opt->output, 64, err);
    if (!w)
        return false;
    if (tensor_writer_meta(w, "format", "tblock-block", err)
        && tensor_writer_meta(w, "tblock", TBLOCK_VERSION, err)
        && tensor_writer_declare(w, "y", DT_F32, 3, stream, err)
        && tensor_writer_declare(w, "attn", DT_F32, 4, attn, err)
        && tensor_writer_declare(w, "dx", DT_F32, 3, stream, err) && each_gradient(b, w, false, err)
        && tensor_writer_begin(w, err) && tensor_writer_put(w, 0, 0, lab->y, size, err)
        && tensor_writer_put(w, 1, 0, lab->acts.probs, probs, err)
        && tensor_writer_put(w, 2, 0, lab->d_x, size, err) && each_gradient(b, w, true, err))
        return tensor_writer_end(w, err);
    tensor_writer_abort(w);
    return false;
}

/* ---- The page -------------------------------------------------------------------------------- */

static void fill_tensors(BlockRun *b)
{
    const BlockLab *lab = &b->lab;
    for (int i = 0; i < lab->params.n; i++) {
        const TensorSpec *s = &lab->params.spec[i];
        size_t            n = params_length(&lab->params, i), at = lab->params.at[i];
        if (s->layer == 0)
            b->page.tensor[b->page.n_tensors++] = (BlockPageTensor){
                block_tensor_name(s->role, s->bias), s->rows, s->k, n, lab_stat(lab->w + at, n).rms,
                lab_stat(lab->d_w + at, n).rms
            };
        b->page.weight_bytes += s->layer == 0 ? n * sizeof(float) : 0;
    }
}

static void fill_page(BlockRun *b, const char *path)
{
    BlockLab  *lab  = &b->lab;
    BlockPage *p    = &b->page;
    size_t     size = (size_t)lab->n_tok * (size_t)lab->config.d_model;
    double     dy   = lab_rms(lab->d_y, size);
    say_origin(b, path);
    p->path    = path;
    p->cfg     = &lab->config;
    p->causal  = lab->shape.causal;
    p->weights = b->weights;
    p->input   = b->values;
    p->n_seqs  = lab->n_seqs;
    p->seq_len = lab->seq_len;
    p->kept_bytes = lab->acts_bytes;
    p->shared_bytes = lab->work_bytes;
    p->tile_bytes = lab->scratch_bytes;
    p->forward_seconds  = lab->forward_seconds;
    p->backward_seconds = lab->backward_seconds;
    p->ratio = dy > 0 ? lab_rms(lab->d_x, size) / dy : (double)NAN;
    p->check_limit = check_limit;
    block_page_steps(p, lab);
    block_first_bad(lab, p->bad, sizeof p->bad);
    fill_tensors(b);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_fused(BlockRun *b, Error *err)
{
    LabFused f;
    if (!lab_fused(&b->lab, &f, err))
        return false;
    b->page.fused_forward  = f.forward_same;
    b->page.fused_backward = f.backward_same;
    b->page.fused_seconds  = f.fused_seconds;
    b->page.plain_seconds  = f.plain_seconds;
    return true;
}

static bool check_gradients(BlockRun *b, Error *err)
{
    const BlockLab *lab = &b->lab;
    if (b->opt->check == 0)
        return true;
    Progress progress = progress_of(b, share_run, share_checked);
    int n = lab_check(lab, b->opt->check, b->opt->seed, b->check, &b->page.y_error, &progress, err);
    for (int i = 0; i < n; i++) {
        const LabCheck   *k = &b->check[i];
        const TensorSpec *s = k->tensor < 0 ? NULL : &lab->params.spec[k->tensor];
        b->page.check[i] = (BlockPageCheck){ s ? block_tensor_name(s->role, s->bias) : "x",
                                             k->samples,
                                             k->error,
                                             k->computed,
                                             k->expected,
                                             k->at };
    }
    b->page.n_checks = n;
    return n >= 0;
}

static bool stack_weights(void *user, BlockLab *lab, int block, Error *err)
{
    return block_input_weights(user, lab, block, err);
}

/* If the block alone is fine, the fault is the first value of a stack that is not finite. */
static void find_bad(BlockRun *b, int n)
{
    static const char *const where[] = { "pre-norm", "post-norm" };
    for (int i = 0; !b->page.bad[0] && i < 2 * (n + 1); i++) {
        int         p = i / (n + 1), at = i % (n + 1);
        const char *bad = !isfinite(b->page.stack_rms[p][at]) ? "stream"
            : !isfinite(b->page.stack_ratio[p][at])           ? "gradient"
                                                              : NULL;
        if (bad)
            snprintf(b->page.bad, sizeof b->page.bad,
                    "stack of %d, %s: the %s after block %d is not finite", n, where[p], bad, at);
    }
}

static const char *fewer(const BlockRun *b, int n)
{
    return n < b->opt->stack ? ", the last of the model" : "";
}

/* Must come last: it changes the lab's weights. */
static bool run_stacks(BlockRun *b, Error *err)
{
    int        most = block_input_most(&b->input), n = b->opt->stack < most ? b->opt->stack : most;
    size_t     room = (size_t)n + 1;
    LabWeights weights = b->input.origin == BLOCK_GIVEN ? NULL : stack_weights;
    if (n == 0)
        return true;
    if (!(b->stack = calloc(4 * room, sizeof *b->stack)))
        return no_memory(NULL, err);
    for (int i = 0; i < 2; i++) {
        double  *rms = b->stack + 2 * (size_t)i * room, *ratio = rms + room, from = checked_end(b),
                half = (1 - from) / 2;
        Progress progress = progress_of(b, from + i * half, from + (i + 1) * half);
        if (!lab_stack(&b->lab, i ? PLACE_POST : PLACE_PRE, n, weights, &b->input, rms, ratio,
                       &progress, err))
            return false;
        b->page.stack_rms[i]   = rms;
        b->page.stack_ratio[i] = ratio;
    }
    b->page.n_stack = n;
    find_bad(b, n);
    if (b->input.origin == BLOCK_OF_MODEL)
        snprintf(b->page.stack_weights, sizeof b->page.stack_weights, "layers %d to %d%s",
                 b->opt->layer, b->opt->layer + n - 1, fewer(b, n));
    else
        snprintf(b->page.stack_weights, sizeof b->page.stack_weights, "%s",
                 weights ? "each has its own random weights" : "all have the same weights");
    return true;
}

/* The verdict: fails with NO for the first fault. */
static bool answer(const BlockRun *b, const char *path, Error *err)
{
    const BlockPage *p = &b->page;
    const char      *what = path ? path : "the block";
    if (p->bad[0])
        return fail(err, NO, "%s: %s", what, p->bad);
    if (!p->fused_forward || !p->fused_backward)
        return fail(err, NO, "%s: residual + norm in one pass differs from the two operations",
                    what);
    for (int i = 0; i < p->n_checks; i++)
        if (!(p->check[i].error <= check_limit))
            return fail(err, NO, "%s: gradient of %s, element %zu: expected %.6g from central "
                                 "differences, found %.6g", what, p->check[i].name, p->check[i].at,
                        p->check[i].expected, p->check[i].computed);
    return true;
}

FP_ENV_WORK
static bool block(const char *path, const tblock_block_options *opt, char **text, Error *err)
{
    static const tblock_block_options usual = { 0 };
    BlockRun *b = calloc(1, sizeof *b);
    *text    = NULL;
    if (!b)
        return no_memory(NULL, err);
    b->opt  = opt ? opt : &usual;
    Progress whole = progress_of(b, 0, 1);
    bool ok = open_block(b, path, err) && progress_tell(&whole, share_opened, 1, err);
    if (ok) {
        lab_run(&b->lab);
        fill_page(b, path);
        ok = progress_tell(&whole, share_run, 1, err)
            && (!b->opt->output || write_output(b, err)) && check_fused(b, err)
            && check_gradients(b, err) && run_stacks(b, err)
            && block_report(&b->page, b->opt->json ? FACE_JSON : FACE_TEXT, b->opt->colour, text,
                            err)
            && answer(b, path, err);
    }
    lab_close(&b->lab);
    block_input_close(&b->input);
    free(b->stack);
    free(b);
    return ok;
}

bool tblock_block(const char *path, const tblock_block_options *opt, char **text, tblock_error *err)
{
    NEED(false, err, text);
    *text = NULL;
    HOST_ENV_RETURN(bool, block(path, opt, text, err));
}
