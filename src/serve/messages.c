/* serve/messages.c: the form of /v1/messages and its count_tokens, as Anthropic defines it
 * (docs/serve.md). message_input.c translates requests; this file writes replies, as blocks. */
#include "serve/server.h"

#include <stdlib.h>

#include "serve/messages.h"

void messages_error(TextOut *o, const char *request_id, int status, const char *param,
                    const char *message)
{
    (void)param; /* the message begins with it */
    text_out(o, "{\"type\": \"error\", \"error\": {\"type\": \"%s\", \"message\": ",
             status == MHD_HTTP_UNAUTHORIZED          ? "authentication_error"
             : status == MHD_HTTP_FORBIDDEN           ? "permission_error"
             : status == MHD_HTTP_NOT_FOUND           ? "not_found_error"
             : status == MHD_HTTP_CONTENT_TOO_LARGE   ? "request_too_large"
             : status == MHD_HTTP_TOO_MANY_REQUESTS   ? "rate_limit_error"
             : status == MHD_HTTP_SERVICE_UNAVAILABLE ? "overloaded_error"
             : status >= 500                          ? "api_error"
                                                      : "invalid_request_error");
    json_out_string(o, message, strlen(message));
    text_out(o, "}, \"request_id\": \"%s\"}\n", request_id);
}

static void messages_failed(Job *j, int status)
{
    if (j->stream)
        event_begin(j, "error");
    messages_error(&j->out, j->exchange ? j->exchange->id : "", status, NULL, j->why);
    if (j->stream)
        event_end(j);
}

/* ---- The message ----------------------------------------------------------------------------- */

static void begin_event(Job *j, const char *type)
{
    event_begin(j, type);
    text_out(&j->out, "{\"type\": \"%s\"", type);
}

/* To where its content begins. */
static void message_head(Job *j)
{
    TextOut *o = &j->out;
    text_out(o, "{\"id\": \"%s\", \"type\": \"message\", \"role\": \"assistant\"", j->id);
    model_member(o, j->server, j->adapter);
    text_out(o, ", \"seed\": %llu, \"content\": [", (unsigned long long)j->choice[0].seed);
}

static void stop_json(TextOut *o, const Choice *c)
{
    const Messages    *r      = c->job->request;
    const bool         given  = c->end == TBLOCK_END_TEXT && (size_t)c->stop < r->n_stops;
    const char        *reason = finish_reason(c);
    tblock_answer_info said;
    tblock_answer_describe(talk_said(c)->answer, &said);
    if (reason)
        text_out(o, "\"stop_reason\": \"%s\"",
                 given                             ? "stop_sequence"
                 : c->end == TBLOCK_END_LENGTH     ? "max_tokens"
                 : c->end == TBLOCK_END_CONTEXT    ? "model_context_window_exceeded"
                 : said.n_calls                    ? "tool_use"
                                                   : "end_turn");
    else
        text_out(o, "\"stop_reason\": null");
    text_out(o, ", \"stop_sequence\": ");
    if (given)
        json_out_string(o, c->job->stop_texts[c->stop], strlen(c->job->stop_texts[c->stop]));
    else
        text_out(o, "null");
}

/* Cached tokens are counted separately. */
static void message_usage(TextOut *o, const Choice *c, size_t n_sampled)
{
    text_out(o, ", \"usage\": {\"input_tokens\": %zu, \"cache_creation_input_tokens\": 0, "
                "\"cache_read_input_tokens\": %zu, \"output_tokens\": %zu}",
             c->prompt->n - c->n_cached, c->n_cached, n_sampled);
}

/* ---- Blocks: events of a stream, or items of the content ------------------------------------- */

static void tool_head(TextOut *o, const Choice *c, size_t call)
{
    TalkCall k;
    talk_call(c, call, &k);
    member_json(o, "type", "tool_use", 8);
    member_json(o, "id", k.said.id, k.said.n_id);
    member_json(o, "name", k.said.name, k.said.n_name);
    text_out(o, ", \"input\": ");
}

/* Emit the start of a block, unless it was emitted. That of a call waits, since its id may
 * follow. */
static void block_begin(Choice *c)
{
    Messages *r = c->job->request;
    TextOut  *o = &c->job->out;
    if (r->begun || !c->job->stream)
        return;
    r->begun = true;
    begin_event(c->job, "content_block_start");
    text_out(o, ", \"index\": %zu, \"content_block\": {", r->n_blocks);
    if (r->open == TBLOCK_ANSWER_CONTENT)
        text_out(o, "\"type\": \"text\", \"text\": \"\"");
    else if (r->open == TBLOCK_ANSWER_REASONING)
        text_out(o, "\"type\": \"thinking\", \"thinking\": \"\", \"signature\": \"\"");
    else
        tool_head(o, c, r->call), text_out(o, "{}");
    text_out(o, "}}");
    event_end(c->job);
}

static void block_add(Choice *c, const char *text, size_t n)
{
    Messages *r = c->job->request;
    TextOut  *o = &c->job->out;
    if (!c->job->stream) {
        text_out_bytes(&r->text, text, n);
        return;
    }
    block_begin(c);
    begin_event(c->job, "content_block_delta");
    text_out(o, ", \"index\": %zu, \"delta\": {", r->n_blocks);
    text_out(o, r->open == TBLOCK_ANSWER_CONTENT     ? "\"type\": \"text_delta\""
                : r->open == TBLOCK_ANSWER_REASONING ? "\"type\": \"thinking_delta\""
                                                     : "\"type\": \"input_json_delta\"");
    member_json(o,
                r->open == TBLOCK_ANSWER_CONTENT     ? "text"
                : r->open == TBLOCK_ANSWER_REASONING ? "thinking"
                                                     : "partial_json",
                text, n);
    text_out(o, "}}");
    event_end(c->job);
}

/* The arguments of a call, which are an object unless the reply was cut within them. */
static void input_json(TextOut *o, const TextOut *arguments)
{
    JsonDoc d = { 0 };
    if (json_doc_read(&d, arguments->text ? arguments->text : "", arguments->n, JSON_FINITE, "",
                      NULL)
        && d.node->kind == NODE_OBJECT) {
        json_out_node(o, &d, d.node);
    } else {
        text_out(o, "{}");
        if (arguments->n)
            member_json(o, "partial_json", arguments->text, arguments->n);
    }
    json_doc_free(&d);
}

static void block_json(const Choice *c, Messages *r)
{
    TextOut    *o    = &c->job->out;
    const char *text = r->text.text ? r->text.text : "";
    text_out(o, r->n_blocks ? ", {" : "{");
    if (r->open == TBLOCK_ANSWER_CONTENT) {
        member_json(o, "type", "text", 4);
        member_json(o, "text", text, r->text.n);
    } else if (r->open == TBLOCK_ANSWER_REASONING) {
        member_json(o, "type", "thinking", 8);
        member_json(o, "thinking", text, r->text.n);
        text_out(o, ", \"signature\": \"\"");
    } else {
        tool_head(o, c, r->call);
        input_json(o, &r->text);
    }
    text_out(o, "}");
    o->failed |= r->text.failed;
    text_out_free(&r->text);
}

static void block_end(Choice *c)
{
    Messages *r = c->job->request;
    if (r->open == NO_BLOCK)
        return;
    block_begin(c);
    if (c->job->stream) {
        begin_event(c->job, "content_block_stop");
        text_out(&c->job->out, ", \"index\": %zu}", r->n_blocks);
        event_end(c->job);
    } else {
        block_json(c, r);
    }
    r->open  = NO_BLOCK;
    r->begun = false;
    r->n_blocks++;
}

/* Emits the next bytes of the reply, or NULL at its end. */
static void tell(Choice *c, const char *text, size_t n)
{
    Messages                 *r = c->job->request;
    size_t                    n_parts;
    const tblock_answer_part *part = talk_put(c, text, n, &n_parts);
    for (size_t i = 0; i < n_parts; i++) {
        const tblock_answer_part *p    = &part[i];
        const int kind = p->kind < TBLOCK_ANSWER_CALL ? p->kind : TBLOCK_ANSWER_CALL;
        if (p->kind == TBLOCK_ANSWER_CALL || kind != r->open) {
            block_end(c);
            r->open = kind;
            r->call = (size_t)p->call;
        }
        if (p->kind == TBLOCK_ANSWER_CALL_END)
            block_end(c);
        else if (p->n && (kind != TBLOCK_ANSWER_CALL || p->kind == TBLOCK_ANSWER_ARGUMENTS))
            block_add(c, p->text, p->n);
    }
    if (!text)
        block_end(c);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void begin_stream(Choice *c)
{
    ChoiceAnswer *s = talk_said(c);
    if (s->begun)
        return;
    s->begun = true;
    begin_event(c->job, "message_start");
    text_out(&c->job->out, ", \"message\": ");
    message_head(c->job);
    text_out(&c->job->out, "], \"stop_reason\": null, \"stop_sequence\": null");
    message_usage(&c->job->out, c, 0);
    text_out(&c->job->out, "}}");
    event_end(c->job);
}

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    begin_stream(c);
    if (c->job->return_ids) { /* of the sampled tokens, whatever they say */
        begin_event(c->job, "ping");
        sampled_ids_json(c, first, c->n_tokens - first);
        text_out(&c->job->out, "}");
        event_end(c->job);
    }
    if (n)
        tell(c, text, n);
}

static void write_ended(Choice *c)
{
    TextOut *o = &c->job->out;
    begin_stream(c);
    tell(c, NULL, 0);
    begin_event(c->job, "message_delta");
    text_out(o, ", \"delta\": {");
    stop_json(o, c);
    text_out(o, "}");
    message_usage(o, c, c->n_sampled);
    text_out(o, "}");
    event_end(c->job);
    begin_event(c->job, "message_stop");
    receipt_json(c);
    text_out(o, "}");
    event_end(c->job);
}

static void write_whole(Job *j)
{
    Choice *c = &j->choice[0];
    if (j->stream)
        return; /* all is emitted */
    message_head(j);
    if (c->text.n)
        tell(c, c->text.text, c->text.n);
    tell(c, NULL, 0);
    text_out(&j->out, "], ");
    stop_json(&j->out, c);
    message_usage(&j->out, c, c->n_sampled);
    sampled_ids_json(c, 0, c->n_tokens);
    receipt_json(c);
    text_out(&j->out, "}\n");
}

static const JobForm messages_form = { write_piece, write_ended, write_whole, messages_failed,
                                       false };

static void messages_free(void *p)
{
    Messages *r = p;
    if (r)
        text_out_free(&r->text);
    talk_free(r);
}

/* ---- The two paths --------------------------------------------------------------------------- */

static bool messages(Exchange *x, const JsonDoc *d)
{
    Settings s;
    Job     *j = job_new(x, "msg_", &messages_form);
    if (!j)
        return false;
    Messages *r     = calloc(1, sizeof *r);
    j->request      = r;
    j->free_request = messages_free;
    if (r && messages_read(x, d, true, &s, r) && talk_job(x, &s, j) && job_submit(x, j))
        return true;
    if (!r)
        refuse_memory(x);
    job_free(j);
    return false;
}

bool messages_handle(Exchange *x) { return with_body(x, messages); }

static bool count_tokens(Exchange *x, const JsonDoc *d)
{
    Settings  s;
    Prompt    p    = { 0 };
    Messages *r    = calloc(1, sizeof *r);
    bool      good = r ? messages_read(x, d, false, &s, r) && talk_prompt(x, &r->talk, false, &p)
                       : refuse_memory(x);
    if (good)
        text_out(&x->answer, "{\"input_tokens\": %zu}\n", p.n);
    tblock_free(p.ids);
    messages_free(r);
    return good;
}

bool count_tokens_handle(Exchange *x) { return with_body(x, count_tokens); }
