/* serve/embeddings.c: /v1/embeddings, as OpenAI defines it (docs/serve.md). An input generates
 * nothing: the scheduler prefills it like any other prompt. */
#include "serve/server.h"

#include <stdlib.h>

#include "base/number.h"

enum { MOST_INPUTS = 2048 }; /* as OpenAI */

typedef struct EmbeddingRequest {
    const JsonNode *model, *input, *format, *pooling;
    int64_t         dimensions;
    bool            normalize, add_special, parse_special;
} EmbeddingRequest;

#define AT(field) offsetof(EmbeddingRequest, field)
static const Field embedding_fields[] = {
    FIELD("model", TEXT, model, "the model's name, or absent"),
    FIELD("input", NODE | FIELD_REQUIRED, input,
          "a text, an array of ids, or an array of up to 2,048 of either"),
    FIELD("encoding_format", TEXT, format, "float, or base64 of float32 in little-endian order"),
    FIELD_IN("dimensions", INT, dimensions, 1, 1 << 24, "the width of the model"),
    FIELD("pooling", TEXT, pooling,
          "mean of the states of all tokens, or that of the last or the first one (cls)"),
    FIELD("normalize", BOOL, normalize, "make each vector 1 long"),
    FIELD("add_special_tokens", BOOL, add_special,
          "put what the tokenizer says first (BOS) before a text"),
    FIELD("parse_special", BOOL, parse_special, "read special tokens that a text spells"),
    IGNORED("user"),
    { 0 },
};
#undef AT

static const EmbeddingRequest embedding_default  = { .normalize = true, .add_special = true,
                                                     .parse_special = true };
static const Field *const     embedding_tables[] = { embedding_fields, NULL };
const Body                    embeddings_body    = { embedding_tables, &embedding_default };

/* What is needed to write the response. n_told: choices whose vectors are in it. */
typedef struct EmbeddingAnswer { bool base64, normalize; size_t n_told; } EmbeddingAnswer;

/* ---- Writing --------------------------------------------------------------------------------- */

static void vector_json(TextOut *o, const float *y, int n, bool base64)
{
    Base64 b = { .out = o };
    if (!base64) {
        json_out_floats(o, y, (size_t)n);
        return;
    }
    text_out(o, "\"");
    for (int i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            base64_byte(&b, f32_bits(y[i]) >> shift);
    base64_end(&b);
    text_out(o, "\"");
}

/* The text of a choice is its JSON, written as soon as it can be, so that the end of a request does
 * not delay other sequences for long. They are in order in the response. */
static bool write_vector(Choice *c, tblock_error *err)
{
    Job             *j = c->job;
    EmbeddingAnswer *r = j->request;
    const int        n = tblock_pool_width(j->server->o->model, j->options.pool);
    float           *y = malloc((size_t)n * sizeof *y);
    if (!y || !tblock_generation_embedding(c->generation, r->normalize, y, err)) {
        free(y);
        return y || fail(err, TBLOCK_SYSTEM, "out of memory");
    }
    json_out(&c->text, "{object: embedding, index: %d, embedding:", c->index);
    vector_json(&c->text, y, n, r->base64);
    json_out(&c->text, "}");
    free(y);
    if (c->text.failed)
        return fail(err, TBLOCK_SYSTEM, "out of memory");
    if (!j->out.n) {
        head_json(j, "list");
        json_out(&j->out, "data: [");
    }
    for (; r->n_told < j->n_choices && j->choice[r->n_told].text.n; r->n_told++) {
        TextOut *one = &j->choice[r->n_told].text;
        json_out_comma(&j->out);
        text_out_bytes(&j->out, one->text, one->n);
        text_out_free(one);
    }
    return true;
}

static void write_failed(Job *j, int status)
{
    j->out.n = 0; /* drops the vectors so far */
    job_failed(j, status);
}

static const JobForm embedding_form = { .whole = end_whole, .failed = write_failed };

/* ---- Reading --------------------------------------------------------------------------------- */

static bool refuse_word(Exchange *x, const char *param, const char *expected, const JsonNode *node)
{
    char found[NODE_TEXT];
    return refuse(x, MHD_HTTP_BAD_REQUEST, param, "%s: expected %s, found %s", param, expected,
                  node_text(node, found));
}

static bool read_format(Exchange *x, const JsonNode *node, bool *base64)
{
    *base64 = node && node_is(node, "base64");
    return !node || *base64 || node_is(node, "float")
        || refuse_word(x, "encoding_format", "float or base64", node);
}

static bool read_pool(Exchange *x, const JsonNode *node, int *pool)
{
    tblock_error why;
    if (node && strlen(node->text) < node->n)
        return refuse_word(x, "pooling", "mean, last or cls", node);
    return tblock_pool_choose(x->server->o->model, node ? node->text : NULL, pool, &why)
        || refuse(x, MHD_HTTP_BAD_REQUEST, "pooling", "%s", why.msg);
}

static bool check_request(Exchange *x, const EmbeddingRequest *r)
{
    if (!check_model(x, r->model))
        return false;
    if (prompts_count(r->input) > MOST_INPUTS)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "input", "input: expected at most %d, found %zu",
                      MOST_INPUTS, prompts_count(r->input));
    return true;
}

static bool check_width(Exchange *x, const EmbeddingRequest *r, int pool)
{
    const int width = tblock_pool_width(x->server->o->model, pool);
    return !r->dimensions || r->dimensions == width
        || refuse(x, MHD_HTTP_BAD_REQUEST, "dimensions",
                  "dimensions: expected %d, all that the model has, found %lld", width,
                  (long long)r->dimensions);
}

static bool fill_job(Exchange *x, const EmbeddingRequest *r, Job *j)
{
    EmbeddingAnswer *e    = j->request = calloc(1, sizeof *e);
    j->free_request = free;
    if (!e)
        return refuse_memory(x);
    e->normalize = r->normalize;
    j->computed  = write_vector;
    j->adapter   = model_number(x->server, r->model);
    if (!read_format(x, r->format, &e->base64) || !read_pool(x, r->pooling, &j->options.pool)
        || !check_width(x, r, j->options.pool)
        || !job_choices(j, prompts_count(r->input), 1)
        || !prompts_read(x, r->input,
                         &(PromptForm){ .param         = "input",
                                        .add_special   = r->add_special,
                                        .parse_special = r->parse_special },
                         j))
        return false;
    j->options.max_tokens = -1;
    return true;
}

static bool embed(Exchange *x, const JsonDoc *d)
{
    EmbeddingRequest r = embedding_default;
    if (!fields_read(x, d->node, embedding_tables, &r)
        || !check_request(x, &r))
        return false;
    Job *j = job_new(x, "embd-", &embedding_form);
    if (j && fill_job(x, &r, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool embeddings_handle(Exchange *x) { return with_body(x, embed); }
