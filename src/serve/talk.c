/* serve/talk.c: chat requests of all endpoints: the model's own template renders the prompt,
 * defines the end of a reply, and separates reasoning and tool calls from content
 * (docs/chat.md). */
#include "serve/server.h"

#include <stdlib.h>

void talk_free(void *p)
{
    Talk *t = p;
    if (!t)
        return;
    for (size_t i = 0; i < t->n; i++)
        reply_free(&t->reply[i]);
    free(t->reply);
    tblock_chat_free(t->own);
    text_out_free(&t->messages);
    text_out_free(&t->tools);
    text_out_free(&t->args);
    text_out_free(&t->schema);
    free(t);
}

Job *talk_new(Exchange *x, const char *prefix, const JobForm *form, size_t n,
              void (*free_request)(void *request))
{
    Job *j = job_new(x, prefix, form);
    if (!j)
        return NULL;
    j->request      = calloc(1, n);
    j->free_request = free_request;
    if (j->request)
        return j;
    refuse_memory(x);
    job_free(j);
    return NULL;
}

/* ---- The request ----------------------------------------------------------------------------- */

tblock_chat *talk_chat(const Server *s, const Talk *t, tblock_error *err)
{
    return tblock_chat_new(s->o->model,
                           &(tblock_chat_options){ .format = s->o->chat_format,
                                                   .date   = s->o->date,
                                                   .args   = t ? t->args.text : NULL,
                                                   .tools  = t ? t->tools.text : NULL },
                           err);
}

typedef struct ContentPart { const JsonNode *type, *text; } ContentPart;
#define AT(field) offsetof(ContentPart, field)
static const Field part_fields[] = {
    FIELD("type", TEXT | FIELD_REQUIRED, type, NULL),
    FIELD("text", TEXT | FIELD_REQUIRED, text, NULL),
    { 0 },
};
#undef AT

const JsonNode *talk_part(Exchange *x, Place at, const JsonNode *part, const PartForm *form)
{
    ContentPart        p     = { 0 };
    Place              names = { "" };
    const JsonNode    *type  = node_get(part, "type");
    const Field *const tables[] = { part_fields, form->more, NULL };
    bool               known = false;
    for (const char *const *t = form->types; *t; t++) {
        names = place("%s%s%s", names.text, *names.text ? " or " : "", *t);
        known |= node_is(type, *t);
    }
    if (!known) {
        refuse_value(x, place("%s.type", at.text).text, names.text, type);
        return NULL;
    }
    return fields_read_at(x, at.text, part, tables, &p) ? p.text : NULL;
}

bool talk_text(Exchange *x, Place at, const JsonNode *content, const PartForm *form, TextOut *o)
{
    size_t i = 0;
    if (content->kind == NODE_STRING) {
        text_out_bytes(o, content->text, content->n);
        return true;
    }
    if (content->kind != NODE_ARRAY)
        return refuse_value(x, at.text, "a text or an array of its parts", content);
    JSON_NODES (j, content) {
        const JsonNode *part = talk_part(x, place("%s[%zu]", at.text, i++), j, form);
        if (!part)
            return false;
        text_out_bytes(o, part->text, part->n);
    }
    return true;
}

void talk_tool(TextOut *o, const JsonDoc *d, const JsonNode *name, const JsonNode *description,
               const JsonNode *parameters)
{
    json_out(o, "{type: function, function: {");
    json_out_member(o, "name", name->text, name->n);
    if (description)
        json_out_member(o, "description", description->text, description->n);
    if (parameters)
        json_out(o, "parameters:"), json_out_node(o, d, parameters);
    json_out(o, "}}");
}

void turn_begin(Turn *turn, Talk *t, const char *role)
{
    if (turn->role && strcmp(turn->role, role) != 0)
        turn_end(turn, t);
    turn->role = role;
}

void turn_call(Turn *turn, const JsonDoc *d, const JsonNode *id, const JsonNode *name,
               const JsonNode *arguments)
{
    TextOut *o = &turn->calls;
    json_out(o, "{");
    json_out_member(o, "id", id->text, id->n);
    json_out(o, "type: function, function: {");
    json_out_member(o, "name", name->text, name->n);
    json_out(o, "arguments:");
    json_out_node(o, d, arguments);
    json_out(o, "}}");
}

void turn_end(Turn *turn, Talk *t)
{
    TextOut *o = &t->messages;
    if (turn->role) {
        json_out(o, "{role: %s", turn->role);
        if (turn->text.n || !turn->calls.n) /* templates test for null beside calls */
            json_out_member(o, "content", turn->text.text, turn->text.n);
        else
            json_out(o, "content: null");
        if (turn->reasoning.n)
            json_out_member(o, "reasoning_content", turn->reasoning.text, turn->reasoning.n);
        if (turn->calls.n) {
            json_out(o, "tool_calls: [");
            text_out_bytes(o, turn->calls.text, turn->calls.n);
            json_out(o, "]");
        }
        if (turn->call_id)
            json_out_member(o, "tool_call_id", turn->call_id->text, turn->call_id->n);
        if (turn->name)
            json_out_member(o, "name", turn->name->text, turn->name->n);
        json_out(o, turn->is_error ? "is_error: true}" : "}");
        text_out_bytes(o, "", 1);
        t->n_messages++;
    }
    o->failed |= turn->text.failed || turn->reasoning.failed || turn->calls.failed;
    text_out_free(&turn->text);
    text_out_free(&turn->reasoning);
    text_out_free(&turn->calls);
    *turn = (Turn){ 0 };
}

bool talk_args(Exchange *x, const JsonDoc *d, const JsonNode *args, const JsonNode *effort, Talk *t)
{
    TextOut *o = &t->args;
    char     found[NODE_TEXT];
    if (args && args->kind != NODE_OBJECT)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "chat_template_kwargs",
                      "chat_template_kwargs: expected an object, found %s", node_text(args, found));
    if (!args && !effort)
        return true;
    json_out(o, "{");
    JSON_NODES (j, args)
        json_out_pair(o, d, j);
    if (effort && !node_get(args, "reasoning_effort"))
        json_out_member(o, "reasoning_effort", effort->text, effort->n);
    json_out(o, "}");
    text_out_bytes(o, "", 1);
    return true;
}

bool talk_open(Exchange *x, Talk *t)
{
    tblock_error err;
    if (t->chat)
        return true;
    if (t->messages.failed || t->tools.failed || t->args.failed || t->schema.failed)
        return refuse_memory(x);
    if (!t->tools.n && !t->args.n)
        t->chat = x->server->chat;
    if (!t->chat)
        t->chat = t->own = talk_chat(x->server, t, &err);
    return t->chat || refuse_error(x, NULL, &err);
}

/* How to write the arguments of calls: as the form needs them. left: how many values the strings
 * among them may still have, which the body's do not count. */
typedef struct Fitter { tblock_answer_form form; size_t left; bool over; } Fitter;

/* Arguments in JSON: an object, or a string of JSON. */
static void out_arguments(TextOut *o, const JsonDoc *d, const JsonNode *j, Fitter *fitter)
{
    const tblock_answer_form *form  = &fitter->form;
    JsonDoc                   inner = { 0 };
    TextOut                   text  = { 0 };
    if (form->text_arguments && j->kind == NODE_OBJECT) {
        json_out_node(&text, d, j);
        json_out_string(o, text.text ? text.text : "", text.n);
        o->failed |= text.failed;
    } else if (form->object_arguments && j->kind == NODE_STRING
               && json_doc_read_within(&inner, j->text, j->n, JSON_NO_NUL | JSON_FINITE,
                                       fitter->left, "", NULL)
               && inner.node->kind == NODE_OBJECT) {
        json_out_node(o, &inner, inner.node);
        fitter->left -= inner.n_nodes;
    } else {
        /* n bytes have at most (n + 1) / 2 values */
        fitter->over |=
            form->object_arguments && j->kind == NODE_STRING && j->n / 2 >= fitter->left;
        json_out_node(o, d, j);
    }
    json_doc_free(&inner);
    text_out_free(&text);
}

/* A value with the arguments that path leads to, through any arrays, as the form needs them. */
static void out_fitted(TextOut *o, const JsonDoc *d, const JsonNode *j, const char *const *path,
                       Fitter *fitter)
{
    const bool object = j->kind == NODE_OBJECT;
    if (!*path || (!object && j->kind != NODE_ARRAY)) {
        if (!*path)
            out_arguments(o, d, j, fitter);
        else
            json_out_node(o, d, j);
        return;
    }
    json_out(o, object ? "{" : "[");
    JSON_NODES (i, j) {
        json_out_comma(o);
        if (object) {
            json_out_string(o, i->key, i->key_n);
            text_out_bytes(o, ": ", 2);
        }
        if (!object || (i->key_n == strlen(*path) && memcmp(i->key, *path, i->key_n) == 0))
            out_fitted(o, d, i, path + object, fitter);
        else
            json_out_node(o, d, i);
    }
    json_out(o, object ? "}" : "]");
}

static bool fit_arguments(Exchange *x, Talk *t)
{
    static const char *const path[] = { "tool_calls", "function", "arguments", NULL };
    Fitter                   fitter = { .left = most_values(x->server) };
    tblock_error             err;
    TextOut                  out  = { 0 };
    const char              *at   = t->messages.text;
    bool                     good = true;
    tblock_chat_answers(t->chat, &fitter.form);
    for (size_t i = 0, n; good && i < t->n_messages; i++, at += n + 1) {
        JsonDoc d = { 0 };
        n = strlen(at);
        if (!strstr(at, "\"tool_calls\""))
            text_out_bytes(&out, at, n);
        else if ((good = json_doc_read(&d, at, n, 0, t->param, &err)
                         || refuse_error(x, t->param, &err)))
            out_fitted(&out, &d, d.node, path, &fitter);
        text_out_bytes(&out, "", 1);
        json_doc_free(&d);
    }
    text_out_free(&t->messages);
    t->messages = out;
    if (good && fitter.over)
        return refuse(x, MHD_HTTP_BAD_REQUEST, t->param,
                      "%s: expected at most %zu values in the arguments of all calls, found more",
                      t->param, most_values(x->server));
    return good && (!out.failed || refuse_memory(x));
}

bool talk_prompt(Exchange *x, Talk *t, bool as_text, Prompt *p)
{
    tblock_error err;
    if (!fit_arguments(x, t))
        return false;
    tblock_chat_message *m = calloc(t->n_messages + 1, sizeof *m);
    if (!m)
        return refuse_memory(x);
    const char *at = t->messages.text;
    for (size_t i = 0; i < t->n_messages; i++, at += strlen(at) + 1)
        m[i].json = at;
    bool good = as_text ? tblock_chat_text(t->chat, m, t->n_messages, true, &p->text, &p->n_text,
                                           &err)
                        : tblock_chat_render(t->chat, m, t->n_messages, true, &p->ids, &p->n, &err);
    free(m);
    return good || refuse_error(x, t->param, &err);
}

static bool check_context(Exchange *x, const Talk *t, const Prompt *p)
{
    const int n_ctx = x->server->computing.n_ctx;
    return p->n <= (size_t)n_ctx
        || refuse(x, MHD_HTTP_BAD_REQUEST, t->param,
                  "%s: expected at most the %d tokens of the context, found %zu", t->param, n_ctx,
                  p->n);
}

bool talk_choice(Exchange *x, const JsonNode *choice, bool parallel, Talk *t)
{
    const JsonNode *function = node_get(choice, "function"), *named = function ? function : choice,
                   *name = named ? node_get(named, "name") : NULL;
    const bool      none = choice && node_is(choice, "none"),
               is_function = choice && node_is(node_get(choice, "type"), "function") && name
                   && name->kind == NODE_STRING;
    if (none)
        text_out_free(&t->tools);
    t->must_call = is_function || (choice && node_is(choice, "required"));
    t->call_name = is_function ? name->text : NULL;
    t->one_call  = !parallel;
    if (choice && !none && !t->must_call && !node_is(choice, "auto"))
        return refuse_value(x, "tool_choice", "auto, none, required, or a function with its name",
                            choice);
    if (t->must_call && !t->tools.n)
        return refuse_value(x, "tools", "one beside tool_choice", NULL);
    return parallel || talk_may_be_one(x, "parallel_tool_calls", t);
}

bool talk_may_be_one(Exchange *x, const char *param, const Talk *t)
{
    return t->must_call || t->strict || !t->tools.n
        || refuse(x, MHD_HTTP_BAD_REQUEST, param,
                  "%s: several calls can only be ruled out where a call is required or a function "
                  "is strict", param);
}

/* An optional call comes after its marker; before that, stop strings end the reply. Other
 * constraints decide where the text ends, so the template's stop strings do nothing. */
static bool constrain(Exchange *x, const Talk *t, const Settings *s, Job *j)
{
    const bool     may_call = t->strict && t->tools.n && !t->must_call && !t->schema.n;
    const char    *param    = t->must_call ? "tool_choice" : may_call ? "tools" : t->schema_param;
    const unsigned flags    = (t->one_call ? 0u : TBLOCK_CALLS_SEVERAL)
        | (may_call ? TBLOCK_CALLS_OPTIONAL : 0u);
    tblock_error err;
    if (!t->schema.n && !t->must_call && !may_call)
        return true;
    if (t->schema.n && t->must_call)
        return refuse(x, MHD_HTTP_BAD_REQUEST, t->schema_param,
                      "%s: expected none beside tool_choice, which requires a call",
                      t->schema_param);
    j->constraint = t->schema.n
                        ? tblock_constraint_new(x->server->o->model, TBLOCK_JSON_SCHEMA,
                                                t->schema.text, t->schema.n, param, &err)
                        : tblock_chat_calls(t->chat, t->call_name, flags, &err);
    if (!j->constraint)
        return refuse_error(x, param, &err);
    j->options.constraint = j->constraint;
    return may_call || !j->options.n_stop_texts
        || refuse(x, MHD_HTTP_BAD_REQUEST, s->stop_param,
                  "%s: expected none beside %s, which says where the text ends", s->stop_param,
                  param);
}

/* The template's stops, besides those of the request. */
static bool add_stops(Exchange *x, const Talk *t, Job *j)
{
    tblock_chat_info i;
    const bool       whole = t->schema.n || t->must_call; /* a constraint decides where it ends */
    tblock_chat_describe(t->chat, &i);
    const size_t n = j->options.n_stop_texts, n_more = whole ? 0 : i.n_stop_texts;
    j->stop_ids    = malloc((i.n_stop_ids + 1) * sizeof *j->stop_ids);
    char **texts   = realloc(j->stop_texts, (n + n_more + 1) * sizeof *texts);
    j->stop_texts  = texts ? texts : j->stop_texts;
    if (!j->stop_ids || !texts)
        return refuse_memory(x);
    if (i.n_stop_ids)
        memcpy(j->stop_ids, i.stop_ids, i.n_stop_ids * sizeof *j->stop_ids);
    j->options.stop_ids   = j->stop_ids;
    j->options.n_stop_ids = i.n_stop_ids;
    j->options.stop_texts = (const char *const *)texts;
    j->options.skip       = i.answer_prefix;
    for (size_t k = 0; k < n_more; k++) {
        texts[n + k] = strdup(i.stop_texts[k]);
        if (!texts[n + k])
            return refuse_memory(x);
        j->options.n_stop_texts++;
    }
    return true;
}

static bool open_answers(Exchange *x, Talk *t, const Job *j)
{
    tblock_error err;
    t->reply = calloc(j->n_choices, sizeof *t->reply);
    for (size_t i = 0; t->reply && i < j->n_choices; i++, t->n++)
        if (!(t->reply[i].answer = tblock_answer_new(t->chat, &err)))
            return refuse_error(x, NULL, &err);
    return t->reply || refuse_memory(x);
}

bool talk_job(Exchange *x, const Settings *s, Job *j)
{
    Talk *t = j->request;
    return job_choices(j, 1, (size_t)s->n) && talk_open(x, t)
        && talk_prompt(x, t, false, &j->prompt[0])
        && check_context(x, t, &j->prompt[0]) && settings_apply(x, s, j)
        && constrain(x, t, s, j) && add_stops(x, t, j)
        && open_receipts(x, s, t->chat, j) && open_answers(x, t, j);
}
