/* tblock audit: are the texts of a log plausible for this model and the claimed options? */
#include "frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sampling.h"
#include "base/text.h"
#include "tblock_tools.h"

typedef struct AuditArgs {
    const char     *model, *tokens, *junit;
    bool            shared_seed, from_log, each, json;
    SamplingOptions sampling;
    ComputeOptions  compute;
    GeneralOptions  general;
} AuditArgs;

enum { AT_ONCE = 16 }; /* texts that are computed together: fewer fill a batch */

static const char *const verdicts[] = { [TBLOCK_AUDIT_FITS] = "fits",
                                        [TBLOCK_AUDIT_DIFFERS] = "differs",
                                        [TBLOCK_AUDIT_FAILED] = "failed",
                                        [TBLOCK_AUDIT_NO_POWER] = "no power" };

/* ---- Telling --------------------------------------------------------------------------------- */

static Cell real_or_none(double x) { return isnan(x) ? v_none() : v_real(x); }

/* --KEY X, with the fewest digits that read back as a float. */
static void put_option(TextOut *o, const char *key, bool whole, double x)
{
    const float f = (float)x;
    char        text[32];
    snprintf(text, sizeof text, "%.0f", x);
    for (int digits = 1; digits <= 9 && !whole; digits++)
        if (snprintf(text, sizeof text, "%.*g", digits, (double)f), strtof(text, NULL) == f)
            break;
    text_out(o, "%s%s%s", o->n ? " " : "", key, text);
}

/* The options that a text was judged with, as the command line has them. */
static void put_judged(TextOut *o, const tblock_audit_text *t)
{
    const tblock_sampler_options *s = &t->sampling;
    char                          key[64];
    SAMPLING_EACH (row) {
        const double x = sampling_get(s, row);
        snprintf(key, sizeof key, "--%s ", row->option);
        put_option(o, key, row->type == TBLOCK_INT, x == 0 && row->least > 0 ? row->off : x);
    }
    for (size_t i = 0; i < s->n_bias; i++) {
        snprintf(key, sizeof key, "--logit-bias %" PRId32 "=", s->bias_ids[i]);
        put_option(o, key, false, (double)s->bias[i]);
    }
    if (t->seeded)
        text_out(o, " --shared-seed --seed %" PRIu64, s->seed);
}

/* before: the options of the previous text, not repeated if equal; empty: none. */
static void text_row(Rows *r, const Table *t, size_t number, const tblock_audit_row *v,
                     const TextOut *judged, const TextOut *before)
{
    rows_row(r, t,
             (Cell[]){ v_count(number), v_count(v->n_given), v_count(v->n_drawn),
                       v_count(v->n_other), v_count(v->n_ruled_out), real_or_none(v->difference),
                       real_or_none(v->surprise), real_or_none(v->likelihood),
                       real_or_none(v->rarest), real_or_none(v->blind),
                       v_bytes(judged->text, judged->n), v_text(verdicts[v->verdict]),
                       *v->why ? v_text(v->why) : v_none() },
             NULL);
    if (*v->why && r->face == FACE_TEXT) {
        rows_text(r, "  ");
        safe_text(&r->out, v->why);
        rows_text(r, "\n");
    }
    if (judged->n != before->n || memcmp(judged->text, before->text, judged->n) != 0)
        rows_text(r, "  judged by %.*s\n", (int)judged->n, judged->text);
}

static bool text_rows(Rows *r, const tblock_audit_row *row, const tblock_audit_text *text, size_t n,
                      tblock_error *err)
{
    static const Column columns[] = {
        { "text", "text", 5, 0, UNIT_NONE, NULL },
        { "given", "given", 5, 0, UNIT_NONE, NULL },
        { "drawn", "drawn", 5, 0, UNIT_NONE, NULL },
        { "other", "other", 5, 0, UNIT_NONE, NULL },
        { "ruled_out", "ruled out", 9, 0, UNIT_NONE, NULL },
        { "difference", "difference", 10, 0, UNIT_DIGITS + 3, NULL },
        { "surprise", "surprise", 8, 0, UNIT_FIXED + 2, NULL },
        { "likelihood", "likelihood", 10, 0, UNIT_DIGITS + 3, NULL },
        { "rarest", "rarest", 8, 0, UNIT_DIGITS + 2, NULL },
        { "blind", "blind", 8, 0, UNIT_DIGITS + 2, NULL },
        JSON_COLUMN("judged_by"),
        { "verdict", "verdict", -1, 1, UNIT_NONE, NULL },
        JSON_COLUMN("why"),
    };
    const Table t      = TABLE_OF(columns);
    bool        good   = true;
    TextOut     two[2] = { { 0 }, { 0 } };
    rows_table(r, "texts", &t);
    for (size_t i = 0; i < n && good; i++) {
        TextOut *judged = &two[i % 2];
        judged->n       = 0;
        put_judged(judged, &text[i]);
        good = !judged->failed || no_memory(NULL, err);
        if (good)
            text_row(r, &t, i + 1, &row[i], judged, &two[(i + 1) % 2]);
    }
    rows_table_end(r, "texts");
    text_out_free(&two[0]);
    text_out_free(&two[1]);
    return good;
}

/* --each */
static void token_rows(Rows *r, const tblock_audit_row *row, size_t n)
{
    static const Column columns[] = {
        { "text", "text", 6, 0, UNIT_NONE, NULL },
        { "position", "position", 8, 0, UNIT_NONE, NULL },
        { "id", "id", 7, 0, UNIT_NONE, NULL },
        { "expected", "expected", 8, 0, UNIT_NONE, NULL },
        { "rank", "rank", 6, 0, UNIT_NONE, NULL },
        { "prob", "prob", 9, 0, UNIT_DIGITS + 4, NULL },
        { "margin", "margin", 8, 0, UNIT_DIGITS + 4, NULL },
        { "miss", "miss", 9, 0, UNIT_DIGITS + 3, NULL },
        { "entropy", "entropy", 8, 0, UNIT_DIGITS + 4, NULL },
        JSON_COLUMN("tail"),
    };
    const Table table = TABLE_OF(columns);
    rows_table(r, "tokens", &table);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; row[i].tokens && j < row[i].n_drawn; j++) {
            const tblock_audit_token *t = &row[i].tokens[j];
            rows_row(r, &table,
                     (Cell[]){ v_count(i + 1), v_count(row[i].n_given + j), v_int(t->id),
                               t->expected < 0 ? v_none() : v_int(t->expected), v_int(t->rank),
                               v_real(t->prob), v_real(t->margin), real_or_none(t->miss),
                               v_real(t->entropy), real_or_none(t->tail) },
                     NULL);
        }
    rows_table_end(r, "tokens");
}

static bool tell(const AuditArgs *a, const tblock_audit_text *text, const tblock_audit_row *row,
                 size_t n, tblock_error *err)
{
    Rows   r      = OUTPUT_ROWS(a->json, 0);
    size_t n_fit = 0, bad = n; /* the first that differs or failed, else without power */
    for (size_t i = n; i-- > 0;) {
        n_fit += row[i].verdict == TBLOCK_AUDIT_FITS;
        if (row[i].verdict != TBLOCK_AUDIT_FITS
            && (bad == n || row[i].verdict != TBLOCK_AUDIT_NO_POWER
                || row[bad].verdict == TBLOCK_AUDIT_NO_POWER))
            bad = i;
    }
    rows_open(&r, NULL, '{');
    rows_put(&r, "ok", v_flag(bad == n));
    const bool good = text_rows(&r, row, text, n, err);
    if (a->each)
        token_rows(&r, row, n);
    rows_close(&r, '}');
    rows_text(&r, "%zu of %zu texts fit\n", n_fit, n);
    return output_rows(&r, err) && good && output_flush(err)
        && (bad == n
            || fail(err, row[bad].verdict == TBLOCK_AUDIT_NO_POWER ? TBLOCK_UNKNOWN : TBLOCK_NO,
                    "%s: text %zu: %s", a->tokens, bad + 1, row[bad].why));
}

/* ---- The log --------------------------------------------------------------------------------- */

static bool is_blank(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && memchr(" \t\r", line[i], 3))
        i++;
    return i == n;
}

static bool add_line(void *log, const Lines *at, const char *line, size_t n, tblock_error *err)
{
    char name[CLI_SHOWN], place[CLI_SHOWN + 32];
    snprintf(place, sizeof place, "%s: line %zu", cli_shown(name, at->name), at->number);
    return is_blank(line, n) || tblock_audit_log_add(log, line, n, place, err);
}

static bool read_log(const AuditArgs *a, tblock_audit_log *log, tblock_error *err)
{
    size_t n;
    char   name[CLI_SHOWN];
    if (!lines_each(a->tokens, add_line, log, err))
        return false;
    tblock_audit_log_texts(log, &n);
    return n || fail(err, TBLOCK_INPUT, "%s: expected a text on each line, found none",
                     cli_shown(name, input_name(a->tokens)));
}

/* ---- All of it ------------------------------------------------------------------------------- */

typedef struct AuditRun {
    Frame            *frame;
    const AuditArgs  *args;
    tblock_audit_log *log;
    tblock_audit_row *row; /* [n] */
    size_t            n;
} AuditRun;

static bool open_all(AuditRun *u, tblock_error *err)
{
    Frame           *f = u->frame;
    const AuditArgs *a = u->args;
    if (a->sampling.seed.random)
        return fail(err, TBLOCK_USAGE, "--seed: expected the seed of the texts, found 'random'");
    tblock_sampler_options claimed = sampling_of(&a->sampling, a->sampling.seed.value);
    u->log = frame_files(f, err) && frame_model(f, err) && frame_apart(f, a->junit, NULL, err)
                 ? tblock_audit_log_new(f->model, &claimed,
                                        (a->shared_seed ? TBLOCK_AUDIT_SHARED_SEED : 0u)
                                            | (a->from_log ? TBLOCK_AUDIT_CLAIMS_FROM_LOG : 0u),
                                        err)
                 : NULL;
    if (!u->log || !read_log(a, u->log, err))
        return false;
    tblock_audit_log_texts(u->log, &u->n);
    f->compute.n_seqs = u->n < AT_ONCE ? (int)u->n : AT_ONCE;
    u->row            = calloc(u->n, sizeof *u->row);
    return frame_context(f, err) && (u->row || no_memory(NULL, err));
}

static bool audit_all(AuditRun *u, tblock_error *err)
{
    const tblock_audit_text *texts = tblock_audit_log_texts(u->log, &u->n);
    progress_show("auditing", 0);
    bool good = tblock_audit(u->frame->context, texts, u->n,
                             &(tblock_audit_options){ .progress = progress_advance }, u->row, err);
    progress_end();
    return good;
}

/* --junit: also if nothing was computed, for a reader that only sees the file; but not if the file
 * is one of the inputs. */
static bool write_junit(AuditRun *u, bool ran, tblock_error *err)
{
    Frame       *f     = u->frame;
    const char  *junit = u->args->junit;
    tblock_error why   = *err;
    if (!junit || (!ran && !frame_apart(f, junit, NULL, &why)))
        return true;
    return tblock_audit_junit(f->out[0].path ? f->out[0].path : junit, ran ? u->row : NULL, u->n,
                              &why, err)
        && frame_commit(f, err);
}

static bool audit(Frame *f, tblock_error *err)
{
    AuditRun u    = { .frame = f, .args = f->args };
    bool     ran  = open_all(&u, err) && audit_all(&u, err);
    bool     good = write_junit(&u, ran, err) && ran
        && tell(u.args, tblock_audit_log_texts(u.log, &u.n), u.row, u.n, err);
    for (size_t i = 0; u.row && i < u.n; i++)
        tblock_free(u.row[i].tokens);
    free(u.row);
    tblock_audit_log_free(u.log);
    return good;
}

#define AT(field) offsetof(AuditArgs, field)
static const Option options[] = {
    { "tokens", 0, "FILE", OPT_TEXT, AT(tokens), 0, 0, OPT_REQUIRED,
      "the log: a JSON object on each line, in one of the forms of docs/audit.md; -: standard "
      "input" },
    { "shared-seed", 0, NULL, OPT_FLAG, AT(shared_seed), 0, 0, NULL,
      "tblock's sampler generated the texts with --seed: compare them with its samples" },
    { "claims-from-log", 0, NULL, OPT_FLAG, AT(from_log), 0, 0, NULL,
      "judge each text by the options and seed of its own line or request, whoever wrote it, not "
      "by the command line's alone" },
    { "each", 0, NULL, OPT_FLAG, AT(each), 0, 0, NULL, "also print a row for each token" },
    OPTION_JSON(AT(json), "print one JSON object instead of the tables"),
    { "junit", 0, "FILE", OPT_TEXT, AT(junit), 0, 0, NULL,
      "also write the result as JUnit XML, with a test case for each text" },
    { 0 },
};
const Command cmd_audit = {
    { "audit", OPERANDS(OPERAND_MODEL(AT(model))),
      GROUPS({ "Options", options, 0 },
             { "Sampling, as it is claimed", sampling_options, AT(sampling) },
             GROUP_COMPUTE(AT(compute)), GROUP_GENERAL(AT(general))) },
    "tell how well texts of another engine fit a model and its options",
    "Reads each text as a prompt, and prints how likely its tokens are with this model and the "
    "claimed sampling options: tokens that the options rule out, tokens other than those that "
    "temperature 0 or a shared seed gives and how far they miss (Token-DiFR, arXiv 2511.20621), "
    "and how far the text is from the surprise that sampling gives on average. docs/audit.md says "
    "what an honest text looks like. For texts of tblock itself, a receipt proves more (verify). "
    "Exit status 1 if a text does not fit, 5 if random tokens might fit as well.",
    EXAMPLES({ "tblock audit model.bin --tokens log.jsonl",
               "could this model have generated what another engine logged?" },
             { "tblock audit model.bin --tokens log.jsonl --temp 1 --top-k 0 --top-p 1 --each "
               "--json",
               "rank, probability and margin of each token, sampled with temperature 1" }),
    .args_size = sizeof(AuditArgs), .run = audit, .reads = { "tokens" }, .writes = { "junit" },
};
