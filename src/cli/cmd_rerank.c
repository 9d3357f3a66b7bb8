/* tblock rerank: ranks documents by relevance to a query. */
#include "frame.h"

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
    const RerankArgs     *a;
    tblock_rerank_texts  *text;   /* [n] */
    size_t                n, cap;
    double               *score;  /* [n] */
    tblock_rerank_result *result; /* [n] */
} Documents;

static bool add_document(Documents *d, const char *text, size_t n, tblock_error *err)
{
    const RerankArgs *a = d->a;
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
static bool add_copy(void *user, const Lines *at, const char *line, size_t n, tblock_error *err)
{
    (void)at;
    char *copy = malloc(n + 1);
    if (copy)
        memcpy(copy, line, n);
    bool good = (copy || no_memory(NULL, err)) && add_document(user, copy, n, err);
    if (!good)
        free(copy);
    return good;
}

static bool read_documents(Documents *d, tblock_error *err)
{
    const TextList *given = &d->a->documents;
    for (size_t i = 0; i < given->n; i++)
        if (!add_document(d, given->texts[i], strlen(given->texts[i]), err))
            return false;
    return d->n || lines_each(d->a->file ? d->a->file : "-", add_copy, d, err);
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

static bool judge(Documents *d, tblock_context *c, tblock_error *err)
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
    return print(d, d->a->top_n, err);
}

static bool rerank_check(Frame *f, tblock_error *err)
{
    const RerankArgs *a = f->args;
    if (!a->query)
        return fail(err, TBLOCK_USAGE,
                    "--query: expected the question that the documents are ranked by, found none");
    if (a->documents.n && a->file)
        return fail(err, TBLOCK_USAGE, "--file: expected no documents beside it, found %zu",
                    a->documents.n);
    f->compute.n_seqs = PLACES;
    return true;
}

static bool rerank(Frame *f, tblock_error *err)
{
    const RerankArgs *a    = f->args;
    Documents         d    = { .a = a };
    bool              good = read_documents(&d, err) && judge(&d, f->context, err);
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
const Command cmd_rerank = {
    { "rerank",
      OPERANDS(OPERAND_MODEL(AT(model)),
               { "DOCUMENT...", AT(documents), true,
                 "the documents, unless --file or standard input has them" }),
      GROUPS({ "Documents", options, 0 }, GROUP_COMPUTE(AT(compute)), GROUP_GENERAL(AT(general))) },
    "documents in the order in which they meet a query",
    "Prints {\"index\": ..., \"relevance_score\": ..., \"document\": ...} for each document, the "
    "best first, with a model that was made for it (docs/embeddings.md). The same scores as "
    "/v1/rerank of serve, whatever other documents there are.",
    EXAMPLES(
        { "tblock rerank model.bin --query 'Who wrote Hamlet?' 'Shakespeare did.' 'A village.'",
          "two lines of JSON, the better document first" },
        { "tblock rerank model.bin --query Hamlet -f texts.txt --top-n 5", "the five best lines" }),
    .args_size = sizeof(RerankArgs), .run = rerank, .check = rerank_check, .opens = OPENS_CONTEXT,
    .reads = { "file" }, .needs = "convert it with --tokenizer",
};
