#include "command.h"
#include "common.h"
#include "guarded.h"
#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "progress_bar.h"
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

/* ---- Output ----------------------------------------------------------------------------------------------------- */

static void put_number(const char *key, double x)
{
    output_format(", ");
    output_json_number(key, x);
}

/* printf writes NaN with its sign, which is noise. */
static const char *spell(double x, int digits, char out[32])
{
    snprintf(out, 32, isnan(x) ? "nan" : "%.*g", digits, x);
    return out;
}

/* A standard error and its unit; - where one number has none. */
static const char *spell_error(double x, int digits, const char *unit, char out[32])
{
    snprintf(out, 32, isnan(x) ? "-" : "%.*g%s", digits, x, unit);
    return out;
}

static void print_text(const tblock_eval_report *r, int window, int stride)
{
    char a[32], b[32], c[32];
    output_format("tokens          %zu, scored %zu, in %zu window%s of %d, stride %d\n", r->n_tokens, r->n_scored, r->n_windows,
                  r->n_windows == 1 ? "" : "s", window, stride);
    output_format("perplexity      %s +- %s\n", spell(r->perplexity, 7, a), spell_error(r->perplexity_error, 3, "", b));
    output_format("nats per token  %s +- %s\n", spell(r->nll, 7, a), spell_error(r->nll_error, 3, "", b));
    if (!isnan(r->bits_per_byte))
        output_format("bits per byte   %s\n", spell(r->bits_per_byte, 6, a));
    output_format("top-1 accuracy  %s %%\n", spell(100 * r->accuracy, 4, a));
    if (stride != window)
        output_format("perplexity with windows weighted as in transformers' recipe: %s\n", spell(r->recipe_perplexity, 7, c));
}

static void put_text(const tblock_eval_report *r)
{
    output_format("\"tokens\": %zu, \"scored\": %zu, \"windows\": %zu", r->n_tokens, r->n_scored, r->n_windows);
    put_number("perplexity", r->perplexity);
    put_number("perplexity_error", r->perplexity_error);
    put_number("nll", r->nll);
    put_number("nll_error", r->nll_error);
    put_number("recipe_perplexity", r->recipe_perplexity);
    put_number("bits_per_byte", r->bits_per_byte);
    put_number("accuracy", r->accuracy);
}

static void print_against(const tblock_against_report *r, int window, int stride)
{
    static const char *const names[] = { "median", "90 %", "95 %", "99 %", "99.9 %", "smallest" };
    char a[32], b[32];
    print_text(&r->ours, window, stride);
    output_format("\ncompared with the parent\n");
    output_format("perplexity      %s, ours / parent's %s", spell(r->parent.perplexity, 7, a),
                  spell(r->ours.perplexity / r->parent.perplexity, 7, b));
    output_format(" (ln: %s +- %s)\n", spell(r->log_ratio, 4, a), spell_error(r->log_ratio_error, 3, "", b));
    output_format("mean KL         %s +- %s nats\n", spell(r->mean_kl, 5, a), spell_error(r->mean_kl_error, 3, "", b));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        output_format("  %-12s  %s\n", names[i], spell(r->percentile[i], 4, a));
    output_format("  %-12s  %s, at token %" PRId64 "\n", "largest", spell(r->max_kl, 4, a), r->max_kl_at);
    output_format("same top-1      %s %% +- %s\n", spell(100 * r->top1, 5, a), spell_error(100 * r->top1_error, 2, " %", b));
    output_format("same top-5      %s %%\n", spell(100 * r->top5, 5, a));
    output_format("RMS difference of the correct token's probability  %s %%\n", spell(100 * r->rms_probability, 4, a));
}

static void put_against(const tblock_against_report *r)
{
    static const char *const names[] = { "kl_50", "kl_90", "kl_95", "kl_99", "kl_99_9", "kl_min" };
    put_text(&r->ours);
    output_format(", \"parent\": {");
    put_text(&r->parent);
    output_format("}");
    put_number("mean_kl", r->mean_kl);
    put_number("mean_kl_error", r->mean_kl_error);
    put_number("max_kl", r->max_kl);
    output_format(", \"max_kl_at\": %" PRId64, r->max_kl_at);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_number(names[i], r->percentile[i]);
    put_number("top1", r->top1);
    put_number("top1_error", r->top1_error);
    put_number("top5", r->top5);
    put_number("log_ratio", r->log_ratio);
    put_number("log_ratio_error", r->log_ratio_error);
    put_number("rms_probability", r->rms_probability);
}

/* ---- A text ----------------------------------------------------------------------------------------------------- */

static bool show_progress(void *user, double done)
{
    (void)user;
    progress_show("evaluating", done);
    return !interrupted();
}

/* What was done until Ctrl-C has been printed; the status tells. */
static bool end(bool stopped, tblock_error *err)
{
    return output_flush(err) && (!stopped || fail(err, CLI_INTERRUPTED, "%s", ""));
}

static bool answer_text(const EvalArgs *a, const tblock_against_report *r, int window, int stride, tblock_error *err)
{
    bool stopped = r->ours.stopped;
    if (a->json) {
        output_format("{\"window\": %d, \"stride\": %d, ", window, stride);
        a->against ? put_against(r) : put_text(&r->ours);
        output_format(", \"interrupted\": %s}\n", stopped ? "true" : "false");
    } else if (r->ours.n_scored || !stopped) {
        a->against ? print_against(r, window, stride) : print_text(&r->ours, window, stride);
    }
    if (stopped && r->ours.n_scored)
        cli_note(a->general.quiet, "interrupted: these numbers cover only the first %zu scored "
                                   "tokens", r->ours.n_scored);
    else if (stopped)
        cli_note(a->general.quiet, "interrupted before any token was scored");
    return end(stopped, err);
}

/* How many tokens the tokenizer puts before a text. */
static bool count_added(const EvalArgs *a, const tblock_model *m, size_t *n, tblock_error *err)
{
    int32_t *ids = NULL;
    *n = 0;
    bool good = a->ids.given || a->no_bos || tblock_tokenize(m, "", 0, TBLOCK_ADD_SPECIAL, &ids, n, err);
    tblock_free(ids);
    return good;
}

static bool score_text(const EvalArgs *a, tblock_context *c, tblock_context *parent, const Prompt *p, size_t n_added, tblock_error *err)
{
    tblock_against_report r = { 0 };
    tblock_context_info   info, other;
    tblock_context_describe(c, &info);
    tblock_context_describe(parent ? parent : c, &other);
    int window = other.n_ctx < info.n_ctx ? other.n_ctx : info.n_ctx, stride = a->stride ? a->stride : window;
    tblock_eval_options o = { .window = window, .stride = a->stride, .n_bytes = p->n_text, .n_added = n_added,
                              .progress = show_progress };
    bool good = parent ? tblock_eval_against(c, parent, p->ids, p->n, &o, &r, err) : tblock_eval_text(c, p->ids, p->n, &o, &r.ours, err);
    progress_end();
    return good && answer_text(a, &r, window, stride, err);
}

static bool eval_text(const EvalArgs *a, const tblock_model *m, tblock_context *c, tblock_error *err)
{
    PromptOptions   from = { .file = a->text, .ids = a->ids, .no_bos = a->no_bos, .special = a->special, .needs_text = true };
    ComputeOptions  plain = a->compute; /* what changes bits is the model's own affair; its parent is as it is */
    Prompt          p = { 0 };
    size_t          n_added = 0;
    tblock_model   *parent = NULL;
    tblock_context *other = NULL;
    plain.math = plain.activations = plain.kv_type = plain.type = "auto";
    plain.keep = (TextList){ 0 };

    bool good = prompt_read(&p, &from, m, a->model, a->general.quiet, err) && count_added(a, m, &n_added, err);
    if (good && !a->ids.given && p.n < 2)
        good = fail(err, TBLOCK_INPUT, "%s: expected a text of at least two tokens, found %zu: "
                                           "the first token is never predicted",
                        a->text ? a->text : "standard input", p.n);
    if (good && a->against)
        good = (parent = compute_open(a->against, &plain, err)) != NULL &&
               (other = compute_context(parent, a->against, &plain, a->general.quiet, err)) != NULL;
    good = good && guarded_enter(a->compute.sandbox, NULL, 0, -1, err) && score_text(a, c, other, &p, n_added, err);
    tblock_context_free(other);
    tblock_close(parent);
    prompt_free(&p);
    return good;
}

/* ---- Multiple choice -------------------------------------------------------------------------------------------- */

static void put_question(const tblock_choices_report *r, const tblock_choices_row *q)
{
    output_format("{\"line\": %zu, \"answer\": %d, \"best\": %d, \"best_norm\": %d, \"choices\": [", q->line, q->answer, q->best,
                  q->best_norm);
    for (size_t i = 0; i < q->n; i++) {
        const tblock_choice_score *s = &r->score[q->first + i];
        output_format("%s{", i ? ", " : "");
        output_json_number("sum", s->sum);
        output_format(", \"tokens\": %zu, \"bytes\": %zu}", s->n_tokens, s->n_bytes);
    }
    output_format("]}");
}

static void put_choices(const tblock_choices_report *r, bool each)
{
    output_format("{\"questions\": %zu, \"cut\": %zu", r->n_rows, r->n_cut);
    put_number("accuracy", r->accuracy);
    put_number("accuracy_error", r->accuracy_error);
    put_number("accuracy_norm", r->accuracy_norm);
    put_number("accuracy_norm_error", r->accuracy_norm_error);
    if (each) {
        output_format(", \"each\": [");
        for (size_t i = 0; i < r->n_rows; i++) {
            output_format("%s", i ? ",\n" : "\n");
            put_question(r, &r->rows[i]);
        }
        output_format("]");
    }
    output_format(", \"interrupted\": %s}\n", r->stopped ? "true" : "false");
}

static void print_question(const tblock_choices_report *r, const tblock_choices_row *q)
{
    char sum[32];
    output_format("line %zu: answer %d, %s%s:", q->line, q->answer,
                  q->best < 0 ? "undecided" : q->best == q->answer ? "right" : "wrong",
                  (q->best == q->answer) == (q->best_norm == q->answer) ? "" : q->best_norm == q->answer ? ", right by length"
                                                                                                    : ", wrong by length");
    for (size_t i = 0; i < q->n; i++)
        output_format(" %s", spell(r->score[q->first + i].sum, 6, sum));
    output_format("\n");
}

static void print_choices(const tblock_choices_report *r, bool each)
{
    char a[32], b[32];
    for (size_t i = 0; each && i < r->n_rows; i++)
        print_question(r, &r->rows[i]);
    output_format("questions         %zu\n", r->n_rows);
    output_format("accuracy          %s %% +- %s\n", spell(100 * r->accuracy, 4, a), spell_error(100 * r->accuracy_error, 3, " %", b));
    output_format("  by length       %s %% +- %s\n", spell(100 * r->accuracy_norm, 4, a),
                  spell_error(100 * r->accuracy_norm_error, 3, " %", b));
}

static bool eval_choices(const EvalArgs *a, tblock_context *c, tblock_error *err)
{
    tblock_choices_report  r = { 0 };
    tblock_choices_options o = { .delimiter = a->delimiter, .no_added = a->no_bos, .progress = show_progress };
    Guarded file = { 0 };
    bool    from_file = strcmp(a->choices, "-") != 0;
    bool    good = guarded_text(&file, from_file ? a->choices : NULL, a->compute.sandbox, err) &&
                guarded_enter(a->compute.sandbox, NULL, 0, -1, err) &&
                tblock_eval_choices(c, from_file ? file.path : a->choices, &o, &r, err);
    guarded_close(&file, err);
    progress_end();
    if (good) {
        if (a->json)
            put_choices(&r, a->each);
        else if (r.n_rows || !r.stopped)
            print_choices(&r, a->each);
        if (r.n_cut > 0)
            cli_note(a->general.quiet, "%zu of the questions did not fit into the context: their "
                                       "beginnings were cut off", r.n_cut);
        if (r.stopped)
            cli_note(a->general.quiet, "interrupted: these numbers cover only the first %zu "
                                       "questions", r.n_rows);
        good = end(r.stopped, err);
    }
    tblock_free(r.rows);
    tblock_free(r.score);
    return good;
}

/* ---- The command ------------------------------------------------------------------------------------------------ */

static bool check(const EvalArgs *a, tblock_error *err)
{
    const char *both = a->text && a->ids.given ? "TEXT and --ids" : a->choices && a->text ? "TEXT and --choices"
                     : a->choices && a->ids.given ? "--ids and --choices" : NULL;
    if (both)
        return fail(err, TBLOCK_USAGE, "%s: expected only one of them, found both", both);
    if (a->choices && (a->against || a->stride || a->special))
        return fail(err, TBLOCK_USAGE, "--%s: expected a text, found --choices", a->against ? "against" : a->stride ? "stride" : "special");
    if (!a->choices && (a->delimiter || a->each))
        return fail(err, TBLOCK_USAGE, "--%s: expected --choices with it", a->delimiter ? "delimiter" : "each");
    return true;
}

static bool eval(void *args, tblock_error *err)
{
    EvalArgs *a = args;
    if (!check(a, err))
        return false;
    tblock_model   *m = compute_open(a->model, &a->compute, err);
    bool            good = m && (!a->choices || need_tokenizer(m, a->model,
            "multiple choice needs one", err));
    tblock_context *c = good ? compute_context(m, a->model, &a->compute, a->general.quiet, err) : NULL;
    if (c)
        interrupt_catch();
    good = c && (a->choices ? eval_choices(a, c, err) : eval_text(a, m, c, err));
    tblock_context_free(c);
    tblock_close(m);
    return good;
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
      "a JSONL file of questions: context (or question), choices, answer (from 0); -: standard input" },
    { "delimiter", 0, "TEXT", OPT_TEXT, AT(delimiter), 0, 0, NULL,
      "text between context and choice; default: a space" },
    { "each",      0, NULL,   OPT_FLAG, AT(each),    0, 0, NULL,
      "also print the scores of each question" },
    { 0 },
};
static const Option options[] = {
    OPTION_NO_BOS(AT(no_bos), "leave out the tokens that the tokenizer adds before a text"),
    OPTION_JSON(AT(json), "print one JSON object"),
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(model), false, MODEL_OPERAND },
    { "TEXT", AT(text), true, "a text file (at most 64 MB); default: standard input, unless --ids "
                              "or --choices is given" },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Perplexity of a text", text_options, 0 },
    { "Multiple choice", choice_options, 0 },
    { "Options", options, 0 },
    GROUP_COMPUTE(AT(compute)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock eval model.bin text.txt --stride 128",
      "perplexity; each token sees at least the --ctx minus 128 tokens before it" },
    { "tblock eval model-q4.bin text.txt --against model.bin", "what did quantizing change?" },
    { "tblock eval model.bin text.txt --type q4 --against model.bin",
      "the same without writing a file" },
    { "tblock eval model.bin --choices questions.jsonl --json", "how many answers are right?" },
    { 0 },
};
const Command cmd_eval = {
    { "eval", operands, groups },
    "measure a model: perplexity, multiple choice, KL divergence",
    "Prints the perplexity of a text with its standard error, in windows of --ctx tokens as in the "
    "documentation of transformers, and bits per byte. With --against, it prints how far the "
    "distributions are from those of another model. With --choices, it prints the share of "
    "questions whose right answer is the most likely one, by log-likelihood and by log-likelihood "
    "per byte. The number of threads does not change one bit of the numbers. Ctrl-C ends it and "
    "prints the numbers so far.",
    examples, sizeof(EvalArgs), eval,
};
