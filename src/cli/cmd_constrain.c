/* tblock constrain: do texts match a pattern, a grammar or a schema? */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tblock_tools.h"

typedef struct ConstrainArgs {
    const char       *model, *jsonl;
    bool              stats;
    ConstraintOptions constraint;
    GeneralOptions    general;
} ConstrainArgs;

/* Checks one line, which holds a JSON string. */
static bool answer(tblock_constraint *c, const char *line, size_t n, tblock_error *err)
{
    JsonDoc doc = { 0 };
    bool    accepts = false, good = true;
    if (!json_doc_read(&doc, line, n, 0, "text", err))
        return false;
    if (doc.node->kind != NODE_STRING)
        good = fail(err, TBLOCK_INPUT, "expected a JSON string");
    good = good && tblock_constraint_accepts(c, doc.node->text, doc.node->n, &accepts, err);
    if (good)
        output_format("%s\n", accepts ? "true" : "false");
    json_doc_free(&doc);
    return good;
}

static bool answer_lines(tblock_constraint *c, const ConstrainArgs *a, tblock_error *err)
{
    Lines        lines;
    tblock_error why = { 0 };
    const char  *line;
    size_t       n;
    bool         good = true;

    if (!lines_open(&lines, a->jsonl, err))
        return false;
    while (good && (line = lines_next(&lines, &n, &why)) != NULL) {
        good = answer(c, line, n, &why);
        if (!good)
            fail(err, why.status, "%s: line %zu: %s", lines.name, lines.number, why.msg);
    }
    if (good && why.status != 0) { /* the input or the output failed */
        *err = why;
        good = false;
    }
    lines_close(&lines);
    return good;
}

static bool print_stats(const tblock_constraint *c, tblock_error *err)
{
    Rows                    rows = OUTPUT_ROWS(false, 8);
    tblock_constraint_times t;
    tblock_constraint_measure(c, &t);
    rows_pair(&rows, "compile", "%.3f ms", t.compile_s * 1e3);
    rows_pair(&rows, "masks", "%llu", (unsigned long long)t.n_masks);
    if (t.n_masks) {
        rows_pair(&rows, "first", "%.1f us", t.first_s * 1e6);
        rows_pair(&rows, "mean", "%.1f us", t.mean_s * 1e6);
        rows_pair(&rows, "p99", "%.1f us", t.p99_s * 1e6);
        rows_pair(&rows, "largest", "%.1f us", t.max_s * 1e6);
    }
    char *text = text_out_take(&rows.out, err);
    if (text)
        fputs(text, stderr);
    free(text);
    return text != NULL;
}

static bool constrain(void *args, tblock_error *err)
{
    const ConstrainArgs *a = args;
    if (!constraint_check(&a->constraint, true, err))
        return false;

    tblock_model *m = a->model ? tblock_open(a->model, NULL, err) : NULL;
    if (a->model
        && (!m || !need_tokenizer(m, a->model, "constrain without a MODEL needs none", err))) {
        tblock_close(m);
        return false;
    }
    tblock_constraint *c = constraint_open(m, &a->constraint, a->general.quiet, err);
    bool               good = c && answer_lines(c, a, err) && (!a->stats || print_stats(c, err));
    tblock_constraint_free(c);
    tblock_close(m);
    return good;
}

#define AT(field) offsetof(ConstrainArgs, field)
static const Option options[] = {
    { "jsonl",   0, "FILE", OPT_TEXT, AT(jsonl), 0, 0, OPT_REQUIRED,
      "a file with one JSON string per line; -: standard input" },
    { "stats",   0, NULL, OPT_FLAG, AT(stats), 0, 0, NULL,
      "print how long compiling and the masks took to standard error" },
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(model), true, MODEL_OPERAND ", or a tokenizer's file or folder; without it texts "
                                              "are looked at byte by byte" },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Texts", options, 0 },
    GROUP_CONSTRAINT(AT(constraint)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock constrain --json-schema schema.json --jsonl texts.jsonl",
      "true or false for each text" },
    { "tblock constrain --regex '[a-z]+' --jsonl texts.jsonl", "true or false for each text" },
    { "tblock constrain model.bin --grammar list.gbnf --jsonl texts.jsonl --stats",
      "token by token, and how long a mask takes" },
    { 0 },
};
const Command cmd_constrain = {
    { "constrain", operands, groups },
    "say whether texts fit a JSON Schema, a pattern or a grammar",
    "Prints true or false for each line of --jsonl: does the text fit? With a MODEL each text is "
    "split into the model's tokens, and each token is held against the mask of those that may come "
    "there, as when a model writes. A constraint that cannot be kept, or that no text fits, ends "
    "with status 3 and its place. docs/constraints.md says what is kept.",
    examples, sizeof(ConstrainArgs), constrain,
};
