/* tblock logits: writes a prompt's logits and the run's settings to a golden file. */
#include "frame.h"
#include "tblock_tools.h"

typedef struct LogitsArgs {
    const char           *model, *out;
    tblock_logits_options o;
    PromptOptions  prompt;
    ComputeOptions compute;
    GeneralOptions general;
} LogitsArgs;

static bool logits(Frame *f, tblock_error *err)
{
    LogitsArgs *a = f->args;
    progress_show("computing logits", 0);
    a->o.progress = progress_advance;
    return tblock_logits_write(f->context, f->prompt.ids, f->prompt.n, f->out[0].path, &a->o, err);
}

#define AT(field) offsetof(LogitsArgs, field)
static const Option options[] = {
    OPTION_OUTPUT(AT(out), OPT_REQUIRED, "the safetensors file to write"),
    { "last",    0,  NULL, OPT_FLAG, AT(o.last),   0, 0, NULL,
      "write only the logits of the last position" },
    { "hidden",  0,  NULL, OPT_FLAG, AT(o.hidden), 0, 0, NULL,
      "also write the hidden states after the embedding, each attention, each layer and the final "
      "norm, so that verify can say where two runs diverge" },
    { "digest",  0,  NULL, OPT_FLAG, AT(o.digest), 0, 0, NULL,
      "write hashes of the logits and hidden states in place of them, and the five largest logits: "
      "a small file that says whether all bits are equal" },
    { 0 },
};
const Command cmd_logits = {
    { "logits", OPERANDS(OPERAND_MODEL(AT(model))),
      GROUPS(GROUP_PROMPT(AT(prompt)), { "Options", options, 0 }, GROUP_COMPUTE(AT(compute)),
             GROUP_GENERAL(AT(general))) },
    "write the logits of a prompt to a file",
    "Writes a safetensors file with tokens I32 [n] and logits F32 [n, vocab_size]. These are the "
    "logits that run computes and verify compares. The file appears under its name only when it is "
    "complete.",
    EXAMPLES({ "tblock logits model.bin --ids 1,2,3 -o golden.safetensors",
               "record the logits after each of three tokens" },
             { "tblock verify model.bin golden.safetensors --exact",
               "compare them later, bit by bit" }),
    .args_size = sizeof(LogitsArgs), .run = logits, .opens = OPENS_CONTEXT, .writes = { "output" },
};
