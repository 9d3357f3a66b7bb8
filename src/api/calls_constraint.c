/* api/calls_constraint.c: the grammar of tool calls: the template's text around arguments, and
 * arguments that match each tool's schema. It is compiled from one text that contains everything,
 * so that a receipt can hold it. */
#include "api/calls.h"

#include <stdlib.h>
#include <string.h>

#include "api/record.h"
#include "base/json.h"

/* Limits of a constraint that has a text, which is untrusted input. */
enum { MOST_TOOLS = 1024, MOST_CALL_TEXT = 1024 };

/* ---- The grammar ----------------------------------------------------------------------------- */

/* A name without characters that have a meaning where the template puts it. */
static bool is_plain(const JsonNode *name)
{
    return name && name->kind == NODE_STRING && name->n
        && strspn(name->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
               == name->n;
}

/* The template's text, with the special tokens that it spells and what the marks stand for. */
static Expr text_expr(Grammar *g, const Tokenizer *t, const char *s, size_t n, const char *name)
{
    Expr e = EXPR_EMPTY;
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        char token[SPECIAL_BYTES];
        int  special = -1;
        length       = tokenizer_special_at(t, s + i, n - i, &special);
        if (length)
            special_bytes(token, special);
        e = expr_seq(g, e,
                     length                ? expr_text(g, token, sizeof token)
                         : s[i] == MARK_NAME ? expr_text(g, name, strlen(name))
                         : s[i] == MARK_ID ? expr_pattern(g, "[a-zA-Z0-9]{9}")
                                           : expr_text(g, s + i, 1));
    }
    return e;
}

/* Arguments are an object, even if the schema does not say so. */
static bool args_rule(Grammar *g, const JsonDoc *d, const JsonNode *tool, const char *name,
                      Rule *out, Error *err)
{
    const JsonNode *schema = node_get(tool, "parameters"), *type = node_get(schema, "type");
    TextOut         text = { 0 }, what = { 0 };
    if ((schema && schema->kind != NODE_OBJECT) || (type && !node_is(type, "object")))
        return fail(err, INPUT, "tools: %s: parameters: expected a schema of type object", name);
    json_out(&text, "{type: object");
    JSON_NODES (i, schema) {
        if (i == type)
            continue;
        json_out_pair(&text, d, i);
    }
    text_out(&text, "}");
    text_out(&what, "tools: %s: parameters", name);
    text_out_bytes(&what, "", 1);
    bool good = !text.failed && !what.failed ? true : no_memory(NULL, err);
    good = good
        && (grammar_read_schema(g, text.text, text.n, &(SchemaOptions){ false }, what.text, NULL,
                                out)
            || (grammar_failed(g, err), false));
    text_out_free(&text);
    text_out_free(&what);
    return good;
}

/* What is made: the calls of these tools, an array, or of the tool with this name. */
typedef struct Making {
    const tblock_model *model;
    const CallFrame    *form;
    const JsonDoc      *doc;
    const JsonNode     *tools;
    const char         *name; /* NULL: all of them */
} Making;

/* The next tool from t on, without OpenAI's wrapper; NULL: no more. */
static const JsonNode *next_tool(const Making *m, const JsonNode **t)
{
    for (const JsonNode *i = *t; i != node_end(m->tools); i += i->skip) {
        const JsonNode *tool = node_get(i, "function") ? node_get(i, "function") : i;
        if (m->name && !node_is(node_get(tool, "name"), m->name))
            continue;
        *t = i + i->skip;
        return tool;
    }
    return NULL;
}

/* The calls of one tool, as first and as later call, as alternatives. */
static bool add_tool(Grammar *g, const Making *m, const JsonNode *tool, Rule first, Rule next,
                     Error *err)
{
    const CallFrame *f    = m->form;
    const Tokenizer *t    = m->model->tokenizer;
    const JsonNode  *name = node_get(tool, "name");
    Rule             args;
    if (!is_plain(name))
        return fail(err, INPUT, "tools: name: expected letters, digits, _, - and . alone where a "
                                "call is required");
    if (!args_rule(g, m->doc, tool, name->text, &args, err))
        return false;
    const Expr before[] = { text_expr(g, t, f->first.text, f->first.n, name->text),
                            text_expr(g, t, f->next.text, f->next.n, name->text) };
    grammar_add(g, first, (Symbol[]){ symbol_expr(before[0]), symbol_rule(args) }, 2);
    if (f->several)
        grammar_add(g, next, (Symbol[]){ symbol_expr(before[1]), symbol_rule(args) }, 2);
    return true;
}

static bool add_calls(Grammar *g, const Making *m, Rule *root, Error *err)
{
    const CallFrame *f = m->form;
    const Rule first = grammar_rule(g, "call"), next = f->several ? grammar_rule(g, "call") : first;
    const JsonNode *at = m->tools + 1, *tool;
    size_t          n  = 0;
    *root              = grammar_rule(g, "calls");
    for (; (tool = next_tool(m, &at)); n++)
        if (!add_tool(g, m, tool, first, next, err))
            return false;
    if (!n)
        return fail(err, INPUT, "tools: expected %s%.100s, found no such tool",
                    m->name ? "the function " : "one", m->name ? m->name : "");
    Symbol row[3] = { symbol_rule(first) };
    n             = 1;
    if (f->several)
        row[n++] = grammar_repeat(g, symbol_rule(next), 0, REPEAT_FOREVER);
    if (f->end.n)
        row[n++] = symbol_expr(text_expr(g, m->model->tokenizer, f->end.text, f->end.n, ""));
    grammar_add(g, *root, row, n);
    return true;
}

static Constraint *compile(const Making *m, Error *err)
{
    Grammar *g    = grammar_new(err);
    Rule     root = 0;
    if (g && add_calls(g, m, &root, err))
        return constraint_new(g, root, "tools", err);
    grammar_free(g);
    return NULL;
}

/* ---- The lead -------------------------------------------------------------------------------- */

/* Any text: characters and special tokens. */
typedef struct Lead { Grammar *g; const Tokenizer *t; Expr any, all; } Lead;

static Lead lead_begin(Grammar *g, const Tokenizer *t)
{
    const Expr token = expr_seq(g, expr_range(g, NO_TEXT, NO_TEXT),
                                expr_repeat(g, expr_range(g, 0x80, 0xBF), SPECIAL_BYTES - 1,
                                            SPECIAL_BYTES - 1)),
               any   = expr_alt(g, expr_any_char(g, CHARS_UTF8), token);
    return (Lead){ g, t, any, expr_repeat(g, any, 0, REPEAT_FOREVER) };
}

/* A marker as a token or as text: a reply is parsed like that. */
static Expr marker_expr(const Lead *l, AnswerMarker m)
{
    return expr_alt(l->g, expr_text(l->g, m.s, m.n), text_expr(l->g, l->t, m.s, m.n, ""));
}

/* The shortest texts that end with the marker. */
static Expr ending_with(const Lead *l, AnswerMarker m)
{
    const Expr ends = expr_seq(l->g, l->all, marker_expr(l, m));
    return expr_minus(l->g, ends, expr_seq(l->g, ends, expr_seq(l->g, l->any, l->all)));
}

/* The text before optional calls. Reasoning contains no call. */
static Expr before_begun(const Lead *l, const CallFrame *f)
{
    Grammar   *g     = l->g;
    const Expr calls = ending_with(l, f->begins);
    if (!f->think_end.n)
        return calls;
    const Expr thought = expr_seq(g, ending_with(l, f->think_end), calls),
               space   = expr_pattern(g, "[ \\t\\r\\n]*");
    if (f->thinks || !f->think.n)
        return f->thinks ? thought : calls;
    const Expr think = expr_seq(g, space, marker_expr(l, f->think));
    return expr_alt(g, expr_seq(g, think, thought),
                    expr_minus(g, calls, expr_seq(g, think, l->all)));
}

/* NULL: it failed. */
static Constraint *compile_lead(const Tokenizer *t, const CallFrame *f, Error *err)
{
    Grammar *g = grammar_new(err);
    if (!g)
        return NULL;
    const Lead l = lead_begin(g, t);
    return constraint_of_expr(g, f->begins.n ? before_begun(&l, f) : ending_with(&l, f->think_end),
                              "tools", err);
}

static bool has_lead(const CallFrame *f) { return f->thinks || f->begins.n; }

static tblock_constraint *make(const Making *m, int64_t begun, Error *err)
{
    const bool  leads = has_lead(m->form);
    Constraint *lead  = leads ? compile_lead(m->model->tokenizer, m->form, err) : NULL;
    if (leads && !lead)
        return NULL;
    tblock_constraint *calls = constraint_over(m->model, compile(m, err), begun, "tools", err);
    return leads ? constraint_behind(calls, lead, m->form->begins.n) : calls;
}

/* ---- Its text -------------------------------------------------------------------------------- */

enum { FIRST, NEXT, END, BEGINS, THINK, THINK_END, FORM_TEXTS, THINKS = FORM_TEXTS, TOOLS, FIELDS };
static const char *const keys[FIELDS] = { "first", "next",      "end",    "begins",
                                          "think", "think_end", "thinks", "tools" };

static bool write_form(TextOut *o, const CallFrame *f)
{
    const AnswerMarker none = { "", 0 }, text[FORM_TEXTS] = {
        [FIRST]     = { f->first.text, f->first.n },
        [NEXT]      = f->several ? (AnswerMarker){ f->next.text, f->next.n } : none,
        [END]       = { f->end.text, f->end.n },
        [BEGINS]    = f->begins,
        [THINK]     = has_lead(f) ? f->think : none,
        [THINK_END] = has_lead(f) ? f->think_end : none,
    };
    json_out(o, "{");
    for (int i = 0; i < FORM_TEXTS; i++) {
        if (text[i].n > MOST_CALL_TEXT || !utf8_valid(text[i].s, text[i].n))
            return false;
        json_out_member(o, keys[i], text[i].s, text[i].n);
    }
    json_out(o, "thinks: %i, tools: [", f->thinks);
    return true;
}

/* What the constraint is made of, and no more of the tools. False: no text can hold it. */
static bool write_text(TextOut *o, const Making *m)
{
    const JsonNode *at = m->tools + 1, *tool;
    size_t          n  = 0;
    if (!write_form(o, m->form))
        return false;
    for (; (tool = next_tool(m, &at)); n++) {
        const JsonNode *args = node_get(tool, "parameters");
        json_out(o, "{name:");
        json_out_node(o, m->doc, node_get(tool, "name"));
        json_out(o, args ? "parameters:" : "parameters: {}");
        if (args)
            json_out_node(o, m->doc, args);
        json_out(o, "}");
    }
    text_out(o, "]}");
    return n <= MOST_TOOLS;
}

/* Gives c, which may be NULL, this text. */
static tblock_constraint *with_text(tblock_constraint *c, const char *text, size_t n, Error *err)
{
    if (!c || constraint_keep_text(c, CONSTRAINT_CALLS, text, n, err))
        return c;
    tblock_constraint_free(c);
    return NULL;
}

tblock_constraint *calls_constraint(const tblock_model *m, const CallFrame *form,
                                    const JsonDoc *tools, const char *name, int64_t begun,
                                    Error *err)
{
    const Making       making = { m, form, tools, tools->node, name };
    tblock_constraint *c      = make(&making, begun, err);
    TextOut            text   = { .compact = true };
    if (c && write_text(&text, &making) && !text.failed)
        c = with_text(c, text.text, text.n, err);
    if (c && text.failed) {
        tblock_constraint_free(c);
        c = NULL;
        no_memory("tools", err);
    }
    text_out_free(&text);
    return c;
}

/* Reads a short text into a buffer. */
static bool read_text(const Record *in, const char *key, const JsonNode *j, AnswerMarker *out)
{
    if (j->kind != NODE_STRING || j->n > MOST_CALL_TEXT)
        return record_wrong(in, key, "a short text", j);
    *out = (AnswerMarker){ j->text, j->n };
    return true;
}

static bool read_form(const Record *in, const JsonNode *const v[FIELDS], CallFrame *f)
{
    AnswerMarker text[FORM_TEXTS];
    for (int i = 0; i < FORM_TEXTS; i++)
        if (!read_text(in, keys[i], v[i], &text[i]))
            return false;
    if (v[THINKS]->kind != NODE_TRUE && v[THINKS]->kind != NODE_FALSE)
        return record_wrong(in, "thinks", "true or false", v[THINKS]);
    text_out_bytes(&f->first, text[FIRST].s, text[FIRST].n);
    text_out_bytes(&f->next, text[NEXT].s, text[NEXT].n);
    text_out_bytes(&f->end, text[END].s, text[END].n);
    f->several   = text[NEXT].n;
    f->thinks    = v[THINKS]->kind == NODE_TRUE;
    f->begins    = text[BEGINS];
    f->think     = text[THINK];
    f->think_end = text[THINK_END];
    if (f->thinks && !f->think_end.n)
        return record_wrong(in, "think_end", "a marker, where the prompt thinks", v[THINK_END]);
    return (!f->first.failed && !f->next.failed && !f->end.failed) || no_memory(in->name, in->err);
}

static bool read_tools(const Record *in, const JsonNode *tools)
{
    static const char *const tool_keys[2] = { "name", "parameters" };
    const JsonNode          *v[2];
    if (tools->kind != NODE_ARRAY || !tools->n || tools->n > MOST_TOOLS)
        return record_wrong(in, "tools", "an array of 1 to 1,024 tools", tools);
    JSON_NODES (i, tools)
        if (!record_members(in, "tools", i, tool_keys, 2, 2, v))
            return false;
    return true;
}

tblock_constraint *calls_constraint_read(const tblock_model *m, const char *text, size_t n,
                                         const char *what, Error *err)
{
    const int64_t      begun = clock_ns();
    const Record       in    = { what, err };
    const JsonNode    *v[FIELDS];
    JsonDoc            d    = { 0 };
    CallFrame          form = { 0 };
    tblock_constraint *c    = NULL;
    if (json_doc_read(&d, text, n, JSON_NO_NUL | JSON_FINITE, what, err)
        && record_members(&in, "calls", d.node, keys, FIELDS, FIELDS, v) && read_form(&in, v, &form)
        && read_tools(&in, v[TOOLS]))
        c = with_text(make(&(Making){ m, &form, &d, v[TOOLS], NULL }, begun, err), text, n, err);
    call_form_free(&form);
    json_doc_free(&d);
    return c;
}

void call_form_free(CallFrame *f)
{
    text_out_free(&f->first);
    text_out_free(&f->next);
    text_out_free(&f->end);
}
