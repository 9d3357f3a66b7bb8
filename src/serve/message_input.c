/* serve/message_input.c: requests of /v1/messages as conversations in OpenAI's form. Text blocks
 * are joined as they are, consecutive messages of one role with a line end between; tool results
 * are messages of their own. */
#include "serve/messages.h"

#include <stdlib.h>

typedef struct MessagesRequest {
    Settings        s;
    const JsonNode *messages, *system, *tools, *tool_choice, *thinking, *output;
    int64_t         max_tokens;
} MessagesRequest;

#define AT(field) offsetof(MessagesRequest, field)
static const Field messages_fields[] = {
    FIELD("messages", NODE | FIELD_REQUIRED, messages, "an array of at least one message"),
    FIELD("system", NODE, system, "a text or blocks of text before them"),
    FIELD("stop_sequences", NODE, s.stop, "texts that end the answer, up to 64"),
    FIELD("tools", NODE, tools, "an array of tools that the model may call"),
    FIELD("tool_choice", NODE, tool_choice, "an object: type auto, none, any or tool"),
    FIELD("thinking", NODE, thinking, "an object: type enabled or disabled"),
    FIELD("output_config", NODE, output, "an object: format, what the answer must fit"),
    IGNORED("cache_control"),
    { 0 },
};
/* Requests that generate a reply, and those that do not. */
static const Field sample_fields[] = {
    FIELD_IN("max_tokens", INT | FIELD_REQUIRED, max_tokens, 0, 1 << 24, "most tokens to generate"),
    { 0 },
};
static const Field count_fields[] = { { "max_tokens", FIELD_IGNORED, 0, 0, 0, NULL }, { 0 } };
#undef AT

static const MessagesRequest messages_default = { .s = SETTINGS_DEFAULT };
static const Field *const    messages_tables[] = { sample_fields, messages_fields, settings_fields,
                                                   NULL };
static const Field *const    count_tables[]    = { count_fields, messages_fields, settings_fields,
                                                   NULL };
const Body                   messages_body     = { messages_tables, &messages_default };
const Body                   count_tokens_body = { count_tables, &messages_default };

static bool read_object(Exchange *x, const char *where, const JsonNode *j, const Field *fields,
                        void *out)
{
    return fields_read_at(x, where, j, (const Field *const[]){ fields, NULL }, out);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

enum { TEXT = 1, TOOL_USE = 2, TOOL_RESULT = 4, THINKING = 8 };

typedef struct ContentBlock {
    int             kind;
    const JsonNode *type, *text, *id, *name, *input, *tool_use_id, *content, *thinking;
    bool            is_error;
} ContentBlock;

#define AT(field) offsetof(ContentBlock, field)
static const Field beside_text[] = {
    IGNORED("cache_control"),
    REJECTED("citations", "the models here read text alone"),
    { 0 },
};
static const PartForm text_parts = { (const char *const[]){ "text", NULL }, beside_text };
static const Field use_fields[] = {
    FIELD("type", TEXT | FIELD_REQUIRED, type, NULL),
    FIELD("id", TEXT | FIELD_REQUIRED, id, NULL),
    FIELD("name", TEXT | FIELD_REQUIRED, name, NULL),
    FIELD("input", NODE | FIELD_REQUIRED, input, NULL),
    IGNORED("partial_json"), IGNORED("cache_control"),
    { 0 },
};
static const Field result_fields[] = {
    FIELD("type", TEXT | FIELD_REQUIRED, type, NULL),
    FIELD("tool_use_id", TEXT | FIELD_REQUIRED, tool_use_id, NULL),
    FIELD("content", NODE, content, NULL),
    FIELD("is_error", BOOL, is_error, NULL),
    IGNORED("cache_control"),
    { 0 },
};
static const Field thought_fields[] = {
    FIELD("type", TEXT | FIELD_REQUIRED, type, NULL),
    FIELD("thinking", TEXT | FIELD_REQUIRED, thinking, NULL),
    IGNORED("signature"),
    { 0 },
};
#undef AT

static const struct { const char *name; int kind; const Field *fields; } blocks[] = {
    { "text", TEXT, NULL },
    { "tool_use", TOOL_USE, use_fields },
    { "tool_result", TOOL_RESULT, result_fields },
    { "thinking", THINKING, thought_fields },
};

/* A block of one of these kinds. */
static bool read_block(Exchange *x, Place at, const JsonNode *j, int kinds, ContentBlock *b)
{
    const JsonNode *type  = node_get(j, "type");
    Place           names = { "" };
    *b                    = (ContentBlock){ 0 };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (!(blocks[i].kind & kinds))
            continue;
        names   = place("%s%s%s", names.text, *names.text ? " or " : "", blocks[i].name);
        b->kind = blocks[i].kind;
        if (node_is(type, blocks[i].name) && b->kind == TEXT)
            return (b->text = talk_part(x, at, j, &text_parts)) != NULL;
        if (node_is(type, blocks[i].name))
            return read_object(x, at.text, j, blocks[i].fields, b)
                && (b->kind != TOOL_USE || b->input->kind == NODE_OBJECT
                    || refuse_value(x, place("%s.input", at.text).text, "an object", b->input));
    }
    return refuse_value(x, place("%s.type", at.text).text, names.text, type);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Continues the message of its role, on a new line. */
static void go_on(Turn *turn, Talk *t, const char *role)
{
    turn_begin(turn, t, role);
    if (turn->text.n)
        text_out(&turn->text, "\n");
}

static bool add_result(Exchange *x, Place at, const ContentBlock *b, Turn *turn, Talk *t)
{
    turn_end(turn, t);
    *turn     = (Turn){ .role = "tool", .call_id = b->tool_use_id, .is_error = b->is_error };
    bool good = !b->content
        || talk_text(x, place("%s.content", at.text), b->content, &text_parts, &turn->text);
    turn_end(turn, t);
    return good;
}

/* The roles, and the blocks that each may have. */
typedef struct Role { const char *name; int kinds; } Role;
static const Role roles[] = { { "user", TEXT | TOOL_RESULT },
                              { "assistant", TEXT | TOOL_USE | THINKING },
                              { "system", TEXT } };

static bool add_blocks(Exchange *x, const JsonDoc *d, Place at, const JsonNode *content,
                       const Role *role, Turn *turn, Talk *t)
{
    bool         begun = false;
    size_t       n     = 0;
    ContentBlock b;
    JSON_NODES (i, content) {
        const Place here = place("%s[%zu]", at.text, n++);
        if (!read_block(x, here, i, role->kinds, &b))
            return false;
        if (b.kind == TOOL_RESULT) {
            if (!add_result(x, here, &b, turn, t))
                return false;
            begun = false;
            continue;
        }
        if (!begun)
            go_on(turn, t, role->name);
        begun = true;
        if (b.kind == TOOL_USE)
            turn_call(turn, d, b.id, b.name, b.input);
        else if (b.kind == TEXT)
            text_out_bytes(&turn->text, b.text->text, b.text->n);
        else
            text_out_bytes(&turn->reasoning, b.thinking->text, b.thinking->n);
    }
    return true;
}

typedef struct Message { const JsonNode *role, *content; } Message;
static const Field message_fields[] = {
    { "role", FIELD_TEXT | FIELD_REQUIRED, offsetof(Message, role), 0, 0, NULL },
    { "content", FIELD_NODE | FIELD_REQUIRED, offsetof(Message, content), 0, 0, NULL },
    { 0 },
};

static bool add_message(Exchange *x, const JsonDoc *d, Place at, const JsonNode *j,
                        const Role **role, Turn *turn, Talk *t)
{
    Message m = { 0 };
    if (!read_object(x, at.text, j, message_fields, &m))
        return false;
    *role = NULL;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        *role = node_is(m.role, roles[i].name) ? &roles[i] : *role;
    if (!*role)
        return refuse_value(x, place("%s.role", at.text).text, "user, assistant or system", m.role);
    at = place("%s.content", at.text);
    if (m.content->kind == NODE_ARRAY)
        return add_blocks(x, d, at, m.content, *role, turn, t);
    go_on(turn, t, (*role)->name);
    return talk_text(x, at, m.content, &text_parts, &turn->text);
}

static bool read_messages(Exchange *x, const JsonDoc *d, const MessagesRequest *r, Talk *t)
{
    const JsonNode *list = r->messages;
    Turn            turn = { 0 };
    const Role     *role = NULL;
    size_t          n    = 0;
    t->param = "messages";
    if (list->kind != NODE_ARRAY || !list->n)
        return refuse_value(x, "messages", "an array of at least one message", list);
    bool good = !r->system
        || talk_text(x, place("system"), r->system, &text_parts, &turn.text);
    turn.role = turn.text.n ? "system" : NULL;
    turn_end(&turn, t);
    JSON_NODES (i, list)
        good = good && add_message(x, d, place("messages[%zu]", n++), i, &role, &turn, t);
    turn_end(&turn, t);
    return good
        && (role != &roles[1]
            || refuse(x, MHD_HTTP_BAD_REQUEST, "messages",
                      "messages: expected the last one to be the user's, found the assistant's: an "
                      "answer cannot be begun for the model"));
}

/* ---- Tools ----------------------------------------------------------------------------------- */

typedef struct Tool {
    const JsonNode *type, *name, *description, *schema;
    bool            strict;
} Tool;

#define AT(field) offsetof(Tool, field)
static const char not_kept[] = "it cannot be kept";
static const Field tool_fields[] = {
    FIELD("type", TEXT, type, NULL),
    FIELD("name", TEXT | FIELD_REQUIRED, name, NULL),
    FIELD("description", TEXT, description, NULL),
    FIELD("input_schema", NODE | FIELD_REQUIRED, schema, NULL),
    IGNORED("cache_control"), IGNORED("eager_input_streaming"),
    FIELD("strict", BOOL, strict, NULL),
    REJECTED("defer_loading", not_kept),
    REJECTED("allowed_callers", not_kept),
    REJECTED("input_examples", not_kept),
    { 0 },
};
#undef AT

static bool read_tool(Exchange *x, const JsonDoc *d, Place at, const JsonNode *j, Talk *talk)
{
    TextOut        *o    = &talk->tools;
    Tool            t    = { 0 };
    const JsonNode *type = node_get(j, "type");
    if (type && type->kind != NODE_NULL && !node_is(type, "custom"))
        return refuse_value(x, place("%s.type", at.text).text, "custom", type);
    if (!read_object(x, at.text, j, tool_fields, &t))
        return false;
    talk->strict |= t.strict;
    if (t.schema->kind != NODE_OBJECT)
        return refuse_value(x, place("%s.input_schema", at.text).text, "an object", t.schema);
    talk_tool(o, d, t.name, t.description, t.schema);
    return true;
}

typedef struct ToolChoice { const JsonNode *type, *name; bool alone; } ToolChoice;
static const Field choice_fields[] = {
    { "type", FIELD_TEXT | FIELD_REQUIRED, offsetof(ToolChoice, type), 0, 0, NULL },
    { "name", FIELD_TEXT, offsetof(ToolChoice, name), 0, 0, NULL },
    { "disable_parallel_tool_use", FIELD_BOOL, offsetof(ToolChoice, alone), 0, 0, NULL },
    { 0 },
};

/* any and tool require tool calls; none hides the tools. */
static bool read_choice(Exchange *x, const MessagesRequest *r, ToolChoice *c, Talk *t)
{
    if (r->tool_choice && !read_object(x, "tool_choice", r->tool_choice, choice_fields, c))
        return false;
    const bool tool = node_is(c->type, "tool");
    if (c->type && !tool && !node_is(c->type, "any") && !node_is(c->type, "auto")
        && !node_is(c->type, "none"))
        return refuse_value(x, "tool_choice.type", "auto, any, tool or none", c->type);
    if (tool && !c->name)
        return refuse_value(x, "tool_choice.name", "the name of a tool", NULL);
    t->must_call = tool || node_is(c->type, "any");
    t->one_call  = c->alone;
    t->call_name = tool ? c->name->text : NULL;
    return true;
}

static bool read_tools(Exchange *x, const JsonDoc *d, const MessagesRequest *r, Talk *t)
{
    ToolChoice c    = { 0 };
    TextOut   *o    = &t->tools;
    bool       good = true;
    size_t     n    = 0;
    if (!read_choice(x, r, &c, t))
        return false;
    if (r->tools && r->tools->kind != NODE_ARRAY)
        return refuse_value(x, "tools", "an array", r->tools);
    if (t->must_call && (!r->tools || !r->tools->n))
        return refuse_value(x, "tools", "one beside tool_choice", NULL);
    if (!r->tools || !r->tools->n || node_is(c.type, "none"))
        return true;
    text_out(o, "[");
    JSON_NODES (i, r->tools)
        good = good && read_tool(x, d, place("tools[%zu]", n++), i, t);
    text_out(o, "]");
    text_out_bytes(o, "", 1);
    return good && (!c.alone || talk_may_be_one(x, "tool_choice.disable_parallel_tool_use", t));
}

/* ---- Thinking, and the form of the reply ----------------------------------------------------- */

/* effort: from output_config */
typedef struct Thinking { const JsonNode *type, *display, *effort; int64_t budget; } Thinking;
static const Field thinking_fields[] = {
    { "type", FIELD_TEXT | FIELD_REQUIRED, offsetof(Thinking, type), 0, 0, NULL },
    { "display", FIELD_TEXT, offsetof(Thinking, display), 0, 0, NULL },
    { "budget_tokens", FIELD_INT, offsetof(Thinking, budget), 1, 1 << 24, NULL },
    { 0 },
};

typedef struct Output { const JsonNode *effort, *format; } Output;
static const Field output_fields[] = {
    { "effort", FIELD_TEXT, offsetof(Output, effort), 0, 0, NULL },
    { "format", FIELD_NODE, offsetof(Output, format), 0, 0, NULL },
    { 0 },
};

/* The variables by which templates control whether the model thinks, and how much. */
static void out_args(TextOut *o, const Thinking *h, bool thinks)
{
    if (!h->type && !h->effort)
        return;
    json_out(o, "{");
    if (h->type)
        json_out(o, "enable_thinking: %i, thinking: %i", thinks, thinks);
    if (h->effort)
        json_out_member(o, "reasoning_effort", h->effort->text, h->effort->n);
    json_out(o, "}");
    text_out_bytes(o, "", 1);
}

static bool read_thinking(Exchange *x, const MessagesRequest *r, Thinking *h)
{
    *h = (Thinking){ 0 };
    if (!r->thinking)
        return true;
    if (!read_object(x, "thinking", r->thinking, thinking_fields, h))
        return false;
    if (!node_is(h->type, "enabled") && !node_is(h->type, "adaptive")
        && !node_is(h->type, "disabled"))
        return refuse_value(x, "thinking.type", "enabled, adaptive or disabled", h->type);
    if (h->display && !node_is(h->display, "summarized"))
        return refuse_value(x, "thinking.display", "summarized", h->display);
    return !h->budget || h->budget >= r->max_tokens || x->server->o->lenient
        || refuse(
            x, MHD_HTTP_BAD_REQUEST, "thinking.budget_tokens",
            "thinking.budget_tokens: expected at least max_tokens or none, found %lld: no bound of "
            "thinking can be kept but that of the whole answer",
            (long long)h->budget);
}

/* What the template gets besides the messages, and the schema that the reply must fit. */
static bool read_args(Exchange *x, const JsonDoc *d, const MessagesRequest *r, Thinking *h, Talk *t)
{
    Output          o = { 0 };
    const JsonNode *schema;
    if (r->output && !read_object(x, "output_config", r->output, output_fields, &o))
        return false;
    h->effort = o.effort;
    out_args(&t->args, h, !node_is(h->type, "disabled"));
    t->schema_param = "output_config";
    if (!o.format)
        return true;
    schema = node_get(o.format, "schema");
    if (!node_is(node_get(o.format, "type"), "json_schema") || !schema)
        return refuse_value(x, "output_config.format", "type json_schema with its schema",
                            o.format);
    json_out_node(&t->schema, d, schema);
    return true;
}

/* Does the template render another prompt if the model should think? */
static bool has_switch(Exchange *x, const Thinking *h, Talk *t, bool *has)
{
    tblock_error err;
    Prompt       off = { 0 }, on = { 0 };
    TextOut      args = { 0 }, kept = t->args;
    tblock_chat *chat = t->chat;
    out_args(&args, h, true);
    if (args.failed)
        return refuse_memory(x);
    t->args   = args;
    t->chat   = talk_chat(x->server, t, &err);
    bool good = t->chat ? talk_prompt(x, t, true, &on) : refuse_error(x, NULL, &err);
    tblock_chat_free(t->chat);
    text_out_free(&args);
    t->args = kept;
    t->chat = chat;
    good    = good && talk_prompt(x, t, true, &off);
    *has    = good && (on.n_text != off.n_text || memcmp(on.text, off.text, on.n_text) != 0);
    tblock_free(on.text);
    tblock_free(off.text);
    return good;
}

static bool check_thinking(Exchange *x, const Thinking *h, Talk *t)
{
    tblock_answer_form form;
    bool               has = false;
    if (!h->type)
        return true;
    tblock_chat_answers(t->chat, &form);
    if (!node_is(h->type, "disabled"))
        return form.reasoning
            || refuse(x, MHD_HTTP_BAD_REQUEST, "thinking",
                      "thinking: the model's template has no place for it");
    return !form.reasoning
        || (has_switch(x, h, t, &has)
            && (has
                || refuse(x, MHD_HTTP_BAD_REQUEST, "thinking",
                          "thinking: the model's template cannot switch it off")));
}

/* ---- The request ----------------------------------------------------------------------------- */

bool messages_read(Exchange *x, const JsonDoc *d, bool generates, Settings *s, Messages *out)
{
    MessagesRequest r = messages_default;
    Thinking        h;
    Talk           *t = &out->talk;
    r.s.stop_param = "stop_sequences";
    if (!fields_read(x, d->node, generates ? messages_tables : count_tables, &r)
        || !settings_check(x, &r.s))
        return false;
    if (r.s.stop && r.s.stop->kind != NODE_ARRAY)
        return refuse_value(x, "stop_sequences", "an array", r.s.stop);
    r.s.max_tokens = r.max_tokens > 0 ? (int)r.max_tokens : -1;
    out->n_stops   = r.s.stop ? r.s.stop->n : 0;
    *s             = r.s;
    return read_messages(x, d, &r, t) && read_tools(x, d, &r, t) && read_thinking(x, &r, &h)
        && read_args(x, d, &r, &h, t) && talk_open(x, t) && check_thinking(x, &h, t);
}
