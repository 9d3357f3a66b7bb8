/* serve/settings.c: the sampling settings of a request: the same for every endpoint that
 * generates. */
#include "serve/server.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"

#define AT(field) offsetof(Settings, field)
static const double most_seed = 9007199254740991; /* 2^53 - 1 */

/* OpenAPI and the page have top_p before top_k. */
#define PLACE(i) (3 + (i) + ((i) == SAMPLING_top_k) - ((i) == SAMPLING_top_p))
#define ROW(field, type, least, most, usual, option, help, low, off, parameter, name, words)       \
    [PLACE(SAMPLING_##field)] = { parameter,                                                       \
                                  TBLOCK_##type == TBLOCK_INT ? FIELD_INT : FIELD_NUMBER,          \
                                  AT(sampling[SAMPLING_##field]), low, most, words },
const Field settings_fields[] = {
    { "model",              FIELD_TEXT,    AT(model),          0, 0,
      "the model's name, or absent" },
    { "stream",             FIELD_BOOL,    AT(stream),         0, 0, "events as the text grows" },
    { "seed",               FIELD_INT,     AT(seed),           0, most_seed,
      "of the sampler; random if absent, and the response has it" },
    SAMPLING_ROWS(ROW)
    { "logit_bias",         FIELD_NODE,    AT(bias),           0, 0,
      "an object of ids and numbers from -1000 to 1000 that their logits get" },
    { "return_token_ids",   FIELD_BOOL,    AT(return_ids),     0, 0,
      "the response has the sampled ids" },
    { "receipt",            FIELD_BOOL,    AT(receipt),        0, 0,
      "the answer has a receipt, which tblock verify computes again" },
    { "resume_ids",         FIELD_NODE,    AT(resume_ids),     0, 0,
      "ids that an earlier answer to this request had: go on behind them" },
    { "cache_salt",         FIELD_TEXT,    AT(salt),           0, 0,
      "a secret: only requests with the same share the cached prefix of a prompt" },
    { "metadata",           FIELD_IGNORED, 0, 0, 0, NULL },
    { "service_tier",       FIELD_IGNORED, 0, 0, 0, NULL },
    { 0 },
};
#undef ROW
#undef PLACE

const Field openai_fields[] = {
    { "n",                  FIELD_INT,     AT(n),              1, MOST_CHOICES,
      "texts for each prompt; text i is sampled with seed + i" },
    { "stop",               FIELD_NODE,    AT(stop),           0, 0,
      "a text or up to 64: the text ends before it" },
    { "stream_options",     FIELD_NODE,    AT(stream_options), 0, 0,
      "an object: include_usage, one more event with the numbers of tokens" },
    { "user",               FIELD_IGNORED, 0, 0, 0, NULL },
    { "store",              FIELD_IGNORED, 0, 0, 0, NULL },
    { 0 },
};

#undef AT

static const Field stream_fields[] = {
    { "include_usage",       FIELD_BOOL,    0, 0, 0, NULL },
    { "include_obfuscation", FIELD_IGNORED, 0, 0, 0, NULL },
    { 0 },
};

/* Without bias and seed. -1, vLLM's "all", is 0. */
static tblock_sampler_options sampling_of(const Settings *r)
{
    tblock_sampler_options o = { 0 };
    int                    i = 0;
    SAMPLING_EACH (row) {
        const int64_t whole = r->sampling[i].whole;
        const double  real  = r->sampling[i++].real;
        sampling_put(&o, row, row->type != TBLOCK_INT ? real : whole > 0 ? (double)whole : 0);
    }
    return o;
}

bool settings_check(Exchange *x, Settings *r)
{
    tblock_error err;
    if (!check_model(x, r->model))
        return false;
    if (r->salt && !r->salt->n)
        return refuse_value(x, "cache_salt", "a text that is not empty", r->salt);
    if (r->seed < 0)
        r->seed = (int64_t)random_seed();
    if (r->stream_options
        && !fields_read_at(x, "stream_options", r->stream_options,
                           (const Field *const[]){ stream_fields, NULL }, &r->usage))
        return false;
    if (r->stream_options && !r->stream)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "stream_options",
                      "stream_options: expected stream to be true beside it");
    const tblock_sampler_options o = sampling_of(r);
    tblock_sampler              *s = tblock_sampler_new(1, &o, &err);
    tblock_sampler_free(s);
    return s || refuse_error(x, NULL, &err);
}

/* A stop string, or an array of them. */
static bool read_stops(Exchange *x, const Settings *r, Job *j)
{
    const JsonNode *stop = r->stop;
    char            found[NODE_TEXT];
    size_t          n = !stop ? 0 : stop->kind == NODE_ARRAY ? stop->n : 1, i = 0;
    if (n > 64)
        return refuse(x, MHD_HTTP_BAD_REQUEST, r->stop_param,
                      "%s: expected at most 64 texts, found %zu", r->stop_param, n);
    j->stop_texts = calloc(n + 1, sizeof *j->stop_texts);
    if (!j->stop_texts)
        return refuse_memory(x);
    for (const JsonNode *s = !n ? NULL : stop->kind == NODE_ARRAY ? stop + 1 : stop; i < n;
         s += s->skip) {
        if (s->kind != NODE_STRING || !s->n || strlen(s->text) != s->n)
            return refuse(x, MHD_HTTP_BAD_REQUEST, r->stop_param,
                          "%s: expected texts that are not empty and have no NUL, found %s",
                          r->stop_param, node_text(s, found));
        j->stop_texts[i++]      = strdup(s->text);
        j->options.n_stop_texts = i;
        if (!j->stop_texts[i - 1])
            return refuse_memory(x);
    }
    j->options.stop_texts = (const char *const *)j->stop_texts;
    return true;
}

/* {"id": bias, ...} */
static bool read_bias(Exchange *x, const JsonNode *bias, Job *j)
{
    char found[NODE_TEXT];
    if (!bias)
        return true;
    if (bias->kind != NODE_OBJECT)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "logit_bias",
                      "logit_bias: expected an object of ids and numbers, found %s",
                      node_text(bias, found));
    j->bias_ids = malloc((bias->n + 1) * sizeof *j->bias_ids);
    j->bias     = malloc((bias->n + 1) * sizeof *j->bias);
    if (!j->bias_ids || !j->bias)
        return refuse_memory(x);
    JSON_NODES (b, bias) {
        const char  *end   = b->key;
        int          id    = -1;
        const double value = b->kind == NODE_INT || b->kind == NODE_DOUBLE ? node_number(b) : NAN;
        if (!form_read_count(&end, x->server->info.vocab_size - 1, &id) || *end)
            return refuse(x, MHD_HTTP_BAD_REQUEST, "logit_bias",
                          "logit_bias: token: expected 0 to %d, found %s",
                          x->server->info.vocab_size - 1, b->key);
        if (!(value >= -1000 && value <= 1000))
            return refuse(x, MHD_HTTP_BAD_REQUEST, "logit_bias",
                          "logit_bias: token %d: expected a number from -1000 to 1000, found %s",
                          id, node_text(b, found));
        j->bias_ids[j->n_bias] = id;
        j->bias[j->n_bias++]   = (float)value;
    }
    return true;
}

/* Tokens already generated for this request: the output continues after them. */
static bool read_resumed(Exchange *x, const Settings *r, Job *j)
{
    Choice  *c   = &j->choice[0];
    int32_t *ids = NULL;
    size_t   n;
    if (!r->resume_ids)
        return true;
    if (j->n_choices != 1)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "resume_ids",
                      "resume_ids: expected one prompt and n = 1 beside it");
    if (!ids_of(x, "resume_ids", r->resume_ids, &ids, &n))
        return false;
    c->n_resumed = n;
    c->n_ids     = c->prompt->n + n;
    c->ids       = n ? malloc(c->n_ids * sizeof *c->ids) : NULL;
    if (c->ids) {
        memcpy(c->ids, c->prompt->ids, c->prompt->n * sizeof *c->ids);
        memcpy(c->ids + c->prompt->n, ids, n * sizeof *c->ids);
    }
    free(ids);
    if (n && !c->ids)
        return refuse_memory(x);
    return c->n_ids <= (size_t)x->server->computing.n_ctx
        || refuse(x, MHD_HTTP_BAD_REQUEST, "resume_ids",
                  "prompt and resume_ids: expected at most the %d tokens of the context, found %zu",
                  x->server->computing.n_ctx, c->n_ids);
}

/* Without max_tokens, the context limits the output; a max_tokens that exceeds the context is
 * refused. */
static bool check_length(Exchange *x, const Settings *r, const Job *j)
{
    const int n_ctx = x->server->computing.n_ctx, most = r->max_tokens > 0 ? r->max_tokens : 0;
    for (size_t i = 0; i < j->n_prompts; i++)
        if (j->prompt[i].n + (size_t)most > (size_t)n_ctx)
            return refuse(x, MHD_HTTP_BAD_REQUEST, r->max_param,
                          "the context holds %d tokens, but prompt and %s ask for %zu (%zu and %d)",
                          n_ctx, r->max_param, j->prompt[i].n + (size_t)most, j->prompt[i].n, most);
    return true;
}

static void set_options(const Settings *r, Job *j)
{
    j->stream             = r->stream;
    j->usage              = r->usage;
    j->return_ids         = r->return_ids;
    j->want_probs         = r->top >= 0;
    j->n_top              = r->top > 0 ? (size_t)r->top : 0;
    j->options.max_tokens = r->max_tokens;
    j->options.sampling   = sampling_of(r);

    j->options.sampling.bias_ids = j->bias_ids;
    j->options.sampling.bias     = j->bias;
    j->options.sampling.n_bias   = j->n_bias;
    for (size_t i = 0; i < j->n_choices; i++)
        j->choice[i].seed = (uint64_t)r->seed + i;
}

bool settings_apply(Exchange *x, const Settings *r, Job *j)
{
    if (!read_stops(x, r, j) || !read_bias(x, r->bias, j) || !read_resumed(x, r, j)
        || !check_length(x, r, j) || (r->salt && !job_scope(j, r->salt)))
        return false;
    j->adapter = model_number(x->server, r->model);
    set_options(r, j);
    return true;
}

bool open_receipts(Exchange *x, const Settings *r, const tblock_chat *chat, Job *j)
{
    tblock_error err;
    if (!r->receipt)
        return true;
    if (r->resume_ids)
        return refuse(
            x, MHD_HTTP_BAD_REQUEST, "receipt",
            "receipt: expected none beside resume_ids, whose logits are another server's");
    for (Choice *c = j->choice; c < j->choice + j->n_choices; c++) {
        tblock_generation_options o = j->options;
        o.ids                       = c->prompt->ids;
        o.n_ids                     = c->prompt->n;
        o.sampling.seed             = c->seed;
        c->receipt = tblock_receipt_new(x->server->o->context, &o,
                                        &(tblock_receipt_options){ .chat   = chat,
                                                                   .lora   = adapter_use(j),
                                                                   .n_lora = j->adapter > 0 },
                                        &err);
        if (!c->receipt)
            return refuse_error(x, "receipt", &err);
    }
    return true;
}

/* ---- Members of every response --------------------------------------------------------------- */

void usage_json(Job *j)
{
    size_t prompt = 0, cached = 0, sampled = 0;
    for (size_t i = 0; i < j->n_choices; i++) {
        sampled += j->choice[i].n_sampled;
        cached += j->choice[i].n_cached;
    }
    for (size_t i = 0; i < j->n_prompts; i++)
        prompt += j->prompt[i].n;
    json_out(&j->out,
             "usage: {prompt_tokens: %zu, completion_tokens: %zu, total_tokens: %zu, "
             "prompt_tokens_details: {cached_tokens: %zu}}",
             prompt, sampled, prompt + sampled, cached);
}

void head_json(Job *j, const char *object)
{
    TextOut *o = &j->out;
    json_out(o, "{id: %s, object: %s, created: %lld", j->id, object, j->created);
    model_member(o, j->server, j->adapter);
    fingerprint_member(o, j->server, j->adapter);
    if (j->options.pool == TBLOCK_POOL_NONE)
        json_out(o, "seed: %llu", (unsigned long long)j->choice[0].seed);
}

/* The ids of sampled tokens first .. first + n that are part of the text, if requested. */
void sampled_ids_json(const Choice *c, size_t first, size_t n)
{
    TextOut *o = &c->job->out;
    if (!c->job->return_ids)
        return;
    json_out(o, "token_ids: [");
    for (size_t i = first; i < first + n; i++)
        if (!c->token[i].given && !c->token[i].ends)
            json_out(o, "%d", (int)c->token[i].id);
    json_out(o, "]");
}

void receipt_json(const Choice *c)
{
    TextOut *o    = &c->job->out;
    char    *json = NULL;
    if (!c->receipt)
        return;
    if (tblock_receipt_json(c->receipt, &json, NULL))
        json_out(o, "receipt: %-s", json);
    else
        o->failed = true;
    tblock_free(json);
}

void end_stream(Job *j, const char *object)
{
    if (j->usage) {
        event_begin(j, NULL);
        head_json(j, object);
        json_out(&j->out, "choices: []");
        usage_json(j);
        json_out(&j->out, "}");
        event_end(j);
    }
    text_out(&j->out, "data: [DONE]\n\n");
}

void end_whole(Job *j)
{
    json_out(&j->out, "]");
    usage_json(j);
    json_out(&j->out, "}\n");
}
