/* tblock attn: which tokens attend to which, as a page, JSON or arrays. */
#include "frame.h"
#include "tblock_tools.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

typedef struct AttnArgs {
    const char    *model, *out, *format;
    bool           json;
    TextList       layers, heads;
    PromptOptions  prompt;
    ComputeOptions compute;
    GeneralOptions general;
} AttnArgs;

/* ---- Which layers and heads ------------------------------------------------------------------ */

/* number NULL: all */
typedef struct ChosenNumbers { int *number; size_t n; bool *seen; } ChosenNumbers;

static bool choose_range(ChosenNumbers *c, int from, int to)
{
    for (int i = from; i <= to; i++)
        if (!c->seen[i]) {
            c->seen[i] = true;
            c->number[c->n++] = i;
        }
    return from <= to;
}

/* Reads "0,2,5", "0-3", or both: "0-3,7". */
static bool choose_list(ChosenNumbers *c, const char *s, int max)
{
    int from, to;
    do {
        if (!form_read_count(&s, max, &from))
            return false;
        to = from;
        if (*s == '-' && (s++, !form_read_count(&s, max, &to)))
            return false;
        if (!choose_range(c, from, to))
            return false;
    } while (*s++ == ',');
    return s[-1] == '\0';
}

static bool choose(ChosenNumbers *c, const char *option, const TextList *given, int n_all,
                   tblock_error *err)
{
    if (given->n == 0)
        return true;
    c->number = calloc((size_t)n_all, sizeof *c->number);
    c->seen = calloc((size_t)n_all, sizeof *c->seen);
    if (!c->number || !c->seen)
        return no_memory(NULL, err);
    for (size_t i = 0; i < given->n; i++)
        if (!choose_list(c, given->texts[i], n_all - 1))
            return fail(err, TBLOCK_USAGE, "--%s: expected numbers from 0 to %d, separated by "
                                               "commas or as a range, found '%s'",
                            option, n_all - 1, given->texts[i]);
    return true;
}

static void chosen_free(ChosenNumbers *c)
{
    free(c->number);
    free(c->seen);
}

/* ---- Which format ---------------------------------------------------------------------------- */

/* --format if given, else --json, else by the file's name. */
static bool choose_format(Frame *f, tblock_error *err)
{
    AttnArgs *a = f->args;
    if (a->json && a->format && strcmp(a->format, "json") != 0)
        return fail(err, TBLOCK_USAGE, "--json and --format %s: expected only one of them",
                    a->format);
    a->format = a->json ? "json" : a->format;
    if (!a->out && (!a->format || strcmp(a->format, "json") != 0))
        return fail(err, TBLOCK_USAGE,
                    "--output: expected a file name; only --json works without one");
    if (!a->format)
        a->format = path_ends(a->out, ".html") || path_ends(a->out, ".htm") ? "html"
            : path_ends(a->out, ".json")                                    ? "json"
            : path_ends(a->out, ".safetensors")                             ? "safetensors"
                                                                            : NULL;
    return a->format
        || fail(err, TBLOCK_USAGE, "--output: expected a name ending in .html, .json or "
                                   ".safetensors, or --format, found '%s'", a->out);
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool put(void *user, const char *data, size_t n)
{
    (void)user;
    output_write(data, n);
    return true;
}

static bool write_file(const tblock_attention *p, const Frame *f, tblock_error *err)
{
    const AttnArgs *a = f->args;
    progress_show("writing the file", -1);
    return tblock_attention_write(p, f->out[0].path, a->format, err);
}

static bool attn(Frame *f, tblock_error *err)
{
    const AttnArgs   *a      = f->args;
    ChosenNumbers     layers = { 0 }, heads = { 0 };
    tblock_attention *p      = NULL;
    bool              good   = choose(&layers, "layer", &a->layers, f->info.n_layers, err)
        && choose(&heads, "head", &a->heads, f->info.heads, err);
    tblock_attention_options o = { layers.number, layers.n, heads.number, heads.n,
                                   .progress = progress_advance };
    if (good) {
        progress_show("computing attention", 0);
        good = (p = tblock_attention_new(f->context, f->prompt.ids, f->prompt.n, &o, err)) != NULL;
        progress_end();
    }
    good = good
        && (a->out ? write_file(p, f, err)
                   : tblock_attention_print(p, a->format, put, NULL, err) && output_flush(err));
    tblock_attention_free(p);
    chosen_free(&layers);
    chosen_free(&heads);
    return good;
}

#define AT(field) offsetof(AttnArgs, field)
static const Option options[] = {
    OPTION_OUTPUT(AT(out), NULL, "the file to write; --json works without one"),
    { "format",  0,  "html|json|safetensors", OPT_CHOICE, AT(format), 0, 0, NULL,
      "output format; by default it follows from the end of the file name" },
    OPTION_JSON(AT(json), "short for --format json; without --output, print to standard output"),
    { "layer",  'l', "LIST", OPT_TEXTS, AT(layers), 0, 0, NULL,
      "layers, counted from 0, such as 0,2 or 0-3; default: all" },
    { "head",    0,  "LIST", OPT_TEXTS, AT(heads), 0, 0, NULL,
      "query heads, in the same form; default: all" },
    { 0 },
};
const Command cmd_attn = {
    { "attn", OPERANDS(OPERAND_MODEL(AT(model))),
      GROUPS(GROUP_PROMPT(AT(prompt)), { "Options", options, 0 }, GROUP_COMPUTE(AT(compute)),
             GROUP_GENERAL(AT(general))) },
    "show which tokens attend to which",
    "Runs a prompt and writes the attention probabilities of each layer and head: as one page of "
    "heat maps that works offline (under 3 MB: a long text gets larger cells), as JSON, or as "
    "safetensors with tokens I32 [n] and attn.layerI F32 [heads, n, n] (query, key). The "
    "probabilities of a query sum to 1; masked keys have 0. At most 256 MB of probabilities, 4 "
    "bytes each: for more, choose layers and heads. The file appears under its name only when it "
    "is complete.",
    EXAMPLES(
        { "tblock attn model.bin --prompt 'The cat sat.' -o attn.html",
          "every head as a heat map, for a browser" },
        { "tblock attn model.bin --prompt 'The cat sat.' --layer 0-3 --head 5 -o attn.safetensors",
          "head 5 of four layers, for a script" },
        { "tblock attn model.bin --ids 1,2,3 --layer 0 --json", "numbers on standard output" }),
    .args_size = sizeof(AttnArgs), .run = attn, .check = choose_format, .opens = OPENS_CONTEXT,
    .writes = { "output" },
};
