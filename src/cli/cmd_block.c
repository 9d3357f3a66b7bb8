/* tblock block: one decoder block, step by step, forward and backward. */
#include "frame.h"
#include "tblock_tools.h"
#include "train_options.h"

#include <math.h>

typedef struct BlockArgs {
    tblock_block_options o; /* as given; block() makes of some what the library wants */
    const char          *path;
    int                  places;
    bool                 check;
    Seed                 seed;
    GeneralOptions       general;
} BlockArgs;

static bool block(Frame *f, tblock_error *err)
{
    BlockArgs            *a    = f->args;
    tblock_block_options *o    = &a->o;
    char                 *text = NULL;
    if (!seed_choose(&a->seed, err))
        return false;
    o->seed     = a->seed.value;
    o->window   = o->window < 0 ? 0 : o->window == 0 ? -1 : o->window;
    o->theta    = isnan(o->theta) ? 0 : o->theta;
    o->eps      = isnan(o->eps) ? 0 : o->eps;
    o->check    = a->check ? a->places : 0;
    o->colour   = !o->json && output_has_colour();
    o->progress = progress_advance;
    blas_without_threads();
    progress_show("computing the block", -1);
    bool good = tblock_block(a->path, o, &text, err); /* a block with a fault still has its page */
    progress_end();
    /* quiet with --output: the file is all */
    if (text && (o->json || !o->output || !a->general.quiet))
        output_report(text);
    tblock_free(text);
    return good;
}

#define AT(field) offsetof(BlockArgs, field)
enum { MOST = 1 << 20 };
static const Option options[] = {
    { "tensors",  0,  "FILE", OPT_TEXT, AT(o.tensors), 0, 0, NULL,
      "a safetensors file with x and dy [B, L, d_model], and with the weights unless BLOCK is a "
      "model" },
    OPTION_OUTPUT(AT(o.output), NULL, "write y, attn, dx and grad.NAME to a safetensors file"),
    { "layer",    0,  "N", OPT_INT, AT(o.layer), 0, MOST, "0",
      "the layer to take from a model or its config" },
    { "batch",    0,  "N", OPT_INT, AT(o.batch), 0, MOST, "0",
      "number of sequences, B; 0: as in x or the case, else 2" },
    { "length",   0,  "N", OPT_INT, AT(o.length), 0, MOST, "0",
      "tokens per sequence, L; 0: as in x or the case, else 16" },
    OPTION_SEED(AT(seed), "seed of the random weights and input"),
    { "stack",    0,  "N", OPT_INT, AT(o.stack), 0, TBLOCK_BLOCK_MAX_STACK, "3",
      "compare pre-norm and post-norm in a stack of N blocks, or a model's N layers from --layer "
      "on; 0: no stack" },
    { "grad-check", 0, NULL, OPT_FLAG, AT(check), 0, 0, NULL,
      "check the gradients with central differences in double precision" },
    { "places",   0,  "N", OPT_INT, AT(places), 1, MOST, "8",
      "elements of each tensor that --grad-check tests" },
    OPTION_JSON(AT(o.json), "print one JSON object instead of the text"),
    OPTION_THREADS(AT(o.threads), ""),
    { 0 },
};
static const Option shape[] = {
    { "norm",      0, "rms|layer", OPT_CHOICE, AT(o.norm), 0, 0, NULL, "the kind of norm" },
    { "placement", 0, "pre|post|both|output", OPT_CHOICE, AT(o.placement), 0, 0, NULL,
      "pre: norm before each half; post: after its residual sum; both: before it and on its "
      "output; output: on its output" },
    { "ffn",       0, "swiglu|geglu|gelu|relu|gelu_tanh|geglu_erf|relu2", OPT_CHOICE, AT(o.ffn),
      0, 0, NULL,
      "kind of feed-forward network; geglu and gelu_tanh use the tanh form of GELU, the others the "
      "exact one" },
    { "d-model",   0, "N", OPT_INT, AT(o.d_model), 0, MOST, "0", "width of the residual stream" },
    { "heads",     0, "N", OPT_INT, AT(o.heads), 0, MOST, "0", "query heads" },
    { "kv-heads",  0, "N", OPT_INT, AT(o.kv_heads), 0, MOST, "0",
      "key and value heads; default: as many as query heads, if those are given" },
    { "head-dim",  0, "N", OPT_INT, AT(o.head_dim), 0, MOST, "0",
      "width of a head; default: d_model / heads, if one of them is given" },
    { "d-ff",      0, "N", OPT_INT, AT(o.d_ff), 0, 1 << 22, "0",
      "width of the feed-forward network" },
    { "window",    0, "N", OPT_INT, AT(o.window), -1, 1 << 28, "-1",
      "positions a query sees, including its own; 0: all; -1: as in BLOCK" },
    { "non-causal", 0, NULL, OPT_FLAG, AT(o.non_causal), 0, 0, NULL,
      "let queries see later positions too (no causal mask)" },
    { "bias",      0, NULL, OPT_FLAG, AT(o.bias), 0, 0, NULL,
      "add biases to every product and LayerNorm" },
    { "no-rope",  0, NULL, OPT_FLAG, AT(o.no_rope), 0, 0, NULL, "do not rotate q and k (no RoPE)" },
    { "theta",     0, "F", OPT_FLOAT, AT(o.theta), 1, 1e15, NULL, "base of the RoPE frequencies" },
    { "eps",       0, "F", OPT_FLOAT, AT(o.eps), 1e-30, 1, NULL, "epsilon of the norms" },
    { 0 },
};
const Command cmd_block = {
    { "block",
      OPERANDS({ "BLOCK", AT(path), true,
                 "a JSON config, a case (docs/block.md) or any model; default: a "
                 "small block of width 64" }),
      GROUPS({ "Options", options, 0 }, { "Changes to the block (0: as in BLOCK)", shape, 0 },
             GROUP_GENERAL(AT(general))) },
    "run one transformer block and print its shapes, values, gradients and costs",
    "Runs one decoder block forward and backward on a given or a random input and prints every "
    "step: formula, shape, RMS of the value and of its gradient, FLOP. Then it prints parameters, "
    "memory, and how gradients pass through a stack of pre-norm and of post-norm blocks. Exit "
    "status 1 if a gradient is wrong or a value is NaN or infinite; the first such value is named. "
    "Needs OpenBLAS (Debian: libopenblas0). docs/block.md explains the output.",
    EXAMPLES({ "tblock block", "a small block, step by step" },
             { "tblock block --placement post --ffn gelu --norm layer --bias --no-rope",
               "close to the block of the 2017 paper" },
             { "tblock block --heads 8 --kv-heads 2 --window 4 --grad-check",
               "check its gradients" },
             { "tblock block models/shakespeare.bin --layer 2 --stack 4",
               "a trained block; its stack is layers 2 to 5" },
             { "tblock block CASE.json --tensors CASE.safetensors -o out.safetensors",
               "write the results, to compare with another program" }),
    .args_size = sizeof(BlockArgs), .run = block,
};
