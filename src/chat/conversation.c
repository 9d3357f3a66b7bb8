/* Renders conversations with a chat template: with the variables that transformers'
 * apply_chat_template passes, and with more or fewer of the messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "chat/chat_template.h"

struct ChatTemplate {
    Jinja  *program;
    JsonDoc own;     /* the special tokens */
    JsonDoc tools;
    char   *args;    /* the user's variables; NULL: none */
    char   *head;    /* JSON of the other variables: an object without its closing brace */
    size_t  n_head;
    char    date[11]; /* "": none */
};

static bool key_is(const JsonNode *j, const char *name)
{
    return j->key_n == strlen(name) && memcmp(j->key, name, j->key_n) == 0;
}

/* ---- The variables besides the messages ------------------------------------------------------ */

static bool is_date(const char *s)
{
    int month, day;
    if (strlen(s) != 10 || s[4] != '-' || s[7] != '-' || strspn(s, "0123456789-") != 10
        || s[0] == '0')
        return false;
    for (int i = 0; i < 10; i++)
        if (i != 4 && i != 7 && s[i] == '-')
            return false;
    month = atoi(s + 5), day = atoi(s + 8);
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/* The user's own variables. They cannot set the messages. */
static bool read_args(JsonDoc *d, const char *args, Error *err)
{
    static const char *const ours[] = { "messages", "add_generation_prompt", NULL };
    Error why = { 0 };
    if (!args)
        return true;
    if (!json_doc_read(d, args, strlen(args), 0, "template arguments", &why))
        return fail(err, why.status == INPUT ? USAGE : why.status,
                    "%s: expected JSON such as {\"enable_thinking\": false}", why.msg);
    if (d->node->kind != NODE_OBJECT)
        return fail(err, USAGE, "template arguments: expected a JSON object, found an array or "
                                "a value");
    for (int i = 0; ours[i]; i++)
        if (node_get(d->node, ours[i]))
            return fail(err, USAGE, "template arguments: expected other variables than %s, which "
                                    "the conversation sets", ours[i]);
    return true;
}

static bool read_tools(JsonDoc *d, const char *tools, Error *err)
{
    Error why = { 0 };
    if (!tools)
        return true;
    if (!json_doc_read(d, tools, strlen(tools), 0, "tools", &why))
        return fail(err, why.status == INPUT ? USAGE : why.status,
                    "%s: expected a JSON array of tools", why.msg);
    bool objects = d->node->kind == NODE_ARRAY;
    JSON_NODES (i, objects ? d->node : NULL)
        objects = objects && i->kind == NODE_OBJECT;
    return objects || fail(err, USAGE, "tools: expected a JSON array of objects");
}

/* tools and documents are none if they are not given, as transformers passes them. */
static bool write_head(ChatTemplate *t, const ChatTemplateOptions *o, const JsonDoc *args,
                       Error *err)
{
    TextOut out = { 0 };
    bool    ok = read_tools(&t->tools, o->tools, err);
    if (ok) {
        json_out(&out, "{add_generation_prompt: false");
        if (t->tools.node)
            json_out(&out, "tools:"), json_out_node(&out, &t->tools, t->tools.node);
        else if (!node_get(args->node, "tools"))
            json_out(&out, "tools: null");
        if (!node_get(args->node, "documents"))
            json_out(&out, "documents: null");
        JSON_NODES (i, args->node)
            if (!t->tools.node || !key_is(i, "tools"))
                json_out_pair(&out, args, i);
        t->n_head = out.n;
        t->head = text_out_take(&out, err);
    }
    return t->head != NULL;
}

/* The special tokens: null is no token, so the variable is undefined. A token that the user's
 * variables set is data instead. */
static bool write_own(ChatTemplate *t, const ChatTemplateOptions *o, const JsonDoc *args,
                      Error *err)
{
    static const char *const keys[] = { "bos_token", "eos_token" };
    const char *const        given[] = { o->bos, o->eos };
    JsonDoc special = { 0 };
    TextOut out = { 0 };
    char    what[512];
    snprintf(what, sizeof what, "%.400s: special_tokens", o->what);
    if (o->special && !json_doc_read(&special, o->special, strlen(o->special), 0, what, err))
        return false;
    bool ok = !special.node || special.node->kind == NODE_OBJECT
        || fail(err, INPUT, "%s: expected a JSON object", what);
    json_out(&out, "{");
    JSON_NODES (i, ok ? special.node : NULL)
        if (i->kind == NODE_STRING && !(args->node && node_get(args->node, i->key)))
            json_out_pair(&out, &special, i);
    for (int i = 0; i < 2; i++)
        if (given[i] && *given[i] && !node_get(special.node, keys[i])
            && !node_get(args->node, keys[i]))
            json_out(&out, "%s: %s", keys[i], given[i]);
    json_out(&out, "}");
    json_doc_free(&special);
    size_t n = out.n;
    char  *text = ok ? text_out_take(&out, err) : NULL;
    text_out_free(&out);
    return text && json_doc_parse(&t->own, text, n, 0, what, err);
}

ChatTemplate *chat_template_new(const ChatTemplateOptions *o, Error *err)
{
    ChatTemplate *t = calloc(1, sizeof *t);
    JsonDoc       args = { 0 };
    bool          ok = t || no_memory(o->what, err);
    if (ok && o->date && !is_date(o->date))
        ok = fail(err, USAGE, "date: expected YYYY-MM-DD, found '%.40s'", o->date);
    if (ok && o->date)
        memcpy(t->date, o->date, sizeof t->date);
    if (ok && o->args && !(t->args = strdup(o->args)))
        ok = no_memory(o->what, err);
    ok = ok && read_args(&args, o->args, err) && write_head(t, o, &args, err)
        && write_own(t, o, &args, err);
    json_doc_free(&args);
    if (ok && (t->program = jinja_parse(o->text, strlen(o->text), o->what, err)))
        return t;
    chat_template_free(t);
    return NULL;
}

void chat_template_free(ChatTemplate *t)
{
    if (!t)
        return;
    jinja_free(t->program);
    json_doc_free(&t->own);
    json_doc_free(&t->tools);
    free(t->args);
    free(t->head);
    free(t);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* As transformers: keys with null values are dropped, unless c->nulls says otherwise, and reasoning
 * under any of its names becomes both reasoning_content and thinking. */
static void out_message(TextOut *o, const JsonDoc *d, Conversation *c)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning", NULL };
    const JsonNode *thought = NULL, *thinking = node_get(d->node, "thinking");
    for (int i = 0; names[i] && !thought; i++) {
        thought = node_get(d->node, names[i]);
        thought = thought && thought->kind == NODE_NULL ? NULL : thought;
    }
    json_out(o, thought ? "{thinking:" : "{");
    if (thought)
        json_out_node(o, d, thinking && thinking->kind != NODE_NULL ? thinking : thought);
    JSON_NODES (i, d->node) {
        bool null = i->kind == NODE_NULL;
        c->dropped |= null;
        if (null && c->nulls == NULLS_EMPTY && key_is(i, "content"))
            json_out(o, "content: ''");
        else if (!(null && (c->nulls != NULLS_KEPT || (thought && key_is(i, "reasoning_content"))))
                 && !(thought && key_is(i, "thinking")))
            json_out_pair(o, d, i);
    }
    const JsonNode *content = node_get(d->node, "reasoning_content");
    if (thought && (!content || content->kind == NODE_NULL)) {
        json_out(o, "reasoning_content:");
        json_out_node(o, d, thought);
    }
    json_out(o, "}");
}

static bool add_turn(TextOut *o, Conversation *c, size_t i, Error *err)
{
    const ChatTurn *m = &c->turn[i];
    JsonDoc d = { 0 };
    char    what[64];
    if (!m->json) {
        json_out(o, "{role: %s", m->role);
        json_out_member(o, "content", m->text, m->n);
        return json_out(o, "}"), true;
    }
    snprintf(what, sizeof what, "chat: message %zu", i + 1);
    bool ok = json_doc_read(&d, m->json, strlen(m->json), 0, what, err)
        && (d.node->kind == NODE_OBJECT || fail(err, INPUT, "%s: expected a JSON object", what));
    if (ok)
        out_message(o, &d, c);
    json_doc_free(&d);
    return ok;
}

/* Writes what the template sees as a document. */
static bool write_data(Conversation *out, Error *err)
{
    TextOut o = { 0 };
    bool    ok = out->n || fail(err, INPUT, "chat: expected a message, found none");
    text_out_bytes(&o, out->t->head, out->t->n_head);
    json_out(&o, "messages: [");
    for (size_t i = 0; ok && i < out->n; i++)
        ok = add_turn(&o, out, i, err);
    text_out(&o, "]}");
    size_t n_bytes = o.n;
    char  *text = ok ? text_out_take(&o, err) : NULL;
    text_out_free(&o);
    if (!text || !json_doc_parse(&out->data, text, n_bytes, 0, "chat", err))
        return false;
    JSON_NODES (i, out->data.node) { /* the messages are last */
        out->answer = key_is(i, "add_generation_prompt") ? (JsonNode *)(uintptr_t)i : out->answer;
        out->messages = (JsonNode *)(uintptr_t)i;
    }
    return true;
}

bool conversation_new(const ChatTemplate *t, const ChatTurn *turn, size_t n, Conversation *out,
                      Error *err)
{
    *out = (Conversation){ .t = t, .turn = turn, .n = n };
    if (write_data(out, err))
        return true;
    conversation_free(out);
    return false;
}

void conversation_free(Conversation *c)
{
    json_doc_free(&c->data);
    *c = (Conversation){ 0 };
}

/* The list of messages is last in the document, so it can be cut after n of them. */
static void keep_first(Conversation *c, size_t n)
{
    JsonNode *list = c->messages, *end = list + 1;
    for (size_t i = 0; i < n; i++)
        end += end->skip;
    c->data.node->skip -= list->skip;
    list->n = (uint32_t)n;
    list->skip = (uint32_t)(end - list);
    c->data.node->skip += list->skip;
}

/* Roles are the caller's words, not a message's text: templates spell special tokens with them. */
static const char *const roles[] = { "system",   "developer", "user",        "assistant",
                                     "tool",     "function",  "ipython",     "model",
                                     "document", "documents", "observation", "available_tools",
                                     NULL };

static bool render(Conversation *c, size_t n, bool answer, JinjaText *out, Error *err)
{
    const ChatTemplate *t = c->t;
    keep_first(c, n);
    c->answer->kind = answer ? NODE_TRUE : NODE_FALSE;
    JinjaInput in = { .own = t->own.node, .given = c->data.node,
                      .date = *t->date ? t->date : NULL, .roles = roles };
    return c->most_steps ? jinja_render_within(t->program, &in, c->most_steps, out, err)
                         : jinja_render(t->program, &in, out, err);
}

/* Up to transformers 5.22 a template saw the keys with null values, and older ones test for them,
 * as in `message['content'] is none`. Others (Qwen3) take no content but a text, also beside calls,
 * for which OpenAI's own answers have null. */
bool conversation_render(Conversation *c, size_t n, bool answer, JinjaText *out, Error *err)
{
    Error why = { 0 }, again = { 0 };
    if (render(c, n, answer, out, &why))
        return true;
    for (NullKeys nulls = c->nulls + 1; nulls <= NULLS_EMPTY && why.status == INPUT && c->dropped;
         nulls++) {
        Conversation with = { .t = c->t, .turn = c->turn, .n = c->n, .most_steps = c->most_steps,
                              .nulls = nulls };
        if (write_data(&with, &again) && render(&with, n, answer, out, &again)) {
            conversation_free(c);
            *c = with;
            return true;
        }
        conversation_free(&with);
    }
    return fail(err, why.status, "%s", why.msg);
}

/* ---- Answers --------------------------------------------------------------------------------- */

AnswerForm *chat_template_answers(const ChatTemplate *t, Error *err)
{
    AnswerInput in = { .own = t->own.node, .args = t->args, .date = *t->date ? t->date : NULL,
                       .roles = roles, .tools = t->tools.node && t->tools.node->n };
    return answer_form_new(t->program, &in, err);
}

const JsonDoc *chat_template_tools(const ChatTemplate *t) { return &t->tools; }
