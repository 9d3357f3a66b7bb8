#include "command.h"
#include "common.h"
#include "output.h"

#include <string.h>

typedef struct InfoArgs {
    const char    *path, *html, *kv_type, *type;
    int            seq, batch;
    bool           json, tensors, check;
    GeneralOptions general;
} InfoArgs;

static bool info(void *args, tblock_error *err)
{
    const InfoArgs *a = args;
    char           *text = NULL;
    tblock_report_options o = {
        .json = a->json, .tensors = a->tensors, .check = a->check, .colour = !a->json && output_has_colour(),
        .seq = a->seq, .batch = a->batch, .kv_type = a->kv_type, .type = a->type, .html = a->html,
    };

    bool good = tblock_report(a->path, &o, &text, err); /* a check that says no still has its report */
    if (text) {
        size_t n = strlen(text);
        output_write(text, n);
        if (n == 0 || text[n - 1] != '\n')
            output_write("\n", 1);
    }
    tblock_free(text);
    tblock_error output_err;
    if (output_flush(&output_err))
        return good;
    if (good)
        *err = output_err;
    return false;
}

#define AT(field) offsetof(InfoArgs, field)
static const Option options[] = {
    { "seq",     0, "N", OPT_INT,  AT(seq),   0, 1 << 24, "0",
      "tokens of the prompt whose cost is counted, and positions that a decode step sees; 0: 2048, or the model's context where"
      " that is less" },
    { "batch",   0, "N", OPT_INT,  AT(batch), 1, 1 << 16, "1", "sequences of that length at once" },
    { "kv-type", 0, "auto|f32|f16|q8", OPT_CHOICE, AT(kv_type), 0, 0, "auto",
      "type of the KV cache; auto: f32 for float weights, f16 for quantized ones" },
    { "type",    0, "bf16|f16|f32|q8|q4", OPT_CHOICE, AT(type), 0, 0, NULL, "type of the weights that a bare config is counted with;"
      " bf16 if absent" },
    { "json",    0, NULL, OPT_FLAG, AT(json),    0, 0, NULL, "one JSON object" },
    { "html",    0, "FILE", OPT_TEXT, AT(html),  0, 0, NULL, "also write one page with tables, drawings and plots" },
    { "tensors", 0, NULL, OPT_FLAG, AT(tensors), 0, 0, NULL, "list every tensor" },
    { "check",   0, NULL, OPT_FLAG, AT(check),   0, 0, NULL,
      "read all data: is its sha256 the recorded one, padding zero, every weight finite? Exit status 1 where not" },
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(path), false, MODEL_OPERAND ", or a JSON config alone, ours or config.json of Hugging Face" },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Options", options, 0 },
    { "General", general_options, AT(general) },
    { 0 },
};
static const Example examples[] = {
    { "tblock info models/shakespeare.bin", "what the model is made of" },
    { "tblock info config.json --json", "the same numbers for a config alone, for a program" },
    { "tblock info models/llama-3-8b.json --seq 8192 --kv-type f16", "what a prompt of 8192 tokens costs" },
    { "tblock info model.bin --check", "is the file whole?" },
    { "tblock info model.bin --html model.html", "the same as a page for a browser" },
    { 0 },
};
const Command cmd_info = {
    { "info", operands, groups },
    "what a model is made of and what it costs: parameters, FLOP, memory",
    "Describes a model file, or the model that a JSON config would make: every matrix of a block, FLOP and bytes moved by a"
    " prompt and by one decode step, KV cache, memory to run. docs/info.md says how each number is counted. Weights are not"
    " read, except by --check.",
    examples, sizeof(InfoArgs), info,
};
