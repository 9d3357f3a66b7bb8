/* tblock rerank: ranks documents by relevance to a query. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "tblock_tools.h"

enum { PLACES = 16 }; /* documents computed at once */

typedef struct RerankArgs {
    const char    *model, *query, *instruction, *file;
    TextList       documents;
    int            top_n;
    ComputeOptions compute;
    GeneralOptions general;
} RerankArgs;

typedef struct Documents {
    tblock_rerank_texts  *text;   /* [n] */
    size_t                n, cap;
    double               *score;  /* [n] */
    tblock_rerank_result *result; /* [n] */
} Documents;

static bool add(Documents *d, const RerankArgs *a, const char *text, size_t n, tblock_error *err)
{
    if (!ARRAY_ROOM(d->text, d->cap, d->n + 1))
        return no_memory(NULL, err);
    d->text[d->n++] = (tblock_rerank_texts){ .instruction   = a->instruction,
                                             .n_instruction = a->instruction
                                                 ? strlen(a->instruction)
                                                 : 0,
                                             .query      = a->query,
                                             .n_query    = strlen(a->query),
                                             .document   = text,
                                             .n_document = n };
    return true;
}

/* Lines are copied: each is valid only until the next one is read. */
static bool read_lines(Documents *d, const RerankArgs *a, const char *path, tblock_error *err)
{
    Lines        lines;
    const char  *line;
    size_t       n;
    tblock_error why = { 0 };
    if (!lines_open(&lines, path, err))
        return false;
    bool good = true;
    while (good && (line = lines_next(&lines, &n, &why)) != NULL) {
        char *copy = malloc(n + 1);
        good       = (copy || no_memory(NULL, err)) && add(d, a, copy, n, err);
        if (copy)
            memcpy(copy, line, n);
        if (!good)
            free(copy);
    }
    lines_close(&lines);
    if (good && why.status != 0)
        *err = why;
    return good && why.status == 0;
}

static bool read_documents(Documents *d, const RerankArgs *a, tblock_error *err)
{
    for (size_t i = 0; i < a->documents.n; i++)
        if (!add(d, a, a->documents.texts[i], strlen(a->documents.texts[i]), err))
            return false;
    return d->n || read_lines(d, a, a->file ? a->file : "-", err);
}

static bool print(const Documents *d, int top_n, tblock_error *err)
{
    TextOut      o    = { 0 };
    const size_t most = top_n && (size_t)top_n < d->n ? (size_t)top_n : d->n;
    for (size_t i = 0; i < most; i++) {
        const tblock_rerank_result *r = &d->result[i];
        const tblock_rerank_texts  *t = &d->text[r->index];
        json_out(&o, "{index: %zu, relevance_score: %g", r->index, r->score);
        json_out_member(&o, "document", t->document, t->n_document);
        json_out(&o, "}\n");
    }
    const bool good = !o.failed || no_memory(NULL, err);
    if (good && o.n)
        output_write(o.text, o.n);
    text_out_free(&o);
    return good && output_flush(err);
}

static bool judge(Documents *d, const RerankArgs *a, tblock_context *c, tblock_error *err)
{
    size_t       failed;
    tblock_error why;
    d->score  = malloc((d->n + 1) * sizeof *d->score);
    d->result = malloc((d->n + 1) * sizeof *d->result);
    if (!d->score || !d->result)
        return no_memory(NULL, err);
    if (!tblock_rerank(c, d->text, d->n, d->score, &failed, &why))
        return failed == d->n
            ? fail(err, why.status, "%s", why.msg)
            : fail(err, why.status, "document %zu: %s", failed + 1, why.msg);
    for (size_t i = 0; i < d->n; i++)
        d->result[i] = (tblock_rerank_result){ d->score[i], i };
    tblock_rerank_sort(d->result, d->n);
    return print(d, a->top_n, err);
}

static bool rerank(void *args, tblock_error *err)
{
    RerankArgs     *a = args;
    Documents       d = { 0 };
    tblock_model   *m = NULL;
    tblock_context *c = NULL;
    if (!a->query)
        return fail(err, TBLOCK_USAGE,
                    "--query: expected the text that documents shall meet, found none");
    if (a->documents.n && a->file)
        return fail(err, TBLOCK_USAGE, "--file: expected no documents beside it, found %zu",
                    a->documents.n);
    a->compute.n_seqs = PLACES;
    bool good = guarded_begin(NULL, NULL, a->model, &a->compute, a->file, err)
        && (m = compute_open(a->model, &a->compute, err)) != NULL
        && need_tokenizer(m, a->model, "convert it with --tokenizer", err)
        && (c = compute_context(m, a->model, &a->compute, a->general.quiet, err)) != NULL
        && read_documents(&d, a, err)
        && judge(&d, a, c, err);
    tblock_context_free(c);
    tblock_close(m);
    for (size_t i = 0; i < d.n && !a->documents.n; i++)
        free((void *)(uintptr_t)d.text[i].document);
    free(d.text);
    free(d.score);
    free(d.result);
    return good;
}

#define AT(field) offsetof(RerankArgs, field)
static const Option options[] = {
    { "query", 0, "TEXT", OPT_TEXT, AT(query), 0, 0, NULL, "what documents shall meet" },
    { "file", 'f', "FILE", OPT_TEXT, AT(file), 0, 0, NULL,
      "a document in each line; -, and by default: standard input" },
    { "instruction", 0, "TEXT", OPT_TEXT, AT(instruction), 0, 0, NULL,
      "what a document must do for the query; default: that of web searches in the model card" },
    { "top-n", 0, "N", OPT_INT, AT(top_n), 0, 1 << 30, "0", "so many of the best; 0: all" },
    { 0 },
};
static const Operand operands[] = {
    { "MODEL", AT(model), false, MODEL_OPERAND },
    { "DOCUMENT...", AT(documents), true,
      "the documents, unless --file or standard input has them" },
    { 0 },
};
static const OptionGroup groups[] = {
    { "Documents", options, 0 },
    GROUP_COMPUTE(AT(compute)),
    GROUPS_END(AT(general)),
};
static const Example examples[] = {
    { "tblock rerank model.bin --query 'Who wrote Hamlet?' 'Shakespeare did.' 'A village.'",
      "two lines of JSON, the better document first" },
    { "tblock rerank model.bin --query Hamlet -f texts.txt --top-n 5", "the five best lines" },
    { 0 },
};
const Command cmd_rerank = {
    { "rerank", operands, groups },
    "documents in the order in which they meet a query",
    "Prints {\"index\": ..., \"relevance_score\": ..., \"document\": ...} for each document, the "
    "best first, with a model that was made for it (docs/embeddings.md). The same scores as "
    "/v1/rerank of serve, whatever other documents there are.",
    examples, sizeof(RerankArgs), rerank,
};
