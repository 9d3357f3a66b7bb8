/* tblock rm: removes a model from the Hub's cache. */
#include "frame.h"

#include "base/text.h"
#include "tblock_tools.h"

typedef struct RemoveArgs {
    const char    *name;
    bool           dry_run;
    GeneralOptions general;
} RemoveArgs;

static bool remove_model(Frame *f, tblock_error *err)
{
    const RemoveArgs *a = f->args;
    uint64_t          bytes;
    char              size[32], name[CLI_SHOWN];
    if (!tblock_kept_remove(a->name, a->dry_run, &bytes, err))
        return false;
    output_format("%s: %s %s\n", cli_shown(name, a->name),
                  form_bytes((double)bytes, size, sizeof size),
                  a->dry_run ? "would be freed" : "freed");
    return true;
}

#define AT(field) offsetof(RemoveArgs, field)
static const Option options[] = {
    { "dry-run", 0, NULL, OPT_FLAG, AT(dry_run), 0, 0, NULL,
      "print what would be freed, and remove nothing" },
    { 0 },
};
const Command cmd_rm = {
    { "rm",
      OPERANDS({ "NAME", AT(name), false,
                 "ORG/NAME, with :FILE or :QUANTIZATION for one model of it" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "remove a downloaded model",
    "Removes a repository from the cache of the Hugging Face Hub, for Python too; with a file or a "
    "quantization only those files. ollama's models are removed by ollama rm.",
    EXAMPLES({ "tblock rm HuggingFaceTB/SmolLM2-135M-Instruct --dry-run",
               "how much would it free?" }),
    .args_size = sizeof(RemoveArgs), .run = remove_model,
};
