/* tblock info: a model's parts and costs, as text, JSON or a page. */
#include "frame.h"
#include "tblock_tools.h"

typedef struct InfoArgs {
    tblock_report_options o;
    const char           *path;
    bool                  sandbox;
    GeneralOptions        general;
} InfoArgs;

static bool info(Frame *f, tblock_error *err)
{
    const InfoArgs       *a    = f->args;
    tblock_report_options o    = a->o;
    char                 *text = NULL;
    o.colour   = !o.json && output_has_colour();
    o.html     = f->out[0].path;
    o.progress = progress_advance;
    progress_show(o.check ? "checking the data" : "reading the model", -1);
    bool good = tblock_report(a->path, &o, &text, err); /* a failed check has a text too, */
    if (text || good)                                   /* and then the page is there */
        good &= guarded_commit(&f->out[0], good ? err : NULL);
    progress_end();
    if (text && (o.json || !a->o.html)) /* with --html alone, print nothing */
        output_report(text);
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
    { "seq",     0, "N", OPT_INT,  AT(o.seq),   0, 1 << 24, "0",
      "length of the prompt to count, and positions that a decode step sees; 0: 2048, or the "
      "model's context if that is less" },
    { "batch", 0, "N", OPT_INT, AT(o.batch), 1, 1 << 16, "1", "number of such sequences at once" },
    OPTION_KV_TYPE(AT(o.kv_type)),
    { "type",    0, "bf16|f16|f32|q8|q4", OPT_CHOICE, AT(o.type), 0, 0, NULL,
      "type of the weights to count if the model is only a config; default: bf16" },
    { "ranks",   0, "N", OPT_INT, AT(o.ranks), 0, 256, "0",
      "also what each of N processes that share the model holds, what they exchange for a token, "
      "and how fast that may be" },
    { "bandwidth", 0, "F", OPT_FLOAT, AT(o.bandwidth), 1e-6, 1e6, "1",
      "with --ranks: Gbit/s between two of them" },
    { "latency", 0, "F", OPT_FLOAT, AT(o.latency), 1e-6, 1e9, "50",
      "with --ranks: microseconds until a message arrives" },
    { "memory",  0, "F", OPT_FLOAT, AT(o.memory), 0, 1e6, "0",
      "with --ranks: GB/s at which each reads weights (tblock bench measures it), for a prediction "
      "of tokens/s; 0: none" },
    OPTION_JSON(AT(o.json), "print one JSON object"),
    { "html",    0, "FILE", OPT_TEXT, AT(o.html),  0, 0, NULL,
      "write an HTML page with tables, drawings and plots instead of printing the text" },
    { "tensors", 0, NULL, OPT_FLAG, AT(o.tensors), 0, 0, NULL, "list every tensor" },
    { "check",   0, NULL, OPT_FLAG, AT(o.check),   0, 0, NULL,
      "read all data and check its sha256, that padding is zero and that all weights are finite; "
      "exit status 1 if not" },
    OPTION_SANDBOX(AT(sandbox)),
    { 0 },
};
const Command cmd_info = {
    { "info",
      OPERANDS({ "MODEL", AT(path), false,
                 MODEL_OPERAND ", or just a JSON config: tblock's or a config.json of Hugging "
                               "Face" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "print what a model is made of and what it costs: parameters, FLOP, memory",
    "Describes a model, or the model that a JSON config stands for: every matrix of a block, FLOP "
    "and bytes moved for a prompt and for one decode step, KV cache, memory to run. Weights are "
    "read only with --check. docs/info.md explains how each number is counted.",
    EXAMPLES({ "tblock info models/shakespeare.bin", "what the model is made of" },
             { "tblock info config.json --json",
               "the same numbers for a config without weights, for a program" },
             { "tblock info models/llama-3-8b.json --seq 8192 --kv-type f16",
               "what a prompt of 8192 tokens costs" },
             { "tblock info model.bin --check", "is the file undamaged?" },
             { "tblock info models/llama-2-70b.json --type q4 --ranks 4 --memory 40",
               "on four machines with a network of 1 Gbit/s" },
             { "tblock info model.bin --html model.html", "write a page for a browser" }),
    .args_size = sizeof(InfoArgs), .run = info, .opens = OPENS_FILES, .writes = { "html" },
};
