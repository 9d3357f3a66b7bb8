/* tblock eval: perplexity, divergence from another model, multiple choice. */
#include "frame.h"
#include "tblock_tools.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct EvalArgs {
    const char    *model, *text, *against, *choices, *delimiter;
    IdList         ids;
    int            stride;
    bool           no_bos, special, json, each;
    ComputeOptions compute;
    GeneralOptions general;
} EvalArgs;

/* ---- Output ---------------------------------------------------------------------------------- */

enum { SPELLED = 32 };

static const char *spell(double x, int digits, char out[SPELLED])
{
    return real_spell(x, (Unit)(UNIT_DIGITS + digits), out, SPELLED);
}

/* A number and its standard error, KEY_error in JSON. A percentage has its unit after both; "-":
 * one number has no error. */
static void error_row(Rows *r, const char *key, const char *label, double x, int digits,
                      double error, int error_digits, bool percent)
{
    char        error_key[48], number[SPELLED], deviation[SPELLED];
    const char *unit = percent ? " %" : "";
    double      scale = percent ? 100 : 1;
    bool        none = isnan(error);
    snprintf(error_key, sizeof error_key, "%s_error", key);
    rows_members(r, { key, v_real(x) }, { error_key, v_real(error) });
    if (label)
        rows_pair(r, label, "%s%s +- %s%s", spell(scale * x, digits, number), unit,
                  none ? "-" : spell(scale * error, error_digits, deviation), none ? "" : unit);
}

static void percent_row(Rows *r, const char *key, const char *label, double x, int digits)
{
    char number[SPELLED];
    rows_put(r, key, v_real(x));
    rows_pair(r, label, "%s %%", spell(100 * x, digits, number));
}

static void text_rows(Rows *r, const tblock_eval_report *e, int window, int stride)
{
    char number[SPELLED];
    rows_members(r, { "tokens", v_count(e->n_tokens) }, { "scored", v_count(e->n_scored) },
                 { "windows", v_count(e->n_windows) });
    rows_pair(r, "tokens", "%zu, scored %zu, in %zu window%s of %d, stride %d", e->n_tokens,
              e->n_scored, e->n_windows, e->n_windows == 1 ? "" : "s", window, stride);
    error_row(r, "perplexity", "perplexity", e->perplexity, 7, e->perplexity_error, 3, false);
    error_row(r, "nll", "nats per token", e->nll, 7, e->nll_error, 3, false);
    rows_put(r, "recipe_perplexity", v_real(e->recipe_perplexity));
    rows_value(r, "bits_per_byte", isnan(e->bits_per_byte) ? NULL : "bits per byte",
               v_real(e->bits_per_byte), UNIT_DIGITS + 6);
    percent_row(r, "accuracy", "top-1 accuracy", e->accuracy, 4);
    if (stride != window)
        rows_text(r, "perplexity with windows weighted as in transformers' recipe: %s\n",
                  spell(e->recipe_perplexity, 7, number));
}

static void kl_rows(Rows *r, const tblock_against_report *e)
{
    static const char *const keys[] = { "kl_50", "kl_90", "kl_95", "kl_99", "kl_99_9", "kl_min" };
    static const char *const names[] = { "  median", "  90 %", "  95 %",
                                         "  99 %",   "  99.9 %", "  smallest" };
    char mean[SPELLED], error[SPELLED], largest[SPELLED];
    rows_members(r, { "mean_kl", v_real(e->mean_kl) },
                 { "mean_kl_error", v_real(e->mean_kl_error) }, { "max_kl", v_real(e->max_kl) },
                 { "max_kl_at", v_int(e->max_kl_at) });
    rows_pair(r, "mean KL", "%s +- %s nats", spell(e->mean_kl, 5, mean),
              isnan(e->mean_kl_error) ? "-" : spell(e->mean_kl_error, 3, error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rows_value(r, keys[i], names[i], v_real(e->percentile[i]), UNIT_DIGITS + 4);
    rows_pair(r, "  largest", "%s, at token %" PRId64, spell(e->max_kl, 4, largest), e->max_kl_at);
}

static void parent_rows(Rows *r, const tblock_against_report *e)
{
    char theirs[SPELLED], ratio[SPELLED], log_ratio[SPELLED], error[SPELLED], rms[SPELLED];
    if (r->face == FACE_JSON) {
        rows_open(r, "parent", '{');
        text_rows(r, &e->parent, 0, 0);
        rows_close(r, '}');
    }
    rows_text(r, "\ncompared with the parent\n");
    rows_pair(r, "perplexity", "%s, ours / parent's %s (ln: %s +- %s)",
              spell(e->parent.perplexity, 7, theirs),
              spell(e->ours.perplexity / e->parent.perplexity, 7, ratio),
              spell(e->log_ratio, 4, log_ratio),
              isnan(e->log_ratio_error) ? "-" : spell(e->log_ratio_error, 3, error));
    kl_rows(r, e);
    error_row(r, "top1", "same top-1", e->top1, 5, e->top1_error, 2, true);
    percent_row(r, "top5", "same top-5", e->top5, 5);
    error_row(r, "log_ratio", NULL, e->log_ratio, 0, e->log_ratio_error, 0, false);
    rows_put(r, "rms_probability", v_real(e->rms_probability));
    rows_text(r, "RMS difference of the correct token's probability  %s %%\n",
              spell(100 * e->rms_probability, 4, rms));
}

/* ---- A text ---------------------------------------------------------------------------------- */

static bool show_progress(void *user, double done)
{
    (void)user;
    progress_show("evaluating", done);
    return !interrupted();
}

/* The results until Ctrl-C have been printed; the status reports it. */
static bool end(bool stopped, tblock_error *err)
{
    return output_flush(err) && (!stopped || fail(err, CLI_INTERRUPTED, "%s", ""));
}

static bool answer_text(const EvalArgs *a, const tblock_against_report *r, int window, int stride,
                        tblock_error *err)
{
    bool stopped = r->ours.stopped;
    Rows rows = OUTPUT_ROWS(a->json, 14);
    if (a->json || r->ours.n_scored || !stopped) {
        rows_open(&rows, NULL, '{');
        rows_members(&rows, { "window", v_int(window) }, { "stride", v_int(stride) });
        text_rows(&rows, &r->ours, window, stride);
        if (a->against)
            parent_rows(&rows, r);
        rows_put(&rows, "interrupted", v_flag(stopped));
        rows_close(&rows, '}');
    }
    if (!output_rows(&rows, err))
        return false;
    if (stopped && r->ours.n_scored)
        cli_note("interrupted: these numbers cover only the first %zu scored "
                                   "tokens", r->ours.n_scored);
    else if (stopped)
        cli_note("interrupted before any token was scored");
    return end(stopped, err);
}

/* How many tokens the tokenizer puts before a text. */
static bool count_added(const EvalArgs *a, const tblock_model *m, size_t *n, tblock_error *err)
{
    int32_t *ids = NULL;
    *n = 0;
    bool good =
        a->ids.given || a->no_bos || tblock_tokenize(m, "", 0, TBLOCK_ADD_SPECIAL, &ids, n, err);
    tblock_free(ids);
    return good;
}

static bool score_text(const EvalArgs *a, tblock_context *c, tblock_context *parent,
                       const PromptInput *p, size_t n_added, tblock_error *err)
{
    tblock_against_report r = { 0 };
    tblock_context_info   info, other;
    tblock_context_describe(c, &info);
    tblock_context_describe(parent ? parent : c, &other);
    int window = other.n_ctx < info.n_ctx ? other.n_ctx : info.n_ctx,
        stride = a->stride ? a->stride : window;
    tblock_eval_options o = { .window = window,
                              .stride = a->stride,
                              .n_bytes = p->n_text,
                              .n_added = n_added,
                              .progress = show_progress };
    interrupt_catch(); /* not before: until a token is scored, Ctrl-C ends the program */
    bool good = parent ? tblock_eval_against(c, parent, p->ids, p->n, &o, &r, err)
                       : tblock_eval_text(c, p->ids, p->n, &o, &r.ours, err);
    progress_end();
    return good && answer_text(a, &r, window, stride, err);
}

static bool eval_text(Frame *f, tblock_error *err)
{
    const EvalArgs *a = f->args;
    /* options that change bits apply to the model; its reference is as it is */
    ComputeOptions  plain   = f->compute;
    size_t          n_added = 0;
    tblock_model   *parent  = NULL;
    tblock_context *other   = NULL;
    plain.math = plain.activations = plain.kv_type = plain.type = "auto";
    plain.keep = plain.lora = (TextList){ 0 };

    bool good = frame_prompt(f, err) && count_added(a, f->model, &n_added, err);
    if (good && !a->ids.given && f->prompt.n < 2)
        good = fail(err, TBLOCK_INPUT, "%s: expected a text of at least two tokens, found %zu: "
                                           "the first token is never predicted",
                        a->text ? a->text : "standard input", f->prompt.n);
    if (good && a->against)
        good = (parent = compute_open(a->against, &plain, err)) != NULL
            && (other = compute_context(parent, a->against, &plain, err)) != NULL;
    good = good && score_text(a, f->context, other, &f->prompt, n_added, err);
    tblock_context_free(other);
    tblock_close(parent);
    return good;
}

/* ---- Multiple choice ------------------------------------------------------------------------- */

static void question_row(Rows *r, const tblock_choices_report *c, const tblock_choices_row *q)
{
    char        sum[SPELLED];
    bool        right = q->best == q->answer, by_length = q->best_norm == q->answer;
    const char *verdict = q->best < 0 ? "undecided" : right ? "right" : "wrong";
    const char *other = right == by_length ? ""
        : by_length                        ? ", right by length"
                                           : ", wrong by length";
    rows_line(r, 0);
    rows_open(r, NULL, '{');
    rows_members(r, { "line", v_count(q->line) }, { "answer", v_int(q->answer) },
                 { "best", v_int(q->best) }, { "best_norm", v_int(q->best_norm) });
    rows_text(r, "line %zu: answer %d, %s%s:", q->line, q->answer, verdict, other);
    rows_open(r, "choices", '[');
    for (size_t i = 0; i < q->n; i++) {
        const tblock_choice_score *s = &c->score[q->first + i];
        rows_object(r, NULL, { "sum", v_real(s->sum) }, { "tokens", v_count(s->n_tokens) },
                    { "bytes", v_count(s->n_bytes) });
        rows_text(r, " %s", spell(s->sum, 6, sum));
    }
    rows_close(r, ']');
    rows_close(r, '}');
    rows_text(r, "\n");
}

static void question_rows(Rows *r, const tblock_choices_report *c)
{
    rows_open(r, "each", '[');
    for (size_t i = 0; i < c->n_rows; i++)
        question_row(r, c, &c->rows[i]);
    rows_close(r, ']');
}

/* Text lists the questions before the sums, JSON after them. */
static bool print_choices(const EvalArgs *a, const tblock_choices_report *c, tblock_error *err)
{
    Rows r = OUTPUT_ROWS(a->json, 16);
    if (a->each && !a->json)
        question_rows(&r, c);
    rows_open(&r, NULL, '{');
    rows_value(&r, "questions", "questions", v_count(c->n_rows), UNIT_NONE);
    rows_put(&r, "cut", v_count(c->n_cut));
    error_row(&r, "accuracy", "accuracy", c->accuracy, 4, c->accuracy_error, 3, true);
    error_row(&r, "accuracy_norm", "  by length", c->accuracy_norm, 4, c->accuracy_norm_error, 3,
              true);
    if (a->each && a->json)
        question_rows(&r, c);
    rows_put(&r, "interrupted", v_flag(c->stopped));
    rows_close(&r, '}');
    return output_rows(&r, err);
}

static bool eval_choices(const EvalArgs *a, tblock_context *c, tblock_error *err)
{
    tblock_choices_report  r = { 0 };
    tblock_choices_options o = { .delimiter = a->delimiter,
                                 .no_added = a->no_bos,
                                 .progress = show_progress };
    interrupt_catch();
    bool good = tblock_eval_choices(c, a->choices, &o, &r, err);
    progress_end();
    if (good) {
        good = (!a->json && !r.n_rows && r.stopped) || print_choices(a, &r, err);
        if (r.n_cut > 0)
            cli_note("%zu of the questions did not fit into the context: their "
                                       "beginnings were cut off", r.n_cut);
        if (r.stopped)
            cli_note("interrupted: these numbers cover only the first %zu questions", r.n_rows);
        good = good && end(r.stopped, err);
    }
    tblock_free(r.rows);
    tblock_free(r.score);
    return good;
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool eval_check(Frame *f, tblock_error *err)
{
    const EvalArgs *a = f->args;
    const char *both = a->text && a->ids.given ? "TEXT and --ids"
        : a->choices && a->text                ? "TEXT and --choices"
        : a->choices && a->ids.given           ? "--ids and --choices"
                                               : NULL;
    if (both)
        return fail(err, TBLOCK_USAGE, "%s: expected only one of them, found both", both);
    if (a->choices && (a->against || a->stride || a->special))
        return fail(err, TBLOCK_USAGE, "--%s: expected a text, found --choices",
                    a->against      ? "against"
                        : a->stride ? "stride"
                                    : "special");
    if (!a->choices && (a->delimiter || a->each))
        return fail(err, TBLOCK_USAGE, "--%s: expected --choices with it",
                    a->delimiter ? "delimiter" : "each");
    f->other = a->against;
    f->needs = a->choices ? "multiple choice needs one" : NULL;
    f->from  = (PromptOptions){ .file = a->text,
                                .ids = a->ids,
                                .no_bos = a->no_bos,
                                .special = a->special,
                                .needs_text = true };
    return true;
}

/* The library reads the file of --choices, which may be a pipe. */
static bool eval_hold(Frame *f, tblock_error *err)
{
    const EvalArgs *a = f->args;
    return !f->compute.sandbox || !a->choices || tblock_hold(a->choices, TBLOCK_HOLD_TEXT, err);
}

static bool eval(Frame *f, tblock_error *err)
{
    const EvalArgs *a = f->args;
    return a->choices ? eval_choices(a, f->context, err) : eval_text(f, err);
}

#define AT(field) offsetof(EvalArgs, field)
static const Option text_options[] = {
    OPTION_IDS(AT(ids), "token ids instead of TEXT, such as 1,2,3; no BOS is added"),
    { "stride",    0, "N",    OPT_INT,  AT(stride),  0, 1 << 24, "0",
      "tokens from the start of one window to the start of the next; 0: windows do not overlap" },
    { "against",   0, "PARENT", OPT_TEXT, AT(against), 0, 0, NULL,
      "the model that MODEL was quantized from; also prints the KL divergence from it" },
    OPTION_SPECIAL(AT(special), "TEXT"),
    { 0 },
};
static const Option choice_options[] = {
    { "choices",   0, "FILE", OPT_TEXT, AT(choices), 0, 0, NULL,
      "a JSONL file of questions: context (or question), choices, answer (from 0); -: standard "
      "input" },
    { "delimiter", 0, "TEXT", OPT_TEXT, AT(delimiter), 0, 0, NULL,
      "text between context and choice; default: a space" },
    { "each", 0, NULL, OPT_FLAG, AT(each), 0, 0, NULL, "also print the scores of each question" },
    { 0 },
};
static const Option options[] = {
    OPTION_NO_BOS(AT(no_bos), "leave out the tokens that the tokenizer adds before a text"),
    OPTION_JSON(AT(json), "print one JSON object"),
    { 0 },
};
const Command cmd_eval = {
    { "eval",
      OPERANDS(OPERAND_MODEL(AT(model)),
               { "TEXT", AT(text), true,
                 "a text file (at most 64 MB); default: standard input, unless --ids or --choices "
                 "is given" }),
      GROUPS({ "Perplexity of a text", text_options, 0 }, { "Multiple choice", choice_options, 0 },
             { "Options", options, 0 }, GROUP_COMPUTE(AT(compute)), GROUP_GENERAL(AT(general))) },
    "measure a model: perplexity, multiple choice, KL divergence",
    "Prints the perplexity of a text with its standard error, in windows of --ctx tokens as in the "
    "documentation of transformers, and bits per byte. With --against, it prints how far the "
    "distributions are from those of another model. With --choices, it prints the share of "
    "questions whose right answer is the most likely one, by log-likelihood and by log-likelihood "
    "per byte. The number of threads does not change one bit of the numbers. Ctrl-C ends it and "
    "prints the numbers so far.",
    EXAMPLES({ "tblock eval model.bin text.txt --stride 128",
               "perplexity; each token sees at least the --ctx minus 128 tokens before it" },
             { "tblock eval model-q4.bin text.txt --against model.bin",
               "what did quantizing change?" },
             { "tblock eval model.bin text.txt --type q4 --against model.bin",
               "the same without writing a file" },
             { "tblock eval model.bin --choices questions.jsonl --json",
               "how many answers are right?" }),
    .args_size = sizeof(EvalArgs), .run = eval, .check = eval_check, .opens = OPENS_CONTEXT,
    .reads = { "TEXT" }, .hold = eval_hold,
};
