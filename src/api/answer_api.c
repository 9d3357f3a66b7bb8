/* api/answer_api.c: parses a reply as it streams, and makes the message of it. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/memory.h"

typedef struct Call { TextOut name, id, arguments; } Call;

struct tblock_answer {
    const AnswerForm *form;
    Answer *answer;
    TextOut content, reasoning;
    Call   *call;
    size_t  n_calls, cap;
};

static TextOut *place_of(tblock_answer *a, const AnswerPart *p)
{
    if (p->kind == ANSWER_CONTENT || p->kind == ANSWER_REASONING)
        return p->kind == ANSWER_CONTENT ? &a->content : &a->reasoning;
    if (p->kind == ANSWER_CALL) {
        if (!ARRAY_ROOM(a->call, a->cap, a->n_calls + 1))
            return NULL;
        a->call[a->n_calls++] = (Call){ 0 };
    }
    Call *c = &a->call[a->n_calls - 1];
    return p->kind == ANSWER_CALL ? &c->name : p->kind == ANSWER_CALL_ID ? &c->id : &c->arguments;
}

static bool keep_parts(tblock_answer *a, const AnswerPart *p, size_t n, Error *err)
{
    for (size_t i = 0; i < n; i++) {
        TextOut *o = place_of(a, &p[i]);
        if (!o || !text_out_bytes(o, p[i].text, p[i].n))
            return no_memory("answer", err);
    }
    return true;
}

FP_ENV_WORK
static bool put(tblock_answer *a, const char *text, size_t n_bytes, const AnswerPart **parts,
                size_t *n, Error *err)
{
    bool good = text ? answer_put(a->answer, text, n_bytes, false, err)
                     : answer_end(a->answer, err);
    *parts = good ? answer_parts(a->answer, n) : NULL;
    *n = good ? *n : 0;
    return good && keep_parts(a, *parts, *n, err);
}

bool tblock_answer_put(tblock_answer *a, const char *text, size_t n_bytes,
                       const tblock_answer_part **parts, size_t *n, tblock_error *err)
{
    NEED(false, err, a, parts, n);
    HOST_ENV_RETURN(bool, put(a, text, n_bytes, parts, n, err));
}

tblock_answer *tblock_answer_new(const tblock_chat *c, tblock_error *err)
{
    NEED(NULL, err, c);
    const ChatParts parts = chat_parts(c);
    tblock_answer  *a     = calloc(1, sizeof *a);
    if (!a) {
        no_memory("answer", err);
        return NULL;
    }
    a->form   = parts.answers;
    a->answer = answer_new(a->form, parts.tools->node, err);
    if (a->answer)
        return a;
    tblock_answer_free(a);
    return NULL;
}

void tblock_answer_free(tblock_answer *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->n_calls; i++) {
        text_out_free(&a->call[i].name);
        text_out_free(&a->call[i].id);
        text_out_free(&a->call[i].arguments);
    }
    answer_free(a->answer);
    text_out_free(&a->content);
    text_out_free(&a->reasoning);
    free(a->call);
    free(a);
}

/* ---- The parts of a reply -------------------------------------------------------------------- */

static const char *text_of(const TextOut *o) { return o->text ? o->text : ""; }

void tblock_answer_describe(const tblock_answer *a, tblock_answer_info *out)
{
    NEED(, NULL, a, out);
    *out = (tblock_answer_info){ .content     = text_of(&a->content),
                                 .n_content   = a->content.n,
                                 .reasoning   = text_of(&a->reasoning),
                                 .n_reasoning = a->reasoning.n,
                                 .n_calls     = a->n_calls };
}

void tblock_answer_describe_call(const tblock_answer *a, size_t i, tblock_answer_call_info *out)
{
    NEED(, NULL, a, out);
    const Call *c = &a->call[i];
    *out = (tblock_answer_call_info){ .name        = text_of(&c->name),
                                      .n_name      = c->name.n,
                                      .id          = text_of(&c->id),
                                      .n_id        = c->id.n,
                                      .arguments   = text_of(&c->arguments),
                                      .n_arguments = c->arguments.n };
}

/* ---- The message ----------------------------------------------------------------------------- */

/* Incomplete arguments, or those that the template wants as text, are a string. */
static void out_arguments(TextOut *o, const tblock_answer *a, const TextOut *text)
{
    JsonDoc d = { 0 };
    Error   e = { 0 };
    bool good = json_doc_read(&d, text->text, text->n, JSON_NO_NUL | JSON_FINITE, "arguments", &e)
        && d.node->kind == NODE_OBJECT && !answer_form_facts(a->form).text_arguments;
    o->failed |= e.status == SYSTEM;
    if (good)
        json_out_node(o, &d, d.node);
    else
        json_out_string(o, text->text, text->n);
    json_doc_free(&d);
}

static void out_call(TextOut *o, const tblock_answer *a, size_t i)
{
    const Call *c = &a->call[i];
    char        made[16]; /* nine letters and digits, as some templates demand */
    snprintf(made, sizeof made, "call%05zu", i % 100000);
    json_out(o, "{");
    json_out_member(o, "id", c->id.n ? c->id.text : made, c->id.n ? c->id.n : strlen(made));
    json_out(o, "type: function, function: {");
    json_out_member(o, "name", c->name.text, c->name.n);
    json_out(o, "arguments:");
    out_arguments(o, a, &c->arguments);
    json_out(o, "}}");
}

bool tblock_answer_json(const tblock_answer *a, char **json, tblock_error *err)
{
    NEED(false, err, json);
    *json = NULL;
    NEED(false, err, a);
    AnswerFacts facts = answer_form_facts(a->form);
    const char *key = facts.reasoning_key && strcmp(facts.reasoning_key, "tool_plan") == 0
                          ? facts.reasoning_key : "reasoning_content";
    TextOut     o = { 0 };
    json_out(&o, "{role: assistant");
    if (!a->content.n && a->n_calls && facts.no_content)
        json_out(&o, "content: null");
    else
        json_out_member(&o, "content", a->content.text, a->content.n);
    if (a->reasoning.n)
        json_out_member(&o, key, a->reasoning.text, a->reasoning.n);
    json_out(&o, a->n_calls ? "tool_calls: [" : "");
    for (size_t i = 0; i < a->n_calls; i++)
        out_call(&o, a, i);
    json_out(&o, a->n_calls ? "]}" : "}");
    *json = text_out_take(&o, err);
    return *json != NULL;
}
