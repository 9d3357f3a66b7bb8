/* tblock logits: writes a prompt's logits and the run's settings to a golden file. */
#include "command.h"
#include "tblock_tools.h"

typedef struct LogitsArgs {
    const char    *model, *out;
    bool           last, hidden;
    PromptOptions  prompt;
    ComputeOptions compute;
    GeneralOptions general;
} LogitsArgs;

static bool logits(void *args, tblock_error *err)
{
    const LogitsArgs *a = args;
    PromptInput       prompt = { 0 };
    tblock_context   *c = NULL;
    tblock_model     *m = NULL;
    bool              quiet = a->general.quiet;
    tblock_logits_options o = { .last = a->last,
                                .hidden = a->hidden,
                                .progress = progress_advance };
    Guarded           out = { 0 };

    bool good = guarded_begin(&out, a->out, a->model, &a->compute, a->prompt.file, err)
        && (m = compute_open(a->model, &a->compute, err)) != NULL
        && output_apart(a->out, m, &(Inputs){ a->model, { prompt_file(&a->prompt) } }, err)
        && prompt_read(&prompt, &a->prompt, m, a->model, quiet, err)
        && (c = compute_context(m, a->model, &a->compute, quiet, err)) != NULL;
    if (good) {
        progress_show("computing logits", 0);
        good = tblock_logits_write(c, prompt.ids, prompt.n, out.path, &o, err);
        progress_end();
    }
    good = good && guarded_commit(&out, err);
    guarded_close(&out, err);
    prompt_free(&prompt);
    tblock_context_free(c);
    tblock_close(m);
    return good;
}

#define AT(field) offsetof(LogitsArgs, field)
static const Option options[] = {
    OPTION_OUTPUT(AT(out), OPT_REQUIRED, "the safetensors file to write"),
    { "last",    0,  NULL, OPT_FLAG, AT(last),   0, 0, NULL,
      "write only the logits of the last position" },
    { "hidden",  0,  NULL, OPT_FLAG, AT(hidden), 0, 0, NULL,
      "also write the hidden states after the embedding, each attention, each layer and the final "
      "norm, so that verify can say where two runs diverge" },
    { 0 },
};
static const Operand operands[] = { { "MODEL", AT(model), false, MODEL_OPERAND }, { 0 } };
static const OptionGroup groups[] = {
    GROUP_PROMPT(AT(prompt)),
    { "Options", options, 0 },
    GROUP_COMPUTE(AT(compute)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock logits model.bin --ids 1,2,3 -o golden.safetensors",
      "record the logits after each of three tokens" },
    { "tblock verify model.bin golden.safetensors --exact", "compare them later, bit by bit" },
    { 0 },
};
const Command cmd_logits = {
    { "logits", operands, groups },
    "write the logits of a prompt to a file",
    "Writes a safetensors file with tokens I32 [n] and logits F32 [n, vocab_size]. These are the "
    "logits that run computes and verify compares. The file appears under its name only when it is "
    "complete.",
    examples, sizeof(LogitsArgs), logits,
};
