#include "command.h"
#include "common.h"
#include "guarded.h"
#include "message.h"
#include "output.h"
#include "progress_bar.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "tblock_tools.h"

typedef struct VerifyArgs {
    const char    *model, *golden, *junit;
    bool           exact, greedy, json;
    double         tol; /* NaN: not given */
    ComputeOptions compute;
    GeneralOptions general;
} VerifyArgs;

enum { LONGEST_NAME = 10 }; /* that the table has a column for in 80 */

/* A name from a file, safe to print. */
static const char *row_name(const tblock_verify_row *r, char out[80])
{
    printable_text(out, 80, r->name, strlen(r->name));
    return r->name[0] ? out : "(unnamed)";
}

/* printf writes NaN with its sign, which is noise. */
static const char *spell_number(double x, char out[24])
{
    snprintf(out, 24, isnan(x) ? "nan" : "%.3g", x);
    return out;
}

/* A name that is too long for its column gets a line of its own. */
static void print_row(const tblock_verify_row *r, int name_width)
{
    char name[80], verdict[48] = "DIFFERS", max_abs[24], mean_kl[24], max_kl[24];
    if (r->first_diff >= 0)
        snprintf(verdict, sizeof verdict, "DIFFERS at %" PRId64, r->first_diff);
    const char *shown = row_name(r, name);
    if ((int)strlen(shown) > name_width) {
        output_format("%s\n", shown);
        shown = "";
    }
    output_format("%-*s  %6zu %10s %8s %8s %6.2f%% %6.2f%%  ", name_width, shown, r->n_tokens,
                  spell_number(r->max_abs, max_abs), spell_number(r->mean_kl, mean_kl), spell_number(r->max_kl, max_kl),
                  r->top1 * 100, r->top5 * 100);
    output_toned(r->ok ? TONE_GOOD : TONE_BAD, r->ok ? "ok" : verdict);
    output_format("\n");
}

/* --greedy */
static void print_greedy(const tblock_verify_row *r)
{
    char name[80];
    if (r->greedy_diff >= 0)
        output_format("%s: the greedy continuation differs from token %" PRId64 " on\n", row_name(r, name), r->greedy_diff);
    else if (r->n_greedy > 0)
        output_format("%s: %zu tokens of the greedy continuation, all the same\n", row_name(r, name), r->n_greedy);
}

/* Where hidden states were recorded: do they part, and where first? */
static void print_parted(const tblock_verify_row *r)
{
    char name[80], parted_abs[24];
    if (r->n_hidden == 0)
        return;
    output_format("%s: ", row_name(r, name));
    if (r->parted[0])
        output_format("the runs diverge in %s, from position %" PRId64 " on\n    max |diff| there %s\n", r->parted, r->parted_pos,
                      spell_number(r->parted_abs, parted_abs));
    else
        output_format("%d hidden states, all the same\n", r->n_hidden);
}

static const char *spell_rule(const tblock_verify_report *report, char out[48])
{
    if (report->exact)
        snprintf(out, 48, "equal bit by bit");
    else
        snprintf(out, 48, "within %.3g", report->tol);
    return out;
}

static void print_table(const tblock_verify_report *report, const char *golden)
{
    char   rule[48], name[80];
    size_t n_ok = 0;
    int    width = (int)strlen("sequence");

    for (size_t i = 0; i < report->n_rows; i++) {
        int n = (int)strlen(row_name(&report->rows[i], name));
        width = n > width && n <= LONGEST_NAME ? n : width;
        n_ok += report->rows[i].ok;
    }
    output_format("%-*s  %6s %10s %8s %8s %7s %7s  %s\n", width, "sequence", "tokens", "max |diff|", "mean KL", "max KL", "top-1", "top-5",
                  "verdict");
    for (size_t i = 0; i < report->n_rows; i++)
        print_row(&report->rows[i], width);
    for (size_t i = 0; i < report->n_rows; i++)
        print_greedy(&report->rows[i]);
    for (size_t i = 0; i < report->n_rows; i++)
        print_parted(&report->rows[i]);
    char shown[CLI_SHOWN];
    output_format("%s: %zu of %zu sequences %s\n", cli_shown(shown, golden), n_ok, report->n_rows, spell_rule(report, rule));
}

static void print_json_row(const tblock_verify_row *r)
{
    output_format("{\"name\": ");
    output_json_text(r->name, strlen(r->name));
    output_format(", \"tokens\": %zu, ", r->n_tokens);
    output_json_number("max_abs", r->max_abs);
    output_format(", ");
    output_json_number("mean_kl", r->mean_kl);
    output_format(", ");
    output_json_number("max_kl", r->max_kl);
    output_format(", ");
    output_json_number("top1", r->top1);
    output_format(", ");
    output_json_number("top5", r->top5);
    output_format(", \"first_diff\": %" PRId64 ", \"greedy\": %zu, \"greedy_diff\": %" PRId64 ", \"hidden\": %d, ",
                  r->first_diff, r->n_greedy, r->greedy_diff, r->n_hidden);
    if (r->parted[0]) {
        output_format("\"parted\": ");
        output_json_text(r->parted, strlen(r->parted));
        output_format(", \"parted_layer\": %d, \"parted_position\": %" PRId64 ", ", r->parted_layer, r->parted_pos);
        output_json_number("parted_abs", r->parted_abs);
        output_format(", ");
    }
    output_format("\"ok\": %s}", r->ok ? "true" : "false");
}

static void print_json(const tblock_verify_report *report)
{
    output_format("{\"ok\": %s, \"exact\": %s, ", report->ok ? "true" : "false", report->exact ? "true" : "false");
    output_json_number("tol", report->tol);
    output_format(", \"recorded\": %s, \"other_settings\": ", report->recorded ? "true" : "false");
    output_json_text(report->settings, strlen(report->settings));
    output_format(", \"advice\": ");
    output_json_text(report->advice, strlen(report->advice));
    output_format(", \"sequences\": [");
    for (size_t i = 0; i < report->n_rows; i++) {
        output_format("%s", i ? ", " : "");
        print_json_row(&report->rows[i]);
    }
    output_format("]}\n");
}

/* The golden was made by another run than this: with --exact that belongs to a verdict of no, also when quiet. */
static void note_settings(const tblock_verify_report *report, const char *golden, bool quiet)
{
    bool why = report->exact && !report->ok;
    if (report->settings[0])
        cli_note(quiet && !why, "%s: recorded with other settings: %s%s", golden, report->settings,
                 why ? ", so the bits may differ" : "");
}

/* What to try where the answer is no. */
static void note_advice(const tblock_verify_report *report, const char *golden, bool quiet)
{
    if (report->advice[0])
        cli_note(quiet, "%s: %s", golden, report->advice);
}

/* The answer is no: say where the first difference is. */
static bool report_difference(const tblock_verify_report *report, const char *golden, tblock_error *err)
{
    const tblock_verify_row *r = report->rows;
    char                     name[80], why[400];
    while (r->ok && r + 1 < report->rows + report->n_rows)
        r++;
    tblock_verify_explain(report, r, why, sizeof why);
    return fail(err, TBLOCK_NO, "%s: %s: %s", golden, row_name(r, name), why);
}

/* --junit: also where the comparison did not run, for a reader that only sees the file. */
static bool write_junit(const VerifyArgs *a, Guarded *junit, const tblock_verify_report *report, tblock_error *err)
{
    tblock_error why = err ? *err : (tblock_error){ 0 };
    return !a->junit || (tblock_verify_junit(junit->path ? junit->path : a->junit, a->golden, report, &why, err)
                         && guarded_commit(junit, err));
}

/* The report must not replace what is compared. Where the model could not be opened either, that is what is told. */
static bool check_junit(const VerifyArgs *a, const tblock_model *m, tblock_error *err)
{
    tblock_error why = { 0 };
    char        *tokens = NULL;
    if (!a->junit)
        return true;
    bool named = tblock_verify_tokens(a->golden, &tokens, &why) || why.status != TBLOCK_SYSTEM;
    bool good = named && output_apart(a->junit, m, &(Inputs){ a->model, { a->golden, tokens } }, &why);
    tblock_free(tokens);
    if (!good && m)
        *err = why;
    return good;
}

static bool compare(const VerifyArgs *a, tblock_context *c, Guarded *junit, tblock_verify_options *o, tblock_verify_report *report,
                    tblock_error *err)
{
    bool    sandbox = a->compute.sandbox;
    Guarded golden = { 0 }, tokens = { 0 };
    char   *name = NULL;
    bool    good = (!sandbox || tblock_verify_tokens(a->golden, &name, err)) && guarded_input(&golden, a->golden, sandbox, err) &&
                guarded_input(&tokens, name, sandbox, err) && guarded_output(junit, a->junit, sandbox, err);
    o->tokens = name ? tokens.path : NULL;
    good = good && guarded_enter(sandbox, junit, 1, -1, err);
    if (good) {
        progress_show("verifying", 0);
        good = tblock_verify(c, golden.path, o, report, err);
        progress_end();
    }
    guarded_close(&golden, err);
    guarded_close(&tokens, err);
    tblock_free(name);
    return good;
}

static bool answer(const VerifyArgs *a, const tblock_verify_report *report, tblock_error *err)
{
    note_settings(report, a->golden, a->general.quiet);
    note_advice(report, a->golden, a->general.quiet);
    if (a->json)
        print_json(report);
    else
        print_table(report, a->golden);
    return output_flush(err) && (report->ok || report_difference(report, a->golden, err));
}

static bool verify(void *args, tblock_error *err)
{
    const VerifyArgs    *a = args;
    tblock_verify_report report = { 0 };
    Guarded              junit = { 0 };
    if (a->exact && !isnan(a->tol))
        return fail(err, TBLOCK_USAGE, "--exact and --tol: expected only one of them, found "
                                           "both");
    tblock_model *m = compute_open(a->model, &a->compute, err);
    if (!check_junit(a, m, err)) {
        tblock_close(m);
        return false;
    }
    tblock_context *c = m ? compute_context(m, a->model, &a->compute, a->general.quiet, err) : NULL;
    tblock_verify_options o = { .exact = a->exact, .greedy = a->greedy, .has_tol = !isnan(a->tol), .tol = a->tol,
                                .progress = progress_advance };
    bool ran = c && compare(a, c, &junit, &o, &report, err);
    bool good = write_junit(a, &junit, ran ? &report : NULL, err) && ran && answer(a, &report, err);
    guarded_close(&junit, err);
    tblock_free(report.rows);
    tblock_context_free(c);
    tblock_close(m);
    return good;
}

#define AT(field) offsetof(VerifyArgs, field)
static const Option options[] = {
    { "exact",  0, NULL, OPT_FLAG,  AT(exact),  0, 0, NULL, "require equal bits" },
    { "tol",    0, "X",  OPT_FLOAT, AT(tol),    0, 1e30, NULL,
      "largest allowed difference of a logit; default: the rule in docs/numerics.md" },
    { "greedy", 0, NULL, OPT_FLAG,  AT(greedy), 0, 0, NULL,
      "also generate the greedy continuations of the golden file again" },
    OPTION_JSON(AT(json), "print one JSON object instead of the table"),
    { "junit",  0, "FILE", OPT_TEXT, AT(junit), 0, 0, NULL,
      "also write the result as JUnit XML, with a test case for each sequence" },
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(model), false, MODEL_OPERAND },
    { "GOLDEN", AT(golden), false, "a safetensors file with [PREFIX.]tokens and [PREFIX.]logits_f64 or logits; or logits.npy, with tokens.npy beside it" },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Options", options, 0 },
    GROUP_COMPUTE(AT(compute)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock verify model.bin golden.safetensors", "does the model still compute what was recorded?" },
    { "tblock verify model.bin golden.safetensors --exact --threads 3",
      "are the bits the same with three threads?" },
    { "tblock verify model.bin theirs/logits.npy --junit verify.xml",
      "compare with NumPy arrays, for a CI system" },
    { 0 },
};
const Command cmd_verify = {
    { "verify", operands, groups },
    "compute logits again and compare them with recorded ones",
    "Prints a line for each sequence: largest difference, mean and largest KL divergence in nats, "
    "share of positions with the same most likely token and with the same five, and first position "
    "out of tolerance. If the golden file has hidden states (logits --hidden), it also prints in "
    "which layer, and in which half of it, the runs diverge. Exit status 1 if something differs.",
    examples, sizeof(VerifyArgs), verify,
};
