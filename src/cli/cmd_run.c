/* tblock run: generates text from a prompt. Each stage is a function, in the order of execution. */
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/progress.h"
#include "tblock_tools.h"

typedef struct RunArgs {
    const char     *model, *trace, *load_state, *save_state, *receipt;
    int             n_predict, receipt_every;
    TextList        stop;
    bool            echo, stats, json, trust_hash;
    FILE           *traced; /* no option: the open --trace */
    SamplingOptions sampling;
    ConstraintOptions constraint;
    DraftArgs       draft;
    PromptOptions   prompt;
    ComputeOptions  compute;
    GeneralOptions  general;
} RunArgs;

static const char *const end_names[] = { [TBLOCK_END_TOKEN]   = "eos",
                                         [TBLOCK_END_TEXT]    = "stop",
                                         [TBLOCK_END_LENGTH]  = "length",
                                         [TBLOCK_END_CONTEXT] = "context",
                                         [TBLOCK_END_STOPPED] = "interrupt",
                                         [TBLOCK_END_FITS]    = "fits" };

enum { OUT_STATE, OUT_RECEIPT }; /* --save-state, --receipt */

typedef struct Running {
    Frame              *f;
    const RunArgs      *args;
    tblock_context_info computing;
    Generating          generating;
    tblock_constraint  *constraint; /* NULL: none */
    size_t              n_loaded; /* tokens of a loaded state, before the prompt */
    size_t              n_shown;  /* of the text; without a tokenizer, of the ids */
    tblock_receipt     *receipt;   /* NULL: none */
    RunStats            stats;
} Running;

/* ---- Before the first token ------------------------------------------------------------------ */

/* Of --load-state: if the state and the prompt are longer than the model's context, the run has
 * room for both and for what it generates. A state that cannot be read is reported when it is
 * loaded. */
static bool state_brings(Running *r, tblock_error *err)
{
    const RunArgs   *a     = r->args;
    Frame           *f     = r->f;
    tblock_recorded *known = &f->compute.recorded;
    if (!a->load_state || !tblock_recorded_read(a->load_state, false, known, NULL))
        return true;
    f->from.continues = true;
    if (!frame_prompt(f, err))
        return false;
    const int    room = a->n_predict < 0 ? 0 : a->n_predict;
    const size_t n    = (size_t)known->n_ctx + f->prompt.n;
    const bool   fits = n < CTX_MOST - (size_t)room;
    known->n_ctx      = fits && n > (size_t)f->info.n_ctx ? (int)n + room : 0;
    return true;
}

static bool load(Running *r, tblock_error *err)
{
    const RunArgs *a     = r->args;
    Frame         *f     = r->f;
    double         start = clock_seconds();

    if (!frame_model(f, err) || !state_brings(r, err) || !frame_context(f, err)
        || !frame_draft(f, err))
        return false;
    tblock_context_describe(f->context, &r->computing);
    r->stats.load_s = clock_seconds() - start;
    if (constraint_given(&a->constraint)) {
        r->constraint = need_tokenizer(f->model, f->path,
                                       "a constraint needs a tokenizer, because it is one of text",
                                       err)
            ? constraint_open(f->model, &a->constraint, err)
            : NULL;
        return r->constraint != NULL;
    }
    return a->stop.n == 0
        || need_tokenizer(f->model, f->path, "--stop needs a tokenizer, because it compares text",
                          err);
}

/* Reports a file that cannot be written before the text is computed, as far as possible. */
static bool check_save(const char *path, const char *option, tblock_error *err)
{
    struct stat st;
    if (!path || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return true; /* written in place, or rejected */
    if (!*path)
        return fail(err, TBLOCK_USAGE, "%s: expected a file name, found an empty one", option);
    const char *slash  = strrchr(path, '/');
    char       *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return no_memory(NULL, err);
    bool good = access(folder, W_OK | X_OK) == 0;
    free(folder);
    return good || fail(err, TBLOCK_SYSTEM, "%s %s: %s", option, path, strerror(errno));
}

/* No two outputs may be the same file. */
static bool outputs_differ(const RunArgs *a, tblock_error *err)
{
    const char *output[] = { a->trace, a->save_state, a->receipt };
    const char *name[]   = { "--trace", "--save-state", "--receipt" };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            if (output[i] && output[j]
                && (strcmp(output[i], output[j]) == 0 || path_same_file(output[i], output[j])))
                return fail(err, TBLOCK_USAGE, "%s and %s: expected two files, found %s for both",
                            name[j], name[i], output[j]);
    return true;
}

/* No output may replace an input; a state may replace the one that it continues, which has been
 * read by then. */
static bool check_outputs(const Running *r, tblock_error *err)
{
    const RunArgs *a = r->args;
    return frame_apart(r->f, a->trace, NULL, err)
        && frame_apart(r->f, a->save_state, a->load_state, err)
        && frame_apart(r->f, a->receipt, NULL, err);
}

static void take_token(void *user, size_t index, int32_t token, const float *logits)
{
    const Running *r = user;
    if (r->receipt)
        tblock_receipt_token(r->receipt, index, token, logits);
    if (r->args->traced)
        fprintf(r->args->traced, "%zu %" PRId32 " %016" PRIx64 "\n", index, token,
                tblock_hash_floats(logits, (size_t)r->f->info.vocab_size));
}

/* Continues after the n tokens of a state and the prompt's. */
static bool open_generation(Running *r, const int32_t *loaded, tblock_error *err)
{
    const RunArgs *a = r->args;
    size_t         n = r->n_loaded + r->f->prompt.n;
    if (n > (size_t)r->computing.n_ctx)
        return fail(err, TBLOCK_USAGE, "the %sprompt has %zu tokens, but the context holds %d",
                    loaded ? "state with the " : "", n, r->computing.n_ctx);
    const int most = a->n_predict > 0 ? a->n_predict : -1 - a->n_predict; /* there 0 and -1 swap */
    int32_t  *ids  = malloc(n * sizeof *ids);
    if (!ids)
        return no_memory(NULL, err);
    if (loaded)
        memcpy(ids, loaded, r->n_loaded * sizeof *ids);
    memcpy(ids + r->n_loaded, r->f->prompt.ids, r->f->prompt.n * sizeof *ids);
    const tblock_generation_options opt = { .ids = ids,
                                            .n_ids = n,
                                            .sampling = sampling_of(&a->sampling, r->stats.seed),
                                            .max_tokens = most,
                                            .stop_texts = a->stop.texts,
                                            .n_stop_texts = a->stop.n,
                                            .constraint = r->constraint,
                                            .draft = r->f->drafting.most,
                                            .draft_match = a->draft.match,
                                            .on_token = a->trace || a->receipt ? take_token : NULL,
                                            .user = r };
    r->generating.context    = r->f->context;
    r->generating.generation = tblock_generation_open(r->f->context, &opt, err);
    bool good                = r->generating.generation != NULL;
    if (good && a->receipt) {
        tblock_receipt_options how = { .every      = (size_t)a->receipt_every,
                                       .trust_hash = a->trust_hash };
        r->receipt = tblock_receipt_new(r->f->context, &opt, &how, err);
        good       = r->receipt != NULL;
    }
    free(ids);
    return good;
}

/* The prompt, after the tokens of a state. */
static bool read_prompt(Running *r, tblock_error *err)
{
    const RunArgs *a      = r->args;
    int32_t       *loaded = NULL;
    r->f->from.continues  = a->load_state != NULL;
    bool good             = !a->load_state
        || tblock_state_load(r->f->context, 0, a->load_state, &loaded, &r->n_loaded, err);
    good = good && (r->f->prompt.ids || frame_prompt(r->f, err)) && open_generation(r, loaded, err);
    tblock_free(loaded);
    return good;
}

/* A log rather than a result: written line by line, so that a run that dies leaves what it did. */
static bool open_trace(RunArgs *a, tblock_error *err)
{
    if (!a->trace || a->traced)
        return true;
    int fd    = open(a->trace, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    a->traced = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!a->traced)
        return fail(err, TBLOCK_SYSTEM, "%s: %s", a->trace, strerror(errno));
    setvbuf(a->traced, NULL, _IOLBF, 0);
    return true;
}

/* Truncates it once it is known to be no input; in the sandbox that is after it was opened. */
static bool empty_trace(const RunArgs *a, tblock_error *err)
{
    struct stat st;
    return !a->traced || file_fstat(fileno(a->traced), &st) != 0 || !S_ISREG(st.st_mode)
        || ftruncate(fileno(a->traced), 0) == 0
        || fail(err, TBLOCK_SYSTEM, "%s: %s", a->trace, strerror(errno));
}

/* The trace is opened before the sandbox. */
static bool run_hold(Frame *f, tblock_error *err)
{
    RunArgs *a = f->args;
    if (!f->compute.sandbox || !a->trace)
        return true;
    if (!guarded_place(a->trace, true, err) || !open_trace(a, err))
        return false;
    f->writable = fileno(a->traced);
    return true;
}

static bool close_trace(RunArgs *a, tblock_error *err)
{
    if (!a->traced)
        return true;
    bool good = !ferror(a->traced);
    errno     = 0;
    good &= fclose(a->traced) == 0;
    a->traced = NULL;
    return good || fail(err, TBLOCK_SYSTEM, "%s: %s", a->trace,
                        errno ? strerror(errno) : "a write failed");
}

/* ---- Text ------------------------------------------------------------------------------------ */

static bool echo_prompt(const Running *r, tblock_error *err)
{
    const PromptInput *p    = &r->f->prompt;
    char              *text = NULL;
    size_t             n    = 0;
    bool               good = true;
    if (!r->args->echo || r->args->json)
        return true;
    if (!r->args->prompt.ids.given)
        output_write(p->text, p->n_text);
    else if (!r->f->info.has_tokenizer)
        for (size_t i = 0; i < p->n; i++)
            output_format("%" PRId32 " ", p->ids[i]);
    else if ((good = tblock_detokenize(r->f->model, p->ids, p->n, &text, &n, err)))
        output_write(text, n);
    tblock_free(text);
    return good && output_flush(err);
}

/* Print what is new: text, or ids without a tokenizer. --json prints all at the end. */
static bool show(void *user, const tblock_generation_info *now, tblock_error *err)
{
    Running   *r       = user;
    size_t n_sampled = now->n_ids - now->n_given;
    if (r->args->json)
        return true;
    if (r->f->info.has_tokenizer) {
        output_write(now->text + r->n_shown, now->n_bytes - r->n_shown);
        r->n_shown = now->n_bytes;
    }
    for (; !r->f->info.has_tokenizer && r->n_shown < n_sampled; r->n_shown++)
        output_format("%s%" PRId32, r->n_shown ? " " : "", now->ids[now->n_given + r->n_shown]);
    return output_flush(err);
}

/* ---- After the last token -------------------------------------------------------------------- */

static void ids_row(Rows *r, const char *key, const int32_t *ids, size_t n)
{
    rows_open(r, key, '[');
    for (size_t i = 0; i < n; i++)
        rows_item(r, v_int(ids[i]));
    rows_close(r, ']');
}

static bool print_json(const Running *r, tblock_error *err)
{
    const tblock_generation_info *now  = &r->generating.now;
    Rows                          rows = OUTPUT_ROWS(true, 0);
    rows_open(&rows, NULL, '{');
    ids_row(&rows, "prompt_ids", r->f->prompt.ids, r->f->prompt.n);
    ids_row(&rows, "ids", now->ids + now->n_given, now->n_ids - now->n_given);
    rows_put(&rows, "text",
             r->f->info.has_tokenizer ? v_bytes(now->text ? now->text : "", now->n_bytes)
                                   : v_text(NULL));
    rows_put(&rows, "stop_reason", v_text(end_names[now->end]));
    run_stats_rows(&rows, &r->stats, &r->f->info, &r->computing, end_names[now->end]);
    rows_close(&rows, '}');
    return output_rows(&rows, err);
}

static bool print_stats(const Running *r, tblock_error *err)
{
    Rows rows = OUTPUT_ROWS(false, 8);
    run_stats_rows(&rows, &r->stats, &r->f->info, &r->computing, end_names[r->generating.now.end]);
    char *text = text_out_take(&rows.out, err);
    if (text)
        fputs(text, stderr);
    free(text);
    return text != NULL;
}

/* Saves the whole sequence: the last token, from which nothing was sampled yet, is computed. Of an
 * interrupted prompt, the computed part. */
static bool save_state(Running *r, tblock_error *err)
{
    const tblock_generation_info *now = &r->generating.now;
    if (!r->args->save_state)
        return true;
    size_t      n    = now->n_held < now->n_given ? now->n_held : now->n_ids;
    tblock_item last = { .seq = now->seq, .pos = (int32_t)now->n_held };
    if (n == 0) {
        cli_note("--save-state: no token was computed, so no file was written");
        return true;
    }
    bool good = tblock_seq_rewind(r->f->context, now->seq, last.pos, err);
    if (good && now->n_held < n) {
        last.token = now->ids[now->n_held];
        good       = tblock_decode(r->f->context, &last, 1, err);
    }
    return good
        && tblock_state_save(r->f->context, now->seq, now->ids, n, r->f->out[OUT_STATE].path, err)
        && guarded_commit(&r->f->out[OUT_STATE], err);
}

static bool save_receipt(Running *r, tblock_error *err)
{
    return !r->receipt
        || (receipt_write(r->receipt, r->f->out[OUT_RECEIPT].path, err)
            && guarded_commit(&r->f->out[OUT_RECEIPT], err));
}

static void gather_stats(Running *r)
{
    const Generating             *g      = &r->generating;
    const tblock_generation_info *now    = &g->now;
    RunStats                     *s      = &r->stats;
    const size_t                  n_read = now->n_held < now->n_given ? now->n_held : now->n_given;
    tblock_context_describe(r->f->context, &r->computing);
    tblock_model_describe(r->f->model, &r->f->info);
    if (r->f->drafting.model)
        tblock_model_describe(r->f->drafting.model, &r->f->drafting.info);
    s->draft_made_bytes = r->f->drafting.info.made_bytes;
    s->drafts           = r->f->drafting.most > 0;
    s->huge_share  = r->args->stats || r->args->json ? tblock_huge_share(r->f->model) : -1;
    s->n_loaded    = r->n_loaded;
    s->prefill_s   = g->prefill_s;
    s->decode_s    = g->decode_s;
    s->n_prefilled = n_read - now->n_reused;
    s->n_pieces    = g->n_pieces;
    s->n_calls     = now->n_steps;
    s->n_decoded   = now->n_steps + now->n_accepted;
    s->n_proposed  = now->n_proposed;
    s->n_accepted  = now->n_accepted;
    s->hash        = now->logits
        ? tblock_hash_floats(now->logits, (size_t)r->f->info.vocab_size)
        : 0;
}

static bool finish(Running *r, tblock_error *err)
{
    const RunArgs *a   = r->args;
    const int      end = r->generating.now.end;
    bool           cut;
    gather_stats(r);
    if (a->json && !print_json(r, err))
        return false;
    if (!a->json && (output_is_terminal() || !r->f->info.has_tokenizer))
        output_write("\n", 1);
    if (!output_flush(err))
        return false;
    if (end == TBLOCK_END_CONTEXT)
        cli_note("stopped: the context of %d tokens is full", r->computing.n_ctx);
    if (!constraint_was_cut(r->constraint, &r->generating.now, &cut, err))
        return false;
    if (cut)
        constraint_note_cut();
    if (a->stats && !print_stats(r, err))
        return false;
    if (!close_trace(r->f->args, err) || !save_receipt(r, err) || !save_state(r, err))
        return false;
    return end != TBLOCK_END_STOPPED || fail(err, CLI_INTERRUPTED, "%s", "");
}

static bool go_on(Running *r, tblock_error *err)
{
    /* no progress bar, which would overwrite the echo's last line */
    bool echo             = r->args->echo && output_is_terminal();
    r->generating.reading = echo ? NULL : "reading the prompt";
    r->generating.show    = show;
    r->generating.user    = r;
    return echo_prompt(r, err) && generate(&r->generating, err) && finish(r, err);
}

static bool run_check(Frame *f, tblock_error *err)
{
    RunArgs *a = f->args;
    if (!constraint_check(&a->constraint, false, err))
        return false;
    if (constraint_given(&a->constraint) && a->stop.n)
        return fail(err, TBLOCK_USAGE, "--stop: expected none beside a constraint, which says "
                                       "where the text may end");
    return seed_choose(&a->sampling.seed, err)
        && check_save(a->save_state, "--save-state", err)
        && check_save(a->receipt, "--receipt", err) && outputs_differ(a, err);
}

static bool run(Frame *f, tblock_error *err)
{
    RunArgs *a     = f->args;
    RunStats stats = { .seed      = a->sampling.seed.value,
                       .memory_fd = a->stats || a->json ? run_stats_open_memory() : -1 };
    Running  r     = { .f = f, .args = a, .stats = stats };
    bool     good  = frame_files(f, err) && load(&r, err) && check_outputs(&r, err)
        && read_prompt(&r, err) && open_trace(a, err) && empty_trace(a, err);
    if (good) {
        interrupt_catch();
        good = go_on(&r, err);
    }
    if (stats.memory_fd >= 0)
        close(stats.memory_fd);
    close_trace(a, NULL);
    tblock_receipt_free(r.receipt);
    tblock_generation_close(r.generating.generation);
    tblock_constraint_free(r.constraint);
    return good;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(RunArgs, field)
static const Option generate_options[] = {
    { "predict", 'n', "N",    OPT_INT,   AT(n_predict), -1, 1 << 20, "256",
      "generate at most N tokens; 0: only read the prompt; -1: until the context is full" },
    { "stop",     0,  "TEXT", OPT_TEXTS, AT(stop), 0, 0, NULL,
      "stop before this text would be printed" },
    { "echo",     0,  NULL,   OPT_FLAG,  AT(echo), 0, 0, NULL, "print the prompt first" },
    OPTION_JSON(AT(json),
      "print one JSON object at the end instead of the text: ids, text, stop_reason, stats"),
    { "stats",    0,  NULL,   OPT_FLAG,  AT(stats), 0, 0, NULL,
      "print speed, memory, settings and a hash of the last logits to standard error" },
    { "trace",    0,  "FILE", OPT_TEXT,  AT(trace), 0, 0, NULL,
      "write a line for each token: index, id, hash of the logits it was sampled from" },
    { 0 },
};
static const Option receipt_options[] = {
    { "receipt",       0, "FILE", OPT_TEXT, AT(receipt), 0, 0, NULL,
      "at the end, write a receipt: what was sampled, with which options, from which logits; "
      "tblock verify computes it again (docs/receipts.md)" },
    { "receipt-every", 0, "N", OPT_INT, AT(receipt_every), 0, 1 << 20, "0",
      "keep a hash after each N tokens in it, which shows where two runs diverge; 0: only the "
      "last" },
    OPTION_TRUST_HASH(AT(trust_hash)),
    { 0 },
};
static const Option state_options[] = {
    { "save-state", 0, "FILE", OPT_TEXT, AT(save_state), 0, 0, NULL,
      "at the end, save the tokens and the KV cache to FILE" },
    { "load-state", 0, "FILE", OPT_TEXT, AT(load_state), 0, 0, NULL,
      "continue from a saved FILE: the prompt follows its tokens, without a BOS, and may be "
      "empty" },
    { 0 },
};
const Command cmd_run = {
    { "run",
      OPERANDS(OPERAND_MODEL(AT(model)),
               { "PROMPT...", AT(prompt.words), true,
                 "the prompt, as --prompt gives it; several words are joined by spaces" }),
      GROUPS(GROUP_PROMPT(AT(prompt)), { "Generating", generate_options, 0 },
             { "Sampling", sampling_options, AT(sampling) }, GROUP_CONSTRAINT(AT(constraint)),
             GROUP_DRAFT(AT(draft)), { "Receipt", receipt_options, 0 },
             { "State", state_options, 0 }, GROUP_COMPUTE(AT(compute)),
             GROUP_GENERAL(AT(general))) },
    "continue a text",
    "Prints the continuation to standard output as it is generated, exact to the byte (on a "
    "terminal a newline is added at the end). Everything else goes to standard error. The text "
    "ends at the model's end token, after --predict tokens, before a --stop text, or when the "
    "context is full. With a constraint it fits that, ends only where it may, and a note says so "
    "if it was cut before (docs/constraints.md). An empty prompt starts from the BOS token; if the"
    " tokenizer adds none, it is an error. With --load-state the prompt is added after the tokens "
    "of the state and never compared with them. A state fits only the same model, numerics "
    "version, --math, --activations and --kv-type. A model without a tokenizer takes --ids and "
    "prints ids. Ctrl-C ends the text early with exit status 130; a second Ctrl-C ends the program"
    " at once.",
    EXAMPLES({ "tblock run models/shakespeare.bin 'ROMEO:'",
               "continue the text, the same way each time" },
             { "tblock run models/shakespeare.bin 'ROMEO:' --seed random",
               "another continuation; prints its seed" },
             { "tblock run model.bin --prompt-file story.txt --temp 0 -n 100 --stats > out.txt",
               "always the most likely token, and how fast" },
             { "tblock run model.bin --prompt 'Q: 6 x 7? A:' --stop 'Q:'",
               "stop before the next question" },
             { "tblock run model.bin --prompt-file rules.txt -n 0 --save-state rules.state",
               "read a long text once; --load-state rules.state then continues from it at once" }),
    .args_size = sizeof(RunArgs), .run = run, .check = run_check,
    .reads = { "load-state", "json-schema", "grammar" }, .writes = { "save-state", "receipt" },
    .hold = run_hold,
};
