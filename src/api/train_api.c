/* api/train_api.c: trains a model file from a text: tokenizer, split into training and validation,
 * steps, checkpoints. */
#include "tblock_tools.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/training.h"
#include "base/file.h"
#include "base/fp_env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/progress.h"
#include "report/page.h"
#include "train/trainer.h"

enum { MAX_SETTINGS = 28, EVAL_WINDOWS = 64, LARGEST_BATCH = 1 << 16 };

typedef struct Train {
    const char                 *out;
    const tblock_train_options *opt;
    LoraPlan        lora;            /* rank 0: the whole model is trained */
    char           *ckpt_path, *adapter[2]; /* the adapter's files: tensors, config */
    bool            made_folder;     /* for them */
    TensorFile      ckpt;            /* resume: the checkpoint to continue from */
    Source          init;            /* the model to begin with, or the file with a tokenizer */
    Config          config;
    TrainText       text;
    const TensorFile *vocabulary;    /* the file with the tokenizer: one of the three */
    Crew            crew;
    Params          params;
    Trainer         t;
    StateSetting    setting[MAX_SETTINGS];
    size_t          n_settings;
    int             eval_every, save_every;
    double          began, stepping; /* seconds: at the start; spent in steps */
    int64_t         first_step;
    double          val_loss, last_loss;
    bool            stopped;
} Train;

/* ---- Settings -------------------------------------------------------------------------------- */

static bool check_numbers(const tblock_train_options *o, Error *err)
{
    const struct { const char *name; double x, min, max; } numbers[] = {
        { "steps", o->steps, 0, 1 << 30 }, { "batch", o->batch, 0, LARGEST_BATCH },
        { "n_ctx", o->n_ctx, 0, 1 << 20 },
        { "micro_batch", o->micro_batch, 0, LARGEST_BATCH },
        { "vocab", o->vocab, o->vocab ? 256 : 0, 1 << 20 }, { "warmup", o->warmup, -1, 1 << 30 },
        { "clip", o->clip, -1e9, 1e9 }, { "dropout", o->dropout, 0, 0.99 },
        { "validation", o->validation, -1, 0.9 },
        { "threads", o->threads, 0, 1024 }, { "min_lr", isnan(o->min_lr) ? 0 : o->min_lr, -1, 1e3 },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(numbers[i].x >= numbers[i].min && numbers[i].x <= numbers[i].max))
            return fail(err, USAGE, "%s: expected %.9g to %.9g, found %.9g", numbers[i].name,
                        numbers[i].min, numbers[i].max, numbers[i].x);
    if (!o->text)
        return fail(err, USAGE, "text: expected a file to train on, found none");
    if (o->config && o->init)
        return fail(err, USAGE, "config and init: expected only one of them, since a model has its "
                                "own config");
    if (o->lora_rank && !o->init)
        return fail(err, USAGE, "lora: expected a model to adapt, as in --init MODEL, found none");
    if (o->init && o->tokenizer)
        return fail(err, USAGE, "tokenizer: expected none with init, since that model has its own");
    if ((o->init || o->tokenizer) && o->vocab)
        return fail(err, USAGE, "vocab: expected none, since %s has its own tokenizer",
                    o->init ? "the model of init" : "the tokenizer file");
    return true;
}

/* Fills in the defaults that depend on other values, where an option is 0. */
static TrainSettings make_settings(const Train *x)
{
    const tblock_train_options *o = x->opt;
    static const tblock_adamw   usual = { 1e-3, 0.9, 0.95, 1e-8, 0.1, false };
    tblock_adamw  a = o->adamw ? *o->adamw : usual;
    TrainSettings s = { .batch = o->batch ? o->batch : 24,
                        .n_steps = o->steps ? o->steps : 1000,
                        .dropout = o->dropout,
                        .seed = o->seed };
    s.seq_len = o->n_ctx ? o->n_ctx : x->config.n_ctx < 256 ? x->config.n_ctx : 256;
    s.micro   = o->micro_batch ? o->micro_batch : micro_batch(s.batch, s.seq_len);
    s.micro   = s.micro < s.batch ? s.micro : s.batch;
    s.adamw   = (OptimizerOptions){ a.beta1, a.beta2, a.eps, a.weight_decay, a.decay_all };
    s.clip    = o->clip < 0 ? 0 : o->clip > 0 ? o->clip : 1;
    s.schedule = (Schedule){ .lr = a.lr,
                             .min_lr = o->min_lr > 0 ? o->min_lr
                                 : o->min_lr < 0     ? 0
                                                     : a.lr / 10,
                             .warmup = o->warmup < 0 ? 0 : o->warmup,
                             .n_steps = isnan(o->min_lr) ? 0 : s.n_steps };
    if (o->warmup == 0)
        s.schedule.warmup = s.n_steps / 20;
    return s;
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void set(Train *x, const char *key, const char *fmt, ...)
{
    va_list args;
    StateSetting *s = &x->setting[x->n_settings++];
    s->key = key;
    va_start(args, fmt);
    vsnprintf(s->value, sizeof s->value, fmt, args);
    va_end(args);
}

/* The hash of a given tokenizer and its chat format. Text and config do not determine these. */
static uint64_t tokenizer_hash(const Source *s)
{
    const TensorFile *f = &s->file;
    uint64_t          h = FNV_SEED;
    for (int i = -2; i < CHAT_METAS; i++) {
        const char *key = i == -2 ? "tokenizer" : i == -1 ? "chat" : chat_meta_keys[i];
        const char *value = source_meta(s, key);
        h = value ? fnv1a(h, value, strlen(value)) : h;
    }
    for (int i = 0; i < f->n_tensors; i++)
        if (strncmp(f->tensors[i].name, "tok.", 4) == 0)
            h = fnv1a(h, f->tensors[i].data, f->tensors[i].n_bytes);
    return h;
}

static bool brings_tokenizer(const Train *x) { return x->opt->init || x->opt->tokenizer; }

/* When resuming: does the checkpoint have the same settings, from number `from` on? */
static bool check_settings(const Train *x, size_t from, Error *err)
{
    return !x->opt->resume
        || train_state_compare(&x->ckpt, x->setting + from, x->n_settings - from, err);
}

/* The weights of the adapter's model, which the checkpoint does not hold, are a setting too. */
static bool list_adapter(Train *x, Error *err)
{
    char        names[LORA_NAMES];
    const char *hash, *was = x->opt->resume ? tensor_meta(&x->ckpt, "set.lora_rank") : NULL;
    if (!x->lora.rank)
        return !was
            || fail(err, INPUT, "%s: lora_rank: the checkpoint was made with %s, found no adapter "
                                "to train", x->ckpt_path, was);
    if (!(hash = source_hash(&x->init, err)))
        return false;
    lora_plan_names(&x->lora, names);
    set(x, "lora_rank", "%d", x->lora.rank);
    set(x, "lora_alpha", "%.17g", x->lora.alpha);
    set(x, "lora_targets", "%s", names);
    set(x, "model_sha256", "%s", hash);
    return true;
}

/* Lists everything that the bits of a step depend on. The config is long, so it is listed as a
 * hash. */
static bool list_settings(Train *x, const TrainSettings *s, Error *err)
{
    char *config = config_to_json(&x->config, err);
    if (!config)
        return false;
    set(x, "text_sha256", "%s", x->text.sha256);
    set(x, "config_hash", "%016" PRIx64, fnv1a(FNV_SEED, config, strlen(config)));
    set(x, "steps", "%" PRId64, s->n_steps);
    set(x, "batch", "%d", s->batch);
    set(x, "micro_batch", "%d", s->micro);
    set(x, "ctx", "%d", s->seq_len);
    set(x, "lr", "%.17g", s->schedule.lr);
    set(x, "min_lr", "%.17g", s->schedule.min_lr);
    set(x, "warmup", "%" PRId64, s->schedule.warmup);
    set(x, "schedule", "%s", s->schedule.n_steps ? "cosine" : "constant");
    set(x, "betas", "%.17g,%.17g", s->adamw.beta1, s->adamw.beta2);
    set(x, "eps", "%.17g", s->adamw.eps);
    set(x, "weight_decay", "%.17g", s->adamw.decay);
    set(x, "decay", "%s", s->adamw.decay_all ? "all" : "matrices");
    set(x, "clip", "%.17g", s->clip);
    set(x, "dropout", "%.17g", s->dropout);
    set(x, "seed", "%" PRIu64, s->seed);
    set(x, "init", "%s", x->opt->init ? "a model" : "random");
    if (brings_tokenizer(x)) /* one made here follows from text and config */
        set(x, "tokenizer_hash", "%016" PRIx64, tokenizer_hash(&x->init));
    free(config);
    return list_adapter(x, err);
}

/* ---- Files ----------------------------------------------------------------------------------- */

enum { OUTPUTS = 4 };

/* The files that will be written, and how many. The last one is the plot, if there is one. */
static int outputs(const Train *x, const char *out[OUTPUTS])
{
    int n = 0;
    out[n++] = x->adapter[0] ? x->adapter[0] : x->out;
    out[n++] = x->ckpt_path;
    if (x->adapter[1])
        out[n++] = x->adapter[1];
    if (x->opt->plot)
        out[n++] = x->opt->plot;
    return n;
}

/* Output files must not replace input files or each other. And a file that cannot be written
 * should be reported now, not after the first hour. */
static bool check_outputs(const Train *x, Error *err)
{
    const char *in[] = { x->opt->text, x->opt->config }, *out[OUTPUTS];
    int         n = outputs(x, out);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < 2; j++)
            if (in[j] && !file_check_apart(out[i], in[j], err))
                return false;
        if (!file_check_output(out[i], err))
            return false;
    }
    for (int i = 0; x->opt->plot && i < n - 1; i++)
        if (path_same_file(x->opt->plot, out[i]))
            return fail(err, USAGE, "plot: %s: expected a file other than the %s, found the same",
                        x->opt->plot, i == 1 ? "checkpoint" : x->lora.rank ? "adapter" : "model");
    return true;
}

/* The length of OUT without slashes at its end, which a folder may have. */
static int out_length(const Train *x)
{
    size_t n = strlen(x->out);
    while (x->lora.rank && n > 1 && x->out[n - 1] == '/')
        n--;
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* Names the files of an adapter, and makes their folder. */
static bool open_folder(Train *x, Error *err)
{
    static const char *const names[] = { "adapter_model.safetensors", "adapter_config.json" };
    if (!x->lora.rank)
        return true;
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(x->out) + strlen(names[i]) + 2;
        if (!(x->adapter[i] = malloc(n)))
            return no_memory(NULL, err);
        snprintf(x->adapter[i], n, "%.*s/%s", out_length(x), x->out, names[i]);
    }
    char above[PATH_BYTES];
    x->made_folder = mkdir(x->out, 0777) == 0;
    int error = x->made_folder && path_in(x->out, "..", above) ? file_sync_folder(above) : 0;
    if (error)
        return fail(err, SYSTEM, "%s: cannot write: %s", x->out, strerror(error));
    return x->made_folder || path_is_folder(x->out)
        || fail(err, errno == EEXIST ? USAGE : SYSTEM, "%s: expected a folder for the adapter, or "
                "one that can be made, found %s", x->out,
                errno == EEXIST ? "a file" : strerror(errno));
}

/* Is there room for the checkpoint and the model? A new checkpoint is written beside the old one,
 * then replaces it. The tokenizer is too small to count. */
static bool check_room(const Train *x, const TrainSettings *s, Error *err)
{
    size_t weights = x->params.n_trained * sizeof(float), checkpoint;
    /* Each weight has two moments. */
    if (!mul_size(3, weights, &checkpoint) || checkpoint > SIZE_MAX / 4)
        return fail(err, SYSTEM, "%s: cannot write: the size overflows", x->ckpt_path);
    checkpoint += (size_t)s->n_steps * sizeof(float); /* losses */
    size_t more = path_exists(x->ckpt_path) ? 0 : s->n_steps > x->save_every ? checkpoint : weights;
    return file_check_room(x->ckpt_path, checkpoint, checkpoint + more, err);
}

static bool open_checkpoint(Train *x, Error *err)
{
    size_t n = strlen(x->out) + sizeof ".ckpt";
    if (!(x->ckpt_path = malloc(n)))
        return no_memory(NULL, err);
    snprintf(x->ckpt_path, n, "%.*s.ckpt", out_length(x), x->out);
    return !x->opt->resume
        || (safetensors_open(&x->ckpt, x->ckpt_path, err) && train_state_check(&x->ckpt, err));
}

/* Opens the model to begin with, or the file with a tokenizer. */
static bool open_source(Train *x, const char *path, Error *err)
{
    const char *out[OUTPUTS];
    int         n = outputs(x, out);
    if (!source_open(&x->init, path, err))
        return false;
    for (int i = 0; i < n; i++)
        if (!source_check_apart(&x->init, out[i], err))
            return false;
    if (x->opt->init
        && (!source_need_weights(&x->init, err)
            || !train_supported(&x->init.stored.config, path, err)))
        return false;
    return tensor_meta(&x->init.file, "tokenizer")
        || fail(err, INPUT, "%s: tokenizer: expected one for the text, found none", path);
}

/* ---- Config and vocabulary ------------------------------------------------------------------- */

static bool tokenizer_ids(const TensorFile *f, int *n, Error *err)
{
    Tokenizer *t = NULL;
    if (!tokenizer_open(&t, f, err))
        return false;
    *n = tokenizer_size(t);
    tokenizer_free(t);
    return true;
}

static bool choose_config(Train *x, Error *err)
{
    const tblock_train_options *o = x->opt;
    int  vocab = o->vocab;
    bool brings = brings_tokenizer(x);
    if (brings && !open_source(x, o->init ? o->init : o->tokenizer, err))
        return false;
    if (o->init) {
        x->config = x->init.stored.config;
        return true;
    }
    return (!brings || tokenizer_ids(&x->init.file, &vocab, err))
        && train_config(&x->config, o->config, vocab, err);
}

/* A tokenizer made from the text is in the checkpoint: making it again would take time. */
static bool choose_vocabulary(Train *x, Error *err)
{
    bool brings = brings_tokenizer(x);
    if (x->opt->resume && !brings) {
        x->vocabulary = &x->ckpt;
        return tensor_meta(&x->ckpt, "tokenizer")
            ? true
            : fail(err, INPUT, "%s: metadata tokenizer: expected one, found none", x->ckpt_path);
    }
    x->vocabulary = brings ? &x->init.file : &x->text.made_view;
    return brings || train_text_make_vocabulary(&x->text, (size_t)x->config.vocab_size, err);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool start_values(Train *x, Error *err)
{
    bool frozen = x->lora.rank > 0; /* weights that are in no checkpoint */
    if (x->opt->init && (frozen || !x->opt->resume)
        && !params_load(&x->params, x->t.w, &x->init.stored, err))
        return false;
    if (x->opt->resume)
        return train_state_load(&x->t, &x->ckpt, err);
    if (frozen)
        params_init_lora(&x->params, x->t.w, x->opt->seed);
    else if (!x->opt->init)
        params_init(&x->params, x->t.w, x->opt->seed);
    return true;
}

static bool prepare(Train *x, Error *err)
{
    TrainData data;
    double share = x->opt->validation < 0 ? 0 : x->opt->validation > 0 ? x->opt->validation : 0.1;
    if (!lora_plan_read(&x->lora, x->opt->lora_rank, x->opt->lora_alpha, x->opt->lora_targets, err)
        || !open_folder(x, err) || !open_checkpoint(x, err) || !check_outputs(x, err)
        || !(x->opt->resume || train_state_spare(x->ckpt_path, err))
        || !train_text_open(&x->text, x->opt->text, err) || !choose_config(x, err)
        || !params_layout_lora(&x->params, &x->config, &x->lora, err)
        || !lora_names_check(&x->params, err))
        return false;
    TrainSettings s = make_settings(x);
    if (s.seq_len > x->config.n_ctx)
        return fail(err, USAGE, "ctx: expected at most %d (n_ctx of the model), found %d",
                    x->config.n_ctx, s.seq_len);
    if (s.schedule.min_lr > s.schedule.lr)
        return fail(err, USAGE, "min_lr: expected at most lr, %g, found %g", s.schedule.lr,
                    s.schedule.min_lr);
    if ((x->opt->resume && !train_state_compare_config(&x->ckpt, &x->config, err))
        || !list_settings(x, &s, err) || !check_settings(x, 0, err) || !choose_vocabulary(x, err)
        || !train_text_encode(&x->text, x->vocabulary, x->config.vocab_size, err)
        || !train_text_split(&x->text, share, s.seq_len, &data, err))
        return false;
    set(x, "validation_tokens", "%zu", data.n - data.n_train);
    int tenth = (int)(s.n_steps / 10 > 50 ? s.n_steps / 10 : 50);
    x->eval_every = x->opt->eval_every ? x->opt->eval_every : tenth;
    x->save_every = x->opt->save_every ? x->opt->save_every : tenth;
    if (!check_settings(x, x->n_settings - 1, err) || !crew_open(&x->crew, x->opt->threads, err)
        || !trainer_open(&x->t, &x->params, &x->crew, &data, &s, err) || !check_room(x, &s, err)
        || !start_values(x, err))
        return false;
    x->first_step = x->t.step;
    x->began      = clock_seconds();
    x->val_loss   = x->t.n_val ? (double)x->t.val[x->t.n_val - 1].loss : NAN;
    return true;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static bool write_plot(const Train *x, Error *err)
{
    TextOut    o = { 0 };
    LossPoint *held = x->opt->plot ? calloc(x->t.n_val + 1, sizeof *held) : NULL;
    if (!held)
        return !x->opt->plot || no_memory(x->opt->plot, err);
    for (size_t i = 0; i < x->t.n_val; i++)
        held[i] = (LossPoint){ x->t.val[i].step, x->t.val[i].loss };
    draw_losses(&o, &(LossCurve){ x->t.loss, x->t.step, held, x->t.n_val });
    size_t n   = o.n;
    char  *svg = text_out_take(&o, err);
    bool   ok  = svg && file_write(x->opt->plot, svg, n, err);
    free(svg);
    free(held);
    return ok;
}

/* Saves a checkpoint. A step can leave parameters whose loss is not finite, which only the next
 * step would notice. Those must not replace the last good checkpoint. */
static bool save(Train *x, Error *err)
{
    return trainer_check(&x->t, err)
        && train_state_save(&x->t, x->ckpt_path, x->setting, x->n_settings, x->vocabulary, err)
        && write_plot(x, err);
}

static void make_block(void *user, const WeightBlock *b)
{
    const Trainer *t = user;
    const float   *w = t->w + t->p->at[b->tensor];
    size_t         k = (size_t)b->spec->k;
    if (k == 0) {
        memcpy(b->to[0], w, (size_t)b->n * sizeof *w);
        return;
    }
    memcpy(b->rows, w + (size_t)b->first * k, (size_t)b->n * k * sizeof *w);
    retype_store(b->type, b->panels, b->to, b->rows, NULL, b->n, b->spec->k, false,
                 b->scratch, b->report);
}

static bool write_result(Train *x, Error *err)
{
    if (x->lora.rank)
        return lora_folder_write((const char *const *)x->adapter, &x->params, x->t.w,
                                 x->lora.alpha, x->opt->init, err);
    char        source[160];
    WeightType *types = malloc((size_t)x->params.n * sizeof *types);
    if (!types)
        return no_memory(NULL, err);
    for (int i = 0; i < x->params.n; i++)
        types[i] = WT_F32;
    snprintf(source, sizeof source,
             "[{\"trained\": \"%" PRId64 " steps\", \"text_sha256\": \"%s\"}]", x->t.step,
             x->text.sha256);
    ModelContents contents = { .config = &x->config,
                               .types = types,
                               .source = source,
                               .tokenizer = x->vocabulary };
    for (int i = 0; i < CHAT_METAS && brings_tokenizer(x); i++)
        contents.chat_meta[i] = source_meta(&x->init, chat_meta_keys[i]);
    bool ok = weight_stream_write(&(WeightStream){ .path = x->out,
                                                   .contents = &contents,
                                                   .threads = x->opt->threads,
                                                   .make = make_block,
                                                   .user = &x->t },
                                  err);
    free(types);
    return ok;
}

/* ---- Training -------------------------------------------------------------------------------- */

static bool tell(Train *x, double loss, double norm, double rate, bool validated, bool saved)
{
    const Trainer *t    = &x->t;
    double         done = (double)(t->step - x->first_step), spent = clock_seconds() - x->began;
    tblock_train_progress p = {
        .step = t->step, .n_steps = t->s.n_steps, .loss = loss, .grad_norm = norm, .lr = rate,
        .val_loss = x->val_loss, .validated = validated,
        .saved = saved, .tok_per_s = done * t->s.batch * t->s.seq_len / x->stepping,
        .seconds = spent,
        .eta_seconds = spent / done * (double)(t->s.n_steps - t->step),
    };
    bool go_on = !x->opt->progress || x->opt->progress(x->opt->user, &p);
    host_env_again();
    return go_on;
}

static bool due(int64_t step, int every) { return every > 0 && step % every == 0; }

static bool check_validation(const Train *x, Error *err)
{
    const TrainData *d = &x->t.data;
    return d->n == d->n_train || isfinite(x->val_loss)
        || fail(err, NO,
                "step %" PRId64 ": the validation loss is not finite: expected a finite "
                "number, found %g; try a smaller --lr, a longer --warmup or --clip",
                x->t.step, x->val_loss);
}

static bool train_step(Train *x, Error *err)
{
    Trainer *t = &x->t;
    double   loss, norm, rate = schedule_rate(&t->s.schedule, t->step), start = clock_seconds();
    if (!trainer_step(t, &loss, &norm, err))
        return false;
    x->stepping += clock_seconds() - start;
    x->last_loss = loss;
    bool last = t->step == t->s.n_steps, validate = last || due(t->step, x->eval_every),
         keep = last || due(t->step, x->save_every);
    if (validate
        && (!trainer_validate(t, last ? 0 : EVAL_WINDOWS, true, &x->val_loss, err)
            || !check_validation(x, err)))
        return false;
    if (keep && !save(x, err))
        return false;
    x->stopped = !tell(x, loss, norm, rate, validate, keep) && !last;
    return !x->stopped || keep || save(x, err);
}

static bool train(Train *x, Error *err)
{
    if (x->t.step == x->t.s.n_steps && !write_plot(x, err)) /* else every checkpoint writes it */
        return false;
    while (x->t.step < x->t.s.n_steps && !x->stopped)
        if (!train_step(x, err))
            return false;
    return x->stopped || write_result(x, err);
}

static void fill_report(const Train *x, tblock_train_report *r)
{
    const Trainer *t = &x->t;
    *r = (tblock_train_report){
        .step = t->step,
        .stopped = x->stopped,
        .loss = t->step ? (double)t->loss[t->step - 1] : NAN,
        .val_loss = x->val_loss,
        .tok_per_s = x->stepping > 0
            ? (double)(t->step - x->first_step) * t->s.batch * t->s.seq_len / x->stepping
            : 0,
        .seconds = clock_seconds() - x->began,
        .n_train = t->data.n_train,
        .n_held = t->data.n - t->data.n_train,
        .bytes = trainer_bytes(t),
    };
    for (int i = x->params.first; i < x->params.n; i++)
        r->n_params += params_length(&x->params, i);
}

static void release(Train *x)
{
    trainer_close(&x->t);
    params_free(&x->params);
    crew_close(&x->crew);
    train_text_close(&x->text);
    source_close(&x->init);
    tensor_file_close(&x->ckpt);
    if (x->made_folder)
        rmdir(x->out); /* only if nothing was written */
    free(x->adapter[0]);
    free(x->adapter[1]);
    free(x->ckpt_path);
}

FP_ENV_WORK
static bool train_file(const char *out_path, const tblock_train_options *opt,
                       tblock_train_report *report, Error *err)
{
    static const tblock_train_options defaults = { 0 };
    Train x  = { .out = out_path, .opt = opt ? opt : &defaults };
    bool  ok = check_numbers(x.opt, err) && (!x.opt->adamw || adamw_check(x.opt->adamw, err))
        && prepare(&x, err) && train(&x, err);
    if (ok && report)
        fill_report(&x, report);
    release(&x);
    return ok;
}

bool tblock_train(const char *out_path, const tblock_train_options *opt,
                  tblock_train_report *report, tblock_error *err)
{
    NEED(false, err, out_path);
    /* Losses, rotary angles and the optimizer's scalars are computed in this thread. */
    HOST_ENV_RETURN(bool, train_file(out_path, opt, report, err));
}
