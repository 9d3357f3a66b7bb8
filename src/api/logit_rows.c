/* api/logit_rows.c: sums over the logits of one position. */
#include "api/api.h"

#include <math.h>
#include <stdlib.h>

#include "base/fp_env.h"
#include "base/number.h"
#include "tblock_tools.h"

enum { LEAST_EXPONENT = -700 }; /* e^-700 is nothing beside 1 */

double log_sum_exp(const double *x, int n)
{
    double m = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(x[i]))
            return NAN;
        m = x[i] > m ? x[i] : m;
    }
    if (isinf(m)) /* x - m would be NaN */
        return m;
    for (int i = 0; i < n; i++)
        sum += x[i] - m > LEAST_EXPONENT ? math64_exp(x[i] - m) : 0;
    return m + math64_log(sum);
}

double kl_divergence(const double *x_p, double lp, const double *x_q, double lq, int n)
{
    double kl = 0;
    if (!isfinite(lp) || !isfinite(lq))
        return NAN;
    for (int i = 0; i < n; i++)
        if (x_p[i] - lp > LEAST_EXPONENT)
            kl += math64_exp(x_p[i] - lp) * ((x_p[i] - lp) - (x_q[i] - lq));
    return kl > 0 || isnan(kl) ? kl : 0; /* equal rows may sum to -1e-17 */
}

int top_tokens(const double *x, int n, int k, int32_t *id)
{
    int found = 0;
    for (int i = 0; k > 0 && i < n; i++) {
        if (isnan(x[i]) || (found == k && x[i] <= x[id[k - 1]]))
            continue;
        int at = found < k ? found++ : k - 1;
        for (; at > 0 && x[i] > x[id[at - 1]]; at--)
            id[at] = id[at - 1];
        id[at] = i;
    }
    return found;
}

bool same_tokens(const int *a, int n_a, const int *b, int n_b)
{
    if (n_a != n_b)
        return false;
    for (int i = 0; i < n_a; i++) {
        int j = 0;
        while (j < n_b && b[j] != a[i])
            j++;
        if (j == n_b)
            return false;
    }
    return true;
}

void widen_row(double *out, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = (double)x[i];
}

bool eval_row(const tblock_context *c, size_t i, double *out, Error *err)
{
    const int n = c->model->weights.cfg.vocab_size;
    double    m = -INFINITY;
    widen_row(out, tblock_logits(c, i), n);
    for (int j = 0; j < n; j++)
        m = out[j] > m || isnan(out[j]) ? out[j] : m;
    return !isinf(m) || c->allow_nan
        || fail(err, INPUT, "%s: the logits after position %d: expected a finite largest one, "
                            "found %sinf: no token has a probability",
                c->model->source.path, c->token[i].pos, m < 0 ? "-" : "+");
}

void moments_add(Moments *m, double x)
{
    double before = x - m->mean;
    m->n++;
    m->mean += before / (double)m->n;
    m->m2   += before * (x - m->mean);
}

double moments_error(const Moments *m)
{
    return m->n < 2 ? NAN : sqrt(m->m2 / (double)(m->n - 1) / (double)m->n);
}

FP_ENV_WORK
static bool log_probs(const float *logits, int vocab_size, int32_t token, double *log_prob,
                      int32_t *top, double *top_log_prob, size_t n_top, Error *err)
{
    double *row = NULL;
    if (token < 0 || token >= vocab_size)
        return fail(err, USAGE, "token: expected 0 to %d, found %d", vocab_size - 1, token);
    if (n_top > (size_t)vocab_size)
        return fail(err, USAGE, "n_top: expected at most %d, found %zu", vocab_size, n_top);
    if (!(row = malloc((size_t)vocab_size * sizeof *row)))
        return no_memory(NULL, err);
    widen_row(row, logits, vocab_size);
    const double lse = log_sum_exp(row, vocab_size);
    int          n   = top_tokens(row, vocab_size, (int)n_top, top);
    *log_prob        = row[token] - lse;
    for (int i = 0; i < (int)n_top; i++) {
        top[i]          = i < n ? top[i] : 0; /* if there are fewer that are not NaN */
        top_log_prob[i] = i < n ? row[top[i]] - lse : (double)NAN;
    }
    free(row);
    return true;
}

bool tblock_log_probs(const float *logits, int vocab_size, int32_t token, double *log_prob,
                      int32_t *top, double *top_log_prob, size_t n_top, tblock_error *err)
{
    NEED(false, err, logits, log_prob, top || !n_top, top_log_prob || !n_top);
    HOST_ENV_RETURN(bool, log_probs(logits, vocab_size, token, log_prob, top, top_log_prob, n_top,
                                    err));
}
