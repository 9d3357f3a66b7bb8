/* api/eval_choices.c: multiple choice by log-likelihood. The idea and the length-normalised
 * variant: lm-evaluation-harness (EleutherAI), "multiple_choice"; there the length is in
 * characters, here in bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/fp_env.h"
#include "base/json.h"
#include "base/memory.h"
#include "tblock_tools.h"

enum { MAX_FILE = 1 << 30, PIECE = 128 };

/* A text and its tokens. */
typedef struct Tokens { int32_t *id; size_t n; } Tokens;

typedef struct ChoicesRun {
    tblock_context *c;
    const char     *path, *delimiter;
    unsigned        flags;             /* of tblock_tokenize */
    int32_t        *held;              /* tokens of sequence 0, [n_ctx] */
    size_t          n_held;
    double         *row;               /* [vocab_size] */
    TextOut         text;              /* context, delimiter and choice */
    size_t          cap_rows, n_scores, cap_scores;
    tblock_choices_report *out;
} ChoicesRun;

/* ---- One choice ------------------------------------------------------------------------------ */

static size_t shared(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

/* Cut sequence 0 to the tokens that it shares with ids, fewer than ids[most]. A sliding window that
 * has moved on cannot be rewound: then it is emptied. */
static bool keep_shared(ChoicesRun *r, const int32_t *ids, size_t n, size_t most, Error *err)
{
    size_t keep = shared(r->held, r->n_held, ids, n);
    keep = keep < most ? keep : most;
    if (!tblock_seq_rewind(r->c, 0, (int32_t)keep, NULL)) {
        keep = 0;
        if (!tblock_seq_rewind(r->c, 0, 0, err))
            return false;
    }
    r->n_held = keep;
    return true;
}

/* The sum of log-likelihoods of ids[from .. n); from >= 1. */
static bool score_tokens(ChoicesRun *r, const int32_t *ids, size_t n, size_t from, double *sum,
                         Error *err)
{
    int vocab = r->c->model->weights.cfg.vocab_size;
    *sum = 0;
    if (!keep_shared(r, ids, n, from - 1, err)) /* always run the last token before the choice: its
                                                 * logits are needed */
        return false;
    while (r->n_held + 1 < n) {
        tblock_item item[PIECE];
        size_t      at = r->n_held, piece = n - 1 - at < PIECE ? n - 1 - at : PIECE;
        for (size_t i = 0; i < piece; i++)
            item[i] = (tblock_item){0, (int32_t)(at + i), ids[at + i], at + i + 1 >= from};
        if (!tblock_decode(r->c, item, piece, err))
            return false;
        memcpy(r->held + at, ids + at, piece * sizeof *ids);
        r->n_held += piece;
        for (size_t i = 0; i < piece; i++) {
            if (!item[i].want_logits)
                continue;
            if (!eval_row(r->c, i, r->row, err))
                return false;
            *sum += r->row[ids[at + i + 1]] - log_sum_exp(r->row, vocab);
        }
    }
    return true;
}

/* Score a choice; row->cut if tokens at the left did not fit. where: "file: line 3: choice 2". */
static bool score_choice(ChoicesRun *r, const Tokens *context, const char *choice,
                         const char *where, tblock_choices_row *row, tblock_choice_score *score,
                         Error *err)
{
    Tokens whole = {0};
    size_t n_context = r->text.n, n_ctx = (size_t)r->c->n_ctx;
    text_out_bytes(&r->text, r->delimiter, strlen(r->delimiter));
    text_out_bytes(&r->text, choice, strlen(choice));
    bool ok = r->text.failed
        ? no_memory(NULL, err)
        : tblock_tokenize(r->c->model, r->text.text, r->text.n, r->flags, &whole.id, &whole.n, err);
    r->text.n = n_context;
    size_t from = ok ? shared(context->id, context->n, whole.id, whole.n) : 0;
    /* the last token is predicted, not run */
    size_t skip = ok && whole.n > n_ctx + 1 ? whole.n - n_ctx - 1 : 0;
    if (ok && from == 0)
        ok = fail(err, INPUT, "%s: expected a token before it, from the context or a BOS, found "
                              "none", where);
    else if (ok && from == whole.n)
        ok =
            fail(err, INPUT, "%s: expected its own tokens, found only those of the context", where);
    else if (ok && skip >= from)
        ok = fail(err, INPUT, "%s: %zu tokens do not fit into the context of %zu", where,
                  whole.n - from, n_ctx);
    if (ok) {
        row->cut = row->cut || skip > 0;
        *score = (tblock_choice_score){.n_tokens = whole.n - from, .n_bytes = strlen(choice)};
        ok = score_tokens(r, whole.id + skip, whole.n - skip, from - skip, &score->sum, err);
    }
    free(whole.id);
    return ok;
}

/* ---- One line -------------------------------------------------------------------------------- */

typedef struct Question {
    const char *context; const Json *choices; int n; int64_t answer;
} Question;

static bool read_question(Question *q, const Json *j, const char *where, Error *err)
{
    char what[600];
    if (!json_is_object(j))
        return fail(err, INPUT, "%s: expected an object, found %s", where, json_kind(j));
    const Json *context = json_get(j, "context"), *question = json_get(j, "question");
    if (context && question)
        return fail(err, INPUT, "%s: expected \"context\" or \"question\", found both", where);
    snprintf(what, sizeof what, "%s: \"context\" or \"question\"", where);
    if (!json_read_string(context ? context : question, what, &q->context, err))
        return false;
    q->choices = json_get(j, "choices");
    if (!json_is_array(q->choices))
        return fail(err, INPUT, "%s: \"choices\": expected an array of 2 to 1000 texts, found %s",
                    where, json_kind(q->choices));
    if (json_count(q->choices) < 2 || json_count(q->choices) > 1000)
        return fail(err, INPUT, "%s: \"choices\": expected 2 to 1000 texts, found %zu", where,
                    json_count(q->choices));
    q->n = (int)json_count(q->choices);
    snprintf(what, sizeof what, "%s: \"answer\"", where);
    return json_read_int(json_get(j, "answer"), what, 0, q->n - 1, &q->answer, err);
}

static bool score_question(ChoicesRun *r, const Question *q, const char *where,
                           tblock_choices_row *row, Error *err)
{
    Tokens context = {0};
    int    i = 0;
    bool   ok = tblock_tokenize(r->c->model, q->context, strlen(q->context), r->flags, &context.id,
                                &context.n, err);
    r->text.n = 0;
    text_out_bytes(&r->text, q->context, strlen(q->context));
    for (const Json *j = json_first(q->choices); ok && j; j = json_next(j), i++) {
        char                 what[600];
        const char          *choice = "";
        tblock_choice_score *score = &r->out->score[row->first + (size_t)i];
        snprintf(what, sizeof what, "%s: choice %d", where, i);
        ok = json_read_string(j, what, &choice, err)
             && (*choice || fail(err, INPUT, "%s: expected a text, found an empty one", what))
             && score_choice(r, &context, choice, what, row, score, err);
    }
    free(context.id);
    return ok;
}

/* The largest scores of a row. A NaN is neither greater nor less than another score: then nothing
 * is decided. */
static void decide(const tblock_choices_report *out, tblock_choices_row *row)
{
    const tblock_choice_score *s = &out->score[row->first];
    bool                       nan = false;
    for (int i = 0; i < (int)row->n; i++) {
        nan = nan || isnan(s[i].sum);
        if (s[i].sum > s[row->best].sum)
            row->best = i;
        if (s[i].sum / (double)s[i].n_bytes
            > s[row->best_norm].sum / (double)s[row->best_norm].n_bytes)
            row->best_norm = i;
    }
    if (nan)
        row->best = row->best_norm = -1;
}

static bool add_line(ChoicesRun *r, const char *line, size_t n, size_t number, Error *err)
{
    char     where[500];
    Question q = {0};
    tblock_choices_report *out = r->out;
    snprintf(where, sizeof where, "%.400s: line %zu", r->path, number);
    Json *j  = json_parse(line, n, where, err);
    bool  ok = j && read_question(&q, j, where, err)
        && ((ARRAY_ROOM(out->rows, r->cap_rows, out->n_rows + 1)
             && ARRAY_ROOM(out->score, r->cap_scores, r->n_scores + (size_t)q.n))
            || no_memory(NULL, err));
    if (ok) {
        tblock_choices_row row = {
            .line = number, .first = r->n_scores, .n = (size_t)q.n, .answer = (int)q.answer
        };
        ok = score_question(r, &q, where, &row, err);
        if (ok)
            decide(out, &row);
        out->rows[out->n_rows] = row;
        out->n_rows += ok;
        out->n_cut  += ok && row.cut;
        r->n_scores += (size_t)q.n;
    }
    json_free(j);
    return ok;
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", line[i]) || !line[i])
            return false;
    return true;
}

static bool add_lines(ChoicesRun *r, const char *text, size_t n, const tblock_choices_options *opt,
                      Error *err)
{
    size_t number = 0;
    for (size_t at = 0; at < n;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t      length = end ? (size_t)(end - line) : n - at;
        number++;
        r->out->stopped = opt->progress && !opt->progress(opt->user, (double)at / (double)n);
        host_env_again();
        if (r->out->stopped)
            return true;
        if (!is_blank(line, length) && !add_line(r, line, length, number, err))
            return false;
        at += length + (end != NULL);
    }
    return r->out->n_rows > 0 || fail(err, INPUT, "%s: expected a JSON object in each line, found "
                                                  "no lines", r->path);
}

static double share_error(double p, size_t n)
{
    return n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : NAN;
}

static void count_right(tblock_choices_report *out)
{
    size_t right = 0, right_norm = 0, n = out->n_rows;
    for (size_t i = 0; i < n; i++) {
        right      += out->rows[i].best == out->rows[i].answer;
        right_norm += out->rows[i].best_norm == out->rows[i].answer;
    }
    out->accuracy            = n > 0 ? (double)right / (double)n : NAN;
    out->accuracy_norm       = n > 0 ? (double)right_norm / (double)n : NAN;
    out->accuracy_error      = share_error(out->accuracy, n);
    out->accuracy_norm_error = share_error(out->accuracy_norm, n);
}

FP_ENV_WORK
static bool eval_choices(ChoicesRun *r, const tblock_choices_options *opt, Error *err)
{
    char  *text = NULL;
    size_t n = 0;
    if (!r->c->model->tokenizer)
        return fail(err, INPUT, "%s: found no tokenizer: multiple choice needs one",
                    r->c->model->source.path);
    r->held = malloc((size_t)r->c->n_ctx * sizeof *r->held);
    r->row  = malloc((size_t)r->c->model->weights.cfg.vocab_size * sizeof *r->row);
    if (!r->held || !r->row)
        return no_memory(NULL, err);
    bool ok = tblock_seq_rewind(r->c, 0, 0, err)
        && file_read_stream(r->path, MAX_FILE, &text, &n, err) && add_lines(r, text, n, opt, err);
    if (ok)
        count_right(r->out);
    free(text);
    return ok;
}

bool tblock_eval_choices(tblock_context *c, const char *path, const tblock_choices_options *opt,
                         tblock_choices_report *out, tblock_error *err)
{
    NEED(false, err, c, path, out);
    static const tblock_choices_options defaults = {0};
    opt = opt ? opt : &defaults;
    ChoicesRun r = {.c = c, .path = path, .delimiter = opt->delimiter ? opt->delimiter : " ",
                    .flags = opt->no_added ? 0 : TBLOCK_ADD_SPECIAL, .out = out};
    HostEnv host;
    host_env_enter(&host);
    *out    = (tblock_choices_report){0};
    bool ok = eval_choices(&r, opt, err);
    if (!ok) {
        free(out->rows);
        free(out->score);
        *out = (tblock_choices_report){0};
    }
    free(r.held);
    free(r.row);
    text_out_free(&r.text);
    tblock_seq_rewind(c, 0, 0, NULL);
    host_env_leave(&host);
    return ok;
}
