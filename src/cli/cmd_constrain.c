/* tblock constrain: do texts match a pattern, a grammar or a schema? */
#include "frame.h"

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
static bool answer(void *user, const Lines *at, const char *line, size_t n, tblock_error *err)
{
    JsonDoc doc = { 0 };
    bool    accepts = false, good = json_doc_read(&doc, line, n, 0, "text", err);
    if (good && doc.node->kind != NODE_STRING)
        good = fail(err, TBLOCK_INPUT, "expected a JSON string");
    good = good && tblock_constraint_accepts(user, doc.node->text, doc.node->n, &accepts, err);
    if (good)
        output_format("%s\n", accepts ? "true" : "false");
    json_doc_free(&doc);
    return good || lines_fail(at, err);
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

static bool constrain_check(Frame *f, tblock_error *err)
{
    return constraint_check(&((ConstrainArgs *)f->args)->constraint, true, err);
}

static bool constrain(Frame *f, tblock_error *err)
{
    const ConstrainArgs *a = f->args;
    tblock_constraint   *c = constraint_open(f->model, &a->constraint, err);
    bool good = c && lines_each(a->jsonl, answer, c, err) && (!a->stats || print_stats(c, err));
    tblock_constraint_free(c);
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
const Command cmd_constrain = {
    { "constrain",
      OPERANDS({ "MODEL", AT(model), true,
                 MODEL_OPERAND ", or a tokenizer's file or folder; without it texts are looked at "
                               "byte by byte" }),
      GROUPS({ "Texts", options, 0 }, GROUP_CONSTRAINT(AT(constraint)),
             GROUP_GENERAL(AT(general))) },
    "say whether texts fit a JSON Schema, a pattern or a grammar",
    "Prints true or false for each line of --jsonl: does the text fit? With a MODEL each text is "
    "split into the model's tokens, and each token is held against the mask of those that may come "
    "there, as when a model writes. A constraint that cannot be kept, or that no text fits, ends "
    "with status 3 and its place. docs/constraints.md says what is kept.",
    EXAMPLES({ "tblock constrain --json-schema schema.json --jsonl texts.jsonl",
               "true or false for each text" },
             { "tblock constrain --regex '[a-z]+' --jsonl texts.jsonl",
               "true or false for each text" },
             { "tblock constrain model.bin --grammar list.gbnf --jsonl texts.jsonl --stats",
               "token by token, and how long a mask takes" }),
    .args_size = sizeof(ConstrainArgs), .run = constrain, .check = constrain_check,
    .opens = OPENS_MODEL, .needs = "constrain without a MODEL needs none",
};
