/* api/audit.c: is the output of another engine plausible for this model (docs/audit.md)? */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reread.h"
#include "base/fp_env.h"
#include "base/sampling.h"
#include "base/threads.h"

/* The limits of an honest text, with margin: chosen by bench/audit/audit.py (docs/audit.md has its
 * figures). A sum over n tokens may be at most spare + n * each; one token adds at most `most`. */
typedef struct Limit { double most, each, spare; } Limit;
static const Limit  limit_miss      = { 0.05, 0.0015, 0.1 };  /* with a shared seed */
static const Limit  limit_margin    = { 1, 0.0002, 0.05 };    /* temp 0, in logits */
static const Limit  limit_ruled_out = { 1, 0.01, 2 };
static const double limit_surprise  = 4;    /* standard deviations */
static const double limit_rarest    = 1e-4; /* probability that a text has such a token */
static const double limit_blind     = 0.01; /* that uniformly sampled ids pass as well */

typedef struct Auditing {
    Reread                   reread;
    const tblock_audit_text *text;    /* [reread.n] */
    tblock_audit_row        *row;     /* [reread.n] */
    int                      vocab_size;
    Sampler                **sampler; /* [n_threads] */
    int                      n_threads;
    ThreadPool              *pool;
    Error                   *why;     /* [REREAD_PIECE] of each job */
    atomic_size_t            job;     /* the next job */
} Auditing;

/* ---- A token --------------------------------------------------------------------------------- */

/* NaN counts as `most`. */
static double at_most(double x, double most) { return x < most ? x : most; }

/* The rank of an id by its logit, the largest first, and its distance from the largest. */
static void place(tblock_audit_token *t, const float *x, int n, float temp)
{
    const float own     = x[t->id];
    float       largest = own;
    t->rank             = 1;
    for (int i = 0; i < n; i++) {
        t->rank += x[i] > own || (x[i] == own && i < t->id);
        largest = x[i] > largest ? x[i] : largest;
    }
    t->margin = largest > own ? ((double)largest - (double)own) * (temp != 0 ? (double)temp : 1)
                              : 0;
    for (int i = 0; temp == 0 && i < n; i++)
        t->any.difference += at_most((double)largest - (double)x[i], limit_margin.most) / n;
    if (temp == 0)
        return;
    double all = 0, tail = 0;
    for (int i = 0; i < n && !isinf(largest); i++) {
        const double p = math64_exp((double)x[i] - (double)largest);
        all += p;
        tail += x[i] <= own ? p : 0;
    }
    t->tail = isinf(largest) ? (double)(own == largest) : tail / all;
}

/* The token's share of the candidates, and the mean and variance of a token's -ln p. n_all: the
 * size of the vocabulary. */
static void weigh(tblock_audit_token *t, const Candidate *c, int n, double total, int n_all)
{
    const double log_total = math64_log(total);
    double       square = 0, sum = 0, sum_square = 0;
    t->prob = t->entropy = 0;
    for (int i = 0; i < n; i++) {
        const double p   = (double)c[i].p / total;
        const double nat = log_total - (isinf(c[0].x) ? 0 : (double)c[i].x - (double)c[0].x);
        sum += nat;
        sum_square += nat * nat;
        t->entropy += p * nat;
        square += p * nat * nat;
        if (c[i].id == t->id) {
            t->prob     = p;
            t->surprise = nat;
        }
    }
    const double variance = square - t->entropy * t->entropy;
    t->deviation          = variance > 0 ? sqrt(variance) : 0;
    t->surprise           = t->prob > 0 ? t->surprise : INFINITY;
    t->any.possible       = (double)n / n_all;
    t->any.surprise       = (sum - n * t->entropy) / n_all;
    t->any.variance       = (sum_square - (2 * sum - n * t->entropy) * t->entropy) / n_all
        - t->any.surprise * t->any.surprise;
    t->any.least = log_total - t->entropy; /* of the likeliest */
}

/* How far is the random number outside the token's share? */
static void compare_sample(tblock_audit_token *t, const Candidate *c, int n, double total,
                           int n_all, double u)
{
    double before = 0, sum = (n_all - n) * limit_miss.most;
    t->miss     = 1;
    t->expected = candidates_sample(c, n, total, u);
    for (int i = 0; i < n; before += (double)c[i++].p) {
        double miss = before > u * total ? before / total - u
                                         : u - (before + (double)c[i].p) / total;
        miss = miss > 0 && c[i].id != t->expected ? miss : 0;
        sum += at_most(miss, limit_miss.most);
        t->miss = c[i].id == t->id ? miss : t->miss;
    }
    t->any.difference = sum / n_all;
}

static bool audit_token(const Auditing *a, Sampler *s, const Sampled *d, Error *err)
{
    const tblock_audit_text *text = &a->text[d->text];
    const Candidate         *c;
    double                   total;
    SamplerOptions           o = text->sampling;
    tblock_audit_token      *t = &a->row[d->text].tokens[d->index - text->n_given];
    o.n_given                  = text->n_given;
    *t =
        (tblock_audit_token){ .id = text->ids[d->index], .expected = -1, .miss = NAN, .tail = NAN };
    if (!sampler_set(s, &o, err))
        return false;
    const int n = sampler_candidates(s, d->logits, NULL, text->ids, d->index, &c, &total, err);
    if (n == 0)
        return false;
    place(t, sampler_adjusted(s), a->vocab_size, o.temp);
    weigh(t, c, n, total, a->vocab_size);
    if (o.temp == 0)
        t->expected = c[0].id;
    else if (text->seeded)
        compare_sample(t, c, n, total, a->vocab_size, sampler_uniform(o.seed, (uint32_t)d->index));
    return true;
}

/* ---- A text ---------------------------------------------------------------------------------- */

/* The probability that a normal variable is at least so many standard deviations from its mean, on
 * either side. Below 3 by the series of Phi, above by Laplace's continued fraction (Abramowitz and
 * Stegun 26.2.11 and 26.2.14). */
static double both_tails(double z)
{
    const double density = 0.3989422804014327 * math64_exp(-0.5 * z * z);
    if (z >= 3) {
        double f = z;
        for (int k = 60; k > 0; k--)
            f = z + k / f;
        return 2 * density / f;
    }
    double term = z, sum = z;
    for (int k = 1; k < 60; k++)
        sum += term *= z * z / (2 * k + 1);
    return 1 - 2 * density * sum;
}

/* The largest mean of n tokens. */
static double mean_limit(const Limit *l, size_t n) { return l->each + l->spare / (double)n; }

/* The sums over the tokens of a text. */
static void sum_up(tblock_audit_row *r, bool greedy)
{
    double surprise = 0, variance = 0, difference = 0, least = 1;
    for (size_t i = 0; i < r->n_drawn; i++) {
        const tblock_audit_token *t = &r->tokens[i];
        r->n_ruled_out += !(t->prob > 0);
        least = at_most(t->tail, least);
        r->n_other += t->expected >= 0 && t->expected != t->id;
        difference += greedy ? at_most(t->margin, limit_margin.most)
                             : at_most(t->miss, limit_miss.most);
        if (t->prob > 0) {
            surprise += t->surprise - t->entropy;
            variance += t->deviation * t->deviation;
        }
    }
    r->surprise   = variance > 0 ? surprise / sqrt(variance) : NAN;
    r->rarest     = at_most((double)r->n_drawn * least, 1);
    r->likelihood = variance > 0 ? both_tails(fabs(r->surprise)) : NAN;
    r->difference = difference / (double)r->n_drawn;
}

static void judge(tblock_audit_row *r, bool greedy)
{
    const size_t n     = r->n_drawn;
    const double mean  = mean_limit(greedy ? &limit_margin : &limit_miss, n);
    const double ruled = mean_limit(&limit_ruled_out, n) * (double)n;
    r->verdict         = TBLOCK_AUDIT_DIFFERS;
    if (!greedy && (double)r->n_ruled_out > ruled)
        snprintf(r->why, sizeof r->why,
                 "%zu of %zu tokens cannot come with these options (honest: at most %.0f)",
                 r->n_ruled_out, n, floor(ruled));
    else if (r->difference > mean)
        snprintf(r->why, sizeof r->why,
                 "%zu of %zu tokens are not those that %s; mean %s %.3g (honest: at most %.3g)",
                 r->n_other, n, greedy ? "are the most likely" : "the seed samples",
                 greedy ? "margin" : "miss", r->difference, mean);
    else if (r->rarest < limit_rarest)
        snprintf(r->why, sizeof r->why,
                 "one of %zu tokens is so unlikely that a text has such a one with probability "
                 "%.2g (honest: at least %.0e)", n, r->rarest, limit_rarest);
    else if (fabs(r->surprise) > limit_surprise)
        snprintf(r->why, sizeof r->why,
                 "its tokens are %s likely than sampling with these options makes them, by %.1f "
                 "standard deviations (honest: at most %.1f)",
                 r->surprise > 0 ? "less" : "more", fabs(r->surprise), limit_surprise);
    else
        r->verdict = TBLOCK_AUDIT_FITS;
}

/* An upper bound on the probability that the mean of n variables from 0 to 1, which is expected to
 * be `expected`, is at least `least`. Hoeffding 1963, theorem 1. */
static double hoeffding(double expected, double least, size_t n)
{
    if (!(least > expected))
        return 1;
    if (expected <= 0 || least > 1)
        return 0;
    const double rest = least < 1 ? (1 - least) * math64_log((1 - least) / (1 - expected)) : 0;
    return math64_exp(-(double)n * (least * math64_log(least / expected) + rest));
}

/* An upper bound on the probability that ids sampled uniformly from the vocabulary pass all tests
 * of judge: that of the test which they pass least often. The sum of surprises by Bernstein's
 * inequality (Boucheron, Lugosi, Massart 2013, corollary 2.11). */
static double blind(const tblock_audit_row *r, bool greedy, bool seeded)
{
    const double n   = (double)r->n_drawn;
    const Limit *l   = greedy ? &limit_margin : &limit_miss;
    double       p   = 1, variance = 0, below = 0;
    struct tblock_audit_any sum = { 0 };
    for (size_t i = 0; i < r->n_drawn; i++) {
        const tblock_audit_token *t = &r->tokens[i];
        sum.possible += t->any.possible;
        sum.difference += t->any.difference;
        sum.surprise += t->any.surprise;
        sum.variance += fmax(t->any.variance, 0);
        below = fmax(below, t->any.surprise - t->any.least);
        variance += t->deviation * t->deviation;
    }
    if (greedy || seeded)
        p = hoeffding(1 - sum.difference / n / l->most, 1 - mean_limit(l, r->n_drawn) / l->most,
                      r->n_drawn);
    if (greedy)
        return p;
    const double ruled = floor(mean_limit(&limit_ruled_out, r->n_drawn) * n);
    p = fmin(p, hoeffding(sum.possible / n, 1 - ruled / n, r->n_drawn));
    const double miss = sum.surprise - limit_surprise * sqrt(variance); /* how far from passing */
    return miss > 0 ? fmin(p, math64_exp(-miss * miss / 2 / (sum.variance + below * miss / 3))) : p;
}

static void settle(tblock_audit_row *r, const tblock_audit_text *t)
{
    const bool greedy = t->sampling.temp == 0;
    r->surprise = r->likelihood = r->difference = r->rarest = NAN;
    r->blind = 1;
    if (r->n_drawn == 0) {
        r->verdict = TBLOCK_AUDIT_NO_POWER;
        snprintf(r->why, sizeof r->why, "no power: expected sampled tokens, found none");
        return;
    }
    sum_up(r, greedy);
    r->blind = blind(r, greedy, t->seeded);
    if (!greedy && !t->seeded)
        r->difference = NAN;
    if (greedy)
        r->rarest = NAN;
    judge(r, greedy);
    if (r->verdict == TBLOCK_AUDIT_FITS && r->blind > limit_blind) {
        r->verdict = TBLOCK_AUDIT_NO_POWER;
        snprintf(r->why, sizeof r->why,
                 "no power: with these options and %zu tokens, ids drawn from all alike may fit "
                 "too, with probability %.2g (expected: at most %g)", r->n_drawn, r->blind,
                 limit_blind);
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void give_up(tblock_audit_row *r, const Error *why)
{
    r->verdict = TBLOCK_AUDIT_FAILED;
    snprintf(r->why, sizeof r->why, "%s", why->msg);
}

/* Does tblock run accept these options? As everywhere in the library, 0 turns top_p and
 * repeat_penalty off. */
static bool run_takes(const SamplerOptions *o, Error *err)
{
    static const char *const expected = "%s: expected a number from %g to %g, found %g";
    SAMPLING_EACH (row) {
        const double x = sampling_get(o, row);
        if (x != 0 && !(x >= (double)(float)row->least && x <= row->most))
            return fail(err, USAGE, expected, row->option, row->least, row->most, x);
    }
    const double range[] = { RANGE_BIAS };
    for (size_t i = 0; i < o->n_bias; i++)
        if (!(fabs((double)o->bias[i]) <= range[1]))
            return fail(err, USAGE, expected, "logit bias", range[0], range[1],
                        (double)o->bias[i]);
    return true;
}

static bool begin(void *user, size_t i, bool *wanted, Error *err)
{
    Auditing                *a   = user;
    const tblock_audit_text *t   = &a->text[i];
    tblock_audit_row        *r   = &a->row[i];
    Error                    why = { 0 };
    if (!t->n_given || t->n_given > t->n_ids)
        fail(&why, USAGE, "n_given: expected 1 to %zu, found %zu", t->n_ids, t->n_given);
    if (why.status || !reread_fits(a->reread.c, t->n_ids, &why)
        || !check_tokens("ids: ", t->ids, t->n_ids, a->vocab_size, &why)
        || !run_takes(&t->sampling, &why) || !sampler_set(a->sampler[0], &t->sampling, &why)) {
        give_up(r, &why);
        return true;
    }
    if (r->n_drawn == 0) {
        settle(&a->row[i], &a->text[i]);
        return true;
    }
    r->tokens = calloc(r->n_drawn, sizeof *r->tokens);
    *wanted   = r->tokens != NULL;
    return *wanted || no_memory("audit", err);
}

static void take_jobs(void *user, Team team)
{
    Auditing *a = user;
    for (size_t job; (job = atomic_fetch_add(&a->job, 1)) < a->reread.n_sampled;)
        audit_token(a, a->sampler[team.thread], &a->reread.sampled[job], &a->why[job]);
}

/* Positions are independent: the tokens before each are known. */
static bool audit_piece(void *user, Error *err)
{
    Auditing *a = user;
    (void)err;
    atomic_store(&a->job, 0);
    memset(a->why, 0, REREAD_PIECE * sizeof *a->why);
    threads_pool_run(a->pool, a->n_threads, take_jobs, a);
    for (size_t i = 0; i < a->reread.n_sampled; i++) {
        const size_t text = a->reread.sampled[i].text;
        if (!a->why[i].status || a->row[text].verdict)
            continue;
        give_up(&a->row[text], &a->why[i]);
        reread_stop(&a->reread, text);
    }
    return true;
}

static bool end(void *user, size_t i, const Error *why, Error *err)
{
    Auditing *a = user;
    if (why && why->status == SYSTEM)
        return fail(err, SYSTEM, "%s", why->msg);
    if (why && !a->row[i].verdict)
        give_up(&a->row[i], why);
    else if (!a->row[i].verdict)
        settle(&a->row[i], &a->text[i]);
    return true;
}

static bool audit_all(Auditing *a, Error *err)
{
    static const SamplerOptions greedy = { 0 };
    for (int i = 0; i < a->n_threads; i++)
        if (!(a->sampler[i] = sampler_new(a->vocab_size, &greedy, err)))
            return false;
    for (size_t i = 0; i < a->reread.n; i++) {
        const tblock_audit_text *t = &a->text[i];
        a->reread.text[i] = (RereadText){ .ids = t->ids, .n_ids = t->n_ids, .n_given = t->n_given };
    }
    return reread_all(&a->reread, err);
}

FP_ENV_WORK
static bool audit(tblock_context *c, const tblock_audit_text *texts, size_t n,
                  const tblock_audit_options *opt, tblock_audit_row *rows, Error *err)
{
    static const tblock_audit_options defaults = { 0 };
    Auditing a = { .text = texts, .row = rows, .vocab_size = c->model->weights.cfg.vocab_size,
                   .n_threads = c->threads };
    opt        = opt ? opt : &defaults;
    a.reread   = (Reread){ .c = c, .n = n, .progress = PROGRESS_OF(opt), .user = &a,
                           .begin = begin, .piece = audit_piece, .end = end };
    for (size_t i = 0; i < n; i++)
        rows[i] = (tblock_audit_row){ .n_given = texts[i].n_given,
                                      .n_drawn = texts[i].n_ids > texts[i].n_given
                                          ? texts[i].n_ids - texts[i].n_given : 0 };
    a.reread.text = calloc(n + 1, sizeof *a.reread.text);
    a.sampler     = calloc((size_t)a.n_threads, sizeof(Sampler *));
    a.why         = calloc(REREAD_PIECE, sizeof *a.why);
    a.pool        = threads_pool_new(a.n_threads, false);
    bool good     = (a.reread.text && a.sampler && a.why) || no_memory("audit", err);
    good          = good && audit_all(&a, err);
    for (int i = 0; a.sampler && i < a.n_threads; i++)
        sampler_free(a.sampler[i]);
    for (size_t i = 0; !good && i < n; i++) {
        free(rows[i].tokens);
        rows[i].tokens = NULL;
    }
    threads_pool_free(a.pool);
    free(a.sampler);
    free(a.reread.text);
    free(a.why);
    return good;
}

bool tblock_audit(tblock_context *c, const tblock_audit_text *texts, size_t n,
                  const tblock_audit_options *opt, tblock_audit_row *rows, tblock_error *err)
{
    NEED(false, err, c, texts || !n, rows || !n);
    HOST_ENV_RETURN(bool, audit(c, texts, n, opt, rows, err));
}

/* ---- For CI systems -------------------------------------------------------------------------- */

static void nth_case(const void *rows, size_t i, JunitRoom *room, JunitCase *c)
{
    const tblock_audit_row *row = (const tblock_audit_row *)rows + i;
    snprintf(room->name, sizeof room->name, "text %zu", i + 1);
    snprintf(room->out, sizeof room->out, "%zu tokens given, %zu drawn", row->n_given,
             row->n_drawn);
    *c = (JunitCase){ .name    = room->name,
                      .failure = row->verdict ? row->why : NULL,
                      .out     = room->out };
}

FP_ENV_WORK
static bool junit(const char *path, const tblock_audit_row *rows, size_t n, const Error *why,
                  Error *err)
{
    return junit_rows(path, "audit", rows, n, nth_case, why, err);
}

bool tblock_audit_junit(const char *path, const tblock_audit_row *rows, size_t n,
                        const tblock_error *why, tblock_error *err)
{
    NEED(false, err, path);
    HOST_ENV_RETURN(bool, junit(path, rows, n, why, err));
}
