/* serve/response_input.c: the input of a request of /v1/responses, as the conversation and the
 * tools of talk.c: items become messages in the form of /v1/chat/completions, which templates
 * read. */
#include "serve/server.h"

static const Field beside_text[] = {
    IGNORED("annotations"), IGNORED("logprobs"), IGNORED("prompt_cache_breakpoint"),
    { 0 },
};
static const PartForm texts    = { (const char *const[]){ "input_text", "output_text", NULL },
                                   beside_text };
static const PartForm thoughts = { (const char *const[]){ "reasoning_text", NULL }, beside_text };

typedef struct ResponseInput {
    Exchange      *x;
    const JsonDoc *d;
    Talk          *t;
    Turn           turn;
    bool           has_text; /* the model's turn has its text: another one starts a new turn */
} ResponseInput;

static bool wrong(ResponseInput *in, Place at, const char *expected, const JsonNode *found)
{
    return refuse_value(in->x, at.text, expected, found);
}

static void end_turn(ResponseInput *in)
{
    turn_end(&in->turn, in->t);
    in->has_text = false;
}

/* ---- Items ----------------------------------------------------------------------------------- */

typedef struct InputItem {
    const JsonNode *type, *role, *content, *call_id, *name, *arguments, *output;
} InputItem;

#define AT(field) offsetof(InputItem, field)
static const Field message_fields[] = {
    FIELD("type", TEXT, type, NULL),
    FIELD("role", TEXT | FIELD_REQUIRED, role, NULL),
    FIELD("content", NODE | FIELD_REQUIRED, content, NULL),
    IGNORED("id"), IGNORED("status"), IGNORED("phase"),
    { 0 },
};

static const char only_here[] = "tools are called by the client alone";

static const Field call_fields[] = {
    FIELD("type", TEXT, type, NULL),
    FIELD("call_id", TEXT | FIELD_REQUIRED, call_id, NULL),
    FIELD("name", TEXT | FIELD_REQUIRED, name, NULL),
    FIELD("arguments", TEXT | FIELD_REQUIRED, arguments, NULL),
    IGNORED("id"), IGNORED("status"),
    REJECTED("caller", only_here),
    REJECTED("namespace", "functions have one name"),
    REJECTED("async", only_here),
    { 0 },
};

static const Field output_fields[] = {
    FIELD("type", TEXT, type, NULL),
    FIELD("call_id", TEXT | FIELD_REQUIRED, call_id, NULL),
    FIELD("output", NODE | FIELD_REQUIRED, output, NULL),
    FIELD("name", TEXT, name, NULL),
    IGNORED("id"), IGNORED("status"),
    REJECTED("caller", only_here),
    REJECTED("namespace", "functions have one name"),
    { 0 },
};

static const Field reasoning_fields[] = {
    FIELD("type", TEXT, type, NULL),
    FIELD("content", NODE, content, NULL),
    FIELD("summary", NODE, output, NULL),
    REJECTED("encrypted_content", "only who made it can read it"),
    IGNORED("id"), IGNORED("status"),
    { 0 },
};
#undef AT

static bool read_item(ResponseInput *in, Place at, const JsonNode *node, const Field *fields,
                      InputItem *item)
{
    return fields_read_at(in->x, at.text, node, (const Field *const[]){ fields, NULL }, item);
}

static bool read_message(ResponseInput *in, Place at, const JsonNode *node)
{
    static const char *const roles[] = { "user", "system", "developer", NULL };
    InputItem                i       = { 0 };
    Turn                    *turn    = &in->turn;
    const char *const       *role    = roles;
    if (!read_item(in, at, node, message_fields, &i))
        return false;
    const bool model = node_is(i.role, "assistant");
    while (!model && *role && !node_is(i.role, *role))
        role++;
    if (!*role)
        return wrong(in, place("%s.role", at.text), "user, assistant, system or developer", i.role);
    if (!model || in->has_text)
        end_turn(in);
    turn_begin(turn, in->t, model ? "assistant" : *role);
    in->has_text = true;
    bool good = talk_text(in->x, place("%s.content", at.text), i.content, &texts, &turn->text);
    if (!model)
        end_turn(in);
    return good;
}

/* The model's reasoning comes first in its turn. A summary has no counterpart in templates, so it
 * is dropped. */
static bool read_reasoning(ResponseInput *in, Place at, const JsonNode *node)
{
    InputItem i    = { 0 };
    Turn     *turn = &in->turn;
    size_t    k    = 0;
    if (!read_item(in, at, node, reasoning_fields, &i))
        return false;
    if (i.content && i.content->kind != NODE_ARRAY)
        return wrong(in, place("%s.content", at.text), "a list of reasoning_text", i.content);
    if (i.output && i.output->n && !(i.content && i.content->n))
        return wrong(in, place("%s.content", at.text), "reasoning_text beside a summary",
                     i.content);
    if (in->has_text || turn->calls.n)
        end_turn(in);
    JSON_NODES (part, i.content) {
        const JsonNode *text =
            talk_part(in->x, place("%s.content[%zu]", at.text, k++), part, &thoughts);
        if (!text)
            return false;
        turn_begin(turn, in->t, "assistant");
        text_out_bytes(&turn->reasoning, text->text, text->n);
    }
    return true;
}

static bool read_call(ResponseInput *in, Place at, const JsonNode *node)
{
    InputItem i = { 0 };
    if (!read_item(in, at, node, call_fields, &i))
        return false;
    turn_begin(&in->turn, in->t, "assistant");
    turn_call(&in->turn, in->d, i.call_id, i.name, i.arguments);
    return true;
}

static bool read_output(ResponseInput *in, Place at, const JsonNode *node)
{
    InputItem i = { 0 };
    if (!read_item(in, at, node, output_fields, &i))
        return false;
    end_turn(in);
    in->turn  = (Turn){ .role = "tool", .call_id = i.call_id, .name = i.name };
    bool good = talk_text(in->x, place("%s.output", at.text), i.output, &texts, &in->turn.text);
    end_turn(in);
    return good;
}

static bool read_items(ResponseInput *in, const JsonNode *items)
{
    size_t i    = 0;
    bool   good = true;
    JSON_NODES (item, items) {
        const Place     at   = place("input[%zu]", i++);
        const JsonNode *type = node_get(item, "type");
        if (!type || node_is(type, "message"))
            good = read_message(in, at, item);
        else if (node_is(type, "function_call"))
            good = read_call(in, at, item);
        else if (node_is(type, "function_call_output"))
            good = read_output(in, at, item);
        else if (node_is(type, "reasoning"))
            good = read_reasoning(in, at, item);
        else
            good = wrong(in, place("%s.type", at.text),
                         "message, function_call, function_call_output or reasoning", type);
        if (!good)
            break;
    }
    end_turn(in);
    return good;
}

bool response_input(Exchange *x, const JsonDoc *d, const JsonNode *instructions,
                    const JsonNode *input, Talk *t)
{
    ResponseInput in = { .x = x, .d = d, .t = t };
    t->param = "input";
    if (input->kind != NODE_STRING && (input->kind != NODE_ARRAY || !input->n))
        return wrong(&in, place("input"), "a text or a list of at least one item", input);
    if (instructions) {
        in.turn.role = "system";
        text_out_bytes(&in.turn.text, instructions->text, instructions->n);
        end_turn(&in);
    }
    if (input->kind == NODE_ARRAY)
        return read_items(&in, input);
    in.turn.role = "user";
    text_out_bytes(&in.turn.text, input->text, input->n);
    end_turn(&in);
    return true;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

typedef struct Function {
    const JsonNode *type, *name, *description, *parameters;
    bool            strict;
} Function;

#define AT(field) offsetof(Function, field)
static const Field function_fields[] = {
    FIELD("type", TEXT | FIELD_REQUIRED, type, NULL),
    FIELD("name", TEXT | FIELD_REQUIRED, name, NULL),
    FIELD("description", TEXT, description, NULL),
    FIELD("parameters", NODE, parameters, NULL),
    FIELD("strict", BOOL, strict, NULL),
    REJECTED("output_schema", "templates have no place for it"),
    REJECTED("defer_loading", "all tools are told at once"),
    REJECTED("allowed_callers", only_here),
    REJECTED("async", only_here),
    { 0 },
};
#undef AT

static bool read_function(ResponseInput *in, Place at, const JsonNode *node, TextOut *o)
{
    Function        f     = { 0 };
    const JsonNode *type  = node_get(node, "type");
    if (!node_is(type, "function"))
        return wrong(in, place("%s.type", at.text), "function", type);
    if (!fields_read_at(in->x, at.text, node, (const Field *const[]){ function_fields, NULL }, &f))
        return false;
    in->t->strict |= f.strict;
    talk_tool(o, in->d, f.name, f.description, f.parameters);
    return true;
}

bool response_tools(Exchange *x, const JsonDoc *d, const JsonNode *tools, Talk *t)
{
    ResponseInput in = { .x = x, .d = d, .t = t };
    size_t        i  = 0;
    if (tools->kind != NODE_ARRAY)
        return wrong(&in, place("tools"), "a list", tools);
    if (!tools->n)
        return true;
    text_out(&t->tools, "[");
    JSON_NODES (tool, tools) {
        if (!read_function(&in, place("tools[%zu]", i++), tool, &t->tools))
            return false;
    }
    text_out(&t->tools, "]");
    text_out_bytes(&t->tools, "", 1);
    return true;
}
