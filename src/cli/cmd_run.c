/* tblock run: prompt in, text out. The stages are functions of their own, in the order in which they happen. */
#include "command.h"
#include "common.h"
#include "guarded.h"
#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "progress_bar.h"
#include "run_stats.h"
#include "stop_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"

typedef struct RunArgs {
    const char    *model, *trace, *draft, *load_state, *save_state;
    int            n_predict, draft_max, draft_match;
    TextList       stop;
    bool           echo, stats, json;
    SamplingOptions sampling;
    PromptOptions  prompt;
    ComputeOptions compute;
    GeneralOptions general;
} RunArgs;

enum { DRAFT_MOST = 63, DRAFT_START = 4 };

/* Tokens computed ahead: token[0] was drawn, the others are a draft. Logits after token[i] are tblock_logits(context, i). */
typedef struct Ahead {
    int32_t token[1 + DRAFT_MOST];
    size_t  pos, n;   /* of token[0]; tokens, 0: none                */
    size_t  length;   /* how many to draft: more while all are right */
} Ahead;

typedef enum StopReason { STOP_LENGTH, STOP_EOS, STOP_TEXT, STOP_CONTEXT, STOP_INTERRUPT } StopReason;
static const char *const reason_names[] = { "length", "eos", "stop", "context", "interrupt" };

typedef struct Run {
    const RunArgs     *args;
    tblock_model      *model;
    tblock_model_info  info;
    tblock_context    *context;
    tblock_context_info computing;
    tblock_sampler    *sampler;
    tblock_stream     *stream; /* NULL for a model without tokenizer: ids are printed */
    Prompt             prompt;
    int32_t           *ids;    /* of a loaded state, of the prompt, generated: the whole sequence */
    size_t             n_ids, n_loaded, n_given; /* n_given: of state and prompt                   */
    StopText           stop;
    TextOut            text;   /* to print now; with --json all that was generated */
    FILE              *trace;
    Guarded            state; /* --save-state */
    StopReason         reason;
    const float       *logits; /* after the last token drawn from, or NULL */
    Ahead              ahead;
    RunStats           stats;
} Run;

/* ---- Before the first token ------------------------------------------------------------------------------------ */

static bool load(Run *r, tblock_error *err)
{
    const RunArgs *a = r->args;
    double         start = clock_seconds();

    r->model = compute_open(a->model, &a->compute, err);
    if (!r->model)
        return false;
    tblock_model_describe(r->model, &r->info);
    r->context = compute_context(r->model, a->model, &a->compute, a->general.quiet, err);
    if (!r->context)
        return false;
    tblock_context_describe(r->context, &r->computing);
    r->sampler = sampling_new(&a->sampling, r->info.vocab_size, a->sampling.seed.value, err);
    r->stats.load_s = clock_seconds() - start;
    if (a->stop.n > 0 && !need_tokenizer(r->model, a->model,
                                            "--stop needs a tokenizer, because it compares text", err))
        return false;
    return r->sampler != NULL;
}

/* A state that cannot be written is found out before the text is computed, as far as that can be. */
static bool check_save_state(const RunArgs *a, tblock_error *err)
{
    const char *path = a->save_state;
    struct stat st;
    if (!path || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return true; /* written in place, or refused */
    if (!*path)
        return fail(err, TBLOCK_USAGE, "--save-state: expected a file name, found an empty one");
    const char *slash = strrchr(path, '/');
    char       *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return no_memory(NULL, err);
    bool good = access(folder, W_OK | X_OK) == 0;
    free(folder);
    return good || fail(err, TBLOCK_SYSTEM, "--save-state %s: %s", path, strerror(errno));
}

/* A state may replace the one that it goes on from, which has been read then. */
static bool check_outputs(const Run *r, tblock_error *err)
{
    const RunArgs *a = r->args;
    const char    *prompt = prompt_file(&a->prompt);
    if (a->trace && a->save_state && (strcmp(a->trace, a->save_state) == 0 || path_same_file(a->trace, a->save_state)))
        return fail(err, TBLOCK_USAGE, "--trace and --save-state: expected two files, found %s for both", a->trace);
    return output_apart(a->save_state, r->model, &(Inputs){ a->model, { prompt } }, err) &&
           output_apart(a->trace, r->model, &(Inputs){ a->model, { prompt, a->load_state, a->save_state } }, err);
}

/* The prompt, and before it the tokens of a state. */
static bool read_prompt(Run *r, tblock_error *err)
{
    const RunArgs *a = r->args;
    PromptOptions  how = a->prompt;
    int32_t       *loaded = NULL;
    how.continues = a->load_state != NULL;
    if (a->load_state && !tblock_state_load(r->context, 0, a->load_state, &loaded, &r->n_loaded, err))
        return false;
    r->stats.n_loaded = r->n_loaded;
    if (!prompt_read(&r->prompt, &how, r->model, a->model, a->general.quiet, err)) {
        tblock_free(loaded);
        return false;
    }
    size_t n = r->n_loaded + r->prompt.n, n_ctx = (size_t)r->computing.n_ctx;
    size_t room = n_ctx < n || n_ctx - n < (size_t)a->n_predict ? n_ctx : n + (size_t)a->n_predict;
    r->ids = n <= n_ctx ? malloc(room * sizeof *r->ids) : NULL;
    if (r->ids) {
        if (loaded)
            memcpy(r->ids, loaded, r->n_loaded * sizeof *r->ids);
        memcpy(r->ids + r->n_loaded, r->prompt.ids, r->prompt.n * sizeof *r->ids);
    }
    tblock_free(loaded);
    if (n > n_ctx)
        return fail(err, TBLOCK_USAGE, "the %sprompt has %zu tokens, but the context holds %zu",
                        r->n_loaded ? "state with the " : "", n, n_ctx);
    if (!r->ids)
        return no_memory(NULL, err);
    r->n_ids = r->n_given = n;
    if (!r->info.has_tokenizer)
        return true;
    bool only_bos = n == 1 && r->ids[0] == r->info.bos; /* then the text starts here, and its dummy space goes */
    r->stream = tblock_stream_new(r->model, !only_bos, err);
    return r->stream != NULL;
}

/* A log rather than a result: written line by line, so that a run that dies leaves what it did. */
static bool open_trace(Run *r, tblock_error *err)
{
    const char *path = r->args->trace;
    if (!path)
        return true;
    r->trace = fopen(path, "we");
    if (!r->trace)
        return fail(err, TBLOCK_SYSTEM, "%s: %s", path, strerror(errno));
    setvbuf(r->trace, NULL, _IOLBF, 0);
    return true;
}

static bool close_trace(Run *r, tblock_error *err)
{
    if (!r->trace)
        return true;
    bool good = !ferror(r->trace);
    errno = 0;
    good &= fclose(r->trace) == 0;
    r->trace = NULL;
    return good || fail(err, TBLOCK_SYSTEM, "%s: %s", r->args->trace, errno ? strerror(errno) : "a write failed");
}

/* ---- Text ------------------------------------------------------------------------------------------------------ */

/* Write r->text out, unless --json collects it. */
static bool show_text(Run *r, tblock_error *err)
{
    if (r->args->json)
        return true;
    output_write(r->text.text, r->text.n);
    r->text.n = 0;
    return output_flush(err);
}

static bool echo_prompt(Run *r, tblock_error *err)
{
    char  *text = NULL;
    size_t n = 0;
    if (!r->args->echo || r->args->json)
        return true;
    if (!r->args->prompt.ids.given)
        return text_out_add(&r->text, r->prompt.text, r->prompt.n_text, err) && show_text(r, err);
    if (!r->stream) {
        for (size_t i = 0; i < r->prompt.n; i++)
            output_format("%" PRId32 " ", r->prompt.ids[i]);
        return output_flush(err);
    }
    bool good = tblock_detokenize(r->model, r->prompt.ids, r->prompt.n, &text, &n, err) && text_out_add(&r->text, text, n,
                                                                                                     err) &&
                show_text(r, err);
    tblock_free(text);
    return good;
}

static bool show_token(Run *r, int32_t id, tblock_error *err)
{
    char        number[16];
    size_t      n;
    const char *text = number;
    if (r->stream) {
        text = tblock_stream_put(r->stream, id, &n);
    } else {
        bool first = r->n_ids == r->n_given + 1;
        n = (size_t)snprintf(number, sizeof number, "%s%" PRId32, first ? "" : " ", id);
    }
    return stop_text_put(&r->stop, text, n, &r->text, err) && show_text(r, err);
}

/* The rest: half a character, and what might have become a stop text. */
static bool show_end(Run *r, tblock_error *err)
{
    size_t      n = 0;
    const char *rest = r->stream ? tblock_stream_flush(r->stream, &n) : "";
    if (!stop_text_put(&r->stop, rest, n, &r->text, err) || !stop_text_flush(&r->stop, &r->text, err))
        return false;
    if (!r->args->json && (output_is_terminal() || !r->stream) && !text_out_add(&r->text, "\n", 1, err))
        return false;
    return show_text(r, err);
}

/* ---- Tokens ---------------------------------------------------------------------------------------------------- */

/* Compute the tokens from .. from + n - 1 of the sequence; r->logits are those after the last one, if wanted. */
static bool compute(Run *r, size_t from, size_t n, bool want_logits, tblock_error *err)
{
    tblock_item items[COMPUTE_BATCH];
    for (size_t i = 0; i < n; i++)
        items[i] = (tblock_item){ .pos = (int32_t)(from + i), .token = r->ids[from + i],
                                  .want_logits = want_logits && i + 1 == n };
    r->logits = NULL;
    if (!tblock_decode(r->context, items, n, err))
        return false;
    if (want_logits)
        r->logits = tblock_logits(r->context, n - 1);
    return true;
}

/* Of the last logits; 0 before there are any. Only where it is asked for: it reads the whole vocabulary. */
static uint64_t logits_hash(const Run *r)
{
    return r->logits ? tblock_hash_floats(r->logits, (size_t)r->info.vocab_size) : 0;
}

/* A bar for a long prompt, unless it would overwrite the last line of the echo. */
static void show_prefill(const Run *r)
{
    bool echo = r->args->echo && output_is_terminal();
    if (!echo)
        progress_show("reading the prompt", (double)r->stats.n_prefilled / (double)(r->n_ids - r->n_loaded));
}

/* The prompt goes in pieces that take a moment each, so that Ctrl-C is heard: they grow while they are quick. Any
 * pieces give the same bits. */
static bool prefill(Run *r, tblock_error *err)
{
    double start = clock_seconds();
    size_t n = 64, at = r->n_loaded < r->n_ids ? r->n_loaded : r->n_ids - 1; /* a state keeps no logits: one token anew */
    bool   good = at == r->n_loaded || tblock_seq_rewind(r->context, 0, (int32_t)at, err);
    while (good && at < r->n_ids && !interrupted()) {
        show_prefill(r);
        double piece_start = clock_seconds();
        size_t left = r->n_ids - at;
        size_t piece = left < n ? left : n;
        good = compute(r, at, piece, piece == left, err);
        at += piece;
        r->stats.n_prefilled += piece;
        r->stats.n_pieces++;
        if (n < COMPUTE_BATCH && clock_seconds() - piece_start < 0.2)
            n *= 2;
    }
    r->stats.prefill_s = clock_seconds() - start;
    progress_end();
    return good;
}

static bool is_eos(const Run *r, int32_t id)
{
    for (int i = 0; i < r->info.n_eos; i++)
        if (r->info.eos[i] == id)
            return true;
    return false;
}

/* Guess what follows ids[0 .. n_ids) into r->ahead, no further than the text may grow. A draft that was right to its end
 * makes the next one longer, a wrong one as short as it was right. */
static void propose(Run *r)
{
    Ahead *a = &r->ahead;
    size_t n_drawn = r->n_ids - r->n_given, left = (size_t)r->args->n_predict - n_drawn - 1;
    size_t room = (size_t)r->computing.n_ctx - r->n_ids, most = (size_t)r->args->draft_max;
    tblock_draft_options o = { .min_match = r->args->draft_match };

    if (a->n > 1) {
        size_t right = r->n_ids - 1 - a->pos;
        a->length = right == a->n ? 2 * a->length : right;
    }
    a->length = a->length < 1 ? 1 : a->length > most ? most : a->length;
    most = a->length < left ? a->length : left;
    most = most < room ? most : room;
    a->pos = r->n_ids - 1;
    a->token[0] = r->ids[a->pos];
    a->n = 1 + (r->stats.drafts ? tblock_draft_ngram(r->ids, r->n_ids, &o, a->token + 1, most) : 0);
    r->stats.n_proposed += a->n - 1;
}

/* The logits after the last token: those of a draft that has been right so far, or computed now with another draft. */
static bool advance(Run *r, tblock_error *err)
{
    Ahead *a = &r->ahead;
    size_t pos = r->n_ids - 1, i = pos - a->pos;
    r->stats.n_decoded++;
    if (i < a->n && a->token[i] == r->ids[pos]) {
        r->stats.n_accepted++;
        r->logits = tblock_logits(r->context, i);
        return true;
    }
    tblock_item items[1 + DRAFT_MOST];
    propose(r);
    for (i = 0; i < a->n; i++)
        items[i] = (tblock_item){ .pos = (int32_t)(pos + i), .token = a->token[i], .want_logits = true };
    r->logits = NULL;
    r->stats.n_calls++;
    if (!tblock_seq_rewind(r->context, 0, (int32_t)pos, err) || !tblock_decode(r->context, items, a->n, err))
        return false;
    r->logits = tblock_logits(r->context, 0);
    return true;
}

/* Draw the next token and append it to the sequence, or set *ended where it ends the text. */
static bool draw(Run *r, bool *ended, tblock_error *err)
{
    int32_t id;
    double  start = clock_seconds();
    bool    good = sampling_draw(r->sampler, r->args->model, r->logits, r->ids, r->n_ids, &id, err);
    r->stats.decode_s += clock_seconds() - start;
    if (!good)
        return false;
    if (r->trace)
        fprintf(r->trace, "%zu %" PRId32 " %016" PRIx64 "\n", r->n_ids, id, logits_hash(r));
    if (is_eos(r, id)) {
        r->reason = STOP_EOS;
        *ended = true;
        return true;
    }
    r->ids[r->n_ids++] = id;
    return show_token(r, id, err);
}

/* Whether something other than the end token ends the text after n_generated tokens. */
static bool must_stop(Run *r, int n_generated)
{
    if (interrupted())
        r->reason = STOP_INTERRUPT;
    else if (r->stop.found)
        r->reason = STOP_TEXT;
    else if (n_generated == r->args->n_predict)
        r->reason = STOP_LENGTH;
    else if (r->n_ids == (size_t)r->computing.n_ctx)
        r->reason = STOP_CONTEXT;
    else
        return false;
    return true;
}

static bool generate(Run *r, tblock_error *err)
{
    bool ended = false;
    for (int i = 0; !ended; i++) {
        if (must_stop(r, i))
            break;
        if (i > 0) {
            double start = clock_seconds();
            if (!advance(r, err))
                return false;
            r->stats.decode_s += clock_seconds() - start;
        }
        if (!draw(r, &ended, err))
            return false;
    }
    return true;
}

/* ---- After the last token -------------------------------------------------------------------------------------- */

static void print_json(const Run *r)
{
    output_format("{");
    output_json_ids("prompt_ids", r->prompt.ids, r->prompt.n);
    output_format(", ");
    output_json_ids("ids", r->ids + r->n_given, r->n_ids - r->n_given);
    output_format(", \"text\": ");
    if (r->stream)
        output_json_text(r->text.text ? r->text.text : "", r->text.n);
    else
        output_format("null");
    output_format(", \"stop_reason\": \"%s\", ", reason_names[r->reason]);
    run_stats_json(&r->stats, &r->info, &r->computing);
    output_format("}\n");
}

/* The whole sequence goes into the file: the last token, which nothing was drawn from yet, is computed; a draft is
 * forgotten. Of a prompt that was interrupted, what was read. */
static bool save_state(Run *r, tblock_error *err)
{
    const Ahead *a = &r->ahead;
    size_t last = r->n_ids - 1, length = (size_t)tblock_seq_length(r->context, 0), n = r->n_ids;
    if (!r->args->save_state)
        return true;
    bool drafted = a->n > 0 && last - a->pos < a->n && a->token[last - a->pos] == r->ids[last];
    bool good = true;
    if (length < last)
        n = length;
    else if (drafted)
        good = length <= n || tblock_seq_rewind(r->context, 0, (int32_t)n, err);
    else if (a->n > 0 || length == last)
        good = tblock_seq_rewind(r->context, 0, (int32_t)last, err) && compute(r, last, 1, false, err);
    if (!good)
        return false;
    if (n == 0) {
        cli_note(r->args->general.quiet, "--save-state: no token was computed, so no file was "
                                         "written");
        return true;
    }
    return tblock_state_save(r->context, 0, r->ids, n, r->state.path, err) && guarded_commit(&r->state, err);
}

static bool finish(Run *r, tblock_error *err)
{
    bool quiet = r->args->general.quiet;
    if (!show_end(r, err))
        return false;
    if (r->stop.found && r->reason != STOP_INTERRUPT)
        r->reason = STOP_TEXT; /* also when only the last half character completed it */
    tblock_context_describe(r->context, &r->computing);
    r->stats.hash = logits_hash(r);
    if (r->args->json)
        print_json(r);
    if (r->reason == STOP_CONTEXT)
        cli_note(quiet, "stopped: the context of %d tokens is full", r->computing.n_ctx);
    if (r->args->stats)
        run_stats_print(&r->stats, &r->info, &r->computing, reason_names[r->reason]);
    if (!output_flush(err) || !close_trace(r, err) || !save_state(r, err))
        return false;
    return r->reason != STOP_INTERRUPT || fail(err, CLI_INTERRUPTED, "%s", "");
}

static bool run(void *args, tblock_error *err)
{
    RunArgs *a = args;
    if (!seed_choose(&a->sampling.seed, a->general.quiet, err))
        return false;
    RunStats stats = { .seed = a->sampling.seed.value, .drafts = strcmp(a->draft, "none") != 0,
                       .memory_fd = a->stats || a->json ? run_stats_open_memory() : -1 };
    Run  r = { .args = a, .stats = stats, .ahead.length = DRAFT_START, .stop = { .texts = a->stop.texts, .n = a->stop.n } };
    bool good = check_save_state(a, err) && load(&r, err) && check_outputs(&r, err) && read_prompt(&r, err) && open_trace(&r, err);
    good = good && guarded_output(&r.state, a->save_state, a->compute.sandbox, err)
           && guarded_enter(a->compute.sandbox, &r.state, 1, r.trace ? fileno(r.trace) : -1, err);
    if (good) {
        interrupt_catch();
        good = echo_prompt(&r, err) && prefill(&r, err) && generate(&r, err) && finish(&r, err);
    }
    if (stats.memory_fd >= 0)
        close(stats.memory_fd);
    guarded_close(&r.state, err);
    close_trace(&r, NULL);
    tblock_stream_free(r.stream);
    tblock_sampler_free(r.sampler);
    tblock_context_free(r.context);
    tblock_close(r.model);
    prompt_free(&r.prompt);
    free(r.ids);
    free(r.stop.held.text);
    free(r.text.text);
    return good;
}

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(RunArgs, field)
static const Option generate_options[] = {
    { "predict", 'n', "N",    OPT_INT,   AT(n_predict), 0, 1 << 20, "256",
      "generate at most N tokens; 0: only read the prompt" },
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
static const Option state_options[] = {
    { "save-state", 0, "FILE", OPT_TEXT, AT(save_state), 0, 0, NULL,
      "at the end, save the tokens and the KV cache to FILE" },
    { "load-state", 0, "FILE", OPT_TEXT, AT(load_state), 0, 0, NULL,
      "continue from a saved FILE: the prompt follows its tokens, without a BOS, and may be empty" },
    { 0 },
};
static const Option draft_options[] = {
    { "draft",       0, "none|ngram", OPT_CHOICE, AT(draft), 0, 0, "none",
      "ngram: guess the next tokens from the text so far and check them in one batch; faster, same "
      "text" },
    { "draft-max",   0, "N", OPT_INT, AT(draft_max), 1, DRAFT_MOST, "7",
      "guess at most N tokens at once; if memory limits the speed, 8 in a batch cost little more "
      "than 1" },
    { "draft-match", 0, "N", OPT_INT, AT(draft_match), 1, DRAFT_MOST, "2",
      "guess only if the last N tokens appeared before" },
    { 0 },
};
static const Operand operands[] = { { "MODEL", AT(model), false, MODEL_OPERAND }, { 0 } };
static const OptionGroup groups[] = {
    GROUP_PROMPT(AT(prompt)),
    { "Generating", generate_options, 0 },
    { "Sampling", sampling_options, AT(sampling) },
    { "Drafts", draft_options, 0 },
    { "State", state_options, 0 },
    GROUP_COMPUTE(AT(compute)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock run models/shakespeare.bin --prompt 'ROMEO:'",
      "continue the text, the same way each time" },
    { "tblock run models/shakespeare.bin --prompt 'ROMEO:' --seed random",
      "another continuation; prints its seed" },
    { "tblock run model.bin --prompt-file story.txt --temp 0 -n 100 --stats > out.txt",
      "always the most likely token, and how fast" },
    { "tblock run model.bin --prompt 'Q: 6 x 7? A:' --stop 'Q:'", "stop before the next question" },
    { "tblock run model.bin --prompt-file rules.txt -n 0 --save-state rules.state",
      "read a long text once; --load-state rules.state then continues from it at once" },
    { 0 },
};
const Command cmd_run = {
    { "run", operands, groups },
    "continue a text",
    "Prints the continuation to standard output as it is generated, exact to the byte (on a "
    "terminal a newline is added at the end). Everything else goes to standard error. The text "
    "ends at the model's end token, after --predict tokens, before a --stop text, or when the "
    "context is full. An empty prompt starts from the BOS token; if the tokenizer adds none, it is "
    "an error. With --load-state the prompt is added after the tokens of the state and never "
    "compared with them. A state fits only the same model, numerics version, --math, --activations "
    "and --kv-type. A model without a tokenizer takes --ids and prints ids. Ctrl-C ends the text "
    "early with exit status 130; a second Ctrl-C ends the program at once.",
    examples, sizeof(RunArgs), run,
};
