#include "command.h"
#include "common.h"
#include "output.h"

#include <string.h>

typedef struct InfoArgs {
    const char    *path;
    bool           json, tensors;
    GeneralOptions general;
} InfoArgs;

static bool info(void *args, tblock_error *err)
{
    const InfoArgs *a = args;
    char           *text = NULL;
    tblock_report_options o = { .json = a->json, .tensors = a->tensors, .colour = !a->json && output_has_colour() };

    if (!tblock_report(a->path, &o, &text, err))
        return false;
    size_t n = strlen(text);
    output_write(text, n);
    if (n == 0 || text[n - 1] != '\n')
        output_write("\n", 1);
    tblock_free(text);
    return output_flush(err);
}

#define AT(field) offsetof(InfoArgs, field)
static const Option options[] = {
    { "json",    0, NULL, OPT_FLAG, AT(json),    0, 0, NULL, "one JSON object" },
    { "tensors", 0, NULL, OPT_FLAG, AT(tensors), 0, 0, NULL, "list every tensor" },
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(path), false, "a model file, or a bare JSON config" },
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
    { 0 },
};
const Command cmd_info = {
    { "info", operands, groups },
    "what a model is made of: config, tensors, totals",
    "Describes a model file, or the model that a JSON config would make. Weights are not read.",
    examples, sizeof(InfoArgs), info,
};
