/* api/receipt_verify.c: verifies receipts: each is replayed as one text, in chunks, whose logits
 * give the links of its chain and the sampled tokens. After each chunk, threads rehash the logits
 * and resample the tokens: two jobs per receipt. */
#include "api/receipt.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls.h"
#include "api/reread.h"
#include "base/fp_env.h"
#include "base/progress.h"
#include "base/threads.h"

typedef struct Checking {
    const tblock_receipt *r;
    tblock_receipt_row   *row;
    RereadText           *text;
    struct Batch         *batch;
    /* of the chain: */
    Digest                link;
    int64_t               closed; /* position after the last link that was compared */
    /* of the sampling: */
    Fitting               fit;
    bool                  failed;
    int64_t               failed_at; /* position; INT64_MAX: none */
    Error                 why;
} Checking;

/* A thread's tools for sampling and hashing. */
typedef struct Tools { Sampler *sampler; Sha256 *sha; } Tools;

typedef struct Batch {
    Reread              reread;
    Checking           *k;      /* [reread.n] */
    int                 vocab_size;
    const tblock_receipt_verify_options *opt;
    ThreadPool         *pool;
    Tools              *tools;  /* [n_tools] */
    int                 n_tools;
    atomic_size_t       job;    /* the next job */
} Batch;

static void say(tblock_receipt_row *row, int verdict, const char *text)
{
    row->verdict = verdict;
    snprintf(row->why, sizeof row->why, "%s", text);
}

/* ---- Before anything is computed ------------------------------------------------------------- */

/* NULL: the run has no such fact. */
static bool same_fact(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *fact_text(const char *fact) { return fact ? fact : "none"; }

/* Is it a receipt of this model and run? */
static bool check_facts(const tblock_receipt *r, const tblock_context *c, tblock_receipt_row *row,
                        Error *err)
{
    RunBinding here;
    char       hex[65];
    size_t     at = 0;
    if (!receipt_facts(c, context_loaded_as(c, -1), &here, hex, err))
        return false;
    for (int i = 0; i < RECEIPT_FACTS; i++)
        if ((i != TOKENIZER_FACT || r->version > 1)
            && !same_fact(r->fact[i], here.fact[i].value)) {
            row->verdict = TBLOCK_RECEIPT_OTHER;
            at = run_fact_differs(row->why, sizeof row->why, at, here.fact[i].key,
                                  fact_text(r->fact[i]), fact_text(here.fact[i].value));
        }
    return true;
}

/* Do its hashes match its fields, as far as that can be checked before anything is computed? */
static bool check_head(const tblock_receipt *r, const tblock_context *c, tblock_receipt_row *row,
                       Error *err)
{
    const Tokenizer *t = c->model->tokenizer;
    Digest           begin, root, text = r->text_hash;
    if (!check_facts(r, c, row, err))
        return false;
    if (row->verdict)
        return true;
    if (!receipt_begin(r, &begin, err) || !receipt_root(r, &root, err)
        || (t && r->has_text && !receipt_text(r, t, &text, err)))
        return false;
    if (memcmp(&begin, &r->begin, sizeof begin) != 0)
        say(row, TBLOCK_RECEIPT_CHANGED,
            "begin: it is not of the fields before it: one of them was changed after the receipt "
            "was made");
    else if (memcmp(&root, &r->root, sizeof root) != 0)
        say(row, TBLOCK_RECEIPT_CHANGED,
            r->version > 1 ? "root: it is not of the blocks"
                           : "end: expected that of begin, where no token was sampled");
    else if (r->n_ids == r->n_given)
        say(row, TBLOCK_RECEIPT_NOTHING, "no token was sampled, so it says nothing of the model");
    else if (r->version > 1 && (r->has_text != (t != NULL)
                                || memcmp(&text, &r->text_hash, sizeof text) != 0))
        say(row, TBLOCK_RECEIPT_TEXT, "text_sha256: it is not of the text of the sampled ids");
    return true;
}

/* Can it be computed in this context? */
static bool check_size(const tblock_receipt *r, const tblock_context *c, Error *why)
{
    const int vocab = c->model->weights.cfg.vocab_size;
    return reread_fits(c, r->n_ids, why)
        && check_tokens("ids: ", r->ids, r->n_ids, vocab, why)
        && check_tokens("stop_ids: ", r->stop_ids, r->sampling.n_end_ids, vocab, why);
}

/* ---- Token by token -------------------------------------------------------------------------- */

/* The token sampled from these logits at this position; -1: the text has ended before. */
static bool sample_again(Checking *k, Sampler *s, const Sampled *d, int32_t *id)
{
    const tblock_receipt *r = k->r;
    if (r->kind && !fitting_allow(&k->fit, &k->why))
        return false;
    if (r->kind
        && (!k->fit.n_texts
            || (d->index > r->n_given && sampler_ends(&r->sampling, r->ids[d->index - 1])))) {
        *id = -1;
        return true;
    }
    return sampler_set(s, &r->sampling, &k->why)
        && sampler_next(s, d->logits, r->kind ? k->fit.allowed : NULL, r->ids, d->index,
                        (uint32_t)d->index, id, &k->why);
}

static bool replay_one(Checking *k, Sampler *s, const Sampled *d)
{
    const int32_t found = k->r->ids[d->index];
    int32_t       id    = -1;
    if (!sample_again(k, s, d, &id))
        return false;
    if (id == found)
        return !k->r->kind || sampler_ends(&k->r->sampling, id)
            || fitting_take(&k->fit, id, &k->why);
    k->row->position = (int64_t)d->index;
    k->row->found    = found;
    k->row->expected = id;
    return true;
}

/* Resamples the tokens of a chunk, up to the first that differs. */
static void replay(Checking *k, Sampler *s)
{
    const Sampled *d = k->batch->reread.sampled + k->text->first;
    for (size_t i = 0; i < k->text->n && !k->failed && k->row->position < 0; i++)
        if (!replay_one(k, s, &d[i])) {
            k->failed    = true;
            k->failed_at = (int64_t)d[i].index;
        }
}

/* Does the receipt keep a hash after this token, a link or a block's? *same: does it match? */
static bool closes(Sha256 *sha, const tblock_receipt *r, size_t index, const Digest *link,
                   bool *same)
{
    const size_t number = index - r->n_given + 1, block = receipt_block(r);
    const bool   linked = r->every && number % r->every == 0,
                 ends   = index + 1 == r->n_ids || number % block == 0;
    Digest       leaf;
    if (ends)
        receipt_leaf(sha, r, link, &leaf);
    *same = (!linked || memcmp(&r->links[number / r->every - 1], link, sizeof *link) == 0)
        && (!ends || memcmp(&r->blocks[(number - 1) / block], &leaf, sizeof leaf) == 0);
    return linked || ends;
}

/* Computes the chain of a chunk, up to the first link that differs. */
static void follow(Checking *k, Sha256 *sha)
{
    const Sampled *d = k->batch->reread.sampled + k->text->first;
    for (size_t i = 0; i < k->text->n && k->row->first < 0; i++) {
        const size_t index = d[i].index;
        bool         same;
        receipt_link(sha, k->r, index, d[i].logits, k->batch->vocab_size, &k->link);
        if (!closes(sha, k->r, index, &k->link, &same))
            continue;
        if (!same) {
            k->row->first = k->closed;
            k->row->last  = (int64_t)index;
        }
        k->closed = (int64_t)index + 1;
    }
}

/* Jobs i and n + i are of receipt i; the chains, which take longer, come first. */
static void take_jobs(void *user, Team team)
{
    Batch       *b = user;
    const Tools  t = b->tools[team.thread];
    const size_t n = b->reread.next;
    for (size_t job; (job = atomic_fetch_add(&b->job, 1)) < 2 * n;) {
        Checking *k = &b->k[job % n];
        if (k->text->n && job < n)
            follow(k, t.sha);
        else if (k->text->n)
            replay(k, t.sampler);
    }
}

/* The rest of a wrong receipt would add nothing. But after a token that differs we wait for a link,
 * which shows whether its logits differ too. */
static bool check_piece(void *user, Error *err)
{
    Batch *b = user;
    (void)err;
    atomic_store(&b->job, 0);
    threads_pool_run(b->pool, b->n_tools, take_jobs, b);
    for (size_t i = 0; i < b->reread.next; i++) {
        const Checking           *k   = &b->k[i];
        const tblock_receipt_row *row = k->row;
        if (k->failed || row->first >= 0 || (row->position >= 0 && k->closed > row->position))
            reread_stop(&b->reread, i);
    }
    return true;
}

/* ---- The verdict ----------------------------------------------------------------------------- */

/* Chain and sampling were checked independently: the first fault counts. */
static void settle(Checking *k)
{
    tblock_receipt_row *row = k->row;
    if (row->first >= 0 && row->position > row->last)
        row->position = -1;
    if (row->position >= 0 && row->first > row->position)
        row->first = row->last = -1;
    k->failed = k->failed && !(row->first >= 0 && row->last < k->failed_at);
}

static void conclude(Checking *k)
{
    tblock_receipt_row *row = k->row;
    settle(k);
    char                at[160] = "", token[160] = "";
    if (row->position >= 0)
        snprintf(token, sizeof token, "position %" PRId64 ": token %" PRId32 " was sampled, but %s",
                 row->position, row->found, row->expected < 0 ? "the text had ended" : "");
    if (row->position >= 0 && row->expected >= 0)
        snprintf(token + strlen(token), sizeof token - strlen(token), "its logits give %" PRId32,
                 row->expected);
    if (row->first >= 0)
        snprintf(at, sizeof at, "the tokens of positions %" PRId64 " to %" PRId64
                                " were sampled from other logits",
                 row->first, row->last);
    row->verdict = k->failed             ? TBLOCK_RECEIPT_FAILED
                   : row->first >= 0     ? TBLOCK_RECEIPT_LOGITS
                   : row->position >= 0  ? TBLOCK_RECEIPT_TOKEN
                                         : TBLOCK_RECEIPT_HOLDS;
    /* its logits hold, and other texts may have fitted its schema: that is no lie */
    const bool other_rules = row->verdict == TBLOCK_RECEIPT_TOKEN
                          && k->r->kind >= FIRST_BY_RULES && k->r->rules != SCHEMA_RULES;
    if (other_rules) {
        row->verdict = TBLOCK_RECEIPT_OTHER;
        snprintf(row->why, sizeof row->why, "%s, by rules %d of JSON Schema; it was made by "
                                            "rules %d", token, SCHEMA_RULES, k->r->rules);
    } else if (k->failed)
        snprintf(row->why, sizeof row->why, "%s", k->why.msg);
    else
        snprintf(row->why, sizeof row->why, "%s%s%s%s", at, *at && *token ? "; " : "", token,
                 !*at && *token ? "; the logits are the receipt's, so it was sampled with other "
                                  "sampling options, another seed or constraint" : "");
}

static void close_one(Checking *k)
{
    fitting_end(&k->fit);
    tblock_constraint_free(k->fit.constraint);
    k->fit = (Fitting){ 0 };
}

/* The tokens before the block are prefilled as a prompt and not checked. */
static bool open_block(Checking *k, const tblock_receipt *r, size_t block)
{
    const size_t n = receipt_block(r);
    if (block >= r->n_blocks)
        return fail(&k->why, INPUT, "block %zu: expected 0 to %zu", block, r->n_blocks - 1);
    k->text->n_given = r->n_given + block * n;
    if (r->n_ids - k->text->n_given > n)
        k->text->n_ids = k->text->n_given + n;
    return true;
}

/* Advances the constraint through the tokens before the computed ones. */
static bool skip_fitting(Checking *k)
{
    for (size_t i = k->r->n_given; i < k->text->n_given; i++)
        if (!sampler_ends(&k->r->sampling, k->r->ids[i])
            && !fitting_take(&k->fit, k->r->ids[i], &k->why))
            return false;
    return true;
}

static bool open_one(Checking *k, const tblock_context *c)
{
    const tblock_receipt *r = k->r;
    if (k->batch->opt->one_block && !open_block(k, r, k->batch->opt->block))
        return false;
    k->closed = (int64_t)k->text->n_given;
    if (!check_size(r, c, &k->why) || !sampler_set(k->batch->tools->sampler, &r->sampling, &k->why))
        return false;
    if (!r->kind)
        return true;
    k->fit = (Fitting){ .end = r->stop_ids, .n_end = r->sampling.n_end_ids,
                        .vocab_size = k->batch->vocab_size };
    k->fit.constraint =
        r->kind == CONSTRAINT_CALLS
            ? calls_constraint_read(c->model, r->text, r->n_text, "constraint", &k->why)
            : tblock_constraint_new(c->model, r->kind, r->text, r->n_text, "constraint", &k->why);
    return k->fit.constraint && fitting_begin(&k->fit, c->model, &k->why) && skip_fitting(k);
}

/* Closes one: sets its verdict, unless the system failed. */
static bool finish(Checking *k, Error *err)
{
    const bool good = !k->failed || k->why.status != SYSTEM;
    if (good)
        conclude(k);
    else
        *err = k->why;
    close_one(k);
    return good;
}

/* Begins one, unless its head already decided. If it cannot be computed, that is its verdict. */
static bool begin(void *user, size_t i, bool *wanted, Error *err)
{
    Batch    *b = user;
    Checking *k = &b->k[i];
    if (!check_head(k->r, b->reread.c, k->row, err))
        return false;
    if (k->row->verdict)
        return true;
    k->failed = !open_one(k, b->reread.c);
    *wanted   = !k->failed;
    return *wanted || finish(k, err);
}

static bool end(void *user, size_t i, const Error *why, Error *err)
{
    Checking *k = &((Batch *)user)->k[i];
    if (why && !k->failed) {
        k->failed    = true;
        k->failed_at = INT64_MAX;
        k->why       = *why;
    }
    return finish(k, err);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static bool open_tools(Batch *b, Error *err)
{
    static const SamplerOptions greedy = { 0 };
    const tblock_context *c = b->reread.c;
    const size_t at_once = b->reread.n < (size_t)c->n_seqs ? b->reread.n : (size_t)c->n_seqs;
    b->n_tools           = c->threads < 2 * (int)at_once ? c->threads : 2 * (int)at_once;
    b->n_tools           = b->n_tools < 1 ? 1 : b->n_tools;
    b->tools             = calloc((size_t)b->n_tools, sizeof *b->tools);
    b->pool              = threads_pool_new(b->n_tools, false);
    if (!b->tools)
        return no_memory("receipt", err);
    for (int i = 0; i < b->n_tools; i++) {
        b->tools[i] = (Tools){ sampler_new(b->vocab_size, &greedy, err), sha256_new() };
        if (!b->tools[i].sampler || !b->tools[i].sha)
            return b->tools[i].sampler ? no_memory("receipt", err) : false;
    }
    return true;
}

static void close_tools(Batch *b)
{
    for (int i = 0; b->tools && i < b->n_tools; i++) {
        sampler_free(b->tools[i].sampler);
        sha256_free(b->tools[i].sha);
    }
    free(b->tools);
    threads_pool_free(b->pool);
}

static bool verify_all(Batch *b, tblock_receipt *const *receipts, tblock_receipt_row *row,
                       Error *err)
{
    for (size_t i = 0; i < b->reread.n; i++) {
        const tblock_receipt *r = receipts[i];
        row[i] = (tblock_receipt_row){ .version  = r->version,
                                       .n_given  = r->n_given,
                                       .n_drawn  = r->n_ids - r->n_given,
                                       .position = -1,
                                       .first    = -1,
                                       .last     = -1 };
        b->reread.text[i] = (RereadText){ .ids = r->ids, .n_ids = r->n_ids, .n_given = r->n_given };
        b->k[i] = (Checking){ .r = r, .row = &row[i], .text = &b->reread.text[i], .batch = b,
                              .failed_at = INT64_MAX };
    }
    const bool good = open_tools(b, err) && reread_all(&b->reread, err);
    for (size_t i = 0; i < b->reread.next; i++)
        close_one(&b->k[i]);
    close_tools(b);
    return good;
}

FP_ENV_WORK
static bool verify(tblock_context *c, tblock_receipt *const *receipts, size_t n,
                   const tblock_receipt_verify_options *opt, tblock_receipt_row *row, Error *err)
{
    static const tblock_receipt_verify_options defaults = { 0 };
    Error why = { 0 };
    Batch b   = { .vocab_size = c->model->weights.cfg.vocab_size };
    opt = b.opt = opt ? opt : &defaults;
    b.reread  = (Reread){ .c = c, .n = n, .progress = PROGRESS_OF(opt), .user = &b,
                          .begin = begin, .piece = check_piece, .end = end };
    b.k           = calloc(n + 1, sizeof *b.k);
    b.reread.text = calloc(n + 1, sizeof *b.reread.text);
    bool good     = (b.k && b.reread.text) || no_memory("receipt", &why);
    good          = good && (opt->trust_hash || model_check_hash(c->model, &why));
    good          = good && verify_all(&b, receipts, row, &why);
    free(b.k);
    free(b.reread.text);
    return good || fail(err, why.status, "%s", why.msg);
}

bool tblock_receipt_verify(tblock_context *c, tblock_receipt *const *receipts, size_t n,
                           const tblock_receipt_verify_options *opt, tblock_receipt_row *row,
                           tblock_error *err)
{
    NEED(false, err, c, receipts || !n, row || !n);
    HOST_ENV_RETURN(bool, verify(c, receipts, n, opt, row, err));
}

/* ---- For CI systems -------------------------------------------------------------------------- */

typedef struct NamedRows { const char *const *names; const tblock_receipt_row *rows; } NamedRows;

static void nth_case(const void *rows, size_t i, JunitRoom *room, JunitCase *c)
{
    const NamedRows          *all = rows;
    const tblock_receipt_row *row = &all->rows[i];
    snprintf(room->out, sizeof room->out, "%zu tokens given, %zu drawn", row->n_given,
             row->n_drawn);
    snprintf(room->why, sizeof room->why, "%s%s",
             row->verdict == TBLOCK_RECEIPT_FAILED ? "not checked: " : "", row->why);
    *c = (JunitCase){ .name    = all->names[i],
                      .failure = row->verdict ? room->why : NULL,
                      .out     = room->out };
}

FP_ENV_WORK
static bool junit(const char *path, const NamedRows *all, size_t n, const Error *why, Error *err)
{
    return junit_rows(path, "receipts", all->rows ? all : NULL, n, nth_case, why, err);
}

bool tblock_receipt_junit(const char *path, const char *const *names,
                          const tblock_receipt_row *rows, size_t n, const tblock_error *why,
                          tblock_error *err)
{
    NEED(false, err, path, names || !n);
    HOST_ENV_RETURN(bool, junit(path, &(NamedRows){ names, rows }, n, why, err));
}
