/* serve/completions.c: /v1/completions, as OpenAI and vLLM define it (docs/serve.md). */
#include "serve/server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct CompletionRequest {
    const JsonNode *model, *prompt, *stop, *stream_options, *resume_ids, *bias;
    bool            echo, stream, usage, return_ids, add_special, parse_special;
    int64_t         n, best_of, max_tokens, logprobs, top_k, seed;
    double          temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
} CompletionRequest;

#define AT(field) offsetof(CompletionRequest, field)
static const double most_seed = 9007199254740991; /* 2^53 - 1 */

/* What says how a token is drawn; other endpoints have it too. */
static const Field completion_fields[] = {
    { "model",              FIELD_TEXT,   AT(model),          0, 0, NULL },
    { "prompt",             FIELD_NODE,   AT(prompt),         0, 0, NULL },
    { "max_tokens",         FIELD_INT,    AT(max_tokens),     0, 1 << 24, NULL },
    { "n",                  FIELD_INT,    AT(n),              1, MOST_CHOICES, NULL },
    { "best_of",            FIELD_INT,    AT(best_of),        1, MOST_CHOICES, NULL },
    { "echo",               FIELD_BOOL,   AT(echo),           0, 0, NULL },
    { "stream",             FIELD_BOOL,   AT(stream),         0, 0, NULL },
    { "stream_options",     FIELD_NODE,   AT(stream_options), 0, 0, NULL },
    { "logprobs",           FIELD_INT,    AT(logprobs),       0, MOST_TOP, NULL },
    { "stop",               FIELD_NODE,   AT(stop),           0, 0, NULL },
    { "seed",               FIELD_INT,    AT(seed),           0, most_seed, NULL },
    { "temperature",        FIELD_NUMBER, AT(temperature),    0, 100, NULL },
    { "top_p",              FIELD_NUMBER, AT(top_p),          0, 1, NULL },
    { "top_k",              FIELD_INT,    AT(top_k),          -1, 1 << 24, NULL },
    { "min_p",              FIELD_NUMBER, AT(min_p),          0, 1, NULL },
    { "repetition_penalty", FIELD_NUMBER, AT(repeat_penalty), 0.01, 100, NULL },
    { "presence_penalty",   FIELD_NUMBER, AT(presence_penalty), -100, 100, NULL },
    { "frequency_penalty",  FIELD_NUMBER, AT(frequency_penalty), -100, 100, NULL },
    { "logit_bias",         FIELD_NODE,   AT(bias),           0, 0, NULL },
    { "return_token_ids",   FIELD_BOOL,   AT(return_ids),     0, 0, NULL },
    { "resume_ids",         FIELD_NODE,   AT(resume_ids),     0, 0, NULL },
    { "add_special_tokens", FIELD_BOOL,   AT(add_special),    0, 0, NULL },
    { "parse_special",      FIELD_BOOL,   AT(parse_special),  0, 0, NULL },
    { "user",               FIELD_IGNORED, 0, 0, 0, NULL },
    { "suffix",             FIELD_REFUSED, 0, 0, 0, "the models here only continue a text" },
    { 0 },
};
#undef AT

static const Field stream_fields[] = {
    { "include_usage", FIELD_BOOL, 0, 0, 0, NULL },
    { 0 },
};

/* What is needed when answers are written. */
typedef struct Completion { bool echo, usage, return_ids; size_t n, per_prompt; } Completion;

/* ---- Writing --------------------------------------------------------------------------------- */

static void head_json(Job *j)
{
    TextOut *o = &j->out;
    text_out(o, "{\"id\": \"%s\", \"object\": \"text_completion\", \"created\": %lld, \"model\": ",
             j->id, j->created);
    json_out_string(o, j->server->o->name, strlen(j->server->o->name));
    text_out(o, ", \"seed\": %llu", (unsigned long long)j->choice[0].seed);
}

static void number_json(TextOut *o, double x)
{
    if (isnan(x))
        text_out(o, "null");
    else
        json_out_double(o, x);
}

static void top_json(TextOut *o, const Server *s, const Token *t)
{
    bool has = false;
    if (isnan(t->log_prob)) {
        text_out(o, "null");
        return;
    }
    text_out(o, "{");
    for (size_t i = 0; i < t->n_top; i++) {
        has |= t->top[i].token == t->id;
        text_out(o, i ? ", " : "");
        token_json(o, s, t->top[i].token);
        text_out(o, ": ");
        number_json(o, t->top[i].log_prob);
    }
    if (!has) {
        text_out(o, t->n_top ? ", " : "");
        token_json(o, s, t->id);
        text_out(o, ": ");
        number_json(o, t->log_prob);
    }
    text_out(o, "}");
}

static size_t n_characters(const Server *s, int32_t id)
{
    TextOut text = { 0 };
    size_t  n    = 0;
    token_bytes(&text, s, id);
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.text[i] & 0xC0) != 0x80;
    text_out_free(&text);
    return n;
}

/* The log-probabilities of raw logits. Offsets count characters of the text, as OpenAI's do. */
static void logprobs_json(Choice *c, size_t first, size_t n)
{
    Job     *j = c->job;
    TextOut *o = &j->out;
    if (!j->want_probs) {
        text_out(o, ", \"logprobs\": null");
        return;
    }
    const Token *t = c->token + first;
    text_out(o, ", \"logprobs\": {\"tokens\": [");
    for (size_t i = 0; i < n; i++) {
        text_out(o, i ? ", " : "");
        token_json(o, j->server, t[i].id);
    }
    text_out(o, "], \"token_logprobs\": [");
    for (size_t i = 0; i < n; i++) {
        text_out(o, i ? ", " : "");
        number_json(o, t[i].log_prob);
    }
    text_out(o, "], \"top_logprobs\": [");
    for (size_t i = 0; i < n; i++) {
        text_out(o, i ? ", " : "");
        top_json(o, j->server, &t[i]);
    }
    text_out(o, "], \"text_offset\": [");
    for (size_t i = 0; i < n; i++) {
        text_out(o, "%s%zu", i ? ", " : "", c->offset);
        c->offset += n_characters(j->server, t[i].id);
    }
    text_out(o, "]}");
}

static void choice_json(Choice *c, const char *text, size_t n, size_t first, size_t n_tokens)
{
    const Completion *r      = c->job->request;
    TextOut          *o      = &c->job->out;
    const char       *reason = finish_reason(c);
    text_out(o, "{\"index\": %d, \"text\": ", c->index);
    json_out_string(o, text, n);
    logprobs_json(c, first, n_tokens);
    if (r->return_ids) {
        int32_t id;
        text_out(o, ", \"token_ids\": [");
        for (size_t i = 0, told = 0; i < n_tokens; i++)
            if (!c->token[first + i].given && !c->token[first + i].ends) {
                id = c->token[first + i].id;
                text_out(o, "%s%d", told++ ? ", " : "", (int)id);
            }
        text_out(o, "]");
    }
    text_out(o, reason ? ", \"finish_reason\": \"%s\"}" : ", \"finish_reason\": null}", reason);
}

static void usage_json(Job *j)
{
    size_t prompt = 0, cached = 0, drawn = 0;
    for (size_t i = 0; i < j->n_choices; i++) {
        drawn += j->choice[i].n_drawn;
        cached += j->choice[i].n_cached;
    }
    for (size_t i = 0; i < j->n_prompts; i++)
        prompt += j->prompt[i].n;
    text_out(&j->out,
             "\"usage\": {\"prompt_tokens\": %zu, \"completion_tokens\": %zu, \"total_tokens\": "
             "%zu, \"prompt_tokens_details\": {\"cached_tokens\": %zu}}",
             prompt, drawn, prompt + drawn, cached);
}

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    Job              *j    = c->job;
    const Completion *r    = j->request;
    TextOut           both = { 0 };
    if (r->echo && !c->told_text && !c->told_tokens) {
        text_out_bytes(&both, c->prompt->text, c->prompt->n_text);
        text_out_bytes(&both, text, n);
        text = both.text;
        n    = both.n;
    }
    event_begin(j);
    head_json(j);
    text_out(&j->out, ", \"choices\": [");
    choice_json(c, text ? text : "", n, first, c->n_tokens - first);
    text_out(&j->out, "]}");
    event_end(j);
    text_out_free(&both);
}

static void write_ended(Choice *c)
{
    Job *j = c->job;
    event_begin(j);
    head_json(j);
    text_out(&j->out, ", \"choices\": [");
    choice_json(c, "", 0, c->n_tokens, 0);
    text_out(&j->out, "]}");
    event_end(j);
}

/* Of best_of, the n whose tokens are the most probable on average. */
static bool is_among_best(const Job *j, const Choice *c)
{
    const Completion *r      = j->request;
    const size_t      first  = (size_t)(c - j->choice) / r->per_prompt * r->per_prompt;
    size_t            better = 0;
    double mine = c->n_drawn ? c->log_prob_sum / (double)c->n_drawn : 0;
    for (size_t i = first; i < first + r->per_prompt; i++) {
        const Choice *other = &j->choice[i];
        double p = other->n_drawn ? other->log_prob_sum / (double)other->n_drawn : 0;
        better += p > mine || (p == mine && other < c);
    }
    return better < r->n;
}

static void write_whole(Job *j)
{
    const Completion *r = j->request;
    TextOut          *o = &j->out;
    int               index = 0;
    if (j->stream) {
        if (r->usage) {
            event_begin(j);
            head_json(j);
            text_out(o, ", \"choices\": [], ");
            usage_json(j);
            text_out(o, "}");
            event_end(j);
        }
        text_out(o, "data: [DONE]\n\n");
        return;
    }
    head_json(j);
    text_out(o, ", \"choices\": [");
    for (size_t i = 0; i < j->n_choices; i++) {
        Choice *c    = &j->choice[i];
        TextOut both = { 0 };
        if (!is_among_best(j, c))
            continue;
        if (r->echo)
            text_out_bytes(&both, c->prompt->text, c->prompt->n_text);
        text_out_bytes(&both, c->text.text, c->text.n);
        text_out(o, index ? ", " : "");
        c->index = index++;
        choice_json(c, both.text ? both.text : "", both.n, 0, c->n_tokens);
        text_out_free(&both);
    }
    text_out(o, "], ");
    usage_json(j);
    text_out(o, "}\n");
}

static const JobForm completion_form = { write_piece, write_ended, write_whole };

/* ---- Reading --------------------------------------------------------------------------------- */

/* The prompt is one text, one list of ids, or a list of either. */
static size_t count_prompts(const JsonNode *p)
{
    const JsonNode *first = p->kind == NODE_ARRAY && p->n ? p + 1 : NULL;
    return first && (first->kind == NODE_STRING || first->kind == NODE_ARRAY) ? p->n : 1;
}

static bool read_prompt(Exchange *x, const CompletionRequest *r, const JsonNode *p, Prompt *out)
{
    const int    n_ctx = x->server->computing.n_ctx;
    tblock_error err;
    char         found[NODE_TEXT];
    if (p->kind == NODE_ARRAY) {
        if (!ids_of(x, "prompt", p, &out->ids, &out->n))
            return false;
        if (r->echo && x->server->info.has_tokenizer
            && !tblock_detokenize(x->server->o->model, out->ids, out->n, &out->text, &out->n_text,
                                  &err))
            return refuse(x, MHD_HTTP_BAD_REQUEST, "prompt", "%s", err.msg);
    } else if (p->kind == NODE_STRING) {
        if (!tokens_of(x, p,
                       (r->add_special ? TBLOCK_ADD_SPECIAL : 0u)
                           | (r->parse_special ? TBLOCK_PARSE_SPECIAL : 0u),
                       &out->ids, &out->n))
            return false;
        out->text = malloc(p->n + 1);
        if (!out->text)
            return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        memcpy(out->text, p->text, p->n + 1);
        out->n_text = p->n;
    } else {
        return refuse(x, MHD_HTTP_BAD_REQUEST, "prompt",
                      "prompt: expected a string, an array of ids or an array of these, found %s",
                      node_text(p, found));
    }
    if (!out->n)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "prompt",
                      "prompt: expected at least one token, found none");
    return out->n <= (size_t)n_ctx
        || refuse(x, MHD_HTTP_BAD_REQUEST, "prompt",
                  "prompt: expected at most the %d tokens of the context, found %zu", n_ctx,
                  out->n);
}

static bool read_prompts(Exchange *x, const CompletionRequest *r, Job *j)
{
    if (count_prompts(r->prompt) == 1 && !(r->prompt->kind == NODE_ARRAY && r->prompt->n == 1
                                           && r->prompt[1].kind != NODE_INT))
        return read_prompt(x, r, r->prompt, &j->prompt[0]);
    size_t i = 0;
    JSON_NODES (p, r->prompt)
        if (!read_prompt(x, r, p, &j->prompt[i++]))
            return false;
    return true;
}

/* A text, or an array of texts. */
static bool read_stops(Exchange *x, const JsonNode *stop, Job *j)
{
    char   found[NODE_TEXT];
    size_t n = !stop ? 0 : stop->kind == NODE_ARRAY ? stop->n : 1, i = 0;
    if (n > 64)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "stop", "stop: expected at most 64 texts, found %zu",
                      n);
    j->stop_texts = calloc(n + 1, sizeof *j->stop_texts);
    if (!j->stop_texts)
        return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    for (const JsonNode *s = !n ? NULL : stop->kind == NODE_ARRAY ? stop + 1 : stop; i < n;
         s += s->skip) {
        if (s->kind != NODE_STRING || !s->n || strlen(s->text) != s->n)
            return refuse(x, MHD_HTTP_BAD_REQUEST, "stop",
                          "stop: expected texts that are not empty and have no NUL, found %s",
                          node_text(s, found));
        j->stop_texts[i++]      = strdup(s->text);
        j->options.n_stop_texts = i;
        if (!j->stop_texts[i - 1])
            return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
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
        return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
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

/* The tokens that an earlier answer to this request had: it goes on behind them. */
static bool read_resumed(Exchange *x, const CompletionRequest *r, Job *j)
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
    c->n_ids = c->prompt->n + n;
    c->ids   = n ? malloc(c->n_ids * sizeof *c->ids) : NULL;
    if (c->ids) {
        memcpy(c->ids, c->prompt->ids, c->prompt->n * sizeof *c->ids);
        memcpy(c->ids + c->prompt->n, ids, n * sizeof *c->ids);
    }
    free(ids);
    if (n && !c->ids)
        return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    return c->n_ids <= (size_t)x->server->computing.n_ctx
        || refuse(x, MHD_HTTP_BAD_REQUEST, "resume_ids",
                  "prompt and resume_ids: expected at most the %d tokens of the context, found %zu",
                  x->server->computing.n_ctx, c->n_ids);
}

/* A text that cannot grow beyond the context is cut there, but one that was asked for is
 * refused. */
static bool check_length(Exchange *x, const CompletionRequest *r, const Job *j)
{
    const int n_ctx = x->server->computing.n_ctx;
    for (size_t i = 0; i < j->n_prompts; i++)
        if (j->prompt[i].n + (size_t)r->max_tokens > (size_t)n_ctx)
            return refuse(x, MHD_HTTP_BAD_REQUEST, "max_tokens",
                          "the context holds %d tokens, but prompt and max_tokens ask for %zu "
                          "(%zu and %lld)",
                          n_ctx, j->prompt[i].n + (size_t)r->max_tokens, j->prompt[i].n,
                          (long long)r->max_tokens);
    return true;
}

static void set_options(const CompletionRequest *r, Job *j)
{
    j->stream       = r->stream;
    j->want_probs   = r->logprobs >= 0 || r->best_of > r->n;
    j->n_top        = r->logprobs > 0 ? (size_t)r->logprobs : 0;
    j->prompt_probs = r->echo && r->logprobs >= 0;
    j->options.max_tokens    = r->max_tokens ? (int)r->max_tokens : -1;
    j->options.prompt_logits = j->prompt_probs;
    j->options.sampling =
        (tblock_sampler_options){ .temp           = (float)r->temperature,
                                  .top_k          = r->top_k > 0 ? (int)r->top_k : 0,
                                  .top_p          = r->top_p,
                                  .min_p          = (float)r->min_p,
                                  .repeat_penalty    = (float)r->repeat_penalty,
                                  .presence_penalty  = (float)r->presence_penalty,
                                  .frequency_penalty = (float)r->frequency_penalty,
                                  .bias_ids          = j->bias_ids,
                                  .bias              = j->bias,
                                  .n_bias            = j->n_bias };
    for (size_t i = 0; i < j->n_choices; i++)
        j->choice[i].seed = (uint64_t)r->seed + i;
}

static bool check_request(Exchange *x, CompletionRequest *r)
{
    tblock_sampler *s;
    tblock_error    err;
    if (!r->prompt)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "prompt", "prompt: expected one, found none");
    if (r->best_of < 0)
        r->best_of = r->n;
    if (r->best_of < r->n || (r->best_of > r->n && r->stream))
        return refuse(x, MHD_HTTP_BAD_REQUEST, "best_of",
                      "best_of: expected at least n, and n itself in a stream");
    if (r->stream_options
        && !fields_read(x, r->stream_options, (const Field *const[]){ stream_fields, NULL },
                        &r->usage))
        return false;
    if (r->stream_options && !r->stream)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "stream_options",
                      "stream_options: expected stream to be true beside it");
    s = tblock_sampler_new(1, &(tblock_sampler_options){ .temp  = (float)r->temperature,
                                                         .top_p = r->top_p,
                                                         .min_p = (float)r->min_p,
                                                         .repeat_penalty =
                                                             (float)r->repeat_penalty },
                           &err);
    tblock_sampler_free(s);
    return s || refuse(x, MHD_HTTP_BAD_REQUEST, NULL, "%s", err.msg);
}

static bool fill_job(Exchange *x, const CompletionRequest *r, Job *j)
{
    const size_t n_prompts = count_prompts(r->prompt);
    Completion  *c         = j->request = calloc(1, sizeof *c);
    j->free_request                     = free;
    if (!c)
        return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    *c = (Completion){ .echo       = r->echo,
                       .usage      = r->usage,
                       .return_ids = r->return_ids,
                       .n          = (size_t)r->n,
                       .per_prompt = (size_t)r->best_of };
    if (n_prompts * c->per_prompt > MOST_CHOICES)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "prompt",
                      "expected at most %d texts in all, prompts times n, found %zu", MOST_CHOICES,
                      n_prompts * c->per_prompt);
    if (!job_choices(j, n_prompts, c->per_prompt) || !read_prompts(x, r, j)
        || !read_stops(x, r->stop, j) || !read_bias(x, r->bias, j)
        || !read_resumed(x, r, j) || !check_length(x, r, j))
        return false;
    set_options(r, j);
    return true;
}

static bool complete(Exchange *x, const JsonNode *body)
{
    CompletionRequest r = { .add_special = true, .parse_special = true, .n = 1, .best_of = -1,
                            .max_tokens = 16, .logprobs = -1, .temperature = 1, .top_p = 1,
                            .repeat_penalty = 1, .seed = (int64_t)random_seed() };
    if (!fields_read(x, body, (const Field *const[]){ completion_fields, NULL }, &r)
        || !check_model(x, r.model) || !check_request(x, &r))
        return false;
    Job *j = job_new(x, "completions", "cmpl-", &completion_form);
    if (j && fill_job(x, &r, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool completions_handle(Exchange *x) { return with_body(x, complete); }
