/* api/chat_calls.c: constraints under which an answer calls tools. The chat's template writes calls
 * of words that nothing else has; what it puts around them is what must be drawn, and each tool's
 * schema says what its arguments are. */
#include "api/fitting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/json.h"
#include "base/memory.h"

#define USER    "{\"role\": \"user\", \"content\": \"q\"}"
#define CONTENT "Wqcontent"
#define ID_1    "q1w2e3r4t" /* nine letters and digits, as some templates demand */
#define ID_2    "z9x8c7v6b"
#define NAME_1  "qzfirst"
#define NAME_2  "xwsecond"
#define KEY     "\"karg1\""
#define VALUE   "\"vala1\""
#define ARGS    "{" KEY ": " VALUE "}"

enum { MARK_NAME = 1, MARK_ID = 2 }; /* bytes that stand for them */

/* What is written before the arguments of the first call and of a later one, and after the last. */
typedef struct CallTexts { TextOut first, next, end; bool several; } CallTexts;

static void call_texts_free(CallTexts *t)
{
    text_out_free(&t->first);
    text_out_free(&t->next);
    text_out_free(&t->end);
}

static bool no_form(const tblock_chat *c, const char *why, Error *err)
{
    tblock_chat_info i;
    tblock_chat_describe(c, &i);
    return fail(err, INPUT, "chat template (%s): a call cannot be required: %s", i.name, why);
}

/* ---- What the template writes ---------------------------------------------------------------- */

/* answer NULL: the prompt of one. The caller frees. */
static char *written(const tblock_chat *c, const char *answer, Error *err)
{
    const tblock_chat_message m[] = { { .json = USER }, { .json = answer } };
    char                     *text;
    size_t                    n;
    return tblock_chat_text(c, m, answer ? 2 : 1, !answer, &text, &n, err) ? text : NULL;
}

static char *written_calls(const tblock_chat *c, int n, Error *err)
{
    static const char call[] = "{\"id\": \"%s\", \"type\": \"function\", \"function\": {\"name\": "
                               "\"%s\", \"arguments\": " ARGS "}}";
    TextOut           o = { 0 };
    text_out(&o, "{\"role\": \"assistant\", \"content\": %s, \"tool_calls\": [",
             answer_form_facts(chat_parts(c).answers).no_content ? "null" : "\"\"");
    text_out(&o, call, ID_1, NAME_1);
    if (n == 2) {
        text_out(&o, ", ");
        text_out(&o, call, ID_2, NAME_2);
    }
    text_out(&o, "]}");
    char *json = text_out_take(&o, err), *text = json ? written(c, json, err) : NULL;
    free(json);
    return text;
}

/* The arguments from s on; *end is behind them. NULL: not as an object in JSON. */
static const char *find_args(const char *s, const char **end)
{
    const char *key = strstr(s, KEY), *value = key ? strstr(key, VALUE) : NULL;
    if (!value)
        return NULL;
    while (key > s && key[-1] == ' ')
        key--;
    *end = value + strlen(VALUE);
    *end += strspn(*end, " ") + 1;
    return key > s && key[-1] == '{' && (*end)[-1] == '}' ? key - 1 : NULL;
}

/* s[0 .. n) with marks for name and id. False: the name is not there once. */
static bool mark(TextOut *o, const char *s, size_t n, const char *name, const char *id)
{
    const size_t n_name = strlen(name), n_id = strlen(id);
    int          names  = 0;
    for (size_t i = 0; i < n;) {
        const bool is_name = n - i >= n_name && memcmp(s + i, name, n_name) == 0;
        const bool is_id   = n - i >= n_id && memcmp(s + i, id, n_id) == 0;
        if (s[i] == MARK_NAME || s[i] == MARK_ID)
            return false;
        text_out_bytes(o, is_name ? &(char){ MARK_NAME } : is_id ? &(char){ MARK_ID } : s + i, 1);
        names += is_name;
        i += is_name ? n_name : is_id ? n_id : 1;
    }
    return names == 1;
}

/* What ends an answer begins at *end of the text, whose calls begin at *begin. */
static bool find_answer(const char *text, const char *prompt, const char *plain, const char **begin,
                        const char **end)
{
    const char  *content = strstr(plain, CONTENT);
    const char  *tail    = content ? content + strlen(CONTENT) : "";
    const size_t n = strlen(text), n_prompt = strlen(prompt), n_tail = strlen(tail);
    if (!content || n < n_prompt + n_tail || memcmp(text, prompt, n_prompt) != 0
        || memcmp(text + n - n_tail, tail, n_tail) != 0)
        return false;
    *begin = text + n_prompt;
    *end   = text + n - n_tail;
    return true;
}

/* Of two calls: what is between them, if the rest is as in one. False: no memory. */
static bool read_two(const char *two, const char *prompt, const char *plain, CallTexts *out)
{
    TextOut     first = { 0 };
    const char *begin, *tail, *end, *end_2,
        *args = find_answer(two, prompt, plain, &begin, &tail) ? find_args(begin, &end) : NULL,
        *more = args ? find_args(end, &end_2) : NULL;
    out->several = more && mark(&first, begin, (size_t)(args - begin), NAME_1, ID_1)
        && first.n == out->first.n && memcmp(first.text, out->first.text, first.n) == 0
        && mark(&out->next, end, (size_t)(more - end), NAME_2, ID_2)
        && (size_t)(tail - end_2) == out->end.n
        && (!out->end.n || memcmp(end_2, out->end.text, out->end.n) == 0);
    const bool good = !first.failed && !out->next.failed;
    text_out_free(&first);
    return good;
}

static bool find_texts(const tblock_chat *c, CallTexts *out, Error *err)
{
    Error       why    = { 0 };
    char       *prompt = written(c, NULL, err), *one = prompt ? written_calls(c, 1, err) : NULL,
               *plain  = one ? written(c, "{\"role\": \"assistant\", \"content\": \"" CONTENT "\"}",
                                       err)
                             : NULL,
               *two    = plain ? written_calls(c, 2, &why) : NULL; /* some have place for one */
    const char *begin, *tail, *end, *args;
    bool        good = plain != NULL && (two || why.status != SYSTEM || no_memory(NULL, err));
    if (good && !find_answer(one, prompt, plain, &begin, &tail))
        good = no_form(c, "calls do not stand where answers do", err);
    args = good ? find_args(begin, &end) : NULL;
    if (good && (!args || end > tail))
        good = no_form(c, "arguments are not an object in JSON", err);
    if (good && !mark(&out->first, begin, (size_t)(args - begin), NAME_1, ID_1))
        good = no_form(c, "the name does not stand once before the arguments", err);
    if (good)
        text_out_bytes(&out->end, end, (size_t)(tail - end));
    if (good && two && !read_two(two, prompt, plain, out))
        good = no_memory(NULL, err);
    tblock_free(prompt);
    tblock_free(one);
    tblock_free(plain);
    tblock_free(two);
    if (good && (out->first.failed || out->next.failed || out->end.failed))
        return no_memory(NULL, err);
    return good;
}

/* ---- Is it read as a call? ------------------------------------------------------------------- */

static void unmark(TextOut *o, const TextOut *marked, const char *name, const char *id)
{
    for (size_t i = 0; i < marked->n; i++) {
        const char s = marked->text[i];
        if (s == MARK_NAME || s == MARK_ID)
            text_out(o, "%s", s == MARK_NAME ? name : id);
        else
            text_out_bytes(o, &s, 1);
    }
}

/* Special tokens that it spells are none that may be drawn. */
static bool check_tokens_of(const tblock_chat *c, const Tokenizer *t, const TextOut *text,
                            Error *err)
{
    Ids         ids   = { 0 };
    size_t      n     = 0;
    const char *piece = "";
    char        why[160];
    bool        good = tokenizer_encode(t, text->text, text->n, true, false, &ids, err);
    for (size_t i = 0; good && i < ids.n; i++)
        if (!tokenizer_is_text(t, ids.id[i])) {
            tokenizer_piece(t, ids.id[i], &piece, &n);
            snprintf(why, sizeof why, "it has the special token %.*s, which no constraint allows",
                     (int)(n < 100 ? n : 100), piece);
            good = no_form(c, why, err);
        }
    free(ids.id);
    return good;
}

/* Do quotes and brackets pair, as in JSON, with some brackets open? Names of objects are told by
 * them. */
static bool is_balanced(const TextOut *text)
{
    int  open   = 0;
    bool inside = false;
    for (size_t i = 0; i < text->n && open >= 0; i++) {
        const char s = text->text[i];
        inside ^= s == '"';
        open += inside ? 0 : (s == '{' || s == '[') - (s == '}' || s == ']');
    }
    return open >= 0 && !inside;
}

/* The template's own answer must be read as just these calls. */
static bool check_texts(const tblock_chat *c, const Tokenizer *t, const CallTexts *texts,
                        Error *err)
{
    TextOut                   o = { 0 };
    tblock_answer_info        said;
    tblock_answer_call_info   call = { 0 };
    const tblock_answer_part *part;
    size_t                    n;
    tblock_answer            *a    = tblock_answer_new(c, err);
    const char               *name = texts->several ? NAME_2 : NAME_1;
    unmark(&o, &texts->first, NAME_1, ID_1);
    text_out(&o, ARGS);
    if (texts->several) {
        unmark(&o, &texts->next, NAME_2, ID_2);
        text_out(&o, ARGS);
    }
    text_out_bytes(&o, texts->end.text, texts->end.n);
    bool good = a && (!o.failed || no_memory(NULL, err)) && check_tokens_of(c, t, &o, err)
        && tblock_answer_put(a, o.text, o.n, &part, &n, err)
        && tblock_answer_put(a, NULL, 0, &part, &n, err);
    if (good) {
        tblock_answer_describe(a, &said);
        if (said.n_calls)
            tblock_answer_describe_call(a, said.n_calls - 1, &call);
        good = (said.n_calls == (texts->several ? 2 : 1) && !said.n_content
                && call.n_name == strlen(name) && memcmp(call.name, name, call.n_name) == 0
                && is_balanced(&texts->first) && is_balanced(&o))
            || no_form(c, "it would not be read as one", err);
    }
    tblock_answer_free(a);
    text_out_free(&o);
    return good;
}

/* ---- The grammar ----------------------------------------------------------------------------- */

/* Where a name may stand, no character of it means anything. */
static bool is_plain(const JsonNode *name)
{
    return name && name->kind == NODE_STRING && name->n
        && strspn(name->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
               == name->n;
}

static Expr text_expr(Grammar *g, const TextOut *marked, const char *name)
{
    static const char id[] = "[a-zA-Z0-9]{9}";
    Expr              e    = EXPR_EMPTY;
    for (size_t i = 0; i < marked->n; i++) {
        const char s = marked->text[i];
        e = expr_seq(g, e,
                     s == MARK_NAME     ? expr_text(g, name, strlen(name))
                         : s == MARK_ID ? expr_regex(g, id, sizeof id - 1, false, CHARS_UTF8, "id")
                                        : expr_text(g, &s, 1));
    }
    return e;
}

/* Arguments are an object, whether the schema says so or not. */
static bool args_rule(Grammar *g, const JsonDoc *d, const JsonNode *tool, const char *name,
                      Rule *out, Error *err)
{
    const JsonNode *schema = node_get(tool, "parameters"), *type = node_get(schema, "type");
    TextOut         text = { 0 }, what = { 0 };
    if ((schema && schema->kind != NODE_OBJECT) || (type && !node_is(type, "object")))
        return fail(err, INPUT, "tools: %s: parameters: expected a schema of type object", name);
    text_out(&text, "{\"type\": \"object\"");
    JSON_NODES (i, schema) {
        if (i == type)
            continue;
        text_out(&text, ", ");
        json_out_string(&text, i->key, i->key_n);
        text_out(&text, ": ");
        json_out_node(&text, d, i);
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

/* The calls of one tool, the first and later ones, as alternatives. */
static bool add_tool(Grammar *g, const JsonDoc *d, const JsonNode *tool, const CallTexts *t,
                     Rule first, Rule next, Error *err)
{
    const JsonNode *name = node_get(tool, "name");
    Rule            args;
    if (!is_plain(name))
        return fail(err, INPUT, "tools: name: expected letters, digits, _, - and . alone where a "
                                "call is required");
    if (!args_rule(g, d, tool, name->text, &args, err))
        return false;
    const Symbol one[]  = { symbol_expr(text_expr(g, &t->first, name->text)), symbol_rule(args) },
                 more[] = { symbol_expr(text_expr(g, &t->next, name->text)), symbol_rule(args) };
    grammar_add(g, first, one, 2);
    if (t->several)
        grammar_add(g, next, more, 2);
    return true;
}

static bool add_calls(Grammar *g, const JsonDoc *d, const char *name, const CallTexts *t,
                      Rule *root, Error *err)
{
    const Rule first = grammar_rule(g, "call"), next = t->several ? grammar_rule(g, "call") : first;
    size_t     n     = 0;
    *root            = grammar_rule(g, "calls");
    JSON_NODES (i, d->node) {
        const JsonNode *tool = node_get(i, "function") ? node_get(i, "function") : i;
        if (name && !node_is(node_get(tool, "name"), name))
            continue;
        if (!add_tool(g, d, tool, t, first, next, err))
            return false;
        n++;
    }
    if (!n)
        return fail(err, INPUT, "tools: expected %s%.100s, found no such tool",
                    name ? "the function " : "one", name ? name : "");
    Symbol row[3] = { symbol_rule(first) };
    n             = 1;
    if (t->several)
        row[n++] = grammar_repeat(g, symbol_rule(next), 0, REPEAT_FOREVER);
    if (t->end.n)
        row[n++] = symbol_expr(text_expr(g, &t->end, ""));
    grammar_add(g, *root, row, n);
    return true;
}

static Constraint *compile(const JsonDoc *tools, const char *name, const CallTexts *t, Error *err)
{
    Grammar *g    = grammar_new(err);
    Rule     root = 0;
    if (g && add_calls(g, tools, name, t, &root, err))
        return constraint_new(g, root, "tools", err);
    grammar_free(g);
    return NULL;
}

static tblock_constraint *chat_calls(const tblock_chat *c, const char *name, bool several,
                                     Error *err)
{
    const int64_t      begun = clock_ns();
    const ChatParts    parts = chat_parts(c);
    CallTexts          texts = { 0 };
    tblock_constraint *out   = NULL;
    bool               good  = parts.tools->node != NULL
        || fail(err, INPUT, "tools: expected one, found none");
    if (good && !answer_form_facts(parts.answers).calls)
        good = no_form(c, "it shows none that could be read", err);
    if (good && find_texts(c, &texts, err) && check_texts(c, parts.model->tokenizer, &texts, err)) {
        texts.several = texts.several && several;
        out = constraint_over(parts.model, compile(parts.tools, name, &texts, err), begun, "tools",
                              err);
    }
    call_texts_free(&texts);
    return out;
}

tblock_constraint *tblock_chat_calls(const tblock_chat *c, const char *name, bool several,
                                     tblock_error *err)
{
    HOST_ENV_RETURN(tblock_constraint *, chat_calls(c, name, several, err));
}
