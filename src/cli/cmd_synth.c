/* tblock synth: a model of random weights from a bare config. */
#include "frame.h"
#include "tblock_tools.h"

typedef struct SynthArgs {
    tblock_synth_options o;
    const char          *config, *out;
    TextList             keep;
    Seed                 seed;
    GeneralOptions       general;
} SynthArgs;

static bool synth(Frame *f, tblock_error *err)
{
    SynthArgs *a = f->args;
    if (!seed_choose(&a->seed, err))
        return false;
    progress_show("writing weights", 0);
    a->o.keep     = a->keep.texts;
    a->o.n_keep   = a->keep.n;
    a->o.seed     = a->seed.value;
    a->o.progress = progress_advance;
    return tblock_synth(a->config, a->out, &a->o, err);
}

#define AT(field) offsetof(SynthArgs, field)
static const Option options[] = {
    OPTION_OUTPUT(AT(out), OPT_REQUIRED, "the model file to write"),
    { "type",     0,  "f32|f16|bf16|q8|q4", OPT_CHOICE, AT(o.type), 0, 0, "bf16",
      "type of the matrices; with q4, the embedding and the head are q8" },
    OPTION_KEEP(AT(keep), "", ", as in quantize"),
    OPTION_SEED(AT(seed), "the same seed gives the same file"),
    { "sparse",   0,  NULL, OPT_FLAG, AT(o.sparse), 0, 0, NULL,
      "do not write the matrices: they read as zeros and take no disk space" },
    OPTION_THREADS(AT(o.threads), ""),
    { 0 },
};
const Command cmd_synth = {
    { "synth",
      OPERANDS({ "CONFIG", AT(config), false,
                 "a JSON config: one of those in models/, or config.json of Hugging Face; "
                 "docs/format.md describes ours" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "write a model with random weights from a config",
    "Writes a model for benchmarks and tests at real sizes. It has no tokenizer. Weights of q8 and "
    "q4 are random codes, not quantized floats. The file appears under its name only when it is "
    "complete.\n"
    "--sparse makes a file of full size that needs almost no disk. Norms are 1, biases are drawn, "
    "every matrix is zero, so all logits are 0; info says so, and no sha256 is recorded. It is for "
    "trying sizes: info, --check, conversions, address space. Its speed says little, as the system "
    "makes the zeros; a tmpfs stores those that are read.",
    EXAMPLES({ "tblock synth models/llama-3.2-1b.json -o /tmp/1b.bin",
               "2.5 GB, with the shape and the speed of the real model" },
             { "tblock synth models/llama-2-70b.json -o /tmp/70b.bin --sparse",
               "a file of 138 GB on a disk of any size, all matrices zero" }),
    .args_size = sizeof(SynthArgs), .run = synth,
};
