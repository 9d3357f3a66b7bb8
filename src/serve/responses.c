/* serve/responses.c: the form of /v1/responses, as OpenAI defines it (docs/serve.md): a request is
 * translated for talk.c (its items by response_input.c), and a reply is written as items, in the
 * order in which the model generated them. Nothing is stored. */
#include "serve/server.h"

#include <stdlib.h>
#include <time.h>


typedef struct ResponseRequest {
    Settings        s;
    const JsonNode *input, *instructions, *tools, *tool_choice, *text, *reasoning, *include, *args;
    const JsonNode *truncation, *stream_options, *metadata, *user, *cache_key, *identifier;
    int64_t         max_output_tokens, top_logprobs;
    bool            parallel, background;
} ResponseRequest;

static const char nothing_stored[] = "nothing is stored here; send the whole conversation";

#define AT(field) offsetof(ResponseRequest, field)
static const Field response_fields[] = {
    FIELD("input", NODE | FIELD_REQUIRED, input,
          "a text of the user, or a list of at least one item"),
    FIELD("instructions", TEXT, instructions, "a system text before it"),
    FIELD_IN("max_output_tokens", INT, max_output_tokens, 1, 1 << 24, "most tokens to generate"),
    FIELD("tools", NODE, tools, "a list of functions that the model may call"),
    FIELD("tool_choice", NODE, tool_choice, "auto, none, required, or a function by its name"),
    FIELD("parallel_tool_calls", BOOL, parallel,
          "false only where a call is required, or a function is strict"),
    FIELD("text", NODE, text, "an object: format, what the answer must fit"),
    FIELD("reasoning", NODE, reasoning, "an object: effort, a variable of the template"),
    FIELD("chat_template_kwargs", NODE, args, "an object: more variables of the template"),
    FIELD("include", NODE, include, "a list: message.output_text.logprobs"),
    FIELD_IN("top_logprobs", INT, top_logprobs, 0, MOST_TOP,
          "of so many most probable tokens beside each"),
    FIELD("stream_options", NODE, stream_options, "an object: include_obfuscation, false"),
    FIELD("truncation", TEXT, truncation, "disabled: what does not fit is refused"),
    FIELD("background", BOOL, background, "false: nothing is stored"),
    FIELD("metadata", NODE, metadata, "an object; changes no text"),
    FIELD("user", TEXT, user, "changes no text"),
    FIELD("prompt_cache_key", TEXT, cache_key, "changes no text"),
    FIELD("safety_identifier", TEXT, identifier, "changes no text"),
    IGNORED("prompt_cache_options"), IGNORED("prompt_cache_retention"),
    REJECTED("previous_response_id", nothing_stored),
    REJECTED("conversation", nothing_stored),
    REJECTED("prompt", nothing_stored),
    REJECTED("context_management", "a conversation is read as it is"),
    REJECTED("max_tool_calls", "there are no built-in tools"),
    REJECTED("moderation", "there is none"),
    REJECTED("n", "a response is one answer"),
    { 0 },
};
#undef AT

static const ResponseRequest response_default  = { .s = SETTINGS_DEFAULT, .parallel = true };
static const Field *const    response_tables[] = { response_fields, settings_fields, openai_fields,
                                                   NULL };
const Body                   responses_body    = { response_tables, &response_default };

/* The request of a job. */
typedef struct Response {
    Talk     talk;
    bool     logprobs;
    TextOut  echo;              /* members of the response that echo the request */
    size_t   n_tokens, n_known; /* tokens in items; tokens so far */
    size_t   n_sampled;         /* the same, with resume_ids of the request */
    size_t   n_thought;         /* of these, reasoning */
    size_t   n_resumed;         /* of resume_ids, still to parse */
    unsigned sequence;          /* number of the next event */
} Response;

static void response_free(void *p)
{
    Response *r = p;
    if (r)
        text_out_free(&r->echo);
    talk_free(r);
}

/* ---- Items as JSON --------------------------------------------------------------------------- */

/* What an item is called, by its kind. */
static const struct {
    const char *id, *type, *part, *delta, *done;
} names[] = {
    [TBLOCK_ANSWER_CONTENT]   = { "msg", "message", "output_text", "response.output_text.delta",
                                  "response.output_text.done" },
    [TBLOCK_ANSWER_REASONING] = { "rs", "reasoning", "reasoning_text",
                                  "response.reasoning_text.delta",
                                  "response.reasoning_text.done" },
    [TBLOCK_ANSWER_CALL]      = { "fc", "function_call", NULL,
                                  "response.function_call_arguments.delta",
                                  "response.function_call_arguments.done" },
};

static Place item_id(const Job *j, const Item *i)
{
    return place("%s_%s_%zu", names[i->kind].id, j->id + sizeof "resp_" - 1, i->index);
}

static void item_text_json(const Choice *c, const Item *i)
{
    const tblock_answer_info said = reply_said(c);
    json_out_member(&c->job->out, "text",
                    (i->kind == TBLOCK_ANSWER_CONTENT ? said.content : said.reasoning) + i->from,
                    i->n);
}

/* Only content has log-probabilities. */
static void item_probs_json(const Choice *c, const Item *i, size_t first)
{
    const Response *r = c->job->request;
    if (i->kind != TBLOCK_ANSWER_CONTENT)
        return;
    json_out(&c->job->out, "logprobs:");
    probs_json(c, first, r->logprobs ? i->end - first : 0);
}

static void part_json(const Choice *c, const Item *i)
{
    TextOut *o = &c->job->out;
    json_out(o, "{type: %s", names[i->kind].part);
    item_text_json(c, i);
    json_out(o, i->kind == TBLOCK_ANSWER_CONTENT ? "annotations: []" : "");
    item_probs_json(c, i, i->first);
    json_out(o, "}");
}

/* begins: as it is before it has content. */
static void item_json(const Choice *c, const Item *i, bool begins)
{
    TextOut *o = &c->job->out;
    TalkCall call;
    json_out(o, "{id: %s, type: %s, status: %s", item_id(c->job, i).text, names[i->kind].type,
             i->open ? "in_progress" : i->cut ? "incomplete" : "completed");
    if (i->kind == TBLOCK_ANSWER_CALL) {
        reply_call(c, i->call, &call);
        json_out_member(o, "call_id", call.said.id, call.said.n_id);
        json_out_member(o, "name", call.said.name, call.said.n_name);
        json_out_member(o, "arguments", call.said.arguments, begins ? 0 : call.said.n_arguments);
    } else {
        json_out(o, i->kind == TBLOCK_ANSWER_CONTENT ? "role: assistant" : "summary: []");
        json_out(o, "content: [");
        if (!begins)
            part_json(c, i);
        json_out(o, "]");
    }
    json_out(o, "}");
}

/* ---- The response as JSON -------------------------------------------------------------------- */

static void usage_of_response(const Choice *c)
{
    const Response *r      = c->job->request;
    const size_t    prompt = c->prompt->n;
    json_out(&c->job->out,
             "usage: {input_tokens: %zu, input_tokens_details: {cached_tokens: %zu, "
             "cache_write_tokens: %zu}, output_tokens: %zu, output_tokens_details: "
             "{reasoning_tokens: %zu}, total_tokens: %zu}",
             prompt, c->n_cached, prompt - c->n_cached, c->n_sampled, r->n_thought,
             prompt + c->n_sampled);
}

static void response_json(Job *j, const char *status)
{
    const Response *r       = j->request;
    const Choice   *c       = &j->choice[0];
    const Reply    *reply   = reply_of(c);
    TextOut        *o       = &j->out;
    const bool      running = strcmp(status, "in_progress") == 0;
    json_out(o, "{id: %s, object: response, created_at: %lld, status: %s", j->id, j->created,
             status);
    if (running)
        json_out(o, "completed_at: null");
    else
        json_out(o, "completed_at: %lld", (long long)time(NULL));
    if (*j->why)
        json_out(o, "error: {code: server_error, message: %s}", j->why);
    else
        json_out(o, "error: null");
    json_out(o, "incomplete_details:");
    json_out(o, strcmp(status, "incomplete") ? "null" : "{reason: max_output_tokens}");
    model_member(o, j->server, j->adapter);
    json_out(o, "output: [");
    for (size_t i = 0; i < reply->n_items; i++)
        item_json(c, &reply->item[i], false);
    json_out(o, running ? "], usage: null" : "]");
    if (!running)
        usage_of_response(c);
    json_out(o, "seed: %llu", (unsigned long long)c->seed);
    json_out_comma(o);
    text_out_bytes(o, r->echo.text, r->echo.n);
    if (!running)
        sampled_ids_json(c, 0, c->n_tokens);
    if (!running && !*j->why)
        receipt_json(c);
    json_out(o, "}");
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void begin(Job *j, const char *type)
{
    Response *r = j->request;
    event_begin(j, type);
    json_out(&j->out, "{type: %s, sequence_number: %u", type, r->sequence++);
}

static void end(Job *j)
{
    json_out(&j->out, "}");
    event_end(j);
}

static void response_event(Job *j, const char *type, const char *status)
{
    begin(j, type);
    json_out(&j->out, "response:");
    response_json(j, status);
    end(j);
}

/* Starts an event about an item, which the caller ends. */
static void begin_item(Job *j, const char *type, const Item *i)
{
    begin(j, type);
    json_out(&j->out, "output_index: %zu, item_id: %s", i->index, item_id(j, i).text);
    json_out(&j->out, i->kind != TBLOCK_ANSWER_CALL ? "content_index: 0" : "");
}

static void item_event(const Choice *c, const char *type, const Item *i, bool begins)
{
    begin(c->job, type);
    json_out(&c->job->out, "output_index: %zu, item:", i->index);
    item_json(c, i, begins);
    end(c->job);
}

static void part_event(const Choice *c, const char *type, const Item *i)
{
    begin_item(c->job, type, i);
    json_out(&c->job->out, "part:");
    part_json(c, i);
    end(c->job);
}

static void item_begins(Choice *c, Item *i)
{
    const Response *r = c->job->request;
    i->first = i->end = r->n_tokens;
    if (!c->job->stream)
        return;
    item_event(c, "response.output_item.added", i, true);
    if (i->kind != TBLOCK_ANSWER_CALL)
        part_event(c, "response.content_part.added", i);
}

/* With the tokens that no item has yet. */
static void item_grows(Choice *c, Item *i, const char *text, size_t n)
{
    Job         *j     = c->job;
    Response    *r     = j->request;
    const size_t first = r->n_tokens;
    r->n_tokens = i->end = r->n_known;
    if (!j->stream || (!n && !r->logprobs && !j->return_ids))
        return;
    begin_item(j, names[i->kind].delta, i);
    json_out_member(&j->out, "delta", text, n);
    item_probs_json(c, i, first);
    sampled_ids_json(c, first, i->end - first);
    end(j);
}

static void item_ends(Choice *c, Item *i)
{
    TalkCall call;
    if (!c->job->stream)
        return;
    begin_item(c->job, names[i->kind].done, i);
    if (i->kind == TBLOCK_ANSWER_CALL) {
        reply_call(c, i->call, &call);
        json_out_member(&c->job->out, "name", call.said.name, call.said.n_name);
        json_out_member(&c->job->out, "arguments", call.said.arguments, call.said.n_arguments);
        end(c->job);
    } else {
        item_text_json(c, i);
        item_probs_json(c, i, i->first);
        end(c->job);
        part_event(c, "response.content_part.done", i);
    }
    item_event(c, "response.output_item.done", i, false);
}

static const ItemForm items = { item_begins, item_grows, item_ends };

/* ---- Replies --------------------------------------------------------------------------------- */

static bool is_cut(const Choice *c) { return strcmp(finish_reason(c), "length") == 0; }

/* Emits the next bytes of the reply, or NULL at its end, with the tokens so far. Tokens that yield
 * no text belong to what is emitted next. */
static void say(Choice *c, const char *text, size_t n, size_t n_tokens, size_t n_sampled)
{
    Response                 *r = c->job->request;
    size_t                    n_parts;
    const tblock_answer_part *part = reply_parse(c, text, n, &n_parts);
    r->n_known = n_tokens;
    if (n_parts) {
        r->n_thought += part->kind == TBLOCK_ANSWER_REASONING ? n_sampled - r->n_sampled : 0;
        r->n_sampled = n_sampled;
    }
    reply_add(c, part, n_parts, !text && is_cut(c), &items);
}

/* The tokens of resume_ids are emitted at once. They are parsed one by one, so that they are
 * counted as if they had been sampled here. */
static void say_resumed(Choice *c, const char **text, size_t *n)
{
    Response       *r      = c->job->request;
    const int32_t  *id     = c->ids + c->prompt->n;
    const char     *skip   = c->job->constraint ? "" : c->job->options.skip;
    tblock_stream  *stream = tblock_stream_new(c->job->server->o->model, true, NULL);
    if (!stream)
        c->job->out.failed = true;
    for (size_t i = 0; stream && i < r->n_resumed; i++) {
        size_t      k;
        const char *told = tblock_stream_put(stream, id[i], &k);
        for (; k && skip && *skip && *told == *skip; k--)
            skip++, told++;
        skip = k ? NULL : skip;
        k    = k < *n ? k : *n;
        if (k)
            say(c, *text, k, 0, i + 1);
        *text += k;
        *n -= k;
    }
    tblock_stream_free(stream);
    r->n_resumed = 0;
}

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    (void)first;
    Response *r = c->job->request;
    if (r->n_resumed)
        say_resumed(c, &text, &n);
    if (n)
        say(c, text, n, c->n_tokens, c->n_sampled);
}

static void write_ended(Choice *c)
{
    Response *r = c->job->request;
    say(c, NULL, 0, c->n_tokens, c->n_sampled);
    Item *i = reply_last(c);
    if (!i)
        i = reply_item(c, TBLOCK_ANSWER_CONTENT, 0, &items);
    if (!i)
        return;
    r->n_thought += i->kind == TBLOCK_ANSWER_REASONING ? c->n_sampled - r->n_sampled : 0;
    r->n_known = c->n_tokens;
    if (i->kind != TBLOCK_ANSWER_CALL && r->n_known > r->n_tokens)
        item_grows(c, i, "", 0); /* tokens that yielded no text */
    reply_end(c, is_cut(c), &items);
}

static void write_whole(Job *j)
{
    const bool cut = is_cut(&j->choice[0]);
    if (j->stream) {
        response_event(j, cut ? "response.incomplete" : "response.completed",
                       cut ? "incomplete" : "completed");
        return;
    }
    response_json(j, cut ? "incomplete" : "completed");
    json_out(&j->out, "\n");
}

static void write_failed(Job *j, int status)
{
    if (!j->stream) {
        job_failed(j, status);
        return;
    }
    Item *i = reply_last(&j->choice[0]);
    if (i && i->open)
        i->open = false, i->cut = true;
    if (i && !i->begun) /* a call that no event has started */
        reply_of(&j->choice[0])->n_items--;
    response_event(j, "response.failed", "failed");
}

static const JobForm response_form = { write_piece, write_ended, write_whole, write_failed, true };

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct Format { const JsonNode *type, *name, *schema; } Format;
#define AT(field) offsetof(Format, field)
static const Field format_fields[] = {
    FIELD("type", TEXT | FIELD_REQUIRED, type, NULL),
    FIELD("name", TEXT, name, NULL),
    FIELD("schema", NODE, schema, NULL),
    IGNORED("strict"), /* it is */
    REJECTED("description", "the model is not told; say it in instructions"),
    { 0 },
};
#undef AT

static bool read_format(Exchange *x, const JsonDoc *d, const JsonNode *format, Talk *t)
{
    Format f = { 0 };
    t->schema_param = "text.format";
    if (!fields_read_at(x, "text.format", format, (const Field *const[]){ format_fields, NULL },
                        &f))
        return false;
    if (node_is(f.type, "json_schema") && (!f.schema || !f.name))
        return refuse_value(x, f.name ? "text.format.schema" : "text.format.name", "one", NULL);
    if (node_is(f.type, "json_schema"))
        json_out_node(&t->schema, d, f.schema);
    else if (node_is(f.type, "json_object"))
        json_out(&t->schema, "{type: object}");
    else if (!node_is(f.type, "text"))
        return refuse_value(x, "text.format.type", "text, json_object or json_schema", f.type);
    return true;
}

static const Field text_fields[] = {
    { "format", FIELD_NODE, 0, 0, 0, NULL },
    REJECTED("verbosity", "nothing would keep it"),
    { 0 },
};

static const Field reasoning_fields[] = {
    { "effort", FIELD_TEXT, 0, 0, 0, NULL },
    REJECTED("summary", "reasoning is told as it is"),
    REJECTED("generate_summary", "reasoning is told as it is"),
    REJECTED("context", "the template decides what it reads"),
    REJECTED("mode", "there is one"),
    { 0 },
};

static const Field stream_fields[] = {
    { "include_obfuscation", FIELD_BOOL, 0, 0, 0, NULL },
    { 0 },
};

/* The only supported value. */
static bool read_include(Exchange *x, const ResponseRequest *r, Response *p)
{
    if (r->include && r->include->kind != NODE_ARRAY)
        return refuse_value(x, "include", "a list", r->include);
    JSON_NODES (j, r->include) {
        if (!node_is(j, "message.output_text.logprobs"))
            return refuse_value(x, "include", "message.output_text.logprobs", j);
        p->logprobs = true;
    }
    return p->logprobs || r->top_logprobs == 0
        || refuse(x, MHD_HTTP_BAD_REQUEST, "top_logprobs",
                  "top_logprobs: expected message.output_text.logprobs in include beside it");
}

/* Parameters of which only one value is supported. */
static bool check_fixed(Exchange *x, const ResponseRequest *r)
{
    bool obfuscated = false;
    if (r->truncation && !node_is(r->truncation, "disabled"))
        return refuse_value(x, "truncation", "disabled", r->truncation);
    if (r->background)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "background", "background: not supported: %s",
                      nothing_stored);
    if (r->metadata && r->metadata->kind != NODE_OBJECT)
        return refuse_value(x, "metadata", "an object", r->metadata);
    if (r->stream_options
        && !fields_read_at(x, "stream_options", r->stream_options,
                           (const Field *const[]){ stream_fields, NULL }, &obfuscated))
        return false;
    return !obfuscated
        || refuse(x, MHD_HTTP_BAD_REQUEST, "stream_options.include_obfuscation",
                  "stream_options.include_obfuscation: expected false, found true");
}

/* What the response echoes of its request. */
static void write_echo(TextOut *o, const JsonDoc *d, const ResponseRequest *r)
{
    const struct { const char *key; const JsonNode *value; const char *otherwise; } member[] = {
        { "instructions",      r->instructions, "null" },
        { "metadata",          r->metadata,     "{}" },
        { "prompt_cache_key",  r->cache_key,    "null" },
        { "reasoning",         r->reasoning,    "{\"effort\": null, \"summary\": null}" },
        { "safety_identifier", r->identifier,   "null" },
        { "text",              r->text,         "{\"format\": {\"type\": \"text\"}}" },
        { "tool_choice",       r->tool_choice,  "\"auto\"" },
        { "tools",             r->tools,        "[]" },
        { "user",              r->user,         "null" },
    };
    for (size_t i = 0; i < sizeof member / sizeof *member; i++) {
        json_out(o, "%s:", member[i].key);
        if (member[i].value)
            json_out_node(o, d, member[i].value);
        else
            json_out(o, "%-s", member[i].otherwise);
    }
    if (r->max_output_tokens)
        json_out(o, "max_output_tokens: %lld", (long long)r->max_output_tokens);
    else
        json_out(o, "max_output_tokens: null");
    static const int published[] = { SAMPLING_temp, SAMPLING_top_p, SAMPLING_presence_penalty,
                                     SAMPLING_frequency_penalty };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        json_out(o, "%s: %g", tblock_sampling_rows()[published[i]].parameter,
                 r->s.sampling[published[i]].real);
    json_out(o, "top_logprobs: %d, parallel_tool_calls: %i, background: false, max_tool_calls: "
                "null, previous_response_id: null, service_tier: default, store: false, "
                "truncation: disabled",
             (int)r->top_logprobs, r->parallel);
}

static bool read_tools(Exchange *x, const JsonDoc *d, const ResponseRequest *r, Talk *t)
{
    return (!r->tools || response_tools(x, d, r->tools, t))
        && talk_choice(x, r->tool_choice, r->parallel, t);
}

static bool read_settings(Exchange *x, ResponseRequest *r, Response *p)
{
    r->s.max_tokens = (int)r->max_output_tokens; /* 0: as many as fit */
    r->s.max_param  = "max_output_tokens";
    if (!check_fixed(x, r) || !read_include(x, r, p))
        return false;
    r->s.top = p->logprobs ? (int)r->top_logprobs : -1;
    return settings_check(x, &r->s);
}

static bool read_request(Exchange *x, const JsonDoc *d, ResponseRequest *r, Response *p)
{
    Talk           *t      = &p->talk;
    const JsonNode *format = NULL, *effort = NULL;
    return fields_read(x, d->node, response_tables, r)
        && read_settings(x, r, p)
        && (!r->text
            || fields_read_at(x, "text", r->text, (const Field *const[]){ text_fields, NULL },
                              &format))
        && (!format || read_format(x, d, format, t))
        && (!r->reasoning
            || fields_read_at(x, "reasoning", r->reasoning,
                              (const Field *const[]){ reasoning_fields, NULL }, &effort))
        && talk_args(x, d, r->args, effort, t) && read_tools(x, d, r, t)
        && response_input(x, d, r->instructions, r->input, t);
}

/* When the job is set up: what its responses echo, and the first events. */
static bool begin_response(Exchange *x, const JsonDoc *d, const ResponseRequest *r, Job *j)
{
    Response     *p = j->request;
    const Choice *c = &j->choice[0];
    p->n_resumed    = c->ids ? c->n_ids - c->prompt->n : 0;
    write_echo(&p->echo, d, r);
    if (p->echo.failed)
        return refuse_memory(x);
    if (j->stream) {
        response_event(j, "response.created", "in_progress");
        response_event(j, "response.in_progress", "in_progress");
    }
    return true;
}

static bool respond(Exchange *x, const JsonDoc *d)
{
    ResponseRequest r = response_default;
    Job            *j = talk_new(x, "resp_", &response_form, sizeof(Response), response_free);
    if (j && read_request(x, d, &r, j->request) && talk_job(x, &r.s, j)
        && begin_response(x, d, &r, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool responses_handle(Exchange *x) { return with_body(x, respond); }
