/* serve/messages.c: the form of /v1/messages and its count_tokens, as Anthropic defines it
 * (docs/serve.md). message_input.c translates requests; this file writes replies, as blocks. */
#include "serve/server.h"

#include <stdlib.h>

#include "serve/messages.h"

void messages_error(TextOut *o, const char *request_id, int status, const char *param,
                    const char *message)
{
    (void)param; /* the message begins with it */
    json_out(o, "{type: error, error: {type: %s, message: %s}, request_id: %s}\n",
             status == MHD_HTTP_UNAUTHORIZED          ? "authentication_error"
             : status == MHD_HTTP_FORBIDDEN           ? "permission_error"
             : status == MHD_HTTP_NOT_FOUND           ? "not_found_error"
             : status == MHD_HTTP_CONTENT_TOO_LARGE   ? "request_too_large"
             : status == MHD_HTTP_TOO_MANY_REQUESTS   ? "rate_limit_error"
             : status == MHD_HTTP_SERVICE_UNAVAILABLE ? "overloaded_error"
             : status >= 500                          ? "api_error"
                                                      : "invalid_request_error",
             message, request_id);
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
    json_out(&j->out, "{type: %s", type);
}

static void end_event(Job *j)
{
    json_out(&j->out, "}");
    event_end(j);
}

/* To where its content begins. */
static void message_head(Job *j)
{
    json_out(&j->out, "{id: %s, type: message, role: assistant", j->id);
    model_member(&j->out, j->server, j->adapter);
    json_out(&j->out, "seed: %llu, content: [", (unsigned long long)j->choice[0].seed);
}

static void stop_json(TextOut *o, const Choice *c)
{
    const Messages *r     = c->job->request;
    const bool      given = c->end == TBLOCK_END_TEXT && (size_t)c->stop < r->n_stops;
    json_out(o, "stop_reason: %s, stop_sequence: %s",
             !finish_reason(c)              ? NULL
             : given                        ? "stop_sequence"
             : c->end == TBLOCK_END_LENGTH  ? "max_tokens"
             : c->end == TBLOCK_END_CONTEXT ? "model_context_window_exceeded"
             : reply_said(c).n_calls        ? "tool_use"
                                            : "end_turn",
             given ? c->job->stop_texts[c->stop] : NULL);
}

/* Cached tokens are counted separately. */
static void message_usage(TextOut *o, const Choice *c, size_t n_sampled)
{
    json_out(o, "usage: {input_tokens: %zu, cache_creation_input_tokens: 0, "
                "cache_read_input_tokens: %zu, output_tokens: %zu}",
             c->prompt->n - c->n_cached, c->n_cached, n_sampled);
}

/* ---- Blocks: events of a stream, or items of the content ------------------------------------- */

/* The arguments of a call, which are an object unless the reply was cut within them. */
static void input_json(TextOut *o, const tblock_answer_call_info *call)
{
    JsonDoc d = { 0 };
    if (json_doc_read(&d, call->n_arguments ? call->arguments : "", call->n_arguments, JSON_FINITE,
                      "", NULL)
        && d.node->kind == NODE_OBJECT) {
        json_out_node(o, &d, d.node);
    } else {
        json_out(o, "{}");
        if (call->n_arguments)
            json_out_member(o, "partial_json", call->arguments, call->n_arguments);
    }
    json_doc_free(&d);
}

/* begins: as it is before it has content. */
static void block_json(const Choice *c, const Item *i, bool begins)
{
    TextOut                 *o    = &c->job->out;
    const tblock_answer_info said = reply_said(c);
    TalkCall                 call;
    if (i->kind == TBLOCK_ANSWER_CONTENT) {
        json_out(o, "{type: text");
        json_out_member(o, "text", said.content + i->from, begins ? 0 : i->n);
    } else if (i->kind == TBLOCK_ANSWER_REASONING) {
        json_out(o, "{type: thinking");
        json_out_member(o, "thinking", said.reasoning + i->from, begins ? 0 : i->n);
        json_out(o, "signature: ''");
    } else {
        reply_call(c, i->call, &call);
        json_out(o, "{type: tool_use");
        json_out_member(o, "id", call.said.id, call.said.n_id);
        json_out_member(o, "name", call.said.name, call.said.n_name);
        json_out(o, begins ? "input: {}" : "input:");
        if (!begins)
            input_json(o, &call.said);
    }
    json_out(o, "}");
}

static void block_begins(Choice *c, Item *i)
{
    if (!c->job->stream)
        return;
    begin_event(c->job, "content_block_start");
    json_out(&c->job->out, "index: %zu, content_block:", i->index);
    block_json(c, i, true);
    end_event(c->job);
}

static void block_grows(Choice *c, Item *i, const char *text, size_t n)
{
    static const char *const word[][2] = {
        [TBLOCK_ANSWER_CONTENT]   = { "text_delta", "text" },
        [TBLOCK_ANSWER_REASONING] = { "thinking_delta", "thinking" },
        [TBLOCK_ANSWER_CALL]      = { "input_json_delta", "partial_json" },
    };
    if (!c->job->stream || !n)
        return;
    begin_event(c->job, "content_block_delta");
    json_out(&c->job->out, "index: %zu, delta: {type: %s", i->index, word[i->kind][0]);
    json_out_member(&c->job->out, word[i->kind][1], text, n);
    json_out(&c->job->out, "}");
    end_event(c->job);
}

static void block_ends(Choice *c, Item *i)
{
    if (!c->job->stream)
        return;
    begin_event(c->job, "content_block_stop");
    json_out(&c->job->out, "index: %zu", i->index);
    end_event(c->job);
}

static const ItemForm blocks = { block_begins, block_grows, block_ends };

/* ---- Replies --------------------------------------------------------------------------------- */

static void begin_stream(Choice *c)
{
    Reply *r = reply_of(c);
    if (r->begun)
        return;
    r->begun = true;
    begin_event(c->job, "message_start");
    json_out(&c->job->out, "message:");
    message_head(c->job);
    json_out(&c->job->out, "], stop_reason: null, stop_sequence: null");
    message_usage(&c->job->out, c, 0);
    json_out(&c->job->out, "}");
    end_event(c->job);
}

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    begin_stream(c);
    if (c->job->return_ids) { /* of the sampled tokens, whatever they say */
        begin_event(c->job, "ping");
        sampled_ids_json(c, first, c->n_tokens - first);
        end_event(c->job);
    }
    if (n)
        reply_put(c, text, n, &blocks);
}

static void write_ended(Choice *c)
{
    TextOut *o = &c->job->out;
    begin_stream(c);
    reply_put(c, NULL, 0, &blocks);
    reply_end(c, false, &blocks);
    begin_event(c->job, "message_delta");
    json_out(o, "delta: {");
    stop_json(o, c);
    json_out(o, "}");
    message_usage(o, c, c->n_sampled);
    end_event(c->job);
    begin_event(c->job, "message_stop");
    receipt_json(c);
    end_event(c->job);
}

static void write_whole(Job *j)
{
    Choice *c = &j->choice[0];
    if (j->stream)
        return; /* all is emitted */
    message_head(j);
    if (c->text.n)
        reply_put(c, c->text.text, c->text.n, &blocks);
    reply_put(c, NULL, 0, &blocks);
    for (size_t i = 0; i < reply_of(c)->n_items; i++)
        block_json(c, &reply_of(c)->item[i], false);
    json_out(&j->out, "]");
    stop_json(&j->out, c);
    message_usage(&j->out, c, c->n_sampled);
    sampled_ids_json(c, 0, c->n_tokens);
    receipt_json(c);
    json_out(&j->out, "}\n");
}

static const JobForm messages_form = { write_piece, write_ended, write_whole, messages_failed,
                                       false };

/* ---- The two paths --------------------------------------------------------------------------- */

static bool messages(Exchange *x, const JsonDoc *d)
{
    Settings s;
    Job     *j = talk_new(x, "msg_", &messages_form, sizeof(Messages), talk_free);
    if (j && messages_read(x, d, true, &s, j->request) && talk_job(x, &s, j) && job_submit(x, j))
        return true;
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
        json_out(&x->answer, "{input_tokens: %zu}\n", p.n);
    tblock_free(p.ids);
    talk_free(r);
    return good;
}

bool count_tokens_handle(Exchange *x) { return with_body(x, count_tokens); }
