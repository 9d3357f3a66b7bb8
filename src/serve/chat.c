/* serve/chat.c: /v1/chat/completions as OpenAI and vLLM define it, and /apply-template. The model's
 * own template writes the conversation, and answers come back as it means them: reasoning and calls
 * are fields (docs/chat.md, docs/serve.md). */
#include "serve/server.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

static const char whole_object[] = "chat.completion", piece_object[] = "chat.completion.chunk";

typedef struct ChatRequest {
    Settings        s;
    const JsonNode *messages, *tools, *tool_choice, *args, *effort, *format;
    int64_t         max_tokens, max_completion_tokens, top_logprobs;
    bool            logprobs, parallel;
} ChatRequest;

#define AT(field) offsetof(ChatRequest, field)
static const Field chat_fields[] = {
    { "messages",              FIELD_NODE, AT(messages),              0, 0, NULL },
    { "tools",                 FIELD_NODE, AT(tools),                 0, 0, NULL },
    { "tool_choice",           FIELD_NODE, AT(tool_choice),           0, 0, NULL },
    { "parallel_tool_calls",   FIELD_BOOL, AT(parallel),              0, 0, NULL },
    { "response_format",       FIELD_NODE, AT(format),                0, 0, NULL },
    { "max_tokens",            FIELD_INT,  AT(max_tokens),            1, 1 << 24, NULL },
    { "max_completion_tokens", FIELD_INT,  AT(max_completion_tokens), 1, 1 << 24, NULL },
    { "logprobs",              FIELD_BOOL, AT(logprobs),              0, 0, NULL },
    { "top_logprobs",          FIELD_INT,  AT(top_logprobs),          0, MOST_TOP, NULL },
    { "chat_template_kwargs",  FIELD_NODE, AT(args),                  0, 0, NULL },
    { "reasoning_effort",      FIELD_TEXT, AT(effort),                0, 0, NULL },
    { 0 },
};
#undef AT

/* One call of an answer. */
typedef struct Call { TextOut name, id, arguments; bool told; } Call;

/* What one choice says. */
typedef struct Said {
    tblock_answer *answer;
    TextOut        content, reasoning;
    Call          *call;
    size_t         n_calls, cap;
    bool           begun;
} Said;

typedef struct Chat {
    tblock_chat *chat;
    TextOut      args, tools; /* texts that the chat was made with */
    bool         logprobs;
    Said        *said;        /* [n] one for each choice */
    size_t       n;
} Chat;

static void chat_free(void *p)
{
    Chat *c = p;
    for (size_t i = 0; i < c->n; i++) {
        Said *s = &c->said[i];
        for (size_t k = 0; k < s->n_calls; k++) {
            text_out_free(&s->call[k].name);
            text_out_free(&s->call[k].id);
            text_out_free(&s->call[k].arguments);
        }
        tblock_answer_free(s->answer);
        text_out_free(&s->content);
        text_out_free(&s->reasoning);
        free(s->call);
    }
    free(c->said);
    tblock_chat_free(c->chat);
    text_out_free(&c->args);
    text_out_free(&c->tools);
    free(c);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void bytes_json(TextOut *o, const TextOut *text)
{
    text_out(o, ", \"bytes\": [");
    for (size_t i = 0; i < text->n; i++)
        text_out(o, "%s%d", i ? ", " : "", (unsigned char)text->text[i]);
    text_out(o, "]");
}

static void prob_json(TextOut *o, const Server *s, int32_t id, double log_prob)
{
    TextOut text = { 0 };
    text_out(o, "{\"token\": ");
    token_json(o, s, id);
    text_out(o, ", \"logprob\": ");
    number_json(o, log_prob);
    token_bytes(&text, s, id);
    bytes_json(o, &text);
    text_out_free(&text);
}

static void logprobs_json(const Choice *c, size_t first, size_t n)
{
    const Chat *r = c->job->request;
    TextOut    *o = &c->job->out;
    size_t      told = 0;
    if (!r->logprobs) {
        text_out(o, ", \"logprobs\": null");
        return;
    }
    text_out(o, ", \"logprobs\": {\"content\": [");
    for (const Token *t = c->token + first; t < c->token + first + n; t++) {
        if (t->ends)
            continue;
        text_out(o, told++ ? ", " : "");
        prob_json(o, c->job->server, t->id, t->log_prob);
        text_out(o, ", \"top_logprobs\": [");
        for (size_t i = 0; i < t->n_top; i++) {
            text_out(o, i ? ", " : "");
            prob_json(o, c->job->server, t->top[i].token, t->top[i].log_prob);
            text_out(o, "}");
        }
        text_out(o, "]}");
    }
    text_out(o, "]}");
}

static const char *reason_of(const Choice *c)
{
    const Chat *r      = c->job->request;
    const char *reason = finish_reason(c);
    return reason && strcmp(reason, "stop") == 0 && r->said[c->index].n_calls ? "tool_calls"
                                                                                : reason;
}

/* An event with one delta, which `delta` has written between braces. */
static void delta_event(Choice *c, const TextOut *delta, size_t first, size_t n, bool ended)
{
    Job        *j = c->job;
    TextOut    *o = &j->out;
    event_begin(j);
    head_json(j, piece_object);
    text_out(o, ", \"choices\": [{\"index\": %d, \"delta\": {", c->index);
    text_out_bytes(o, delta->text, delta->n);
    text_out(o, "}");
    logprobs_json(c, first, n);
    drawn_ids_json(c, first, n);
    text_out(o, ended ? ", \"finish_reason\": \"%s\"}]}" : ", \"finish_reason\": null}]}",
             reason_of(c));
    event_end(j);
    o->failed |= delta->failed;
}

static void call_head(TextOut *o, Call *c)
{
    char id[10];
    if (!c->id.n) { /* nine letters and digits, as some templates demand */
        random_id(id, sizeof id);
        text_out_bytes(&c->id, id, 9);
    }
    member_json(o, "id", c->id.text, c->id.n);
    text_out(o, ", \"type\": \"function\", \"function\": {");
    member_json(o, "name", c->name.text, c->name.n);
}

/* Tells of call k what is new. Its name waits until its id had a chance to come. */
static void call_delta(TextOut *o, Said *s, size_t k, const char *arguments, size_t n)
{
    Call *c = &s->call[k];
    text_out(o, "%s\"tool_calls\": [{\"index\": %zu", o->n ? ", " : "", k);
    if (!c->told)
        call_head(o, c);
    else
        text_out(o, ", \"function\": {");
    member_json(o, "arguments", arguments, n);
    text_out(o, "}}]");
    c->told = true;
}

/* ---- What answers say ------------------------------------------------------------------------ */

static bool keep_part(Said *s, const tblock_answer_part *p)
{
    TextOut *at = p->kind == TBLOCK_ANSWER_REASONING ? &s->reasoning : &s->content;
    if (p->kind == TBLOCK_ANSWER_CALL) {
        if (!ARRAY_ROOM(s->call, s->cap, s->n_calls + 1))
            return false;
        s->call[s->n_calls++] = (Call){ 0 };
    }
    if (p->kind >= TBLOCK_ANSWER_CALL) {
        Call *c = &s->call[s->n_calls - 1];
        at      = p->kind == TBLOCK_ANSWER_CALL      ? &c->name
                  : p->kind == TBLOCK_ANSWER_CALL_ID ? &c->id
                                                     : &c->arguments;
    }
    return text_out_bytes(at, p->text, p->n);
}

static void tell_part(Choice *c, Said *s, const tblock_answer_part *p)
{
    TextOut delta = { 0 };
    if (p->kind == TBLOCK_ANSWER_CONTENT)
        member_json(&delta, "content", p->text, p->n);
    else if (p->kind == TBLOCK_ANSWER_REASONING)
        member_json(&delta, "reasoning_content", p->text, p->n);
    else if (p->kind == TBLOCK_ANSWER_ARGUMENTS
             || (p->kind == TBLOCK_ANSWER_CALL_END && !s->call[s->n_calls - 1].told))
        call_delta(&delta, s, s->n_calls - 1, p->text, p->n);
    if (delta.n)
        delta_event(c, &delta, c->n_tokens, 0, false);
    text_out_free(&delta);
}

/* The next bytes of an answer, or NULL at its end. */
static void read_answer(Choice *c, const char *text, size_t n)
{
    Chat                     *r = c->job->request;
    Said                     *s = &r->said[c->index];
    const tblock_answer_part *part;
    size_t                    n_parts;
    if (!tblock_answer_put(s->answer, text, n, &part, &n_parts, NULL)) {
        c->job->out.failed = true;
        return;
    }
    for (size_t i = 0; i < n_parts; i++) {
        if (!keep_part(s, &part[i]))
            c->job->out.failed = true;
        else if (c->job->stream)
            tell_part(c, s, &part[i]);
    }
}

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    Chat   *r     = c->job->request;
    Said   *s     = &r->said[c->index];
    TextOut delta = { 0 };
    if (!s->begun) {
        text_out(&delta, "\"role\": \"assistant\", \"content\": \"\"");
        delta_event(c, &delta, first, 0, false);
        text_out_free(&delta);
        s->begun = true;
    }
    if (r->logprobs || c->job->return_ids) /* of what was drawn, whatever it says */
        delta_event(c, &delta, first, c->n_tokens - first, false);
    if (n)
        read_answer(c, text, n);
}

static void write_ended(Choice *c)
{
    TextOut none = { 0 };
    read_answer(c, NULL, 0);
    delta_event(c, &none, c->n_tokens, 0, true);
}

static void message_json(TextOut *o, Said *s)
{
    text_out(o, "{\"role\": \"assistant\", \"content\": ");
    if (!s->content.n && s->n_calls)
        text_out(o, "null");
    else
        json_out_string(o, s->content.n ? s->content.text : "", s->content.n);
    if (s->reasoning.n)
        member_json(o, "reasoning_content", s->reasoning.text, s->reasoning.n);
    for (size_t i = 0; i < s->n_calls; i++) {
        text_out(o, i ? ", {" : ", \"tool_calls\": [{");
        call_head(o, &s->call[i]);
        member_json(o, "arguments", s->call[i].arguments.n ? s->call[i].arguments.text : "",
               s->call[i].arguments.n);
        text_out(o, "}}");
    }
    text_out(o, s->n_calls ? "]}" : "}");
}

static void write_whole(Job *j)
{
    Chat    *r = j->request;
    TextOut *o = &j->out;
    if (j->stream) {
        end_stream(j, piece_object);
        return;
    }
    head_json(j, whole_object);
    text_out(o, ", \"choices\": [");
    for (size_t i = 0; i < j->n_choices; i++) {
        Choice *c = &j->choice[i];
        read_answer(c, c->text.n ? c->text.text : "", c->text.n);
        read_answer(c, NULL, 0);
        text_out(o, "%s{\"index\": %d, \"message\": ", i ? ", " : "", c->index);
        message_json(o, &r->said[i]);
        logprobs_json(c, 0, c->n_tokens);
        drawn_ids_json(c, 0, c->n_tokens);
        text_out(o, ", \"finish_reason\": \"%s\"}", reason_of(c));
    }
    text_out(o, "], ");
    usage_json(j);
    text_out(o, "}\n");
}

static const JobForm chat_form = { write_piece, write_ended, write_whole };

/* ---- Reading --------------------------------------------------------------------------------- */

/* tool_choice "none" hides the tools; what would force a call is not there. */
static bool read_tools(Exchange *x, const JsonDoc *d, const ChatRequest *r, TextOut *tools)
{
    char found[NODE_TEXT];
    if (!r->parallel)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "parallel_tool_calls",
                      "parallel_tool_calls: expected true, found false, which cannot be kept");
    if (r->tool_choice && !node_is(r->tool_choice, "auto") && !node_is(r->tool_choice, "none"))
        return refuse(x, MHD_HTTP_BAD_REQUEST, "tool_choice",
                      "tool_choice: expected auto or none, found %s",
                      node_text(r->tool_choice, found));
    if (!r->tools || !r->tools->n || (r->tool_choice && node_is(r->tool_choice, "none")))
        return true;
    if (r->tools->kind != NODE_ARRAY)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "tools", "tools: expected an array, found %s",
                      node_text(r->tools, found));
    json_out_node(tools, d, r->tools);
    text_out_bytes(tools, "", 1);
    return !tools->failed
        || refuse_memory(x);
}

/* More variables of the template. */
static bool read_args(Exchange *x, const JsonDoc *d, const ChatRequest *r, TextOut *args)
{
    char found[NODE_TEXT];
    bool any = false;
    if (r->args && r->args->kind != NODE_OBJECT)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "chat_template_kwargs",
                      "chat_template_kwargs: expected an object, found %s",
                      node_text(r->args, found));
    if (!r->args && !r->effort)
        return true;
    text_out(args, "{");
    JSON_NODES (j, r->args) {
        text_out(args, any ? ", " : "");
        json_out_string(args, j->key, j->key_n);
        text_out(args, ": ");
        json_out_node(args, d, j);
        any = true;
    }
    if (r->effort && !node_get(r->args, "reasoning_effort"))
        member_json(args, "reasoning_effort", r->effort->text, r->effort->n);
    text_out(args, "}");
    text_out_bytes(args, "", 1);
    return !args->failed || refuse_memory(x);
}

static bool open_chat(Exchange *x, const JsonDoc *d, const ChatRequest *r, Chat *c)
{
    tblock_error err;
    if (!read_tools(x, d, r, &c->tools) || !read_args(x, d, r, &c->args))
        return false;
    c->chat = tblock_chat_new(
        x->server->o->model,
        &(tblock_chat_options){ .format = x->server->o->chat_format,
                                .date   = x->server->o->date,
                                .args   = c->args.text,
                                .tools  = c->tools.text },
        &err);
    return c->chat || refuse_error(x, NULL, &err);
}

/* Each message whole, as JSON. */
static bool read_messages(Exchange *x, const JsonDoc *d, const JsonNode *list, TextOut *text,
                          tblock_chat_message **out)
{
    char   found[NODE_TEXT];
    size_t i = 0;
    if (!list || list->kind != NODE_ARRAY || !list->n)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "messages",
                      "messages: expected an array of at least one message, found %s",
                      list ? node_text(list, found) : "none");
    tblock_chat_message *m  = calloc(list->n, sizeof *m);
    size_t              *at = malloc(list->n * sizeof *at);
    JSON_NODES (j, list) {
        if (!at)
            break;
        at[i++] = text->n;
        json_out_node(text, d, j);
        text_out_bytes(text, "", 1);
    }
    const bool good = m && at && !text->failed;
    for (size_t k = 0; good && k < i; k++)
        m[k].json = text->text + at[k];
    free(at);
    if (!good)
        free(m);
    *out = good ? m : NULL;
    return good || refuse_memory(x);
}

static bool render(Exchange *x, const JsonDoc *d, const ChatRequest *r, const Chat *c, Prompt *p)
{
    TextOut              text = { 0 };
    tblock_chat_message *m    = NULL;
    tblock_error         err;
    const int            n_ctx = x->server->computing.n_ctx;
    bool good = read_messages(x, d, r->messages, &text, &m)
        && (tblock_chat_render(c->chat, m, r->messages->n, true, &p->ids, &p->n, &err)
            || refuse_error(x, "messages", &err));
    free(m);
    text_out_free(&text);
    return good
        && (p->n <= (size_t)n_ctx
            || refuse(x, MHD_HTTP_BAD_REQUEST, "messages",
                      "messages: expected at most the %d tokens of the context, found %zu", n_ctx,
                      p->n));
}

/* What the text must fit. Its texts end where they fit, so the template's stop texts do nothing. */
static bool read_format(Exchange *x, const JsonDoc *d, const JsonNode *format, Job *j)
{
    static const char any_object[] = "{\"type\": \"object\"}";
    char              found[NODE_TEXT];
    tblock_error      err;
    TextOut           text = { 0 };
    const JsonNode   *type = format ? node_get(format, "type") : NULL, *schema;
    if (!format || node_is(type, "text"))
        return true;
    schema = node_get(node_get(format, "json_schema"), "schema");
    if (node_is(type, "json_object"))
        text_out(&text, "%s", any_object);
    else if (node_is(type, "json_schema") && schema)
        json_out_node(&text, d, schema);
    else
        return refuse(x, MHD_HTTP_BAD_REQUEST, "response_format",
                      "response_format: expected type text, json_object, or json_schema with its "
                      "json_schema.schema, found %s",
                      type ? node_text(type, found) : node_text(format, found));
    if (text.failed)
        return refuse_memory(x);
    j->constraint = tblock_constraint_new(x->server->o->model, TBLOCK_JSON_SCHEMA, text.text,
                                          text.n, "response_format", &err);
    text_out_free(&text);
    return j->constraint || refuse_error(x, "response_format", &err);
}

/* The template's ends of an answer, beside those that the request has. */
static bool add_stops(Exchange *x, const Chat *c, Job *j)
{
    tblock_chat_info i;
    tblock_chat_describe(c->chat, &i);
    const size_t n = j->options.n_stop_texts;
    j->stop_ids    = malloc((i.n_stop_ids + 1) * sizeof *j->stop_ids);
    char **texts   = realloc(j->stop_texts, (n + i.n_stop_texts + 1) * sizeof *texts);
    j->stop_texts  = texts ? texts : j->stop_texts;
    if (!j->stop_ids || !texts)
        return refuse_memory(x);
    if (i.n_stop_ids)
        memcpy(j->stop_ids, i.stop_ids, i.n_stop_ids * sizeof *j->stop_ids);
    j->options.stop_ids   = j->stop_ids;
    j->options.n_stop_ids = i.n_stop_ids;
    j->options.stop_texts = (const char *const *)texts;
    j->options.constraint = j->constraint;
    j->options.skip       = i.answer_prefix;
    if (j->constraint)
        return !n || refuse(x, MHD_HTTP_BAD_REQUEST, "stop",
                            "stop: expected none beside response_format, which says where the "
                            "text ends");
    for (size_t k = 0; k < i.n_stop_texts; k++) {
        texts[n + k] = strdup(i.stop_texts[k]);
        if (!texts[n + k])
            return refuse_memory(x);
        j->options.n_stop_texts++;
    }
    return true;
}

static bool open_answers(Exchange *x, Chat *c, const Job *j)
{
    tblock_error err;
    c->said = calloc(j->n_choices, sizeof *c->said);
    for (size_t i = 0; c->said && i < j->n_choices; i++, c->n++)
        if (!(c->said[i].answer = tblock_answer_new(c->chat, &err)))
            return refuse_error(x, NULL, &err);
    return c->said || refuse_memory(x);
}

static bool check_request(Exchange *x, ChatRequest *r)
{
    int64_t most = r->max_completion_tokens ? r->max_completion_tokens : r->max_tokens;
    if (r->top_logprobs >= 0 && !r->logprobs)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "top_logprobs",
                      "top_logprobs: expected logprobs to be true beside it");
    r->s.max_tokens = (int)most; /* 0: as many as fit */
    r->s.top        = !r->logprobs ? -1 : r->top_logprobs > 0 ? (int)r->top_logprobs : 0;
    return settings_check(x, &r->s);
}

static bool fill_job(Exchange *x, const JsonDoc *d, const ChatRequest *r, Job *j)
{
    Chat *c         = calloc(1, sizeof *c);
    j->request      = c;
    j->free_request = chat_free;
    if (!c) {
        j->free_request = NULL;
        return refuse_memory(x);
    }
    c->logprobs   = r->logprobs;
    return job_choices(j, 1, (size_t)r->s.n) && open_chat(x, d, r, c)
        && render(x, d, r, c, &j->prompt[0]) && settings_apply(x, &r->s, j)
        && read_format(x, d, r->format, j) && add_stops(x, c, j) && open_answers(x, c, j);
}

static bool read_request(Exchange *x, const JsonDoc *d, ChatRequest *r)
{
    *r = (ChatRequest){ .s = settings_default(), .top_logprobs = -1, .parallel = true };
    return fields_read(x, d->node, (const Field *const[]){ chat_fields, settings_fields, NULL }, r)
        && check_request(x, r);
}

static bool chat(Exchange *x, const JsonDoc *d)
{
    ChatRequest r;
    if (!read_request(x, d, &r))
        return false;
    Job *j = job_new(x, "chatcmpl-", &chat_form);
    if (j && fill_job(x, d, &r, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool chat_handle(Exchange *x) { return with_body(x, chat); }

/* ---- /apply-template ------------------------------------------------------------------------- */

static bool apply_template(Exchange *x, const JsonDoc *d)
{
    ChatRequest          r;
    Chat                *c    = calloc(1, sizeof *c);
    TextOut              text = { 0 };
    tblock_chat_message *m    = NULL;
    char                *prompt;
    size_t               n;
    tblock_error         err;
    if (!c)
        return refuse_memory(x);
    bool good = read_request(x, d, &r) && open_chat(x, d, &r, c)
        && read_messages(x, d, r.messages, &text, &m)
        && (tblock_chat_text(c->chat, m, r.messages->n, true, &prompt, &n, &err)
            || refuse_error(x, "messages", &err));
    if (good) {
        text_out(&x->answer, "{");
        member_json(&x->answer, "prompt", prompt, n);
        text_out(&x->answer, "}\n");
        tblock_free(prompt);
    }
    free(m);
    text_out_free(&text);
    chat_free(c);
    return good;
}

bool apply_template_handle(Exchange *x) { return with_body(x, apply_template); }
