/* serve/rerank.c: /v1/rerank, as Cohere and Jina define it and vLLM implements it (docs/serve.md).
 * A document generates one token, whose logits give the score. */
#include "serve/server.h"

#include <stdlib.h>

enum { MOST_DOCUMENTS = 2048 };

typedef struct RerankRequest {
    const JsonNode *model, *query, *documents, *instruction;
    int64_t         top_n;
    bool            return_documents;
} RerankRequest;

#define AT(field) offsetof(RerankRequest, field)
static const Field rerank_fields[] = {
    FIELD("model", TEXT, model, "the model's name, or absent"),
    FIELD("query", TEXT | FIELD_REQUIRED, query, "a text"),
    FIELD("documents", NODE | FIELD_REQUIRED, documents,
          "an array of up to 2,048 texts, or objects with text"),
    FIELD("instruction", TEXT, instruction, "what a document must do for the query"),
    FIELD_IN("top_n", INT, top_n, 0, MOST_DOCUMENTS, "so many of the best; 0: all"),
    FIELD("return_documents", BOOL, return_documents, "results have the texts"),
    IGNORED("user"),
    { 0 },
};
static const Field document_fields[] = {
    { "text", FIELD_TEXT | FIELD_REQUIRED, 0, 0, 0, "a text" },
    { 0 },
};
#undef AT

static const RerankRequest rerank_default    = { .return_documents = true };
static const Field *const  rerank_tables[]   = { rerank_fields, NULL };
static const Field *const  document_tables[] = { document_fields, NULL };
const Body                 rerank_body       = { rerank_tables, &rerank_default };

/* What is needed to write the response. */
typedef struct Ranking {
    bool   documents;
    size_t top_n;     /* at most as many as there are */
    tblock_rerank_result result[];  /* of each document, in their order until the end */
} Ranking;

/* ---- Writing --------------------------------------------------------------------------------- */

static bool take_score(Choice *c, tblock_error *err)
{
    Ranking *r                = c->job->request;
    r->result[c->index].index = (size_t)c->index;
    return tblock_rerank_score(c->job->server->o->model, c->generation,
                               &r->result[c->index].score, err);
}

static void write_whole(Job *j)
{
    Ranking *r = j->request;
    TextOut *o = &j->out;
    tblock_rerank_sort(r->result, (size_t)j->n_choices);
    head_json(j, "rerank");
    json_out(o, "results: [");
    for (size_t i = 0; i < r->top_n; i++) {
        const Prompt *p = &j->prompt[r->result[i].index];
        json_out(o, "{index: %zu, relevance_score: %g", r->result[i].index, r->result[i].score);
        if (r->documents) {
            json_out(o, "document: {");
            json_out_member(o, "text", p->text, p->n_text);
            json_out(o, "}");
        }
        json_out(o, "}");
    }
    end_whole(j);
}

static const JobForm rerank_form = { .whole = write_whole, .failed = job_failed };

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_document(Exchange *x, const RerankRequest *r, const JsonNode *document, size_t i,
                          Prompt *p)
{
    const Place         at  = place("documents[%zu]", i);
    tblock_rerank_texts t   = { .query = r->query->text, .n_query = r->query->n };
    tblock_error        err;
    if (document->kind != NODE_STRING
        && !fields_read_at(x, at.text, document, document_tables, &document))
        return false;
    t.document   = document->text;
    t.n_document = document->n;
    if (r->instruction) {
        t.instruction   = r->instruction->text;
        t.n_instruction = r->instruction->n;
    }
    p->text = malloc(document->n + 1);
    if (!p->text)
        return refuse_memory(x);
    memcpy(p->text, document->text, document->n + 1);
    p->n_text = document->n;
    if (!tblock_rerank_prompt(x->server->o->model, &t, &p->ids, &p->n, &err))
        return refuse_error(x, NULL, &err);
    return p->n <= (size_t)x->server->computing.n_ctx
        || refuse(x, MHD_HTTP_BAD_REQUEST, at.text,
                  "%s: expected at most the %d tokens of the context with the query, found %zu",
                  at.text, x->server->computing.n_ctx, p->n);
}

static bool check_request(Exchange *x, const RerankRequest *r)
{
    char             found[NODE_TEXT];
    const JsonNode  *d = r->documents;
    return check_model(x, r->model)
        && ((d->kind == NODE_ARRAY && d->n && d->n <= MOST_DOCUMENTS)
            || refuse(x, MHD_HTTP_BAD_REQUEST, "documents",
                      "documents: expected an array of 1 to %d, found %s", MOST_DOCUMENTS,
                      d->kind == NODE_ARRAY ? d->n ? "more" : "none" : node_text(d, found)));
}

static bool fill_job(Exchange *x, const RerankRequest *r, Job *j)
{
    const size_t n  = r->documents->n;
    Ranking     *k  = j->request = calloc(1, sizeof *k + n * sizeof *k->result);
    size_t       i  = 0;
    j->free_request = free;
    if (!k)
        return refuse_memory(x);
    k->documents          = r->return_documents;
    k->top_n              = r->top_n && (size_t)r->top_n < n ? (size_t)r->top_n : n;
    j->computed           = take_score;
    j->adapter            = model_number(x->server, r->model);
    tblock_error err;
    if (!tblock_rerank_options(x->server->o->model, &j->options, &err))
        return refuse_error(x, NULL, &err);
    if (!job_choices(j, n, 1))
        return false;
    JSON_NODES (one, r->documents) {
        if (!read_document(x, r, one, i, &j->prompt[i]))
            return false;
        i++;
    }
    return true;
}

static bool rerank(Exchange *x, const JsonDoc *d)
{
    RerankRequest r = rerank_default;
    if (!fields_read(x, d->node, rerank_tables, &r) || !check_request(x, &r))
        return false;
    Job *j = job_new(x, "rerank-", &rerank_form);
    if (j && fill_job(x, &r, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool rerank_handle(Exchange *x) { return with_body(x, rerank); }
