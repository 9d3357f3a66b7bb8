/* Answers for tests in other languages: one JSON object a line on stdin, one answer a line on
 * stdout.
 *   {"template": text, "own": variables, "args": text, "has_tools": bool, "tools": array,
 *    "specials": [text], "answer": text}
 * answers {"reasoning": bool, "calls": bool, "key": text or null, "text_arguments": bool,
 * "whole": parts, "bytes": parts, "cuts": [parts]}: the answer in one piece, byte by byte, and cut
 * after each byte (if "cut" is true). Parts of one kind are joined. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "chat/chat_answer.h"
#include "requests.h"

static const char *const kinds[] = { "content", "reasoning", "call", "id", "arguments", "end" };

typedef struct Told { TextOut text; int kind, call; TextOut parts; } Told;

static void flush(Told *t)
{
    if (t->kind < 0)
        return;
    text_out(&t->parts, "%s[\"%s\", %d, ", t->parts.n ? ", " : "", kinds[t->kind], t->call);
    json_out_string(&t->parts, t->text.text, t->text.n);
    text_out(&t->parts, "]");
    t->text.n = 0;
    t->kind = -1;
}

static void collect(Told *t, const Answer *a)
{
    size_t            n;
    const AnswerPart *p = answer_parts(a, &n);
    for (size_t i = 0; i < n; i++) {
        if ((int)p[i].kind != t->kind || p[i].call != t->call || p[i].kind == ANSWER_CALL)
            flush(t);
        t->kind = (int)p[i].kind;
        t->call = p[i].call;
        text_out_bytes(&t->text, p[i].text, p[i].n);
        if (strlen(p[i].text) != p[i].n)
            abort();
    }
}

static const JsonNode *specials;

static size_t special(const void *user, const char *s, size_t n)
{
    size_t best = 0;
    JSON_NODES (i, (const JsonNode *)user)
        if (i->n <= n && i->n > best && memcmp(s, i->text, i->n) == 0)
            best = i->n;
    return best;
}

/* step: bytes at once; 0: all. Up to byte n. */
static char *read_answer(const AnswerForm *f, const JsonNode *tools, const char *s, size_t n,
                         size_t step)
{
    Error   e = { 0 };
    Told    t = { .kind = -1 };
    Answer *a = answer_new(f, tools, &e);
    bool    good = a != NULL;
    for (size_t i = 0, k; good && i < n; i += k) {
        size_t m = specials ? special(specials, s + i, n - i) : 0;
        bool   is = m > 0;
        if (!m)
            for (m = 1; i + m < n && !(specials && special(specials, s + i + m, n - i - m)); m++)
                ;
        k = !is && step && step < m ? step : m;
        good = answer_put(a, s + i, k, is, &e);
        if (good)
            collect(&t, a);
    }
    good = good && answer_end(a, &e);
    if (!good)
        abort();
    collect(&t, a);
    flush(&t);
    answer_free(a);
    text_out_free(&t.text);
    return t.parts.n ? text_out_take(&t.parts, &e) : strdup("");
}

static void answer(const JsonNode *j)
{
    Error e = { 0 };
    static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };
    const JsonNode *text = node_get(j, "template"), *args = node_get(j, "args"),
                   *said = node_get(j, "answer"), *tools = node_get(j, "tools");
    specials = node_get(j, "specials");
    AnswerInput in = { node_get(j, "own"), args && args->kind == NODE_STRING ? args->text : NULL,
                       "2026-02-03", roles, node_truth(node_get(j, "has_tools")),
                       specials ? special : NULL, specials };
    Jinja      *t = jinja_parse(text->text, text->n, "template", &e);
    AnswerForm *f = t ? answer_form_new(t, &in, &e) : NULL;
    jinja_free(t);
    if (!f) {
        printf("{\"error\": \"%s\"}\n", e.msg);
        return;
    }
    AnswerFacts facts = answer_form_facts(f);
    char *whole = read_answer(f, tools, said->text, said->n, 0),
         *bytes = read_answer(f, tools, said->text, said->n, 1);
    printf("{\"reasoning\": %s, \"calls\": %s, \"key\": \"%s\", \"text_arguments\": %s, \"whole\": "
           "[%s], \"bytes\": [%s], \"cuts\": [", facts.reasoning ? "true" : "false",
           facts.calls ? "true" : "false", facts.reasoning_key ? facts.reasoning_key : "",
           facts.text_arguments ? "true" : "false", whole, bytes);
    for (size_t i = 0; i < said->n && node_truth(node_get(j, "cut")); i++) {
        char *cut = read_answer(f, tools, said->text, i, 1);
        printf("%s[%s]", i ? ", " : "", cut);
        free(cut);
    }
    printf("]}\n");
    free(whole);
    free(bytes);
    answer_form_free(f);
}

int main(void) { return answer_requests(answer); }
