/* api/golden_verify.c: recomputes the logits of a golden file and reports how far they are, and
 * where the two runs diverge. */
#include "api/api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/golden.h"
#include "base/fp_env.h"
#include "base/progress.h"
#include "tblock_tools.h"

enum { PIECE = 128 };

/* The tolerances. */
typedef struct GoldenLimits {
    double tol, share;               /* of a logit; of the largest value of a hidden state */
    bool   exact;
} GoldenLimits;

/* The magnitude of a golden's logits, without masks. */
typedef struct Scale { double largest, lost; } Scale; /* the largest |logit|; the largest difference
                                                       * between f64 and f32 */

enum { MASKED = 700 }; /* a token so far below the largest logit of its position has no probability:
                        * a mask */

static void scan_row(Scale *s, const GoldenCase *k, size_t from, size_t n)
{
    double top = -INFINITY;
    for (size_t j = from; j < from + n; j++) {
        double v = golden_value(k->logits, j);
        top = golden_is_ordinary(v) ? fmax(top, v) : top;
    }
    for (size_t j = from; j < from + n; j++) {
        double v = golden_value(k->logits, j),
               f32 = k->logits_f32 ? golden_value(k->logits_f32, j) : v;
        if (!golden_is_ordinary(v) || v < top - MASKED)
            continue;
        s->largest = fmax(s->largest, fabs(v));
        s->lost    = golden_is_ordinary(f32) ? fmax(s->lost, fabs(v - f32)) : s->lost;
    }
}

/* The default tolerance (docs/numerics.md): 8 times the error of an ordinary float32 run if the
 * golden shows it, at least 4e-6 of the largest logit; else 1e-4 of the largest logit. Plus the
 * rounding of a stored F16 or BF16. */
static GoldenLimits choose_rule(const GoldenFile *g, const tblock_verify_options *opt)
{
    Scale  all = {0};
    double rounding = 0;
    bool   shown = true;
    for (size_t i = 0; i < g->n_cases; i++) {
        const GoldenCase *k = &g->cases[i];
        Scale             s = {0};
        if (!k->logits)
            continue;
        for (size_t row = 0, n = k->logits->n_elements / k->n_rows; row < k->n_rows; row++)
            scan_row(&s, k, row * n, n);
        shown       = shown && k->logits_f32 && k->logits_f32->dtype == DT_F32;
        rounding    = fmax(rounding, golden_rounding(k->logits, s.largest));
        all.largest = fmax(all.largest, s.largest);
        all.lost    = fmax(all.lost, s.lost);
    }
    double usual = shown ? fmax(8 * all.lost, 4e-6 * all.largest) : 1e-4 * all.largest,
           asked = opt->has_tol ? opt->tol : usual;
    const bool exact = opt->exact || golden_is_digest(g);
    return (GoldenLimits){.tol   = exact ? 0 : opt->has_tol ? opt->tol : usual + rounding,
                          .share = exact ? -1 : all.largest > 0 ? asked / all.largest : 0,
                          .exact = exact};
}

/* ---- One case -------------------------------------------------------------------------------- */

/* The two rows of a position. */
typedef struct RowPair { double *golden, *ours; int n; } RowPair;

static void compare_distributions(tblock_verify_row *row, const RowPair *r)
{
    int    top_golden[TOP_MOST], top_ours[TOP_MOST];
    int    n_golden = top_tokens(r->golden, r->n, TOP_MOST, top_golden),
        n_ours = top_tokens(r->ours, r->n, TOP_MOST, top_ours);
    double kl = kl_divergence(r->golden, log_sum_exp(r->golden, r->n), r->ours,
                              log_sum_exp(r->ours, r->n), r->n);
    row->mean_kl += kl;
    row->max_kl   = isnan(kl) || isnan(row->max_kl) ? NAN : fmax(row->max_kl, kl);
    /* two rows of NaN alone agree, here as in the top five */
    row->top1    += same_tokens(top_golden, n_golden > 0, top_ours, n_ours > 0);
    row->top5    += same_tokens(top_golden, n_golden, top_ours, n_ours);
}

static bool decode_ids(tblock_context *c, const Tensor *ids, size_t at, size_t n, bool all,
                       Error *err)
{
    tblock_item item[PIECE];
    for (size_t i = 0; i < n; i++)
        item[i] = (tblock_item){ 0, (int32_t)(at + i), (int32_t)golden_token(ids, at + i),
                                 all || at + i + 1 == ids->n_elements };
    return tblock_decode(c, item, n, err);
}

/* Compare the logits of tokens at .. at + n, just decoded, as far as the golden has them. */
static void compare_piece(tblock_context *c, const GoldenCase *k, const GoldenLimits *rule,
                          const RowPair *rows, size_t at, size_t n, tblock_verify_row *row)
{
    for (size_t i = 0; i < n; i++) {
        const float *logits = tblock_logits(c, i);
        size_t       from   = (k->n_rows > 1 ? at + i : 0) * (size_t)rows->n;
        if (!logits)
            continue;
        if (!k->logits) {
            if (!golden_digest_same(k, k->n_rows > 1 ? at + i : 0, logits, rows->ours, rows->n, row)
                && row->first_diff < 0)
                row->first_diff = (int64_t)(at + i);
            continue;
        }
        GoldenApart apart = GOLDEN_SAME;
        widen_row(rows->ours, logits, rows->n);
        for (int j = 0; j < rows->n; j++) {
            rows->golden[j] = golden_value(k->logits, from + (size_t)j);
            golden_compare(&apart, rows->golden[j], rows->ours[j]);
        }
        if (!golden_within(&apart, rule->exact ? -1 : rule->tol, &row->max_abs)
            && row->first_diff < 0)
            row->first_diff = (int64_t)(at + i);
        compare_distributions(row, rows);
    }
}

static bool run_case(tblock_context *c, const GoldenCase *k, const GoldenLimits *rule,
                     HiddenRun *hidden, const Progress *progress, tblock_verify_row *row,
                     Error *err)
{
    RowPair rows = {.n = c->model->weights.cfg.vocab_size};
    size_t n = k->tokens->n_elements;
    rows.golden = malloc(2 * (size_t)rows.n * sizeof *rows.golden);
    rows.ours   = rows.golden + rows.n;
    bool ok = rows.golden ? tblock_seq_rewind(c, 0, 0, err) : no_memory(NULL, err);
    tblock_observe(c, hidden->n_recorded ? hidden_observe : NULL, hidden);
    for (size_t at = 0; ok && at < n; at += PIECE) {
        size_t piece = n - at < PIECE ? n - at : PIECE;
        hidden->at = at;
        ok = decode_ids(c, k->tokens, at, piece, k->n_rows == n, err);
        if (ok)
            compare_piece(c, k, rule, &rows, at, piece, row);
        ok = ok && progress_tell(progress, (double)(at + piece), (double)n, err);
    }
    tblock_observe(c, NULL, NULL);
    row->mean_kl /= (double)k->n_rows;
    row->top1    /= (double)k->n_rows;
    row->top5    /= (double)k->n_rows;
    free(rows.golden);
    return ok;
}

/* Continue greedily from the state after run_case, and compare with the recorded continuation. */
static bool run_greedy(tblock_context *c, const GoldenCase *k, tblock_verify_row *row, Error *err)
{
    int          vocab  = c->model->weights.cfg.vocab_size;
    const float *logits = tblock_logits(c, (k->tokens->n_elements - 1) % PIECE);
    row->n_greedy       = k->greedy->n_elements;
    for (size_t i = 0; i < row->n_greedy; i++) {
        int best = 0;
        for (int j = 1; j < vocab; j++)
            best = logits[j] > logits[best] ? j : best;
        if (best != golden_token(k->greedy, i)) {
            row->greedy_diff = (int64_t)i;
            return true;
        }
        tblock_item item = {0, (int32_t)(k->tokens->n_elements + i), best, true};
        if (i + 1 == row->n_greedy)
            return true;
        if (!tblock_decode(c, &item, 1, err))
            return false;
        logits = tblock_logits(c, 0);
    }
    return true;
}

/* Notes in the row where the runs diverge; returns whether the hidden states forbid an "ok". */
static bool note_hidden(const HiddenRun *h, const GoldenLimits *rule, tblock_verify_row *row)
{
    const HiddenStage *s = hidden_parted(h, row->parted, &row->parted_layer);
    row->n_hidden   = h->n_recorded;
    row->parted_pos = s ? s->first : -1;
    row->parted_abs = s ? s->worst : 0;
    if (!s && h->n_recorded && row->first_diff >= 0) {
        snprintf(row->parted, sizeof row->parted, "the head");
        row->parted_pos = row->first_diff;
        row->parted_abs = row->max_abs;
    }
    return s && rule->exact;
}

static bool verify_case(tblock_context *c, const GoldenFile *g, const GoldenCase *k,
                        const GoldenLimits *rule, bool greedy, const Progress *progress,
                        tblock_verify_row *row, Error *err)
{
    HiddenRun hidden = {0};
    *row = (tblock_verify_row){ .n_tokens = k->tokens->n_elements,
                                .first_diff = -1,
                                .greedy_diff = -1 };
    memcpy(row->name, k->prefix, sizeof row->name);
    if (*row->name)
        row->name[strlen(row->name) - 1] = 0; /* the dot */
    bool ok = hidden_open(&hidden, g, k, c, rule->share, err)
        && run_case(c, k, rule, &hidden, progress, row, err)
        && (!greedy || !k->greedy || run_greedy(c, k, row, err));
    if (ok) {
        bool forbidden = note_hidden(&hidden, rule, row);
        row->ok = row->first_diff < 0 && row->greedy_diff < 0 && !forbidden;
    }
    hidden_close(&hidden);
    return ok;
}

/* ---- The settings ---------------------------------------------------------------------------- */

/* What of a run is its model's, which golden_compare_model compares. */
static bool is_of_model(const char *key)
{
    return strstr(key, "sha256") || strcmp(key, "config") == 0;
}

enum { SETTINGS = 512 };

/* Which recorded facts of its run differ from this one; a file of another program records none.
 * run: those of them that are not the model's. */
static bool compare_settings(const GoldenFile *g, const tblock_context *c,
                             tblock_verify_report *report, char run[SETTINGS], Error *err)
{
    char       *out = report->settings;
    RunFact     fact[RUN_FACTS];
    RunSettings settings = run_settings(c, context_loaded_as(c, -1));
    size_t      at = 0, n_out = sizeof report->settings, at_run = 0;
    run[0] = '\0';
    if (!golden_is_ours(g))
        return true;
    if (!run_facts(c->model, &settings, fact, err))
        return false;
    report->recorded = true;
    for (int i = 0; i < RUN_FACTS && at < n_out; i++) {
        const char *key = fact[i].key, *here = fact[i].value, *found = golden_meta(g, key);
        if (!here)
            continue;
        report->recorded = report->recorded && (found || run_fact_is_new(key));
        if (found && strcmp(found, here) != 0)
            at = run_fact_differs(out, n_out, at, key, found, here);
        if (found && strcmp(found, here) != 0 && !is_of_model(key))
            at_run = run_fact_differs(run, SETTINGS, at_run, key, found, here);
    }
    return true;
}

/* ---- The cause ------------------------------------------------------------------------------- */

/* Do the logits or states of a row differ from the recorded ones, if only by a bit? */
static bool row_differs(const tblock_verify_row *r)
{
    return r->max_abs != 0 || r->first_diff >= 0 || r->greedy_diff >= 0 || r->parted[0];
}

static bool model_differs(const tblock_verify_report *r)
{
    return r->config_diff[0] || r->tensor_diff[0] || r->tokenizer_diff[0] || r->template_diff[0];
}

/* The most likely cause, and what else differs. Ids are recorded, so that no tokenizer and no
 * template changes logits: if these differ, settings come first. run: those of the run. */
static void name_cause(tblock_verify_report *out, const char *run)
{
    bool logits = false;
    for (size_t i = 0; i < out->n_rows; i++)
        logits = logits || row_differs(&out->rows[i]);
    /* the last keys of a config (config_keys.c), which no logit depends on either */
    const bool        ids = strncmp(out->config_diff, "bos: ", 5) == 0
                  || strncmp(out->config_diff, "eos: ", 5) == 0;
    const char *const all[][2] = {
        { "config", ids ? "" : out->config_diff }, { "tensor", out->tensor_diff },
        { "settings", logits ? run : "" },         { "config", ids ? out->config_diff : "" },
        { "tokenizer", out->tokenizer_diff },      { "template", out->template_diff },
    };
    size_t at = 0, n = sizeof out->cause, named = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && at < n; i++) {
        const char *name = all[i][0], *text = all[i][1];
        if (text[0])
            at += (size_t)snprintf(out->cause + at, n - at, "%s%s%s%s",
                                   named == 0 ? "" : named == 1 ? "; also: " : ", ", name,
                                   named == 0 ? ": " : "", named == 0 ? text : "");
        named += text[0] != 0;
    }
}

/* ---- The file -------------------------------------------------------------------------------- */

FP_ENV_WORK
static bool verify(tblock_context *c, const GoldenFile *g, const tblock_verify_options *opt,
                   tblock_verify_report *out, Error *err)
{
    GoldenLimits rule = choose_rule(g, opt);
    char         run[SETTINGS];
    out->exact  = rule.exact;
    out->tol    = rule.tol;
    out->n_rows = g->n_cases;
    out->rows   = calloc(out->n_rows, sizeof *out->rows);
    if (!out->rows)
        return no_memory(NULL, err);
    out->hash_checked = !opt->trust_hash;
    out->model_known  = g->prints.n > 0;
    out->digest       = golden_is_digest(g);
    if ((out->hash_checked && !model_check_hash(c->model, err))
        || !compare_settings(g, c, out, run, err))
        return false;
    double   done = 0, all = 0; /* tokens */
    Progress whole = PROGRESS_OF(opt);
    for (size_t i = 0; i < g->n_cases; i++)
        all += (double)g->cases[i].tokens->n_elements;
    for (size_t i = 0; i < out->n_rows; i++) {
        double   end  = done + (double)g->cases[i].tokens->n_elements;
        Progress part = progress_part(&whole, done / all, end / all);
        done = end;
        if (!verify_case(c, g, &g->cases[i], &rule, opt->greedy, &part, &out->rows[i], err))
            return false;
        out->ok = out->ok && out->rows[i].ok;
    }
    const bool strict = out->model_known && !opt->logits_only && !opt->has_tol;
    if ((strict || !out->ok) && !golden_compare_model(g, c, out, err))
        return false;
    if (strict || !out->ok)
        name_cause(out, run);
    /* the same model, whatever its hash is in another format; see compare_tensors for the second */
    if (strict && !model_differs(out) && !strstr(run, "loaded_as"))
        memcpy(out->settings, run, sizeof run);
    for (size_t i = 0; strict && i < out->n_rows; i++)
        out->rows[i].ok = out->rows[i].ok && !out->cause[0];
    out->ok = out->ok && !(strict && out->cause[0]);
    if (!out->ok)
        golden_advise(g, c, out);
    return true;
}

FP_ENV_WORK
static bool check_tolerance(const tblock_verify_options *opt, Error *err)
{
    return !opt->has_tol || opt->tol >= 0 ? true : fail(err, USAGE,
            "tol: expected a number of at least 0, found %g", opt->tol);
}

static bool check_digest(const GoldenFile *g, const tblock_verify_options *opt, Error *err)
{
    return !opt->has_tol || !golden_is_digest(g)
        || fail(err, USAGE, "%s: tol: expected logits, found hashes of them, which are equal or "
                            "not", g->path);
}

bool tblock_verify(tblock_context *c, const char *golden_path, const tblock_verify_options *opt,
                   tblock_verify_report *out, tblock_error *err)
{
    NEED(false, err, c, golden_path, out);
    static const tblock_verify_options defaults = {0};
    GoldenFile      g          = {0};
    tblock_observer saved      = c->observer;
    void           *saved_user = c->observer_user;
    HostEnv host;
    host_env_enter(&host);
    *out    = (tblock_verify_report){.ok = true};
    opt     = opt ? opt : &defaults;
    bool ok = check_tolerance(opt, err)
        && golden_open(&g, golden_path, opt->tokens, opt->greedy, c, err)
        && check_digest(&g, opt, err)
        && golden_prints_read(&g, err)
        && golden_digests_read(&g, c->model->weights.cfg.vocab_size, err)
        && verify(c, &g, opt, out, err);
    if (!ok) {
        free(out->rows);
        *out = (tblock_verify_report){0};
    }
    golden_close(&g);
    tblock_observe(c, saved, saved_user);
    tblock_seq_rewind(c, 0, 0, NULL);
    host_env_leave(&host);
    return ok;
}
