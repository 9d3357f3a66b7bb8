/* tblock verify: recomputes goldens and receipts, and compares. */
#include "frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tblock_tools.h"

typedef struct VerifyArgs {
    const char    *model, *junit;
    TextList       records;
    bool           exact, greedy, json, trust_hash, bisect, logits_only;
    int            block; /* -1: not given */
    double         tol; /* NaN: not given */
    ComputeOptions compute;
    GeneralOptions general;
} VerifyArgs;

static const char *golden_of(const VerifyArgs *a) { return a->records.texts[0]; }

enum { LONGEST_NAME = 10 }; /* for which the table has a column in 80 */

/* A name from a file, safe to print. */
static const char *row_name(const tblock_verify_row *r, char out[80])
{
    printable_text(out, 80, r->name, strlen(r->name));
    return r->name[0] ? out : "(unnamed)";
}

/* --greedy */
static void greedy_text(Rows *r, const tblock_verify_row *v)
{
    char name[80];
    if (v->greedy_diff >= 0)
        rows_text(r, "%s: the greedy continuation differs from token %" PRId64 " on\n",
                  row_name(v, name), v->greedy_diff);
    else if (v->n_greedy > 0)
        rows_text(r, "%s: %zu tokens of the greedy continuation, all the same\n", row_name(v, name),
                  v->n_greedy);
}

/* If hidden states were recorded: do they diverge, and where first? */
static void hidden_text(Rows *r, const tblock_verify_row *v, bool digest)
{
    char name[80], far[32];
    if (v->n_hidden == 0)
        return;
    rows_text(r, "%s: ", row_name(v, name));
    if (v->parted[0] && digest)
        rows_text(r, "the runs diverge in %s, from position %" PRId64 " on\n", v->parted,
                  v->parted_pos);
    else if (v->parted[0])
        rows_text(
            r, "the runs diverge in %s, from position %" PRId64 " on\n    max |diff| there %s\n",
            v->parted, v->parted_pos, real_spell(v->parted_abs, UNIT_DIGITS + 3, far, sizeof far));
    else
        rows_text(r, "%d hidden states, all the same\n", v->n_hidden);
}

/* Does a row agree, whatever the model is? */
static bool row_agrees(const tblock_verify_row *r)
{
    return r->ok || (r->first_diff < 0 && r->greedy_diff < 0 && !r->parted[0]);
}

/* A name too long for its column gets its own line. */
static void sequence_row(Rows *r, const Table *t, const tblock_verify_row *v, bool digest)
{
    const Cell  mean = v_real(v->mean_kl), most = v_real(v->max_kl);
    char        name[80], verdict[48] = "DIFFERS";
    const char *shown = row_name(v, name);
    bool        parted = v->parted[0];
    if (v->first_diff >= 0)
        snprintf(verdict, sizeof verdict, "DIFFERS at %" PRId64, v->first_diff);
    else if (row_agrees(v))
        snprintf(verdict, sizeof verdict, "other model");
    if ((int)strlen(shown) > -t->first_width) {
        rows_text(r, "%s\n", shown);
        shown = "";
    }
    rows_row(r, t,
             (Cell[]){ v_shown(v_text(v->name), shown), v_count(v->n_tokens), v_real(v->max_abs),
                       digest ? v_shown(mean, "-") : mean, digest ? v_shown(most, "-") : most,
                       v_real(v->top1), v_real(v->top5),
                       v_int(v->first_diff), v_count(v->n_greedy), v_int(v->greedy_diff),
                       v_int(v->n_hidden), parted ? v_text(v->parted) : v_none(),
                       parted ? v_int(v->parted_layer) : v_none(),
                       parted ? v_int(v->parted_pos) : v_none(),
                       parted ? v_real(v->parted_abs) : v_none(),
                       v_shown(v_flag(v->ok), v->ok ? "ok" : verdict) },
             NULL);
}

static void sequence_rows(Rows *r, const tblock_verify_report *report)
{
    static const Column columns[] = {
        { "name", "sequence", -8, 0, UNIT_NONE, NULL },
        { "tokens", "tokens", 6, 1, UNIT_NONE, NULL },
        { "max_abs", "max |diff|", 10, 0, UNIT_DIGITS + 3, NULL },
        { "mean_kl", "mean KL", 8, 0, UNIT_DIGITS + 3, NULL },
        { "max_kl", "max KL", 8, 0, UNIT_DIGITS + 3, NULL },
        { "top1", "top-1", 7, 0, UNIT_PERCENT + 2, NULL },
        { "top5", "top-5", 7, 0, UNIT_PERCENT + 2, NULL },
        JSON_COLUMN("first_diff"), JSON_COLUMN("greedy"), JSON_COLUMN("greedy_diff"),
        JSON_COLUMN("hidden"), JSON_COLUMN("parted"), JSON_COLUMN("parted_layer"),
        JSON_COLUMN("parted_position"), JSON_COLUMN("parted_abs"),
        { "ok", "verdict", -1, 1, UNIT_NONE, NULL },
    };
    Table table = TABLE_OF(columns);
    char  name[80];
    table.first_width = columns[0].width;
    for (size_t i = 0; i < report->n_rows; i++) {
        int n = (int)strlen(row_name(&report->rows[i], name));
        if (n > -table.first_width && n <= LONGEST_NAME)
            table.first_width = -n;
    }
    rows_table(r, "sequences", &table);
    for (size_t i = 0; i < report->n_rows; i++)
        sequence_row(r, &table, &report->rows[i], report->digest);
    rows_table_end(r, "sequences");
}

static void report_rows(Rows *r, const tblock_verify_report *report, const char *golden)
{
    char   shown[CLI_SHOWN], rule[48] = "equal bit by bit";
    size_t n_ok = 0;
    rows_open(r, NULL, '{');
    rows_members(r, { "ok", v_flag(report->ok) }, { "exact", v_flag(report->exact) },
                 { "tol", v_real(report->tol) }, { "recorded", v_flag(report->recorded) },
                 { "other_settings", v_text(report->settings) },
                 { "advice", v_text(report->advice) },
                 { "hash_checked", v_flag(report->hash_checked) },
                 { "digest", v_flag(report->digest) },
                 { "model_known", v_flag(report->model_known) },
                 { "cause", v_text(report->cause) },
                 { "config_diff", v_text(report->config_diff) },
                 { "tensor_diff", v_text(report->tensor_diff) },
                 { "tokenizer_diff", v_text(report->tokenizer_diff) },
                 { "template_diff", v_text(report->template_diff) });
    sequence_rows(r, report);
    rows_close(r, '}');
    for (size_t i = 0; i < report->n_rows; i++)
        greedy_text(r, &report->rows[i]);
    for (size_t i = 0; i < report->n_rows; i++)
        hidden_text(r, &report->rows[i], report->digest);
    for (size_t i = 0; i < report->n_rows; i++)
        n_ok += row_agrees(&report->rows[i]);
    if (!report->exact)
        snprintf(rule, sizeof rule, "within %.3g", report->tol);
    rows_text(r, "%s: %zu of %zu sequences %s; %s\n", cli_shown(shown, golden), n_ok,
              report->n_rows, rule, data_said(report->hash_checked));
}

/* The golden's run had other settings than this: with --exact that belongs to a verdict of no, even
 * when quiet. */
static void note_settings(const tblock_verify_report *report, const char *golden)
{
    bool why = report->exact && !report->ok;
    if (report->settings[0] && !report->cause[0])
        (why ? cli_print : cli_note)("%s: recorded with other settings: %s%s", golden,
                                     report->settings, why ? ", so the bits may differ" : "");
}

/* What to try if the verdict is no. */
static void note_advice(const tblock_verify_report *report, const char *golden)
{
    if (report->advice[0])
        cli_note("%s: %s", golden, report->advice);
}

/* The verdict is no: print where the first difference is. */
static bool report_difference(const tblock_verify_report *report, const char *golden,
                              tblock_error *err)
{
    const tblock_verify_row *r = report->rows;
    char                     name[80], why[1024];
    while (r->ok && r + 1 < report->rows + report->n_rows)
        r++;
    tblock_verify_explain(report, r, why, sizeof why);
    return fail(err, TBLOCK_NO, "%s: %s: %s", golden, row_name(r, name), why);
}

/* --junit: also if the comparison did not run, for a reader that only sees the file. */
static bool write_junit(Frame *f, const tblock_verify_report *report, tblock_error *err)
{
    const VerifyArgs *a   = f->args;
    tblock_error      why = *err;
    return !a->junit
        || (tblock_verify_junit(f->out[0].path, golden_of(a), report, &why, err)
            && frame_commit(f, err));
}

/* The report must not replace an input. If the model could not be opened, that error comes
 * first. */
static bool check_junit(Frame *f, tblock_error *err)
{
    const VerifyArgs *a   = f->args;
    tblock_error      why = { 0 };
    char             *tokens = NULL;
    if (!a->junit)
        return true;
    bool good = tblock_verify_tokens(golden_of(a), &tokens, &why) || why.status != TBLOCK_SYSTEM;
    frame_reads(f, golden_of(a));
    frame_reads(f, tokens);
    good = good && frame_apart(f, a->junit, NULL, &why);
    f->reads.n = 0;
    tblock_free(tokens);
    if (!good && f->model)
        *err = why;
    return good;
}

static bool compare(const VerifyArgs *a, tblock_context *c, const tblock_verify_options *o,
                    tblock_verify_report *report, tblock_error *err)
{
    progress_show("verifying", 0);
    bool good = tblock_verify(c, golden_of(a), o, report, err);
    progress_end();
    return good;
}

static bool answer(const VerifyArgs *a, const tblock_verify_report *report, tblock_error *err)
{
    Rows r = OUTPUT_ROWS(a->json, 0);
    note_settings(report, golden_of(a));
    note_advice(report, golden_of(a));
    report_rows(&r, report, golden_of(a));
    return output_rows(&r, err) && output_flush(err)
        && (report->ok || report_difference(report, golden_of(a), err));
}

/* The model. A golden file or a receipt in its place: then the error says what is where. */
static bool open_model(Frame *f, tblock_error *err)
{
    tblock_recorded record = { 0 };
    char            shown[CLI_SHOWN];
    if (frame_model(f, err))
        return true;
    if (tblock_recorded_read(golden_of(f->args), false, &record, NULL) && record.n_ctx)
        return false; /* that one is in its place */
    const char *found = receipt_is(f->path) ? "a JSON text" : NULL;
    if (!found && tblock_recorded_read(f->path, false, &record, NULL) && record.n_ctx)
        found = "recorded tokens";
    return found
        && fail(err, TBLOCK_USAGE, "verify: expected the model first and then its records, found "
                                   "%s in %s", found, cli_shown(shown, f->path));
}

static bool verify_golden(Frame *f, tblock_error *err)
{
    const VerifyArgs    *a      = f->args;
    tblock_verify_report report = { 0 };
    bool                 opened = open_model(f, err);
    if (!check_junit(f, err))
        return false;
    tblock_verify_options o = { .exact = a->exact,
                                .greedy = a->greedy,
                                .has_tol = !isnan(a->tol),
                                .tol = a->tol,
                                .progress = progress_advance,
                                .trust_hash = a->trust_hash,
                                .logits_only = a->logits_only };
    /* A file that cannot be read is reported when it is compared. */
    (void)tblock_recorded_read(golden_of(a), a->greedy, &f->compute.recorded, NULL);
    bool ran  = opened && frame_context(f, err) && compare(a, f->context, &o, &report, err);
    bool good = write_junit(f, ran ? &report : NULL, err) && ran && answer(a, &report, err);
    tblock_free(report.rows);
    return good;
}

/* One golden file, or receipts. */
static bool verify(Frame *f, tblock_error *err)
{
    const VerifyArgs *a          = f->args;
    size_t            n_receipts = 0;
    for (size_t i = 0; i < a->records.n; i++)
        n_receipts += receipt_is(a->records.texts[i]);
    if (n_receipts == 0 && a->records.n == 1)
        return a->bisect || a->block >= 0
            ? fail(err, TBLOCK_USAGE, "--block, --bisect: expected receipts, found a golden file")
            : verify_golden(f, err);
    for (size_t i = 0; i < a->records.n; i++)
        if (!receipt_is(a->records.texts[i]))
            return fail(err, n_receipts ? TBLOCK_INPUT : TBLOCK_USAGE,
                        "%s: expected a receipt beside others, found none", a->records.texts[i]);
    if (a->exact || a->greedy || a->logits_only || !isnan(a->tol))
        return fail(err, TBLOCK_USAGE, "--exact, --tol, --greedy, --logits-only: expected a golden "
                                       "file, found a receipt, which is always exact");
    if (a->bisect && (a->records.n != 2 || a->block >= 0))
        return fail(err, TBLOCK_USAGE,
                    "--bisect: expected two receipts and no --block, found %zu%s", a->records.n,
                    a->block >= 0 ? " and --block" : "");
    f->reads = a->records;
    return receipts_verify(f, &(ReceiptFiles){ a->junit, a->records, a->json, a->trust_hash,
                                               a->bisect, a->block }, err);
}

/* With --sandbox, nothing is read outside of it. */
static bool verify_hold(Frame *f, tblock_error *err)
{
    const VerifyArgs *a    = f->args;
    bool              good = true;
    for (size_t i = 0; f->compute.sandbox && good && i < a->records.n; i++) {
        char *name[2] = { (char *)(uintptr_t)a->records.texts[i], NULL };
        (void)tblock_verify_tokens(name[0], &name[1], NULL); /* whoever opens it says why */
        for (int j = 0; good && j < 2; j++)
            good = guarded_hold(name[j], TBLOCK_HOLD_FILE, err);
        tblock_free(name[1]);
    }
    return good;
}

static bool verify_check(Frame *f, tblock_error *err)
{
    const VerifyArgs *a = f->args;
    return !a->exact || isnan(a->tol)
        || fail(err, TBLOCK_USAGE, "--exact and --tol: expected only one of them, found both");
}

#define AT(field) offsetof(VerifyArgs, field)
static const Option options[] = {
    { "exact",  0, NULL, OPT_FLAG,  AT(exact),  0, 0, NULL, "require equal bits" },
    { "tol",    0, "X",  OPT_FLOAT, AT(tol),    0, 1e30, NULL,
      "largest allowed difference of a logit; default: the rule in docs/numerics.md" },
    { "logits-only", 0, NULL, OPT_FLAG, AT(logits_only), 0, 0, NULL,
      "ask only about the logits: config, weights, tokenizer and chat template may differ from "
      "those that the golden file records. So it is with --tol" },
    { "greedy", 0, NULL, OPT_FLAG,  AT(greedy), 0, 0, NULL,
      "also generate the greedy continuations of the golden file again" },
    { "block",  0, "N",  OPT_INT, AT(block), -1, INT32_MAX, "-1",
      "of receipts, compute only block N of 64 sampled tokens, from 0; -1: all" },
    { "bisect", 0, NULL, OPT_FLAG, AT(bisect), 0, 0, NULL,
      "find the first block in which two receipts differ, and compute it for both" },
    OPTION_TRUST_HASH(AT(trust_hash)),
    OPTION_JSON(AT(json), "print one JSON object instead of the table"),
    { "junit",  0, "FILE", OPT_TEXT, AT(junit), 0, 0, NULL,
      "also write the result as JUnit XML, with a test case for each sequence or receipt" },
    { 0 },
};
const Command cmd_verify = {
    { "verify",
      OPERANDS(OPERAND_MODEL(AT(model)),
               { "RECORD...", AT(records), false,
                 "a safetensors file with [PREFIX.]tokens and [PREFIX.]logits_f64 or logits; or "
                 "logits.npy, with tokens.npy beside it; or any number of receipts (- is one on "
                 "standard input)" }),
      GROUPS({ "Options", options, 0 }, GROUP_COMPUTE(AT(compute)), GROUP_GENERAL(AT(general))) },
    "compute logits again and compare them with recorded ones",
    "Of a golden file, prints a line for each sequence: largest difference, mean and largest KL "
    "divergence in nats, share of positions with the same most likely token and with the same "
    "five, and first position out of tolerance. If the golden file has hidden states (logits "
    "--hidden), it also prints in which layer, and in which half of it, the runs diverge. Of "
    "receipts (run --receipt, docs/receipts.md), prints whether each holds: every token is the one "
    "that its logits give, with the options and the seed of the receipt, and every bit of those "
    "logits is the same. If not, it prints the first position, or the settings that are others "
    "here. Exit status 1 if something differs.",
    EXAMPLES({ "tblock verify model.bin golden.safetensors",
               "does the model still compute what was recorded?" },
             { "tblock verify model.bin golden.safetensors --exact --threads 3",
               "are the bits the same with three threads?" },
             { "tblock verify model.bin theirs/logits.npy --junit verify.xml",
               "compare with NumPy arrays, for a CI system" },
             { "tblock verify model.bin *.receipt.json",
               "did this model say these texts, token by token and bit by bit?" },
             { "tblock verify model.bin --bisect mine.json theirs.json",
               "where do these two part, and which of them is right there?" }),
    .args_size = sizeof(VerifyArgs), .run = verify, .check = verify_check, .opens = OPENS_FILES,
    .writes = { "junit" }, .hold = verify_hold,
};
