/* serve/chat.c: the form of /v1/chat/completions, as OpenAI and vLLM define it, and of
 * /apply-template (docs/serve.md): translates requests for talk.c, and writes responses with
 * reasoning and tool calls as fields. */
#include "serve/server.h"

#include <stdlib.h>

static const char whole_object[] = "chat.completion", piece_object[] = "chat.completion.chunk";

typedef struct ChatRequest {
    Settings        s;
    const JsonNode *messages, *tools, *tool_choice, *args, *effort, *format;
    int64_t         max_tokens, max_completion_tokens, top_logprobs;
    bool            logprobs, parallel;
} ChatRequest;

#define AT(field) offsetof(ChatRequest, field)
static const Field chat_fields[] = {
    FIELD("messages", NODE | FIELD_REQUIRED, messages, "an array of at least one message"),
    FIELD("tools", NODE, tools, "an array of functions that the model may call"),
    FIELD("tool_choice", NODE, tool_choice, "auto, none, required, or a function by its name"),
    FIELD("parallel_tool_calls", BOOL, parallel,
          "false only where a call is required, or a function is strict"),
    FIELD("response_format", NODE, format,
          "an object: type text, json_object or json_schema, and what the answer must fit"),
    FIELD_IN("max_tokens", INT, max_tokens, 1, 1 << 24, "most tokens to generate"),
    FIELD_IN("max_completion_tokens", INT, max_completion_tokens, 1, 1 << 24,
          "the same, and counts before it"),
    FIELD("logprobs", BOOL, logprobs, "the answer has log-probabilities"),
    FIELD_IN("top_logprobs", INT, top_logprobs, 0, MOST_TOP,
          "of so many most probable tokens beside each"),
    FIELD("chat_template_kwargs", NODE, args, "an object: more variables of the template"),
    FIELD("reasoning_effort", TEXT, effort, "a variable of the template"),
    IGNORED("prediction"), IGNORED("safety_identifier"), IGNORED("prompt_cache_key"),
    IGNORED("prompt_cache_options"), IGNORED("prompt_cache_retention"),
    REJECTED("functions", "tools replaces it"),
    REJECTED("function_call", "tool_choice replaces it"),
    REJECTED("audio", "the models here write text alone"),
    REJECTED("modalities", "the models here write text alone"),
    REJECTED("web_search_options", "tools are called by the client alone"),
    REJECTED("verbosity", "nothing would keep it"),
    REJECTED("moderation", "nothing would keep it"),
    { 0 },
};
#undef AT

static const ChatRequest  chat_default  = { .s            = SETTINGS_DEFAULT,
                                            .top_logprobs = -1,
                                            .parallel     = true };
static const Field *const chat_tables[] = { chat_fields, settings_fields, openai_fields,
                                              NULL };
const Body                chat_body     = { chat_tables, &chat_default };

typedef struct ChatTalk { Talk talk; bool logprobs; } ChatTalk;

/* ---- Writing --------------------------------------------------------------------------------- */

static void logprobs_json(const Choice *c, size_t first, size_t n)
{
    const ChatTalk *r = c->job->request;
    TextOut        *o = &c->job->out;
    json_out(o, r->logprobs ? "logprobs: {content:" : "logprobs: null");
    if (r->logprobs) {
        probs_json(c, first, n);
        json_out(o, "}");
    }
}

static const char *reason_of(const Choice *c)
{
    const char *reason = finish_reason(c);
    return reason && strcmp(reason, "stop") == 0 && reply_said(c).n_calls ? "tool_calls" : reason;
}

/* An event with one delta, which `delta` has written between braces. */
static void delta_event(Choice *c, const TextOut *delta, size_t first, size_t n, bool ended)
{
    Job        *j = c->job;
    TextOut    *o = &j->out;
    event_begin(j, NULL);
    head_json(j, piece_object);
    json_out(o, "choices: [{index: %d, delta: {", c->index);
    text_out_bytes(o, delta->text, delta->n);
    json_out(o, "}");
    logprobs_json(c, first, n);
    sampled_ids_json(c, first, n);
    if (ended)
        receipt_json(c);
    json_out(o, "finish_reason: %s}]}", ended ? reason_of(c) : NULL);
    event_end(j);
    o->failed |= delta->failed;
}

static void call_head(TextOut *o, const TalkCall *c)
{
    json_out_member(o, "id", c->said.id, c->said.n_id);
    json_out(o, "type: function, function: {");
    json_out_member(o, "name", c->said.name, c->said.n_name);
}

/* Writes what is new of a call. Its name waits, since its id may follow. */
static void call_delta(TextOut *o, const Choice *c, const Item *i, const char *arguments, size_t n)
{
    TalkCall call;
    json_out(o, "tool_calls: [{index: %zu", i->call);
    if (!i->grown) {
        reply_call(c, i->call, &call);
        call_head(o, &call);
    } else {
        json_out(o, "function: {");
    }
    json_out_member(o, "arguments", arguments, n);
    json_out(o, "}}]");
}

static void delta_begins(Choice *c, Item *i) { (void)c, (void)i; }

static void delta_grows(Choice *c, Item *i, const char *text, size_t n)
{
    TextOut delta = { 0 };
    if (i->kind == TBLOCK_ANSWER_CALL)
        call_delta(&delta, c, i, text, n);
    else
        json_out_member(&delta, i->kind == TBLOCK_ANSWER_CONTENT ? "content" : "reasoning_content",
                        text, n);
    delta_event(c, &delta, c->n_tokens, 0, false);
    text_out_free(&delta);
}

static void delta_ends(Choice *c, Item *i)
{
    if (i->kind == TBLOCK_ANSWER_CALL && !i->grown)
        delta_grows(c, i, "", 0);
}

static const ItemForm deltas = { delta_begins, delta_grows, delta_ends };

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    const ChatTalk *r     = c->job->request;
    Reply          *s     = reply_of(c);
    TextOut         delta = { 0 };
    if (!s->begun) {
        json_out(&delta, "role: assistant, content: ''");
        delta_event(c, &delta, first, 0, false);
        text_out_free(&delta);
        s->begun = true;
    }
    if (r->logprobs || c->job->return_ids) /* of the sampled tokens, whatever they say */
        delta_event(c, &delta, first, c->n_tokens - first, false);
    if (n)
        reply_put(c, text, n, &deltas);
}

static void write_ended(Choice *c)
{
    TextOut none = { 0 };
    reply_put(c, NULL, 0, &deltas);
    delta_event(c, &none, c->n_tokens, 0, true);
}

static void message_json(TextOut *o, Choice *c)
{
    size_t   n;
    TalkCall call;
    reply_parse(c, c->text.n ? c->text.text : "", c->text.n, &n);
    reply_parse(c, NULL, 0, &n);
    const tblock_answer_info said = reply_said(c);
    json_out(o, "{role: assistant");
    if (!said.n_content && said.n_calls)
        json_out(o, "content: null");
    else
        json_out_member(o, "content", said.content, said.n_content);
    if (said.n_reasoning)
        json_out_member(o, "reasoning_content", said.reasoning, said.n_reasoning);
    json_out(o, said.n_calls ? "tool_calls: [" : "");
    for (size_t i = 0; i < said.n_calls; i++) {
        reply_call(c, i, &call);
        json_out(o, "{");
        call_head(o, &call);
        json_out_member(o, "arguments", call.said.arguments, call.said.n_arguments);
        json_out(o, "}}");
    }
    json_out(o, said.n_calls ? "], refusal: null}" : "refusal: null}");
}

static void write_whole(Job *j)
{
    TextOut *o = &j->out;
    if (j->stream) {
        end_stream(j, piece_object);
        return;
    }
    head_json(j, whole_object);
    json_out(o, "choices: [");
    for (size_t i = 0; i < j->n_choices; i++) {
        Choice *c = &j->choice[i];
        json_out(o, "{index: %d, message:", c->index);
        message_json(o, c);
        logprobs_json(c, 0, c->n_tokens);
        sampled_ids_json(c, 0, c->n_tokens);
        receipt_json(c);
        json_out(o, "finish_reason: %s}", reason_of(c));
    }
    end_whole(j);
}

static const JobForm chat_form = { write_piece, write_ended, write_whole, job_failed, false };

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_tools(Exchange *x, const JsonDoc *d, const ChatRequest *r, Talk *t)
{
    if (r->tools && r->tools->kind != NODE_ARRAY)
        return refuse_value(x, "tools", "an array", r->tools);
    if (r->tools && r->tools->n) {
        json_out_node(&t->tools, d, r->tools);
        text_out_bytes(&t->tools, "", 1);
    }
    size_t i = 0;
    JSON_NODES (j, r->tools) {
        const JsonNode *strict = node_get(node_get(j, "function"), "strict");
        if (strict && strict->kind > NODE_TRUE)
            return refuse_value(x, place("tools[%zu].function.strict", i).text, "true or false",
                                strict);
        t->strict |= strict && strict->kind == NODE_TRUE;
        i++;
    }
    return talk_choice(x, r->tool_choice, r->parallel, t);
}

static const Field beside_text[] = {
    IGNORED("cache_control"), IGNORED("prompt_cache_breakpoint"),
    { 0 },
};
static const PartForm text_parts = { (const char *const[]){ "text", NULL }, beside_text };

/* A message unchanged, except for its content, which becomes one text. Beside calls, null and none
 * are the same: SDKs leave null out. */
static bool read_message(Exchange *x, const JsonDoc *d, Place at, const JsonNode *m, TextOut *o)
{
    TextOut text = { 0 };
    bool    good = true;
    if (m->kind != NODE_OBJECT)
        return refuse_value(x, at.text, "an object", m);
    json_out(o, "{");
    JSON_NODES (j, m) {
        if (j->key_n != 7 || memcmp(j->key, "content", 7) != 0 || j->kind == NODE_NULL) {
            json_out_pair(o, d, j);
        } else {
            good = good && talk_text(x, place("%s.content", at.text), j, &text_parts, &text);
            json_out_member(o, "content", text.text, text.n);
        }
    }
    json_out(o, !node_get(m, "content") && node_get(m, "tool_calls") ? "content: null}" : "}");
    o->failed |= text.failed;
    text_out_free(&text);
    return good;
}

static bool read_messages(Exchange *x, const JsonDoc *d, const JsonNode *list, Talk *t)
{
    char found[NODE_TEXT];
    if (list->kind != NODE_ARRAY || !list->n)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "messages",
                      "messages: expected an array of at least one message, found %s",
                      node_text(list, found));
    size_t i = 0;
    JSON_NODES (j, list) {
        if (!read_message(x, d, place("messages[%zu]", i++), j, &t->messages))
            return false;
        text_out_bytes(&t->messages, "", 1);
    }
    t->n_messages = list->n;
    return true;
}

typedef struct ReplyFormat { const JsonNode *type, *json_schema, *schema; } ReplyFormat;
#define AT(field) offsetof(ReplyFormat, field)
static const Field format_fields[] = {
    FIELD("type", NODE, type, NULL),
    FIELD("json_schema", NODE, json_schema, NULL),
    FIELD("schema", NODE, schema, NULL), /* beside json_object: llama-server's */
    { 0 },
};
static const Field schema_fields[] = {
    FIELD("schema", NODE, schema, NULL),
    IGNORED("name"), IGNORED("description"), IGNORED("strict"),
    { 0 },
};
#undef AT

/* The schema that the reply must fit. */
static bool read_format(Exchange *x, const JsonDoc *d, const JsonNode *format, Talk *t)
{
    static const Field *const of_format[] = { format_fields, NULL },
                       *const of_schema[] = { schema_fields, NULL };
    char            found[NODE_TEXT];
    ReplyFormat     f = { 0 }, inner = { 0 };
    const JsonNode *type, *schema;
    t->schema_param = "response_format";
    if (format && format->kind == NODE_OBJECT
        && (!fields_read_at(x, "response_format", format, of_format, &f)
            || (f.json_schema && f.json_schema->kind == NODE_OBJECT
                && !fields_read_at(x, "response_format.json_schema", f.json_schema, of_schema,
                                   &inner))))
        return false;
    type   = f.type;
    schema = inner.schema;
    if (f.schema && !(type && node_is(type, "json_object")))
        return refuse_value(x, "response_format.schema", "none but beside type json_object",
                            f.schema);
    if (type && node_is(type, "json_object") && f.schema)
        json_out_node(&t->schema, d, f.schema);
    else if (type && node_is(type, "json_object"))
        json_out(&t->schema, "{type: object}");
    else if (type && node_is(type, "json_schema") && schema)
        json_out_node(&t->schema, d, schema);
    else if (format && !(type && node_is(type, "text")))
        return refuse(x, MHD_HTTP_BAD_REQUEST, "response_format",
                      "response_format: expected type text, json_object, or json_schema with its "
                      "json_schema.schema, found %s",
                      type ? node_text(type, found) : node_text(format, found));
    return true;
}

static bool check_request(Exchange *x, ChatRequest *r, ChatTalk *c)
{
    int64_t most = r->max_completion_tokens ? r->max_completion_tokens : r->max_tokens;
    if (r->top_logprobs >= 0 && !r->logprobs)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "top_logprobs",
                      "top_logprobs: expected logprobs to be true beside it");
    c->logprobs     = r->logprobs;
    r->s.max_tokens = (int)most; /* 0: as many as fit */
    r->s.top        = !r->logprobs ? -1 : r->top_logprobs > 0 ? (int)r->top_logprobs : 0;
    return settings_check(x, &r->s);
}

static bool read_request(Exchange *x, const JsonDoc *d, ChatRequest *r, ChatTalk *c)
{
    *r = chat_default;
    c->talk.param = "messages";
    return fields_read(x, d->node, chat_tables, r) && check_request(x, r, c)
        && read_messages(x, d, r->messages, &c->talk)
        && read_tools(x, d, r, &c->talk) && talk_args(x, d, r->args, r->effort, &c->talk)
        && read_format(x, d, r->format, &c->talk);
}

static bool chat(Exchange *x, const JsonDoc *d)
{
    ChatRequest r;
    Job        *j = talk_new(x, "chatcmpl-", &chat_form, sizeof(ChatTalk), talk_free);
    if (j && read_request(x, d, &r, j->request) && talk_job(x, &r.s, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool chat_handle(Exchange *x) { return with_body(x, chat); }

/* ---- /apply-template ------------------------------------------------------------------------- */

static bool apply_template(Exchange *x, const JsonDoc *d)
{
    ChatRequest r;
    ChatTalk   *c    = calloc(1, sizeof *c);
    Prompt      p    = { 0 };
    bool        good = (c || refuse_memory(x)) && read_request(x, d, &r, c)
        && talk_open(x, &c->talk) && talk_prompt(x, &c->talk, true, &p)
        && (!r.s.return_ids || talk_prompt(x, &c->talk, false, &p));
    if (good) {
        json_out(&x->answer, "{");
        json_out_member(&x->answer, "prompt", p.text, p.n_text);
        if (r.s.return_ids) {
            json_out(&x->answer, "token_ids:");
            ids_json(&x->answer, x->server, p.ids, p.n, true);
        }
        json_out(&x->answer, "}\n");
    }
    tblock_free(p.text);
    tblock_free(p.ids);
    talk_free(c);
    return good;
}

bool apply_template_handle(Exchange *x) { return with_body(x, apply_template); }
