/* api/grad_check_api.c: checks the backward pass against central differences, for a config or a
 * model. */
#include "tblock_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/training.h"
#include "base/fp_env.h"
#include "train/block_lab.h"
#include "train/net.h"

enum { USUAL_TOKENS = 12 };

typedef struct CheckRun {
    Source        source;
    Config        config;
    Crew          crew;
    Params        params;
    float        *w;
    GradCheckRow *row;
} CheckRun;

/* Opens config and parameters. Each thread needs all parameters again, in double,
 * hence the 2 * threads arrays of floats. */
static bool open_values(CheckRun *x, const tblock_grad_check_options *o, Error *err)
{
    if (o->config && o->init)
        return fail(err, USAGE, "config and init: expected only one of them, since a model has its "
                                "own config");
    if (!o->init && !train_config(&x->config, o->config, 0, err))
        return false;
    if (o->init) {
        if (!source_open(&x->source, o->init, err) || !source_need_weights(&x->source, err))
            return false;
        x->config = x->source.stored.config;
        if (!train_supported(&x->config, o->init, err))
            return false;
    }
    int      n_tok = o->n_tokens ? o->n_tokens : USUAL_TOKENS;
    LoraPlan lora;
    if (!lora_plan_read(&lora, o->lora_rank, o->lora_alpha, o->lora_targets, err)
        || !params_layout_lora(&x->params, &x->config, &lora, err)
        || !net_fits(&x->params, 1 + 2 * x->crew.threads, 1, 1, n_tok, err)
        || !(x->w = params_array(&x->params, err)))
        return false;
    params_scatter(&x->params, x->w, o->seed);
    return !o->init || params_load(&x->params, x->w, &x->source.stored, err);
}

static bool check_numbers(const tblock_grad_check_options *o, Error *err)
{
    return check_range("n_tokens", o->n_tokens, 0, 4096, err)
        && check_range("samples", o->samples, 0, 1 << 20, err)
        && check_range("threads", o->threads, 0, 1024, err);
}

FP_ENV_WORK
static bool check(CheckRun *x, const tblock_grad_check_options *o, Error *err)
{
    if (!check_numbers(o, err) || !crew_open(&x->crew, o->threads, err) || !open_values(x, o, err))
        return false;
    int n_tok = o->n_tokens ? o->n_tokens
        : x->config.n_ctx < USUAL_TOKENS ? x->config.n_ctx
                                         : USUAL_TOKENS;
    if (n_tok > x->config.n_ctx)
        return fail(err, USAGE, "n_tokens: expected at most %d (n_ctx of the model), found %d",
                    x->config.n_ctx, n_tok);
    if (!(x->row = calloc((size_t)x->params.n, sizeof *x->row)))
        return no_memory(NULL, err);
    return grad_check(x->row, &x->params, &x->crew, x->w, n_tok, o->samples ? o->samples : 8,
                      o->seed, &PROGRESS_OF(o), err);
}

static bool copy_rows(const CheckRun *x, tblock_grad_check_row **rows, size_t *n_rows, Error *err)
{
    *n_rows = (size_t)(x->params.n - x->params.first);
    *rows   = calloc(*n_rows, sizeof **rows);
    if (!*rows)
        return no_memory(NULL, err);
    for (size_t i = 0; i < *n_rows; i++) {
        const GradCheckRow *r = &x->row[(size_t)x->params.first + i];
        (*rows)[i] = (tblock_grad_check_row){ .worst = r->worst,
                                              .grad = r->at_grad,
                                              .difference = r->at_difference,
                                              .element = r->element,
                                              .n = r->n };
        snprintf((*rows)[i].name, sizeof (*rows)[i].name, "%s", r->name);
    }
    return true;
}

bool tblock_grad_check(const tblock_grad_check_options *opt, tblock_grad_check_row **rows,
                       size_t *n_rows, tblock_error *err)
{
    NEED(false, err, rows, n_rows);
    *rows = NULL;
    *n_rows = 0;
    static const tblock_grad_check_options defaults = { 0 };
    HostEnv  host;
    CheckRun x = { 0 };
    host_env_enter(&host);
    bool ok = check(&x, opt ? opt : &defaults, err) && copy_rows(&x, rows, n_rows, err);
    crew_close(&x.crew);
    params_free(&x.params);
    source_close(&x.source);
    free(x.w);
    free(x.row);
    host_env_leave(&host);
    return ok;
}
