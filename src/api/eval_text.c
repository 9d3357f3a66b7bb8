/* api/eval_text.c: perplexity of a text, for one model or for a model and its reference. */
#include <math.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/fp_env.h"
#include "base/memory.h"
#include "base/number.h"
#include "tblock_tools.h"

/* The sums over one model's predictions. */
typedef struct Likelihood {
    Moments nll;
    size_t  right;                     /* tokens that were the most likely                     */
    double  window_sum, recipe_sum;    /* of nll in this window; of windows' weighted means    */
    size_t  window_n, recipe_n;
} Likelihood;

static double add_token(Likelihood *s, const double *row, int n, double lse, int32_t token)
{
    int    top[TOP_MOST];
    double nll = lse - row[token];
    moments_add(&s->nll, nll);
    s->window_sum += nll;
    s->window_n++;
    s->right += top_tokens(row, n, 1, top) == 1 && top[0] == token;
    return nll;
}

/* The recipe weighs a window's mean by one less than the number of tokens new in it, even if
 * overlap lets all of them be scored. */
static void end_window(Likelihood *s, size_t n_new)
{
    if (s->window_n > 0) {
        s->recipe_sum += s->window_sum / (double)s->window_n * (double)(n_new - 1);
        s->recipe_n   += n_new - 1;
    }
    s->window_sum = 0;
    s->window_n   = 0;
}

static void report(const Likelihood *s, const EvalWindows *w, tblock_eval_report *out)
{
    double text_tokens = (double)(w->n - (w->opt->n_added < w->n ? w->opt->n_added : w->n));
    bool   any = s->nll.n > 0;
    double nll = any ? s->nll.mean : NAN;
    *out = (tblock_eval_report){
        .n_tokens = w->n,
        .n_scored = s->nll.n,
        .n_windows = w->n_windows,
        .stopped = w->stopped,
        .nll = nll,
        .nll_error = moments_error(&s->nll),
        .perplexity = math64_exp(nll),
        .recipe_perplexity =
            s->recipe_n > 0 ? math64_exp(s->recipe_sum / (double)s->recipe_n) : math64_exp(nll),
        .bits_per_byte =
            w->opt->n_bytes > 0 ? nll / math64_log(2) * text_tokens / (double)w->opt->n_bytes : NAN,
        .accuracy = any ? (double)s->right / (double)s->nll.n : NAN,
    };
    out->perplexity_error = out->perplexity * out->nll_error;
}

/* ---- One model ------------------------------------------------------------------------------- */

typedef struct TextRun { EvalWindows windows; Likelihood sums; } TextRun;

static void score_text(void *user, size_t token)
{
    TextRun      *r = user;
    int           n = r->windows.model[0]->model->weights.cfg.vocab_size;
    const double *row = r->windows.row[0];
    add_token(&r->sums, row, n, log_sum_exp(row, n), r->windows.tokens[token]);
}

static void end_text_window(void *user, size_t n_new)
{
    TextRun *r = user;
    end_window(&r->sums, n_new);
}

FP_ENV_WORK
static bool eval_text(TextRun *r, tblock_eval_report *out, Error *err)
{
    bool ok = eval_windows_run(&r->windows, err);
    if (ok)
        report(&r->sums, &r->windows, out);
    return ok;
}

bool tblock_eval_text(tblock_context *c, const int32_t *tokens, size_t n,
                      const tblock_eval_options *opt, tblock_eval_report *out, tblock_error *err)
{
    NEED(false, err, c, tokens || !n, out);
    TextRun r = { .windows = { .model = { c },
                               .tokens = tokens,
                               .n = n,
                               .opt = opt,
                               .score = score_text,
                               .end_window = end_text_window } };
    r.windows.user = &r;
    *out    = (tblock_eval_report){0};
    HOST_ENV_RETURN(bool, eval_text(&r, out, err));
}

/* ---- A model and its reference --------------------------------------------------------------- */

typedef struct AgainstRun {
    EvalWindows windows;
    Likelihood  sums[EVAL_MODELS];
    Moments     kl, log_ratio;
    double      squares;               /* of differences of the right token's probability */
    double     *each;                  /* [n] KL divergences, for the percentiles         */
    size_t      same1, same5, max_at;
    double      max;
} AgainstRun;

static void score_against(void *user, size_t token)
{
    AgainstRun   *r = user;
    int n = r->windows.model[0]->model->weights.cfg.vocab_size, top[EVAL_MODELS][TOP_MOST],
        n_top[EVAL_MODELS];
    const double *ours = r->windows.row[0], *parent = r->windows.row[1];
    double        lse[EVAL_MODELS], nll[EVAL_MODELS];
    for (int m = 0; m < EVAL_MODELS; m++) {
        lse[m]   = log_sum_exp(r->windows.row[m], n);
        nll[m]   = add_token(&r->sums[m], r->windows.row[m], n, lse[m], r->windows.tokens[token]);
        n_top[m] = top_tokens(r->windows.row[m], n, TOP_MOST, top[m]);
    }
    double kl = kl_divergence(parent, lse[1], ours, lse[0], n),
           apart = math64_exp(-nll[0]) - math64_exp(-nll[1]);
    r->each[r->kl.n] = kl;
    moments_add(&r->kl, kl);
    moments_add(&r->log_ratio, nll[0] - nll[1]);
    r->squares += apart * apart;
    r->same1   += n_top[0] > 0 && n_top[1] > 0 && top[0][0] == top[1][0];
    /* rows of NaN alone have none */
    r->same5   += n_top[0] > 0 && same_tokens(top[0], n_top[0], top[1], n_top[1]);
    if (r->kl.n == 1 || kl > r->max) {
        r->max    = kl;
        r->max_at = token;
    }
}

static void end_against_window(void *user, size_t n_new)
{
    AgainstRun *r = user;
    for (int m = 0; m < EVAL_MODELS; m++)
        end_window(&r->sums[m], n_new);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y); /* NaN last */
}

/* The value below which a share of n sorted ones are, interpolated between two of them. */
static double percentile(const double *sorted, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i  = (size_t)at;
    return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static void report_against(AgainstRun *r, tblock_against_report *out)
{
    static const double shares[] = {0.5, 0.9, 0.95, 0.99, 0.999, 0};
    size_t n = r->kl.n;
    for (int m = 0; m < EVAL_MODELS; m++)
        report(&r->sums[m], &r->windows, m == 0 ? &out->ours : &out->parent);
    if (n == 0) {
        out->mean_kl = out->max_kl = out->top1 = out->top5 = out->log_ratio = out->rms_probability =
            NAN;
        return;
    }
    double top1 = (double)r->same1 / (double)n;
    qsort(r->each, n, sizeof *r->each, ascending);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        out->percentile[i] = percentile(r->each, n, shares[i]);
    out->mean_kl         = r->kl.mean;
    out->mean_kl_error   = moments_error(&r->kl);
    out->max_kl          = r->max;
    out->max_kl_at       = (int64_t)r->max_at;
    out->top1            = top1;
    out->top1_error      = n > 1 ? sqrt(top1 * (1 - top1) / (double)(n - 1)) : NAN;
    out->top5            = (double)r->same5 / (double)n;
    out->log_ratio       = r->log_ratio.mean;
    out->log_ratio_error = moments_error(&r->log_ratio);
    out->rms_probability = sqrt(r->squares / (double)n);
}

FP_ENV_WORK
static bool eval_against(AgainstRun *r, tblock_against_report *out, Error *err)
{
    size_t bytes;
    if (!mul_size(r->windows.n + 1, sizeof *r->each, &bytes) || !(r->each = malloc(bytes)))
        return fail(err, SYSTEM, "out of memory: %zu tokens", r->windows.n);
    bool ok = eval_windows_run(&r->windows, err);
    if (ok)
        report_against(r, out);
    free(r->each);
    return ok;
}

bool tblock_eval_against(tblock_context *c, tblock_context *parent, const int32_t *tokens, size_t n,
                         const tblock_eval_options *opt, tblock_against_report *out,
                         tblock_error *err)
{
    NEED(false, err, c, parent, tokens || !n, out);
    AgainstRun r = { .windows = { .model = { c, parent },
                                  .tokens = tokens,
                                  .n = n,
                                  .opt = opt,
                                  .score = score_against,
                                  .end_window = end_against_window } };
    r.windows.user = &r;
    *out    = (tblock_against_report){.max_kl_at = -1};
    HOST_ENV_RETURN(bool, eval_against(&r, out, err));
}
