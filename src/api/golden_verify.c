/* api/golden_verify.c: recompute the logits of a golden file and say how far they are. */
#include "api/api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/math64.h"

enum { PIECE = 128 };

/* One [PREFIX.]tokens with its logits. */
typedef struct Case {
    char          prefix[64];        /* "seq0." or "" */
    const Tensor *tokens, *logits, *logits_f32, *greedy;
} Case;

static double value_at(const Tensor *t, size_t i)
{
    const char *p = t->data; /* data of other writers need not be aligned */
    float       f;
    double      d;
    switch (t->dtype) {
    case DT_F64: memcpy(&d, p + 8 * i, 8); return d;
    default:     memcpy(&f, p + 4 * i, 4); return (double)f;
    }
}

static int64_t token_at(const Tensor *t, size_t i)
{
    int32_t a;
    int64_t b;
    if (t->dtype == DT_I32)
        return memcpy(&a, (const char *)t->data + 4 * i, 4), a;
    return memcpy(&b, (const char *)t->data + 8 * i, 8), b;
}

static const Tensor *sibling(const TensorFile *f, const char *prefix, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return tensor_find(f, full);
}

static bool is_tokens(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "tokens") == 0 || (n > 7 && strcmp(name + n - 7, ".tokens") == 0);
}

static bool check_ids(const TensorFile *f, const Tensor *t, int vocab, Error *err)
{
    if (t->rank != 1 || (t->dtype != DT_I32 && t->dtype != DT_I64))
        return fail(err, INPUT, "%s: tensor %s: expected I32 or I64 [n], found %s of rank %d", f->map.path, t->name,
                    dtype_name(t->dtype), t->rank);
    for (size_t i = 0; i < t->n_elements; i++)
        if (token_at(t, i) < 0 || token_at(t, i) >= vocab)
            return fail(err, INPUT, "%s: tensor %s: token %zu: expected 0 to %d, found %lld", f->map.path, t->name, i, vocab - 1,
                        (long long)token_at(t, i));
    return true;
}

static bool check_logits(const TensorFile *f, const Tensor *t, const Tensor *tokens, int vocab, Error *err)
{
    char    found[96];
    int64_t n = (int64_t)tokens->n_elements;
    if (t->rank != 2 || (t->dtype != DT_F32 && t->dtype != DT_F64) || (t->shape[0] != n && t->shape[0] != 1)
        || t->shape[1] != vocab)
        return fail(err, INPUT, "%s: tensor %s: expected F32 or F64 [%lld, %d] (or [1, %d]: the last position), found %s %s",
                    f->map.path, t->name, (long long)n, vocab, vocab, dtype_name(t->dtype),
                    tensor_shape_text(t, found, sizeof found));
    return true;
}

static bool read_case(Case *out, const TensorFile *f, const Tensor *tokens, const tblock_context *c, Error *err)
{
    int    vocab = c->model->weights.cfg.vocab_size;
    size_t n     = strlen(tokens->name) - strlen("tokens");
    if (n >= sizeof out->prefix)
        return fail(err, INPUT, "%s: tensor %s: the name is longer than %zu bytes", f->map.path, tokens->name, sizeof out->prefix);
    *out = (Case){.tokens = tokens};
    memcpy(out->prefix, tokens->name, n);
    out->logits     = sibling(f, out->prefix, "logits_f64");
    out->logits_f32 = sibling(f, out->prefix, "logits");
    out->greedy     = sibling(f, out->prefix, "greedy");
    if (!out->logits) {
        out->logits     = out->logits_f32;
        out->logits_f32 = NULL;
    }
    if (!out->logits)
        return fail(err, INPUT, "%s: tensor %s: expected %slogits_f64 or %slogits beside it, found neither", f->map.path,
                    tokens->name, out->prefix, out->prefix);
    if (tokens->n_elements == 0 || tokens->n_elements > (size_t)c->n_ctx)
        return fail(err, INPUT, "%s: tensor %s: expected 1 to %d tokens (the context), found %zu", f->map.path, tokens->name,
                    c->n_ctx, tokens->n_elements);
    return check_ids(f, tokens, vocab, err) && check_logits(f, out->logits, tokens, vocab, err)
           && (!out->logits_f32 || check_logits(f, out->logits_f32, tokens, vocab, err))
           && (!out->greedy || check_ids(f, out->greedy, vocab, err));
}

/* The default tolerance (docs/numerics.md): 8 times what an ordinary float32 run loses, where the golden shows it, at least
 * 4e-6 of the largest logit; 1e-4 of the largest logit where it does not. */
static double default_tolerance(const Case *cases, size_t n_cases)
{
    double largest = 0, lost = 0;
    bool   shown = true;
    for (size_t i = 0; i < n_cases; i++) {
        const Case *k = &cases[i];
        shown = shown && k->logits_f32;
        for (size_t j = 0; j < k->logits->n_elements; j++) {
            double v = value_at(k->logits, j);
            largest  = fmax(largest, fabs(v));
            if (k->logits_f32)
                lost = fmax(lost, fabs(v - value_at(k->logits_f32, j)));
        }
    }
    return shown ? fmax(8 * lost, 4e-6 * largest) : 1e-4 * largest;
}

static double log_sum_exp(const double *x, int n)
{
    double m = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    for (int i = 0; i < n; i++)
        sum += x[i] - m > -700 ? math64_exp(x[i] - m) : 0;
    return m + math64_log(sum);
}

/* Compare one position; golden and ours are [n]. Returns whether it is inside the tolerance (bit-equal with exact). */
static bool compare_position(tblock_verify_row *row, const double *golden, const double *ours, int n, double tol, bool exact)
{
    double worst = 0, kl = 0, lg = log_sum_exp(golden, n), lo = log_sum_exp(ours, n);
    int    best_golden = 0, best_ours = 0;
    bool   same = true;
    for (int i = 0; i < n; i++) {
        bool nan_g = isnan(golden[i]), nan_o = isnan(ours[i]);
        if (nan_g || nan_o) {
            same  = same && nan_g == nan_o;
            worst = nan_g == nan_o ? worst : NAN;
            continue;
        }
        same = same && f32_bits((float)golden[i]) == f32_bits((float)ours[i]);
        if (golden[i] != ours[i]) /* equal infinities have no difference */
            worst = isnan(worst) ? worst : fmax(worst, fabs(golden[i] - ours[i]));
        best_golden = golden[i] > golden[best_golden] ? i : best_golden;
        best_ours   = ours[i] > ours[best_ours] ? i : best_ours;
        if (golden[i] - lg > -700)
            kl += math64_exp(golden[i] - lg) * ((golden[i] - lg) - (ours[i] - lo));
    }
    row->max_abs = isnan(row->max_abs) || isnan(worst) ? NAN : fmax(row->max_abs, worst);
    row->mean_kl += kl;
    row->top1 += best_golden == best_ours;
    return exact ? same : worst <= tol;
}

static bool decode_ids(tblock_context *c, const Tensor *ids, size_t at, size_t n, bool all, Error *err)
{
    tblock_item item[PIECE];
    for (size_t i = 0; i < n; i++)
        item[i] = (tblock_item){0, (int32_t)(at + i), (int32_t)token_at(ids, at + i), all || at + i + 1 == ids->n_elements};
    return tblock_decode(c, item, n, err);
}

static bool run_case(tblock_context *c, const Case *k, double tol, bool exact, tblock_verify_row *row, Error *err)
{
    int     vocab = c->model->weights.cfg.vocab_size;
    size_t  n = k->tokens->n_elements, n_rows = (size_t)k->logits->shape[0];
    double *golden = malloc(2 * (size_t)vocab * sizeof *golden), *ours = golden + vocab;
    bool    ok = golden ? tblock_seq_rewind(c, 0, 0, err) : fail(err, SYSTEM, "out of memory");
    for (size_t at = 0; ok && at < n; at += PIECE) {
        size_t piece = n - at < PIECE ? n - at : PIECE;
        ok = decode_ids(c, k->tokens, at, piece, n_rows == n, err);
        for (size_t i = 0; ok && i < piece; i++) {
            const float *logits = tblock_logits(c, i);
            if (!logits)
                continue;
            for (int j = 0; j < vocab; j++) {
                golden[j] = value_at(k->logits, (n_rows == n ? at + i : 0) * (size_t)vocab + (size_t)j);
                ours[j]   = (double)logits[j];
            }
            if (!compare_position(row, golden, ours, vocab, tol, exact) && row->first_diff < 0)
                row->first_diff = (int64_t)(at + i);
        }
    }
    row->mean_kl /= (double)n_rows;
    row->top1 /= (double)n_rows;
    free(golden);
    return ok;
}

/* Continue greedily from the state that run_case left, and compare with the recorded continuation. */
static bool run_greedy(tblock_context *c, const Case *k, tblock_verify_row *row, Error *err)
{
    int          vocab  = c->model->weights.cfg.vocab_size;
    const float *logits = tblock_logits(c, (k->tokens->n_elements - 1) % PIECE);
    row->n_greedy       = k->greedy->n_elements;
    for (size_t i = 0; i < row->n_greedy; i++) {
        int best = 0;
        for (int j = 1; j < vocab; j++)
            best = logits[j] > logits[best] ? j : best;
        if (best != token_at(k->greedy, i)) {
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

static bool verify_cases(tblock_context *c, const Case *cases, const tblock_verify_options *opt, tblock_verify_report *out,
                         Error *err)
{
    for (size_t i = 0; i < out->n_rows; i++) {
        tblock_verify_row *row = &out->rows[i];
        const Case        *k   = &cases[i];
        *row = (tblock_verify_row){.n_tokens = k->tokens->n_elements, .first_diff = -1, .greedy_diff = -1};
        memcpy(row->name, k->prefix, sizeof row->name);
        if (*row->name)
            row->name[strlen(row->name) - 1] = 0; /* the dot */
        if (!run_case(c, k, out->tol, out->exact, row, err) || (opt->greedy && k->greedy && !run_greedy(c, k, row, err)))
            return false;
        row->ok = row->first_diff < 0 && row->greedy_diff < 0;
        out->ok = out->ok && row->ok;
    }
    return true;
}

/* A value of a file's metadata or of this run, short enough for a line: a hash by its first digits. */
static void spell_fact(const char *key, const char *value, char out[24])
{
    if (strcmp(key, "model_sha256") == 0)
        snprintf(out, 24, "%.12s", *value ? value : "(none)");
    else
        snprintf(out, 24, strlen(value) < 24 ? "%s" : "%.20s...", value);
}

/* In which of the facts that f records of its run this one is another; a file of another program records none. */
static bool compare_settings(const TensorFile *f, const tblock_context *c, char *out, size_t n_out, Error *err)
{
    RunFact     fact[RUN_FACTS];
    RunSettings settings = run_settings(c);
    const char *format   = tensor_meta(f, "format");
    size_t      at       = 0;
    if (!format || strcmp(format, "tblock-logits") != 0)
        return true;
    if (!run_facts(c->model, &settings, fact, err))
        return false;
    for (int i = 0; i < RUN_FACTS && at < n_out; i++) {
        const char *key = fact[i].key, *here = fact[i].value, *found = tensor_meta(f, key);
        char        was[24], is[24];
        if (!found || strcmp(found, here) == 0)
            continue;
        spell_fact(key, found, was), spell_fact(key, here, is);
        const char *comma = at ? ", " : "";
        if (strcmp(key, "config") == 0)
            at += (size_t)snprintf(out + at, n_out - at, "%sconfig", comma); /* a page of JSON */
        else
            at += (size_t)snprintf(out + at, n_out - at, "%s%s %s (here %s)", comma, key, was, is);
    }
    return true;
}

bool tblock_verify(tblock_context *c, const char *golden_path, const tblock_verify_options *opt, tblock_verify_report *out,
                   tblock_error *err)
{
    static const tblock_verify_options defaults = {0};
    TensorFile f     = {0};
    Case      *cases = NULL;
    *out             = (tblock_verify_report){.ok = true};
    if (!opt)
        opt = &defaults;
    bool ok = safetensors_open(&f, golden_path, err);
    for (int i = 0; ok && i < f.n_tensors; i++)
        out->n_rows += is_tokens(f.tensors[i].name);
    if (ok && out->n_rows == 0)
        ok = fail(err, INPUT, "%s: expected a tensor tokens or PREFIX.tokens, found none", golden_path);
    if (ok) {
        cases     = calloc(out->n_rows, sizeof *cases);
        out->rows = calloc(out->n_rows, sizeof *out->rows);
        if (!cases || !out->rows)
            ok = fail(err, SYSTEM, "out of memory");
    }
    for (int i = 0, n = 0; ok && i < f.n_tensors; i++)
        if (is_tokens(f.tensors[i].name))
            ok = read_case(&cases[n++], &f, &f.tensors[i], c, err);
    if (ok) {
        out->exact = opt->exact;
        out->tol   = opt->exact ? 0 : opt->has_tol ? opt->tol : default_tolerance(cases, out->n_rows);
        ok         = compare_settings(&f, c, out->settings, sizeof out->settings, err) && verify_cases(c, cases, opt, out, err);
    }
    if (!ok) {
        free(out->rows);
        *out = (tblock_verify_report){0};
    }
    free(cases);
    tensor_file_close(&f);
    tblock_seq_rewind(c, 0, 0, NULL);
    return ok;
}
