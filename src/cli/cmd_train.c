/* tblock train: a model or an adapter from a text, or a check of the gradients. */
#include "frame.h"
#include "tblock_tools.h"
#include "train_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct TrainArgs {
    tblock_train_options o; /* as given; train() makes of some what the library wants */
    const char          *out, *out_argument, *schedule;
    Seed                 seed;
    bool                 json, grad_check;
    double               limit;
    OptimizerArgs        optimizer;
    GeneralOptions       general;
} TrainArgs;

/* lost: the reader of the output is gone. */
typedef struct Show { const TrainArgs *a; bool lost; tblock_error why; } Show;

/* ---- Progress -------------------------------------------------------------------------------- */

static const char *spell_time(double seconds, char out[24])
{
    int s = seconds < 0 || seconds > 1e8 ? 0 : (int)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 24, "%dh%02dm", s / 3600, s / 60 % 60);
    else
        snprintf(out, 24, "%dm%02ds", s / 60, s % 60);
    return out;
}

static bool show_json(const tblock_train_progress *p, tblock_error *err)
{
    Rows r = OUTPUT_ROWS(true, 0);
    rows_object(&r, NULL, { "step", v_int(p->step) }, { "steps", v_int(p->n_steps) },
                { "loss", v_real(p->loss) },
                { "val_loss", v_real(p->validated ? p->val_loss : NAN) }, { "lr", v_real(p->lr) },
                { "grad_norm", v_real(p->grad_norm) }, { "tok_per_s", v_real(p->tok_per_s) },
                { "eta_seconds", v_real(p->eta_seconds) }, { "saved", v_flag(p->saved) });
    return output_rows(&r, err) && output_flush(err);
}

/* Prints a line on standard error for each validation or checkpoint, and a progress bar in between
 * on a terminal. */
static void show_line(const tblock_train_progress *p)
{
    char eta[24], what[160], val[32] = "";
    if (!isnan(p->val_loss))
        snprintf(val, sizeof val, ", validation %.4f", p->val_loss);
    snprintf(what, sizeof what, "step %" PRId64 "/%" PRId64 ", loss %.4f%s, %.0f tokens/s, %s left",
             p->step, p->n_steps, p->loss, val, p->tok_per_s, spell_time(p->eta_seconds, eta));
    if (p->validated || p->saved || p->step == p->n_steps) {
        progress_end();
        fprintf(stderr, "%s%s\n", what, p->saved ? ", saved" : "");
    } else {
        progress_show(what, (double)p->step / (double)p->n_steps);
    }
}

static bool show(void *user, const tblock_train_progress *p)
{
    Show *s = user;
    if (s->a->json)
        s->lost = !show_json(p, &s->why);
    else if (!s->a->general.quiet)
        show_line(p);
    return !interrupted() && !s->lost;
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool print_report(const TrainArgs *a, const tblock_train_report *t, tblock_error *err)
{
    Rows r = OUTPUT_ROWS(a->json, 0);
    char time[24];
    rows_object(&r, NULL, { "parameters", v_count(t->n_params) },
                { "train_tokens", v_count(t->n_train) }, { "held_tokens", v_count(t->n_held) },
                { "memory_bytes", v_count(t->bytes) }, { "steps_done", v_int(t->step) },
                { "loss", v_real(t->loss) }, { "val_loss", v_real(t->val_loss) },
                { "tok_per_s", v_real(t->tok_per_s) }, { "seconds", v_real(t->seconds) },
                { "stopped", v_flag(t->stopped) });
    rows_text(&r,
              "%" PRIu64
              " parameters, %zu training tokens, %zu validation tokens; training loss %.4f",
              t->n_params, t->n_train, t->n_held, t->loss);
    if (!isnan(t->val_loss))
        rows_text(&r, ", validation loss %.4f", t->val_loss);
    if (t->tok_per_s > 0)
        rows_text(&r, "\n%.0f tokens/s, %s, %.0f MB for weights, moments and activations\n",
                  t->tok_per_s, spell_time(t->seconds, time), (double)t->bytes / 1e6);
    else
        rows_text(&r,
                  "\nall %" PRId64
                  " steps were already done: the model was written from the checkpoint\n",
                  t->step);
    return output_rows(&r, err);
}

/* Rejects options for a text or an output: the check uses neither, so they are a mistake. */
static bool check(TrainArgs *a, tblock_error *err)
{
    const struct { const char *name; bool given; } others[] = {
        { "--output", a->out != NULL }, { "--text", a->o.text != NULL },
        { "--tokenizer", a->o.tokenizer != NULL }, { "--vocab", a->o.vocab != 0 },
        { "--resume", a->o.resume }, { "--plot", a->o.plot != NULL },
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].given)
            return fail(err, TBLOCK_USAGE, "--grad-check: expected no %s with it, since it "
                                               "trains and writes nothing",
                            others[i].name);
    return seed_choose(&a->seed, err)
        && train_check(&(tblock_grad_check_options){ .config = a->o.config,
                                                     .init = a->o.init,
                                                     .seed = a->seed.value,
                                                     .threads = a->o.threads,
                                                     .progress = progress_advance,
                                                     .lora_rank = a->o.lora_rank,
                                                     .lora_alpha = a->o.lora_alpha,
                                                     .lora_targets = a->o.lora_targets },
                       a->limit, a->json, err);
}

static bool constant(const TrainArgs *a) { return strcmp(a->schedule, "constant") == 0; }

/* The numbers that mean "none" and "the default" on the command line, as the library says them. */
static void translate(tblock_train_options *o, bool is_constant)
{
    o->min_lr     = is_constant        ? NAN
                    : isnan(o->min_lr) ? 0
                    : o->min_lr == 0   ? -1
                                       : o->min_lr;
    o->warmup     = o->warmup < 0 ? 0 : o->warmup == 0 ? -1 : o->warmup;
    o->clip       = o->clip > 0 ? o->clip : -1;
    o->validation = o->validation > 0 ? o->validation : -1;
}

static bool tell_stopped(const TrainArgs *a, int64_t step, bool random, tblock_error *err)
{
    char seed[40] = "";
    if (random)
        snprintf(seed, sizeof seed, " --seed %" PRIu64, a->seed.value);
    cli_note("stopped after step %" PRId64 "; to continue, repeat the command with%s --resume",
             step, seed);
    return fail(err, CLI_INTERRUPTED, "%s", "");
}

static bool train(Frame *f, tblock_error *err)
{
    TrainArgs          *a = f->args;
    tblock_adamw        adamw;
    tblock_train_report report;
    bool                random = a->seed.random;
    blas_without_threads();
    if (a->out && a->out_argument && !a->o.text) /* almost always the text */
        return fail(err, TBLOCK_USAGE,
                    "train: unexpected argument '%s': write --text before the text to train on",
                    a->out_argument);
    if (!output_one(&a->out, a->out_argument, err))
        return false;
    if (a->grad_check)
        return check(a, err);
    if (!a->out || !a->o.text)
        return fail(err, TBLOCK_USAGE, "train: expected %s%s%s; see tblock help train",
                    a->o.text ? "" : "--text FILE", a->out || a->o.text ? "" : " and ",
                    a->out ? "" : "--output FILE");
    if (constant(a) && !isnan(a->o.min_lr))
        return fail(err, TBLOCK_USAGE, "--min-lr: expected none with --schedule constant, "
                                           "found %g", a->o.min_lr);
    if (!optimizer_read(&a->optimizer, &adamw, err)
        || !seed_choose(&a->seed, err))
        return false;
    Show show_as  = { .a = a };
    a->o.seed     = a->seed.value;
    a->o.adamw    = &adamw;
    a->o.progress = show;
    a->o.user     = &show_as;
    translate(&a->o, constant(a));
    interrupt_catch();
    if (!a->json)
        progress_show("reading the text", -1);
    bool ok = tblock_train(a->out, &a->o, &report, err);
    progress_end();
    if (!ok)
        return false;
    if (show_as.lost) {
        *err = show_as.why;
        return false;
    }
    if ((a->json || !a->general.quiet) && !print_report(a, &report, err))
        return false;
    return !report.stopped || tell_stopped(a, report.step, random, err);
}

#define AT(field) offsetof(TrainArgs, field)
static const Option model[] = {
    OPTION_OUTPUT(AT(out), NULL,
                  "the model file, or with --lora the folder, to write; not with --grad-check"),
    { "text",    0,  "FILE", OPT_TEXT, AT(o.text), 0, 0, NULL, "the text to train on" },
    { "config",  0,  "FILE", OPT_TEXT, AT(o.config), 0, 0, NULL,
      "a JSON config, to start from random weights; default: 6 layers of width 192" },
    { "init",    0,  "MODEL", OPT_TEXT, AT(o.init), 0, 0, NULL,
      "start from a model's weights, config and tokenizer" },
    { "tokenizer", 0, "FILE", OPT_TEXT, AT(o.tokenizer), 0, 0, NULL,
      "a model or a tokenizer.json: use its tokenizer instead of one trained on the text" },
    { "vocab",   0,  "N", OPT_INT, AT(o.vocab), 0, 1 << 20, "0",
      "size of the tokenizer trained on the text; 0: the config's vocab_size" },
    { "resume",  0,  NULL, OPT_FLAG, AT(o.resume), 0, 0, NULL,
      "continue from the checkpoint OUT.ckpt, with the same settings" },
    { 0 },
};
static const Option steps[] = {
    { "steps",   0,  "N", OPT_INT, AT(o.steps), 1, 1 << 30, "1000", "optimizer steps" },
    { "batch",  'b', "N", OPT_INT, AT(o.batch), 1, 1 << 16, "24", "sequences per step" },
    { "ctx",    'c', "N", OPT_INT, AT(o.n_ctx), 0, 1 << 20, "0",
      "tokens per sequence; 0: the config's n_ctx, at most 256" },
    { "micro-batch", 0, "N", OPT_INT, AT(o.micro_batch), 0, 1 << 16, "0",
      "sequences computed at once, whose gradients are added up; 0: about 2048 tokens" },
    { "schedule", 0, "cosine|constant", OPT_CHOICE, AT(schedule), 0, 0, "cosine",
      "learning rate after the warm-up" },
    { "min-lr",  0,  "F", OPT_FLOAT, AT(o.min_lr), 0, 1e3, NULL,
      "learning rate at the end of the cosine; default: a tenth of --lr" },
    { "warmup",  0,  "N", OPT_INT, AT(o.warmup), -1, 1 << 30, "-1",
      "steps over which the learning rate rises from 0; -1: a twentieth of all steps" },
    { "clip",    0,  "F", OPT_FLOAT, AT(o.clip), 0, 1e9, "1",
      "clip the norm of all gradients to F; 0: do not clip" },
    { "dropout", 0,  "F", OPT_FLOAT, AT(o.dropout), 0, 0.99, "0",
      "share of the embedding and of each sublayer's output that is set to 0" },
    OPTION_SEED(AT(seed), "seed of the first weights, the batches and dropout"),
    OPTION_THREADS(AT(o.threads), "; all give the same bits"),
    { 0 },
};
static const Option optimizer[] = {
    OPTIMIZER_OPTIONS("matrices"),
    { 0 },
};
static const Option output[] = {
    { "validation", 0, "F", OPT_FLOAT, AT(o.validation), 0, 0.9, "0.1",
      "share of the text, at its end, that is kept for validation" },
    { "eval-every", 0, "N", OPT_INT, AT(o.eval_every), 0, 1 << 30, "0",
      "steps between validation losses; 0: a tenth of all steps, at least 50" },
    { "save-every", 0, "N", OPT_INT, AT(o.save_every), 0, 1 << 30, "0",
      "steps between checkpoints; 0: a tenth of all steps, at least 50" },
    { "plot",    0,  "FILE", OPT_TEXT, AT(o.plot), 0, 0, NULL,
      "plot the losses as SVG, at every checkpoint" },
    OPTION_JSON(AT(json), "print one JSON object for each step, and one at the end"),
    { 0 },
};
static const Option adapter[] = {
    { "lora", 0, "RANK", OPT_INT, AT(o.lora_rank), 0, 4096, "0",
      "train a LoRA adapter of the model of --init, whose weights stay, and write a folder for "
      "--lora; 0: train the model" },
    { "lora-alpha", 0, "F", OPT_FLOAT, AT(o.lora_alpha), -1e9, 1e9, "0",
      "its scale is alpha / rank; 0: 1" },
    { "lora-targets", 0, "NAMES", OPT_TEXT, AT(o.lora_targets), 0, 0, NULL,
      "the matrices that it changes, some of q,k,v,o,gate,up,down; default: q,v" },
    { 0 },
};
static const Option checking[] = {
    { "grad-check", 0, NULL, OPT_FLAG, AT(grad_check), 0, 0, NULL,
      "instead of training, compare the gradients with central differences in double precision" },
    { "limit",   0,  "F", OPT_FLOAT, AT(limit), 0, 1, "1e-4",
      "largest allowed relative error of an element; above it, exit status 1" },
    { 0 },
};
const Command cmd_train = {
    { "train",
      OPERANDS(OPERAND_OUT(AT(out_argument)),
               { .help = "write --text before the text to train on, -o before the model file to "
                         "write" }),
      GROUPS({ "Text and model", model, 0 }, { "Steps", steps, 0 },
             { "AdamW", optimizer, AT(optimizer) }, { "Adapter", adapter, 0 },
             { "Output", output, 0 }, { "Gradient check", checking, 0 },
             GROUP_GENERAL(AT(general))) },
    "train a model on a text",
    "Trains a byte-level BPE tokenizer on the text (or takes the one of --init or --tokenizer), "
    "keeps the end of the text for validation, and writes a model file that run can use, or with "
    "--lora an adapter's folder. Progress goes to standard error. The checkpoint is OUT.ckpt. "
    "Ctrl-C saves one, and --resume continues from it: the result is the same, bit for bit, as if "
    "training had never stopped. Needs OpenBLAS (Debian: libopenblas0). docs/train.md explains "
    "each step.",
    EXAMPLES({ "tblock train -o out.bin --text shakespeare.txt --vocab 1024 --steps 2000 --plot "
               "loss.svg",
               "a model of 2.6 million parameters" },
             { "tblock train -o out.bin --text shakespeare.txt --vocab 1024 --steps 2000 --plot "
               "loss.svg --resume",
               "continue where it was stopped" },
             { "tblock train -o out.bin --text shakespeare.txt --tokenizer tokenizer.json",
               "start from random weights with an existing tokenizer" },
             { "tblock train --grad-check --init out.bin", "check the gradients of this model" },
             { "tblock train -o tuned.bin --text mine.txt --init out.bin --lr 1e-4 --steps 200",
               "train further on another text" },
             { "tblock train -o poet --text poems.txt --init model-q4.bin --lora 8 --lr 3e-4",
               "train an adapter; then: tblock run model-q4.bin --lora poet" }),
    .args_size = sizeof(TrainArgs), .run = train,
};
