/* tblock convert: converts any source to a model file. */
#include "chat_session.h"
#include "frame.h"
#include "tblock_tools.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ConvertArgs {
    tblock_convert_options o; /* as given */
    const char    *in, *out, *layout;
    TextList       keep, merge_lora;
    bool           sandbox;
    GeneralOptions general;
} ConvertArgs;

/* Notes are whole lines; each becomes a note of its own. */
static void print_warnings(const char *lines)
{
    for (const char *end; lines && (end = strchr(lines, '\n')) != NULL; lines = end + 1)
        cli_note("%.*s", (int)(end - lines), lines);
}

static void print_report(const ConvertArgs *a, const tblock_convert_report *r)
{
    char out[CLI_SHOWN];
    print_warnings(r->warnings);
    note_flushed(r->flushed);
    if (r->not_finite)
        cli_note("%" PRIu64 " vector%s NaN or infinite values, which were kept",
                 r->not_finite, r->not_finite == 1 ? " has" : "s have");
    if (!a->general.quiet && !r->n_params)
        output_format("%s: %s, only the tokenizer\n", cli_shown(out, a->out), r->source);
    else if (!a->general.quiet)
        output_format("%s: %s, %" PRIu64 " parameters, %" PRIu64 " bytes of weights\n",
                      cli_shown(out, a->out), r->source, r->n_params, r->bytes);
}

static bool convert_check(Frame *f, tblock_error *err)
{
    const ConvertArgs *a = f->args;
    f->other        = a->o.tokenizer;
    f->compute.lora = a->merge_lora;
    return !a->o.no_tokenizer || (!a->o.tokenizer && !a->o.tokenizer_only)
        || fail(err, TBLOCK_USAGE, "%s and --no-tokenizer: expected only one of them",
                a->o.tokenizer ? "--tokenizer" : "--tokenizer-only");
}

static bool convert(Frame *f, tblock_error *err)
{
    const ConvertArgs    *a      = f->args;
    tblock_convert_report report = { 0 };
    TextOut               text   = { 0 };
    tblock_convert_options o      = a->o;
    tblock_lora_file     *merge  = loras_read(&a->merge_lora, err);
    bool good = merge && template_read(a->o.chat_format, &text, &o.chat_format, err)
        && frame_files(f, err);
    if (o.type && strcmp(o.type, "keep") == 0)
        o.type = NULL;
    o.keep         = a->keep.texts;
    o.n_keep       = a->keep.n;
    o.row_major    = strcmp(a->layout, "rows") == 0;
    o.merge_lora   = merge;
    o.n_merge_lora = a->merge_lora.n;
    o.progress     = progress_advance;
    progress_show("converting", 0);
    good = good && tblock_convert(a->in, f->out[0].path, &o, &report, err) && frame_commit(f, err);
    progress_end();
    if (good)
        print_report(a, &report);
    text_out_free(&text);
    free(merge);
    tblock_free(report.warnings);
    return good;
}

#define AT(field) offsetof(ConvertArgs, field)
static const Option options[] = {
    OPTION_OUTPUT(
        AT(out), OPT_REQUIRED,
        "the model file to write; an old file is replaced only when the new one is complete"),
    { "type", 0, "keep|q8|q4|bf16|f16|f32", OPT_CHOICE, AT(o.type), 0, 0, "keep",
      "type of the matrices; keep: each stays as it is stored" },
    OPTION_KEEP(AT(keep), "with --type: ", ", such as 'embed=f16'; the first match counts"),
    { "layout", 0, "rows16|rows", OPT_CHOICE, AT(layout), 0, 0, "rows16",
      "rows16: panels of 16 rows, used as they are stored; rows: row-major, for other programs, "
      "packed at each start" },
    { "tokenizer", 0, "FILE", OPT_TEXT, AT(o.tokenizer), 0, 0, NULL,
      "use this tokenizer instead of the model's own" },
    { "pattern", 0, "NAME", OPT_TEXT, AT(o.pattern), 0, 0, NULL,
      "how the tokenizer splits text, if its files do not say: gpt2, llama3, cl100k, o200k, "
      "qwen2" },
    { "no-tokenizer", 0, NULL, OPT_FLAG, AT(o.no_tokenizer), 0, 0, NULL,
      "convert only the weights" },
    { "tokenizer-only", 0, NULL, OPT_FLAG, AT(o.tokenizer_only), 0, 0, NULL,
      "convert only the tokenizer: a model file without weights, for tokenize" },
    { "chat-format", 0, "NAME|FILE", OPT_TEXT, AT(o.chat_format), 0, 0, NULL,
      "store this chat template instead of the model's own: a built-in one, as in chat, or a file "
      "in Jinja" },
    { "merge-lora", 0, "PATH[:SCALE]", OPT_TEXTS, AT(merge_lora), 0, 0, NULL,
      "add this LoRA adapter, times SCALE, to the weights; may come up to 16 times. The sums are "
      "rounded to the matrices' type, so the bits are other ones than with --lora" },
    OPTION_THREADS(AT(o.threads), ""),
    OPTION_SANDBOX(AT(sandbox)),
    { 0 },
};
const Command cmd_convert = {
    { "convert",
      OPERANDS({ "SRC", AT(in), false,
                 "a Hugging Face folder, a .gguf, a Meta folder, a llama2.c checkpoint or a "
                 "tokenizer" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "write a model file from another program's checkpoint",
    "Every command reads such checkpoints directly too. A model file starts faster, is shared "
    "between processes and records the hashes of its sources. Memory use does not grow with the "
    "model, and the number of threads does not change the file. docs/convert.md lists the "
    "supported sources.",
    EXAMPLES({ "tblock convert Llama-3.2-1B -o model.bin",
               "keep the weights as they are; the model file is used by mapping it" },
             { "tblock convert model.gguf -o model.bin",
               "the same for a GGUF file; quantized weights stay as they are" },
             { "tblock convert Llama-3.2-1B -o model-q4.bin --type q4", "convert and quantize" }),
    .args_size = sizeof(ConvertArgs), .run = convert, .check = convert_check,
    .writes = { "output" },
};
