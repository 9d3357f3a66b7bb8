/* cli/common.c: the shared option tables, and opening a model, a context and a prompt by them. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/file.h"
#include "base/sampling.h"
#include "tblock_tools.h"

#define AT(field) offsetof(GeneralOptions, field)
const Option general_options[] = {
    { "quiet",   'q', NULL, OPT_FLAG, AT(quiet),   0, 0, NULL,
      "print only errors to standard error, no notes" },
    { "usage",   'h', NULL, OPT_NOW,  AT(usage),   0, 0, NULL, "show examples and a few options" },
    { "help",     0,  NULL, OPT_NOW,  AT(help),    0, 0, NULL, "show this help" },
    { "version", 'V', NULL, OPT_NOW,  AT(version), 0, 0, NULL, "print the version" },
    { 0 },
};
#undef AT

#define AT(field) offsetof(ComputeOptions, field)
const Option compute_options[] = {
    /* ctx and threads come first: COMPUTE_SIZES */
    { "ctx", 'c', "N", OPT_INT, AT(n_ctx), 0, CTX_MOST, "0", "context length; 0: the model's own" },
    OPTION_THREADS(AT(threads), ", fewer for a tiny model"),
    { "affinity", 0, "none|cores", OPT_CHOICE, AT(affinity), 0, 0, "none",
      "cores: pin each thread to a physical core; two such processes at once use the same cores" },
    { "isa", 0, "auto|scalar|avx2|avxvnni|avx512|avx512vnni|avx512bf16|neon|neondot", OPT_CHOICE,
      AT(isa), 0, 0, "auto", "instruction set; all give the same bits" },
    { "math", 0, "auto|f32|int8|bf16", OPT_CHOICE, AT(math), 0, 0, "auto",
      "arithmetic; auto: int8 for quantized weights, f32 for others" },
    { "activations", 0, "auto|8|16", OPT_CHOICE, AT(activations), 0, 0, "auto",
      "bits of the activations that quantized weights are multiplied with; auto: 16 where 8 "
      "would cost the most, else 8" },
    OPTION_KV_TYPE(AT(kv_type)),
    { "rope-length", 0, "N", OPT_INT, AT(rope_length), 0, 1 << 24, "0",
      "of rotations that depend on a length (longrope, dynamic): this length; 0: the context's" },
    OPTION_SANDBOX(AT(sandbox)),
    { "allow-nan", 0, NULL, OPT_FLAG, AT(allow_nan), 0, 0, NULL,
      "continue if logits are NaN; by default this is an error that names the first NaN or "
      "infinite weight" },
    { "check", 0, NULL, OPT_FLAG, AT(check), 0, 0, NULL,
      "before computing, read all data of the model, as info --check does: is its sha256 the "
      "recorded one, is every weight finite?" },
    { "mlock", 0, NULL, OPT_FLAG, AT(mlock), 0, 0, NULL,
      "lock the weights in memory; an error if the system does not allow it" },
    { "pages", 0, "auto|file|huge", OPT_CHOICE, AT(pages), 0, 0, "auto",
      "of a model file: read the weights from the file's pages, or move them into huge ones; auto: "
      "move them if the run is long enough to gain" },
    { "type", 0, "auto|q8|q4|bf16|f16|f32", OPT_CHOICE, AT(type), 0, 0, "auto",
      "convert the matrices to this type while loading, as quantize does; auto: keep the file's "
      "types" },
    OPTION_KEEP(AT(keep), "with --type: ", ", such as 'embed=f16'; the first match counts"),
    { "lora", 0, "PATH[:SCALE]", OPT_TEXTS, AT(lora), 0, 0, NULL,
      "apply this LoRA adapter of the model, a folder of peft or a .gguf, times SCALE; "
      "repeatable" },
    { 0 },
};
#undef AT

#define AT(field) offsetof(SamplingOptions, field)
#define ROW(field, type, least, most, usual, option, help, ...)                                    \
    { option, 0, TBLOCK_##type == TBLOCK_INT ? "N" : "F",                                          \
      TBLOCK_##type == TBLOCK_INT     ? OPT_INT                                                    \
      : TBLOCK_##type == TBLOCK_FLOAT ? OPT_SINGLE                                                 \
                                      : OPT_FLOAT,                                                 \
      AT(numbers.field), least, most, #usual, help },
const Option sampling_options[] = {
    SAMPLING_ROWS(ROW)
    { "logit-bias",     0, "ID=F", OPT_BIASES, AT(bias), RANGE_BIAS, NULL,
      "add F to the logit of this token before everything else" },
    OPTION_SEED(AT(seed), "the same seed gives the same text; random chooses one and prints it"),
    { 0 },
};
#undef ROW
#undef AT

#define AT(field) offsetof(PromptOptions, field)
const Option prompt_options[] = {
    { "prompt",      'p', "TEXT", OPT_TEXT, AT(text),    0, 0, NULL, "the prompt" },
    { "prompt-file", 'f', "FILE", OPT_TEXT, AT(file), 0, 0, NULL,
      "read the prompt from a file (at most 64 MB), including the last newline; -: standard "
      "input" },
    OPTION_IDS(AT(ids), "token ids instead of text, such as 1,2,3; no BOS is added"),
    OPTION_NO_BOS(AT(no_bos), "leave out the BOS and any other tokens that the tokenizer adds"),
    OPTION_SPECIAL(AT(special), "the text"),
    { 0 },
};
#undef AT

tblock_lora_file *loras_read(const TextList *lora, tblock_error *err)
{
    size_t n = lora->n, bytes = (n + 1) * sizeof(tblock_lora_file);
    for (size_t i = 0; i < n; i++)
        bytes += strlen(lora->texts[i]) + 1;
    tblock_lora_file *out = calloc(1, bytes);
    char             *to  = (char *)(out + n + 1);
    if (!out)
        no_memory(NULL, err);
    for (size_t i = 0; out && i < n; i++) {
        const char *text = lora->texts[i], *colon = strrchr(text, ':');
        out[i] = (tblock_lora_file){ to, 1 };
        strcpy(to, text);
        if (colon && number_read(colon + 1, &out[i].scale))
            to[colon - text] = '\0';
        to += strlen(text) + 1;
    }
    return out;
}

/* Adapter i of the model is value i of the option. */
static bool load_loras(tblock_model *m, const TextList *lora, tblock_error *err)
{
    int               number;
    tblock_lora_file *file = loras_read(lora, err);
    bool              good = file != NULL;
    for (size_t i = 0; good && i < lora->n; i++)
        good = tblock_lora_load(m, file[i].path, &number, err);
    free(file);
    return good;
}

static bool choose_loras(tblock_context *c, const TextList *lora, tblock_error *err)
{
    tblock_lora      *use  = malloc((lora->n + 1) * sizeof *use);
    tblock_lora_file *file = loras_read(lora, err);
    bool              good = file && (use || no_memory(NULL, err));
    for (size_t i = 0; good && i < lora->n; i++)
        use[i] = (tblock_lora){ (int)i, file[i].scale };
    good = good && tblock_lora_choose(c, -1, use, lora->n, err);
    free(use);
    free(file);
    return good;
}

tblock_model *compute_open(const char *path, const ComputeOptions *o, tblock_error *err)
{
    if (o->sandbox && !sandbox_possible(err))
        return NULL;
    if (o->sandbox && o->ranks) {
        fail(err, TBLOCK_USAGE, "--sandbox: expected one process, found %d ranks",
             tblock_ranks_size(o->ranks));
        return NULL;
    }
    tblock_open_options opt = { .mlock = o->mlock,
                                .type = o->type,
                                .check = o->check,
                                .keep = o->keep.texts,
                                .n_keep = o->keep.n,
                                .progress = progress_advance };
    progress_show("loading weights", -1);
    tblock_model *m = o->ranks ? tblock_ranks_open(o->ranks, path, &opt, err)
                               : tblock_open(path, &opt, err);
    if (m && !load_loras(m, &o->lora, err)) {
        tblock_close(m);
        m = NULL;
    }
    progress_end();
    return m;
}

static bool has_fma(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma");
#else
    return true; /* aarch64 always has it */
#endif
}

tblock_context *compute_context(const tblock_model *m, const char *path, const ComputeOptions *o,
                                tblock_error *err)
{
    tblock_model_info info;
    tblock_model_describe(m, &info);
    tblock_context *c = tblock_context_new(m, &(tblock_context_options){
        .n_ctx = o->n_ctx, .n_seqs = o->n_seqs, .n_batch = COMPUTE_BATCH, .threads = o->threads,
        .rope_length = o->rope_length, .isa = o->isa, .math = o->math,
        .activations = o->activations, .kv_type = o->kv_type,
        .affinity = o->affinity, .allow_nan = o->allow_nan, .pages = o->pages,
        .recorded = &o->recorded }, err);
    tblock_context_info computing;
    if (c && o->lora.n && !choose_loras(c, &o->lora, err)) {
        tblock_context_free(c);
        c = NULL;
    }
    if (!c || o->silent)
        return c;
    tblock_context_describe(c, &computing);
    if (strcmp(computing.isa, "scalar") == 0 && !has_fma())
        cli_note("warning: this processor has no fused multiply-add; doing it in software is about "
                 "50 times slower");
    if (o->n_ctx > info.n_ctx)
        cli_note("warning: --ctx %d is more than the %d positions that %s was made for", o->n_ctx,
                 info.n_ctx, path);
    if (info.left_bytes)
        cli_note("%s: packed weights of %zu MB do not fit into the %zu MB of memory that are "
                 "available: they stay as they are in the file, which is slower", path,
                 info.left_bytes >> 20, info.memory_bytes >> 20);
    note_tokenizer(&info, path);
    return c;
}

void note_tokenizer(const tblock_model_info *info, const char *path)
{
    if (info->has_tokenizer && *info->tokenizer_note)
        cli_note("%s: %s", path, info->tokenizer_note);
}

void note_flushed(uint64_t n)
{
    if (n)
        cli_note("%" PRIu64 " weight%s too small for the type and became 0", n,
                 n == 1 ? " was" : "s were");
}

bool need_tokenizer(const tblock_model *m, const char *path, const char *instead, tblock_error *err)
{
    tblock_model_info info;
    tblock_model_describe(m, &info);
    return info.has_tokenizer
        || fail(err, TBLOCK_INPUT, "%s: found no tokenizer: %s%s%s", path, instead,
                *info.tokenizer_note ? "; " : "", info.tokenizer_note);
}

bool prompt_check(const PromptOptions *o, tblock_error *err)
{
    char shown[CLI_SHOWN];
    if (o->words.n && o->text)
        return fail(err, TBLOCK_USAGE, "unexpected argument '%s' beside --prompt: put quotes "
                                       "around a --prompt of several words",
                    cli_shown(shown, o->words.texts[0]));
    if (o->words.n && (o->file || o->ids.given))
        return fail(err, TBLOCK_USAGE, "--%s: expected no prompt beside it, found the argument "
                                       "'%s'",
                    o->file ? "prompt-file" : "ids", cli_shown(shown, o->words.texts[0]));
    if ((o->text != NULL) + (o->file != NULL) + o->ids.given > 1)
        return fail(err, TBLOCK_USAGE, "--prompt, --prompt-file and --ids: expected only one "
                                           "of them, found %s",
                        o->text && o->file && o->ids.given ? "all three" : "two");
    if (o->ids.given && (o->no_bos || o->special))
        return fail(err, TBLOCK_USAGE, "--%s: goes with a text, not with --ids",
                    o->no_bos ? "no-bos" : "special");
    return true;
}

static bool read_text(PromptInput *p, const PromptOptions *o, tblock_error *err)
{
    TextOut     text = { 0 };
    const char *file = prompt_file(o);
    bool good = !file || input_read(file, INPUT_PROMPT, &text, err);
    good      = good && (!o->text || text_out_add(&text, o->text, strlen(o->text), err));
    for (size_t i = 0; good && !file && i < o->words.n; i++)
        good = (i == 0 || text_out_add(&text, " ", 1, err))
            && text_out_add(&text, o->words.texts[i], strlen(o->words.texts[i]), err);
    p->text = text.text;
    p->n_text = text.n;
    return good;
}

static bool check_text(const PromptInput *p, const PromptOptions *o, tblock_error *err)
{
    bool named = o->file && strcmp(o->file, "-") != 0;
    return p->n_text > 0 || !o->needs_text
        || fail(err, TBLOCK_INPUT, "%s: expected a text, found %s",
                named ? o->file : "standard input", named ? "an empty file" : "nothing");
}

static bool copy_ids(PromptInput *p, const int32_t *ids, size_t n, tblock_error *err)
{
    p->ids = malloc((n + 1) * sizeof *p->ids);
    if (!p->ids)
        return no_memory(NULL, err);
    if (n > 0)
        memcpy(p->ids, ids, n * sizeof *p->ids);
    p->n = n;
    return true;
}

static bool read_tokens(PromptInput *p, const PromptOptions *o, const tblock_model *m,
                        tblock_error *err)
{
    unsigned flags = (o->no_bos || o->continues ? 0 : TBLOCK_ADD_SPECIAL)
        | (o->special ? TBLOCK_PARSE_SPECIAL : 0);
    int32_t *ids = NULL;
    size_t   n = 0;
    bool     good = read_text(p, o, err) && check_text(p, o, err)
        && tblock_tokenize(m, p->text ? p->text : "", p->n_text, flags, &ids, &n, err);
    if (good && n > 0 && p->n_text == 0)
        cli_note("the prompt is empty: starting from the token that the tokenizer adds");
    good = good && copy_ids(p, ids, n, err);
    tblock_free(ids);
    return good;
}

/* Checked here and not in tblock_decode, which does not know where an id came from. */
static bool check_ids(const IdList *ids, const tblock_model *m, tblock_error *err)
{
    tblock_model_info info;
    tblock_model_describe(m, &info);
    /* Without weights, the context reports the error. */
    for (size_t i = 0; info.has_weights && i < ids->n; i++)
        if (ids->ids[i] >= info.vocab_size)
            return fail(err, TBLOCK_USAGE, "--ids: expected ids from 0 to %d, found %" PRId32,
                        info.vocab_size - 1, ids->ids[i]);
    return true;
}

bool prompt_read(PromptInput *p, const PromptOptions *o, const tblock_model *m, const char *path,
                 tblock_error *err)
{
    *p = (PromptInput){ 0 };
    if (o->ids.given
            ? !check_ids(&o->ids, m, err) || !copy_ids(p, o->ids.ids, o->ids.n, err)
            : !need_tokenizer(m, path, "give the prompt as token ids, such as --ids 1,2,3", err)
                || !read_tokens(p, o, m, err))
        return false;
    return p->n > 0 || o->continues
        || fail(err, TBLOCK_USAGE, "the prompt is empty: expected at least one token, but %s",
                o->ids.given    ? "--ids is empty"
                    : o->no_bos ? "--no-bos leaves out the BOS"
                                : "the tokenizer adds none");
}

void prompt_free(PromptInput *p)
{
    free(p->text);
    free(p->ids);
    *p = (PromptInput){ 0 };
}

const char *prompt_file(const PromptOptions *o)
{
    const bool dash = o->words.n == 1 && strcmp(o->words.texts[0], "-") == 0;
    return o->text || o->ids.given || (o->words.n && !dash) ? NULL : o->file ? o->file : "-";
}

bool output_one(const char **out, const char *argument, tblock_error *err)
{
    if (*out && argument)
        return fail(err, TBLOCK_USAGE,
                    "expected one output file, found two: -o '%s' and the argument '%s'", *out,
                    argument);
    *out = *out ? *out : argument;
    return true;
}

bool seed_choose(Seed *seed, tblock_error *err)
{
    if (!seed->random)
        return true;
    if (getrandom(&seed->value, sizeof seed->value, 0) != (ssize_t)sizeof seed->value)
        return fail(err, TBLOCK_SYSTEM, "--seed random: %s", strerror(errno));
    seed->random = false;
    cli_note("seed %" PRIu64, seed->value);
    return true;
}
